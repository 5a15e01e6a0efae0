//! Waits until objects are gone: follows them by watches, and reads them one by one where a watch fails.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::model::GroupResource;
use depguard_kcp::{Metadata, MetadataEvent};
use futures::stream::{self, FuturesUnordered, StreamExt};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout_at};

use super::request::{ObjectState, Requests};
use crate::cluster::kinds::KindInfo;
use crate::engine::reference_scan::Object;

/// First pause between two reads of the same objects. Each further pause is twice as long.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Maximum pause.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(2);
/// Limit on concurrent reads.
const MAX_READS: usize = 8;
/// Limit on concurrent watches. Other groups are read again and again.
const MAX_WATCHES: usize = 8;
/// Maximum age of a watch. Then the objects are read, since a watch may stay open and report nothing.
const MAX_AGE: Duration = Duration::from_secs(60);
/// Age from which a watch counts as steady: if it breaks later, the pauses are short again.
const STEADY: Duration = Duration::from_secs(10);
/// Limit on sightings that are not taken yet.
const MAX_PENDING: usize = 64;

/// State in which an object was seen.
pub(super) struct Sighting {
    pub(super) object: usize,
    pub(super) state: ObjectState,
}

/// Objects of one kind in one namespace, which are followed together.
struct Group<'a> {
    kind: Arc<KindInfo>,
    namespace: Option<&'a str>,
    /// Objects that are not gone yet, by their names.
    objects: BTreeMap<&'a str, (usize, &'a Object)>,
    requests: &'a Requests,
    limits: &'a Limits,
    news: mpsc::Sender<Sighting>,
}

/// Limits on the requests of all groups together.
struct Limits {
    watches: Semaphore,
    reads: Semaphore,
}

/// Reads each object once, and passes its state to `see`.
pub(super) async fn read_once<E>(
    objects: impl Iterator<Item = (usize, &Object)>,
    requests: &Requests,
    mut see: impl FnMut(Sighting) -> Result<(), E>,
) -> Result<(), E> {
    let mut reads = stream::iter(objects.collect::<Vec<_>>())
        .map(|(index, object)| async move { Sighting { object: index, state: requests.look(object).await } })
        .buffer_unordered(MAX_READS);
    while let Some(sighting) = reads.next().await {
        see(sighting)?;
    }
    Ok(())
}

/// Passes each state in which an object is seen to `see`, and ends once all objects are gone. The caller bounds the
/// wait: dropping the future ends it.
pub(super) async fn until_gone<'a, E>(
    objects: impl Iterator<Item = (usize, &'a Object)>,
    requests: &'a Requests,
    mut see: impl FnMut(Sighting) -> Result<(), E>,
) -> Result<(), E> {
    let (news, mut seen) = mpsc::channel(MAX_PENDING);
    let limits = Limits { watches: Semaphore::new(MAX_WATCHES), reads: Semaphore::new(MAX_READS) };
    let mut groups = BTreeMap::<(GroupResource, Option<&str>), Group<'_>>::new();
    for (index, object) in objects {
        let group = match groups.entry((object.kind.gvr.group_resource(), object.namespace())) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(Group {
                kind: Arc::clone(&object.kind),
                namespace: object.namespace(),
                objects: BTreeMap::new(),
                requests,
                limits: &limits,
                news: news.clone(),
            }),
        };
        group.objects.insert(object.name(), (index, object));
    }
    drop(news);
    let mut following: FuturesUnordered<_> = groups.into_values().map(Group::follow).collect();
    loop {
        tokio::select! {
            biased;
            // `None` once all groups have ended, and their sightings are taken.
            sighting = seen.recv() => match sighting {
                Some(sighting) => see(sighting)?,
                None => return Ok(()),
            },
            Some(()) = following.next() => {}
        }
    }
}

impl Group<'_> {
    /// Follows the objects until all are gone.
    async fn follow(mut self) {
        let (mut pause, mut took, mut may_watch) = (FIRST_PAUSE, Duration::ZERO, true);
        loop {
            // Reading takes at most as much time as waiting.
            sleep(pause.max(took)).await;
            let begun = Instant::now();
            self.read(None).await;
            took = begun.elapsed();
            if self.objects.is_empty() {
                return;
            }
            pause = pause.saturating_mul(2).min(MAX_PAUSE);
            if may_watch && let Ok(_place) = self.limits.watches.try_acquire() {
                let opened = Instant::now();
                may_watch = self.watch(opened + MAX_AGE).await;
                if self.objects.is_empty() {
                    return;
                }
                if opened.elapsed() > STEADY {
                    pause = FIRST_PAUSE;
                }
            }
        }
    }

    /// Watches the objects until all are gone, or until the watch breaks or reaches its end. Returns false if another
    /// watch would fail, too.
    async fn watch(&mut self, end: Instant) -> bool {
        let only = self.objects.keys().next().copied().filter(|_| self.objects.len() == 1);
        let mut events = pin!(self.requests.watch(&self.kind, self.namespace, only));
        let mut listed = HashSet::new();
        while !self.objects.is_empty() {
            match timeout_at(end, events.next()).await {
                Ok(Some(MetadataEvent::Listing)) => listed.clear(),
                Ok(Some(MetadataEvent::Listed(metadata))) => {
                    self.see(&metadata).await;
                    if self.objects.contains_key(metadata.name.as_str()) {
                        listed.insert(metadata.name);
                    }
                }
                // A list may lack an object for other reasons, too.
                Ok(Some(MetadataEvent::Complete)) => self.read(Some(&listed)).await,
                Ok(Some(MetadataEvent::Changed(metadata))) => self.see(&metadata).await,
                Ok(Some(MetadataEvent::Gone(metadata))) => self.lose(&metadata).await,
                Ok(Some(MetadataEvent::Bookmark)) => {}
                Ok(Some(MetadataEvent::Failed(failure))) => return !matches!(failure.status, Some(403 | 405)),
                Ok(None) | Err(_) => return true,
            }
        }
        true
    }

    /// Takes in that an object exists. Another UID shows that the object of the plan is gone.
    async fn see(&mut self, metadata: &Metadata) {
        let Some((index, object)) = self.objects.get(metadata.name.as_str()).copied() else { return };
        let is_same = object.referent.uid.as_ref() == Some(&metadata.uid);
        let state = match is_same {
            true => ObjectState::There { finalizers: metadata.finalizers.clone() },
            false => ObjectState::MadeAnew,
        };
        self.tell(index, object.name(), state).await;
    }

    /// Takes in that an object is gone.
    async fn lose(&mut self, metadata: &Metadata) {
        let Some((index, object)) = self.objects.get(metadata.name.as_str()).copied() else { return };
        if object.referent.uid.as_ref() == Some(&metadata.uid) {
            self.tell(index, object.name(), ObjectState::Gone).await;
        }
    }

    /// Reads the objects one by one, except those of these names.
    async fn read(&mut self, except: Option<&HashSet<String>>) {
        let (requests, limits) = (self.requests, self.limits);
        let objects = self.objects.values().copied();
        let objects = objects.filter(|(_, object)| except.is_none_or(|except| !except.contains(object.name())));
        let mut reads = stream::iter(objects.collect::<Vec<_>>())
            .map(|(index, object)| async move {
                // Nobody closes the semaphore.
                let _place = limits.reads.acquire().await;
                (index, object, requests.look(object).await)
            })
            .buffer_unordered(MAX_READS);
        while let Some((index, object, state)) = reads.next().await {
            self.tell(index, object.name(), state).await;
        }
    }

    async fn tell(&mut self, object: usize, name: &str, state: ObjectState) {
        if state.is_gone() {
            self.objects.remove(name);
        }
        // Without a receiver, the wait is over.
        let _ = self.news.send(Sighting { object, state }).await;
    }
}
