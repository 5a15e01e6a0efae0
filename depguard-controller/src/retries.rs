//! When to try again what failed.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// What failed, each with when it is due again: after 1 s unless said, then twice as long each time, up to 30 s.
#[derive(Debug)]
pub(crate) struct Retries<K> {
    first: Duration,
    failed: HashMap<K, Retry>,
}

#[derive(Debug)]
struct Retry {
    /// What was tried: when it changes, nothing speaks against trying at once.
    input: u64,
    pause: Duration,
    due: Instant,
}

impl<K: Eq + Hash> Retries<K> {
    pub(crate) fn new() -> Self {
        Self::after(FIRST)
    }

    /// With another first pause.
    pub(crate) fn after(first: Duration) -> Self {
        Self { first, failed: HashMap::new() }
    }

    /// Whether to try, with this as what is tried.
    pub(crate) fn is_due(&self, key: &K, input: u64, now: Instant) -> bool {
        self.failed.get(key).is_none_or(|retry| retry.input != input || retry.due <= now)
    }

    /// It was tried and failed.
    pub(crate) fn failed(&mut self, key: K, input: u64, now: Instant) {
        let pause = self.failed.get(&key).map_or(self.first, |retry| (retry.pause * 2).min(LONGEST));
        self.failed.insert(key, Retry { input, pause, due: now + pause });
    }

    /// It was tried and done, or is no longer wanted.
    pub(crate) fn done(&mut self, key: &K) {
        self.failed.remove(key);
    }

    /// Forgets what is no longer wanted.
    pub(crate) fn keep(&mut self, wanted: impl Fn(&K) -> bool) {
        self.failed.retain(|key, _| wanted(key));
    }

    /// When something is next due.
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
