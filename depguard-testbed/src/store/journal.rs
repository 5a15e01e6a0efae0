//! Everything that was ever written, for whoever judges afterwards what should have happened.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::{Change, Key};

/// One change of the store, as it was committed.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Event {
    /// The revision that this change made: each has the next one.
    pub revision: u64,
    /// When it was committed.
    pub at: Instant,
    /// API group.
    pub group: String,
    /// Lower case plural.
    pub resource: String,
    /// The logical cluster; empty in a plain Kubernetes.
    pub cluster: String,
    /// Empty for a cluster-scoped object.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object from then on; `None`: it is gone.
    pub object: Option<Arc<Value>>,
    /// Of an object that a DELETE took away: the store's revision just before admission was asked for the last time.
    pub reviewed_at: Option<u64>,
}

impl Event {
    pub(super) fn new(change: &Change, reviewed_at: Option<u64>) -> Self {
        let Key { group, resource, cluster, namespace, name } = change.key.clone();
        let object = change.object.as_ref().map(|object| object.value());
        Self {
            revision: change.revision,
            at: Instant::now(),
            group,
            resource,
            cluster,
            namespace,
            name,
            object,
            reviewed_at,
        }
    }
}
