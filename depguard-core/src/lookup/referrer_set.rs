//! Referrers of a target, as many as are worth keeping.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::applicability::teardown_exemption::TeardownExemption;
use crate::rule::compiled_edge::CompiledEdge;

/// One more dependent than a message names, which shows that there are more.
pub(crate) const MAX_SOUGHT: usize = 21;
/// The most dependents that are kept if all must be seen; of more, the first ones are kept.
const MAX_KEPT: usize = 10_000;
/// The most namespaces of dependents that are distinguished.
pub(crate) const MAX_NAMESPACES: usize = 64;

/// A dependent that refers to the target, in the order in which people expect to see it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Referrer {
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl fmt::Display for Referrer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind, self.name),
            None => write!(f, "{}/{}", self.kind, self.name),
        }
    }
}

/// The referrers that one search found, in bounded memory.
#[derive(Debug, Default)]
pub(crate) struct ReferrerSet {
    first: BTreeMap<Referrer, Vec<Arc<CompiledEdge>>>,
    has_more: bool,
    namespaces: BTreeSet<Option<String>>,
}

impl ReferrerSet {
    pub(crate) const NONE: &Self = &Self { first: BTreeMap::new(), has_more: false, namespaces: BTreeSet::new() };

    pub(crate) fn insert(&mut self, object: Referrer, edge: &Arc<CompiledEdge>) {
        self.insert_namespace(&object.namespace);
        let edges = self.first.entry(object).or_default();
        if !edges.iter().any(|known| Arc::ptr_eq(known, edge)) {
            edges.push(Arc::clone(edge));
        }
        if self.first.len() > MAX_KEPT {
            self.first.pop_last();
            self.has_more = true;
        }
    }

    /// Adds the referrers of another set.
    pub(crate) fn extend(&mut self, other: Self) {
        let Self { first, has_more, namespaces } = other;
        namespaces.iter().for_each(|namespace| self.insert_namespace(namespace));
        for (object, edges) in first {
            edges.iter().for_each(|edge| self.insert(object.clone(), edge));
        }
        self.has_more |= has_more;
    }

    fn insert_namespace(&mut self, namespace: &Option<String>) {
        // One namespace beyond the limit is kept, which shows that there are more.
        if self.namespaces.len() <= MAX_NAMESPACES && !self.namespaces.contains(namespace) {
            self.namespaces.insert(namespace.clone());
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Returns the referrers that are kept, the first ones in their order, each with the edges by which it refers to
    /// the target.
    pub(crate) fn first(&self) -> &BTreeMap<Referrer, Vec<Arc<CompiledEdge>>> {
        &self.first
    }

    /// Returns true if at least one referrer blocks, whatever is torn down.
    pub(crate) fn blocks_despite(&self, exemption: Option<TeardownExemption>) -> bool {
        match exemption {
            None => !self.is_empty(),
            Some(TeardownExemption::KeptLast) => !self.lie_in_no_namespace(),
            Some(TeardownExemption::Cycle(_)) => false,
        }
    }

    /// Returns true if there are enough referrers for a message.
    pub(crate) fn is_enough(&self) -> bool {
        self.first.len() >= MAX_SOUGHT
    }

    /// Records that there may be more referrers, which are not searched.
    pub(crate) fn cut(&mut self) {
        self.has_more = true;
    }

    /// Returns true if there are more referrers than are kept, or may be.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Returns true if no referrer lies in a namespace.
    pub(crate) fn lie_in_no_namespace(&self) -> bool {
        self.namespaces.iter().all(Option::is_none)
    }

    /// Returns the namespaces of all referrers, with `None` for referrers without a namespace; no set if there are
    /// too many namespaces.
    pub(crate) fn namespaces(&self) -> Option<&BTreeSet<Option<String>>> {
        (self.namespaces.len() <= MAX_NAMESPACES).then_some(&self.namespaces)
    }
}
