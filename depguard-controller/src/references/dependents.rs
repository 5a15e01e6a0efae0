//! Dependents, reduced to the references that are counted.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use depguard_core::lookup::{ObjectReference, ReferenceReader, ReferenceTarget};
use depguard_kcp::Form;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::kind_watch::Index;
use super::space::Space;

/// Dependents of one kind that hold references, in the order of their namespaces and names.
#[derive(Debug)]
pub(super) struct Dependents {
    space: Space,
    objects: BTreeMap<ObjectName, Dependent>,
    bytes: usize,
    /// Number of the last list.
    list: u32,
}

#[derive(Debug)]
struct Dependent {
    held: Box<[HeldReference]>,
    /// Bytes of its namespace's part of the space.
    taken: usize,
    /// Number of the list that was last when the object was seen.
    list: u32,
}

/// Name of a dependent or a target, with its namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectName {
    pub(super) namespace: Option<Box<str>>,
    pub(super) name: Box<str>,
}

/// Form that shows a dependent by its references, each once, however often the object holds it. No tree is made of an
/// object: it would take many times the memory of the text, which any tenant may write.
#[derive(Debug, Clone)]
pub(super) struct ReferenceForm {
    reader: Arc<ReferenceReader>,
    pages: Arc<Semaphore>,
}

/// Dependent with its references, in their order.
pub(super) type HeldReferences = (ObjectName, Box<[HeldReference]>);

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
    /// Returns all dependents with their references.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectName, &HeldReference)> {
        self.objects.iter().flat_map(|(name, dependent)| dependent.held.iter().map(move |held| (name, held)))
    }

    /// Makes an empty index in this space.
    pub(super) fn new(space: &Space) -> Self {
        Self { space: space.clone(), objects: BTreeMap::new(), bytes: 0, list: 0 }
    }

    fn forget(&mut self, name: &ObjectName) -> Option<Box<[HeldReference]>> {
        let Dependent { held, taken, .. } = self.objects.remove(name)?;
        self.bytes = self.bytes.saturating_sub(bytes(name, &held));
        self.space.give_back(name.namespace.as_deref(), taken);
        Some(held)
    }
}

impl Drop for Dependents {
    fn drop(&mut self) {
        for (name, Dependent { taken, .. }) in &self.objects {
            self.space.give_back(name.namespace.as_deref(), *taken);
        }
    }
}

/// Index that stands for each edge of the reader.
pub(super) const ALL_EDGES: usize = usize::MAX;

impl ReferenceForm {
    /// Makes the form of a reader, which must have at least one edge. `pages` are the places for pages that may be read at
    /// the same time.
    pub(super) fn new(reader: ReferenceReader, pages: Arc<Semaphore>) -> Self {
        Self { reader: Arc::new(reader), pages }
    }
}

impl Form for ReferenceForm {
    type Object = HeldReferences;

    fn read(&self, json: &str) -> serde_json::Result<HeldReferences> {
        let name = ObjectName::read(json)?;
        let mut held = BTreeSet::new();
        let read = self.reader.read_json(json, |reference| held.extend(HeldReference::new(reference)));
        let held = match read {
            Ok(()) => held.into_iter().collect(),
            Err(why) => unclear(&format!("can't be read: {why}")),
        };
        Ok((name, held))
    }

    fn read_too_large(&self, metadata: &str) -> serde_json::Result<HeldReferences> {
        Ok((ObjectName::read(metadata)?, unclear("is too large to be read")))
    }

    fn places(&self) -> Option<&Semaphore> {
        Some(&self.pages)
    }
}

/// Returns the references of an object that can't be read. Nobody knows whose they are, so each edge may have one.
fn unclear(why: &str) -> Box<[HeldReference]> {
    Box::new([HeldReference { edge: ALL_EDGES, means: Meaning::Unclear(shortened(why)) }])
}

impl Index for Dependents {
    type Shown = HeldReferences;

    fn empty(&self) -> Self {
        Self::new(&self.space)
    }

    fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    fn put(&mut self, (name, mut held): HeldReferences) -> bool {
        let known = self.forget(&name);
        let mut taken = if held.is_empty() { 0 } else { bytes(&name, &held) };
        if !self.space.take(name.namespace.as_deref(), taken) {
            let most = self.space.tenant_mib();
            held =
                unclear(&format!("is in a namespace whose references and targets together take more than {most} MiB"));
            taken = 0;
        }
        let is_news = known.as_deref().unwrap_or_default() != &*held;
        if !held.is_empty() {
            self.bytes = self.bytes.saturating_add(bytes(&name, &held));
            self.objects.insert(name, Dependent { held, taken, list: self.list });
        }
        is_news
    }

    fn remove(&mut self, (name, _): &HeldReferences) -> bool {
        self.forget(name).is_some()
    }

    fn end_list(&mut self) -> bool {
        let unlisted = self.objects.iter().filter(|(_, dependent)| dependent.list != self.list);
        let gone: Vec<_> = unlisted.map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| _ = self.forget(name));
        !gone.is_empty()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Memory of a node of the map and of an allocation, beside their contents.
const OVERHEAD: usize = 64;

/// Returns the memory of a dependent.
fn bytes(name: &ObjectName, held: &[HeldReference]) -> usize {
    let length = |text: &Option<Box<str>>| text.as_deref().map_or(0, str::len);
    let each = held.iter().map(|HeldReference { edge: _, means }| {
        let texts = match means {
            Meaning::Named(NamedTarget { name, namespace, uid }) => name.len() + length(namespace) + length(uid),
            Meaning::Unclear(why) => why.len(),
        };
        size_of::<HeldReference>() + OVERHEAD + texts
    });
    size_of::<ObjectName>() + OVERHEAD + name.name.len() + length(&name.namespace) + each.sum::<usize>()
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

impl ObjectName {
    /// Reads the name from an object's JSON.
    fn read(json: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Named {
            metadata: Name,
        }
        #[derive(Deserialize)]
        struct Name {
            name: Box<str>,
            namespace: Option<Box<str>>,
        }
        let Named { metadata: Name { name, namespace } } = serde_json::from_str(json)?;
        Ok(Self { namespace, name })
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
impl fmt::Display for ObjectName {
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

    /// Makes the form of machines that name any number of networks.
    fn machines() -> ReferenceForm {
        let rule = json!({"metadata": {"name": "a"}, "spec": {
            "dependent": {"group": "c.example.com", "version": "v1", "kind": "VM", "resource": "vms"},
            "dependencies": [{"group": "n.example.com", "version": "v1", "resource": "vpcs",
                "fieldRef": {"path": ".spec.vpcs[*]"}, "onMissing": "Warn"}],
        }});
        let rule = Rule::parse(ControlPlane::Kubernetes, &rule).unwrap();
        let reader = ReferenceReader::new(rule.edges().iter().map(|edge| (&rule, edge)));
        ReferenceForm::new(reader, Arc::new(Semaphore::new(1)))
    }

    fn machine(name: &str, vpcs: &[&str]) -> HeldReferences {
        let object = json!({"metadata": {"namespace": "x", "name": name}, "spec": {"vpcs": vpcs}});
        machines().read(&object.to_string()).unwrap()
    }

    #[test]
    fn references_count_once_in_any_order_and_their_memory_is_known() {
        let mut machines = Dependents::new(&Space::new(4 << 20));
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
        let mut machines = Dependents::new(&Space::new(4 << 20));
        let name = "é".repeat(500_000);
        machines.put(machine("m", &[&name]));
        assert!(machines.bytes() < 1000, "{}", machines.bytes());
        let (_, held) = machines.iter().next().unwrap();
        let Meaning::Named(target) = &held.means else { panic!("{held:?}") };
        assert_eq!(*target.name, format!("{}…", "é".repeat(126)));
    }

    #[test]
    fn a_tenants_object_takes_no_more_memory_than_its_references() {
        let form = machines();
        let junk = vec![r#"{"":0}"#; 200_000].join(",");
        let object = format!(r#"{{"metadata":{{"name":"m"}},"spec":{{"junk":[{junk}],"vpcs":["a",[{junk}]]}}}}"#);
        assert!(object.len() > 2 << 20);
        let taken = allocation_counter::measure(|| {
            let (name, held) = form.read(&object).unwrap();
            assert_eq!((name.to_string().as_str(), held.len()), ("m", 1));
        });
        assert!(taken.bytes_max < 16 << 10, "{} bytes at once", taken.bytes_max);
        // However deep the maps are.
        let deep = format!(
            r#"{{"metadata":{{"name":"m"}},"spec":{{"deep":{}{},"vpcs":["a"]}}}}"#,
            "[".repeat(9000),
            "]".repeat(9000)
        );
        assert_eq!(form.read(&deep).unwrap().1.len(), 1);
    }

    #[test]
    fn an_object_that_is_too_large_may_refer_to_anything() {
        let (name, held) = machines().read_too_large(r#"{"metadata":{"name":"m","namespace":"x"}}"#).unwrap();
        let [HeldReference { edge: ALL_EDGES, means: Meaning::Unclear(why) }] = &*held else { panic!("{held:?}") };
        assert_eq!((name.to_string().as_str(), &**why), ("x/m", "is too large to be read"));
    }

    #[test]
    fn beyond_its_share_only_a_namespaces_own_objects_are_unclear() {
        let space = Space::new(4 << 20);
        let (mut machines, mut others) = (Dependents::new(&space), Dependents::new(&space));
        let vpcs: Vec<_> = (0..5000).map(|n| format!("vpc-{n}")).collect();
        let vpcs: Vec<_> = vpcs.iter().map(String::as_str).collect();
        let unclear = |index: &Dependents| {
            let unclear = index.iter().filter(|(_, held)| matches!(held.means, Meaning::Unclear(_)));
            unclear.map(|(name, _)| name.to_string()).collect::<Vec<_>>()
        };
        for name in ["a", "b", "c"] {
            machines.put(machine(name, &vpcs));
        }
        assert_eq!(unclear(&machines), ["x/b", "x/c"]);
        let (mut elsewhere, held) = machine("a", &vpcs);
        elsewhere.namespace = Some("y".into());
        others.put((elsewhere, held));
        // The share is one over all kinds.
        others.put(machine("d", &vpcs));
        assert_eq!(unclear(&others), ["x/d"]);
        machines.remove(&machine("a", &[]));
        machines.put(machine("c", &vpcs));
        assert_eq!(unclear(&machines), ["x/b"]);
        drop(machines);
        others.put(machine("d", &vpcs));
        assert!(unclear(&others).is_empty());
    }
}
