//! How much of what is bounded is taken.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Something of which there is only so much, such as places or bytes. Clones speak of the same.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    left: Arc<Semaphore>,
    all: usize,
}

impl Taken {
    /// So much in all.
    pub(crate) fn of(all: usize) -> Self {
        let all = all.min(Semaphore::MAX_PERMITS);
        Self { left: Arc::new(Semaphore::new(all)), all }
    }

    /// What it is taken from.
    pub(crate) fn semaphore(&self) -> Arc<Semaphore> {
        Arc::clone(&self.left)
    }

    /// How much there is in all.
    pub(crate) fn all(&self) -> usize {
        self.all
    }

    /// How much of it is taken.
    pub(crate) fn taken(&self) -> usize {
        self.all.saturating_sub(self.left.available_permits())
    }
}
