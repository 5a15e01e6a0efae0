//! The roles that are there from the start, and those that are the sum of others.

use serde_json::{Value, json};

use crate::Kind;
use crate::json::array;
use crate::rbac::GROUP;
use crate::world::{ONLY, SHARD, World};

/// Everybody may see which APIs there are; a role for everything, and in kcp one that lets into a workspace.
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
    let binding = json!({
        "metadata": {"name": "system:discovery"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "system:discovery"},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": "system:authenticated"}],
    });
    world.seed(cluster, GROUP, "clusterrolebindings", "", binding);
    if world.kind == Kind::Kcp {
        role("system:kcp:workspace:access", &[json!({"nonResourceURLs": ["/"], "verbs": ["access"]})]);
    }
}

/// Gives each ClusterRole with an `aggregationRule` the rules of those whose labels it selects.
pub(crate) fn reconcile(world: &World) {
    let roles = world.store.everywhere(GROUP, "clusterroles");
    for aggregate in &roles {
        let selectors = array(&aggregate.object, "/aggregationRule/clusterRoleSelectors");
        if selectors.is_empty() {
            continue;
        }
        let others = roles.iter().filter(|role| role.key.cluster == aggregate.key.cluster && role.key != aggregate.key);
        let others = others.filter(|role| selectors.iter().any(|selector| selects(selector, &role.object)));
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

/// By `matchLabels` only.
fn selects(selector: &Value, role: &Value) -> bool {
    let wanted = selector["matchLabels"].as_object();
    wanted.is_some_and(|wanted| {
        wanted.iter().all(|(name, value)| {
            let found = role.pointer("/metadata/labels").and_then(|labels| labels.get(name));
            found.is_some() && found == Some(value)
        })
    })
}
