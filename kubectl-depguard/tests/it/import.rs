//! `import`: rules from PublishedResources.

mod agent;
mod command;
mod decisions;
mod documented;
mod living;
mod shapes;

use serde_json::{Value, json};

use crate::tool::{Ran, depguard, write};

pub(crate) const SYNC_AGENT: &str = "syncagent.kcp.io/v1alpha1";
pub(crate) const SERVLET: &str = "services.kdp.k8c.io/v1alpha1";

/// Returns a PublishedResource of parcels with these fields.
pub(crate) fn published(api: &str, name: &str, fields: &Value) -> Value {
    let mut spec = json!({"resource": {"apiGroup": "post.example.com", "kind": "Parcel", "version": "v1"}});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"apiVersion": api, "kind": "PublishedResource", "metadata": {"name": name}, "spec": spec})
}

/// Returns the definition of the published kind on the service cluster.
pub(crate) fn parcels() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "parcels.post.example.com"},
        "spec": {
            "group": "post.example.com", "scope": "Namespaced",
            "names": {"kind": "Parcel", "plural": "parcels", "singular": "parcel", "listKind": "ParcelList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }}}],
        },
    })
}

/// Runs the command on these documents.
pub(crate) async fn import(documents: &[Value], args: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "published.json", &json!({"kind": "List", "items": documents}).to_string());
    depguard(&[&["import", "published-resource", "-f", file.to_str().unwrap()], args].concat()).await
}

/// Runs the command on these documents, and returns the rules and the report from its JSON.
pub(crate) async fn imported(documents: &[Value], args: &[&str]) -> (Vec<Value>, Vec<Value>) {
    let ran = import(documents, &[args, &["-o", "json"]].concat()).await;
    let mut json: Value = serde_json::from_str(&ran.out).unwrap_or_else(|why| panic!("{why}: {ran:?}"));
    let mut list = |field: &str| json[field].as_array_mut().map(std::mem::take).unwrap();
    (list("rules"), list("report"))
}
