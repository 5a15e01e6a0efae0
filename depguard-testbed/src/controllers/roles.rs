//! Roles that exist from the start, and roles that aggregate others.

use serde_json::{Value, json};

use crate::auth::rbac::GROUP;
use crate::options::Kind;
use crate::protocol::json::array;
use crate::read::selectors::label_selector_matches;
use crate::world::{ONLY, SHARD, World};

/// Creates the roles of a new server: everybody may see the APIs and ask about themselves; one role allows everything;
/// in kcp one role gives access to a workspace.
pub(crate) fn seed(world: &World) {
    let cluster = match world.kind {
        Kind::Kcp => SHARD,
        Kind::Kubernetes => ONLY,
    };
    let urls = ["/livez", "/readyz", "/healthz", "/version", "/version/", "/openapi", "/openapi/*"];
    let apis = ["/api", "/api/*", "/apis", "/apis/*"];
    let discovery = json!({"nonResourceURLs": ([&urls[..], &apis[..]].concat()), "verbs": ["get"]});
    let role = |name: &str, rules: &[Value]| {
        let role = json!({"metadata": {"name": name}, "rules": rules});
        world.seed(cluster, GROUP, "clusterroles", "", role);
    };
    role("system:discovery", &[discovery]);
    let (objects, paths) = (json!({"apiGroups": ["*"], "resources": ["*"]}), json!({"nonResourceURLs": ["*"]}));
    role("cluster-admin", &[objects, paths].map(|rule| with(rule, "verbs", json!(["*"]))));
    let ask =
        |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["create"]});
    let of_oneself = [
        ask("authorization.k8s.io", &["selfsubjectaccessreviews"]),
        ask("authentication.k8s.io", &["selfsubjectreviews"]),
    ];
    role("system:basic-user", &of_oneself);
    for name in ["system:discovery", "system:basic-user"] {
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": "system:authenticated"}],
        });
        world.seed(cluster, GROUP, "clusterrolebindings", "", binding);
    }
    if world.kind == Kind::Kcp {
        role("system:kcp:workspace:access", &[json!({"nonResourceURLs": ["/"], "verbs": ["access"]})]);
    }
}

/// Gives each ClusterRole with an `aggregationRule` the rules of the ClusterRoles that its label selectors select.
pub(crate) fn reconcile(world: &World) {
    let roles = world.store.everywhere(GROUP, "clusterroles");
    for aggregate in &roles {
        let selectors = array(&aggregate.object, "/aggregationRule/clusterRoleSelectors");
        if selectors.is_empty() {
            continue;
        }
        let others = roles.iter().filter(|role| role.key.cluster == aggregate.key.cluster && role.key != aggregate.key);
        let others = others.filter(|role| {
            selectors.iter().any(|selector| label_selector_matches(Some(selector), labels_of(&role.object)))
        });
        let mut rules: Vec<Value> = Vec::new();
        for rule in others.flat_map(|role| array(&role.object, "/rules")) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
        world.edit(&aggregate.key, |object| object["rules"] = json!(rules));
    }
}

fn with(mut object: Value, field: &str, value: Value) -> Value {
    object[field] = value;
    object
}

fn labels_of(role: &Value) -> &Value {
    role.pointer("/metadata/labels").unwrap_or(&Value::Null)
}
