//! Watch of one kind, kept as an index of its objects.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use depguard_core::GroupVersionResource;
use depguard_kcp::{Snapshot, WatchEvent, WatchFailure};
use futures::stream::{BoxStream, StreamExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::space::{Share, Space};
use crate::model::reference_count::{KIND_NOT_FOUND, RIGHT_MISSING, TOO_MANY, Uncounted, WATCH_FAILED};

/// Time for which a watch must go on after its list, before the objects count: an account that may list and not
/// watch loses the watch at once.
const TRIAL: Duration = Duration::from_secs(1);
/// Pause after there were too many objects.
const TOO_MANY_PAUSE: Duration = Duration::from_secs(300);

/// Objects of one kind, reduced to the data that the count needs.
pub(super) trait Index: Debug + Send + 'static {
    /// Form in which the watch shows objects.
    type Shown: Send;

    /// Returns an empty index of the same kind.
    fn empty(&self) -> Self;
    /// Takes in that a list of all objects begins. Those that are known stay, since the list shows them as they are now.
    fn begin_list(&mut self);
    /// Takes in an object as it is now. Returns true if the count may change.
    fn put(&mut self, object: Self::Shown) -> bool;
    /// Takes in that an object is gone. Returns true if the count may change.
    fn remove(&mut self, object: &Self::Shown) -> bool;
    /// Takes in that the list is complete: an object that was not put since it began is gone. Returns true if the count
    /// may change.
    fn end_list(&mut self) -> bool;
    /// Returns the memory of the index in bytes, estimated rather too high.
    fn bytes(&self) -> usize;
}

/// Stream of a watch.
pub(super) type Events<T> = BoxStream<'static, WatchEvent<T>>;

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
        let follower = Follower { kind, watched: Arc::clone(&watched), news };
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
    news: Arc<Notify>,
}

impl<I: Index> Follower<I> {
    async fn run(self, open: impl Fn() -> Events<I::Shown>) {
        loop {
            self.follow(open()).await;
            let message = "depguard counts no references, because all dependents, references and targets together take more \
                           than a quarter of the controller's memory limit; run `kubectl depguard dangling`";
            self.be_unknown(Uncounted { reason: TOO_MANY, message: message.to_owned() });
            sleep(TOO_MANY_PAUSE).await;
        }
    }

    /// Follows the kind until there are too many objects.
    async fn follow(&self, mut events: Events<I::Shown>) {
        let (mut trial_end, mut failing_since) = (None, None);
        loop {
            let event = match trial_end {
                Some(end) => timeout_at(end, events.next()).await,
                None => Ok(events.next().await),
            };
            if trial_end.take().is_some() && !matches!(event, Ok(Some(WatchEvent::Failed(_)))) {
                failing_since = None;
                self.change(|watched| {
                    watched.state = State::Loaded;
                    true
                });
            }
            let is_within = match event {
                // The objects have stood the trial.
                Err(_) => true,
                Ok(None) => return,
                Ok(Some(WatchEvent::Bookmark)) => true,
                Ok(Some(WatchEvent::Listing)) => self.change_index(|index| {
                    index.begin_list();
                    false
                }),
                Ok(Some(WatchEvent::Listed(object) | WatchEvent::Changed(object))) => {
                    self.change_index(|index| index.put(object))
                }
                Ok(Some(WatchEvent::Gone(object))) => self.change_index(|index| index.remove(&object)),
                Ok(Some(WatchEvent::Complete)) => {
                    match self.lock().state {
                        State::Loaded => failing_since = None,
                        State::Pending | State::Unknown(_) => trial_end = Some(Instant::now() + TRIAL),
                    }
                    self.change_index(Index::end_list)
                }
                Ok(Some(WatchEvent::Failed(failure))) => {
                    let since = *failing_since.get_or_insert_with(Instant::now);
                    self.fail(&failure, since.elapsed() > Snapshot::PATIENCE);
                    true
                }
            };
            if !is_within {
                return;
            }
        }
    }

    /// Takes in a failure. The known objects count for a while, unless the failure shows that they can't be read.
    fn fail(&self, failure: &WatchFailure, is_late: bool) {
        let kind = self.kind.group_resource();
        let (is_final, reason, message) = match failure.status {
            Some(401 | 403) => {
                (true, RIGHT_MISSING, format!("the controller may not list and watch {kind}: {failure}"))
            }
            Some(404) => (true, KIND_NOT_FOUND, format!("the API server does not serve {}", self.kind)),
            _ => (false, WATCH_FAILED, format!("{kind} can't be watched: {failure}")),
        };
        if is_final || is_late || self.lock().state != State::Loaded {
            self.be_unknown(Uncounted { reason, message });
        }
    }

    /// Forgets all objects, because they can't be counted.
    fn be_unknown(&self, why: Uncounted) {
        self.change(|watched| {
            let state = State::Unknown(why);
            let is_news = watched.state != state;
            watched.state = state;
            watched.index = watched.index.empty();
            watched.share.resize(0);
            is_news
        });
    }

    fn lock(&self) -> MutexGuard<'_, Watched<I>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the index. Returns false if it is too large then.
    fn change_index(&self, change: impl FnOnce(&mut I) -> bool) -> bool {
        let mut is_within = true;
        self.change(|watched| {
            let is_news = change(&mut watched.index);
            is_within = watched.share.resize(watched.index.bytes());
            is_news && watched.state == State::Loaded
        });
        is_within
    }

    /// Changes the state, and notifies if the change says that it is news.
    fn change(&self, change: impl FnOnce(&mut Watched<I>) -> bool) {
        let is_news = change(&mut self.lock());
        if is_news {
            self.news.notify_one();
        }
    }
}

#[cfg(test)]
impl<I> Watched<I> {
    /// Makes the state of a watch whose list is complete.
    pub(super) fn loaded(index: I) -> Self {
        Self { state: State::Loaded, index, share: Space::new(0).share() }
    }
}

#[cfg(test)]
mod tests {
    use depguard_core::Group;
    use depguard_core::model::{Resource, Version};
    use depguard_kcp::Metadata;
    use futures::stream;

    use super::super::dependents::NamedTarget;
    use super::super::targets::{Existence, Targets};
    use super::*;

    fn vpcs() -> GroupVersionResource {
        GroupVersionResource {
            group: Group::parse("n.example.com").unwrap(),
            version: Version::parse("v1").unwrap(),
            resource: Resource::parse("vpcs").unwrap(),
        }
    }

    /// Stream that fails a moment after its list, as often as `failures` says, and then goes on.
    fn events(failures: usize, status: u16) -> Events<Metadata> {
        let list = || {
            let object = Metadata { name: "a".to_owned(), ..Metadata::default() };
            let list = stream::iter([WatchEvent::Listing, WatchEvent::Listed(object), WatchEvent::Complete]);
            // After a failure, a watch pauses.
            stream::once(sleep(Duration::from_millis(10))).map(|()| WatchEvent::Bookmark).chain(list)
        };
        let failing = move |_| {
            let failure = async move {
                sleep(Duration::from_millis(10)).await;
                WatchEvent::Failed(WatchFailure { why: "no".to_owned(), status: Some(status), listing: false })
            };
            list().chain(stream::once(failure))
        };
        stream::iter(0..failures).flat_map(failing).chain(list()).chain(stream::pending()).boxed()
    }

    /// Returns the reasons of all states until the objects are known, and if objects are kept in them.
    async fn states(failures: usize, status: u16) -> Vec<(&'static str, bool)> {
        let (space, news) = (Space::new(1000), Arc::new(Notify::new()));
        let watch =
            KindWatch::start(vpcs(), Targets::new(&space), &space, Arc::clone(&news), move || events(failures, status));
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
        let watch = KindWatch::start(vpcs(), Targets::new(&space), &space, Arc::clone(&news), || events(0, 0));
        news.notified().await;
        let watched = watch.lock();
        assert!(matches!(&watched.state, State::Unknown(why) if why.reason == TOO_MANY));
        assert_eq!(watched.index.bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_a_later_list_lacks_is_gone() {
        let list = |names: &'static [&str]| {
            let object = |name: &&str| Metadata { name: (*name).to_owned(), ..Metadata::default() };
            let listed = names.iter().map(move |name| WatchEvent::Listed(object(name)));
            stream::iter([WatchEvent::Listing].into_iter().chain(listed).chain([WatchEvent::Complete]))
        };
        let (space, news) = (Space::new(1000), Arc::new(Notify::new()));
        let later = move || stream::once(sleep(TRIAL * 2)).flat_map(move |()| list(&["b", "c"]));
        let events = move || list(&["a", "b"]).chain(later()).chain(stream::pending()).boxed();
        let watch = KindWatch::start(vpcs(), Targets::new(&space), &space, Arc::clone(&news), events);
        let has = |name: &str| {
            let target = NamedTarget { name: name.into(), namespace: None, uid: None };
            watch.lock().index.find(&target) == Existence::Exists
        };
        news.notified().await;
        assert_eq!(["a", "b", "c"].map(has), [true, true, false]);
        while has("a") || !has("c") {
            news.notified().await;
        }
        assert!(has("b") && watch.lock().state == State::Loaded);
    }
}
