//! Dependents, reduced to the references that are counted.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use depguard_core::lookup::{ObjectReference, ReferenceReader, ReferenceTarget, ReferencedObject};
use depguard_kcp::Form;
use serde_json::Value;

use super::kind_watch::Index;

/// Dependents of one kind that hold references, in the order of their namespaces and names.
#[derive(Debug)]
pub(super) struct Dependents {
    reader: Arc<ReferenceReader>,
    objects: BTreeMap<DependentName, Dependent>,
    bytes: usize,
    /// Number of the last list.
    list: u32,
}

#[derive(Debug)]
struct Dependent {
    held: Box<[HeldReference]>,
    /// Number of the list that was last when the object was seen.
    list: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DependentName {
    pub(super) namespace: Option<Box<str>>,
    pub(super) name: Box<str>,
}

/// Form that shows whole objects.
pub(super) struct ObjectForm;

/// Reference of a dependent.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeldReference {
    /// Index of the edge, in the order of the reader's edges.
    pub(super) edge: usize,
    pub(super) means: Meaning,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Meaning {
    Named(NamedTarget),
    /// Unknown, for this reason: the end of a sentence that begins with the object.
    Unclear(Box<str>),
}

/// Target that a reference names.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NamedTarget {
    pub(super) name: Box<str>,
    /// Namespace, if the target's kind has namespaces. `None`: any.
    pub(super) namespace: Option<Box<str>>,
    pub(super) uid: Option<Box<str>>,
}

impl Dependents {
    /// Makes an empty index. The reader must have at least one edge.
    pub(super) fn new(reader: ReferenceReader) -> Self {
        Self { reader: Arc::new(reader), objects: BTreeMap::new(), bytes: 0, list: 0 }
    }

    /// Returns all dependents with their references.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&DependentName, &HeldReference)> {
        self.objects.iter().flat_map(|(name, dependent)| dependent.held.iter().map(move |held| (name, held)))
    }

    /// Reads the references of an object in their order, each once, however often the object holds it.
    fn read(&self, object: &Value) -> Box<[HeldReference]> {
        let mut held = BTreeSet::new();
        let read = self.reader.read(object, |reference| held.extend(HeldReference::new(reference)));
        if let Err(why) = read {
            // Nobody knows whose reference it is, so each edge may have one.
            let why = shortened(&format!("can't be read: {why}"));
            return Box::new([HeldReference { edge: ALL_EDGES, means: Meaning::Unclear(why) }]);
        }
        held.into_iter().collect()
    }

    fn forget(&mut self, name: &DependentName) -> Option<Box<[HeldReference]>> {
        let Dependent { held, .. } = self.objects.remove(name)?;
        self.bytes = self.bytes.saturating_sub(bytes(name, &held));
        Some(held)
    }
}

/// Index that stands for each edge of the reader.
pub(super) const ALL_EDGES: usize = usize::MAX;

impl Form for ObjectForm {
    type Object = Value;

    fn read(&self, json: &str) -> serde_json::Result<Value> {
        serde_json::from_str(json)
    }
}

impl Index for Dependents {
    type Shown = Value;

    fn empty(&self) -> Self {
        Self { reader: Arc::clone(&self.reader), objects: BTreeMap::new(), bytes: 0, list: 0 }
    }

    fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    fn put(&mut self, object: Value) -> bool {
        let name = DependentName::of(&object);
        let held = self.read(&object);
        let known = self.forget(&name);
        let is_news = known.as_deref().unwrap_or_default() != &*held;
        if !held.is_empty() {
            self.bytes = self.bytes.saturating_add(bytes(&name, &held));
            self.objects.insert(name, Dependent { held, list: self.list });
        }
        is_news
    }

    fn remove(&mut self, object: &Value) -> bool {
        self.forget(&DependentName::of(object)).is_some()
    }

    fn end_list(&mut self) -> bool {
        let gone: Vec<_> = self.objects.extract_if(.., |_, dependent| dependent.list != self.list).collect();
        for (name, dependent) in &gone {
            self.bytes = self.bytes.saturating_sub(bytes(name, &dependent.held));
        }
        !gone.is_empty()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Memory of a node of the map and of an allocation, beside their contents.
const OVERHEAD: usize = 64;

/// Returns the memory of a dependent.
fn bytes(name: &DependentName, held: &[HeldReference]) -> usize {
    let length = |text: &Option<Box<str>>| text.as_deref().map_or(0, str::len);
    let each = held.iter().map(|HeldReference { edge: _, means }| {
        let texts = match means {
            Meaning::Named(NamedTarget { name, namespace, uid }) => name.len() + length(namespace) + length(uid),
            Meaning::Unclear(why) => why.len(),
        };
        size_of::<HeldReference>() + OVERHEAD + texts
    });
    size_of::<DependentName>() + OVERHEAD + name.name.len() + length(&name.namespace) + each.sum::<usize>()
}

/// Maximum length of a name, a namespace and a UID, in bytes. No object has a longer one.
const MAX_NAME: usize = 253;

/// Returns a text that is kept: no more than its beginning if it is too long for a name. Its last character then is one
/// that no name has, so that the text names no object.
fn shortened(text: &str) -> Box<str> {
    if text.len() <= MAX_NAME {
        text.into()
    } else {
        format!("{}…", &text[..text.floor_char_boundary(MAX_NAME)]).into()
    }
}

impl DependentName {
    fn of(object: &Value) -> Self {
        let ReferencedObject { namespace, name, .. } = ReferencedObject::read(object);
        Self { namespace: namespace.map(Into::into), name: name.into() }
    }
}

impl HeldReference {
    /// Returns the reference, unless a selector holds it: one that selects nothing lacks no target.
    fn new(reference: ObjectReference<'_>) -> Option<Self> {
        let kept = |text: Cow<'_, str>| shortened(&text);
        let means = match reference.means {
            ReferenceTarget::Named { name, namespace, uid } => {
                Meaning::Named(NamedTarget { name: kept(name), namespace: namespace.map(kept), uid: uid.map(kept) })
            }
            ReferenceTarget::Selected { .. } => return None,
            ReferenceTarget::Unclear { why, .. } => Meaning::Unclear(shortened(&why)),
        };
        Some(Self { edge: reference.edge, means })
    }
}

/// Writes `x/m1`, or `m1` for an object without a namespace.
impl fmt::Display for DependentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use depguard_core::{ControlPlane, Rule};
    use serde_json::json;

    use super::*;

    /// Makes the index of machines that name any number of networks.
    fn machines() -> Dependents {
        let rule = json!({"metadata": {"name": "a"}, "spec": {
            "dependent": {"group": "c.example.com", "version": "v1", "kind": "VM", "resource": "vms"},
            "dependencies": [{"group": "n.example.com", "version": "v1", "resource": "vpcs",
                "fieldRef": {"path": ".spec.vpcs[*]"}, "onMissing": "Warn"}],
        }});
        let rule = Rule::parse(ControlPlane::Kubernetes, &rule).unwrap();
        Dependents::new(ReferenceReader::new(rule.edges().iter().map(|edge| (&rule, edge))))
    }

    fn machine(name: &str, vpcs: &[&str]) -> Value {
        json!({"metadata": {"namespace": "x", "name": name}, "spec": {"vpcs": vpcs}})
    }

    #[test]
    fn references_count_once_in_any_order_and_their_memory_is_known() {
        let mut machines = machines();
        assert!(machines.put(machine("m", &["b", "a", "b"])));
        let bytes = machines.bytes();
        assert!(bytes > 0 && machines.iter().count() == 2);
        assert!(!machines.put(machine("m", &["a", "a", "b"])) && machines.bytes() == bytes);
        assert!(machines.put(machine("m", &["a"])) && machines.bytes() < bytes);
        assert!(!machines.put(machine("other", &[])));
        assert!(machines.remove(&machine("m", &[])) && machines.bytes() == 0);
    }

    /// Anybody may write a text of a megabyte into a field that names a target. A status must not become as long.
    #[test]
    fn of_a_text_that_is_no_name_only_the_beginning_is_kept() {
        let mut machines = machines();
        let name = "é".repeat(500_000);
        machines.put(machine("m", &[&name]));
        assert!(machines.bytes() < 1000, "{}", machines.bytes());
        let (_, held) = machines.iter().next().unwrap();
        let Meaning::Named(target) = &held.means else { panic!("{held:?}") };
        assert_eq!(*target.name, format!("{}…", "é".repeat(126)));
    }
}
