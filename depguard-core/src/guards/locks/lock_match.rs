//! Judgement of one lock on the request of a review.

use std::collections::BTreeMap;

use super::change::Change;
use super::lock::{Lock, LockTarget, Pick};
use super::object::{Aim, Object};
use super::timestamp::Timestamp;
use crate::model::control_plane::ControlPlane;
use crate::protocol::admission_review::Requester;

/// The request of a review, in the form that locks judge.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    pub(super) control_plane: ControlPlane,
    pub(super) aim: Aim,
    pub(super) object: Object,
    /// The changes of the request; `None`: everything may change.
    pub(super) change: Option<Change<'a>>,
    /// The labels of the new state; `None`: unknown.
    pub(super) new_labels: Option<BTreeMap<String, String>>,
    pub(super) requester: Requester<'a>,
    pub(super) now: Timestamp,
}

/// A lock's judgement on an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LockMatch {
    /// The lock is not about the attempt.
    Aside,
    /// The lock has ended.
    Expired,
    /// The requester holds the lock.
    Held,
    /// The lock forbids the attempt, because of this field if it freezes fields.
    Forbids(Option<String>),
}

impl Attempt<'_> {
    /// Judges the attempt by a lock. A lock with an error forbids every attempt for which a table names it.
    pub(super) fn match_lock(&self, lock: &Lock) -> LockMatch {
        if lock.problem().is_some() {
            return LockMatch::Forbids(None);
        }
        let operations = lock.operations();
        let forbidden = match self.aim {
            Aim::Update => operations.update,
            Aim::Delete => operations.delete,
        };
        if !forbidden {
            return LockMatch::Aside;
        }
        let mut targets = lock.targets().iter().filter(|target| self.is_at(target));
        let frozen = targets.find_map(|target| match self.frozen(lock, target) {
            FrozenPart::All => Some(None),
            FrozenPart::At(field) => Some(Some(field)),
            FrozenPart::No if self.leaves(target) => Some(Some("metadata.labels".to_owned())),
            FrozenPart::No => None,
        });
        let Some(field) = frozen else { return LockMatch::Aside };
        if !lock.holds_at(self.now) {
            LockMatch::Expired
        } else if lock.holder().is(&self.requester, self.control_plane, self.object.cluster.as_ref()) {
            LockMatch::Held
        } else {
            LockMatch::Forbids(field)
        }
    }

    /// Returns true if the target includes the object.
    fn is_at(&self, target: &LockTarget) -> bool {
        let object = &self.object;
        let is_meant = target.subresource == object.subresource
            // An eviction deletes the Pod.
            || (target.subresource.is_none() && object.is_evicted());
        is_meant && target.is_about(&object.kind, object.namespace.as_ref(), &object.name, object.labels.as_ref())
    }

    /// Returns true if the target no longer includes the object after the change. Otherwise a user who may change its
    /// labels could first remove the object from the lock, and then change the rest.
    fn leaves(&self, target: &LockTarget) -> bool {
        match &target.pick {
            Pick::Labels { selector, .. } if self.object.subresource.is_none() => {
                let labels = self.new_labels.as_ref();
                labels.is_none_or(|labels| !selector.matches(|key| labels.get(key).map(String::as_str)))
            }
            Pick::Labels { .. } | Pick::Name(_) => false,
        }
    }

    fn frozen(&self, lock: &Lock, target: &LockTarget) -> FrozenPart {
        let Some(change) = self.change.as_ref().filter(|_| self.aim == Aim::Update && !lock.fields().is_empty()) else {
            return FrozenPart::All;
        };
        // A field may have another name in another version, and an API server accepts changes in every served
        // version.
        if target.version.as_ref().is_some_and(|version| !self.object.is_in(version)) {
            return FrozenPart::All;
        }
        let may_be_elsewhere = |field| target.version.is_none() && change.is_nowhere(field);
        let changed = lock.fields().iter().find(|field| change.is_at(field) || may_be_elsewhere(field));
        changed.map_or(FrozenPart::No, |field| FrozenPart::At(field.as_field()))
    }
}

/// The part of a change that a lock freezes.
enum FrozenPart {
    All,
    At(String),
    No,
}
