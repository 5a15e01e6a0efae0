//! Time of the last contact with each watch, and its failure. A watch that is broken looks like a watch without news.
//! Only a bookmark tells them apart, and no API server promises bookmarks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::snapshot::Watched;
use super::store::Source;

/// Time of the last contact with one watch, and its failure. Clones share both.
#[derive(Debug, Clone)]
pub(crate) struct LastUnderstood(Arc<Moment>);

#[derive(Debug)]
struct Moment {
    base: Instant,
    /// Milliseconds since `base`.
    last: AtomicU64,
    failing: AtomicBool,
}

impl LastUnderstood {
    /// Makes a record of a watch with a contact just now.
    pub(crate) fn now() -> Self {
        Self(Arc::new(Moment { base: Instant::now(), last: AtomicU64::new(0), failing: AtomicBool::new(false) }))
    }

    /// Notes that a message was understood just now: an event, a bookmark, or a list read to its end. A response that
    /// has only begun does not count: it may be the same unusable list for ever.
    pub(crate) fn note(&self) {
        let after = u64::try_from(self.0.base.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last.fetch_max(after, Ordering::Relaxed);
    }

    pub(crate) fn last(&self) -> Instant {
        let after = Duration::from_millis(self.0.last.load(Ordering::Relaxed));
        self.0.base.checked_add(after).unwrap_or(self.0.base)
    }

    /// Notes if the objects can't be listed. Returns true if that changed.
    pub(crate) fn set_failing(&self, failing: bool) -> bool {
        self.0.failing.swap(failing, Ordering::Relaxed) != failing
    }

    fn is_failing(&self) -> bool {
        self.0.failing.load(Ordering::Relaxed)
    }
}

/// Watches of a reflector, and the time of the last contact with each by an event, a bookmark or a list. Clones share them,
/// and each read shows the present moment.
#[derive(Debug, Clone, Default)]
pub struct Watches(Arc<Mutex<BTreeMap<Source, (Watched, LastUnderstood)>>>);

/// Watch that has been silent for the longest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Silence {
    pub(crate) since: Instant,
    pub(crate) watched: Watched,
    /// Endpoint, if the watch belongs to one.
    pub(crate) origin: Option<Arc<str>>,
}

impl Watches {
    /// Returns the silence of each resource, by its name in URLs: that of the endpoint that has been silent for the
    /// longest. In kcp this includes the endpoint slices.
    pub fn ages(&self) -> BTreeMap<&'static str, Duration> {
        let mut ages = BTreeMap::new();
        for (watched, last_understood) in self.lock().values() {
            let age = last_understood.last().elapsed();
            let oldest = ages.entry(watched.plural).or_insert(age);
            *oldest = age.max(*oldest);
        }
        ages
    }

    /// Returns the resources, by their names in URLs, each with `true` if some endpoint can't list it.
    pub fn failing(&self) -> BTreeMap<&'static str, bool> {
        let mut failing = BTreeMap::new();
        for (watched, last_understood) in self.lock().values() {
            *failing.entry(watched.plural).or_default() |= last_understood.is_failing();
        }
        failing
    }

    /// Returns the watch that has been silent for the longest, among those of the chosen resources.
    pub(crate) fn most_silent(&self, chosen: impl Fn(&Watched) -> bool) -> Option<Silence> {
        let watches = self.lock();
        let chosen = watches.iter().filter(|(_, (watched, _))| chosen(watched));
        let silences = chosen.map(|(source, (watched, last_understood))| Silence {
            since: last_understood.last(),
            watched: *watched,
            origin: match source {
                Source::Slices => None,
                Source::Resource { origin, .. } => Some(Arc::clone(origin)),
            },
        });
        silences.min_by_key(|silence| silence.since)
    }

    /// Returns true if some endpoint had a contact within that time, by a watch of a required resource.
    pub(crate) fn hear_any(&self, within: Duration) -> bool {
        self.lock().iter().any(|(source, (watched, last_understood))| {
            watched.required && matches!(source, Source::Resource { .. }) && last_understood.last().elapsed() <= within
        })
    }

    /// Returns an endpoint that is watched.
    pub(crate) fn any_origin(&self) -> Option<Arc<str>> {
        self.lock().keys().find_map(|source| match source {
            Source::Slices => None,
            Source::Resource { origin, .. } => Some(Arc::clone(origin)),
        })
    }

    pub(crate) fn begin(&self, source: Source, watched: Watched) -> LastUnderstood {
        let last_understood = LastUnderstood::now();
        self.lock().insert(source, (watched, last_understood.clone()));
        last_understood
    }

    pub(crate) fn end(&self, source: &Source) {
        self.lock().remove(source);
    }

    // No code can panic while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Source, (Watched, LastUnderstood)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(origin: &str) -> Source {
        Source::Resource { origin: Arc::from(origin), index: 0 }
    }

    #[tokio::test(start_paused = true)]
    async fn the_age_is_that_of_the_most_silent_endpoint_until_it_has_a_contact_or_is_gone() {
        let watches = Watches::default();
        let a = watches.begin(at("a"), Watched::RULES);
        let b = watches.begin(at("b"), Watched::RULES);
        tokio::time::advance(Duration::from_secs(30)).await;
        a.note();
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(watches.ages(), BTreeMap::from([("dependencyrules", Duration::from_secs(35))]));
        assert_eq!(watches.most_silent(|_| true).unwrap().origin.as_deref(), Some("b"));
        b.note();
        assert_eq!(watches.ages(), BTreeMap::from([("dependencyrules", Duration::from_secs(5))]));
        assert_eq!(watches.most_silent(|_| true).unwrap().origin.as_deref(), Some("a"));
        watches.end(&at("a"));
        assert_eq!(watches.ages(), BTreeMap::from([("dependencyrules", Duration::ZERO)]));
    }

    #[test]
    fn a_resource_fails_while_one_of_its_endpoints_does_and_that_is_news_once() {
        let watches = Watches::default();
        let a = watches.begin(at("a"), Watched::RULES);
        watches.begin(at("b"), Watched::RULES);
        assert_eq!(watches.failing(), BTreeMap::from([("dependencyrules", false)]));
        assert_eq!([a.set_failing(true), a.set_failing(true)], [true, false]);
        assert_eq!(watches.failing(), BTreeMap::from([("dependencyrules", true)]));
        assert_eq!([a.set_failing(false), a.set_failing(false)], [true, false]);
        assert_eq!(watches.failing(), BTreeMap::from([("dependencyrules", false)]));
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_with_a_contact_is_told_from_slices_that_are() {
        let watches = Watches::default();
        let a = watches.begin(at("a"), Watched::RULES);
        let slices = watches.begin(Source::Slices, Watched::RULES);
        tokio::time::advance(Duration::from_secs(30)).await;
        slices.note();
        assert!(!watches.hear_any(Duration::from_secs(29)));
        a.note();
        assert!(watches.hear_any(Duration::from_secs(29)));
        assert_eq!(watches.any_origin().as_deref(), Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_required_may_be_silent() {
        let watches = Watches::default();
        watches.begin(at("a"), Watched::EXPORTS);
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(watches.most_silent(|watched| watched.required), None);
        assert_eq!(watches.ages(), BTreeMap::from([("apiexports", Duration::from_secs(30))]));
    }
}
