//! Reviews that take part in the interlock: the marks to record before the final reads, and the refusals of a review
//! whose marks are not recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Evaluation, State};
use crate::applicability::candidates::Candidates;
use crate::evaluation::begin::Context;
use crate::evaluation::decision::{Decision, Reason, Sender, Subject, by_rules};
use crate::interlock::{
    Buckets, Delete, Dependent, Insert, Intent, Nonce, ObjectKey, ObjectRead, Observation, Refusal, Revision,
};
use crate::model::names::{ExportName, GroupResource, GroupVersionResource, LogicalCluster};
use crate::protocol::admission_review::{Operation, Review, unreadable_review};
use crate::protocol::cascade::Cascade;
use crate::protocol::cause::Cause;
use crate::protocol::deletion_target::DeletionTarget;
use crate::protocol::object_review::ObjectReview;
use crate::protocol::problem::Unresolved;
use crate::protocol::reviewed_object::ReviewedObject;
use crate::rule::RuleKey;
use crate::rule::compiled_edge::{CompiledEdge, EdgeState, Reach};
use crate::rule::set::RuleSet;

/// A review that takes part in the interlock: whom it is about, and the reads of the other side's objects.
#[derive(Debug)]
pub struct InterlockedReview {
    pub(super) subject: Subject,
    pub(super) sender: Sender,
    /// The resource of each kind of the other side, and its APIExport.
    pub(super) kinds: BTreeMap<GroupResource, ServedKind>,
    /// The rules by which the review takes part.
    pub(super) rules: BTreeSet<RuleKey>,
}

pub(super) type ServedKind = (GroupVersionResource, Option<(LogicalCluster, ExportName)>);

/// A deletion, whose target may be referenced by edges that are interlocked.
#[derive(Debug)]
#[non_exhaustive]
pub struct InterlockedDeletion {
    /// The review.
    pub review: InterlockedReview,
    target: ObjectKey,
    revision: Revision,
}

/// A creation or an update that makes references by edges that are interlocked.
#[derive(Debug)]
#[non_exhaustive]
pub struct InterlockedReferences {
    /// The review.
    pub review: InterlockedReview,
    pub(super) dependent: Dependent,
    /// The resource of the dependent, and its APIExport.
    pub(super) dependent_kind: ServedKind,
    pub(super) targets: BTreeSet<ObjectKey>,
    /// True if the request creates an object of the name that it says. A name that the API server generates is free.
    pub(super) creates_name: bool,
    /// True if the API server turns the creation into an update once an object has the name.
    pub(super) is_apply: bool,
}

/// Interlocked edges that may bear on a deleted object, as the list of bindings shows them. Without that list, all edges to
/// the object's kind may.
///
/// Whose kind the object is never changes. But dependents may be bound while the deletion is under way, so an edge counts
/// without its dependents, too.
#[derive(Debug, Default)]
pub struct BearingEdges(Option<Vec<BearingEdge>>);

#[derive(Debug)]
struct BearingEdge {
    edge: Arc<CompiledEdge>,
    /// True if the edge's own dependents are bound.
    is_certain: bool,
}

impl BearingEdges {
    pub(super) fn observe(&mut self, candidates: &Candidates) {
        let edges = candidates.interlocked();
        self.0 = Some(edges.map(|(edge, is_certain)| BearingEdge { edge: Arc::clone(edge), is_certain }).collect());
    }
}

impl InterlockedDeletion {
    /// Begins the evaluation of the flag.
    pub fn begin(&self, buckets: Buckets, nonce: Nonce) -> Delete {
        Delete::begin(buckets, nonce, self.target.clone(), self.revision.clone())
    }
}

impl InterlockedReferences {
    /// Begins the evaluation of the intents.
    pub fn begin(&self, buckets: Buckets, nonce: Nonce) -> Insert {
        let insert = Insert::begin(buckets, nonce, &self.dependent, self.targets.iter().cloned());
        if self.creates_name { insert.if_name_is_free(&self.dependent) } else { insert }
    }

    /// Returns the decision for a review whose marks are not recorded, or not confirmed.
    pub fn refused(&self, refusal: &Refusal) -> Decision {
        let InterlockedReview { subject, sender, kinds: _, rules: _ } = &self.review;
        match refusal {
            Refusal::NameTaken if !self.is_apply => Decision::deny(subject.clone(), Reason::NameTaken, *sender),
            refusal => self.review.refused(refusal),
        }
    }

    /// Returns the read of the object of the dependent's name. Sent after the request was allowed, it shows if the request
    /// is over.
    pub fn read_dependent(&self) -> ObjectRead {
        let (gvr, export) = self.dependent_kind.clone();
        ObjectRead::new(self.dependent.key().clone(), gvr, export)
    }

    /// Returns true if the request is stored, or never will be: its marks are needed no more.
    pub fn is_over(&self, observation: &Observation) -> bool {
        let intent = Intent { dependent: self.dependent.clone() };
        match observation {
            Observation::Stored { revision, is_terminating: _ } => intent.is_void_at(Some(revision)),
            Observation::Absent => intent.is_void_at(None),
            Observation::Unknown(_) => false,
        }
    }

    /// Returns true if the request creates the object that had this state once: its marks are needed no more. Of an update
    /// an earlier state tells nothing.
    pub fn has_created(&self, once: &Revision) -> bool {
        self.creates_name && Intent { dependent: self.dependent.clone() }.is_void_at(Some(once))
    }
}

impl InterlockedReview {
    /// Returns the read of an object of the other side; `None` if no rule tells the version of its kind.
    pub fn read(&self, key: &ObjectKey) -> Option<ObjectRead> {
        let (gvr, export) = self.kinds.get(&key.kind)?;
        Some(ObjectRead::new(key.clone(), gvr.clone(), export.clone()))
    }

    /// Returns the decision for a review whose marks are not recorded, or not confirmed.
    pub fn refused(&self, refusal: &Refusal) -> Decision {
        let problem = match refusal {
            Refusal::Unknown(why) => why.clone().with(&by_rules(self.rules.iter())),
            // Whoever asks again gets the whole decision, which names what is there or missing by then.
            Refusal::AgainSoon
            | Refusal::Missing(_)
            | Refusal::Terminating(_)
            | Refusal::Referenced
            | Refusal::NameTaken
            | Refusal::Failed => under_way(&self.rules),
        };
        Decision::deny(self.subject.clone(), Reason::Undecided { problems: vec![problem] }, self.sender)
    }
}

/// Returns the problem of a review by these rules that crosses another one.
pub(super) fn under_way(rules: &BTreeSet<RuleKey>) -> Unresolved {
    let why = "another request that may change the answer is under way, or was a short time ago; retry later";
    Unresolved::new(Cause::Contended, why).with(&by_rules(rules.iter()))
}

impl RuleSet {
    /// Returns the part of a deletion in the interlock; `None` if no edge that is interlocked may mean its object. An
    /// error is the decision for a review that can't take part.
    ///
    /// Only rules with failure policy `Fail` are interlocked. `bearing` are the edges that the deletion's evaluation has
    /// [seen](Evaluation::bearing_edges).
    pub fn interlocked_deletion(
        &self,
        review: &Review<'_>,
        context: &Context<'_>,
        bearing: &BearingEdges,
    ) -> Result<Option<InterlockedDeletion>, Box<Decision>> {
        let counts =
            |object: &&ReviewedObject<'_>| !object.is_terminating() || review.cascade(object) == Cascade::Orphan;
        let object = review.old_object().filter(counts);
        let Some(object) =
            object.filter(|_| review.operation() == Operation::Delete && review.sub_resource().is_none())
        else {
            return Ok(None);
        };
        let edges: Vec<_> = match &bearing.0 {
            Some(edges) => edges.iter().map(|BearingEdge { edge, is_certain }| (edge, *is_certain)).collect(),
            None => {
                let edges = self.edges_to(review.group(), review.resource(), context.failure_policy);
                edges.iter().flat_map(|edges| edges.interlocked()).map(|(_, edge)| (edge, false)).collect()
            }
        };
        let edges = edges.into_iter().filter(|(edge, _)| !context.provider_withdrew || edge.target_export.is_none());
        let mut edges = edges.peekable();
        let Some(kind) = edges.peek().map(|(edge, _)| edge.target.clone()) else { return Ok(None) };
        // An evaluation refuses a deletion whose object can't be read.
        let Ok(target) = DeletionTarget::read(self.control_plane(), kind.clone(), object) else { return Ok(None) };
        let (mut kinds, mut rules) = (BTreeMap::new(), BTreeSet::new());
        for (edge, is_certain) in edges {
            let EdgeState::Usable { dependent, .. } = &edge.state else { continue };
            if edge.may_apply_in(target.cluster.as_ref()) && edge.reach(&target) != Reach::Nowhere {
                let export = edge.rule.cluster.clone().zip(edge.dependent_export.clone());
                let kind = (dependent.gvr.clone(), export);
                if is_certain {
                    kinds.insert(edge.dependent.clone(), kind);
                } else {
                    kinds.entry(edge.dependent.clone()).or_insert(kind);
                }
                rules.insert(edge.rule.clone());
            }
        }
        if kinds.is_empty() {
            return Ok(None);
        }
        let subject = Subject::deleted(kind.clone(), target.name.clone());
        let review = InterlockedReview { subject, sender: Sender::from_review(review), kinds, rules };
        let revision = object.uid().zip(object.resource_version());
        let Some(Ok(revision)) = revision.map(|(uid, version)| Revision::parse(uid, version)) else {
            let why = unreadable_review("its oldObject has no valid uid or no valid resourceVersion");
            return Err(Box::new(review.refused(&Refusal::Unknown(why))));
        };
        let DeletionTarget { cluster, namespace, name, .. } = target;
        Ok(Some(InterlockedDeletion { review, target: ObjectKey { cluster, kind, namespace, name }, revision }))
    }
}

impl Evaluation {
    /// Takes out the interlocked edges that may bear on the object that is deleted, once all queries are answered.
    pub fn bearing_edges(&mut self) -> BearingEdges {
        match &mut self.0 {
            State::InProgress(progress) => std::mem::take(&mut progress.bearing),
            State::Settled(_) | State::Evicting(_) | State::Checking(_) => BearingEdges::default(),
        }
    }

    /// Reads only a hint of which rules bear on the object that is created or updated. Returns true if that takes queries:
    /// carry them out before asking for the [part in the interlock](Self::interlocked_references).
    pub fn seek_hint(&mut self) -> bool {
        match &mut self.0 {
            State::Checking(check) => check.seek_hint(),
            State::Settled(_) | State::Evicting(_) | State::InProgress(_) => false,
        }
    }

    /// Returns the part of a creation or an update in the interlock; `None` if the object begins to refer to nothing by
    /// an edge that is interlocked. An error is the decision for a review that can't take part.
    ///
    /// From here on the evaluation reads everything anew: reads that were sent before the intents are recorded prove
    /// nothing. If these reads show a rule that the [hint](Self::seek_hint) did not show, the evaluation refuses.
    pub fn interlocked_references(
        &mut self,
        review: &ObjectReview<'_>,
    ) -> Result<Option<InterlockedReferences>, Box<Decision>> {
        let State::Checking(check) = &mut self.0 else { return Ok(None) };
        check.interlocked(review)
    }
}
