//! The garbage collector: it deletes dependents that have lost their owners, and takes ownerReferences away.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::model::Interlock;
use crate::owners::{Owners, Propagation};
use crate::review::MAX_ATTEMPTS;
use crate::state::{End, Phase, RequestState, State, StoredDependent, TargetState};
use crate::world::Operation;

impl Interlock {
    /// Returns true if the collector deletes the dependent next.
    pub(crate) fn is_collected(&self, state: &State, dependent: &StoredDependent) -> bool {
        let is_awaited = is_pending(state.targets[0], Propagation::Foreground);
        let is_reachable = dependent.owners == Owners::TARGET && !self.world.is_cluster_scoped;
        self.is_garbage(state, dependent) || (is_reachable && is_awaited)
    }

    /// Returns true if the collector is to take the ownerReference to the first target away from the dependent.
    fn is_released(&self, state: &State, name: u8, dependent: &StoredDependent) -> bool {
        let target = state.targets[0];
        let is_gone = !target.is_stored || target.births > 1;
        let has_another = dependent.owners == Owners::TARGET.and(Owners::OTHER) && !self.world.is_cluster_scoped;
        (has_another && (is_gone || is_pending(target, Propagation::Foreground)))
            || (dependent.owners.has_target()
                && (state.orphaned.contains(&name) || is_pending(target, Propagation::Orphan)))
    }

    /// Returns true if the collector sends its update of a dependent: for the first time, or again after something has
    /// changed that may have been in its way.
    pub(crate) fn sends(&self, state: &State, index: usize) -> bool {
        let Operation::Release(name) = self.world.requests[index].operation else { return false };
        let request = &state.requests[index];
        if request.attempt + 1 == MAX_ATTEMPTS {
            return false;
        }
        let is_free = match request.phase {
            Phase::Waiting => true,
            Phase::Ended(End::AgainSoon | End::Refused | End::Unknown) => request.refused_in != Some(obstacles(state)),
            Phase::Ended(End::Done | End::GivenUp) => true,
            Phase::Review(_) | Phase::Admitted(_) => false,
        };
        is_free && state.dependents.get(&name).is_some_and(|dependent| self.is_released(state, name, dependent))
    }

    /// Returns true if the collector is done with the finalizer that its own deletions give a target.
    pub(crate) fn unblocks(&self, state: &State, number: usize) -> bool {
        let owns =
            |(name, dependent): (&u8, &StoredDependent)| number == 0 && self.is_released(state, *name, dependent);
        match state.targets[number] {
            TargetState { is_terminating: false, .. } => false,
            TargetState { propagation: Propagation::Background, .. } => false,
            // Dependents that don't block their owner's deletion may be left for later.
            TargetState { propagation: Propagation::Foreground, .. } => true,
            TargetState { propagation: Propagation::Orphan, .. } => !state.dependents.iter().any(owns),
        }
    }

    /// Returns true if nothing is left for the collector.
    pub(crate) fn rests(&self, state: &State) -> bool {
        let is_left = |(name, dependent): (&u8, &StoredDependent)| {
            self.is_collected(state, dependent) || self.is_released(state, *name, dependent)
        };
        let is_held = |target: &TargetState| target.is_terminating && target.propagation != Propagation::Background;
        !state.dependents.iter().any(is_left) && !state.targets.iter().any(is_held)
    }

    /// Returns true for the update of the collector.
    pub(crate) fn is_release(&self, index: usize) -> bool {
        matches!(self.world.requests[index].operation, Operation::Release(_))
    }

    /// Notes what stood in the way of the collector's update, when it is refused.
    pub(crate) fn note_obstacles(&self, state: &State, index: usize, request: &mut RequestState) {
        if self.is_release(index) && request.has_ended() {
            request.refused_in = Some(obstacles(state));
        }
    }

    /// Notes the dependents that the collector releases because the deletion of the first target orphans. It does so even
    /// if another deletion changes its mind meanwhile.
    pub(crate) fn note_orphans(&self, state: &mut State) {
        if is_pending(state.targets[0], Propagation::Orphan) {
            let owned = state.dependents.iter().filter(|(_, dependent)| dependent.owners.has_target());
            let owned: Vec<_> = owned.map(|(name, _)| *name).collect();
            state.orphaned.extend(owned);
        }
    }

    /// Notes the references that the override of a deletion leaves behind: those that are stored, and those that may be
    /// stored because of an earlier review.
    pub(crate) fn let_go(&self, state: &mut State, target: u8) {
        let orphans = state.targets[usize::from(target)].propagation == Propagation::Orphan;
        let stays = |dependent: &StoredDependent| {
            let is_owned = target == 0 && dependent.owners == Owners::TARGET && !self.world.is_cluster_scoped;
            dependent.targets & (1 << target) != 0 && (orphans || !is_owned)
        };
        let stored = state.dependents.iter().filter(|(_, dependent)| stays(dependent)).map(|(name, _)| *name);
        let under_way = state.requests.iter().zip(&self.world.requests).filter_map(|(request, planned)| {
            let is_under_way = matches!(request.phase, Phase::Review(_) | Phase::Admitted(_));
            planned.operation.dependent().filter(|_| is_under_way)
        });
        let let_go: Vec<_> = stored.chain(under_way).collect();
        state.let_go.extend(let_go);
    }
}

impl TargetState {
    /// Carries a deletion out.
    pub(crate) fn delete(&mut self, propagation: Propagation) {
        let before = *self;
        self.propagation = propagation;
        self.is_terminating = true;
        self.go(before);
    }

    /// Takes a finalizer away: the collector's own, or that of somebody else.
    pub(crate) fn unblock(&mut self, is_collector: bool) {
        let before = *self;
        match is_collector {
            true => self.propagation = Propagation::Background,
            false => self.is_held = false,
        }
        self.go(before);
    }

    fn go(&mut self, before: Self) {
        if self.is_terminating && !self.is_held && self.propagation == Propagation::Background {
            (self.is_stored, self.is_terminating) = (false, false);
        } else if *self != before {
            self.version += 1;
        }
    }
}

fn is_pending(target: TargetState, propagation: Propagation) -> bool {
    target.births == 1 && target.is_terminating && target.propagation == propagation
}

/// Returns what may stand in the way of an update: targets, dependents, and marks, whatever the registers' versions.
fn obstacles(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&state.targets, &state.dependents).hash(&mut hasher);
    for register in state.registers.values().flatten() {
        register.marks().for_each(|marks| marks.hash(&mut hasher));
    }
    hasher.finish()
}
