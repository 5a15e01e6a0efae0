//! Locks, and the expected results of attempts to change or delete locked objects.

use serde_json::{Value, json};

use super::rules::remove_configurations;
use super::{Consumer, Provider, Resource, World};
use crate::api::{Api, Reply};
use crate::outcome::{Outcome, Stop, ensure, eventually};

/// Path of depguard's own API group.
const GROUP: &str = "/apis/dependencies.opendefense.cloud/v1alpha1";
/// Path of all ClusterObjectLocks.
pub const CLUSTER_LOCKS: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/clusterobjectlocks";
/// Path of all lock tables.
pub const TABLES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/locktables";
/// Path of the webhook configuration for locked objects.
pub const LOCKS_CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/depguard-locks";
/// Path of the webhook configuration for locks themselves.
pub const LOCK_KINDS_CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/depguard-lock-kinds";
/// Path of the webhook configuration for the objects that the older tool's locks guard.
pub const COMPAT_CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/depguard-compat-locks";

/// An attempt to change or delete an object.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// DELETE.
    Delete,
    /// A JSON merge patch.
    Merge(Value),
    /// A PUT of the existing object with these fields set in its `spec`.
    Put(Value),
    /// A server-side apply by another manager.
    Apply(Value),
    /// An eviction, of a Pod.
    Evict,
}

/// Builds a lock's target by name.
pub fn named(kind: &Resource, name: &str) -> Value {
    json!({"group": kind.group, "resource": kind.plural, "name": name})
}

/// Builds a lock's target by labels.
pub fn labelled(kind: &Resource, labels: &Value) -> Value {
    json!({"group": kind.group, "resource": kind.plural, "selector": {"matchLabels": labels}})
}

/// Returns the kinds that a configuration reviews, as `OPERATION group/resource`, sorted.
pub fn reviewed(configuration: &Value) -> Vec<String> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut all = Vec::new();
    let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
    for rule in webhooks.flat_map(|webhook| webhook["rules"].as_array().into_iter().flatten()) {
        for operation in texts(&rule["operations"]) {
            for group in texts(&rule["apiGroups"]) {
                all.extend(texts(&rule["resources"]).iter().map(|resource| format!("{operation} {group}/{resource}")));
            }
        }
    }
    all.sort();
    all.dedup();
    all
}

impl Consumer {
    /// Returns the path of the ObjectLocks in the consumer's namespace.
    pub fn locks(&self) -> String {
        format!("{GROUP}/namespaces/{}/objectlocks", self.namespace)
    }

    /// Creates an ObjectLock in the consumer's namespace and returns the lock's path.
    pub async fn lock(&self, name: &str, spec: Value) -> Outcome<String> {
        self.create_lock("ObjectLock", &self.locks(), name, spec).await
    }

    /// Creates a ClusterObjectLock and returns its path.
    pub async fn cluster_lock(&self, name: &str, spec: Value) -> Outcome<String> {
        self.create_lock("ClusterObjectLock", CLUSTER_LOCKS, name, spec).await
    }

    async fn create_lock(&self, kind: &str, collection: &str, name: &str, spec: Value) -> Outcome<String> {
        self.api.post(collection, &lock_of(kind, name, &spec)).await?.ok()?;
        Ok(format!("{collection}/{name}"))
    }

    /// Waits until the lock's status says that the lock holds, and until a deletion of the object at `path` would be
    /// refused because of a lock. A control waits for nothing, because no lock ever holds there.
    pub async fn until_locked(&self, world: &World, lock: &str, path: &str) -> Outcome {
        self.until_programmed(world, lock).await?;
        self.until_refused(world, path).await
    }

    /// Waits until a condition of the lock says that the lock holds, for the lock's present generation.
    pub async fn until_programmed(&self, world: &World, lock: &str) -> Outcome {
        if world.is_control() {
            return Ok(());
        }
        eventually("the lock is programmed", world.patience(), async || {
            let lock = self.api.get(lock).await?.ok()?;
            let conditions = lock["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is = |one: &Value| {
                one["type"] == "Programmed"
                    && one["status"] == "True"
                    && one["observedGeneration"] == lock["metadata"]["generation"]
            };
            ensure(conditions.iter().any(is), || format!("status is {}", lock["status"]))
        })
        .await
    }

    /// Waits until a deletion of the object would be refused because of a lock.
    pub async fn until_refused(&self, world: &World, path: &str) -> Outcome {
        if world.is_control() {
            return Ok(());
        }
        eventually("the object is locked", world.patience(), async || {
            let reply = self.api.dry_run_delete(path).await?;
            if is_refusal(&reply) { Ok(()) } else { Err(reply.unexpected("that it is locked")) }
        })
        .await
    }

    /// Waits until a deletion of the object would go through.
    pub async fn until_unlocked(&self, world: &World, path: &str) -> Outcome {
        eventually("the object is no longer locked", world.patience(), async || {
            self.api.dry_run_delete(path).await?.ok().map(drop)
        })
        .await
    }

    /// Evicts the Pod at `path`.
    pub async fn evict(&self, path: &str, dry_run: bool) -> Outcome<Reply> {
        let name = path.rsplit('/').next();
        let mut eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        if dry_run {
            eviction["deleteOptions"] = json!({"dryRun": ["All"]});
        }
        self.api.post(&format!("{path}/eviction"), &eviction).await
    }

    /// Makes the attempt on the object at `path`.
    pub async fn attempt(&self, path: &str, attempt: &Attempt) -> Outcome<Reply> {
        match attempt {
            Attempt::Delete => self.api.delete(path).await,
            Attempt::Merge(patch) => self.api.merge(path, patch).await,
            Attempt::Put(spec) => {
                let mut object = self.api.get(path).await?.ok()?;
                for (field, value) in spec.as_object().into_iter().flatten() {
                    object["spec"][field] = value.clone();
                }
                self.api.put(path, &object).await
            }
            Attempt::Apply(spec) => {
                let object = self.api.get(path).await?.ok()?;
                let metadata = json!({"name": object["metadata"]["name"]});
                let applied = json!({
                    "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata, "spec": spec,
                });
                self.api.apply(path, &applied).await
            }
            Attempt::Evict => self.evict(path, false).await,
        }
    }

    /// Makes an attempt that a lock is expected to refuse with a message that contains all `parts`; the object must
    /// stay as it was. A control expects the attempt to go through, and ends there.
    pub async fn locked(&self, world: &World, path: &str, attempt: &Attempt, parts: &[&str]) -> Outcome<Reply> {
        let admin = Consumer { api: world.admin(&self.path), ..self.clone() };
        let before = admin.api.get(path).await?.ok()?;
        let reply = self.attempt(path, attempt).await?;
        if world.is_control() {
            reply.ok()?;
            if matches!(attempt, Attempt::Delete | Attempt::Evict) {
                admin.gone(world, path).await?;
            }
            return Err(Stop::ControlSeen);
        }
        let code = if matches!(attempt, Attempt::Evict) { 429 } else { 403 };
        if reply.status != code || !reply.message().contains("denied the request") {
            return Err(reply.unexpected("that a webhook refuses it"));
        }
        for part in parts {
            if !reply.message().contains(part) {
                return Err(reply.unexpected(&format!("a message with `{part}`")));
            }
        }
        let after = admin.api.get(path).await?.ok()?;
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        ensure(version(&before) == version(&after), || format!("{path} was {before}, and is {after}"))?;
        Ok(reply)
    }

    /// Makes an attempt that no lock may refuse.
    pub async fn passes(&self, path: &str, attempt: &Attempt) -> Outcome<Value> {
        self.attempt(path, attempt).await?.ok()
    }
}

impl World {
    /// Returns the kinds that the webhook configuration for locked objects reviews in a provider's workspace, or in the
    /// one cluster; none if there is no such configuration.
    pub async fn reviewed_for_locks(&self, provider: &Provider) -> Outcome<Vec<String>> {
        let reply = provider.api.get(LOCKS_CONFIGURATION).await?;
        if reply.is_gone() { Ok(Vec::new()) } else { Ok(reviewed(&reply.ok()?)) }
    }

    /// Removes everything that a scenario with locks may leave in a cluster, and waits until the API server asks no
    /// webhook about locks any more: otherwise a lock of the next scenario would be reviewed by a webhook that has ended.
    pub(super) async fn clean_locks(&self, admin: &Api) -> Outcome {
        let spec = json!({"targets": [{"resource": "configmaps", "name": "a"}]});
        let probe = lock_of("ClusterObjectLock", "probe", &spec);
        let configurations = [LOCKS_CONFIGURATION, LOCK_KINDS_CONFIGURATION, COMPAT_CONFIGURATION];
        // An API server notices a removed configuration a moment later.
        eventually("no configuration about locks is left", self.ring_patience(), async || {
            remove_configurations(admin, &configurations).await?;
            admin.post(&format!("{CLUSTER_LOCKS}?dryRun=All"), &probe).await?.ok().map(drop)
        })
        .await?;
        for collection in [CLUSTER_LOCKS, TABLES, &format!("{GROUP}/namespaces/{}/objectlocks", self.id)] {
            eventually("what is left of locks is removed", self.ring_patience(), async || {
                admin.delete(collection).await?.ok().map(drop)
            })
            .await?;
        }
        Ok(())
    }
}

/// Builds a lock.
fn lock_of(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": kind,
        "metadata": {"name": name}, "spec": spec,
    })
}

/// Returns true if this is the refusal of a lock.
fn is_refusal(reply: &Reply) -> bool {
    reply.status == 403 && reply.message().contains("Object is locked")
}
