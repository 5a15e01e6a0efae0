//! State that all requests and controllers share.

pub(crate) mod audit;
pub(crate) mod faults;
pub(crate) mod shards;
pub(crate) mod tokens;
pub(crate) mod traffic;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::kinds::builtin;
use crate::kinds::{self, Resource};
use crate::options::Kind;
use crate::protocol::json::{annotation, now, set_annotation, text, uuid};
use crate::store::{Key, Store, StoredObject};
use crate::transport::pool::Pool;
use crate::world::audit::Audits;
use crate::world::faults::Faults;
use crate::world::shards::Shards;
use crate::world::tokens::Tokens;
use crate::world::traffic::Traffic;

pub(crate) const PATH: &str = "kcp.io/path";
pub(crate) const CLUSTER: &str = "kcp.io/cluster";
/// Logical cluster of the root workspace.
pub(crate) const ROOT: &str = "root";
/// Logical cluster whose RBAC objects apply in every logical cluster of the shard. No workspace leads here.
pub(crate) const SHARD: &str = "system:admin";
/// Name of a plain Kubernetes' only cluster.
pub(crate) const ONLY: &str = "";

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) kind: Kind,
    /// Set if RBAC objects decide about rights.
    pub(crate) rbac: bool,
    pub(crate) url: String,
    pub(crate) shards: Shards,
    pub(crate) store: Store,
    pub(crate) faults: Faults,
    pub(crate) traffic: Traffic,
    pub(crate) audits: Audits,
    pub(crate) webhooks: Pool,
    pub(crate) tokens: Tokens,
    /// Addresses of Services, by `namespace/name`.
    pub(crate) services: BTreeMap<String, SocketAddr>,
}

impl World {
    /// Returns the logical cluster of an id or a path, if there is such a workspace. The Workspace objects decide,
    /// level by level, and not the path that a logical cluster claims.
    pub(crate) fn cluster_of(&self, id_or_path: &str) -> Option<String> {
        if id_or_path == SHARD {
            return Some(SHARD.to_owned());
        }
        let mut segments = id_or_path.split(':');
        let first = segments.next()?.to_owned();
        let cluster = segments.try_fold(first, |parent, name| {
            let workspace = self.store.get(&Key::new("tenancy.kcp.io", "workspaces", &parent, "", name))?;
            text(&workspace.object, "/spec/cluster").map(str::to_owned)
        })?;
        self.store.get(&logical_cluster_key(&cluster)).map(|_| cluster)
    }

    /// Returns the path that a logical cluster claims. kcp writes this path on its APIBindings and APIExports.
    pub(crate) fn path_of(&self, cluster: &str) -> Option<String> {
        let found = self.store.get(&logical_cluster_key(cluster))?;
        annotation(&found.object, PATH).map(str::to_owned)
    }

    pub(crate) fn find(&self, cluster: &str, group: &str, version: &str, plural: &str) -> Option<Resource> {
        kinds::find(self.kind, &self.store, cluster, group, version, plural)
    }

    /// Changes an object as a controller does: repeats the change after a concurrent write, and writes nothing if the
    /// object stays equal. Returns `false` if the object does not exist.
    pub(crate) fn edit(&self, key: &Key, change: impl Fn(&mut Value)) -> bool {
        loop {
            let Some(stored) = self.store.get(key) else {
                return false;
            };
            let mut object = (*stored.object).clone();
            change(&mut object);
            if object == *stored.object || self.store.replace(key.clone(), stored.revision, object).is_ok() {
                return true;
            }
        }
    }

    /// Removes a controller's finalizer, and the object if it was the last one.
    pub(crate) fn finish(&self, key: &Key, finalizer: &str) {
        while let Some(stored) = self.store.get(key) {
            let mut object = (*stored.object).clone();
            crate::protocol::json::remove_finalizer(&mut object, finalizer);
            let gone =
                crate::protocol::json::is_terminating(&object) && crate::protocol::json::finalizers(&object).is_empty();
            let done = if gone {
                self.store.remove(key, stored.revision).is_ok()
            } else {
                object == *stored.object || self.store.replace(key.clone(), stored.revision, object).is_ok()
            };
            if done {
                return;
            }
        }
    }

    /// Creates an object as the server itself does at its start and in its controllers: without admission, and only if
    /// the object does not exist.
    pub(crate) fn seed(
        &self,
        cluster: &str,
        group: &str,
        plural: &str,
        namespace: &str,
        object: Value,
    ) -> Option<StoredObject> {
        let resource = builtin::resources(self.kind).into_iter().find(|resource| resource.is(group, plural))?;
        let mut object = object;
        let name = text(&object, "/metadata/name")?.to_owned();
        object["kind"] = json!(resource.kind);
        object["apiVersion"] = json!(resource.api_version());
        object["metadata"]["uid"] = json!(uuid());
        object["metadata"]["creationTimestamp"] = json!(now());
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        if resource.generation {
            object["metadata"]["generation"] = json!(1);
        }
        if self.kind == Kind::Kcp {
            set_annotation(&mut object, CLUSTER, cluster);
        }
        self.store.create(resource.key(cluster, namespace, &name), object).ok()
    }

    pub(crate) fn seed_namespace(&self, cluster: &str, name: &str) {
        let namespace = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        });
        self.seed(cluster, "", "namespaces", "", namespace);
    }
}

pub(crate) fn logical_cluster_key(cluster: &str) -> Key {
    Key::new("core.kcp.io", "logicalclusters", cluster, "", "cluster")
}
