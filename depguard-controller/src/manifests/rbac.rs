//! The rights that both binaries need, in each home.

use depguard_core::{Home, api};
use serde_json::{Value, json};

use super::with;
use crate::configuration;

const NAMESPACE: &str = "depguard-system";
const CONTROLLER: &str = "depguard-controller";
const WEBHOOK: &str = "depguard-webhook";
const READ: [&str; 3] = ["get", "list", "watch"];

/// All rights that `home` needs. In home kcp they belong in several workspaces: [`files`](super::files) says which.
pub fn rbac(home: Home) -> Vec<Value> {
    match home {
        Home::Kcp => [kcp_dep_ctrl(), kcp_parents(), kcp_shard()].concat(),
        Home::Kubernetes => kubernetes(),
    }
}

/// In depguard's own workspace: its endpoints, and its export's virtual workspace.
pub(super) fn kcp_dep_ctrl() -> Vec<Value> {
    let slices = json!({"apiGroups": ["apis.kcp.io"], "resources": ["apiexportendpointslices"], "verbs": READ});
    let content = |verbs: &[&str]| {
        json!({
            "apiGroups": ["apis.kcp.io"],
            "resources": ["apiexports/content"],
            "resourceNames": [api::GROUP],
            "verbs": verbs,
        })
    };
    let write = ["get", "list", "watch", "create", "update", "patch", "delete"];
    [accounts(), granted(CONTROLLER, &[slices.clone(), content(&write)]), granted(WEBHOOK, &[slices, content(&READ)])]
        .concat()
}

/// In the parents of the providers' workspaces: whether a workspace exists.
pub(super) fn kcp_parents() -> Vec<Value> {
    let workspaces = json!({"apiGroups": ["tenancy.kcp.io"], "resources": ["workspaces"], "verbs": READ});
    let mut objects = granted(CONTROLLER, &[workspaces]);
    objects.push(access(CONTROLLER));
    objects
}

/// In `system:admin` of every shard: the dependents, in whichever workspace.
pub(super) fn kcp_shard() -> Vec<Value> {
    let mut objects = granted(WEBHOOK, &[everything()]);
    objects.push(access(WEBHOOK));
    objects
}

fn kubernetes() -> Vec<Value> {
    let rules = json!({"apiGroups": [api::GROUP], "resources": [api::PLURAL], "verbs": READ});
    let status =
        json!({"apiGroups": [api::GROUP], "resources": [format!("{}/status", api::PLURAL)], "verbs": ["update"]});
    let configurations = |verbs: &[&str]| {
        json!({
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingwebhookconfigurations"],
            "verbs": verbs,
        })
    };
    let own = configurations(&["get", "list", "watch", "update", "patch", "delete"]);
    let own = with(own, "resourceNames", json!([configuration::NAME]));
    let definitions = json!({
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": ["get"],
    });
    let events = json!({"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]});
    [
        accounts(),
        granted(CONTROLLER, &[rules.clone(), status, own, configurations(&["create"]), definitions, events]),
        granted(WEBHOOK, &[rules, everything()]),
    ]
    .concat()
}

fn everything() -> Value {
    json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]})
}

fn accounts() -> Vec<Value> {
    let account = |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}});
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        account(CONTROLLER),
        account(WEBHOOK),
    ]
}

/// A ClusterRole of these rules, and its binding to the account, both of the account's name.
fn granted(account: &str, rules: &[Value]) -> Vec<Value> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": account},
        "rules": rules,
    });
    vec![role, cluster_role_binding(account, account, account)]
}

/// kcp lets nobody into a workspace without this, whatever else he may do there.
fn access(account: &str) -> Value {
    cluster_role_binding(&format!("{account}-access"), "system:kcp:workspace:access", account)
}

/// The subject is the account's user name, which client certificates may carry too.
fn cluster_role_binding(name: &str, role: &str, account: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "User",
            "name": format!("system:serviceaccount:{NAMESPACE}:{account}"),
        }],
    })
}
