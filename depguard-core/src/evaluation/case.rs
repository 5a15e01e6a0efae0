//! The deletion that is to be decided, but for its object: the edges that protect the kind, and who asks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Asked, Asking, Bindings, Evaluation, State};
use crate::api::{FailurePolicy, OnDelete};
use crate::bearing::{Candidate, Kinds};
use crate::bindings::BINDINGS_PATH;
use crate::decision::{Because, Decision, Notes, Problem, Reason, RefusalCode, Ruling, Subject};
use crate::graph::Graph;
use crate::home::Home;
use crate::listing::Listing;
use crate::names::GroupResource;
use crate::review::{Review, ReviewedObject, unreadable_review};
use crate::ruleset::{Context, IndexedEdge};
use crate::scopes::Scopes;
use crate::target::Target;
use crate::workspaces::Workspaces;

/// A deletion, but for its object.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    home: Home,
    edges: Vec<Arc<IndexedEdge>>,
    graph: Arc<Graph>,
    workspaces: Workspaces,
    failure_policy: FailurePolicy,
    refusal: RefusalCode,
    /// The requester, where the operator allows them to override the protection.
    overrider: Option<String>,
}

impl Case {
    /// The deletion, or eviction, that a review asks for, of an object that `edges` protect.
    pub(crate) fn new(
        home: Home,
        review: &Review<'_>,
        edges: Vec<Arc<IndexedEdge>>,
        graph: &Arc<Graph>,
        context: &Context<'_>,
    ) -> Self {
        let requester = review.requester();
        Self {
            home,
            edges,
            graph: Arc::clone(graph),
            workspaces: context.workspaces.clone(),
            failure_policy: context.failure_policy,
            refusal: RefusalCode::of(review),
            overrider: context.overrides.allows(requester).then(|| requester.username().to_owned()),
        }
    }

    /// The kind of the object; `None`: no rule names it.
    pub(super) fn kind(&self) -> Option<GroupResource> {
        self.edges.first().map(|edge| edge.target.clone())
    }

    /// Begins to decide it for the object as it is stored.
    pub(crate) fn begin(&self, object: Option<&ReviewedObject<'_>>) -> Evaluation {
        let Some(kind) = self.kind() else { return Evaluation::settled(Decision::allow(Because::NoRule)) };
        let Some(object) = object else { return self.unreadable(kind, "the review has no oldObject") };
        if object.is_terminating() {
            return Evaluation::settled(Decision::allow(Because::Terminating));
        }
        if let Some(overrider) = self.overrider.as_ref().filter(|_| object.wants_no_protection()) {
            let notes = Notes { overridden_by: Some(overrider.clone()), ..Notes::default() };
            return Evaluation::settled(Decision::new(Ruling::Allowed(Because::Overridden), notes));
        }
        match Target::read(self.home, kind.clone(), object) {
            Ok(target) => self.begin_for(kind, target),
            Err(why) => self.unreadable(kind, &why),
        }
    }

    fn begin_for(&self, kind: GroupResource, target: Target) -> Evaluation {
        let Self { home, edges, graph, workspaces, failure_policy, refusal, overrider: _ } = self;
        let candidates: Vec<_> =
            (edges.iter()).filter_map(|edge| Candidate::new(*home, edge, &target, workspaces)).collect();
        if candidates.is_empty() {
            return Evaluation::settled(Decision::allow(Because::NotBound));
        }
        let mut asking = Asking {
            bindings: None,
            bounds: None,
            graph: Arc::clone(graph),
            kinds: Kinds::new(*home, target.cluster.clone(), workspaces),
            bears: false,
            searches: Vec::new(),
            due: Vec::new(),
            lent: 0,
            readings: BTreeMap::new(),
            scopes: Scopes::new(target.cluster.clone(), target.namespace.clone()),
            failure_policy: *failure_policy,
            refusal: *refusal,
            problems: Vec::new(),
            notes: Notes { subject: Some(Subject { kind, name: target.name.clone() }), ..Notes::default() },
            target: Arc::new(target),
            open: BTreeMap::new(),
            ready: VecDeque::new(),
            next_id: 0,
            next_reading: 0,
        };
        if candidates.iter().all(|candidate| candidate.bears() && !asking.leads_to_exports(&candidate.edge)) {
            asking.begin_lookups(candidates);
        } else {
            let cyclic = candidates.iter().any(|candidate| graph.may_close(&candidate.edge));
            let on_delete = candidates.iter().map(|candidate| candidate.edge.on_delete).min().unwrap_or_default();
            let listing = Listing::new(BINDINGS_PATH.to_owned());
            asking.bindings = Some(Bindings { listing, candidates, cyclic, on_delete });
            asking.ready.push_back(Asked::Bindings);
        }
        Evaluation(State::Asking(Box::new(asking)))
    }

    /// The decision where the review lacks what an API server would have sent with it.
    pub(super) fn unreadable(&self, kind: GroupResource, why: &str) -> Evaluation {
        let subject = Subject { kind, name: "?".to_owned() };
        Evaluation::settled(self.undecided(subject, Problem(unreadable_review(why))))
    }

    /// The decision where it can't be known what refers to the object: refused, unless no rule wants that.
    pub(super) fn undecided(&self, subject: Subject, problem: Problem) -> Decision {
        let problems = vec![problem];
        let denies = self.edges.iter().any(|edge| edge.on_delete == OnDelete::Deny);
        if self.failure_policy == FailurePolicy::Fail && denies {
            return Decision::deny(subject, Reason::Undecided { problems }, self.refusal);
        }
        let notes = Notes { subject: Some(subject), problems, ..Notes::default() };
        Decision::new(Ruling::Allowed(Because::Tolerated), notes)
    }
}
