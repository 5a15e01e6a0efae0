//! API servers: they carry allowed requests out. Replicas that crash.

use std::sync::Arc;

use crate::guard::Guard;
use crate::model::Interlock;
use crate::review::uid;
use crate::state::{Basis, End, Phase, State, StoredDependent};
use crate::world::Operation;
use crate::writes::to_write;

impl Interlock {
    pub(crate) fn commit(&self, state: &mut State, index: usize) {
        let Phase::Admitted(basis) = state.requests[index].phase.clone() else { return };
        let attempt = state.requests[index].attempt;
        let end = match (self.world.requests[index].operation, basis) {
            (Operation::Create(name, targets) | Operation::Apply(name, targets), Basis::Nothing) => {
                let is_apply = matches!(self.world.requests[index].operation, Operation::Apply(..));
                match state.dependents.contains_key(&name) {
                    true if is_apply => return self.review(state, index, attempt + 1),
                    true => End::GivenUp,
                    false => {
                        let uid = uid(index, attempt);
                        let owners = self.world.requests[index].owners;
                        state.dependents.insert(name, StoredDependent { uid, version: 1, targets, owners });
                        state.created.insert((index, attempt));
                        End::Done
                    }
                }
            }
            (operation, Basis::Dependent(old)) => {
                let Some(name) = operation.dependent() else { return };
                let (targets, owners) = self.written(index, Some(&old));
                match state.dependents.get_mut(&name) {
                    None if !matches!(operation, Operation::Apply(..)) => End::GivenUp,
                    Some(current) if *current == old => {
                        current.version += 1;
                        (current.targets, current.owners) = (targets, owners);
                        End::Done
                    }
                    None | Some(_) => return self.review(state, index, attempt + 1),
                }
            }
            (Operation::Delete(target), Basis::Target(old)) => {
                let mut current = state.targets[usize::from(target)];
                if !current.is_stored {
                    End::GivenUp
                } else if current != old && !self.world.lacks(Guard::ReviewedAgain) {
                    return self.review(state, index, attempt + 1);
                } else {
                    current.delete(self.propagation(index, current));
                    state.targets[usize::from(target)] = current;
                    self.note_orphans(state);
                    if self.world.requests[index].is_override {
                        self.let_go(state, target);
                    }
                    End::Done
                }
            }
            _ => End::GivenUp,
        };
        Arc::make_mut(&mut state.requests[index]).phase = Phase::Ended(end);
    }

    pub(crate) fn crash(&self, state: &mut State, replica: u8) {
        for index in 0..state.requests.len() {
            if self.world.requests[index].replica != replica || !matches!(state.requests[index].phase, Phase::Review(_))
            {
                continue;
            }
            Arc::make_mut(&mut state.requests[index]).phase = Phase::Ended(End::GivenUp);
            let lane = self.lane(index);
            let lost: Vec<_> = state.batches.keys().filter(|(of, _)| *of == lane).copied().collect();
            for batch in lost.into_iter().filter_map(|key| state.batches.remove(&key)) {
                // The write may be under way.
                state.late.extend(to_write(&batch).map(Arc::new));
            }
        }
    }
}
