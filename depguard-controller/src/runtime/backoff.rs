//! Times at which failures are tried again.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Failures, each with the time at which it is due again: after the first pause, 1 s unless said otherwise, then twice
/// as long each time, up to 30 s.
#[derive(Debug)]
pub(crate) struct Retries<K> {
    first: Duration,
    failed: HashMap<K, Retry>,
}

#[derive(Debug)]
struct Retry {
    /// Hash of what was tried: once it changes, the next attempt is due at once.
    input: u64,
    pause: Duration,
    due: Instant,
}

impl<K: Eq + Hash> Retries<K> {
    pub(crate) fn new() -> Self {
        Self::after(FIRST)
    }

    /// Makes an empty record with another first pause.
    pub(crate) fn after(first: Duration) -> Self {
        Self { first, failed: HashMap::new() }
    }

    /// Returns true if an attempt with this input is due.
    pub(crate) fn is_due(&self, key: &K, input: u64, now: Instant) -> bool {
        self.failed.get(key).is_none_or(|retry| retry.input != input || retry.due <= now)
    }

    /// Notes that an attempt failed.
    pub(crate) fn failed(&mut self, key: K, input: u64, now: Instant) {
        let pause = self.failed.get(&key).map_or(self.first, |retry| (retry.pause * 2).min(MAX_DELAY));
        self.failed.insert(key, Retry { input, pause, due: now + pause });
    }

    /// Notes that an attempt succeeded, or is no longer needed.
    pub(crate) fn done(&mut self, key: &K) {
        self.failed.remove(key);
    }

    /// Forgets all keys that are no longer needed.
    pub(crate) fn keep(&mut self, needed: impl Fn(&K) -> bool) {
        self.failed.retain(|key, _| needed(key));
    }

    /// Returns the time at which the next attempt is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.failed.values().map(|retry| retry.due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pauses_double_up_to_half_a_minute() {
        let mut retries = Retries::new();
        let now = Instant::now();
        assert!(retries.is_due(&"a", 1, now));
        let mut pauses = Vec::new();
        for _ in 0..7 {
            retries.failed("a", 1, now);
            pauses.push((retries.next().unwrap() - now).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert!(!retries.is_due(&"a", 1, now + Duration::from_secs(29)));
        assert!(retries.is_due(&"a", 1, now + Duration::from_secs(30)));
        retries.done(&"a");
        assert_eq!(retries.next(), None);
    }

    #[test]
    fn what_changed_is_tried_at_once() {
        let mut retries = Retries::new();
        let now = Instant::now();
        retries.failed("a", 1, now);
        assert!(!retries.is_due(&"a", 1, now));
        assert!(retries.is_due(&"a", 2, now));
        assert!(retries.is_due(&"b", 1, now));
        retries.keep(|key| *key != "a");
        assert!(retries.is_due(&"a", 1, now));
    }
}
