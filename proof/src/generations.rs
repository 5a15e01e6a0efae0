//! Two generations of registers at once: replicas with another key, and the change from one generation to the next.

use depguard_core::interlock::{Buckets, RegisterKey, RegisterName};

use crate::guard::Guard;
use crate::model::Interlock;
use crate::state::State;

/// Keys of the replicas, and path in the webhook configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generations {
    /// All replicas have the key whose generation is in the path.
    One,
    /// The second replica has another key. The registers of both are there, and open.
    AnotherKey,
    /// The path changes in the course of events, from registers without a key to those of the key that all replicas
    /// have. API servers, one for each replica, take the change up one after the other.
    Change,
}

impl Interlock {
    /// Returns the registers with the key.
    pub(crate) fn keyed(&self) -> Buckets {
        self.buckets.keyed(RegisterKey::new([7; RegisterKey::LEN]))
    }

    /// Returns the registers by which a request is reviewed; `None` if its replica answers 404.
    pub(crate) fn buckets_of(&self, state: &State, index: usize) -> Option<Buckets> {
        let replica = self.world.requests[index].replica;
        match self.world.generations {
            Generations::One => Some(self.buckets),
            Generations::AnotherKey if replica == 0 => Some(self.buckets),
            Generations::AnotherKey => self.world.lacks(Guard::GenerationInPath).then(|| self.keyed()),
            Generations::Change if state.behind.contains(&replica) => Some(self.buckets),
            Generations::Change => Some(self.keyed()),
        }
    }

    /// Returns true if the controller makes this register if it is missing.
    pub(crate) fn is_in_use(&self, state: &State, name: RegisterName) -> bool {
        let is_former = self.buckets.registers().any(|former| former == name);
        is_former != (self.world.generations == Generations::Change && state.has_changed)
    }

    /// Changes the configurations; first, the registers of the former generation go.
    pub(crate) fn change(&self, state: &mut State) {
        state.has_changed = true;
        if !self.world.lacks(Guard::FormerRegistersGo) {
            for name in self.buckets.registers() {
                state.registers.insert(name, None);
            }
        }
    }
}
