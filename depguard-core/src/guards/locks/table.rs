//! Lock tables: the locks that may be about one kind in one place.
//!
//! A table always lists at least the locks that hold: an entry only means that the lock must be read. So that no lock
//! is ever missed, its entries are written before the lock is stored. They are removed only after a read has shown
//! that the lock doesn't exist, or that it no longer names the kind; see [`TableGc`](super::TableGc) for the time of that
//! read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{MAX_ENTRIES, MAX_TABLE_BYTES, ROOT};
use crate::model::api;
use crate::model::label_selector::Selector;
use crate::model::names::{GroupResource, Namespace};

/// Name of a table: the ObjectLocks of a namespace, or the ClusterObjectLocks, that may be about one kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct TableName {
    /// The namespace; `None`: the whole cluster.
    pub namespace: Option<Namespace>,
    /// The kind, in every version.
    pub kind: GroupResource,
}

/// Entry of a table about one lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Entry {
    /// The lock's name.
    pub lock: String,
    /// The namespace of the objects, if a ClusterObjectLock names one.
    pub namespace: Option<Namespace>,
    /// The names of objects that the lock may lock.
    pub names: BTreeSet<String>,
    /// The labels of objects that the lock may lock.
    pub selectors: Vec<api::LabelSelector>,
    /// The table's revision when admission last wrote this entry.
    pub revision: u64,
}

/// A table, stored or new.
#[derive(Debug, Clone, PartialEq)]
pub struct LockTable {
    name: TableName,
    /// The metadata as it was read, with `resourceVersion`.
    metadata: Map<String, Value>,
    revision: u64,
    /// Entries by lock and namespace; each pair has one entry.
    entries: BTreeMap<(String, Option<Namespace>), Entry>,
}

/// The reason why a table can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// An object that doesn't have the shape of a LockTable.
    #[error("not a LockTable that this version knows: {0}")]
    Shape(String),
    /// A table of another name, or of another kind than its name indicates.
    #[error("not the requested LockTable")]
    Other,
    /// Too many locks.
    #[error("LockTable {0} is full: delete unneeded locks, or lock many objects by one lock with a selector")]
    Full(String),
}

/// The longest name of an object, in bytes.
const MAX_NAME: usize = 253;

impl TableName {
    /// Returns the name of the LockTable: no two tables have the same name.
    ///
    /// ```
    /// use depguard_core::locks::TableName;
    /// use depguard_core::Group;
    /// use depguard_core::model::{GroupResource, Namespace, Resource};
    ///
    /// let kind = GroupResource { group: Group::parse("apps")?, resource: Resource::parse("deployments")? };
    /// let namespace = Some(Namespace::parse("default")?);
    /// assert_eq!(TableName { namespace, kind: kind.clone() }.as_name(), "ns.default.deployments.apps");
    /// assert_eq!(TableName { namespace: None, kind }.as_name(), "cluster.deployments.apps");
    /// # Ok::<(), depguard_core::model::NameError>(())
    /// ```
    pub fn as_name(&self) -> String {
        // Neither a namespace nor a resource has a dot, so the parts of the name are unambiguous.
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

    /// Returns the path of the LockTable at an API server.
    pub fn path(&self) -> String {
        format!("{}/{}", Self::collection(), self.as_name())
    }

    /// Returns the path of all LockTables.
    pub fn collection() -> String {
        format!("{ROOT}/{PLURAL}")
    }
}

/// Returns the schema of a LockTable's spec.
#[cfg(feature = "schemars")]
pub fn table_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    <WireSpec as schemars::JsonSchema>::json_schema(generator)
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

/// The locks about one kind in one namespace, or in the cluster.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(extend("required" = ["group", "resource"])))]
#[serde(deny_unknown_fields)]
struct WireSpec {
    /// The namespace of the locked objects. Left out: objects without a namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// The API group of the locked objects.
    #[serde(default)]
    group: String,
    /// The resource of the locked objects.
    resource: String,
    /// The number of times that the table was written.
    #[cfg_attr(feature = "schemars", schemars(with = "i64"))]
    #[serde(default)]
    revision: u64,
    /// The locks that may apply. The webhook reads each lock to find out if it does.
    #[cfg_attr(feature = "schemars", schemars(length(max = MAX_ENTRIES), extend("x-kubernetes-list-type" = "atomic")))]
    #[serde(default)]
    entries: Option<Vec<WireEntry>>,
}

/// A lock, and the objects that it may lock.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct WireEntry {
    /// The lock's name.
    lock: String,
    /// The namespace of the locked objects, if a ClusterObjectLock names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// The names of objects that may be locked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    names: Option<BTreeSet<String>>,
    /// The labels of objects that may be locked.
    // They come from the lock, where they were checked.
    #[cfg_attr(feature = "schemars", schemars(schema_with = "crate::model::schema::any_objects"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    selectors: Option<Vec<api::LabelSelector>>,
    /// The table's revision when the lock was last written.
    #[cfg_attr(feature = "schemars", schemars(with = "i64"))]
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
    /// Creates an entry that names no objects.
    pub fn new(lock: &str, namespace: Option<Namespace>) -> Self {
        Self { lock: lock.to_owned(), namespace, ..Self::default() }
    }

    /// Returns true if both entries have the same contents about the same lock, in any revision.
    pub fn says(&self, other: &Self) -> bool {
        let same = |a: &[api::LabelSelector], b: &[api::LabelSelector]| a.iter().all(|one| b.contains(one));
        self.key() == other.key()
            && self.names == other.names
            && same(&self.selectors, &other.selectors)
            && same(&other.selectors, &self.selectors)
    }

    /// Returns true if the lock must be read for an object of the table's kind. `labels` are the object's labels;
    /// `None`: unknown.
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
        // A name without a namespace means an object without a namespace.
        (self.names.contains(name) && within == namespace)
            || self.selectors.iter().any(|wire| {
                let (Some(labels), Ok(selector)) = (labels, Selector::parse(wire)) else { return true };
                selector.matches(|key| labels.get(key).map(String::as_str))
            })
    }

    fn key(&self) -> (String, Option<Namespace>) {
        (self.lock.clone(), self.namespace.clone())
    }

    /// Adds the contents of another entry.
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
    /// Creates a table that is not stored yet.
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
        let shape = |error: crate::model::names::NameError| TableError::Shape(error.to_string());
        let namespace = |name: Option<String>| {
            name.filter(|name| !name.is_empty()).as_deref().map(Namespace::parse).transpose().map_err(shape)
        };
        let group = crate::model::names::Group::parse(&spec.group).map_err(shape)?;
        let resource = crate::model::names::Resource::parse(&spec.resource).map_err(shape)?;
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
            // A duplicate entry counts as one entry with both contents, in the later revision.
            let here =
                table.entries.entry(entry.key()).or_insert_with(|| Entry::new(&entry.lock, entry.namespace.clone()));
            here.extend(&entry);
            here.revision = here.revision.max(entry.revision);
        }
        Ok(table)
    }

    /// Returns the table's name.
    pub fn name(&self) -> &TableName {
        &self.name
    }

    /// Returns the entries in ascending order of their locks.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Returns the number of writes. Each write increments it, even if nothing else changes.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the `resourceVersion` that was read, if the table is stored.
    pub fn resource_version(&self) -> Option<&str> {
        self.metadata.get("resourceVersion")?.as_str()
    }

    /// Returns the UID, if the table is stored.
    pub fn uid(&self) -> Option<&str> {
        self.metadata.get("uid")?.as_str()
    }

    /// Returns the table with these entries, as admission writes it before it allows a lock. The earlier contents
    /// about the same lock stay: they hold until the lock is stored.
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

    /// Returns the table without an entry that is no longer needed, or with the entry reduced to what the lock needs
    /// `now`. `None` if admission has written the entry since it was `seen`: then nothing may be removed from it.
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

    /// Returns true if the table has no entries: it may be deleted, by its UID and version.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the object to store, with the metadata that was read.
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
