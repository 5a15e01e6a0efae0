//! Objects, one revision counter, and the history that watches and paged lists read.

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

/// Maximum of changes that are kept. Older watches and continue tokens get a 410.
const HISTORY: usize = 4096;

/// Key of an object. Keys have the order of etcd's keys in kcp, so that one resource's objects of all clusters lie side
/// by side.
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

/// StoredObject object, with the revision that wrote it.
#[derive(Clone, Debug)]
pub(crate) struct StoredObject {
    pub(crate) key: Key,
    pub(crate) revision: u64,
    pub(crate) object: Arc<Value>,
}

/// Change of an object. `object` is absent for a deletion, `previous` for a creation.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: Key,
    pub(crate) object: Option<Arc<Object>>,
    pub(crate) previous: Option<Arc<Object>>,
}

/// Reason why a conditional write did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteConflict {
    Exists,
    Changed,
}

/// Error: the requested revision is no longer, or not yet, in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpiredRevision;

/// Part of a resource's objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range<'a> {
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    /// Logical cluster; `None` stands for all.
    pub(crate) cluster: Option<&'a str>,
    /// Namespace; `None` stands for all.
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

/// Store of all objects. Every operation takes the lock for a moment and never awaits under it.
#[derive(Debug)]
pub(crate) struct Store {
    inner: Mutex<Inner>,
    revisions: watch::Sender<u64>,
    /// Notified when the garbage collector has an object to process.
    collectible: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    revision: u64,
    objects: BTreeMap<Key, (u64, Arc<Object>)>,
    tally: Tally,
    owners: Owners,
    history: VecDeque<Change>,
    /// Last revision whose change was forgotten.
    forgotten: u64,
    /// Every change, if somebody keeps the journal.
    journal: Option<Vec<Event>>,
}

impl Store {
    pub(crate) fn new() -> Self {
        // A fresh store begins at 1, because "0" has another meaning in the API.
        let inner = Inner { revision: 1, forgotten: 1, ..Inner::default() };
        Self { inner: Mutex::new(inner), revisions: watch::Sender::new(1), collectible: Notify::new() }
    }

    /// Returns a receiver of every new revision.
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

    /// Returns the changes kept so far.
    pub(crate) fn journal(&self) -> Vec<Event> {
        self.lock().journal.clone().unwrap_or_default()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<StoredObject> {
        self.lock().get(key)
    }

    pub(crate) fn create(&self, key: Key, object: Value) -> Result<StoredObject, WriteConflict> {
        let mut inner = self.lock();
        if inner.objects.contains_key(&key) {
            return Err(WriteConflict::Exists);
        }
        Ok(self.write(&mut inner, key, object))
    }

    /// Writes only if the object still has `revision`.
    pub(crate) fn replace(&self, key: Key, revision: u64, object: Value) -> Result<StoredObject, WriteConflict> {
        let mut inner = self.lock();
        if inner.objects.get(&key).map(|(at, _)| *at) != Some(revision) {
            return Err(WriteConflict::Changed);
        }
        Ok(self.write(&mut inner, key, object))
    }

    /// Removes only if the object still has `revision`.
    pub(crate) fn remove(&self, key: &Key, revision: u64) -> Result<(), WriteConflict> {
        self.remove_as(key, revision, None)
    }

    /// Removes likewise an object whose deletion was reviewed from revision `reviewed_at` on.
    pub(crate) fn remove_reviewed(&self, key: &Key, revision: u64, reviewed_at: u64) -> Result<(), WriteConflict> {
        self.remove_as(key, revision, Some(reviewed_at))
    }

    fn remove_as(&self, key: &Key, revision: u64, reviewed_at: Option<u64>) -> Result<(), WriteConflict> {
        let mut inner = self.lock();
        if inner.objects.get(key).map(|(at, _)| *at) != Some(revision) {
            return Err(WriteConflict::Changed);
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

    /// Stores objects in one go, as text only. Older watches and continue tokens get a 410. `fields` are the fields by
    /// which lists will select.
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

    /// Returns the objects of a range in key order, with the revision at which they were read.
    pub(crate) fn list(&self, range: Range<'_>) -> (Vec<StoredObject>, u64) {
        let inner = self.lock();
        (inner.list(range), inner.revision)
    }

    /// Returns a part of a range, at this revision or an earlier one. The filter runs under the lock.
    pub(crate) fn page(
        &self,
        ask: &Ask<'_>,
        selects: impl FnMut(&Key, &Object) -> bool,
    ) -> Result<Page, ExpiredRevision> {
        self.lock().page(ask, selects)
    }

    /// Returns the changes after `revision`, oldest first, with the revision up to which they reach.
    pub(crate) fn changes_since(&self, revision: u64) -> Result<(Vec<Change>, u64), ExpiredRevision> {
        let inner = self.lock();
        if revision < inner.forgotten {
            return Err(ExpiredRevision);
        }
        let from = inner.history.partition_point(|change| change.revision <= revision);
        Ok((inner.history.range(from..).cloned().collect(), inner.revision))
    }

    /// Returns the objects of a resource in all logical clusters and namespaces.
    pub(crate) fn everywhere(&self, group: &str, resource: &str) -> Vec<StoredObject> {
        self.list(Range { group, resource, cluster: None, namespace: None }).0
    }

    /// Returns the keys of a resource's objects that `selects` accepts, in all logical clusters and namespaces.
    pub(crate) fn keys(&self, group: &str, resource: &str, selects: impl Fn(&Value) -> bool) -> Vec<Key> {
        let (inner, range) = (self.lock(), Range { group, resource, cluster: None, namespace: None });
        let ask = Ask::all(range);
        let selected = inner.within(&ask).filter(|(_, (_, object))| selects(&object.value()));
        selected.map(|(key, _)| key.clone()).collect()
    }

    /// Returns the objects of a resource in one logical cluster, in all namespaces.
    pub(crate) fn in_cluster(&self, group: &str, resource: &str, cluster: &str) -> Vec<StoredObject> {
        self.list(Range { group, resource, cluster: Some(cluster), namespace: None }).0
    }

    /// Returns the objects that name this owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<StoredObject> {
        let inner = self.lock();
        inner.owners.dependents(uid).filter_map(|key| inner.get(key)).collect()
    }

    /// Waits for objects that the garbage collector must process. Returns each of them once.
    pub(crate) async fn collectible(&self) -> BTreeSet<Key> {
        loop {
            let due = self.lock().owners.take_due();
            if !due.is_empty() {
                return due;
            }
            self.collectible.notified().await;
        }
    }

    fn write(&self, inner: &mut Inner, key: Key, mut object: Value) -> StoredObject {
        inner.revision += 1;
        let revision = inner.revision;
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        let kept = Arc::new(Object::new(object));
        let object = kept.value();
        let previous = self.put(inner, key.clone(), revision, Arc::clone(&kept), &object);
        let change = Change { revision, key: key.clone(), object: Some(kept), previous };
        self.record(inner, change, None);
        StoredObject { key, revision, object }
    }

    /// Stores an object, and returns its predecessor.
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

    // A panic under the lock would be a bug in this file. The map itself is never left half-written.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn get(&self, key: &Key) -> Option<StoredObject> {
        let (revision, object) = self.objects.get(key)?;
        Some(StoredObject { key: key.clone(), revision: *revision, object: object.value() })
    }

    fn list(&self, range: Range<'_>) -> Vec<StoredObject> {
        let stored = |(key, (revision, object)): (&Key, &(u64, Arc<Object>))| StoredObject {
            key: key.clone(),
            revision: *revision,
            object: object.value(),
        };
        self.within(&Ask::all(range)).map(stored).collect()
    }
}
