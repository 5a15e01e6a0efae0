//! A rule that was read and checked.

use serde_json::Value;

use super::{Dependent, Edge, RuleError, RuleKey, parse};
use crate::model::api::{FailurePolicy, OnDelete, OwnedDependents};
use crate::model::control_plane::ControlPlane;

/// A checked DependencyRule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub(super) key: RuleKey,
    pub(super) failure_policy: FailurePolicy,
    pub(super) dependent: Dependent,
    pub(super) edges: Vec<Edge>,
}

impl Rule {
    /// Checks a DependencyRule as an API server returns it.
    ///
    /// In kcp the rule's logical cluster comes from its annotation `kcp.io/cluster`. On plain Kubernetes the
    /// annotation is ignored, because the author of the rule could set it.
    pub fn parse(control_plane: ControlPlane, object: &Value) -> Result<Self, RuleError> {
        parse::rule(control_plane, object)
    }

    /// Returns the rule's key.
    pub fn key(&self) -> &RuleKey {
        &self.key
    }

    /// Returns the outcome if the rule can't be evaluated.
    pub fn failure_policy(&self) -> FailurePolicy {
        self.failure_policy
    }

    /// Returns the kind that holds the references.
    pub fn dependent(&self) -> &Dependent {
        &self.dependent
    }

    /// Returns the rule's edges, one a dependency.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Returns true if `other_edge` of `other` has no effect beside `edge` of this rule: the same reference counts in at
    /// least the same cases, and the outcome is at least as strict. Both edges must be between the same kinds.
    pub fn covers(&self, edge: &Edge, other: &Self, other_edge: &Edge) -> bool {
        let Self { key: _, failure_policy, dependent, edges: _ } = self;
        let Dependent { export: _, gvr: _, kind: _, selector } = dependent;
        // A message is no effect: the covering edge has one of its own.
        let Edge {
            index: _,
            target: _,
            reference,
            when,
            optional,
            exclude_names,
            on_delete,
            owned_dependents,
            on_missing,
            message: _,
        } = edge;
        let counts_owned = |owned: OwnedDependents| owned == OwnedDependents::Block;
        let fails_closed = |policy: FailurePolicy| policy == FailurePolicy::Fail;
        *reference == other_edge.reference
            && when.iter().all(|condition| other_edge.when.contains(condition))
            && (selector.is_none() || *selector == other.dependent.selector)
            && strictness(*on_delete) >= strictness(other_edge.on_delete)
            && fails_closed(*failure_policy) >= fails_closed(other.failure_policy)
            && *on_missing >= other_edge.on_missing
            && *optional <= other_edge.optional
            && exclude_names.iter().all(|name| other_edge.exclude_names.contains(name))
            && counts_owned(*owned_dependents) >= counts_owned(other_edge.owned_dependents)
    }

    /// Takes the edges out of the rule.
    pub(crate) fn take_edges(&mut self) -> Vec<Edge> {
        std::mem::take(&mut self.edges)
    }
}

/// Returns the rank of an outcome: a higher one is stricter.
fn strictness(on_delete: OnDelete) -> u8 {
    match on_delete {
        OnDelete::Audit => 0,
        OnDelete::Warn => 1,
        OnDelete::Deny => 2,
    }
}
