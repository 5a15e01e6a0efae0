//! Rules for one provider of Crossplane, a template for others: examples/crossplane-provider.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::root;
use crate::suggest::suggest;
use crate::tool::{depguard, write};

const GROUP: &str = "aws.m.upbound.io";

fn folder() -> PathBuf {
    root().join("examples/crossplane-provider")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

/// Returns the template's rules.
fn rules() -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(&read("rules.yaml")).unwrap();
    documents.into_iter().filter(|document| document["kind"] == "DependencyRule").collect()
}

#[tokio::test]
async fn the_template_protects_the_configurations_of_any_provider() {
    let suite = folder().join("provider.test.yaml");
    depguard(&["test", "-f", suite.to_str().unwrap()]).await.well();
    let clean = depguard(&["lint", "-f", folder().join("rules.yaml").to_str().unwrap()]).await.well();
    assert!(!clean.contains("warning "), "{clean}");

    // What the comment of the file says to do for another provider.
    let [replaced, suite] = ["rules.yaml", "provider.test.yaml"]
        .map(|name| read(name).replace(GROUP, "kubernetes.m.crossplane.io").replace("v1beta1", "v1alpha1"));
    let other = tempfile::tempdir().unwrap();
    write(other.path(), "rules.yaml", &replaced);
    let suite = write(other.path(), "provider.test.yaml", &suite);
    depguard(&["test", "-f", suite.to_str().unwrap()]).await.well();
}

/// Returns a definition of the provider with these fields.
fn definition(kind: &str, fields: Value) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let mut schema = json!({"openAPIV3Schema": {"type": "object"}});
    schema["openAPIV3Schema"]["properties"] = fields;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

#[tokio::test]
async fn suggest_proposes_the_references_of_the_template() {
    let text = json!({"type": "string"});
    let object = |fields: &[&str]| {
        let fields: serde_json::Map<_, _> = fields.iter().map(|field| ((*field).to_owned(), text.clone())).collect();
        json!({"type": "object", "properties": fields})
    };
    let secret = object(&["key", "name", "namespace"]);
    let credentials = json!({"type": "object", "properties": {"source": text, "secretRef": secret}});
    let spec = json!({"spec": {"type": "object", "properties": {"credentials": credentials}}});
    let usage = json!({
        "providerConfigRef": object(&["kind", "name"]), "resourceRef": object(&["apiVersion", "kind", "name", "uid"]),
    });
    let documents = [
        definition("ProviderConfig", spec.clone()),
        definition("ClusterProviderConfig", spec),
        definition("ProviderConfigUsage", usage),
    ];
    let (_, out, err) = suggest(&documents, &["-o", "json"]).await;
    let printed: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {err}"));
    let of_rule = |rule: &Value| {
        let dependent = rule["spec"]["dependent"]["kind"].clone();
        let dependencies = rule["spec"]["dependencies"].as_array().unwrap().iter();
        let reference = |to: &Value| {
            [&dependent, &to["kind"], &to["fieldRef"]["path"]].map(|part| part.as_str().unwrap().to_owned())
        };
        dependencies.map(reference).collect::<Vec<_>>()
    };
    let proposed = printed["proposals"].as_array().unwrap().iter();
    let proposed: BTreeSet<_> = proposed
        .filter(|proposal| proposal.get("rule").is_some())
        .flat_map(|proposal| of_rule(&proposal["rule"]))
        .collect();
    let template: BTreeSet<_> = rules().iter().flat_map(of_rule).collect();
    let missing: Vec<_> = template.difference(&proposed).collect();
    assert!(missing.iter().all(|[_, target, _]| target == "ClusterProviderConfig"), "{missing:?} of {proposed:?}");
}
