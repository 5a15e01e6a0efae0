//! Limit of the memory for references, over all kinds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of entries: each target, each dependent and each of its references is one. An entry of a dependent or
/// a reference takes about 150 bytes, one of a target about 100.
pub(super) const MAX_ENTRIES: usize = 400_000;

/// Space for all entries. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Space {
    used: Arc<AtomicUsize>,
    limit: usize,
}

/// Part of the space, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    space: Space,
    entries: usize,
}

impl Space {
    pub(super) fn new(limit: usize) -> Self {
        Self { used: Arc::default(), limit }
    }

    /// Returns an empty share.
    pub(super) fn share(&self) -> Share {
        Share { space: self.clone(), entries: 0 }
    }
}

impl Share {
    /// Makes the share as large as this number of entries. Returns false if all shares together are too large then.
    pub(super) fn resize(&mut self, entries: usize) -> bool {
        let Space { used, limit } = &self.space;
        // Shares never free more than they took, so the sum can't wrap.
        let before = used.fetch_add(entries, Ordering::Relaxed);
        used.fetch_sub(self.entries, Ordering::Relaxed);
        let total = before.saturating_add(entries).saturating_sub(self.entries);
        self.entries = entries;
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
