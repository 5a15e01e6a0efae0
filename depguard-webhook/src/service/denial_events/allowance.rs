//! Allowance of Events: how many each namespace may have, and how often an object may have one.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use tokio::time::Instant;

use crate::metrics::denial_events::EventEnd;

/// Time for which an Event counts.
const PERIOD: Duration = Duration::from_secs(300);
/// Maximum number of Events of one namespace that count at once.
const MAX_EVENTS: usize = 20;
/// Maximum number of namespaces that are remembered.
const MAX_NAMESPACES: usize = 1024;

/// Events of the last minutes, by namespace. Of namespaces and objects only hashes are kept, so that the memory has a
/// bound.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    hasher: RandomState,
    /// Instants and objects of the Events, the oldest first. No list is empty.
    namespaces: HashMap<u64, VecDeque<(Instant, u64)>>,
}

impl Allowance {
    /// Takes an Event of the allowance; returns why there is none if the object or the namespace had enough.
    pub(super) fn take(&mut self, namespace: &str, object: impl Hash) -> Result<(), EventEnd> {
        let now = Instant::now();
        let (namespace, object) = (self.hasher.hash_one(namespace), self.hasher.hash_one(object));
        if let Some(events) = self.namespaces.get_mut(&namespace) {
            while events.pop_front_if(|(at, _)| is_over(*at, now)).is_some() {}
            if events.iter().any(|(_, other)| *other == object) {
                return Err(EventEnd::Repeated);
            }
            if events.len() >= MAX_EVENTS {
                return Err(EventEnd::Limited);
            }
        } else {
            self.make_room(now);
        }
        self.namespaces.entry(namespace).or_default().push_back((now, object));
        Ok(())
    }

    /// Forgets namespaces whose Events count no more, and if none of them does, the one whose last Event is the oldest.
    fn make_room(&mut self, now: Instant) {
        if self.namespaces.len() < MAX_NAMESPACES {
            return;
        }
        let last = |events: &VecDeque<(Instant, u64)>| events.back().map(|(at, _)| *at);
        self.namespaces.retain(|_, events| last(events).is_some_and(|at| !is_over(at, now)));
        if self.namespaces.len() >= MAX_NAMESPACES {
            let oldest = self.namespaces.iter().min_by_key(|(_, events)| last(events)).map(|(key, _)| *key);
            oldest.and_then(|key| self.namespaces.remove(&key));
        }
    }
}

fn is_over(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) >= PERIOD
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn an_object_has_one_event_in_five_minutes() {
        let mut allowance = Allowance::default();
        assert_eq!(allowance.take("a", "vpc"), Ok(()));
        advance(PERIOD / 2).await;
        assert_eq!(allowance.take("a", "vpc"), Err(EventEnd::Repeated));
        assert_eq!(allowance.take("b", "vpc"), Ok(()));
        advance(PERIOD / 2).await;
        assert_eq!(allowance.take("a", "vpc"), Ok(()));
        assert_eq!(allowance.take("b", "vpc"), Err(EventEnd::Repeated));
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_never_uses_up_the_allowance_of_another() {
        let mut allowance = Allowance::default();
        let taken = (0..1000).filter(|object| allowance.take("a", object).is_ok()).count();
        assert_eq!(taken, MAX_EVENTS);
        assert_eq!(allowance.take("a", 1000), Err(EventEnd::Limited));
        assert_eq!(allowance.take("b", 1000), Ok(()));
        advance(PERIOD).await;
        assert_eq!(allowance.take("a", 1000), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn its_memory_has_a_bound_and_the_newest_are_kept() {
        let mut allowance = Allowance::default();
        for namespace in 0..2 * MAX_NAMESPACES {
            assert_eq!(allowance.take(&namespace.to_string(), 1), Ok(()));
            advance(Duration::from_millis(1)).await;
        }
        assert_eq!(allowance.namespaces.len(), MAX_NAMESPACES);
        let last = (2 * MAX_NAMESPACES - 1).to_string();
        assert_eq!(allowance.take(&last, 1), Err(EventEnd::Repeated));
        advance(PERIOD).await;
        assert_eq!(allowance.take("new", 1), Ok(()));
        assert_eq!(allowance.namespaces.len(), 1, "namespaces whose Events are over are forgotten");
    }
}
