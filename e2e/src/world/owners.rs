//! GlobalOwners and the objects that they own.

use std::time::Duration;

use serde_json::{Value, json};

use super::rules::remove_configurations;
use super::{Resource, World};
use crate::api::Api;
use crate::outcome::{Outcome, ensure, eventually};

/// Path of all GlobalOwners.
pub const GLOBAL_OWNERS: &str = "/apis/globalowner.metacontroller.io/v1alpha1/globalowners";
/// Path of all GroupOwners.
pub const GROUP_OWNERS: &str = "/apis/globalowner.metacontroller.io/v1alpha1/groupowners";
/// Path of all ClusterRoles.
pub const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
/// Path of the webhook configuration that guards owners.
pub const CONFIGURATION: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/depguard-owners";
/// Label that holds a GlobalOwner's UID on the objects made for that owner, percent-encoded.
const LABEL: &str = "dependencies.opendefense.cloud%2Fglobal-owner";

/// Builds an entry of `childResources` with nothing but the kind.
pub fn group(kind: &Resource) -> Value {
    json!({"apiVersion": kind.api_version(), "resource": kind.plural})
}

/// GlobalOwner of a world, in the one cluster.
pub struct Owner {
    api: Api,
    path: String,
    uid: String,
}

impl World {
    /// Creates a GlobalOwner with a name that no other world uses.
    pub async fn own(&self, name: &str, spec: Value) -> Outcome<Owner> {
        let api = self.own_cluster();
        let name = format!("{}-{name}", self.id());
        let owner = json!({
            "apiVersion": "globalowner.metacontroller.io/v1alpha1", "kind": "GlobalOwner",
            "metadata": {"name": name}, "spec": spec,
        });
        let created = api.post(GLOBAL_OWNERS, &owner).await?.ok()?;
        let uid = created["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        Ok(Owner { api, path: format!("{GLOBAL_OWNERS}/{name}"), uid })
    }

    /// Removes everything that a scenario with owners may leave in a cluster.
    pub(super) async fn clean_owners(&self, admin: &Api) -> Outcome {
        eventually("what is left of owners is removed", self.ring_patience(), async || {
            remove_configurations(admin, &[CONFIGURATION]).await?;
            for collection in [GLOBAL_OWNERS, GROUP_OWNERS] {
                admin.delete(collection).await?.ok()?;
                let left = admin.get(collection).await?.ok()?;
                for object in left["items"].as_array().into_iter().flatten() {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    let path = format!("{collection}/{name}");
                    let reply = admin.merge(&path, &json!({"metadata": {"finalizers": null}})).await?;
                    if !reply.is_gone() {
                        reply.ok()?;
                    }
                }
            }
            Ok(())
        })
        .await
    }
}

impl Owner {
    /// Returns the owner's path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Reads the owner as it is now.
    pub async fn get(&self) -> Outcome<Value> {
        self.api.get(&self.path).await?.ok()
    }

    /// Returns the GroupOwners that the controller made for the owner.
    pub async fn groups(&self) -> Outcome<Vec<Value>> {
        self.labelled(GROUP_OWNERS).await
    }

    /// Returns the roles that the controller made for the owner.
    pub async fn roles(&self) -> Outcome<Vec<Value>> {
        self.labelled(ROLES).await
    }

    async fn labelled(&self, collection: &str) -> Outcome<Vec<Value>> {
        let found = self.api.get(&format!("{collection}?labelSelector={LABEL}%3D{}", self.uid)).await?.ok()?;
        Ok(found["items"].as_array().cloned().unwrap_or_default())
    }

    /// Returns true if one of the owner's GroupOwners is among the owners of an object.
    pub async fn owns(&self, object: &Value) -> Outcome<bool> {
        let groups = self.groups().await?;
        let references = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let is = |reference: &Value| groups.iter().any(|group| group["metadata"]["uid"] == reference["uid"]);
        Ok(references.iter().any(is))
    }

    /// Waits until the owner owns the object at a path.
    pub async fn until_adopted(&self, world: &World, path: &str) -> Outcome<Value> {
        eventually("the object is adopted", world.patience(), async || {
            let object = self.api.get(path).await?.ok()?;
            let owned = self.owns(&object).await?;
            let owner = self.get().await?;
            ensure(owned, || format!("its owners are {}; {}", object["metadata"]["ownerReferences"], owner["status"]))?;
            Ok(object)
        })
        .await
    }

    /// Waits until the owner does not own the object at a path.
    pub async fn until_released(&self, world: &World, path: &str) -> Outcome<Value> {
        eventually("the object is released", world.patience(), async || {
            let object = self.api.get(path).await?.ok()?;
            let owned = self.owns(&object).await?;
            ensure(!owned, || format!("its owners are {}", object["metadata"]["ownerReferences"]))?;
            Ok(object)
        })
        .await
    }

    /// Waits until `check` accepts the owner's status.
    pub async fn until(&self, world: &World, what: &str, check: impl Fn(&Value) -> bool) -> Outcome<Value> {
        eventually(what, world.patience(), async || {
            let owner = self.get().await?;
            ensure(check(&owner["status"]), || format!("status is {}", owner["status"]))?;
            Ok(owner)
        })
        .await
    }

    /// Waits until the owner, its GroupOwners and its roles are gone.
    pub async fn until_gone(&self, world: &World) -> Outcome {
        self.until_gone_within(world.patience()).await
    }

    /// Waits for the same as [`Owner::until_gone`] as long as the API server's own work may take, for a removal that is
    /// more the API server's work than depguard's.
    pub async fn until_collected(&self, world: &World) -> Outcome {
        self.until_gone_within(world.ring_patience()).await
    }

    async fn until_gone_within(&self, patience: Duration) -> Outcome {
        eventually("the owner is gone, and what was made for it", patience, async || {
            let reply = self.api.get(&self.path).await?;
            let (groups, roles) = (self.groups().await?, self.roles().await?.len());
            let left = || format!("{groups:?} and {roles} roles are left, and {}", reply.body["status"]);
            ensure(reply.is_gone() && groups.is_empty() && roles == 0, left)
        })
        .await
    }

    /// Deletes the owner without waiting for its end.
    pub async fn delete(&self) -> Outcome {
        self.api.delete(&self.path).await?.ok().map(drop)
    }
}
