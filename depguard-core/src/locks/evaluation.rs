//! The decision of one review about locks, without I/O.

use std::collections::BTreeSet;

use super::change::Change;
use super::compat::Compat;
use super::decision::{Because, LockDecision};
use super::desk::Ask;
use super::guard::Guard;
use super::lock::LockKind;
use super::moment::Moment;
use super::object::{Aim, Object};
use super::review::LockReview;
use super::standing::Attempt;
use super::table::TableName;
use super::writing::TableNote;
#[cfg(doc)]
use super::writing::TableWrite;
use crate::api;
use crate::home::Home;
use crate::names::{GroupResource, LogicalCluster};
use crate::query::{Answer, QueryId};
use crate::review::{Operation, ReviewedObject};

mod search;

use self::search::Search;

/// A review that is being decided: about an object that locks may name, or about a lock itself.
///
/// Send all that [`asks`](Self::asks) hands out, [`answer`](Self::answer) each, and do so again until nothing is left;
/// then [`decide`](Self::decide). The order of answers doesn't matter, and deciding earlier is safe: what was not answered
/// is refused.
#[derive(Debug)]
pub struct LockEvaluation<'a>(State<'a>);

#[derive(Debug)]
enum State<'a> {
    Settled(LockDecision),
    Search(Box<Search<'a>>),
    Guard(Box<Guard<'a>>),
    Compat(Box<Compat>),
}

impl<'a> LockEvaluation<'a> {
    /// Begins to decide a review at the time `now`: of a lock, or of an object of any other kind.
    pub fn begin(home: Home, review: &LockReview<'a>, now: Moment) -> Self {
        let about = review.review();
        match LockKind::of_plural(about.resource()).filter(|_| about.group() == api::GROUP) {
            Some(kind) => match Guard::begin(home, kind, review, now) {
                Ok(guard) => Self(State::Guard(Box::new(guard))),
                Err(decision) => Self(State::Settled(decision)),
            },
            None => Self::of_object(home, review, now),
        }
    }

    /// Begins to decide about an object for which an older tool's `Lock` of the same name may stand, if it is of one of
    /// these kinds.
    pub fn of_compat(review: &LockReview<'a>, kinds: &BTreeSet<GroupResource>) -> Self {
        let Some(aim) = Aim::of(review).filter(|_| review.review().sub_resource().is_none()) else {
            return Self::allowed(Because::NotGuarded);
        };
        let change = change(Home::Kubernetes, review);
        if let Some(because) = passes(aim, review, change.as_ref()) {
            return Self::allowed(because);
        }
        match Object::read(Home::Kubernetes, review) {
            Err(why) => unreadable(&why),
            Ok(object) => match Compat::begin(object, kinds) {
                Some(compat) => Self(State::Compat(Box::new(compat))),
                None => Self::allowed(Because::NotGuarded),
            },
        }
    }

    fn of_object(home: Home, review: &LockReview<'a>, now: Moment) -> Self {
        let Some(aim) = Aim::of(review) else { return Self::allowed(Because::NotGuarded) };
        let about = review.review();
        let change = change(home, review);
        if about.operation() == Operation::Update && change.is_none() {
            return unreadable("it lacks the object, as it is or as it is to be");
        }
        if let Some(because) = passes(aim, review, change.as_ref()) {
            return Self::allowed(because);
        }
        let object = match Object::read(home, review) {
            Ok(object) => object,
            Err(why) => return unreadable(&why),
        };
        let new_labels = review
            .new_metadata()
            .map(|new| new.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
        let requester = about.requester().clone();
        Self(State::Search(Box::new(Search::new(Attempt { home, aim, object, change, new_labels, requester, now }))))
    }

    /// Decides only about what API servers ask by a webhook configuration that lies in `scope`; see
    /// [`Evaluation::within`](crate::Evaluation::within). Nobody else is told of a lock, or may have one recorded.
    pub fn within(mut self, scope: Option<&LogicalCluster>) -> Self {
        match &mut self.0 {
            State::Search(search) => search.within(scope),
            State::Guard(guard) => guard.within(scope),
            State::Settled(_) | State::Compat(_) => {}
        }
        self
    }

    /// What it is about to note in tables, once nothing else is left to find out: from then on it is for whoever took it
    /// to write that, by a [`TableWrite`] together with what others note in the same tables, and to
    /// [tell](Self::noted) what came of it. Left alone, it asks for these writes itself.
    pub fn take_notes(&mut self) -> Vec<TableNote> {
        match &mut self.0 {
            State::Guard(guard) => guard.take_notes(),
            State::Settled(_) | State::Search(_) | State::Compat(_) => Vec::new(),
        }
    }

    /// Takes what came of a note: the [outcome](TableWrite::outcome) of its write. One of which nothing is told counts as
    /// not written.
    pub fn noted(&mut self, table: &TableName, outcome: &Result<(), String>) {
        if let State::Guard(guard) = &mut self.0 {
            guard.noted(table, outcome);
        }
    }

    /// Whether it is about to write tables, or does.
    pub fn is_writing(&self) -> bool {
        matches!(&self.0, State::Guard(guard) if guard.is_writing())
    }

    /// What to send now, each once. Empty while others are under way, or when nothing more is needed.
    pub fn asks(&mut self) -> Vec<Ask> {
        match &mut self.0 {
            State::Settled(_) => Vec::new(),
            State::Search(search) => search.asks(),
            State::Guard(guard) => guard.asks(),
            State::Compat(compat) => compat.asks(),
        }
    }

    /// Takes the answer to what was sent. One that was not asked for, or was answered already, is passed over.
    pub fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        match &mut self.0 {
            State::Settled(_) => {}
            State::Search(search) => search.answer(id, answer),
            State::Guard(guard) => guard.answer(id, answer),
            State::Compat(compat) => compat.answer(id, answer),
        }
    }

    /// Whether the decision stands.
    pub fn is_settled(&self) -> bool {
        match &self.0 {
            State::Settled(_) => true,
            State::Search(search) => search.is_settled(),
            State::Guard(guard) => guard.is_settled(),
            State::Compat(compat) => compat.is_settled(),
        }
    }

    /// Decides. What was asked and not answered counts as what could not be found out.
    pub fn decide(self) -> LockDecision {
        match self.0 {
            State::Settled(decision) => decision,
            State::Search(search) => search.decide(),
            State::Guard(guard) => guard.decide(),
            State::Compat(compat) => compat.decide(),
        }
    }

    fn allowed(because: Because) -> Self {
        Self(State::Settled(LockDecision::allow(because, Vec::new())))
    }
}

/// What an update changes; `None`: it is no update, or doesn't say.
fn change<'a>(home: Home, review: &LockReview<'a>) -> Option<Change<'a>> {
    let is_update = review.review().operation() == Operation::Update;
    let states = review.old_object().zip(review.object()).filter(|_| is_update);
    states.map(|(old, new)| Change::between(home, old, new))
}

/// Why no lock forbids it, whatever it says: then nothing is read.
fn passes(aim: Aim, review: &LockReview<'_>, change: Option<&Change<'_>>) -> Option<Because> {
    match aim {
        Aim::Delete => {
            review.review().old_object().is_some_and(ReviewedObject::is_terminating).then_some(Because::Terminating)
        }
        Aim::Update => change.is_some_and(Change::is_exempt).then_some(Because::Exempt),
    }
}

fn unreadable<'a>(why: &str) -> LockEvaluation<'a> {
    LockEvaluation(State::Settled(LockDecision::unreadable(None, why)))
}
