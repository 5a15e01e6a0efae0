//! Reviews that take part in the interlock: the marks to record before the final reads, and the refusals of a review
//! whose marks are not recorded.

use std::collections::{BTreeMap, BTreeSet};

use super::{Evaluation, State};
use crate::applicability::edges::CandidateEdge;
use crate::evaluation::begin::Context;
use crate::evaluation::decision::{Decision, Reason, Sender, Subject};
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
use crate::rule::compiled_edge::{EdgeState, Reach};
use crate::rule::set::RuleSet;

/// A review that takes part in the interlock: whom it is about, and the reads of the other side's objects.
#[derive(Debug)]
pub struct InterlockedReview {
    pub(super) subject: Subject,
    pub(super) sender: Sender,
    /// The resource of each kind of the other side, and its APIExport.
    pub(super) kinds: BTreeMap<GroupResource, ServedKind>,
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
        let InterlockedReview { subject, sender, kinds: _ } = &self.review;
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
            Refusal::Unknown(why) => why.clone(),
            // Whoever asks again gets the whole decision, which names what is there or missing by then.
            Refusal::AgainSoon
            | Refusal::Missing(_)
            | Refusal::Terminating(_)
            | Refusal::Referenced
            | Refusal::NameTaken
            | Refusal::Failed => Unresolved::new(Cause::Contended, UNDER_WAY),
        };
        Decision::deny(self.subject.clone(), Reason::Undecided { problems: vec![problem] }, self.sender)
    }
}

const UNDER_WAY: &str = "another request that may change the answer is under way, or was a short time ago; retry later";

impl RuleSet {
    /// Returns the part of a deletion in the interlock; `None` if no edge that is interlocked may mean its object. An
    /// error is the decision for a review that can't take part.
    ///
    /// Only rules with failure policy `Fail` are interlocked.
    pub fn interlocked_deletion(
        &self,
        review: &Review<'_>,
        context: &Context<'_>,
    ) -> Result<Option<InterlockedDeletion>, Box<Decision>> {
        let counts =
            |object: &&ReviewedObject<'_>| !object.is_terminating() || review.cascade(object) == Cascade::Orphan;
        let object = review.old_object().filter(counts);
        let Some(object) =
            object.filter(|_| review.operation() == Operation::Delete && review.sub_resource().is_none())
        else {
            return Ok(None);
        };
        let edges = self.edges_to(review.group(), review.resource()).iter().filter(|edge| edge.is_interlocked());
        let edges = edges.filter(|edge| edge.failure_policy == context.failure_policy);
        let mut edges = edges.filter(|edge| !context.provider_withdrew || edge.target_export.is_none()).peekable();
        let Some(kind) = edges.peek().map(|edge| edge.target.clone()) else { return Ok(None) };
        // An evaluation refuses a deletion whose object can't be read.
        let Ok(target) = DeletionTarget::read(self.control_plane(), kind.clone(), object) else { return Ok(None) };
        let mut kinds = BTreeMap::new();
        for edge in edges {
            let EdgeState::Usable { dependent, .. } = &edge.state else { continue };
            let may_apply = CandidateEdge::new(self.control_plane(), edge, &target, context.workspaces).is_some();
            if may_apply && edge.reach(&target) != Reach::Nowhere {
                let export = edge.rule.cluster.clone().zip(edge.dependent_export.clone());
                kinds.entry(edge.dependent.clone()).or_insert_with(|| (dependent.gvr.clone(), export));
            }
        }
        if kinds.is_empty() {
            return Ok(None);
        }
        let subject = Subject::deleted(kind.clone(), target.name.clone());
        let review = InterlockedReview { subject, sender: Sender::from_review(review), kinds };
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
    /// Returns the part of a creation or an update in the interlock; `None` if the object begins to refer to nothing by
    /// an edge that is interlocked. An error is the decision for a review that can't take part.
    ///
    /// No query may have been handed out before: reads that were sent before the intents are recorded prove nothing.
    pub fn interlocked_references(
        &self,
        review: &ObjectReview<'_>,
    ) -> Result<Option<InterlockedReferences>, Box<Decision>> {
        let State::Checking(check) = &self.0 else { return Ok(None) };
        check.interlocked(review)
    }
}
