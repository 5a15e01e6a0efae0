//! Beginning of an evaluation: the rules that a review meets, and further required data.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{Evaluation, RequestedDeletion};
use crate::applicability::overrides::OverridePolicy;
use crate::applicability::workspace_paths::Workspaces;
use crate::evaluation::decision::{AllowReason, Decision};
use crate::model::api::FailurePolicy;
use crate::model::control_plane::ControlPlane;
use crate::model::names::{GroupVersionResource, LogicalCluster};
use crate::protocol::admission_review::{Operation, Review, ReviewError};
use crate::rule::set::RuleSet;

/// The input of an evaluation besides the rules.
///
/// The default knows no workspace, as is right on plain Kubernetes. It lets the [usual
/// groups](OverridePolicy::DEFAULT_GROUPS) override, and follows the rules with failure policy `Fail`.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Context<'a> {
    /// The logical clusters of the rules' workspace paths.
    pub workspaces: &'a Workspaces,
    /// The users who may delete objects that are still referenced.
    pub overrides: &'a OverridePolicy,
    /// Failure policy of the rules that are followed; other rules are left out. API servers ask once for each policy,
    /// because only they can decide if no answer comes.
    pub failure_policy: FailurePolicy,
    /// Set if the provider of the object's kind has [withdrawn](crate::freshness::Withdrawal): the kinds that it exports
    /// are no longer protected.
    pub provider_withdrew: bool,
    /// Logical cluster of the webhook configuration by which API servers send the review; within, `None` is the one
    /// cluster of plain Kubernetes. `None` outside: the configuration is unknown.
    ///
    /// API servers send a review by a configuration where the object is, or where the APIExport is from which its kind is
    /// bound (kcp looks up configurations there). So only the constraints of rules there can bear on a creation or an
    /// update. Any other deletion is refused, without naming the referrers of the object. They are not named either if the
    /// bindings can't be read. A decision by the rules and the review alone stands, because it reveals no other object.
    pub scope: Option<Option<&'a LogicalCluster>>,
}

impl<'a> Context<'a> {
    /// Returns the context with these logical clusters of the rules' workspace paths.
    pub fn with_workspaces(self, workspaces: &'a Workspaces) -> Self {
        Self { workspaces, ..self }
    }

    /// Returns the context with these users who may delete objects that are still referenced.
    pub fn with_overrides(self, overrides: &'a OverridePolicy) -> Self {
        Self { overrides, ..self }
    }

    /// Returns the context with this failure policy of the rules to follow.
    pub fn with_failure_policy(self, failure_policy: FailurePolicy) -> Self {
        Self { failure_policy, ..self }
    }

    /// Returns the context in which the provider of the object's kind has withdrawn, or not.
    pub fn with_provider_withdrawn(self, provider_withdrew: bool) -> Self {
        Self { provider_withdrew, ..self }
    }

    /// Returns the context with this scope of the review.
    pub fn with_scope(self, scope: Option<Option<&'a LogicalCluster>>) -> Self {
        Self { scope, ..self }
    }
}

impl Default for Context<'_> {
    fn default() -> Self {
        static NO_WORKSPACES: LazyLock<Workspaces> = LazyLock::new(Workspaces::new);
        static OVERRIDES: LazyLock<OverridePolicy> = LazyLock::new(OverridePolicy::default);
        Self {
            workspaces: &NO_WORKSPACES,
            overrides: &OVERRIDES,
            failure_policy: FailurePolicy::Fail,
            provider_withdrew: false,
            scope: None,
        }
    }
}

impl RuleSet {
    /// Begins to decide a review.
    ///
    /// Only two kinds of reviews can lead to a refusal: a deletion, and on plain Kubernetes the eviction of a Pod,
    /// which deletes the Pod. (kcp serves no evictions.) The evaluation returns the queries that it needs:
    /// [`decide_with`](Evaluation::decide_with) and [`decide_until`](Evaluation::decide_until) answer them.
    pub fn evaluate(&self, review: &Review<'_>, context: &Context<'_>) -> Evaluation {
        let deletes = review.operation() == Operation::Delete && review.sub_resource().is_none();
        let evicts = review.is_eviction() && self.control_plane() == ControlPlane::Kubernetes;
        if !deletes && !evicts {
            return Evaluation::settled(Decision::allow(AllowReason::NotADeletion));
        }
        let edges = self.edges_to(review.group(), review.resource(), context.failure_policy).cloned();
        let edges = edges.unwrap_or_default();
        let edges = if context.provider_withdrew { self.without_exported_targets(&edges) } else { edges };
        let deletion = RequestedDeletion::new(self, review, edges, context);
        if evicts { deletion.begin_eviction(review) } else { deletion.begin(review.old_object()) }
    }

    /// Begins to decide the deletion of `object`, of the kind `gvr`, without a review from an API server: for a
    /// manifest, for example. There is no requester, so nobody can override the protection.
    ///
    /// The object comes from an API server or from a file. Only its kind and its metadata matter. The deletion is one in
    /// the background, as `kubectl delete` asks for.
    pub fn evaluate_deletion(
        &self,
        gvr: &GroupVersionResource,
        object: &Value,
        context: &Context<'_>,
    ) -> Result<Evaluation, ReviewError> {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": "", "operation": "DELETE", "oldObject": object,
                "kind": {"kind": object.get("kind").and_then(Value::as_str).unwrap_or_default()},
                "options": {"propagationPolicy": "Background"},
                "resource": {"group": gvr.group.as_str(), "version": gvr.version.as_str(), "resource": gvr.resource.as_str()},
            },
        });
        Ok(self.evaluate(&Review::parse(review.to_string().as_bytes())?, context))
    }
}
