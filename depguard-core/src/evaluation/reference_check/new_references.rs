//! References that a creation or a change makes: those of the new object that the old one doesn't hold.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::lookup::matcher::ReferenceMatcher;
use crate::lookup::reference::ReferenceTarget;
use crate::model::field_path::FieldPath;
use crate::protocol::admission_review::ReviewedObject;
use crate::rule::compiled_edge::{CompiledEdge, EdgeState};
use crate::scan::extract::PageError;
use crate::scan::text::Text;

/// The changed object, reduced to the data that decides about its references.
#[derive(Debug, Default)]
pub(super) struct Holder {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) uid: Option<String>,
    /// UIDs of the object's owners.
    pub(super) owners: Vec<String>,
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

/// Both states of an object with too many references to compare one by one.
struct UnchangedFields(Option<(Value, Value)>);

impl Holder {
    /// Reads the data of an object; `None` if the owners can't be read.
    pub(super) fn read(object: &str, metadata: &ReviewedObject<'_>, name: &str) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<'a> {
            #[serde(borrow)]
            owner_references: Option<Vec<Owner<'a>>>,
        }
        #[derive(Deserialize)]
        struct Owner<'a> {
            #[serde(borrow)]
            uid: Option<Text<'a>>,
        }
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            metadata: Metadata<'a>,
        }
        let owned = serde_json::from_str::<Object<'_>>(object).ok()?;
        let owners = owned.metadata.owner_references.into_iter().flatten();
        Some(Self {
            namespace: metadata.namespace().map(str::to_owned),
            name: name.to_owned(),
            uid: metadata.uid().map(str::to_owned),
            owners: owners.filter_map(|owner| Some(owner.uid?.as_str().to_owned())).collect(),
        })
    }

    /// Returns true if the reference names the object itself.
    fn is(&self, edge: &CompiledEdge, reference: &NewReference) -> bool {
        let NewReference { edge: _, name, namespace, uid } = reference;
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

    /// Reads the references of `object` by `edges` that `old_object` doesn't hold. References of the object to itself
    /// are left out.
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
        references.certain.retain(|reference| {
            let is_self = edges.get(reference.edge).is_some_and(|edge| holder.is(edge, reference));
            !is_self && known.insert(reference.clone())
        });
        if let Some(old_object) = old_object.filter(|_| !references.unclear.is_empty()) {
            let unchanged = UnchangedFields::new(object, old_object);
            references.unclear.retain(|(edge, _)| !edges.get(*edge).is_some_and(|edge| unchanged.hold_inputs(edge)));
        }
        Ok(references)
    }

    /// Reads all references of an object, each as often as the object holds it.
    fn held(matcher: &ReferenceMatcher, object: &str) -> Result<Self, PageError> {
        let mut held = Self::default();
        let list = [br#"{"metadata":{},"items":["#, object.as_bytes(), b"]}"].concat();
        matcher.references(&list, |reference| match reference.means {
            ReferenceTarget::Named { name, namespace, uid } => held.certain.push(NewReference {
                edge: reference.edge,
                name: name.into_owned(),
                namespace: namespace.map(Into::into),
                uid: uid.map(Into::into),
            }),
            // No rule looks for the targets of a selector.
            ReferenceTarget::Selected { .. } => {}
            ReferenceTarget::Unclear { why, .. } => held.unclear.push((reference.edge, why)),
        })?;
        Ok(held)
    }
}

impl UnchangedFields {
    fn new(object: &str, old_object: &str) -> Self {
        Self(serde_json::from_str(object).ok().zip(serde_json::from_str(old_object).ok()))
    }

    /// Returns true if no field that decides about the edge's references differs, so that no reference can be new.
    fn hold_inputs(&self, edge: &CompiledEdge) -> bool {
        let (Some((object, old_object)), EdgeState::Usable { dependent, edge }) = (&self.0, &edge.state) else {
            return false;
        };
        let subtree =
            |state, path: &FieldPath| path.leading_names().try_fold(state, |value: &Value, name| value.get(name));
        edge.inputs(dependent).all(|path| subtree(object, &path) == subtree(old_object, &path))
    }
}
