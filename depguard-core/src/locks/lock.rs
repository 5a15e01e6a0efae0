//! A lock, as an evaluation uses it.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::holder::Holder;
use super::moment::Moment;
use super::parse;
use super::table::{Entry, TableName};
use crate::api;
use crate::names::{GroupResource, Namespace, Version};
use crate::path::FieldPath;
use crate::selector::Selector;

/// The two kinds of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum LockKind {
    /// Locks objects of its own namespace.
    ObjectLock,
    /// Locks objects without a namespace, or of any.
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
    pub(super) expires: Option<Moment>,
    pub(super) during_teardown: DuringTeardown,
    pub(super) problem: Option<LockError>,
}

/// What a lock is about.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct LockTarget {
    /// The kind, whatever the version.
    pub kind: GroupResource,
    /// The version in which [`fields`](Lock::fields) are written. `None`: it is not said.
    pub version: Option<Version>,
    /// The subresource that is locked, and not the object itself: `scale`.
    pub subresource: Option<String>,
    /// The namespace of the objects: an ObjectLock's own, or the one that a ClusterObjectLock names.
    pub namespace: Option<Namespace>,
    /// Which objects.
    pub pick: Pick,
}

/// Which objects of a kind.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Pick {
    /// The one of this name.
    Name(String),
    /// Those with such labels.
    Labels {
        /// As it is written.
        wire: api::LabelSelector,
        /// As it is used.
        selector: Selector,
    },
}

/// What a lock forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Operations {
    /// To change the object.
    pub update: bool,
    /// To delete it.
    pub delete: bool,
}

/// What a lock does in a namespace or a logical cluster that is being deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum DuringTeardown {
    /// It lets deletions through.
    #[default]
    Release,
    /// It holds, and with it the teardown.
    Hold,
}

/// Why a lock can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {why}")]
#[non_exhaustive]
pub struct LockError {
    /// The field that is to be corrected: `spec.targets[0].name`.
    pub field: String,
    /// What is wrong with it.
    pub why: String,
}

/// How much longer than it says a lock holds, since clocks differ, in milliseconds.
pub const EXPIRY_TOLERANCE: u64 = 5_000;

impl LockKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::ObjectLock, Self::ClusterObjectLock];

    /// The kind, as objects carry it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::ObjectLock => "ObjectLock",
            Self::ClusterObjectLock => "ClusterObjectLock",
        }
    }

    /// The resource, as URLs carry it.
    pub fn plural(self) -> &'static str {
        match self {
            Self::ObjectLock => "objectlocks",
            Self::ClusterObjectLock => "clusterobjectlocks",
        }
    }

    /// The kind whose resource this is.
    pub fn of_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural)
    }

    /// The path of all locks of this kind in a namespace, or of all there are: an ObjectLock's without a namespace is of
    /// all namespaces.
    pub fn path(self, namespace: Option<&Namespace>) -> String {
        let (root, plural) = (super::ROOT, self.plural());
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
    }
}

impl LockTarget {
    /// Its subresource, where a review of that does not say in which logical cluster of a kcp it is: what is sent to it
    /// is not the object, and is stored nowhere.
    pub fn subresource_without_cluster(&self) -> Option<&str> {
        self.subresource.as_deref().filter(|subresource| *subresource != "status")
    }
}

impl LockTarget {
    /// Whether the object is among those that it names, or whose subresource it names. Labels that are not known may be
    /// any.
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

    /// The same, whatever is wrong with it: then it [says what](Self::problem), and is about those of its targets that
    /// can be read. What of it can't be read is taken in the way that lets the least through: it holds for all operations
    /// and fields, for ever, is held by nobody, and holds during a teardown.
    pub fn read(kind: LockKind, object: &Value) -> Self {
        parse::lock(kind, object)
    }

    /// Which kind of lock it is.
    pub fn kind(&self) -> LockKind {
        self.kind
    }

    /// Its name; empty where it has none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its namespace, if it is an ObjectLock.
    pub fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }

    /// What it is about.
    pub fn targets(&self) -> &[LockTarget] {
        &self.targets
    }

    /// What it forbids.
    pub fn operations(&self) -> Operations {
        self.operations
    }

    /// The fields that are frozen. None: all.
    pub fn fields(&self) -> &[FieldPath] {
        &self.fields
    }

    /// Why it is there, for people; it may be empty.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Who may act in spite of it.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// When it ends. `None`: never.
    pub fn expires(&self) -> Option<Moment> {
        self.expires
    }

    /// Whether it has not ended by that time, with the [tolerance](EXPIRY_TOLERANCE).
    pub fn holds_at(&self, now: Moment) -> bool {
        self.expires.is_none_or(|expires| now < expires.after(EXPIRY_TOLERANCE))
    }

    /// What it does in what is being torn down.
    pub fn during_teardown(&self) -> DuringTeardown {
        self.during_teardown
    }

    /// What is wrong with it.
    pub fn problem(&self) -> Option<&LockError> {
        self.problem.as_ref()
    }
}

impl fmt::Display for Lock {
    /// `ObjectLock default/snapshot-42`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind.kind(), self.name),
            None => write!(f, "{} {}", self.kind.kind(), self.name),
        }
    }
}

/// The tables in which a lock must stand to be found, and what must stand there. An entry's revision is for the table to
/// say.
pub fn tables_of(lock: &Lock) -> BTreeMap<TableName, Vec<Entry>> {
    let mut tables: BTreeMap<TableName, Vec<Entry>> = BTreeMap::new();
    for target in &lock.targets {
        let namespace = lock.namespace.clone();
        // An ObjectLock's entries lie in its namespace's own table.
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
