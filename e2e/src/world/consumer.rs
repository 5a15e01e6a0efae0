//! A consumer's objects, and the expected result of their deletion.

use serde_json::{Value, json};

use super::{Resource, World};
use crate::api::{Api, Reply};
use crate::outcome::{Outcome, Stop, ensure, eventually};

/// Holder of objects, in one workspace or in the one cluster.
#[derive(Clone)]
pub struct Consumer {
    /// Client in the consumer's workspace or in the one cluster: of the administrator, or of the user that the consumer
    /// acts as.
    pub api: Api,
    /// The workspace's path; empty on a plain cluster.
    pub path: String,
    /// The namespace of the consumer's namespaced objects.
    pub namespace: String,
}

impl Consumer {
    pub(super) fn new(api: Api, path: String, namespace: String) -> Consumer {
        Consumer { api, path, namespace }
    }

    /// Returns the same consumer in another namespace, and creates the namespace.
    pub async fn in_namespace(&self, world: &World, suffix: &str) -> Outcome<Consumer> {
        let consumer = Consumer { namespace: format!("{}-{suffix}", world.id()), ..self.clone() };
        consumer.create_namespace(world).await?;
        Ok(consumer)
    }

    /// Returns this consumer as an ordinary user who may do everything with the consumer's own objects.
    pub async fn as_tenant(&self, world: &World) -> Outcome<Consumer> {
        self.give_rights(world).await?;
        let tenant = Consumer { api: world.tenant(&self.path), ..self.clone() };
        eventually("the tenant may enter", world.ring_patience(), async || {
            tenant.api.get(&tenant.namespace_path()).await?.ok().map(drop)
        })
        .await?;
        Ok(tenant)
    }

    async fn give_rights(&self, world: &World) -> Outcome {
        let name = format!("tenant-{}", world.id());
        // In kcp, a tenant administers the workspace. On a plain cluster, the same role would cover everybody's
        // objects.
        let mut role = json!("cluster-admin");
        if !world.is_kcp() {
            role = json!(name);
            let groups = world.groups();
            let rules = json!([
                {"apiGroups": groups, "resources": ["*"], "verbs": ["*"]},
                {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "delete"]},
            ]);
            let role = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": name}, "rules": rules,
            });
            self.api.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await?.ok()?;
        }
        let tenant = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"});
        self.bind_role(&name, &role, &tenant).await
    }

    pub(super) async fn create_namespace(&self, world: &World) -> Outcome {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        eventually("the namespace is created", world.ring_patience(), async || {
            self.api.post("/api/v1/namespaces", &namespace).await?.ok_or_there()
        })
        .await
    }

    /// Returns the path of the consumer's namespace.
    pub fn namespace_path(&self) -> String {
        format!("/api/v1/namespaces/{}", self.namespace)
    }

    /// Returns the path of an object.
    pub fn object(&self, kind: &Resource, name: &str) -> String {
        format!("{}/{name}", kind.collection(&self.namespace))
    }

    /// Creates an object.
    pub async fn create(&self, kind: &Resource, name: &str, spec: Value) -> Outcome {
        self.create_with(kind, json!({"name": name}), spec).await
    }

    /// Creates an object with this metadata, of which the name is one field.
    pub async fn create_with(&self, kind: &Resource, metadata: Value, spec: Value) -> Outcome {
        let object = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata, "spec": spec,
        });
        self.api.post(&kind.collection(&self.namespace), &object).await?.ok().map(drop)
    }

    /// Waits until a creation of an object with this `spec`, whose target is missing, would be refused, without creating
    /// the object. A control waits for nothing.
    pub async fn until_checked(&self, world: &World, kind: &Resource, spec: Value) -> Outcome {
        if world.is_control() {
            return Ok(());
        }
        let object = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": "checked"}, "spec": spec,
        });
        let path = format!("{}?dryRun=All", kind.collection(&self.namespace));
        eventually("references are checked", world.patience(), async || {
            let reply = self.api.post(&path, &object).await?;
            let refused = reply.status == 403 && reply.message().contains("not found");
            if refused { Ok(()) } else { Err(reply.unexpected("a refusal")) }
        })
        .await
    }

    /// Creates a target with an empty `spec`.
    pub async fn create_target(&self, kind: &Resource, name: &str) -> Outcome {
        self.create(kind, name, json!({})).await
    }

    /// Creates a dependent that names its target in `spec.vpcRef.name`.
    pub async fn create_dependent(&self, kind: &Resource, name: &str, target: &str) -> Outcome {
        self.create(kind, name, json!({"vpcRef": {"name": target}})).await
    }

    /// Removes the finalizers of an object.
    pub async fn release(&self, kind: &Resource, name: &str) -> Outcome {
        let path = self.object(kind, name);
        self.api.merge(&path, &json!({"metadata": {"finalizers": null}})).await?.ok().map(drop)
    }

    /// Deletes an object and waits until it is gone.
    pub async fn delete(&self, world: &World, kind: &Resource, name: &str) -> Outcome {
        let path = self.object(kind, name);
        self.api.delete(&path).await?.ok()?;
        self.gone(world, &path).await
    }

    /// Waits until the object does not exist.
    pub async fn gone(&self, world: &World, path: &str) -> Outcome {
        eventually("the object is gone", world.patience(), async || {
            let reply = self.api.get(path).await?;
            if reply.is_gone() { Ok(()) } else { Err(reply.unexpected("404")) }
        })
        .await
    }

    /// Deletes an object, and expects depguard to refuse with a message that contains all `parts` and to leave the
    /// object untouched. A control expects the object to go instead, and ends there.
    pub async fn refused(&self, world: &World, kind: &Resource, name: &str, parts: &[&str]) -> Outcome<Reply> {
        self.refused_at(world, &self.object(kind, name), kind, name, parts).await
    }

    /// Checks the same as [`Consumer::refused`] for a deletion of more than the object, such as of its collection.
    pub async fn refused_at(
        &self,
        world: &World,
        deleted: &str,
        kind: &Resource,
        name: &str,
        parts: &[&str],
    ) -> Outcome<Reply> {
        let reply = self.api.delete(deleted).await?;
        if world.is_control() {
            reply.ok()?;
            self.gone(world, &self.object(kind, name)).await?;
            return Err(Stop::ControlSeen);
        }
        if reply.status != 403 {
            return Err(reply.unexpected("403"));
        }
        for part in parts {
            if !reply.message().contains(part) {
                return Err(reply.unexpected(&format!("a message with `{part}`")));
            }
        }
        self.untouched(kind, name).await?;
        Ok(reply)
    }

    /// Checks that an object exists and is not being deleted.
    pub async fn untouched(&self, kind: &Resource, name: &str) -> Outcome {
        let object = self.api.get(&self.object(kind, name)).await?.ok()?;
        let terminating = object["metadata"].get("deletionTimestamp").is_some();
        ensure(!terminating, || format!("{}/{name} is on its way out", kind.plural))
    }

    /// Waits until a deletion of this object would be refused as still referenced, without deleting the object. Every
    /// scenario calls this once, because an installed configuration takes effect a little later. A control waits for
    /// nothing, because nothing is ever refused there.
    pub async fn until_protected(&self, world: &World, kind: &Resource, name: &str) -> Outcome {
        if world.is_control() {
            return Ok(());
        }
        let path = self.object(kind, name);
        eventually("the object is protected", world.patience(), async || {
            let reply = self.api.dry_run_delete(&path).await?;
            let refused = reply.status == 403 && reply.message().contains("still referenced by");
            if refused { Ok(()) } else { Err(reply.unexpected("a refusal")) }
        })
        .await
    }

    /// Waits until a deletion of this object would go through, without deleting the object.
    pub async fn until_free(&self, world: &World, kind: &Resource, name: &str) -> Outcome {
        let path = self.object(kind, name);
        eventually("the object is free", world.patience(), async || {
            self.api.dry_run_delete(&path).await?.ok().map(drop)
        })
        .await
    }
}
