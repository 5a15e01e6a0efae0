//! Edges that share a lookup, and what is derived from them once for all reviews.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use crate::lookup::matcher::ReferenceMatcher;
use crate::rule::RuleKey;
use crate::rule::compiled_edge::CompiledEdge;

/// Edges that one lookup searches together.
#[derive(Debug)]
pub(crate) struct EdgeSet {
    edges: Vec<Arc<CompiledEdge>>,
    rules: OnceLock<Arc<[RuleKey]>>,
    matcher: OnceLock<Arc<ReferenceMatcher>>,
}

impl EdgeSet {
    pub(crate) fn new(edges: Vec<Arc<CompiledEdge>>) -> Self {
        Self { edges, rules: OnceLock::new(), matcher: OnceLock::new() }
    }

    pub(crate) fn edges(&self) -> &[Arc<CompiledEdge>] {
        &self.edges
    }

    /// Returns the rules of the edges, each once.
    pub(crate) fn rules(&self) -> &Arc<[RuleKey]> {
        self.rules.get_or_init(|| {
            self.edges.iter().map(|edge| &edge.rule).collect::<BTreeSet<_>>().into_iter().cloned().collect()
        })
    }

    /// Returns the matcher of the edges.
    pub(crate) fn matcher(&self) -> Arc<ReferenceMatcher> {
        let known = self.matcher.get().cloned();
        known.unwrap_or_else(|| {
            let made = Arc::new(ReferenceMatcher::new(&self.edges));
            if made.may_be_shared() { Arc::clone(self.matcher.get_or_init(|| made)) } else { made }
        })
    }

    /// Returns true if both have the same edges, in the same order.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let each_is = || self.edges.iter().zip(&other.edges).all(|(one, other)| Arc::ptr_eq(one, other));
        std::ptr::eq(self, other) || (self.edges.len() == other.edges.len() && each_is())
    }
}
