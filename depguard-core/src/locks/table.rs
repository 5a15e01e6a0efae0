//! Lock tables: which locks bear on one kind in one place.
//!
//! A table is always a superset of what holds: an entry says no more than that a lock must be read. So that no lock is
//! ever missed, its entries are written before it is stored, and go only after a read of the lock says that it is not
//! there, or no longer names the kind; see [`Ages`](super::Ages) for when that may be asked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{MAX_ENTRIES, MAX_TABLE_BYTES, ROOT};
use crate::api;
use crate::names::{GroupResource, Namespace};
use crate::selector::Selector;

/// Which table: of the ObjectLocks of a namespace, or of the ClusterObjectLocks, that bear on one kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct TableName {
    /// The namespace; `None`: the whole cluster.
    pub namespace: Option<Namespace>,
    /// The kind, whatever the version.
    pub kind: GroupResource,
}

/// What a table says of one lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Entry {
    /// The lock's name.
    pub lock: String,
    /// The namespace of the objects, where a ClusterObjectLock names one.
    pub namespace: Option<Namespace>,
    /// The names of objects that it may lock.
    pub names: BTreeSet<String>,
    /// The labels of objects that it may lock.
    pub selectors: Vec<api::LabelSelector>,
    /// The table's revision when admission last wrote this entry.
    pub revision: u64,
}

/// A table as it is stored, or is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct LockTable {
    name: TableName,
    /// The metadata as it was read, with `resourceVersion`.
    metadata: Map<String, Value>,
    revision: u64,
    /// By lock and namespace: there is one entry of each.
    entries: BTreeMap<(String, Option<Namespace>), Entry>,
}

/// Why a table can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Not of the shape of a LockTable.
    #[error("not a LockTable that this version knows: {0}")]
    Shape(String),
    /// A table of another name, or of another kind than its name says.
    #[error("not the LockTable that was asked for")]
    Other,
    /// Too many locks.
    #[error(
        "LockTable {0} has no room for one more lock: delete locks that are not needed any more, or lock many objects by \
         one lock with a selector"
    )]
    Full(String),
}

/// The longest name of an object.
const MAX_NAME: usize = 253;

impl TableName {
    /// The name of the LockTable: no two tables have the same.
    ///
    /// ```
    /// use depguard_core::locks::TableName;
    /// use depguard_core::{Group, GroupResource, Namespace, Resource};
    ///
    /// let kind = GroupResource { group: Group::parse("apps")?, resource: Resource::parse("deployments")? };
    /// let namespace = Some(Namespace::parse("default")?);
    /// assert_eq!(TableName { namespace, kind: kind.clone() }.as_name(), "ns.default.deployments.apps");
    /// assert_eq!(TableName { namespace: None, kind }.as_name(), "cluster.deployments.apps");
    /// # Ok::<(), depguard_core::NameError>(())
    /// ```
    pub fn as_name(&self) -> String {
        // Neither a namespace nor a resource has a dot, so that what stands where is plain.
        let readable = match &self.namespace {
            Some(namespace) => format!("ns.{namespace}.{}", self.kind),
            None => format!("cluster.{}", self.kind),
        };
        if readable.len() <= MAX_NAME {
            return readable;
        }
        let digest = Sha256::digest(readable.as_bytes());
        let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("hash.{}.{digits}", self.kind.resource)
    }

    /// The path of the LockTable at an API server.
    pub fn path(&self) -> String {
        format!("{}/{}", Self::collection(), self.as_name())
    }

    /// The path of all LockTables.
    pub fn collection() -> String {
        format!("{ROOT}/{PLURAL}")
    }
}

/// The resource of LockTables.
pub const PLURAL: &str = "locktables";
/// The kind of LockTables.
pub const KIND: &str = "LockTable";

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_name())
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(default)]
    group: String,
    resource: String,
    #[serde(default)]
    revision: u64,
    #[serde(default)]
    entries: Option<Vec<WireEntry>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireEntry {
    lock: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    names: Option<BTreeSet<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    selectors: Option<Vec<api::LabelSelector>>,
    #[serde(default)]
    revision: u64,
}

#[derive(Deserialize)]
struct WireTable {
    #[serde(default)]
    metadata: Map<String, Value>,
    spec: WireSpec,
}

impl Entry {
    /// An entry that names nothing yet.
    pub fn new(lock: &str, namespace: Option<Namespace>) -> Self {
        Self { lock: lock.to_owned(), namespace, ..Self::default() }
    }

    /// Whether it says the same of the same lock, whatever its revision.
    pub fn says(&self, other: &Self) -> bool {
        let same = |a: &[api::LabelSelector], b: &[api::LabelSelector]| a.iter().all(|one| b.contains(one));
        self.key() == other.key()
            && self.names == other.names
            && same(&self.selectors, &other.selectors)
            && same(&other.selectors, &self.selectors)
    }

    /// Whether the lock must be read for an object of the table's kind. `labels` are those of the object; `None`: they are
    /// not known.
    pub(super) fn may_lock(
        &self,
        table: &TableName,
        namespace: Option<&Namespace>,
        name: &str,
        labels: Option<&BTreeMap<String, String>>,
    ) -> bool {
        let within = self.namespace.as_ref().or(table.namespace.as_ref());
        if within.is_some() && within != namespace {
            return false;
        }
        // What is named without a namespace has none.
        (self.names.contains(name) && within == namespace)
            || self.selectors.iter().any(|wire| {
                let (Some(labels), Ok(selector)) = (labels, Selector::parse(wire)) else { return true };
                selector.matches(|key| labels.get(key).map(String::as_str))
            })
    }

    fn key(&self) -> (String, Option<Namespace>) {
        (self.lock.clone(), self.namespace.clone())
    }

    /// Adds what another one says.
    fn extend(&mut self, other: &Self) {
        self.names.extend(other.names.iter().cloned());
        for selector in &other.selectors {
            if !self.selectors.contains(selector) {
                self.selectors.push(selector.clone());
            }
        }
    }
}

impl LockTable {
    /// A table that is not stored yet.
    pub fn new(name: &TableName) -> Self {
        let metadata = Map::from_iter([("name".to_owned(), json!(name.as_name()))]);
        Self { name: name.clone(), metadata, revision: 0, entries: BTreeMap::new() }
    }

    /// Reads a table as an API server returns it.
    pub fn parse(bytes: &[u8]) -> Result<Self, TableError> {
        serde_json::from_slice(bytes).map_err(|error| TableError::Shape(error.to_string())).and_then(Self::read)
    }

    /// Reads a table as it stands in a list.
    pub fn from_value(object: &Value) -> Result<Self, TableError> {
        WireTable::deserialize(object).map_err(|error| TableError::Shape(error.to_string())).and_then(Self::read)
    }

    fn read(wire: WireTable) -> Result<Self, TableError> {
        let WireTable { metadata, spec } = wire;
        let shape = |error: crate::names::NameError| TableError::Shape(error.to_string());
        let namespace = |name: Option<String>| {
            name.filter(|name| !name.is_empty()).as_deref().map(Namespace::parse).transpose().map_err(shape)
        };
        let group = crate::names::Group::parse(&spec.group).map_err(shape)?;
        let resource = crate::names::Resource::parse(&spec.resource).map_err(shape)?;
        let name = TableName { namespace: namespace(spec.namespace)?, kind: GroupResource { group, resource } };
        if metadata.get("name").and_then(Value::as_str) != Some(&name.as_name()) {
            return Err(TableError::Other);
        }
        let mut table = Self { name, metadata, revision: spec.revision, entries: BTreeMap::new() };
        for wire in spec.entries.unwrap_or_default() {
            let entry = Entry {
                lock: wire.lock,
                namespace: namespace(wire.namespace)?,
                names: wire.names.unwrap_or_default(),
                selectors: wire.selectors.unwrap_or_default(),
                revision: wire.revision,
            };
            // One that stands twice says both, as of the later time.
            let here =
                table.entries.entry(entry.key()).or_insert_with(|| Entry::new(&entry.lock, entry.namespace.clone()));
            here.extend(&entry);
            here.revision = here.revision.max(entry.revision);
        }
        Ok(table)
    }

    /// Which table it is.
    pub fn name(&self) -> &TableName {
        &self.name
    }

    /// What it says, ascending by lock.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// How often it was written. Each write makes a new one, also where it changes nothing else.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Where it is stored, the version that was read.
    pub fn resource_version(&self) -> Option<&str> {
        self.metadata.get("resourceVersion")?.as_str()
    }

    /// Where it is stored, its UID.
    pub fn uid(&self) -> Option<&str> {
        self.metadata.get("uid")?.as_str()
    }

    /// The same with these entries, as admission writes it before it lets a lock be stored. What it said of the same lock
    /// before stays: until the lock is stored, that is what holds.
    pub fn with(&self, entries: &[Entry]) -> Result<Self, TableError> {
        let mut table = self.written();
        for entry in entries {
            let here =
                table.entries.entry(entry.key()).or_insert_with(|| Entry::new(&entry.lock, entry.namespace.clone()));
            here.extend(entry);
            here.revision = table.revision;
        }
        if table.entries.len() > MAX_ENTRIES || table.spec().to_string().len() > MAX_TABLE_BYTES {
            return Err(TableError::Full(self.name.as_name()));
        }
        Ok(table)
    }

    /// The same without an entry that was found to be of no use, or with no more in it than the lock names `now`.
    /// `None`: admission has written the entry since it was `seen`, so that nothing may be taken from it.
    pub fn cleaned(&self, seen: &Entry, now: Option<&Entry>) -> Option<Self> {
        if self.entries.get(&seen.key())? != seen {
            return None;
        }
        let mut table = self.written();
        table.entries.remove(&seen.key());
        if let Some(now) = now.filter(|now| now.key() == seen.key()) {
            table.entries.insert(now.key(), Entry { revision: seen.revision, ..now.clone() });
        }
        Some(table)
    }

    /// Whether it says nothing: it may be deleted, by its UID and version.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The object to store, with the metadata that was read.
    pub fn to_value(&self) -> Value {
        json!({
            "apiVersion": format!("{}/{}", api::GROUP, api::VERSION), "kind": KIND,
            "metadata": self.metadata, "spec": self.spec(),
        })
    }

    fn written(&self) -> Self {
        Self { revision: self.revision.saturating_add(1), ..self.clone() }
    }

    fn spec(&self) -> Value {
        let entries = self.entries.values().map(|entry| WireEntry {
            lock: entry.lock.clone(),
            namespace: entry.namespace.as_ref().map(ToString::to_string),
            names: Some(entry.names.clone()).filter(|names| !names.is_empty()),
            selectors: Some(entry.selectors.clone()).filter(|selectors| !selectors.is_empty()),
            revision: entry.revision,
        });
        json!(WireSpec {
            namespace: self.name.namespace.as_ref().map(ToString::to_string),
            group: self.name.kind.group.to_string(),
            resource: self.name.kind.resource.to_string(),
            revision: self.revision,
            entries: Some(entries.collect()),
        })
    }
}
