//! Removals of marks that wait for the next write of their register.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use depguard_core::interlock::{Nonce, RegisterName};

/// Evaluations whose marks the next write of a register takes down, by register. Whoever adds one takes it away again.
#[derive(Debug, Default)]
pub(crate) struct Removals(Mutex<BTreeMap<RegisterName, BTreeSet<Nonce>>>);

impl Removals {
    pub(crate) fn add(&self, register: RegisterName, nonce: Nonce) {
        self.lock().entry(register).or_default().insert(nonce);
    }

    /// Takes one away. Returns false if that was done before.
    pub(crate) fn take(&self, register: RegisterName, nonce: Nonce) -> bool {
        let mut removals = self.lock();
        let Some(of) = removals.get_mut(&register) else { return false };
        let was_there = of.remove(&nonce);
        if of.is_empty() {
            removals.remove(&register);
        }
        was_there
    }

    /// Returns the evaluations whose marks a write of this register takes down.
    pub(crate) fn of(&self, register: RegisterName) -> Vec<Nonce> {
        self.lock().get(&register).map_or_else(Vec::new, |of| of.iter().copied().collect())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RegisterName, BTreeSet<Nonce>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
