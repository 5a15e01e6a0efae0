//! The objects, one revision counter, and the history that watches and paged lists read.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;

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
    pub(crate) object: Option<Arc<Value>>,
    pub(crate) previous: Option<Arc<Value>>,
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
}

#[derive(Debug, Default)]
struct Inner {
    revision: u64,
    objects: BTreeMap<Key, (u64, Arc<Value>)>,
    history: VecDeque<Change>,
    /// The last revision whose change was forgotten.
    forgotten: u64,
}

impl Store {
    pub(crate) fn new() -> Self {
        // A fresh store begins at 1: "0" means something else in the API.
        let inner = Inner { revision: 1, forgotten: 1, ..Inner::default() };
        Self { inner: Mutex::new(inner), revisions: watch::Sender::new(1) }
    }

    /// Tells of every new revision.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.revisions.subscribe()
    }

    pub(crate) fn revision(&self) -> u64 {
        self.lock().revision
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Stored> {
        let inner = self.lock();
        let (revision, object) = inner.objects.get(key)?;
        Some(Stored { key: key.clone(), revision: *revision, object: Arc::clone(object) })
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
        let mut inner = self.lock();
        if inner.objects.get(key).map(|(at, _)| *at) != Some(revision) {
            return Err(Refused::Changed);
        }
        let previous = inner.objects.remove(key).map(|(_, object)| object);
        inner.revision += 1;
        let change = Change { revision: inner.revision, key: key.clone(), object: None, previous };
        self.record(&mut inner, change);
        Ok(())
    }

    /// The objects of a range in key order, with the revision they were read at.
    pub(crate) fn list(&self, range: Range<'_>) -> (Vec<Stored>, u64) {
        let inner = self.lock();
        (inner.range(range), inner.revision)
    }

    /// The objects of a range as they were at `revision`: the changes since are taken back.
    pub(crate) fn list_at(&self, range: Range<'_>, revision: u64) -> Result<Vec<Stored>, TooOld> {
        let inner = self.lock();
        if revision < inner.forgotten || revision > inner.revision {
            return Err(TooOld);
        }
        let mut then: BTreeMap<Key, Arc<Value>> =
            inner.range(range).into_iter().map(|stored| (stored.key, stored.object)).collect();
        for change in inner.history.iter().rev().take_while(|change| change.revision > revision) {
            if !range.contains(&change.key) {
                continue;
            }
            match &change.previous {
                Some(previous) => then.insert(change.key.clone(), Arc::clone(previous)),
                None => then.remove(&change.key),
            };
        }
        Ok(then.into_iter().map(|(key, object)| Stored { key, revision, object }).collect())
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

    fn write(&self, inner: &mut Inner, key: Key, mut object: Value) -> Stored {
        inner.revision += 1;
        let revision = inner.revision;
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        let object = Arc::new(object);
        let previous = inner.objects.insert(key.clone(), (revision, Arc::clone(&object)));
        let change = Change {
            revision,
            key: key.clone(),
            object: Some(Arc::clone(&object)),
            previous: previous.map(|(_, object)| object),
        };
        self.record(inner, change);
        Stored { key, revision, object }
    }

    fn record(&self, inner: &mut Inner, change: Change) {
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
    fn range(&self, range: Range<'_>) -> Vec<Stored> {
        let start = Key::new(
            range.group,
            range.resource,
            range.cluster.unwrap_or_default(),
            range.cluster.and(range.namespace).unwrap_or_default(),
            "",
        );
        self.objects
            .range((Bound::Included(start), Bound::Unbounded))
            .take_while(|(key, _)| {
                key.group == range.group
                    && key.resource == range.resource
                    && range.cluster.is_none_or(|cluster| cluster == key.cluster)
                    && range.cluster.and(range.namespace).is_none_or(|name| name == key.namespace)
            })
            .filter(|(key, _)| range.contains(key))
            .map(|(key, (revision, object))| Stored {
                key: key.clone(),
                revision: *revision,
                object: Arc::clone(object),
            })
            .collect()
    }
}
