//! Kinds that the scenarios use, as a CRD or as an APIResourceSchema.

use serde_json::{Value, json};

/// Kind that a provider offers.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The API group.
    pub group: String,
    /// The plural in lower case.
    pub plural: String,
    /// The kind.
    pub kind: String,
    /// The served versions, the stored version first.
    pub versions: &'static [&'static str],
    /// Set if the objects are namespaced.
    pub namespaced: bool,
    /// The path and name of the APIExport that serves the kind; none on a plain cluster.
    pub export: Option<(String, String)>,
    /// The treatment of `.spec.vpcRef.name` in the schema.
    pub reference: Reference,
    /// Set if the kind has the subresources `status` and `scale`.
    pub scales: bool,
}

/// Treatment of the referring field in a kind's schema. In all cases the field is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The field is not mentioned.
    Plain,
    /// The field is a selectable field.
    Selectable,
    /// The field is a printer column.
    Printed,
}

impl Resource {
    /// Creates a namespaced kind; the plural is the kind in lower case with an `s`.
    pub fn namespaced(kind: &str) -> Resource {
        Resource {
            group: String::new(),
            plural: format!("{}s", kind.to_lowercase()),
            kind: kind.to_owned(),
            versions: &["v1alpha1"],
            namespaced: true,
            export: None,
            reference: Reference::Plain,
            scales: false,
        }
    }

    /// Creates a cluster-scoped kind, likewise.
    pub fn cluster_scoped(kind: &str) -> Resource {
        Resource { namespaced: false, ..Resource::namespaced(kind) }
    }

    /// Serves the kind in these versions instead of `v1alpha1` alone.
    pub fn served_in(self, versions: &'static [&'static str]) -> Resource {
        Resource { versions, ..self }
    }

    /// Treats the referring field this way.
    pub fn with_reference(self, reference: Reference) -> Resource {
        Resource { reference, ..self }
    }

    /// Adds the subresources `status` and `scale`.
    pub fn with_scale(self) -> Resource {
        Resource { scales: true, ..self }
    }

    /// Returns the same kind, requested in another version.
    pub fn in_version(&self, version: &'static [&'static str; 1]) -> Resource {
        Resource { versions: version, ..self.clone() }
    }

    /// Returns `group/version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.versions[0].to_owned() } else { format!("{}/{}", self.group, self.versions[0]) }
    }

    /// Returns the path of the kind's collection; `namespace` counts only for a namespaced kind.
    pub fn collection(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let api_version = self.api_version();
        if self.namespaced {
            format!("/{root}/{api_version}/namespaces/{namespace}/{}", self.plural)
        } else {
            format!("/{root}/{api_version}/{}", self.plural)
        }
    }

    fn full_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    fn names(&self) -> Value {
        let singular = self.kind.to_lowercase();
        json!({"plural": self.plural, "singular": singular, "kind": self.kind, "listKind": format!("{}List", self.kind)})
    }

    fn scope(&self) -> &'static str {
        if self.namespaced { "Namespaced" } else { "Cluster" }
    }

    /// Returns the name of the kind's APIResourceSchema.
    pub(super) fn schema_name(&self) -> String {
        format!("v1.{}", self.full_name())
    }

    pub(super) fn api_resource_schema(&self) -> Value {
        let version = |(index, name): (usize, &&str)| self.version(index, name, &self.schema());
        let mut versions: Vec<Value> = self.versions.iter().enumerate().map(version).collect();
        // The API server expects the oldest version first.
        versions.reverse();
        let mut spec = json!({
            "group": self.group, "names": self.names(), "scope": self.scope(), "versions": versions,
        });
        if self.versions.len() > 1 {
            spec["conversion"] = json!({"strategy": "None"});
        }
        json!({
            "apiVersion": "apis.kcp.io/v1alpha1",
            "kind": "APIResourceSchema",
            "metadata": {"name": self.schema_name()},
            "spec": spec,
        })
    }

    fn version(&self, index: usize, name: &str, schema: &Value) -> Value {
        let mut version = json!({"name": name, "served": true, "storage": index == 0, "schema": schema});
        if self.scales {
            let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
            version["subresources"] = json!({"status": {}, "scale": scale});
        }
        match self.reference {
            Reference::Plain => {}
            Reference::Selectable => version["selectableFields"] = json!([{"jsonPath": PATH}]),
            Reference::Printed => {
                version["additionalPrinterColumns"] = json!([{"name": "VPC", "type": "string", "jsonPath": PATH}]);
            }
        }
        version
    }

    fn schema(&self) -> Value {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut properties = json!({"spec": open});
        if self.reference != Reference::Plain {
            let name = json!({"type": "object", "properties": {"name": {"type": "string"}}});
            properties["spec"]["properties"] = json!({"vpcRef": name});
        }
        if self.scales {
            let replicas = json!({"replicas": {"type": "integer"}});
            properties["status"] = open;
            properties["spec"]["properties"] = replicas.clone();
            properties["status"]["properties"] = replicas;
        }
        json!({"type": "object", "properties": properties})
    }

    pub(super) fn crd(&self) -> Value {
        let version =
            |(index, name): (usize, &&str)| self.version(index, name, &json!({"openAPIV3Schema": self.schema()}));
        let versions: Vec<Value> = self.versions.iter().enumerate().map(version).collect();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.full_name()},
            "spec": {"group": self.group, "names": self.names(), "scope": self.scope(), "versions": versions},
        })
    }
}

/// Path of the referring field.
const PATH: &str = ".spec.vpcRef.name";
