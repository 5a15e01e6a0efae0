//! Kind of the older tool's Locks.

use serde_json::Value;

use crate::manifests::definition::{Definition, object_schema};

/// Returns the CustomResourceDefinition of `kotas.tech/v1` Locks. A Lock has no spec; it locks the object of its own
/// name and namespace, of any guarded kind.
pub fn compat_crd() -> Value {
    let description = "Lock locks the objects of the protected kinds that have its own name and namespace.";
    let definition = Definition {
        group: "kotas.tech",
        version: "v1",
        kind: "Lock",
        plural: "locks",
        short: Some("l"),
        scope: "Namespaced",
        columns: Vec::new(),
        subresources: None,
        schema: object_schema("Lock", description, &[], &[]),
    };
    definition.crd()
}
