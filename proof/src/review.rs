//! Reviews: an evaluation of the core begins, reads objects, and ends with a verdict.

use std::sync::Arc;

use depguard_core::interlock::{Ask, Delete, Dependent, Insert, Listing, Nonce, ObjectKey, Observation, Revision};
use depguard_core::protocol::{Cause, Unresolved};

use crate::guard::Guard;
use crate::model::Interlock;
use crate::state::{Basis, Early, End, Evaluation, Phase, Review, State, StoredDependent, TargetState};
use crate::world::{Operation, Targets};

/// The most attempts of one request.
const MAX_ATTEMPTS: u8 = 16;

impl Interlock {
    fn revision(&self, target: usize, state: TargetState) -> Revision {
        Revision::parse(&format!("v{target}-{}", state.births), &state.version.to_string()).expect("a revision")
    }

    fn observe_target(&self, state: &State, target: usize) -> Observation {
        let TargetState { is_stored, is_terminating, .. } = state.targets[target];
        let is_terminating = is_terminating && !self.world.lacks(Guard::TerminatingRefuses);
        match is_stored {
            true => Observation::Stored { revision: self.revision(target, state.targets[target]), is_terminating },
            false => Observation::Absent,
        }
    }

    fn observe_dependent(state: &State, name: usize) -> Observation {
        match u8::try_from(name).ok().and_then(|name| state.dependents.get(&name)) {
            Some(dependent) => Observation::Stored { revision: revision_of(dependent), is_terminating: false },
            None => Observation::Absent,
        }
    }

    fn list(state: &State, target: u8) -> Listing {
        let refers = state.dependents.values().any(|dependent| dependent.targets & (1 << target) != 0);
        if refers { Listing::Referrers } else { Listing::Empty }
    }

    pub(crate) fn keys(&self, targets: Targets) -> impl Iterator<Item = ObjectKey> {
        let keys = self.targets.iter().enumerate();
        keys.filter(move |(number, _)| targets & (1 << number) != 0).map(|(_, key)| key.clone())
    }

    /// Returns a nonce for an evaluation, which no other evaluation has if all guards are there.
    pub(crate) fn nonce(&self, request: usize, attempt: u8) -> Nonce {
        let own = request + 16 * usize::from(attempt);
        let number = match self.world.requests[request].operation {
            Operation::Delete(target) if self.world.lacks(Guard::FlagByEvaluation) => 1000 + usize::from(target),
            Operation::Create(name, _) if self.world.lacks(Guard::IntentByEvaluation) => 2000 + usize::from(name),
            _ => own,
        };
        Nonce::new(u128::try_from(number).unwrap_or_default())
    }

    /// Begins to review a request, or to review it again.
    pub(crate) fn review(&self, state: &mut State, index: usize, attempt: u8) {
        let planned = self.world.requests[index];
        let stored = planned.operation.dependent().and_then(|name| state.dependents.get(&name).cloned());
        let phase = match (planned.operation, stored) {
            _ if attempt == MAX_ATTEMPTS => Phase::Ended(End::GivenUp),
            (Operation::Create(name, targets), _) | (Operation::Apply(name, targets), None) => {
                let key = self.dependents[usize::from(name)].clone();
                let dependent = Dependent::created(key, &uid(index, attempt)).expect("a UID");
                self.insert(state, index, attempt, Basis::Nothing, &dependent, targets)
            }
            (Operation::Update(..), None) => Phase::Ended(End::GivenUp),
            (Operation::Update(name, targets) | Operation::Apply(name, targets), Some(old)) => {
                let key = self.dependents[usize::from(name)].clone();
                let dependent = Dependent::updated(key, revision_of(&old));
                // References that the object had before don't begin to count.
                let begins = targets & !old.targets;
                self.insert(state, index, attempt, Basis::Dependent(old), &dependent, begins)
            }
            (Operation::Delete(target), _) => {
                let current = state.targets[usize::from(target)];
                if !current.is_stored || current.is_terminating {
                    Phase::Ended(End::GivenUp)
                } else if state.unaware.contains(&planned.replica) || self.is_unreviewed(index) {
                    Phase::Admitted(Basis::Target(current))
                } else {
                    let revision = self.revision(usize::from(target), current);
                    let key = self.targets[usize::from(target)].clone();
                    let delete = Delete::begin(self.buckets, self.nonce(index, attempt), key, revision);
                    self.begun(state, Basis::Target(current), Evaluation::Delete(delete), target)
                }
            }
        };
        let request = Arc::make_mut(&mut state.requests[index]);
        request.attempt = attempt;
        request.phase = phase;
    }

    fn insert(
        &self,
        state: &State,
        index: usize,
        attempt: u8,
        basis: Basis,
        dependent: &Dependent,
        targets: Targets,
    ) -> Phase {
        if state.unaware.contains(&self.world.requests[index].replica) {
            return Phase::Admitted(basis);
        }
        let insert = Insert::begin(self.buckets, self.nonce(index, attempt), dependent, self.keys(targets));
        self.begun(state, basis, Evaluation::Insert(insert), 0)
    }

    fn begun(&self, state: &State, basis: Basis, evaluation: Evaluation, listed: u8) -> Phase {
        let reads_early = [
            Guard::TargetReadAfterIntent,
            Guard::ListAfterFlag,
            Guard::FlagReadBeforeProof,
            Guard::IntentReadBeforeProof,
        ];
        let early = self.world.without.filter(|guard| reads_early.contains(guard)).map(|_| {
            Box::new(Early {
                targets: (0..self.targets.len()).map(|target| self.observe_target(state, target)).collect(),
                dependents: (0..self.dependents.len()).map(|name| Self::observe_dependent(state, name)).collect(),
                listing: Self::list(state, listed),
            })
        });
        let asks = evaluation.asks();
        Phase::Review(Box::new(Review { basis, evaluation, asks, is_marked: false, early }))
    }

    /// Returns true if the deletion is not reviewed: a world without reviews on one side.
    fn is_unreviewed(&self, index: usize) -> bool {
        self.world.lacks(Guard::Reviews) && matches!(self.world.requests[index].operation, Operation::Delete(_))
    }

    /// Answers one read of a review.
    pub(crate) fn answer(&self, state: &mut State, index: usize, ask: &Ask, is_lost: bool) {
        let Phase::Review(review) = &state.requests[index].phase else { return };
        let early = |guard| review.early.as_ref().filter(|_| self.world.lacks(guard));
        let mut evaluation = review.evaluation.clone();
        match (&mut evaluation, ask) {
            (Evaluation::Insert(insert), Ask::Target(key)) => {
                let number = self.targets.iter().position(|target| target == key).expect("a target");
                let guard = match review.is_marked {
                    true => Guard::TargetReadAfterIntent,
                    false => Guard::FlagReadBeforeProof,
                };
                let observed = match early(guard) {
                    _ if is_lost => Observation::Unknown(lost()),
                    Some(early) => early.targets[number].clone(),
                    None => self.observe_target(state, number),
                };
                insert.observed(key, observed);
            }
            (Evaluation::Delete(delete), Ask::Dependent(key)) => {
                let number = self.dependents.iter().position(|dependent| dependent == key).expect("a dependent");
                let observed = match early(Guard::IntentReadBeforeProof) {
                    _ if is_lost => Observation::Unknown(lost()),
                    Some(early) => early.dependents[number].clone(),
                    None => Self::observe_dependent(state, number),
                };
                delete.observed(key, observed);
            }
            (Evaluation::Delete(delete), Ask::Dependents) => {
                let Operation::Delete(target) = self.world.requests[index].operation else { return };
                let listing = match early(Guard::ListAfterFlag) {
                    _ if is_lost => Listing::Unknown(lost()),
                    Some(early) => early.listing.clone(),
                    None => Self::list(state, target),
                };
                delete.listed(listing);
            }
            _ => {}
        }
        if let Phase::Review(review) = &mut Arc::make_mut(&mut state.requests[index]).phase {
            review.advance(|stored| *stored = evaluation);
        }
    }
}

/// Returns the reason of a request whose answer is lost.
pub(crate) fn lost() -> Unresolved {
    Unresolved::new(Cause::ReadFailed, "was lost")
}

pub(crate) fn revision_of(dependent: &StoredDependent) -> Revision {
    Revision::parse(&dependent.uid, &dependent.version.to_string()).expect("a revision")
}

/// Returns the UID that the API server gives the object of a creation.
pub(crate) fn uid(request: usize, attempt: u8) -> String {
    format!("created-{request}-{attempt}")
}
