//! A kind, as API servers are told of it: by a CustomResourceDefinition, or by an APIResourceSchema and an APIExport.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::with;

/// A kind in its one version.
pub(super) struct Definition {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) short: Option<&'static str>,
    pub(super) scope: &'static str,
    /// What is printed of its objects; their age goes without saying.
    pub(super) columns: Vec<Value>,
    /// `None`: nothing is said of them, which is the same as that there are none.
    pub(super) subresources: Option<Value>,
    pub(super) schema: Value,
}

impl Definition {
    pub(super) fn crd(&self) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, self.group)},
            // The schema stands a level deeper here than in an APIResourceSchema.
            "spec": self.spec(&json!({"openAPIV3Schema": self.schema})),
        })
    }

    /// Its name holds a hash of its content, since a schema can't be changed once it is used.
    pub(super) fn api_resource_schema(&self) -> Value {
        let spec = self.spec(&self.schema);
        json!({
            "apiVersion": "apis.kcp.io/v1alpha1",
            "kind": "APIResourceSchema",
            "metadata": {"name": self.schema_name(&spec)},
            "spec": spec,
        })
    }

    /// The entry of an APIExport that serves it.
    pub(super) fn exported(&self) -> Value {
        json!({
            "group": self.group,
            "name": self.plural,
            "schema": self.schema_name(&self.spec(&self.schema)),
            "storage": {"crd": {}},
        })
    }

    fn schema_name(&self, spec: &Value) -> String {
        let hash: String = Sha256::digest(spec.to_string()).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("v{hash}.{}.{}", self.plural, self.group)
    }

    fn spec(&self, schema: &Value) -> Value {
        let mut names = json!({
            "plural": self.plural,
            "singular": self.kind.to_lowercase(),
            "kind": self.kind,
            "listKind": format!("{}List", self.kind),
        });
        if let Some(short) = self.short {
            names = with(names, "shortNames", json!([short]));
        }
        let age = column("Age", "date", ".metadata.creationTimestamp");
        let columns: Vec<_> = self.columns.iter().cloned().chain([age]).collect();
        let mut version = json!({
            "name": self.version,
            "served": true,
            "storage": true,
            "additionalPrinterColumns": columns,
            "schema": schema,
        });
        if let Some(subresources) = &self.subresources {
            version = with(version, "subresources", subresources.clone());
        }
        json!({"group": self.group, "names": names, "scope": self.scope, "versions": [version]})
    }
}

/// The schema of a kind's objects: `own` are the fields that not every object has.
pub(super) fn object_schema(kind: &str, description: &str, required: &[&str], own: Value) -> Value {
    let every = json!({
        "apiVersion": {"type": "string", "description": "The version of this object's schema."},
        "kind": {"type": "string", "description": format!("{kind}.")},
        "metadata": {"type": "object"},
    });
    let schema = json!({"type": "object", "description": description, "properties": merged(every, own)});
    if required.is_empty() { schema } else { with(schema, "required", json!(required)) }
}

/// What the controller writes: `own` are the fields that not every status has.
pub(super) fn status_schema(description: &str, conditions: &str, own: Value) -> Value {
    let every = json!({
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "description": "The generation that the status speaks of.",
        },
        "conditions": {
            "type": "array",
            "description": conditions,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": condition(),
        },
    });
    json!({"type": "object", "description": description, "properties": merged(every, own)})
}

/// A column, by the path of what it shows.
pub(super) fn column(name: &str, type_: &str, path: &str) -> Value {
    json!({"name": name, "type": type_, "jsonPath": path})
}

/// A column that says how a condition stands.
pub(super) fn condition_column(name: &str, condition: &str) -> Value {
    column(name, "string", &format!(r#".status.conditions[?(@.type=="{condition}")].status"#))
}

/// A column that shows only where wide output is asked for.
pub(super) fn if_wide(column: Value) -> Value {
    with(column, "priority", json!(1))
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

fn merged(mut fields: Value, more: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
        fields.extend(more);
    }
    fields
}
