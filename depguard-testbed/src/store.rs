//! The objects, one revision counter, and the history that watches and paged lists read.

mod journal;
mod object;
mod owners;
mod page;
mod tally;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

pub use journal::Event;
pub(crate) use object::Object;
use owners::Owners;
pub(crate) use page::{Ask, Page};
use tally::Tally;

/// How many changes are remembered: watches and continue tokens older than that get a 410.
const HISTORY: usize = 4096;

/// Where an object lies. The order is that of etcd's keys in kcp, so that one resource's
/// objects of all clusters lie side by side.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) cluster: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(group: &str, resource: &str, cluster: &str, namespace: &str, name: &str) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            cluster: cluster.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// An object as stored, with the revision that wrote it.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) key: Key,
    pub(crate) revision: u64,
    pub(crate) object: Arc<Value>,
}

/// One change. `object` is absent for a deletion, `previous` for a creation.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: Key,
    pub(crate) object: Option<Arc<Object>>,
    pub(crate) previous: Option<Arc<Object>>,
}

/// Why a conditional write did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Exists,
    Changed,
}

/// The revision asked for is no longer (or not yet) in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooOld;

/// What part of a resource is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range<'a> {
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    /// `None` = every logical cluster.
    pub(crate) cluster: Option<&'a str>,
    /// `None` = every namespace.
    pub(crate) namespace: Option<&'a str>,
}

impl Range<'_> {
    pub(crate) fn contains(&self, key: &Key) -> bool {
        key.group == self.group
            && key.resource == self.resource
            && self.cluster.is_none_or(|cluster| cluster == key.cluster)
            && self.namespace.is_none_or(|namespace| namespace == key.namespace)
    }
}

/// The store. Every operation takes the lock for a moment and never awaits under it.
#[derive(Debug)]
pub(crate) struct Store {
    inner: Mutex<Inner>,
    revisions: watch::Sender<u64>,
    /// Rung when the garbage collector has to look at something.
    collectible: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    revision: u64,
    objects: BTreeMap<Key, (u64, Arc<Object>)>,
    tally: Tally,
    owners: Owners,
    history: VecDeque<Change>,
    /// The last revision whose change was forgotten.
    forgotten: u64,
    /// Every change, once somebody wants to know.
    journal: Option<Vec<Event>>,
}

impl Store {
    pub(crate) fn new() -> Self {
        // A fresh store begins at 1: "0" means something else in the API.
        let inner = Inner { revision: 1, forgotten: 1, ..Inner::default() };
        Self { inner: Mutex::new(inner), revisions: watch::Sender::new(1), collectible: Notify::new() }
    }

    /// Tells of every new revision.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.revisions.subscribe()
    }

    pub(crate) fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// Keeps every change from now on.
    pub(crate) fn keep_journal(&self) {
        self.lock().journal.get_or_insert_default();
    }

    /// What was kept so far.
    pub(crate) fn journal(&self) -> Vec<Event> {
        self.lock().journal.clone().unwrap_or_default()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Stored> {
        self.lock().get(key)
    }

    pub(crate) fn create(&self, key: Key, object: Value) -> Result<Stored, Refused> {
        let mut inner = self.lock();
        if inner.objects.contains_key(&key) {
            return Err(Refused::Exists);
        }
        Ok(self.write(&mut inner, key, object))
    }

    /// Writes only if the object is still the one of `revision`.
    pub(crate) fn replace(&self, key: Key, revision: u64, object: Value) -> Result<Stored, Refused> {
        let mut inner = self.lock();
        if inner.objects.get(&key).map(|(at, _)| *at) != Some(revision) {
            return Err(Refused::Changed);
        }
        Ok(self.write(&mut inner, key, object))
    }

    /// Removes only if the object is still the one of `revision`.
    pub(crate) fn remove(&self, key: &Key, revision: u64) -> Result<(), Refused> {
        self.remove_as(key, revision, None)
    }

    /// The same of an object whose deletion was reviewed from that revision on.
    pub(crate) fn remove_reviewed(&self, key: &Key, revision: u64, reviewed_at: u64) -> Result<(), Refused> {
        self.remove_as(key, revision, Some(reviewed_at))
    }

    fn remove_as(&self, key: &Key, revision: u64, reviewed_at: Option<u64>) -> Result<(), Refused> {
        let mut inner = self.lock();
        if inner.objects.get(key).map(|(at, _)| *at) != Some(revision) {
            return Err(Refused::Changed);
        }
        let previous = inner.objects.remove(key).map(|(_, object)| object);
        if let Some(previous) = &previous {
            let value = previous.value();
            inner.tally.remove(key, &value);
            self.own(&mut inner, key, Some(&value), None);
        }
        inner.revision += 1;
        let change = Change { revision: inner.revision, key: key.clone(), object: None, previous };
        self.record(&mut inner, change, reviewed_at);
        Ok(())
    }

    /// Puts objects there in one go, kept as text only. Watches and continue tokens from before get a 410. `fields`
    /// are those that lists will select by.
    pub(crate) fn fill(
        &self,
        group: &str,
        resource: &str,
        fields: &[String],
        objects: impl Iterator<Item = (Key, Value)>,
    ) {
        let everywhere = Range { group, resource, cluster: None, namespace: None };
        for field in fields {
            self.lock().index(everywhere, field);
        }
        for (key, mut object) in objects {
            let mut inner = self.lock();
            inner.revision += 1;
            let revision = inner.revision;
            object["metadata"]["resourceVersion"] = json!(revision.to_string());
            let packed = Arc::new(Object::packed(&object));
            self.put(&mut inner, key, revision, packed, &object);
            inner.history.clear();
            inner.forgotten = revision;
        }
        self.revisions.send_replace(self.revision());
    }

    /// The objects of a range in key order, with the revision they were read at.
    pub(crate) fn list(&self, range: Range<'_>) -> (Vec<Stored>, u64) {
        let inner = self.lock();
        (inner.list(range), inner.revision)
    }

    /// A part of a range, as it is or as it was. The filter is asked under the lock.
    pub(crate) fn page(&self, ask: &Ask<'_>, wanted: impl FnMut(&Key, &Object) -> bool) -> Result<Page, TooOld> {
        self.lock().page(ask, wanted)
    }

    /// The changes after `revision`, oldest first, with the revision they reach to.
    pub(crate) fn changes_since(&self, revision: u64) -> Result<(Vec<Change>, u64), TooOld> {
        let inner = self.lock();
        if revision < inner.forgotten {
            return Err(TooOld);
        }
        let from = inner.history.partition_point(|change| change.revision <= revision);
        Ok((inner.history.range(from..).cloned().collect(), inner.revision))
    }

    /// Every logical cluster's objects of a resource, whatever their namespace.
    pub(crate) fn everywhere(&self, group: &str, resource: &str) -> Vec<Stored> {
        self.list(Range { group, resource, cluster: None, namespace: None }).0
    }

    /// One logical cluster's objects of a resource, whatever their namespace.
    pub(crate) fn in_cluster(&self, group: &str, resource: &str, cluster: &str) -> Vec<Stored> {
        self.list(Range { group, resource, cluster: Some(cluster), namespace: None }).0
    }

    /// The objects that name this owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Stored> {
        let inner = self.lock();
        inner.owners.dependents(uid).filter_map(|key| inner.get(key)).collect()
    }

    /// What the garbage collector has to look at, as soon as there is something. Each is told once.
    pub(crate) async fn collectible(&self) -> BTreeSet<Key> {
        loop {
            let due = self.lock().owners.take_due();
            if !due.is_empty() {
                return due;
            }
            self.collectible.notified().await;
        }
    }

    fn write(&self, inner: &mut Inner, key: Key, mut object: Value) -> Stored {
        inner.revision += 1;
        let revision = inner.revision;
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        let kept = Arc::new(Object::new(object));
        let object = kept.value();
        let previous = self.put(inner, key.clone(), revision, Arc::clone(&kept), &object);
        let change = Change { revision, key: key.clone(), object: Some(kept), previous };
        self.record(inner, change, None);
        Stored { key, revision, object }
    }

    /// Puts an object there, and gives the one that was there.
    fn put(
        &self,
        inner: &mut Inner,
        key: Key,
        revision: u64,
        object: Arc<Object>,
        value: &Value,
    ) -> Option<Arc<Object>> {
        let previous = inner.objects.get(&key).map(|(_, object)| Arc::clone(object));
        let before = previous.as_ref().map(|object| object.value());
        if let Some(before) = &before {
            inner.tally.remove(&key, before);
        }
        inner.tally.add(&key, value);
        self.own(inner, &key, before.as_deref(), Some(value));
        inner.objects.insert(key, (revision, object));
        previous
    }

    fn own(&self, inner: &mut Inner, key: &Key, previous: Option<&Value>, now: Option<&Value>) {
        if inner.owners.change(key, previous, now) {
            self.collectible.notify_one();
        }
    }

    fn record(&self, inner: &mut Inner, change: Change, reviewed_at: Option<u64>) {
        if let Some(journal) = &mut inner.journal {
            journal.push(Event::new(&change, reviewed_at));
        }
        self.revisions.send_replace(change.revision);
        inner.history.push_back(change);
        if inner.history.len() > HISTORY
            && let Some(oldest) = inner.history.pop_front()
        {
            inner.forgotten = oldest.revision;
        }
    }

    // A panic under the lock would be a bug of this file; the map itself is never left half-written.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn get(&self, key: &Key) -> Option<Stored> {
        let (revision, object) = self.objects.get(key)?;
        Some(Stored { key: key.clone(), revision: *revision, object: object.value() })
    }

    fn list(&self, range: Range<'_>) -> Vec<Stored> {
        let stored = |(key, (revision, object)): (&Key, &(u64, Arc<Object>))| Stored {
            key: key.clone(),
            revision: *revision,
            object: object.value(),
        };
        self.within(&Ask::all(range)).map(stored).collect()
    }
}
