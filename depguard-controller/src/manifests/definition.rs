//! Kind in the form that API servers take: a CustomResourceDefinition, or an APIResourceSchema and an APIExport.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::manifests::with;

/// Kind in its one version.
pub(super) struct Definition {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) short: Option<&'static str>,
    pub(super) scope: &'static str,
    /// Printed columns of its objects, without their age, which every kind prints.
    pub(super) columns: Vec<Value>,
    /// Subresources; `None` if the definition leaves them out, which means that there are none.
    pub(super) subresources: Option<Value>,
    pub(super) schema: Value,
}

impl Definition {
    pub(super) fn crd(&self) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, self.group)},
            // The schema is one level deeper here than in an APIResourceSchema.
            "spec": self.spec(&json!({"openAPIV3Schema": self.schema})),
        })
    }

    /// Returns the APIResourceSchema. Its name holds a hash of its content, since a used schema can't be changed.
    pub(super) fn api_resource_schema(&self) -> Value {
        let spec = self.spec(&self.schema);
        json!({
            "apiVersion": "apis.kcp.io/v1alpha1",
            "kind": "APIResourceSchema",
            "metadata": {"name": self.schema_name(&spec)},
            "spec": spec,
        })
    }

    /// Returns the entry of an APIExport that serves the kind.
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

/// Returns the schema of a kind's objects; `own` are the fields that other kinds' objects don't have.
pub(super) fn object_schema(kind: &str, description: &str, required: &[&str], own: &[(&str, Value)]) -> Value {
    let mut properties = json!({
        "apiVersion": {"type": "string", "description": "The version of this object's schema."},
        "kind": {"type": "string", "description": format!("{kind}.")},
        "metadata": {"type": "object"},
    });
    for (field, schema) in own {
        properties = with(properties, field, schema.clone());
    }
    let schema = json!({"type": "object", "description": description, "properties": properties});
    if required.is_empty() { schema } else { with(schema, "required", json!(required)) }
}

/// Returns a column that shows the value at a path.
pub(super) fn column(name: &str, type_: &str, path: &str) -> Value {
    json!({"name": name, "type": type_, "jsonPath": path})
}

/// Returns a column that shows the status of a condition.
pub(super) fn condition_column(name: &str, condition: &str) -> Value {
    column(name, "string", &format!(r#".status.conditions[?(@.type=="{condition}")].status"#))
}

/// Returns the column, shown only in wide output.
pub(super) fn if_wide(column: Value) -> Value {
    with(column, "priority", json!(1))
}
