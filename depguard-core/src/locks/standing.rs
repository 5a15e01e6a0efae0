//! Whether one lock forbids what a review is about.

use std::collections::BTreeMap;

use super::change::Change;
use super::lock::{Lock, LockTarget, Pick};
use super::moment::Moment;
use super::object::{Aim, Object};
use crate::home::Home;
use crate::review::Requester;

/// What a review asks for, as a lock looks at it.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    pub(super) home: Home,
    pub(super) aim: Aim,
    pub(super) object: Object,
    /// What it changes; `None`: all there is.
    pub(super) change: Option<Change<'a>>,
    /// The labels that the object is to have; `None`: not known.
    pub(super) new_labels: Option<BTreeMap<String, String>>,
    pub(super) requester: Requester<'a>,
    pub(super) now: Moment,
}

/// What a lock says to an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is not about that.
    Aside,
    /// It has ended.
    Expired,
    /// The requester holds it.
    Held,
    /// It forbids it: because of this field, where it freezes some.
    Forbids(Option<String>),
}

impl Attempt<'_> {
    /// Judges a lock. One that can't be read forbids whatever a table names it for.
    pub(super) fn judge(&self, lock: &Lock) -> Standing {
        if lock.problem().is_some() {
            return Standing::Forbids(None);
        }
        let operations = lock.operations();
        let forbidden = match self.aim {
            Aim::Update => operations.update,
            Aim::Delete => operations.delete,
        };
        if !forbidden {
            return Standing::Aside;
        }
        let mut targets = lock.targets().iter().filter(|target| self.is_at(target));
        let frozen = targets.find_map(|target| match self.frozen(lock, target) {
            Frozen::All => Some(None),
            Frozen::At(field) => Some(Some(field)),
            Frozen::No if self.leaves(target) => Some(Some("metadata.labels".to_owned())),
            Frozen::No => None,
        });
        let Some(field) = frozen else { return Standing::Aside };
        if !lock.holds_at(self.now) {
            Standing::Expired
        } else if lock.holder().is(&self.requester, self.home, self.object.cluster.as_ref()) {
            Standing::Held
        } else {
            Standing::Forbids(field)
        }
    }

    /// Whether the object is one of the target's.
    fn is_at(&self, target: &LockTarget) -> bool {
        let object = &self.object;
        let is_meant = target.subresource == object.subresource
            // Who evicts a pod deletes it.
            || (target.subresource.is_none() && object.is_evicted());
        is_meant && target.is_about(&object.kind, object.namespace.as_ref(), &object.name, object.labels.as_ref())
    }

    /// Whether the object is no longer one of the target's after the change: else who may change its labels could take it
    /// out of the lock, and then change the rest.
    fn leaves(&self, target: &LockTarget) -> bool {
        match &target.pick {
            Pick::Labels { selector, .. } if self.object.subresource.is_none() => {
                let labels = self.new_labels.as_ref();
                labels.is_none_or(|labels| !selector.matches(|key| labels.get(key).map(String::as_str)))
            }
            Pick::Labels { .. } | Pick::Name(_) => false,
        }
    }

    fn frozen(&self, lock: &Lock, target: &LockTarget) -> Frozen {
        let Some(change) = self.change.as_ref().filter(|_| self.aim == Aim::Update && !lock.fields().is_empty()) else {
            return Frozen::All;
        };
        // Another version may call a field otherwise, and an API server takes a change in any that it serves.
        if target.version.as_ref().is_some_and(|version| !self.object.is_in(version)) {
            return Frozen::All;
        }
        let may_be_elsewhere = |field| target.version.is_none() && change.is_nowhere(field);
        let changed = lock.fields().iter().find(|field| change.is_at(field) || may_be_elsewhere(field));
        changed.map_or(Frozen::No, |field| Frozen::At(field.as_field()))
    }
}

/// What of a change a lock freezes.
enum Frozen {
    All,
    At(String),
    No,
}
