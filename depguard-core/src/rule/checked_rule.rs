//! A rule that was read and checked.

use serde_json::Value;

use super::{Dependent, Edge, RuleError, RuleKey, parse};
use crate::model::api::FailurePolicy;
use crate::model::control_plane::ControlPlane;

/// A checked DependencyRule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub(super) key: RuleKey,
    pub(super) generation: Option<i64>,
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

    /// Returns the generation of `spec` that was parsed, if the API server counts generations.
    pub fn generation(&self) -> Option<i64> {
        self.generation
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

    /// Takes the edges out of the rule.
    pub(crate) fn take_edges(&mut self) -> Vec<Edge> {
        std::mem::take(&mut self.edges)
    }
}
