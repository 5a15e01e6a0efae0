//! Owners and dependents by UID, and the objects that the garbage collector must process. Objects without owners cost
//! it nothing.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::Key;
use crate::protocol::json::{array, text, waits_for_dependents};

/// Owner references of the whole store.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Dependents of each owner, by the owner's UID.
    dependents: HashMap<String, BTreeSet<Key>>,
    /// Terminating objects that the collector must release, by their UID.
    waiting: HashMap<String, Key>,
    due: BTreeSet<Key>,
}

impl Owners {
    /// Notes a change. Returns true if the collector has an object to process.
    pub(super) fn change(&mut self, key: &Key, previous: Option<&Value>, now: Option<&Value>) -> bool {
        let due = self.due.len();
        for owner in previous.into_iter().flat_map(owners) {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(key);
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
            self.due.extend(self.waiting.get(owner).cloned());
        }
        for owner in now.into_iter().flat_map(owners) {
            self.dependents.entry(owner.to_owned()).or_default().insert(key.clone());
            self.due.extend(self.waiting.get(owner).cloned());
            self.due.insert(key.clone());
        }
        let waits = now.is_some_and(waits_for_dependents);
        if let Some(uid) = now.or(previous).and_then(|object| text(object, "/metadata/uid")) {
            if waits {
                self.waiting.insert(uid.to_owned(), key.clone());
                self.due.insert(key.clone());
            } else {
                self.waiting.remove(uid);
            }
            if waits || now.is_none() {
                self.due.extend(self.dependents.get(uid).into_iter().flatten().cloned());
            }
        }
        self.due.len() > due
    }

    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.dependents.get(uid).into_iter().flatten()
    }

    pub(super) fn take_due(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.due)
    }
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    array(object, "/metadata/ownerReferences").iter().filter_map(|owner| text(owner, "/uid"))
}
