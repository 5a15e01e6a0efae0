//! Journal of all writes, for tests that judge a run afterwards.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::{Change, Key};

/// Change of the store, as it was committed.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Event {
    /// Revision that this change made. Each change has the next one.
    pub revision: u64,
    /// Time of the commit.
    pub at: Instant,
    /// API group.
    pub group: String,
    /// Plural of the resource in lower case.
    pub resource: String,
    /// Logical cluster; empty in a plain Kubernetes.
    pub cluster: String,
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Object from then on; `None` if it is gone.
    pub object: Option<Arc<Value>>,
    /// Revision of the store just before admission was asked for the last time, for an object that a DELETE removed.
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
