//! References that a creation or a change makes: those of the new object that the old one doesn't hold.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lookup::matcher::ReferenceMatcher;
use crate::lookup::reference::ReferenceTarget;
use crate::model::ownership::{OwnerReference, lost_owner};
use crate::protocol::reviewed_object::ReviewedObject;
use crate::rule::compiled_edge::{CompiledEdge, EdgeState};
use crate::scan::extract::PageError;
use crate::scan::json::{Json, Malformed, Value};

/// The changed object, reduced to the data that decides about its references.
#[derive(Debug, Default)]
pub(super) struct Holder {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) uid: Option<String>,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) old_owners: Vec<OwnerReference>,
}

/// A reference that begins to count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NewReference {
    /// The index of the edge.
    pub(super) edge: usize,
    pub(super) name: String,
    /// The target's namespace, if its kind has namespaces. `None`: any.
    pub(super) namespace: Option<String>,
    /// The UID that the target must have.
    pub(super) uid: Option<String>,
    /// True if the object held the reference before, but may have gone with the target.
    pub(super) is_old: bool,
}

/// References that a change makes, by some edges.
#[derive(Debug, Default)]
pub(super) struct NewReferences {
    /// Each reference once, in the order of the object.
    pub(super) certain: Vec<NewReference>,
    /// Edges of which the object may hold further references, each with the reason: the end of a sentence that begins
    /// with the object.
    pub(super) unclear: Vec<(usize, String)>,
}

/// Both states of an object with too many references to compare one by one. They are compared as text, which is a little
/// stricter than needed: a tree of an object takes many times the memory of its text, and a tenant chooses the object.
struct UnchangedFields<'a> {
    object: &'a str,
    old_object: &'a str,
}

impl Holder {
    /// Reads the data of an object, and of its state before; `None` if the owners can't be read.
    pub(super) fn read(
        object: &str,
        old_object: Option<&str>,
        metadata: &ReviewedObject<'_>,
        name: &str,
    ) -> Option<Self> {
        let owners = owners(object)?;
        let old_owners = old_object.map_or_else(|| Some(Vec::new()), self::owners)?;
        Some(Self {
            namespace: metadata.namespace().map(str::to_owned),
            name: name.to_owned(),
            uid: metadata.uid().map(str::to_owned),
            owners,
            old_owners,
        })
    }

    /// Returns the owner with which the object may have gone before the change, and may not go any more: what refers to
    /// the owner counts from now on.
    pub(super) fn lost_owner(&self) -> Option<&OwnerReference> {
        lost_owner(&self.old_owners, &self.owners)
    }

    /// Returns true if the reference names the object itself.
    fn is(&self, edge: &CompiledEdge, reference: &NewReference) -> bool {
        let NewReference { edge: _, name, namespace, uid, is_old: _ } = reference;
        edge.target == edge.dependent
            && *name == self.name
            && namespace.as_ref().is_none_or(|namespace| self.namespace.as_ref().is_none_or(|own| own == namespace))
            && uid.as_ref().is_none_or(|uid| self.uid.as_ref().is_none_or(|own| own == uid))
    }
}

impl NewReferences {
    pub(super) fn is_empty(&self) -> bool {
        self.certain.is_empty() && self.unclear.is_empty()
    }

    /// Reads the references of `object` by `edges` that `old_object` doesn't hold, or with whose targets `object` doesn't
    /// go any more. References of the object to itself are left out.
    pub(super) fn read(
        edges: &[Arc<CompiledEdge>],
        holder: &Holder,
        object: &str,
        old_object: Option<&str>,
    ) -> Result<Self, PageError> {
        let matcher = ReferenceMatcher::new(edges);
        let known = old_object.map(|old_object| Self::held(&matcher, old_object)).transpose()?;
        let mut known: HashSet<_> = known.into_iter().flat_map(|known| known.certain).collect();
        let mut references = Self::held(&matcher, object)?;
        // The owner that was lost, if a reference by the edge may mean it.
        let lost_owner = holder.lost_owner();
        let lost =
            |edge: &CompiledEdge| lost_owner.filter(|owner| owner.version_in(edge.target.group.as_str()).is_some());
        references.certain.retain_mut(|reference| {
            let Some(edge) = edges.get(reference.edge).filter(|edge| !holder.is(edge, reference)) else { return false };
            // The first time, the reference is new. Later, it is old.
            known.insert(reference.clone()) || {
                reference.is_old = lost(edge).is_some_and(|owner| owner.name == reference.name);
                reference.is_old && known.insert(reference.clone())
            }
        });
        if let Some(old_object) = old_object.filter(|_| !references.unclear.is_empty()) {
            let unchanged = UnchangedFields { object, old_object };
            let is_known = |edge: usize| edges.get(edge).filter(|edge| unchanged.hold_inputs(edge));
            // Among the references that were not read may be one to the owner.
            let known = references.unclear.iter().filter_map(|(edge, _)| Some((*edge, is_known(*edge)?)));
            let old = known.filter_map(|(edge, known)| {
                let name = lost(known)?.name.clone();
                Some(NewReference { edge, name, namespace: holder.namespace.clone(), uid: None, is_old: true })
            });
            references.certain.extend(old);
            references.unclear.retain(|(edge, _)| is_known(*edge).is_none());
        }
        Ok(references)
    }

    /// Keeps the first references for which there is room, and takes the room. The edges of the others are unclear.
    pub(super) fn keep_within(&mut self, room: &mut usize) {
        let rest = self.certain.split_off(self.certain.len().min(*room));
        *room -= self.certain.len();
        let edges: BTreeSet<_> = rest.into_iter().map(|reference| reference.edge).collect();
        self.unclear.extend(edges.into_iter().map(|edge| (edge, "begins to hold too many references".to_owned())));
    }

    /// Reads all references of an object, each as often as the object holds it.
    fn held(matcher: &ReferenceMatcher, object: &str) -> Result<Self, PageError> {
        let mut held = Self::default();
        matcher.references(object, |reference| match reference.means {
            ReferenceTarget::Named { name, namespace, uid } => held.certain.push(NewReference {
                edge: reference.edge,
                name: name.into_owned(),
                namespace: namespace.map(Into::into),
                uid: uid.map(Into::into),
                is_old: false,
            }),
            // No rule looks for the targets of a selector.
            ReferenceTarget::Selected { .. } => {}
            ReferenceTarget::Unclear { why, .. } => held.unclear.push((reference.edge, why)),
        })?;
        Ok(held)
    }
}

/// Maximum length of an object's ownerReferences, in bytes: some hundreds of owners.
const MAX_OWNERS: usize = 64 << 10;

/// Reads the ownerReferences of an object; `None` if they are no list of them, or a very long one.
fn owners(object: &str) -> Option<Vec<OwnerReference>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        #[serde(borrow)]
        owner_references: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    let owned = serde_json::from_str::<Object<'_>>(object).ok()?;
    let owners = owned.metadata.owner_references.map_or("null", RawValue::get);
    let owners = (owners.len() <= MAX_OWNERS).then(|| serde_json::from_str::<Option<Vec<_>>>(owners))?;
    Some(owners.ok()?.unwrap_or_default())
}

impl UnchangedFields<'_> {
    /// Returns true if no field that decides about the edge's references differs, so that no reference can be new.
    fn hold_inputs(&self, edge: &CompiledEdge) -> bool {
        let EdgeState::Usable { dependent, edge } = &edge.state else { return false };
        edge.inputs(dependent).all(|path| {
            let names: Vec<_> = path.leading_names().collect();
            let (mut new, mut old) = (Json::new(self.object.as_bytes()), Json::new(self.old_object.as_bytes()));
            matches!((part(&mut new, &names), part(&mut old, &names)), (Ok(new), Ok(old)) if new == old)
        })
    }
}

/// Returns the text of the part of a value to which names lead; `None` if there is none. A name that stands twice is an
/// error: nobody knows which of the two counts.
fn part<'o>(json: &mut Json<'o>, names: &[&str]) -> Result<Option<&'o str>, Malformed> {
    let Some((name, rest)) = names.split_first() else {
        let start = json.offset();
        json.skip()?;
        return json.text_since(start).map(Some);
    };
    let Value::Map = json.clone().value()? else { return json.skip().map(|()| None) };
    json.value()?;
    let mut found = None;
    let mut next = json.first_key()?;
    while let Some(key) = next {
        if *key.bytes()? != *name.as_bytes() {
            json.skip()?;
        } else if found.is_none() {
            found = Some(part(json, rest)?);
        } else {
            return Err(json.expected("each key once"));
        }
        next = json.next_key()?;
    }
    Ok(found.flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_an_object_is_found_as_text() {
        let object =
            r#"{"a": 1, "spec": {"x": [1, {"b": 2}], "b\u0063": {"d": "e"}}, "list": [], "twice": 1, "twice": 1}"#;
        let found = |names: &[&str]| part(&mut Json::new(object.as_bytes()), names).map_err(|why| why.expected);
        assert_eq!(found(&["spec", "x"]), Ok(Some(r#"[1, {"b": 2}]"#)));
        assert_eq!(found(&["spec", "bc", "d"]), Ok(Some(r#""e""#)));
        assert_eq!(found(&["a"]), Ok(Some("1")));
        for absent in [&["spec", "y"][..], &["b"], &["a", "b"], &["list", "0"]] {
            assert_eq!(found(absent), Ok(None), "{absent:?}");
        }
        assert_eq!(found(&["twice"]), Err("each key once"));
        assert_eq!(found(&[]).map(|all| all.map(str::len)), Ok(Some(object.len())));
    }
}
