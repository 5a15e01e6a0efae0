//! Edge of a rule, in the form that an evaluation uses.

use std::sync::Arc;

use crate::model::api::{FailurePolicy, OnDelete, OnMissing};
use crate::model::message_template::Message;
#[cfg(any(test, feature = "interlock"))]
use crate::model::names::LogicalCluster;
use crate::model::names::{ExportName, GroupResource, GroupVersionResource};
use crate::protocol::deletion_target::DeletionTarget;
use crate::rule::{Dependent, Edge, ExportRef, Place, Reference, Rule, RuleError, RuleKey};

/// An edge, with its rule's data about the dependents.
#[derive(Debug)]
pub(crate) struct CompiledEdge {
    pub(crate) rule: RuleKey,
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) on_delete: OnDelete,
    pub(crate) dependent_export: Option<ExportName>,
    pub(crate) dependent: GroupResource,
    pub(crate) target_export: Option<ExportRef>,
    pub(crate) target: GroupResource,
    pub(crate) state: EdgeState,
}

/// The way to find out if an edge blocks.
#[derive(Debug)]
pub(crate) enum EdgeState {
    /// The dependents are listed and their references followed.
    Usable { dependent: Arc<Dependent>, edge: Box<Edge> },
    /// The rule can't be used: if it applies, the answer is unknown.
    Invalid(RuleError),
}

/// The scope in which to search for an edge's dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// No search: the edge is always about targets in another namespace, with other labels, or with other names.
    Nowhere,
    /// The target's namespace, and the dependents without a namespace.
    Namespace,
    /// All dependents.
    Everywhere,
}

impl CompiledEdge {
    pub(crate) fn new(rule: &Rule, dependent: &Arc<Dependent>, edge: Edge) -> Self {
        Self {
            rule: rule.key().clone(),
            failure_policy: rule.failure_policy(),
            on_delete: edge.on_delete,
            dependent_export: dependent.export.clone(),
            dependent: dependent.gvr.group_resource(),
            target_export: edge.target.export.clone(),
            target: edge.target.gvr.group_resource(),
            state: EdgeState::Usable { dependent: Arc::clone(dependent), edge: Box::new(edge) },
        }
    }

    /// Returns true if the edge applies only in the rule's own logical cluster, because one of its kinds is defined there.
    pub(crate) fn has_local_end(&self) -> bool {
        self.dependent_export.is_none() || self.target_export.is_none()
    }

    /// Returns true if the edge may apply in this logical cluster, by its local ends.
    #[cfg(any(test, feature = "interlock"))]
    pub(crate) fn may_apply_in(&self, cluster: Option<&LogicalCluster>) -> bool {
        self.rule.cluster.is_none() || !self.has_local_end() || self.rule.cluster.as_ref() == cluster
    }

    /// Returns true if the deletion of a logical cluster deletes dependents without a namespace only after the
    /// target. kcp deletes the namespaces and the local objects first, and only when those are gone the bindings,
    /// each with the objects of its kinds (see kcp's `logicalclusterdeletion` controller). An earlier deletion of a
    /// binding changes nothing: the objects of that binding may wait for objects of another one.
    pub(crate) fn is_kept_last(&self, target: &DeletionTarget) -> bool {
        let bound = self.dependent_export.is_some() && self.rule.cluster.is_some();
        let goes_first = target.namespace.is_some() || self.target_export.is_none();
        target.cluster.is_some() && bound && goes_first
    }

    /// Returns the outcome for a dependent that begins to refer to a missing target. An edge that can't be used has none
    /// of its own.
    pub(crate) fn on_missing(&self) -> OnMissing {
        match &self.state {
            EdgeState::Usable { edge, .. } => edge.on_missing,
            EdgeState::Invalid(_) => OnMissing::Ignore,
        }
    }

    /// Returns true if references by the edge are interlocked with the deletions of their targets. A rule that can't be
    /// used refuses both.
    #[cfg(feature = "interlock")]
    pub(crate) fn is_interlocked(&self) -> bool {
        match &self.state {
            EdgeState::Usable { dependent, edge } => edge.interlock_obstacle(dependent, self.failure_policy).is_none(),
            EdgeState::Invalid(_) => false,
        }
    }

    /// Returns the target's resource, in the version that the rule names.
    pub(crate) fn target_gvr(&self) -> Option<&GroupVersionResource> {
        match &self.state {
            EdgeState::Usable { edge, .. } => Some(&edge.target.gvr),
            EdgeState::Invalid(_) => None,
        }
    }

    /// Returns the rule's additional message.
    pub(crate) fn message(&self) -> Option<&Message> {
        match &self.state {
            EdgeState::Usable { edge, .. } => edge.message.as_ref(),
            EdgeState::Invalid(_) => None,
        }
    }

    pub(crate) fn reach(&self, target: &DeletionTarget) -> Reach {
        let EdgeState::Usable { edge, .. } = &self.state else { return Reach::Everywhere };
        let may_be_meant = match &edge.reference {
            Reference::Field(_) | Reference::Selector(_) => true,
            Reference::Fixed(fixed) => fixed.name.as_str() == target.name,
            Reference::Selected(selector) => selector.matches(|key| target.labels.get(key).map(String::as_str)),
        };
        if !may_be_meant || edge.excludes(&target.name) {
            return Reach::Nowhere;
        }
        match (edge.reference.place(), &target.namespace) {
            (Place::Fixed(fixed), Some(namespace)) if fixed != namespace => Reach::Nowhere,
            (Place::Own, Some(_)) => Reach::Namespace,
            (Place::Own | Place::Fixed(_) | Place::Said(_), _) => Reach::Everywhere,
        }
    }
}
