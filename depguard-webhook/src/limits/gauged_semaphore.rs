//! Bounded amounts, and the part of each that is taken.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Bounded amount of something, such as places or bytes. Clones share the amount.
#[derive(Debug, Clone)]
pub(crate) struct GaugedSemaphore {
    left: Arc<Semaphore>,
    all: usize,
}

impl GaugedSemaphore {
    /// Makes an amount of so many in all.
    pub(crate) fn new(all: usize) -> Self {
        let all = all.min(Semaphore::MAX_PERMITS);
        Self { left: Arc::new(Semaphore::new(all)), all }
    }

    /// Returns the semaphore from which the amount is taken.
    pub(crate) fn semaphore(&self) -> Arc<Semaphore> {
        Arc::clone(&self.left)
    }

    /// Returns the amount in all.
    pub(crate) fn all(&self) -> usize {
        self.all
    }

    /// Returns the part that is taken.
    pub(crate) fn taken(&self) -> usize {
        self.all.saturating_sub(self.left.available_permits())
    }
}
