//! The API of DependencyRules: its CustomResourceDefinition, and its APIResourceSchema.

mod spec;
mod status;

use depguard_core::{Home, api};
use serde_json::{Value, json};

use super::with;

/// The CustomResourceDefinition of home kubernetes.
pub fn crd() -> Value {
    let version = with(version(), "schema", json!({"openAPIV3Schema": schema(Home::Kubernetes)}));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", api::PLURAL, api::GROUP)},
        "spec": {
            "group": api::GROUP,
            "names": names(),
            "scope": "Cluster",
            "versions": [version],
        },
    })
}

pub(super) fn api_resource_schema_spec() -> Value {
    let version = with(version(), "schema", schema(Home::Kcp));
    json!({"group": api::GROUP, "names": names(), "scope": "Cluster", "versions": [version]})
}

fn names() -> Value {
    json!({
        "plural": api::PLURAL,
        "singular": "dependencyrule",
        "kind": api::KIND,
        "listKind": format!("{}List", api::KIND),
        "shortNames": ["deprule"],
    })
}

/// A version, but for the schema, which stands a level deeper in a CustomResourceDefinition.
fn version() -> Value {
    let condition = |name: &str| format!(r#".status.conditions[?(@.type=="{name}")].status"#);
    // Of a path with several results only the first is printed, so the targets' names stand in the status as one text.
    json!({
        "name": api::VERSION,
        "served": true,
        "storage": true,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Dependent", "type": "string", "jsonPath": ".spec.dependent.resource"},
            {"name": "Targets", "type": "string", "jsonPath": ".status.summary"},
            {"name": "Ready", "type": "string", "jsonPath": condition("Enforced")},
            {"name": "Accepted", "type": "string", "priority": 1, "jsonPath": condition("Accepted")},
            {"name": "Resolved", "type": "string", "priority": 1, "jsonPath": condition("ResolvedRefs")},
            {"name": "Programmed", "type": "string", "priority": 1, "jsonPath": condition("Programmed")},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    })
}

fn schema(home: Home) -> Value {
    json!({
        "type": "object",
        "description": "DependencyRule says that one kind refers to others through its fields: a foreign key. \
            An object that is referred to can't be deleted.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "The version of this object's schema."},
            "kind": {"type": "string", "description": "DependencyRule."},
            "metadata": {"type": "object"},
            "spec": spec::spec(home),
            "status": status::status(),
        },
    })
}
