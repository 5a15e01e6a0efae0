//! Everything that goes on by itself after a step.

use std::sync::Arc;

use depguard_core::interlock::{Ask, Refusal, Verdict};

use crate::guard::Guard;
use crate::model::Interlock;
use crate::state::{Batch, End, Phase, RequestState, State};
use crate::writes::is_same_version;

impl Interlock {
    /// Goes on with everything that needs no API server, and forgets what can't matter any more.
    pub(crate) fn settle(&self, state: &mut State) {
        for index in 0..state.requests.len() {
            if let Some(next) = self.next_phase(state, &state.requests[index]) {
                let mut request = (*state.requests[index]).clone();
                request.phase = next;
                self.note_obstacles(state, index, &mut request);
                state.requests[index] = Arc::new(request);
            }
        }
        // Batches without a member that waits for them.
        let is_awaited =
            |batch: &Batch| batch.members.iter().any(|index| matches!(state.requests[*index].phase, Phase::Review(_)));
        state.batches.retain(|_, batch| is_awaited(batch));
        if !self.world.merges {
            self.begin_batches(state);
        }
        if self.world.rule_is_new && state.unaware.is_empty() && state.aware_since.is_none() {
            state.aware_since = Some(state.now);
        }
        // A write by a version that is not the stored one any more will never happen.
        let State { registers, late, .. } = state;
        late.retain(|late| {
            let stored = registers.get(&late.name()).and_then(Option::as_ref);
            stored.is_some_and(|stored| is_same_version(stored, late))
        });
    }

    fn next_phase(&self, state: &State, request: &RequestState) -> Option<Phase> {
        let is_alive = request.is_alive(state.now);
        let given_up = Some(Phase::Ended(End::GivenUp)).filter(|_| !is_alive);
        match &request.phase {
            Phase::Waiting | Phase::Ended(_) => None,
            Phase::Admitted(_) => given_up,
            Phase::Review(_) if !is_alive && !self.world.zombies => given_up,
            Phase::Review(review) => match review.evaluation.verdict() {
                Some(Verdict::Allowed) => given_up.or_else(|| Some(Phase::Admitted(review.basis.clone()))),
                Some(Verdict::Refused(refusal)) => Some(Phase::Ended(end_of(refusal))),
                None => {
                    let takes_down = review.is_marked && matches!(review.asks[..], [Ask::Record(..)]);
                    (takes_down && self.world.lacks(Guard::TakeDown)).then_some(Phase::Ended(End::Refused))
                }
            },
        }
    }

    /// Begins to write the notes of each review by itself.
    fn begin_batches(&self, state: &mut State) {
        for index in 0..state.requests.len() {
            let Phase::Review(review) = &state.requests[index].phase else { continue };
            let lane = self.lane(index);
            let registers = review.asks.iter().filter_map(|ask| match ask {
                Ask::Record(name, _) => Some(*name),
                _ => None,
            });
            let new: Vec<_> = registers.filter(|name| !state.batches.contains_key(&(lane, *name))).collect();
            for name in new {
                self.begin_batch(state, lane, name, false);
            }
        }
    }
}

fn end_of(refusal: &Refusal) -> End {
    match refusal {
        Refusal::AgainSoon => End::AgainSoon,
        Refusal::Missing(_) | Refusal::Terminating(_) | Refusal::Referenced | Refusal::NameTaken | Refusal::Failed => {
            End::Refused
        }
        Refusal::Unknown(_) => End::Unknown,
    }
}
