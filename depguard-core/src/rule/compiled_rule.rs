//! Compiled rule, ready for sets: it is read once, until somebody changes the rule.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::model::api::OnMissing;
use crate::model::control_plane::ControlPlane;
use crate::rule::compiled_edge::{CompiledEdge, EdgeState};
use crate::rule::partial_rule::PartialRule;
use crate::rule::reference_constraint::{ConstraintState, ReferenceConstraint};
use crate::rule::{Rule, RuleError, RuleKey, RuleVersion};

/// A rule that was read, usable or not. Clones share the data.
#[derive(Debug, Clone)]
pub struct CompiledRule(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    /// `None`: the kind of the dependents is unknown, so the rule has no effect.
    key: Option<RuleKey>,
    version: RuleVersion,
    broken: bool,
    edges: Vec<Arc<CompiledEdge>>,
    /// Constraint on the references of the dependents; `None` if the rule looks for no target.
    constraint: Option<Arc<ReferenceConstraint>>,
}

impl CompiledRule {
    /// Reads a DependencyRule as an API server returns it. A rule that can't be used refuses wherever it would have
    /// applied.
    pub fn read(control_plane: ControlPlane, object: &Value) -> Self {
        match Rule::parse(control_plane, object) {
            Ok(rule) => Self::usable(rule, RuleVersion::of(object)),
            Err(error) => Self::broken(control_plane, object, &error),
        }
    }

    /// Reads only the kinds of a DependencyRule that can't be used. The rule refuses wherever it would have applied,
    /// and the refusal contains `error`.
    pub fn broken(control_plane: ControlPlane, object: &Value, error: &RuleError) -> Self {
        let version = RuleVersion::of(object);
        let Some(partial) = PartialRule::read(control_plane, object) else {
            let parts = Parts { key: None, version, broken: true, edges: Vec::new(), constraint: None };
            return Self(Arc::new(parts));
        };
        let constraint = (partial.on_missing != OnMissing::Ignore).then(|| ReferenceConstraint {
            rule: partial.key.clone(),
            failure_policy: partial.failure_policy,
            dependent_export: partial.dependent_export.clone(),
            dependent: partial.dependent.clone(),
            state: ConstraintState::Invalid(error.clone(), partial.on_missing),
        });
        let targets: BTreeSet<_> = partial.targets.into_iter().zip(partial.on_delete).collect();
        let edges = targets.into_iter().map(|((target_export, target), on_delete)| {
            Arc::new(CompiledEdge {
                rule: partial.key.clone(),
                failure_policy: partial.failure_policy,
                on_delete,
                dependent_export: partial.dependent_export.clone(),
                dependent: partial.dependent.clone(),
                target_export,
                target,
                state: EdgeState::Invalid(error.clone()),
            })
        });
        let edges = edges.collect();
        let constraint = constraint.map(Arc::new);
        Self(Arc::new(Parts { key: Some(partial.key), version, broken: true, edges, constraint }))
    }

    fn usable(mut rule: Rule, version: RuleVersion) -> Self {
        let dependent = Arc::new(rule.dependent().clone());
        let edges = rule.take_edges();
        let edges = edges.into_iter().map(|edge| Arc::new(CompiledEdge::new(&rule, &dependent, edge)));
        let edges: Vec<_> = edges.collect();
        let constraint = ReferenceConstraint::from_edges(&edges).map(Arc::new);
        Self(Arc::new(Parts { key: Some(rule.key().clone()), version, broken: false, edges, constraint }))
    }

    pub(super) fn key(&self) -> Option<&RuleKey> {
        self.0.key.as_ref()
    }

    pub(super) fn version(&self) -> &RuleVersion {
        &self.0.version
    }

    /// Returns true if the rule can't be used.
    pub fn is_broken(&self) -> bool {
        self.0.broken
    }

    pub(super) fn constraint(&self) -> Option<&Arc<ReferenceConstraint>> {
        self.0.constraint.as_ref()
    }

    pub(super) fn edges(&self) -> &[Arc<CompiledEdge>] {
        &self.0.edges
    }
}
