//! Deletion without its object: the edges that protect the kind, and the requester.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Bindings, Evaluation, InProgress, PendingQuery, State};
use crate::applicability::bindings_list::BindingsList;
use crate::applicability::bound_kinds::BoundKinds;
use crate::applicability::candidates::Candidates;
use crate::applicability::teardown::TeardownScopes;
use crate::applicability::workspace_paths::Workspaces;
use crate::evaluation::begin::Context;
use crate::evaluation::decision::{AllowReason, Decision, Diagnostics, Reason, Sender, Subject, Verdict};
#[cfg(feature = "interlock")]
use crate::evaluation::interlocked::BearingEdges;
use crate::lookup::planner::Plans;
use crate::model::api::{FailurePolicy, OnDelete};
use crate::model::control_plane::ControlPlane;
use crate::model::names::{GroupResource, LogicalCluster};
use crate::protocol::admission_review::{Review, unreadable_review};
use crate::protocol::cascade::Cascade;
use crate::protocol::deletion_target::DeletionTarget;
use crate::protocol::problem::Unresolved;
use crate::protocol::query_queue::QueryQueue;
use crate::protocol::reviewed_object::ReviewedObject;
use crate::rule::cycles::Graph;
use crate::rule::kind_edges::KindEdges;
use crate::rule::set::RuleSet;

/// Deletion that a review requests, with the edges that protect the kind; its object is not read yet.
#[derive(Debug, Clone)]
pub(crate) struct RequestedDeletion {
    control_plane: ControlPlane,
    edges: Arc<KindEdges>,
    graph: Arc<Graph>,
    plans: Arc<Plans>,
    workspaces: Workspaces,
    failure_policy: FailurePolicy,
    sender: Sender,
    /// The kind of the object by the version of the review.
    kinds: BTreeMap<String, Option<String>>,
    /// The requested outcome for the objects that the object owns; `None`: left open.
    cascade: Option<Cascade>,
    /// The requester's name, if the operator allows them to override the protection.
    overrider: Option<String>,
    /// See [`Context::scope`].
    scope: Option<Option<LogicalCluster>>,
}

impl RequestedDeletion {
    /// Creates the deletion that a review requests, directly or by an eviction, of an object that `edges` protect.
    pub(crate) fn new(rules: &RuleSet, review: &Review<'_>, edges: Arc<KindEdges>, context: &Context<'_>) -> Self {
        let requester = review.requester();
        Self {
            control_plane: rules.control_plane(),
            edges,
            graph: Arc::clone(rules.graph()),
            plans: rules.derived(),
            workspaces: context.workspaces.clone(),
            failure_policy: context.failure_policy,
            sender: Sender::from_review(review),
            kinds: review.kinds(),
            cascade: review.requested_cascade(),
            overrider: context.overrides.allows(requester).then(|| requester.username().to_owned()),
            scope: context.scope.map(Option::<&LogicalCluster>::cloned),
        }
    }

    /// Returns the kind of the object; `None` if no rule names the kind.
    pub(super) fn kind(&self) -> Option<GroupResource> {
        self.edges.kind().cloned()
    }

    /// Begins to decide the deletion of this stored object.
    pub(crate) fn begin(&self, object: Option<&ReviewedObject<'_>>) -> Evaluation {
        let Some(kind) = self.kind() else { return Evaluation::settled(Decision::allow(AllowReason::NoRule)) };
        let Some(object) = object else { return self.unreadable(kind, "the review has no oldObject") };
        let cascade = Cascade::new(self.cascade, object.finalizers(), kind.group.as_str(), kind.resource.as_str());
        let orphans = cascade == Cascade::Orphan;
        // An API server takes the options of a second deletion, too: dependents that were to go may now stay.
        if object.is_terminating() && !orphans {
            return Evaluation::settled(Decision::allow(AllowReason::Terminating));
        }
        if let Some(overrider) = self.overrider.as_ref().filter(|_| object.wants_no_protection()) {
            let diagnostics = Diagnostics { overridden_by: Some(overrider.clone()), ..Diagnostics::default() };
            return Evaluation::settled(Decision::new(Verdict::Allowed(AllowReason::Overridden), diagnostics));
        }
        match DeletionTarget::read(self.control_plane, kind.clone(), object) {
            Ok(target) => {
                let target = DeletionTarget { kinds: self.kinds.clone(), orphans, ..target };
                self.begin_with_target(kind, target)
            }
            Err(why) => self.unreadable(kind, &why),
        }
    }

    fn begin_with_target(&self, kind: GroupResource, target: DeletionTarget) -> Evaluation {
        let Self { control_plane, edges, graph, plans, workspaces, failure_policy, sender, scope, .. } = self;
        let candidates = Candidates::new(Arc::clone(edges), target.cluster.clone(), workspaces.clone());
        if candidates.is_empty() {
            return Evaluation::settled(Decision::allow(AllowReason::NotBound));
        }
        let mut progress = InProgress {
            bindings: None,
            caller_scope: None,
            graph: Arc::clone(graph),
            plans: Arc::clone(plans),
            kinds: BoundKinds::new(*control_plane, target.cluster.clone(), workspaces),
            applies: false,
            groups: Vec::new(),
            #[cfg(feature = "interlock")]
            bearing: BearingEdges::default(),
            due: Vec::new(),
            checked_out: 0,
            readers: BTreeMap::new(),
            scopes: TeardownScopes::new(target.cluster.clone(), target.namespace.clone()),
            served: BTreeMap::new(),
            failure_policy: *failure_policy,
            sender: *sender,
            problems: Vec::new(),
            diagnostics: Diagnostics {
                subject: Some(Subject::deleted(kind, target.name.clone())),
                ..Diagnostics::default()
            },
            target: Arc::new(target),
            queries: QueryQueue::new(),
            next_reader: 0,
        };
        if candidates.need_bindings() || candidates.applying().any(|edge| progress.leads_to_exports(edge)) {
            let (cyclic, on_delete) = (candidates.may_close(graph), candidates.strictest());
            progress.bindings = Some(Bindings { list: BindingsList::new(), candidates, cyclic, on_delete });
            progress.queries.push(PendingQuery::Bindings);
        } else {
            progress.begin_lookups(&candidates);
        }
        if let Some(scope) = scope.as_ref().filter(|scope| **scope != progress.target.cluster) {
            progress.restrict_to(scope.clone());
        }
        Evaluation(State::InProgress(Box::new(progress)))
    }

    /// Returns the decision for a review that lacks a part that every API server sends.
    pub(super) fn unreadable(&self, kind: GroupResource, why: &str) -> Evaluation {
        let subject = Subject::deleted(kind, "?");
        Evaluation::settled(self.undecided(subject, unreadable_review(why)))
    }

    /// Returns the decision if the referrers of the object are unknown: a refusal, unless no rule asks for one.
    pub(super) fn undecided(&self, subject: Subject, problem: Unresolved) -> Decision {
        let problems = vec![problem];
        let denies = self.edges.edges().iter().any(|edge| edge.on_delete == OnDelete::Deny);
        if self.failure_policy == FailurePolicy::Fail && denies {
            return Decision::deny(subject, Reason::Undecided { problems }, self.sender);
        }
        let diagnostics = Diagnostics { subject: Some(subject), problems, ..Diagnostics::default() };
        Decision::new(Verdict::Allowed(AllowReason::Tolerated), diagnostics)
    }
}
