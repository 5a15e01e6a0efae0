//! Rights of the controller and of the webhook for GlobalOwners, in plain Kubernetes.

use serde_json::{Value, json};

use crate::manifests::NAMESPACE;
use crate::manifests::rbac::{CONTROLLER, WEBHOOK, allow, cluster_role, cluster_role_binding, granted, with};
use crate::owners::api::{AGGREGATE, GLOBAL_OWNERS, GROUP, GROUP_OWNERS};
use crate::owners::webhook;

/// Name of the ClusterRole that sums up the controller's rights to owned objects.
const OWNED: &str = "depguard-controller-owned";

/// Returns the rights for owners, beside those that both binaries have anyway. With `precreated_roles` the controller
/// makes no ClusterRoles and gets no right to make them: an operator grants the rights to owned objects, by
/// ClusterRoles with the label [`AGGREGATE`].
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
        with(configuration, "resourceNames", json!([webhook::NAME])),
    ];
    let account = |name: &str| json!({"kind": "ServiceAccount", "namespace": NAMESPACE, "name": name});
    let webhook = account(WEBHOOK);
    let account = account(CONTROLLER);
    let mut objects = granted(&format!("{CONTROLLER}-owners"), &account, &rules);
    // The webhook notes on a GlobalOwner that is being deleted that its objects are to stay.
    objects.extend(granted(&format!("{WEBHOOK}-owners"), &webhook, &[owners(&noted, &["patch"])]));
    if !precreated_roles {
        // The controller gives itself the rights that it lacks, resource by resource: this needs the verb `escalate`.
        let verbs = ["list", "create", "patch", "delete", "escalate"];
        let roles = allow("rbac.authorization.k8s.io", ["clusterroles"], &verbs);
        objects.extend(granted(&format!("{CONTROLLER}-owners-roles"), &account, &[roles]));
    }
    let sum = json!({"clusterRoleSelectors": [{"matchLabels": {AGGREGATE: "true"}}]});
    // The control plane fills in the rules of an aggregated role.
    objects.push(with(cluster_role(OWNED, None), "aggregationRule", sum));
    objects.push(cluster_role_binding(OWNED, OWNED, &account));
    objects
}
