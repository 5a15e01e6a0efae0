//! Constraint on the references of a rule's dependents: their targets must be there.

use std::sync::Arc;

use crate::model::api::{FailurePolicy, OnMissing};
use crate::model::names::{ExportName, GroupResource};
use crate::rule::compiled_edge::{CompiledEdge, EdgeState};
use crate::rule::{ExportRef, RuleError, RuleKey};

/// Constraint of one rule on the references that its dependents hold.
#[derive(Debug, Clone)]
pub(crate) struct ReferenceConstraint {
    pub(crate) rule: RuleKey,
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) dependent_export: Option<ExportName>,
    pub(crate) dependent: GroupResource,
    pub(crate) state: ConstraintState,
}

/// The way to find out if a constraint is kept.
#[derive(Debug, Clone)]
pub(crate) enum ConstraintState {
    /// The references by these edges are followed. None of the edges has `onMissing: Ignore`.
    Usable(Vec<Arc<CompiledEdge>>),
    /// The rule can't be used: the answer is unknown, with this outcome.
    Invalid(RuleError, OnMissing),
}

impl ReferenceConstraint {
    /// Returns the constraint of a rule's edges; `None` if the rule looks for no target.
    pub(super) fn from_edges(edges: &[Arc<CompiledEdge>]) -> Option<Self> {
        let checked = edges.iter().filter(|edge| edge.on_missing() != OnMissing::Ignore).cloned();
        let checked: Vec<_> = checked.collect();
        let edge = Arc::clone(checked.first()?);
        Some(Self {
            rule: edge.rule.clone(),
            failure_policy: edge.failure_policy,
            dependent_export: edge.dependent_export.clone(),
            dependent: edge.dependent.clone(),
            state: ConstraintState::Usable(checked),
        })
    }

    /// Returns the edges; none if the rule can't be used.
    pub(crate) fn edges(&self) -> &[Arc<CompiledEdge>] {
        match &self.state {
            ConstraintState::Usable(edges) => edges,
            ConstraintState::Invalid(..) => &[],
        }
    }

    /// Returns the strictest outcome of the constraint.
    pub(crate) fn on_missing(&self) -> OnMissing {
        match &self.state {
            ConstraintState::Usable(edges) => edges.iter().map(|edge| edge.on_missing()).max().unwrap_or_default(),
            ConstraintState::Invalid(_, on_missing) => *on_missing,
        }
    }

    /// Returns true if the constraint is about objects of this version: the paths of a rule hold for one version. A
    /// rule that can't be used is about all versions.
    pub(crate) fn reads(&self, version: &str) -> bool {
        let is_read = |edge: &Arc<CompiledEdge>| match &edge.state {
            EdgeState::Usable { dependent, .. } => dependent.gvr.version.as_str() == version,
            EdgeState::Invalid(_) => true,
        };
        self.edges().first().is_none_or(is_read)
    }

    /// Returns the constraint without the edges to APIExports whose providers don't accept the rule; `None` if no edge
    /// is left.
    pub(super) fn retain_accepted(
        constraint: &Arc<Self>,
        accepted: &impl Fn(&RuleKey, &ExportRef) -> bool,
    ) -> Option<Arc<Self>> {
        let ConstraintState::Usable(edges) = &constraint.state else { return Some(Arc::clone(constraint)) };
        let is_accepted =
            |edge: &&Arc<CompiledEdge>| edge.target_export.as_ref().is_none_or(|export| accepted(&edge.rule, export));
        let kept: Vec<_> = edges.iter().filter(is_accepted).cloned().collect();
        match kept.len() {
            0 => None,
            len if len == edges.len() => Some(Arc::clone(constraint)),
            _ => Some(Arc::new(Self { state: ConstraintState::Usable(kept), ..Self::clone(constraint) })),
        }
    }
}
