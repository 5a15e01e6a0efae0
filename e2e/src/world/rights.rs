//! The rights that the webhook has where it reads through exports: what the manifests give it, and no more.

use depguard_controller::manifests::{Identity, Place, ReadThrough, Setup, rbac};
use depguard_core::Home;
use serde_json::{Value, json};

use super::World;
use crate::api::Api;
use crate::outcome::{Outcome, Stop, eventually};

const GROUP: &str = "rbac.authorization.k8s.io";

impl World {
    /// Grants in a workspace what the manifests give there, where the webhook is not the administrator.
    pub(super) async fn grant(&self, place: Place, api: &Api) -> Outcome {
        if !self.ring().kind().reads_through_exports() {
            return Ok(());
        }
        let identity = Identity::Certificates;
        let setup = Setup { identity, ..Setup::new(Home::Kcp, ReadThrough::Export) };
        for (_, objects) in rbac(&setup).into_iter().filter(|(of, _)| *of == place) {
            for object in objects {
                apply(self, api, &object).await?;
            }
        }
        Ok(())
    }

    /// Grants what every shard's workspaces need.
    pub(super) async fn grant_on_shards(&self) -> Outcome {
        if !self.ring().kind().reads_through_exports() {
            return Ok(());
        }
        let masters = self.ring().masters().await?;
        self.grant(Place::Shards, &masters.at(self.ring().prefix("system:admin"))).await
    }

    /// An operator lets the webhook list a local kind in a workspace, where it has no right to everything.
    pub async fn let_webhook_list(&self, api: &Api, group: &str, resource: &str) -> Outcome {
        let name = format!("depguard-webhook-{resource}");
        let role = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [{"apiGroups": [group], "resources": [resource], "verbs": ["list"]}],
        });
        let binding = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "depguard-webhook"}],
        });
        apply(self, api, &role).await?;
        apply(self, api, &binding).await
    }
}

async fn apply(world: &World, api: &Api, object: &Value) -> Outcome {
    let plural = match object["kind"].as_str().unwrap_or_default() {
        "Namespace" => "/api/v1/namespaces".to_owned(),
        kind @ ("ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding") => {
            let namespace = object["metadata"]["namespace"].as_str();
            let place = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
            format!("/apis/{GROUP}/v1{place}/{}s", kind.to_lowercase())
        }
        kind => return Err(Stop::failed(format!("nobody knows where a {kind} is put"))),
    };
    eventually("the right is granted", world.patience(), async || api.post(&plural, object).await?.ok_or_there()).await
}
