//! Workspaces, exports and bindings of a scene.

use std::path::Path;

use depguard_core::ControlPlane;
use depguard_kcp::{ConnectOptions, Connection, Endpoint, Preconditions};
use depguard_testbed::Testbed;
use serde_json::{Value, json};

use super::{BINDINGS, Described, EXPORTS, OURS, RULE, RULES, VM, VMS, VPC, VPCS, eventually};

pub(super) async fn in_workspaces(testbed: &Testbed, folder: &Path) -> [Endpoint; 3] {
    let root = connect(testbed, folder, "root", "admin").await.own_endpoint();
    for name in ["dep-ctrl", "network", "compute", "tenant"] {
        make_workspace(&root, name).await;
    }
    let at = async |name: &str| connect(testbed, folder, &format!("root:{name}"), "admin").await.own_endpoint();
    let (dep_ctrl, network, compute, tenant) =
        (at("dep-ctrl").await, at("network").await, at("compute").await, at("tenant").await);
    export(&dep_ctrl, RULE).await;
    export(&network, VPC).await;
    export(&compute, VM).await;
    for provider in [&network, &compute] {
        bind(provider, "root:dep-ctrl", OURS).await;
    }
    bind(&tenant, "root:network", VPC[0]).await;
    bind(&tenant, "root:compute", VM[0]).await;
    for (endpoint, path) in [(&compute, RULES), (&tenant, VPCS), (&tenant, VMS)] {
        eventually(path, async || endpoint.get_json(path).await.is_ok()).await;
    }
    [compute, network, tenant]
}

pub(super) async fn make_workspace(root: &Endpoint, name: &str) {
    let workspaces = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
    let object = json!({
        "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
        "spec": {"location": {"selector": {"matchLabels": {"name": name}}}},
    });
    root.post_json(workspaces, &object).await.unwrap();
    let path = format!("{workspaces}/{name}");
    eventually(name, async || root.get_json(&path).await.is_ok_and(|w| w["status"]["phase"] == "Ready")).await;
}

pub(super) async fn in_one_cluster(testbed: &Testbed, folder: &Path) -> [Endpoint; 3] {
    let cluster = connect(testbed, folder, "", "admin").await.own_endpoint();
    for [group, version, kind, plural, scope] in [RULE, VPC, VM] {
        let mut served = versioned(version);
        served["schema"] = json!({"openAPIV3Schema": served["schema"]});
        let object = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "names": names(kind, plural), "scope": scope, "versions": [served]},
        });
        cluster.post_json("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &object).await.unwrap();
    }
    for path in [RULES, VPCS, VMS] {
        eventually(path, async || cluster.get_json(path).await.is_ok()).await;
    }
    [cluster.clone(), cluster.clone(), cluster]
}

pub(super) async fn export(workspace: &Endpoint, [group, version, kind, plural, scope]: Described) {
    let schema = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
        "metadata": {"name": format!("v1.{plural}.{group}")},
        "spec": {"group": group, "names": names(kind, plural), "scope": scope, "versions": [versioned(version)]},
    });
    workspace.post_json("/apis/apis.kcp.io/v1alpha1/apiresourceschemas", &schema).await.unwrap();
    let resource = json!({
        "group": group, "name": plural, "schema": schema["metadata"]["name"], "storage": {"crd": {}},
    });
    let export = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": group},
        "spec": {"resources": [resource]},
    });
    workspace.post_json(EXPORTS, &export).await.unwrap();
}

/// Binds depguard in a workspace that claims to be at `path`.
pub(super) async fn bind_forged(workspace: &Endpoint, path: &str) {
    let itself = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";
    let mut forged = workspace.get_json(itself).await.unwrap();
    forged["metadata"]["annotations"]["kcp.io/path"] = json!(path);
    workspace.put_json(itself, &forged).await.unwrap();
    bind(workspace, "root:dep-ctrl", OURS).await;
    let binding = workspace.get_json(&format!("{BINDINGS}/{OURS}")).await.unwrap();
    assert_eq!(binding["metadata"]["annotations"]["kcp.io/path"], path);
}

/// Deletes the workspace's binding of depguard.
pub(super) async fn unbind(workspace: &Endpoint) {
    let path = format!("{BINDINGS}/{OURS}");
    workspace.delete(&path, Preconditions::default()).await.unwrap();
    eventually("unbound", async || workspace.get_json(&path).await.is_err()).await;
}

pub(super) async fn bind(workspace: &Endpoint, path: &str, export: &str) {
    bind_accepting(workspace, path, export, &[]).await;
}

async fn bind_accepting(workspace: &Endpoint, path: &str, export: &str, claims: &[Value]) {
    let binding = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": export},
        "spec": {"reference": {"export": {"path": path, "name": export}}, "permissionClaims": claims},
    });
    workspace.post_json(BINDINGS, &binding).await.unwrap();
    let path = format!("{BINDINGS}/{export}");
    eventually(export, async || workspace.get_json(&path).await.is_ok_and(|b| b["status"]["phase"] == "Bound")).await;
}

/// Binds depguard, and lets it see APIExports.
pub(super) async fn bind_showing_exports(workspace: &Endpoint) {
    let mut claim = exports_claim();
    claim["selector"] = json!({"matchAll": true});
    claim["state"] = json!("Accepted");
    bind_accepting(workspace, "root:dep-ctrl", OURS, &[claim]).await;
}

/// Returns the claim by which depguard asks to see APIExports.
pub(super) fn exports_claim() -> Value {
    json!({"group": "apis.kcp.io", "resource": "apiexports", "verbs": ["get", "list", "watch"]})
}

fn names(kind: &str, plural: &str) -> Value {
    json!({"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()})
}

fn versioned(name: &str) -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "name": name, "served": true, "storage": true,
        "schema": {"type": "object", "properties": {"spec": anything}},
    })
}

pub(super) async fn connect(testbed: &Testbed, folder: &Path, cluster: &str, user: &str) -> Connection {
    let control_plane = if cluster.is_empty() { ControlPlane::Kubernetes } else { ControlPlane::Kcp };
    let kubeconfig = Some(write_kubeconfig(testbed, folder, cluster, user));
    Connection::open(&ConnectOptions::new(control_plane).kubeconfig(kubeconfig)).await.unwrap()
}

pub(super) fn write_kubeconfig(testbed: &Testbed, folder: &Path, cluster: &str, user: &str) -> std::path::PathBuf {
    let file = folder.join(format!("{}-{user}.kubeconfig", cluster.replace(':', "-")));
    std::fs::write(&file, testbed.kubeconfig(cluster, user)).unwrap();
    file
}
