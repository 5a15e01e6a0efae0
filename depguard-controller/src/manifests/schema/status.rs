//! What the controller writes into a rule's status.

use serde_json::{Value, json};

use crate::manifests::definition::status_schema;

pub(super) fn status() -> Value {
    let own = json!({
        "summary": {"type": "string", "description": "The resources of the targets, for a column."},
        "targets": {
            "type": "array",
            "description": "Where each dependency was found, and how its dependents are looked for.",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["dependency"],
            "items": target(),
        },
    });
    let conditions = "Accepted, ResolvedRefs, Programmed and Enforced.";
    status_schema("What the controller made of the rule.", conditions, own)
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
