//! Users with limited rights in a consumer's workspace or in the one cluster.

use serde_json::{Value, json};

use super::{Consumer, World};
use crate::api::Api;
use crate::outcome::{Outcome, eventually};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";

impl Consumer {
    /// Returns this consumer as the ordinary user, who may do everything with the consumer's own objects, and beyond
    /// these only what the rules of a role allow.
    pub async fn as_user_with(&self, world: &World, rules: &[Value]) -> Outcome<Consumer> {
        self.allow(world, rules).await?;
        let user = json!({"apiGroup": GROUP, "kind": "User", "name": "tenant"});
        self.bind_role(&role_of(world), &json!(role_of(world)), &user).await?;
        if world.is_kcp() {
            let access = json!("system:kcp:workspace:access");
            self.bind_role(&format!("{}-access", role_of(world)), &access, &user).await?;
        }
        self.entered(world, world.tenant(&self.path)).await
    }

    /// Sets the rules that the user of [`Consumer::as_user_with`] has beyond the consumer's own objects, from now on.
    pub async fn allow(&self, world: &World, rules: &[Value]) -> Outcome {
        let role = role(&role_of(world), world, rules);
        if self.api.post(&format!("{RBAC}/clusterroles"), &role).await?.status != 409 {
            return Ok(());
        }
        self.api.merge(&format!("{RBAC}/clusterroles/{}", role_of(world)), &role).await?.ok().map(drop)
    }

    /// Returns this consumer as a ServiceAccount in the consumer's namespace. The account may do everything with the
    /// consumer's own objects and locks, but may not unlock what another user locked.
    pub async fn as_account(&self, world: &World, name: &str) -> Outcome<Consumer> {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        let path = format!("{}/serviceaccounts", self.namespace_path());
        self.api.post(&path, &account).await?.ok_or_there()?;
        let locks = json!({
            "apiGroups": ["dependencies.opendefense.cloud"], "resources": ["objectlocks"],
            "verbs": ["get", "list", "create", "update", "patch", "delete"],
        });
        let role_name = format!("{name}-{}", world.id());
        let role = role(&role_name, world, &[locks]);
        self.api.post(&format!("{RBAC}/clusterroles"), &role).await?.ok_or_there()?;
        let subject = json!({"kind": "ServiceAccount", "namespace": self.namespace, "name": name});
        self.bind_role(&role_name, &json!(role_name), &subject).await?;
        let token = world.token_of(&self.api, &self.namespace, name).await?;
        self.entered(world, world.ring().api_of(&token).await?.at(world.ring().prefix(&self.path))).await
    }

    /// Binds a ClusterRole to a user or account.
    pub(super) async fn bind_role(&self, name: &str, role: &Value, subject: &Value) -> Outcome {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}, "subjects": [subject],
        });
        self.api.post(&format!("{RBAC}/clusterrolebindings"), &binding).await?.ok_or_there()
    }

    /// Returns this consumer as another user, once the user's rights take effect.
    async fn entered(&self, world: &World, api: Api) -> Outcome<Consumer> {
        let user = Consumer { api, ..self.clone() };
        eventually("the user may enter", world.ring_patience(), async || {
            user.api.get(&user.namespace_path()).await?.ok().map(drop)
        })
        .await?;
        Ok(user)
    }
}

fn role_of(world: &World) -> String {
    format!("user-{}", world.id())
}

/// Returns the path of the ClusterRoleBinding that gives the ordinary user their rights in the world with this id.
pub(super) fn binding_of(id: &str) -> String {
    format!("{RBAC}/clusterrolebindings/user-{id}")
}

fn role(name: &str, world: &World, more: &[Value]) -> Value {
    let mut rules = vec![
        json!({"apiGroups": world.groups(), "resources": ["*"], "verbs": ["*"]}),
        json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list"]}),
    ];
    rules.extend_from_slice(more);
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules,
    })
}
