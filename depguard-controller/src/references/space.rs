//! Limit of the memory for references, over all kinds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum memory of all dependents, references and targets, in MiB.
pub(super) const MAX_MIB: usize = 64;

/// Space for all indexes. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Space {
    used: Arc<AtomicUsize>,
    limit: usize,
}

/// Part of the space, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    space: Space,
    bytes: usize,
}

impl Space {
    /// Makes a space of so many bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { used: Arc::default(), limit }
    }

    /// Returns an empty share.
    pub(super) fn share(&self) -> Share {
        Share { space: self.clone(), bytes: 0 }
    }
}

impl Share {
    /// Makes the share as large as this number of bytes. Returns false if all shares together are too large then.
    pub(super) fn resize(&mut self, bytes: usize) -> bool {
        let Space { used, limit } = &self.space;
        // Shares never free more than they took, so the sum can't wrap.
        let before = used.fetch_add(bytes, Ordering::Relaxed);
        used.fetch_sub(self.bytes, Ordering::Relaxed);
        let total = before.saturating_add(bytes).saturating_sub(self.bytes);
        self.bytes = bytes;
        total <= *limit
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_together_and_are_free_again_afterwards() {
        let space = Space::new(10);
        let (mut one, mut other) = (space.share(), space.share());
        assert!(one.resize(6) && other.resize(4));
        assert!(!other.resize(5));
        drop(one);
        assert!(other.resize(10));
        assert!(!other.resize(11) && other.resize(1));
    }
}
