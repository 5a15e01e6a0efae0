//! Watch of one kind, kept as an index of its objects.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use depguard_core::GroupVersionResource;
use depguard_kcp::{Snapshot, WatchEvent, WatchFailure};
use futures::stream::{BoxStream, StreamExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::space::{MAX_MIB, Share, Space};
use crate::model::reference_count::{KIND_NOT_FOUND, RIGHT_MISSING, TOO_MANY, Uncounted, WATCH_FAILED};
use crate::runtime::backoff::Retries;

/// Time for which a list may be silent.
const LIST_SILENCE: Duration = Duration::from_secs(60);
/// Time for which a watch must go on after its list, before the objects count: an account that may list and not
/// watch loses the watch at once.
const TRIAL: Duration = Duration::from_secs(1);
/// Duration of a working watch after which the pauses begin with short ones again.
const STEADY: Duration = Duration::from_secs(10);
/// Pause after there were too many objects.
const TOO_MANY_PAUSE: Duration = Duration::from_secs(300);

/// Objects of one kind, reduced to the data that the count needs.
pub(super) trait Index: Debug + Send + 'static {
    /// Form in which the watch shows objects.
    type Shown: Send;

    /// Returns an empty index of the same kind.
    fn empty(&self) -> Self;
    /// Takes in an object as it is now. Returns true if the count may change.
    fn put(&mut self, object: Self::Shown) -> bool;
    /// Takes in that an object is gone. Returns true if the count may change.
    fn remove(&mut self, object: &Self::Shown) -> bool;
    /// Returns the memory of the index in bytes, estimated rather too high.
    fn bytes(&self) -> usize;
}

/// Stream of a watch.
pub(super) type Events<T> = BoxStream<'static, Result<WatchEvent<T>, WatchFailure>>;

/// Watch that ends when it is dropped.
pub(super) struct KindWatch<I> {
    watched: Arc<Mutex<Watched<I>>>,
    task: JoinHandle<()>,
}

/// State of a watch.
pub(super) struct Watched<I> {
    pub(super) state: State,
    /// Objects; they count only if the state is loaded.
    pub(super) index: I,
    share: Share,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// The first list is not complete.
    Pending,
    Loaded,
    Unknown(Uncounted),
}

/// Reason why a watch ended.
struct Failure {
    why: Uncounted,
    /// True if the kind is unknown from now on; false if the known objects count for a while.
    is_final: bool,
}

impl<I: Index> KindWatch<I> {
    /// Begins to watch. `open` begins a stream; each change that may change the count notifies `news`.
    pub(super) fn start(
        kind: GroupVersionResource,
        index: I,
        space: &Space,
        news: Arc<Notify>,
        open: impl Fn() -> Events<I::Shown> + Send + Sync + 'static,
    ) -> Self {
        let watched = Watched { state: State::Pending, index, share: space.share() };
        let watched = Arc::new(Mutex::new(watched));
        let follower = Follower { kind, watched: Arc::clone(&watched), space: space.clone(), news };
        Self { watched, task: tokio::spawn(follower.run(open)) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Watched<I>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<I> Drop for KindWatch<I> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Follower<I> {
    kind: GroupVersionResource,
    watched: Arc<Mutex<Watched<I>>>,
    space: Space,
    news: Arc<Notify>,
}

impl<I: Index> Follower<I> {
    async fn run(self, open: impl Fn() -> Events<I::Shown>) {
        let mut retries = Retries::new();
        let mut failing_since = None;
        loop {
            let begun = Instant::now();
            let mut was_loaded = false;
            let Failure { why, is_final } = self.follow(open(), &mut was_loaded).await;
            if was_loaded {
                failing_since = None;
            }
            let now = Instant::now();
            if begun.elapsed() > STEADY {
                retries.done(&());
            }
            retries.failed((), 0, now);
            let is_late = now.duration_since(*failing_since.get_or_insert(now)) > Snapshot::PATIENCE;
            let is_too_many = why.reason == TOO_MANY;
            self.change(|watched| {
                if !(is_final || is_late || watched.state != State::Loaded) {
                    return false;
                }
                let state = State::Unknown(why);
                let is_news = watched.state != state;
                watched.state = state;
                watched.index = watched.index.empty();
                watched.share.resize(0);
                is_news
            });
            if is_too_many {
                sleep(TOO_MANY_PAUSE).await;
            } else {
                sleep_until(retries.next().unwrap_or(now)).await;
            }
        }
    }

    /// Follows the kind until a failure. Sets `was_loaded` once the objects are known.
    async fn follow(&self, mut events: Events<I::Shown>, was_loaded: &mut bool) -> Failure {
        let mut listed = self.begin_list();
        let mut is_listing = true;
        let mut trial_end = None;
        loop {
            let event = match (is_listing, trial_end) {
                (true, _) => timeout(LIST_SILENCE, events.next()).await,
                (false, Some(end)) => timeout_at(end, events.next()).await,
                // kube ends a watch that is silent.
                (false, None) => Ok(events.next().await),
            };
            if trial_end.is_some() && !is_listing && !matches!(event, Ok(None | Some(Err(_)))) {
                (*was_loaded, trial_end) = (true, None);
                self.change(|watched| {
                    watched.state = State::Loaded;
                    true
                });
            }
            let event = match event {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(failure))) => return self.failure(&failure),
                Ok(None) => return self.broken("the watch ended"),
                Err(_) if is_listing => return self.broken("no answer came"),
                Err(_) => continue,
            };
            let is_within = match event {
                WatchEvent::Listing => {
                    (listed, is_listing) = (self.begin_list(), true);
                    true
                }
                WatchEvent::Listed(object) => {
                    let (index, share) = &mut listed;
                    index.put(object);
                    share.resize(index.bytes())
                }
                WatchEvent::Complete => {
                    let (index, share) = std::mem::replace(&mut listed, self.begin_list());
                    is_listing = false;
                    self.change(|watched| {
                        (watched.index, watched.share) = (index, share);
                        let is_loaded = watched.state == State::Loaded;
                        *was_loaded |= is_loaded;
                        trial_end = (!is_loaded).then(|| Instant::now() + TRIAL);
                        is_loaded
                    });
                    true
                }
                WatchEvent::Changed(object) => self.change_index(|index| index.put(object)),
                WatchEvent::Gone(object) => self.change_index(|index| index.remove(&object)),
            };
            if !is_within {
                let message = format!(
                    "depguard counts no references, because all dependents, references and targets together take more \
                     than {MAX_MIB} MiB; run `kubectl depguard dangling`"
                );
                return Failure { why: Uncounted { reason: TOO_MANY, message }, is_final: true };
            }
        }
    }

    fn begin_list(&self) -> (I, Share) {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        (watched.index.empty(), self.space.share())
    }

    fn failure(&self, failure: &WatchFailure) -> Failure {
        let kind = self.kind.group_resource();
        match failure.status {
            Some(401 | 403) => Failure {
                why: Uncounted {
                    reason: RIGHT_MISSING,
                    message: format!("the controller may not list and watch {kind}: {failure}"),
                },
                is_final: true,
            },
            Some(404) => Failure {
                why: Uncounted {
                    reason: KIND_NOT_FOUND,
                    message: format!("the API server does not serve {}", self.kind),
                },
                is_final: true,
            },
            _ => self.broken(&failure.why),
        }
    }

    fn broken(&self, why: &str) -> Failure {
        let message = format!("{} can't be watched: {why}", self.kind.group_resource());
        Failure { why: Uncounted { reason: WATCH_FAILED, message }, is_final: false }
    }

    /// Changes the index. Returns false if it is too large then.
    fn change_index(&self, change: impl FnOnce(&mut I) -> bool) -> bool {
        let mut is_within = true;
        self.change(|watched| {
            let is_news = change(&mut watched.index);
            is_within = watched.share.resize(watched.index.bytes());
            is_news
        });
        is_within
    }

    /// Changes the state, and notifies if the change says that it is news.
    fn change(&self, change: impl FnOnce(&mut Watched<I>) -> bool) {
        let is_news = change(&mut self.watched.lock().unwrap_or_else(PoisonError::into_inner));
        if is_news {
            self.news.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use depguard_core::Group;
    use depguard_core::model::{Resource, Version};
    use depguard_kcp::Metadata;
    use futures::stream;

    use super::super::targets::Targets;
    use super::*;

    fn vpcs() -> GroupVersionResource {
        GroupVersionResource {
            group: Group::parse("n.example.com").unwrap(),
            version: Version::parse("v1").unwrap(),
            resource: Resource::parse("vpcs").unwrap(),
        }
    }

    fn list() -> stream::BoxStream<'static, Result<WatchEvent<Metadata>, WatchFailure>> {
        let object = Metadata { name: "a".to_owned(), ..Metadata::default() };
        stream::iter([Ok(WatchEvent::Listing), Ok(WatchEvent::Listed(object)), Ok(WatchEvent::Complete)]).boxed()
    }

    /// Streams that end with a failure a moment after their list, as often as `failures` says; then one that goes on.
    fn streams(failures: usize, status: u16) -> impl Fn() -> Events<Metadata> + Send + Sync + 'static {
        let begun = AtomicUsize::new(0);
        move || {
            if begun.fetch_add(1, Ordering::Relaxed) >= failures {
                return list().chain(stream::pending()).boxed();
            }
            let failure = async move {
                sleep(Duration::from_millis(10)).await;
                Err(WatchFailure { why: "no".to_owned(), status: Some(status) })
            };
            list().chain(stream::once(failure)).boxed()
        }
    }

    /// Returns the reasons of all states until the objects are known, and if objects are kept in them.
    async fn states(failures: usize, status: u16) -> Vec<(&'static str, bool)> {
        let (space, news) = (Space::new(1000), Arc::new(Notify::new()));
        let watch = KindWatch::start(vpcs(), Targets::default(), &space, Arc::clone(&news), streams(failures, status));
        let mut seen = Vec::new();
        loop {
            news.notified().await;
            let watched = watch.lock();
            let is_kept = watched.index.bytes() > 0;
            match &watched.state {
                State::Loaded => {
                    seen.push(("loaded", is_kept));
                    return seen;
                }
                State::Unknown(why) => seen.push((why.reason, is_kept)),
                State::Pending => {}
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn objects_that_may_be_listed_and_not_watched_are_never_known() {
        assert_eq!(states(0, 0).await, [("loaded", true)]);
        assert_eq!(states(5, 403).await, [(RIGHT_MISSING, false), ("loaded", true)]);
        assert_eq!(states(5, 404).await, [(KIND_NOT_FOUND, false), ("loaded", true)]);
        assert_eq!(states(5, 500).await, [(WATCH_FAILED, false), ("loaded", true)]);
    }

    #[tokio::test(start_paused = true)]
    async fn more_objects_than_there_is_space_for_are_not_kept() {
        let (space, news) = (Space::new(0), Arc::new(Notify::new()));
        let watch = KindWatch::start(vpcs(), Targets::default(), &space, Arc::clone(&news), streams(0, 0));
        news.notified().await;
        let watched = watch.lock();
        assert!(matches!(&watched.state, State::Unknown(why) if why.reason == TOO_MANY));
        assert_eq!(watched.index.bytes(), 0);
    }
}
