//! Limit of the memory for references, over all kinds, and the part of it that one namespace may fill.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Part of the memory budget for all dependents, references and targets, in 256ths.
pub(super) const PART: usize = 64;

/// Divisor of the space: the dependents of one namespace fill at most this part of it, so that no tenant takes the room of
/// the others.
const TENANTS: usize = 4;

/// Space for all indexes. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Space {
    used: Arc<AtomicUsize>,
    /// Bytes of the dependents of each namespace.
    tenants: Arc<Mutex<HashMap<Box<str>, usize>>>,
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
        Self { used: Arc::default(), tenants: Arc::default(), limit }
    }

    /// Returns the part that one namespace may fill, in MiB.
    pub(super) fn tenant_mib(&self) -> usize {
        (self.limit / TENANTS) >> 20
    }

    /// Takes so many bytes for a dependent. Returns false, and takes none, if its namespace has no room left. Dependents in
    /// no namespace are nobody's, and always have room.
    pub(super) fn take(&self, namespace: Option<&str>, bytes: usize) -> bool {
        let Some(namespace) = namespace else { return true };
        let mut tenants = self.tenants();
        let used = tenants.get(namespace).copied().unwrap_or_default().saturating_add(bytes);
        let has_room = used <= self.limit / TENANTS;
        if has_room {
            tenants.insert(namespace.into(), used);
        }
        has_room
    }

    /// Gives bytes back that were taken for a dependent.
    pub(super) fn give_back(&self, namespace: Option<&str>, bytes: usize) {
        let mut tenants = self.tenants();
        let Some((namespace, used)) = namespace.and_then(|namespace| tenants.remove_entry(namespace)) else { return };
        let left = used.saturating_sub(bytes);
        if left > 0 {
            tenants.insert(namespace, left);
        }
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<Box<str>, usize>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an empty share.
    pub(super) fn share(&self) -> Share {
        Share { space: self.clone(), bytes: 0 }
    }
}

impl Share {
    /// Makes the share as large as this number of bytes. Returns false if all shares together are too large then.
    pub(super) fn resize(&mut self, bytes: usize) -> bool {
        let Space { used, limit, .. } = &self.space;
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

    #[test]
    fn a_namespace_fills_its_part_and_no_more() {
        let space = Space::new(40);
        assert!(space.take(Some("x"), 6) && space.take(Some("x"), 4) && !space.take(Some("x"), 1));
        assert!(space.take(Some("y"), 10) && space.take(None, 100));
        space.give_back(Some("x"), 4);
        assert!(!space.take(Some("x"), 5) && space.take(Some("x"), 4));
        space.give_back(Some("x"), 10);
        assert_eq!(space.tenants().keys().map(|name| &**name).collect::<Vec<_>>(), ["y"]);
    }
}
