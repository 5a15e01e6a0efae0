//! Deference to a newer version of depguard: its configurations are left to it for a while, and no longer. A revision
//! is only an annotation, and everybody who may write the configuration may write the annotation.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::model::install_outcome::Outcome;

/// Configurations that are left to a newer version, each with the start of its deference.
#[derive(Debug)]
pub(crate) struct Deference<K> {
    limit: Duration,
    since: HashMap<K, Instant>,
}

impl<K: Eq + Hash> Deference<K> {
    /// Makes a record that leaves each configuration to a newer version for so long.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, since: HashMap::new() }
    }

    /// Returns true once the newer version has had its time, so that this one writes its own configuration.
    pub(crate) fn is_over(&self, key: &K, now: Instant) -> bool {
        self.since.get(key).is_some_and(|since| now.saturating_duration_since(*since) >= self.limit)
    }

    /// Notes the state of a configuration. The time runs from the first look that shows a newer version's configuration
    /// until a look shows another one.
    pub(crate) fn note(&mut self, key: K, outcome: &Outcome, now: Instant) {
        match outcome {
            Outcome::Newer { .. } => _ = self.since.entry(key).or_insert(now),
            Outcome::Installed | Outcome::Foreign | Outcome::ClaimNotAccepted => _ = self.since.remove(&key),
            Outcome::Pending(_) | Outcome::Failed(_) => {}
        }
    }

    /// Returns the next time at which a deference is over.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        self.since.values().filter_map(|since| since.checked_add(self.limit)).filter(|over| *over > now).min()
    }

    /// Forgets all keys that are no longer needed.
    pub(crate) fn keep(&mut self, needed: impl Fn(&K) -> bool) {
        self.since.retain(|key, _| needed(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_runs_from_the_first_look_until_it_is_no_longer_a_newer_versions() {
        let (mut deference, begun) = (Deference::new(Duration::from_secs(60)), Instant::now());
        let after = |seconds| begun + Duration::from_secs(seconds);
        assert!(!deference.is_over(&"a", begun));
        deference.note("a", &Outcome::Newer { in_force: true }, begun);
        deference.note("a", &Outcome::Newer { in_force: false }, after(50));
        assert_eq!(deference.next(after(50)), Some(after(60)));
        assert!(!deference.is_over(&"a", after(59)) && deference.is_over(&"a", after(60)));
        assert_eq!(deference.next(after(60)), None, "nothing is to be waited for");
        // A failed write is tried again, and the deference stays over meanwhile.
        deference.note("a", &Outcome::Failed("500".to_owned()), after(61));
        assert!(deference.is_over(&"a", after(61)));
        deference.note("a", &Outcome::Installed, after(62));
        assert!(!deference.is_over(&"a", after(200)));
    }
}
