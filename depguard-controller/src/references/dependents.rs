//! Dependents, reduced to the references that are counted.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use depguard_core::lookup::{ObjectReference, ReferenceReader, ReferenceTarget, ReferencedObject};
use serde_json::Value;

use super::kind_watch::Index;

/// Dependents of one kind that hold references, in the order of their namespaces and names.
#[derive(Debug)]
pub(super) struct Dependents {
    reader: Arc<ReferenceReader>,
    objects: BTreeMap<DependentName, Box<[HeldReference]>>,
    references: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DependentName {
    pub(super) namespace: Option<Box<str>>,
    pub(super) name: Box<str>,
}

/// Reference of a dependent.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct HeldReference {
    /// Index of the edge, in the order of the reader's edges.
    pub(super) edge: usize,
    pub(super) means: Meaning,
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum Meaning {
    Named(NamedTarget),
    /// Unknown, for this reason: the end of a sentence that begins with the object.
    Unclear(Box<str>),
}

/// Target that a reference names.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct NamedTarget {
    pub(super) name: Box<str>,
    /// Namespace, if the target's kind has namespaces. `None`: any.
    pub(super) namespace: Option<Box<str>>,
    pub(super) uid: Option<Box<str>>,
}

impl Dependents {
    /// Makes an empty index. The reader must have at least one edge.
    pub(super) fn new(reader: ReferenceReader) -> Self {
        Self { reader: Arc::new(reader), objects: BTreeMap::new(), references: 0 }
    }

    /// Returns all dependents with their references.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&DependentName, &HeldReference)> {
        self.objects.iter().flat_map(|(name, held)| held.iter().map(move |held| (name, held)))
    }

    /// Reads the references of an object, each once, however often the object holds it.
    fn read(&self, object: &Value) -> Box<[HeldReference]> {
        let mut held = HashSet::new();
        let read = self.reader.read(object, |reference| held.extend(HeldReference::new(reference)));
        if let Err(why) = read {
            // Nobody knows whose reference it is, so each edge may have one.
            let why: Box<str> = format!("can't be read: {why}").into();
            return Box::new([HeldReference { edge: ALL_EDGES, means: Meaning::Unclear(why) }]);
        }
        held.into_iter().collect()
    }

    fn forget(&mut self, name: &DependentName) -> Option<Box<[HeldReference]>> {
        let known = self.objects.remove(name)?;
        self.references = self.references.saturating_sub(known.len());
        Some(known)
    }
}

/// Index that stands for each edge of the reader.
pub(super) const ALL_EDGES: usize = usize::MAX;

impl Index for Dependents {
    type Shown = Value;

    fn empty(&self) -> Self {
        Self { reader: Arc::clone(&self.reader), objects: BTreeMap::new(), references: 0 }
    }

    fn put(&mut self, object: Value) -> bool {
        let name = DependentName::of(&object);
        let held = self.read(&object);
        let known = self.forget(&name);
        let is_same = |known: &[HeldReference]| {
            known.len() == held.len() && held.iter().all(|reference| known.contains(reference))
        };
        let is_news = !is_same(known.as_deref().unwrap_or_default());
        if !held.is_empty() {
            self.references = self.references.saturating_add(held.len());
            self.objects.insert(name, held);
        }
        is_news
    }

    fn remove(&mut self, object: &Value) -> bool {
        self.forget(&DependentName::of(object)).is_some()
    }

    fn size(&self) -> usize {
        self.objects.len().saturating_add(self.references)
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
        let boxed = |text: Cow<'_, str>| Box::from(&*text);
        let means = match reference.means {
            ReferenceTarget::Named { name, namespace, uid } => {
                Meaning::Named(NamedTarget { name: boxed(name), namespace: namespace.map(boxed), uid: uid.map(boxed) })
            }
            ReferenceTarget::Selected { .. } => return None,
            ReferenceTarget::Unclear { why, .. } => Meaning::Unclear(why.into()),
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
