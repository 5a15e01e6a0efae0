//! Workspaces, exports, bindings and objects for the tests.

use serde_json::{Value, json};

use crate::bed::{Bed, becomes};
use crate::client::Client;

pub(crate) const WORKSPACES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
pub(crate) const SCHEMAS: &str = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";
pub(crate) const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";
pub(crate) const SLICES: &str = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
pub(crate) const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";
pub(crate) const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Creates a workspace below `parent` and returns its logical cluster.
pub(crate) async fn workspace(bed: &Bed, parent: &str, name: &str) -> String {
    let parent = bed.admin.cluster(parent);
    let object = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
    parent.create(WORKSPACES, &object).await.ok();
    let ready = becomes(&parent, &format!("{WORKSPACES}/{name}"), |found| found["status"]["phase"] == "Ready").await;
    ready["spec"]["cluster"].as_str().unwrap().to_owned()
}

/// Returns the `names` of a kind.
pub(crate) fn names(kind: &str, plural: &str) -> Value {
    json!({"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()})
}

/// Returns a version whose schema keeps all fields of `spec` and that has a status.
pub(crate) fn version(name: &str, storage: bool) -> Value {
    json!({
        "name": name, "served": true, "storage": storage,
        "subresources": {"status": {}},
        "schema": {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
        },
    })
}

/// Returns an APIResourceSchema with one version, `v1alpha1`.
pub(crate) fn schema(group: &str, kind: &str, plural: &str, scope: &str) -> Value {
    json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
        "metadata": {"name": format!("v1.{plural}.{group}")},
        "spec": {"group": group, "names": names(kind, plural), "scope": scope, "versions": [version("v1alpha1", true)]},
    })
}

/// Returns an APIExport of the schemas.
pub(crate) fn export(name: &str, schemas: &[Value], claims: &Value) -> Value {
    let resources: Vec<Value> = schemas
        .iter()
        .map(|schema| {
            json!({
                "group": schema["spec"]["group"], "name": schema["spec"]["names"]["plural"],
                "schema": schema["metadata"]["name"], "storage": {"crd": {}},
            })
        })
        .collect();
    json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": name},
        "spec": {"resources": resources, "permissionClaims": claims},
    })
}

/// Creates the schemas and their export in a workspace.
pub(crate) async fn provide(workspace: &Client, name: &str, schemas: &[Value], claims: &Value) {
    for schema in schemas {
        workspace.create(SCHEMAS, schema).await.ok();
    }
    workspace.create(EXPORTS, &export(name, schemas, claims)).await.ok();
}

pub(crate) fn binding(name: &str, path: &str, export: &str, claims: &Value) -> Value {
    json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": name},
        "spec": {"reference": {"export": {"path": path, "name": export}}, "permissionClaims": claims},
    })
}

/// Binds an export and waits until it is bound.
pub(crate) async fn bind(workspace: &Client, name: &str, path: &str, export: &str, claims: &Value) -> Value {
    workspace.create(BINDINGS, &binding(name, path, export, claims)).await.ok();
    becomes(workspace, &format!("{BINDINGS}/{name}"), |found| found["status"]["phase"] == "Bound").await
}

pub(crate) fn claim(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"group": group, "resource": resource, "verbs": verbs, "selector": {"matchAll": true}})
}

pub(crate) fn accepted(group: &str, resource: &str, verbs: &[&str]) -> Value {
    let mut claim = claim(group, resource, verbs);
    claim["state"] = json!("Accepted");
    claim
}

pub(crate) const NETWORK: &str = "network.example.com";
pub(crate) const VPCS: &str = "/apis/network.example.com/v1alpha1/namespaces/default/vpcs";

pub(crate) fn vpc(name: &str) -> Value {
    json!({
        "apiVersion": "network.example.com/v1alpha1", "kind": "VPC", "metadata": {"name": name}, "spec": {"cidr": "10.0.0.0/8"},
    })
}

/// Provider `root:network` of VPCs, and a consumer `root:tenant` that has bound them.
pub(crate) struct Network {
    pub(crate) provider: Client,
    pub(crate) provider_cluster: String,
    pub(crate) tenant: Client,
    pub(crate) tenant_cluster: String,
}

impl Network {
    pub(crate) async fn set_up(bed: &Bed) -> Self {
        let provider_cluster = workspace(bed, "root", "network").await;
        let tenant_cluster = workspace(bed, "root", "tenant").await;
        let provider = bed.admin.cluster("root:network");
        let tenant = bed.admin.cluster("root:tenant");
        provide(&provider, NETWORK, &[schema(NETWORK, "VPC", "vpcs", "Namespaced")], &json!([])).await;
        bind(&tenant, "network", "root:network", NETWORK, &json!([])).await;
        Self { provider, provider_cluster, tenant, tenant_cluster }
    }
}
