//! The schema of a DependencyRule.
//!
//! What the reference API accepts is accepted; beyond it are workspace names that begin with a digit, field paths of one
//! name, the core group, and local kinds, which leave the export fields out.

use depguard_core::api;
use serde_json::{Value, json};

use super::with;

const NAME: &str = r"^[a-z]([-a-z0-9]*[a-z0-9])?(\.[a-z]([-a-z0-9]*[a-z0-9])?)*$";
const NAME_OR_CORE: &str = r"^([a-z]([-a-z0-9]*[a-z0-9])?(\.[a-z]([-a-z0-9]*[a-z0-9])?)*)?$";
const WORKSPACE_PATH: &str = r"^[a-z0-9][a-z0-9-]*(:[a-z0-9][a-z0-9-]*)*$";
const VERSION: &str = r"^v[1-9][0-9]*([a-z]+[1-9][0-9]*)?$";
const KIND: &str = r"^[A-Z][A-Za-z0-9]*$";
const RESOURCE: &str = r"^[a-z][a-z0-9]*$";
const FIELD_PATH: &str = r"^\.?[a-zA-Z_][a-zA-Z0-9_]*(\.[a-zA-Z_][a-zA-Z0-9_]*)*$";

/// The CustomResourceDefinition of home kubernetes.
pub fn crd() -> Value {
    let version = with(version(), "schema", json!({"openAPIV3Schema": schema()}));
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
    let version = with(version(), "schema", schema());
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
    json!({
        "name": api::VERSION,
        "served": true,
        "storage": true,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Dependent", "type": "string", "jsonPath": ".spec.dependent.kind"},
            {"name": "Accepted", "type": "string", "jsonPath": condition("Accepted")},
            {"name": "Resolved", "type": "string", "jsonPath": condition("ResolvedRefs")},
            {"name": "Programmed", "type": "string", "jsonPath": condition("Programmed")},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    })
}

fn schema() -> Value {
    json!({
        "type": "object",
        "description": "DependencyRule says that one kind refers to others through its fields: a foreign key. \
            An object that is referred to can't be deleted.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "The version of this object's schema."},
            "kind": {"type": "string", "description": "DependencyRule."},
            "metadata": {"type": "object"},
            "spec": spec(),
            "status": status(),
        },
    })
}

fn spec() -> Value {
    json!({
        "type": "object",
        "description": "One kind of dependent and what it refers to.",
        "required": ["dependent", "dependencies"],
        "properties": {
            "dependent": dependent(),
            "dependencies": {
                "type": "array",
                "description": "What the dependent refers to, one entry a field.",
                "items": dependency(),
            },
        },
    })
}

fn dependent() -> Value {
    json!({
        "type": "object",
        "description": "The kind that holds the references.",
        "required": ["group", "version", "kind", "resource"],
        "properties": {
            "apiExportName": string(1, 253, NAME,
                "The APIExport, in this rule's own workspace, that serves the kind. Left out: a kind of this \
                workspace or cluster itself."),
            // Not pruned, so that a rule of the older form is refused and never taken for a local one.
            "apiExportRef": {
                "type": "object",
                "description": "What older rules held instead of apiExportName; no longer accepted.",
                "properties": {"path": {"type": "string"}, "name": {"type": "string"}},
            },
            "group": string(0, 253, NAME_OR_CORE, "The API group; empty for the core group."),
            "version": string(1, 63, VERSION, "The version in which dependents are read."),
            "kind": string(1, 63, KIND, "The kind, for messages."),
            "resource": string(1, 63, RESOURCE, "The resource, plural."),
        },
        "x-kubernetes-validations": [
            {
                "rule": "!has(self.apiExportRef)",
                "message": "apiExportRef was replaced: write the export's name in apiExportName (it stands in the \
                    rule's own workspace, so it has no path)",
            },
            {
                "rule": "!has(self.apiExportName) || self.group != ''",
                "message": "the core group is always local: name a group or leave apiExportName out",
            },
        ],
    })
}

fn dependency() -> Value {
    json!({
        "type": "object",
        "description": "One field of the dependent, and the kind that it refers to.",
        "required": ["group", "version", "resource", "fieldRef"],
        "properties": {
            "apiExportRef": {
                "type": "object",
                "description": "The APIExport that serves the target. Left out: a kind of this workspace or cluster \
                    itself.",
                "required": ["path", "name"],
                "properties": {
                    "path": string(1, 253, WORKSPACE_PATH, "The provider's workspace path."),
                    "name": string(1, 253, NAME, "The APIExport's name."),
                },
            },
            "group": string(0, 253, NAME_OR_CORE, "The API group; empty for the core group."),
            "version": string(1, 63, VERSION, "A served version; the target is protected in all of them."),
            "resource": string(1, 63, RESOURCE, "The resource, plural."),
            "fieldRef": {
                "type": "object",
                "description": "The field of the dependent that names the target.",
                "required": ["path"],
                "properties": {
                    "path": string(1, 253, FIELD_PATH, "The path of the field, such as .spec.vpcRef.name."),
                },
            },
        },
        "x-kubernetes-validations": [{
            "rule": "!has(self.apiExportRef) || self.group != ''",
            "message": "the core group is always local: name a group or leave apiExportRef out",
        }],
    })
}

fn status() -> Value {
    json!({
        "type": "object",
        "description": "What the controller made of the rule.",
        "properties": {
            "observedGeneration": {
                "type": "integer",
                "format": "int64",
                "description": "The generation that the status speaks of.",
            },
            "conditions": {
                "type": "array",
                "description": "Accepted, ResolvedRefs and Programmed.",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": condition(),
            },
            "targets": {
                "type": "array",
                "description": "Where each dependency was found.",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["dependency"],
                "items": {
                    "type": "object",
                    "required": ["dependency"],
                    "properties": {
                        "dependency": {
                            "type": "integer",
                            "format": "int32",
                            "description": "The index in spec.dependencies.",
                        },
                        "workspace": {"type": "string", "description": "The provider's workspace path."},
                        "logicalCluster": {"type": "string", "description": "The provider's logical cluster."},
                    },
                },
            },
        },
    })
}

/// `metav1.Condition`, with its limits.
fn condition() -> Value {
    json!({
        "type": "object",
        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": {
            "type": {"type": "string", "maxLength": 316},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
            "message": {"type": "string", "maxLength": 32768},
        },
    })
}

fn string(min: u32, max: u32, pattern: &str, description: &str) -> Value {
    let schema = json!({"type": "string", "maxLength": max, "pattern": pattern, "description": description});
    if min == 0 { schema } else { with(schema, "minLength", json!(min)) }
}
