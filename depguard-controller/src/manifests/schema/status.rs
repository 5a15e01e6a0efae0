//! What the controller writes.

use serde_json::{Value, json};

pub(super) fn status() -> Value {
    json!({
        "type": "object",
        "description": "What the controller made of the rule.",
        "properties": {
            "observedGeneration": {
                "type": "integer",
                "format": "int64",
                "description": "The generation that the status speaks of.",
            },
            "summary": {"type": "string", "description": "The resources of the targets, for a column."},
            "conditions": {
                "type": "array",
                "description": "Accepted, ResolvedRefs, Programmed and Enforced.",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": condition(),
            },
            "targets": {
                "type": "array",
                "description": "Where each dependency was found, and how its dependents are looked for.",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["dependency"],
                "items": target(),
            },
        },
    })
}

fn target() -> Value {
    json!({
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
            "lookup": {
                "type": "string",
                "enum": ["FieldSelector", "Table", "Metadata", "NamespaceScan", "ClusterScan"],
                "description": "The cheapest way to find the dependents that their schema allows: by a selectable \
                    field, by what the API server prints of them, by their metadata alone, or by reading all of a \
                    namespace, or all.",
            },
            "hint": {"type": "string", "description": "What to add to the dependents' schema to make that cheaper."},
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
