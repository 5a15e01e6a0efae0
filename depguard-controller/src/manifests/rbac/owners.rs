//! What the controller and the webhook may do for GlobalOwners, in home kubernetes.

use serde_json::{Value, json};

use super::{CONTROLLER, WEBHOOK, allow, cluster_role, cluster_role_binding, granted, with};
use crate::manifests::NAMESPACE;
use crate::owners::api::{AGGREGATE, GLOBAL_OWNERS, GROUP, GROUP_OWNERS};
use crate::owners::guard;

/// The sum of what it may do with owned objects.
const OWNED: &str = "depguard-controller-owned";

/// The rights beside those that the controller has anyway. With `precreated_roles` it makes no ClusterRoles, and needs
/// none of the rights to: then an operator gives it those on the objects to own, by ClusterRoles with the label
/// [`AGGREGATE`].
pub(crate) fn owner_rights(precreated_roles: bool) -> Vec<Value> {
    let owners = |names: &[String], verbs: &[&str]| allow(GROUP, names.to_vec(), verbs);
    let [global, group] = [GLOBAL_OWNERS, GROUP_OWNERS].map(|names| names.plural.to_owned());
    let status = [&global, &group].map(|plural| format!("{plural}/status"));
    let configuration = allow(
        "admissionregistration.k8s.io",
        ["validatingwebhookconfigurations"],
        &["get", "list", "watch", "update", "patch", "delete"],
    );
    let noted = [global.clone()];
    let rules = [
        owners(&[global], &["get", "list", "watch", "patch"]),
        owners(&[group], &["list", "watch", "create", "patch", "delete"]),
        owners(&status, &["update"]),
        with(configuration, "resourceNames", json!([guard::NAME])),
    ];
    let account = |name: &str| json!({"kind": "ServiceAccount", "namespace": NAMESPACE, "name": name});
    let webhook = account(WEBHOOK);
    let account = account(CONTROLLER);
    let mut objects = granted(&format!("{CONTROLLER}-owners"), &account, &rules);
    // It notes on one that is deleted that its objects are to stay.
    objects.extend(granted(&format!("{WEBHOOK}-owners"), &webhook, &[owners(&noted, &["patch"])]));
    if !precreated_roles {
        // It gives itself rights that it lacks, one resource after the other: that is what `escalate` is for.
        let verbs = ["list", "create", "patch", "delete", "escalate"];
        let roles = allow("rbac.authorization.k8s.io", ["clusterroles"], &verbs);
        objects.extend(granted(&format!("{CONTROLLER}-owners-roles"), &account, &[roles]));
    }
    let sum = json!({"clusterRoleSelectors": [{"matchLabels": {AGGREGATE: "true"}}]});
    // Its rules are the control plane's to fill in.
    objects.push(with(cluster_role(OWNED, None), "aggregationRule", sum));
    objects.push(cluster_role_binding(OWNED, OWNED, &account));
    objects
}
