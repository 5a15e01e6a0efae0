//! Paths at which an API server keeps objects, and their names as kubectl prints them.

use depguard_core::api;
use depguard_core::model::percent_encode;
use serde_json::Value;

/// Kind of an object that `install` creates.
struct InstalledKind {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
}

const fn known(group: &'static str, kind: &'static str, plural: &'static str, namespaced: bool) -> InstalledKind {
    InstalledKind { group, kind, plural, namespaced }
}

const KINDS: [InstalledKind; 21] = [
    known("", "Namespace", "namespaces", false),
    known("", "ServiceAccount", "serviceaccounts", true),
    known("", "ConfigMap", "configmaps", true),
    known("", "Secret", "secrets", true),
    known("", "Service", "services", true),
    known("apps", "Deployment", "deployments", true),
    known("policy", "PodDisruptionBudget", "poddisruptionbudgets", true),
    known("networking.k8s.io", "NetworkPolicy", "networkpolicies", true),
    known("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false),
    known("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", false),
    known("rbac.authorization.k8s.io", "Role", "roles", true),
    known("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", true),
    known("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false),
    known("coordination.k8s.io", "Lease", "leases", true),
    known("cert-manager.io", "Issuer", "issuers", true),
    known("cert-manager.io", "Certificate", "certificates", true),
    known(api::GROUP, api::KIND, api::PLURAL, false),
    known("tenancy.kcp.io", "Workspace", "workspaces", false),
    known("apis.kcp.io", "APIResourceSchema", "apiresourceschemas", false),
    known("apis.kcp.io", "APIExport", "apiexports", false),
    known("apis.kcp.io", "APIBinding", "apibindings", false),
];

/// Returns the path of an object's own URL; `None` if `install` creates no objects of the kind.
pub(crate) fn path(object: &Value) -> Option<String> {
    let version = text(object, "/apiVersion");
    let known = installed_kind(object)?;
    let root = if known.group.is_empty() { format!("/api/{version}") } else { format!("/apis/{version}") };
    let namespace = match known.namespaced {
        true => format!("/namespaces/{}", percent_encode(text(object, "/metadata/namespace"))),
        false => String::new(),
    };
    Some(format!("{root}{namespace}/{}/{}", known.plural, percent_encode(text(object, "/metadata/name"))))
}

/// Returns the object's name as kubectl prints it: `deployment.apps/depguard-webhook`.
pub(crate) fn shown(object: &Value) -> String {
    let (kind, group) = (text(object, "/kind").to_lowercase(), group_of(object));
    let dot = if group.is_empty() { "" } else { "." };
    format!("{kind}{dot}{group}/{}", text(object, "/metadata/name"))
}

/// Returns the namespace that an object is in.
pub(crate) fn namespace(object: &Value) -> Option<&str> {
    installed_kind(object).filter(|known| known.namespaced)?;
    object.pointer("/metadata/namespace")?.as_str()
}

pub(crate) fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn installed_kind(object: &Value) -> Option<&'static InstalledKind> {
    let (kind, group) = (text(object, "/kind"), group_of(object));
    KINDS.iter().find(|known| known.kind == kind && known.group == group)
}

fn group_of(object: &Value) -> &str {
    text(object, "/apiVersion").split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_has_a_path_and_a_name_for_people() {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "a:b/c", "namespace": "n"}});
        assert_eq!(path(&role).unwrap(), "/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles/a:b%2Fc");
        assert_eq!(shown(&role), "role.rbac.authorization.k8s.io/a:b/c");
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
        assert_eq!(path(&namespace).unwrap(), "/api/v1/namespaces/n");
        assert_eq!(shown(&namespace), "namespace/n");
        assert_eq!(path(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})), None);
    }
}
