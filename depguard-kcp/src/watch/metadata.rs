//! Metadata of any resource's objects, watched or listed.

use std::collections::BTreeMap;

use depguard_core::GroupVersionResource;
use serde::Deserialize;
use serde_json::Value;

use crate::http::endpoint::{Endpoint, MAX_BODY};
use crate::http::objects::ApiError;
use crate::watch::steady::{Form, WatchEvent};

const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Metadata of an object, as far as owners need it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Metadata {
    /// Name of the object.
    pub name: String,
    /// Namespace of the object; `None` if it lies in none.
    pub namespace: Option<String>,
    /// UID of the object.
    pub uid: String,
    /// Resource version of the object.
    pub resource_version: String,
    /// Time at which the deletion began.
    pub deletion_timestamp: Option<String>,
    /// Finalizers that hold the object while it is being deleted.
    #[serde(deserialize_with = "or_default")]
    pub finalizers: Vec<String>,
    /// Labels of the object.
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the object.
    #[serde(deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
    /// Owners of the object.
    #[serde(deserialize_with = "or_default")]
    pub owner_references: Vec<OwnerReference>,
}

/// Owner of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "Kubernetes' own fields")]
pub struct OwnerReference {
    /// Group and version of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// UID of the owner.
    pub uid: String,
    /// True if this owner manages the object.
    pub controller: Option<bool>,
}

/// Event of a metadata watch.
pub type MetadataEvent = WatchEvent<Metadata>;

/// Form that shows the metadata of objects alone.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "it has no options")]
pub struct MetadataForm;

impl Endpoint {
    /// Lists the metadata of all objects under a path, in their present state, page by page; keeps the values that
    /// `keep` makes of them.
    ///
    /// Refuses a list without `metadata.resourceVersion`, and a list that expired halfway, which can be begun anew.
    pub async fn list_metadata<T>(
        &self,
        path: &str,
        mut keep: impl FnMut(Metadata) -> Option<T>,
    ) -> Result<Vec<T>, ApiError> {
        let mut kept = Vec::new();
        let keep = |page: Vec<Item>| kept.extend(page.into_iter().filter_map(|item| keep(item.metadata)));
        self.pages(path, METADATA, MAX_BODY, |object| serde_json::from_str(object), keep).await?;
        Ok(kept)
    }
}

impl Form for MetadataForm {
    type Object = Metadata;

    const METADATA: bool = true;

    fn read(&self, json: &str) -> serde_json::Result<Metadata> {
        serde_json::from_str(json).map(|item: Item| item.metadata)
    }
}

impl Metadata {
    /// Reads the metadata from an object's JSON.
    pub fn from_object(object: &Value) -> Option<Self> {
        Self::deserialize(object.get("metadata")?).ok()
    }

    /// Returns the path of the object, which belongs to this resource.
    pub fn path(&self, resource: &GroupVersionResource) -> String {
        resource.path(self.namespace.as_deref(), Some(&self.name))
    }
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

/// Reads a value that may be `null`, as Go may write empty values.
fn or_default<'de, T: Default + Deserialize<'de>, D: serde::Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
