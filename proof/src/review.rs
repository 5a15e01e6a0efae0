//! Reviews: an evaluation of the core begins, reads objects, and ends with a verdict.

use std::sync::Arc;

use depguard_core::interlock::{Ask, Delete, Dependent, Insert, Listing, Nonce, ObjectKey, Observation, Revision};
use depguard_core::protocol::{Cause, Unresolved};

use crate::guard::Guard;
use crate::model::Interlock;
use crate::owners::Propagation;
use crate::state::{Basis, Early, End, Evaluation, Phase, Review, State, StoredDependent, TargetState};
use crate::world::{Operation, Targets};

/// The most attempts of one request.
pub(crate) const MAX_ATTEMPTS: u8 = 16;

impl Interlock {
    pub(crate) fn revision(&self, target: usize, state: TargetState) -> Revision {
        Revision::parse(&format!("v{target}-{}", state.births), &state.version.to_string()).expect("a revision")
    }

    fn observe_dependent(state: &State, name: usize) -> Observation {
        match u8::try_from(name).ok().and_then(|name| state.dependents.get(&name)) {
            Some(dependent) => Observation::Stored { revision: revision_of(dependent), is_terminating: false },
            None => Observation::Absent,
        }
    }

    /// Lists the dependents for the review of a deletion.
    fn list(&self, state: &State, index: usize, target: u8) -> Listing {
        let (number, stored) = (usize::from(target), state.targets[usize::from(target)]);
        let orphans =
            self.propagation(index, stored) == Propagation::Orphan && !self.world.lacks(Guard::OrphaningCounts);
        let refers = state.dependents.values().any(|dependent| {
            let is_ignored = self.world.ignores_owned && self.goes_along(dependent.owners, number, stored, orphans);
            dependent.targets & (1 << target) != 0 && !is_ignored
        });
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
        // API servers refuse a request whose webhook answers 404.
        let buckets = self.buckets_of(state, index);
        let phase = match (planned.operation, stored) {
            _ if attempt == MAX_ATTEMPTS || buckets.is_none() => Phase::Ended(End::GivenUp),
            (Operation::Create(name, targets), _) | (Operation::Apply(name, targets), None) => {
                let key = self.dependents[usize::from(name)].clone();
                let dependent = Dependent::created(key, &uid(index, attempt)).expect("a UID");
                self.insert(state, index, attempt, Basis::Nothing, &dependent, targets)
            }
            (Operation::Update(..) | Operation::Release(_), None) => Phase::Ended(End::GivenUp),
            (Operation::Update(name, _) | Operation::Apply(name, _) | Operation::Release(name), Some(old)) => {
                let key = self.dependents[usize::from(name)].clone();
                let dependent = Dependent::updated(key, revision_of(&old));
                let begins = self.begins(index, &old);
                self.insert(state, index, attempt, Basis::Dependent(old), &dependent, begins)
            }
            (Operation::Delete(target), _) => {
                let current = state.targets[usize::from(target)];
                let orphans = self.propagation(index, current) == Propagation::Orphan;
                let is_unseen = current.is_terminating && (!orphans || self.world.lacks(Guard::OrphaningReviewedAgain));
                if !current.is_stored {
                    Phase::Ended(End::GivenUp)
                } else if state.unaware.contains(&planned.replica) || is_unseen || self.is_unreviewed(index) {
                    Phase::Admitted(Basis::Target(current))
                } else {
                    let revision = self.revision(usize::from(target), current);
                    let key = self.targets[usize::from(target)].clone();
                    let buckets = buckets.unwrap_or(self.buckets);
                    let delete = Delete::begin(buckets, self.nonce(index, attempt), key, revision);
                    self.begun(state, index, Basis::Target(current), Evaluation::Delete(delete), target)
                }
            }
        };
        let request = Arc::make_mut(&mut state.requests[index]);
        request.attempt = attempt;
        request.phase = phase;
        request.refused_in = None;
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
        let buckets = self.buckets_of(state, index).unwrap_or(self.buckets);
        let insert = Insert::begin(buckets, self.nonce(index, attempt), dependent, self.keys(targets));
        let insert = match basis {
            Basis::Nothing if self.world.reads_names => insert.if_name_is_free(dependent),
            _ => insert,
        };
        self.begun(state, index, basis, Evaluation::Insert(insert), 0)
    }

    fn begun(&self, state: &State, index: usize, basis: Basis, evaluation: Evaluation, listed: u8) -> Phase {
        let reads_early = [
            Guard::TargetReadAfterIntent,
            Guard::ListAfterFlag,
            Guard::FlagReadBeforeProof,
            Guard::IntentReadBeforeProof,
        ];
        let early = self.world.without.filter(|guard| reads_early.contains(guard)).map(|_| {
            Box::new(Early {
                targets: (0..self.targets.len())
                    .map(|number| self.observe_for(state, index, &basis, false, number))
                    .collect(),
                dependents: (0..self.dependents.len()).map(|name| Self::observe_dependent(state, name)).collect(),
                listing: self.list(state, index, listed),
            })
        });
        let asks = evaluation.asks();
        Phase::Review(Box::new(Review { basis, evaluation, asks, is_marked: false, early }))
    }

    /// Returns true if the deletion is not reviewed: a world without reviews on one side.
    fn is_unreviewed(&self, index: usize) -> bool {
        let request = self.world.requests[index];
        request.is_override || (self.world.lacks(Guard::Reviews) && matches!(request.operation, Operation::Delete(_)))
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
                    None => self.observe_for(state, index, &review.basis, insert.is_recorded(), number),
                };
                insert.observed(key, observed);
            }
            (Evaluation::Insert(insert), Ask::Dependent(key)) => {
                let number = self.dependents.iter().position(|dependent| dependent == key).expect("a dependent");
                let observed = match Self::observe_dependent(state, number) {
                    _ if is_lost => Observation::Unknown(lost()),
                    Observation::Stored { .. } if self.world.lacks(Guard::TakenNameRefuses) => {
                        let basis = review.basis.clone();
                        return Arc::make_mut(&mut state.requests[index]).phase = Phase::Admitted(basis);
                    }
                    observed => observed,
                };
                insert.name_observed(observed);
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
                    None => self.list(state, index, target),
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
