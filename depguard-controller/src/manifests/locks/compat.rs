//! The kind of the older tool.

use serde_json::{Value, json};

use crate::manifests::definition::{Definition, object_schema};

/// The CustomResourceDefinition of `kotas.tech/v1` Locks: a Lock without a spec locks the object of its own name and
/// namespace, of whichever guarded kind.
pub fn compat_crd() -> Value {
    let description = "Lock locks the object of its own name and namespace, of each guarded kind.";
    let definition = Definition {
        group: "kotas.tech",
        version: "v1",
        kind: "Lock",
        plural: "locks",
        short: None,
        scope: "Namespaced",
        columns: Vec::new(),
        subresources: None,
        schema: object_schema("Lock", description, &[], json!({})),
    };
    definition.crd()
}
