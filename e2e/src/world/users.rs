//! Users of a consumer's workspace, or of the one cluster, who may do this and not that.

use serde_json::{Value, json};

use super::{Consumer, World};
use crate::api::Api;
use crate::outcome::{Outcome, eventually};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";

impl Consumer {
    /// The ordinary user, who may do everything with this consumer's own objects, and besides only what the rules of a
    /// role say.
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

    /// What [`Consumer::as_user_with`] may besides, from now on.
    pub async fn allow(&self, world: &World, rules: &[Value]) -> Outcome {
        let role = role(&role_of(world), world, rules);
        if self.api.post(&format!("{RBAC}/clusterroles"), &role).await?.status != 409 {
            return Ok(());
        }
        self.api.merge(&format!("{RBAC}/clusterroles/{}", role_of(world)), &role).await?.ok().map(drop)
    }

    /// A ServiceAccount of this consumer's namespace, which may do everything with this consumer's own objects and its
    /// locks, but not unlock what another one locked.
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

    /// Binds a ClusterRole to somebody.
    pub(super) async fn bind_role(&self, name: &str, role: &Value, subject: &Value) -> Outcome {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}, "subjects": [subject],
        });
        self.api.post(&format!("{RBAC}/clusterrolebindings"), &binding).await?.ok_or_there()
    }

    /// This consumer as somebody else, once rights count.
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

/// The path of what gives the ordinary user his rights in the world of an id.
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
