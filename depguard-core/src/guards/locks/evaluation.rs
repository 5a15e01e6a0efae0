//! The decision of one review about locks, without I/O.

use std::collections::BTreeSet;

use super::change::Change;
use super::compat::Compat;
use super::decision::{AllowReason, LockDecision};
use super::lock::LockKind;
use super::lock_admission::LockAdmission;
use super::lock_match::Attempt;
use super::object::{Aim, Object};
use super::table::TableName;
use super::timestamp::Timestamp;
use super::writing::TableNote;
#[cfg(doc)]
use super::writing::TableWrite;
use crate::evaluation::decision::Sender;
use crate::model::api;
use crate::model::control_plane::ControlPlane;
use crate::model::names::{GroupResource, LogicalCluster};
use crate::protocol::admission_review::Operation;
use crate::protocol::object_review::ObjectReview;
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{Ask, QueryId};
use crate::protocol::response::Answer;
use crate::protocol::reviewed_object::ReviewedObject;

mod search;

use self::search::LockSearch;

/// A review that is being decided: about an object that locks may name, or about a lock itself.
///
/// Send all requests of [`asks`](Self::asks), pass on each [`answer`](Self::answer), repeat that until no request is
/// left, then [`decide`](Self::decide). The order of answers doesn't matter. Deciding early is safe: a missing answer
/// leads to a refusal.
#[derive(Debug)]
pub struct LockEvaluation<'a> {
    state: State<'a>,
    sender: Sender,
}

#[derive(Debug)]
enum State<'a> {
    Settled(LockDecision),
    Search(Box<LockSearch<'a>>),
    Guard(Box<LockAdmission<'a>>),
    Compat(Box<Compat>),
}

impl<'a> LockEvaluation<'a> {
    /// Begins to decide a review at the time `now`. The review is about a lock, or about an object of any other kind.
    pub fn begin(control_plane: ControlPlane, review: &ObjectReview<'a>, now: Timestamp) -> Self {
        let about = review.review();
        let state = match LockKind::of_plural(about.resource()).filter(|_| about.group() == api::GROUP) {
            Some(kind) => match LockAdmission::begin(control_plane, kind, review, now) {
                Ok(guard) => State::Guard(Box::new(guard)),
                Err(decision) => State::Settled(decision),
            },
            None => State::of_object(control_plane, review, now),
        };
        Self { state, sender: Sender::from_review(about) }
    }

    /// Begins to decide about an object of one of these kinds, which an older tool's `Lock` of the same name may
    /// lock. The eviction of a Pod counts as its deletion; no other request to a subresource is locked.
    pub fn of_compat(review: &ObjectReview<'a>, kinds: &BTreeSet<GroupResource>) -> Self {
        Self { state: State::of_compat(review, kinds), sender: Sender::from_review(review.review()) }
    }

    /// Restricts the decision to the reviews that API servers send by a webhook configuration in `scope`; see
    /// [`Context::scope`](crate::Context::scope). Other callers learn of no lock, and can't have one
    /// recorded.
    pub fn within(mut self, scope: Option<&LogicalCluster>) -> Self {
        match &mut self.state {
            State::Search(search) => search.within(scope),
            State::Guard(guard) => guard.within(scope),
            State::Settled(_) | State::Compat(_) => {}
        }
        self
    }

    /// Takes out the notes for tables, once everything else is known. The caller then writes them, by a
    /// [`TableWrite`] together with other reviews' notes for the same tables, and [reports](Self::noted) the results.
    /// If nobody takes the notes out, the evaluation itself asks for the writes.
    pub fn take_notes(&mut self) -> Vec<TableNote> {
        match &mut self.state {
            State::Guard(guard) => guard.take_notes(),
            State::Settled(_) | State::Search(_) | State::Compat(_) => Vec::new(),
        }
    }

    /// Takes the result of a note: the [outcome](TableWrite::outcome) of its write. A note without a result counts as
    /// not written.
    pub fn noted(&mut self, table: &TableName, outcome: &Result<(), Unresolved>) {
        if let State::Guard(guard) = &mut self.state {
            guard.noted(table, outcome);
        }
    }

    /// Returns true while the evaluation waits for the writes of tables.
    pub fn is_writing(&self) -> bool {
        matches!(&self.state, State::Guard(guard) if guard.is_writing())
    }

    /// Returns the requests to send now, each once. Empty while other requests are under way, or if no more are
    /// needed.
    pub fn asks(&mut self) -> Vec<Ask> {
        match &mut self.state {
            State::Settled(_) => Vec::new(),
            State::Search(search) => search.asks(),
            State::Guard(guard) => guard.asks(),
            State::Compat(compat) => compat.asks(),
        }
    }

    /// Takes the answer to a request. An answer to an unknown request, or a second answer, is ignored.
    pub fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        match &mut self.state {
            State::Settled(_) => {}
            State::Search(search) => search.answer(id, answer),
            State::Guard(guard) => guard.answer(id, answer),
            State::Compat(compat) => compat.answer(id, answer),
        }
    }

    /// Returns true if no further answer can change the decision.
    pub fn is_settled(&self) -> bool {
        match &self.state {
            State::Settled(_) => true,
            State::Search(search) => search.is_settled(),
            State::Guard(guard) => guard.is_settled(),
            State::Compat(compat) => compat.is_settled(),
        }
    }

    /// Decides. A request without an answer counts as a problem.
    pub fn decide(self) -> LockDecision {
        let decision = match self.state {
            State::Settled(decision) => decision,
            State::Search(search) => search.decide(),
            State::Guard(guard) => guard.decide(),
            State::Compat(compat) => compat.decide(),
        };
        decision.answering(self.sender)
    }
}

impl<'a> State<'a> {
    fn of_compat(review: &ObjectReview<'a>, kinds: &BTreeSet<GroupResource>) -> Self {
        let about = review.review();
        let is_guarded = about.sub_resource().is_none() || about.is_eviction();
        let Some(aim) = Aim::from_review(review).filter(|_| is_guarded) else {
            return Self::allowed(AllowReason::NotGuarded);
        };
        let change = change(ControlPlane::Kubernetes, review);
        if let Some(reason) = passes(aim, review, change.as_ref()) {
            return Self::allowed(reason);
        }
        match Object::read(ControlPlane::Kubernetes, review) {
            Err(why) => unreadable(&why),
            Ok(object) => match Compat::begin(object, kinds) {
                Some(compat) => Self::Compat(Box::new(compat)),
                None => Self::allowed(AllowReason::NotGuarded),
            },
        }
    }

    fn of_object(control_plane: ControlPlane, review: &ObjectReview<'a>, now: Timestamp) -> Self {
        let Some(aim) = Aim::from_review(review) else { return Self::allowed(AllowReason::NotGuarded) };
        let about = review.review();
        let change = change(control_plane, review);
        if about.operation() == Operation::Update && change.is_none() {
            return unreadable("it lacks the object's old or new state");
        }
        if let Some(reason) = passes(aim, review, change.as_ref()) {
            return Self::allowed(reason);
        }
        let object = match Object::read(control_plane, review) {
            Ok(object) => object,
            Err(why) => return unreadable(&why),
        };
        let new_labels = review
            .new_metadata()
            .map(|new| new.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
        let requester = about.requester().clone();
        Self::Search(Box::new(LockSearch::new(Attempt {
            control_plane,
            aim,
            object,
            change,
            new_labels,
            requester,
            now,
        })))
    }

    fn allowed(reason: AllowReason) -> Self {
        Self::Settled(LockDecision::allow(reason, Vec::new()))
    }
}

/// Returns the changes of an update; `None` if the review is no update, or lacks a state of the object.
fn change<'a>(control_plane: ControlPlane, review: &ObjectReview<'a>) -> Option<Change<'a>> {
    let is_update = review.review().operation() == Operation::Update;
    let states = review.old_object().zip(review.object()).filter(|_| is_update);
    states.map(|(old, new)| Change::between(control_plane, old, new))
}

/// Returns the reason why no lock can forbid the request; in that case nothing is read.
fn passes(aim: Aim, review: &ObjectReview<'_>, change: Option<&Change<'_>>) -> Option<AllowReason> {
    match aim {
        Aim::Delete => {
            review.review().old_object().is_some_and(ReviewedObject::is_terminating).then_some(AllowReason::Terminating)
        }
        Aim::Update => change.is_some_and(Change::is_exempt).then_some(AllowReason::Exempt),
    }
}

fn unreadable<'a>(why: &str) -> State<'a> {
    State::Settled(LockDecision::unreadable(None, why))
}
