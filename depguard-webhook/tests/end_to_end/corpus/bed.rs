//! API server of the corpus: serves its kinds; with functions to write objects.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use depguard_core::ControlPlane;
use depguard_kcp::{ConnectOptions, Connection, Endpoint};
use depguard_testbed::Testbed;
use serde_json::{Value, json};

use super::case::Kind;

pub(crate) const OURS: &str = "dependencies.opendefense.cloud";
pub(crate) const DEP_CTRL: &str = "root:dep-ctrl";
/// Path of the consumer's workspace, which exports all kinds, binds them, and has the objects and the rules.
pub(crate) const CONSUMER: &str = "root:consumer";

/// Creates an object, or replaces the one that is there.
pub(crate) async fn put(endpoint: &Endpoint, collection: &str, path: &str, object: &Value) {
    let mut object = object.clone();
    match endpoint.get_json(path).await {
        Ok(there) => {
            object["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
            endpoint.put_json(path, &object).await.unwrap();
        }
        Err(_) => drop(endpoint.post_json(collection, &object).await.unwrap_or_else(|why| panic!("{object}: {why}"))),
    }
}

pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..1000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    panic!("never: {what}");
}

/// Returns the kinds that are not compiled in, and the kind of rules.
fn defined(kinds: &BTreeMap<String, Kind>) -> impl Iterator<Item = (String, Kind, &'static str)> {
    let rules =
        Kind { group: OURS.to_owned(), resource: "dependencyrules".to_owned(), namespaced: false, served: true };
    let others = kinds.iter().filter(|(_, kind)| !kind.group.is_empty() && kind.served);
    let others = others.map(|(name, kind)| (name.clone(), kind.clone(), "v1"));
    others.chain([("DependencyRule".to_owned(), rules, "v1alpha1")])
}

fn definition(name: &str, kind: &Kind, version: &str, in_crd: bool) -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = if in_crd { json!({"openAPIV3Schema": anything}) } else { anything };
    json!({
        "group": kind.group, "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "names": {"kind": name, "listKind": format!("{name}List"), "plural": kind.resource, "singular": name.to_lowercase()},
        "versions": [{"name": version, "served": true, "storage": true, "schema": schema}],
    })
}

pub(crate) async fn define(cluster: &Endpoint, kinds: &BTreeMap<String, Kind>) {
    for (name, kind, version) in defined(kinds) {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", kind.resource, kind.group)},
            "spec": definition(&name, &kind, version, true),
        });
        cluster.post_json("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await.unwrap();
        let served = format!("/apis/{}/{version}/{}", kind.group, kind.resource);
        until(&served, async || cluster.get_json(&served).await.is_ok()).await;
    }
}

/// Exports each group from its workspace, and binds it in the consumer's workspace.
pub(crate) async fn export_and_bind(root: &Connection, kinds: &BTreeMap<String, Kind>) {
    for name in ["dep-ctrl", "consumer"] {
        let workspace =
            json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
        root.own_endpoint().post_json("/apis/tenancy.kcp.io/v1alpha1/workspaces", &workspace).await.unwrap();
    }
    let [dep_ctrl, consumer] = [DEP_CTRL, CONSUMER].map(|path| root.workspace(&path.parse().unwrap()));
    let mut exports: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (name, kind, version) in defined(kinds) {
        let schema = json!({
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
            "metadata": {"name": format!("v1.{}.{}", kind.resource, kind.group)},
            "spec": definition(&name, &kind, version, false),
        });
        let at = if kind.group == OURS { &dep_ctrl } else { &consumer };
        let schemas = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";
        until("a workspace takes schemas", async || at.post_json(schemas, &schema).await.is_ok()).await;
        let resource = json!({
            "group": kind.group, "name": kind.resource, "schema": schema["metadata"]["name"], "storage": {"crd": {}},
        });
        exports.entry(kind.group).or_default().push(resource);
    }
    for (group, resources) in exports {
        let (at, path) = if group == OURS { (&dep_ctrl, DEP_CTRL) } else { (&consumer, CONSUMER) };
        let export = json!({
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": group},
            "spec": {"resources": resources},
        });
        at.post_json("/apis/apis.kcp.io/v1alpha2/apiexports", &export).await.unwrap();
        let binding = json!({
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": group},
            "spec": {"reference": {"export": {"path": path, "name": group}}},
        });
        let bindings = "/apis/apis.kcp.io/v1alpha2/apibindings";
        consumer.post_json(bindings, &binding).await.unwrap();
        let bound = format!("{bindings}/{group}");
        let is_bound = async || consumer.get_json(&bound).await.is_ok_and(|found| found["status"]["phase"] == "Bound");
        until(&bound, is_bound).await;
    }
}

pub(crate) async fn connect(testbed: &Testbed, folder: &Path, cluster: &str, user: &str) -> Connection {
    let control_plane = if cluster.is_empty() { ControlPlane::Kubernetes } else { ControlPlane::Kcp };
    let kubeconfig = Some(kubeconfig(testbed, folder, cluster, user));
    Connection::open(&ConnectOptions::new(control_plane).kubeconfig(kubeconfig)).await.unwrap()
}

pub(crate) fn kubeconfig(testbed: &Testbed, folder: &Path, cluster: &str, user: &str) -> std::path::PathBuf {
    let file = folder.join(format!("{}-{user}.kubeconfig", cluster.replace(':', "-")));
    std::fs::write(&file, testbed.kubeconfig(cluster, user)).unwrap();
    file
}
