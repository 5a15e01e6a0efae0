//! Lock, in the form that an evaluation uses.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::holder::Holder;
use super::parse;
use super::table::{Entry, TableName};
use super::timestamp::Timestamp;
use crate::model::api;
use crate::model::field_path::FieldPath;
use crate::model::label_selector::Selector;
use crate::model::names::{GroupResource, Namespace, Version};

/// The two kinds of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum LockKind {
    /// A lock of objects in its own namespace.
    ObjectLock,
    /// A lock of objects without a namespace, or in any namespace.
    ClusterObjectLock,
}

/// An ObjectLock or a ClusterObjectLock.
#[derive(Debug, Clone, PartialEq)]
pub struct Lock {
    pub(super) kind: LockKind,
    pub(super) namespace: Option<Namespace>,
    pub(super) name: String,
    pub(super) targets: Vec<LockTarget>,
    pub(super) operations: Operations,
    pub(super) fields: Vec<FieldPath>,
    pub(super) reason: String,
    pub(super) holder: Holder,
    pub(super) expires: Option<Timestamp>,
    pub(super) during_teardown: DuringTeardown,
    pub(super) problem: Option<LockError>,
}

/// Objects that a lock names.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct LockTarget {
    /// The kind, in every version.
    pub kind: GroupResource,
    /// The version in which the locked fields are written. `None`: the lock doesn't name one.
    pub version: Option<Version>,
    /// The subresource that is locked instead of the object itself: `scale`.
    pub subresource: Option<String>,
    /// The namespace of the objects: an ObjectLock's own, or the one that a ClusterObjectLock names.
    pub namespace: Option<Namespace>,
    /// The objects of the kind.
    pub pick: Pick,
}

/// Objects of a kind.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Pick {
    /// The object of this name.
    Name(String),
    /// The objects with such labels.
    Labels {
        /// The selector as it is written.
        wire: api::LabelSelector,
        /// The checked selector.
        selector: Selector,
    },
}

/// Operations that a lock forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Operations {
    /// Changes of the object.
    pub update: bool,
    /// Deletion of the object.
    pub delete: bool,
}

/// Behaviour of a lock in a namespace or a logical cluster that is being deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum DuringTeardown {
    /// The lock allows deletions.
    #[default]
    Release,
    /// The lock holds, and so blocks the teardown.
    Hold,
}

/// The reason why a lock can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {why}")]
#[non_exhaustive]
pub struct LockError {
    /// The field to correct: `spec.targets[0].name`.
    pub field: String,
    /// The error in the field.
    pub why: String,
}

/// The time by which a lock outlasts its expiry, in milliseconds, because clocks differ.
pub const EXPIRY_TOLERANCE: u64 = 5_000;

impl LockKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::ObjectLock, Self::ClusterObjectLock];

    /// Returns the kind in the spelling that objects have.
    pub fn kind(self) -> &'static str {
        match self {
            Self::ObjectLock => "ObjectLock",
            Self::ClusterObjectLock => "ClusterObjectLock",
        }
    }

    /// Returns the resource in the spelling that URLs have.
    pub fn plural(self) -> &'static str {
        match self {
            Self::ObjectLock => "objectlocks",
            Self::ClusterObjectLock => "clusterobjectlocks",
        }
    }

    /// Returns the kind whose resource this is.
    pub(crate) fn of_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural)
    }

    /// Returns the path of all locks of this kind in a namespace. Without a namespace, it is the path of all locks of
    /// this kind; for ObjectLocks, in all namespaces.
    pub fn path(self, namespace: Option<&Namespace>) -> String {
        let (root, plural) = (super::ROOT, self.plural());
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
    }
}

impl LockTarget {
    /// Returns the target's subresource if a review of it doesn't name its logical cluster in kcp: the body of such a
    /// request is not the object, and is never stored.
    pub fn subresource_without_cluster(&self) -> Option<&str> {
        self.subresource.as_deref().filter(|subresource| *subresource != "status")
    }

    /// Returns the reason why the target of a lock means no object, since objects of its kind are in namespaces or are
    /// not; `None` if it can mean some.
    pub fn wrong_scope(&self, lock: LockKind, namespaced: bool) -> Option<String> {
        let kind = &self.kind;
        match (lock, &self.namespace, &self.pick) {
            (LockKind::ObjectLock, ..) if !namespaced => {
                Some(format!("{kind} have no namespace, so an ObjectLock locks none of them: take a ClusterObjectLock"))
            }
            (LockKind::ClusterObjectLock, Some(_), _) if !namespaced => Some(format!(
                "{kind} have no namespace, so a target with a namespace locks none of them: leave the target's namespace \
                 out"
            )),
            (LockKind::ClusterObjectLock, None, Pick::Name(name)) if namespaced => Some(format!(
                "{kind} are in namespaces, so a target without a namespace locks no object named {name}: write the \
                 target's namespace, or take an ObjectLock in that namespace"
            )),
            _ => None,
        }
    }

    /// Returns true if the target names the object, or its subresource. If the labels are unknown, a selector counts
    /// as matching.
    pub fn is_about(
        &self,
        kind: &GroupResource,
        namespace: Option<&Namespace>,
        name: &str,
        labels: Option<&BTreeMap<String, String>>,
    ) -> bool {
        let within = self.namespace.as_ref();
        self.kind == *kind
            && match &self.pick {
                Pick::Name(named) => named == name && within == namespace,
                Pick::Labels { selector, .. } => {
                    (within.is_none() || within == namespace)
                        && labels.is_none_or(|labels| selector.matches(|key| labels.get(key).map(String::as_str)))
                }
            }
    }
}

impl Lock {
    /// Checks a lock as an API server returns it.
    pub fn parse(kind: LockKind, object: &Value) -> Result<Self, LockError> {
        let lock = Self::read(kind, object);
        match lock.problem {
            None => Ok(lock),
            Some(problem) => Err(problem),
        }
    }

    /// Reads a lock even if it has an error. A lock with an error has a [problem](Self::problem), and is about those
    /// of its targets that can be read. It is as strict as possible: it holds for all operations and fields, forever
    /// and during a teardown, and has no holder.
    pub fn read(kind: LockKind, object: &Value) -> Self {
        parse::lock(kind, object)
    }

    /// Returns the lock's kind.
    pub fn kind(&self) -> LockKind {
        self.kind
    }

    /// Returns the lock's name; empty if it has none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the lock's namespace, if the lock is an ObjectLock.
    pub fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }

    /// Returns the objects that the lock names.
    pub fn targets(&self) -> &[LockTarget] {
        &self.targets
    }

    /// Returns the operations that the lock forbids.
    pub fn operations(&self) -> Operations {
        self.operations
    }

    /// Returns the frozen fields; if there are none, all fields are frozen.
    pub(crate) fn fields(&self) -> &[FieldPath] {
        &self.fields
    }

    /// Returns the reason for the lock, for people; it may be empty.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the users who may act in spite of the lock.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Returns the end of the lock. `None`: the lock never ends.
    pub fn expires(&self) -> Option<Timestamp> {
        self.expires
    }

    /// Returns true if the lock has not ended by that time, with the [tolerance](EXPIRY_TOLERANCE).
    pub fn holds_at(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| now < expires.after(EXPIRY_TOLERANCE))
    }

    /// Returns the behaviour of the lock during a teardown.
    pub(crate) fn during_teardown(&self) -> DuringTeardown {
        self.during_teardown
    }

    /// Returns the error of the lock.
    pub fn problem(&self) -> Option<&LockError> {
        self.problem.as_ref()
    }
}

impl fmt::Display for Lock {
    /// Prints the kind and the name: `ObjectLock default/snapshot-42`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind.kind(), self.name),
            None => write!(f, "{} {}", self.kind.kind(), self.name),
        }
    }
}

/// Returns the tables that must name a lock, with the required entries. The table determines an entry's revision.
pub fn tables_of(lock: &Lock) -> BTreeMap<TableName, Vec<Entry>> {
    let mut tables: BTreeMap<TableName, Vec<Entry>> = BTreeMap::new();
    for target in &lock.targets {
        let namespace = lock.namespace.clone();
        // The entries of an ObjectLock are in the table of its namespace.
        let within = if namespace.is_some() { None } else { target.namespace.clone() };
        let entries = tables.entry(TableName { namespace, kind: target.kind.clone() }).or_default();
        let at = entries.iter().position(|entry| entry.namespace == within).unwrap_or_else(|| {
            entries.push(Entry::new(&lock.name, within));
            entries.len() - 1
        });
        let Some(entry) = entries.get_mut(at) else { continue };
        match &target.pick {
            Pick::Name(name) => drop(entry.names.insert(name.clone())),
            Pick::Labels { wire, .. } if entry.selectors.contains(wire) => {}
            Pick::Labels { wire, .. } => entry.selectors.push(wire.clone()),
        }
    }
    tables
}
