//! The dependents that refer to a target, as many as are worth keeping.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::ruleset::IndexedEdge;

/// As many dependents as anybody is told of, and one, so that it shows that there are more.
pub(crate) const ENOUGH: usize = 21;
/// The most dependents that are told apart where all must be seen; of more, the first are kept.
const MOST_KEPT: usize = 10_000;
/// The most namespaces that dependents are told to lie in.
pub(crate) const MOST_NAMESPACES: usize = 64;

/// A dependent that refers to the target. Ordered as people look for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind, self.name),
            None => write!(f, "{}/{}", self.kind, self.name),
        }
    }
}

/// What one search found, in memory that is bounded however many there are.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    first: BTreeMap<Found, Vec<Arc<IndexedEdge>>>,
    has_more: bool,
    namespaces: BTreeSet<Option<String>>,
}

impl Findings {
    pub(crate) const NONE: &Self = &Self { first: BTreeMap::new(), has_more: false, namespaces: BTreeSet::new() };

    pub(crate) fn insert(&mut self, object: Found, edge: &Arc<IndexedEdge>) {
        // One more is kept, so that it shows that there are more.
        if self.namespaces.len() <= MOST_NAMESPACES && !self.namespaces.contains(&object.namespace) {
            self.namespaces.insert(object.namespace.clone());
        }
        let edges = self.first.entry(object).or_default();
        if !edges.iter().any(|known| Arc::ptr_eq(known, edge)) {
            edges.push(Arc::clone(edge));
        }
        if self.first.len() > MOST_KEPT {
            self.first.pop_last();
            self.has_more = true;
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Those that are kept, the first in their order, each with the edges by which it refers to the target.
    pub(crate) fn first(&self) -> &BTreeMap<Found, Vec<Arc<IndexedEdge>>> {
        &self.first
    }

    /// Whether there is no need to look for more, where all that matters is who they are.
    pub(crate) fn is_enough(&self) -> bool {
        self.first.len() >= ENOUGH
    }

    /// There may be more, but they are not looked for.
    pub(crate) fn cut(&mut self) {
        self.has_more = true;
    }

    /// Whether there were more than are kept, or may be.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Whether none of them lies in a namespace.
    pub(crate) fn lie_in_no_namespace(&self) -> bool {
        self.namespaces.iter().all(Option::is_none)
    }

    /// The namespaces of them all, `None` among them where some have none; nothing where they are too many.
    pub(crate) fn namespaces(&self) -> Option<&BTreeSet<Option<String>>> {
        (self.namespaces.len() <= MOST_NAMESPACES).then_some(&self.namespaces)
    }
}
