//! What is known of objects without reading them: their metadata, of any resource, watched or listed.

use std::collections::BTreeMap;

use depguard_core::GroupVersionResource;
use futures::{Stream, StreamExt};
use kube_client::Api;
use kube_client::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube_runtime::watcher::{self, Event, watcher};
use serde::Deserialize;

use crate::api::ApiError;
use crate::endpoint::Endpoint;
use crate::mirror::said_by;

/// How long a watch request lasts. kube takes a watch for dead that is silent for 5 s longer.
const WATCH_SECONDS: u32 = 25;
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// What an object's metadata says, as far as owners are concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Metadata {
    /// Its name.
    pub name: String,
    /// Its namespace; `None`: it lies in none.
    pub namespace: Option<String>,
    /// Its UID.
    pub uid: String,
    /// Its state.
    pub resource_version: String,
    /// When it began to be deleted.
    pub deletion_timestamp: Option<String>,
    /// What holds it while it is being deleted.
    #[serde(deserialize_with = "or_default")]
    pub finalizers: Vec<String>,
    /// Its labels.
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    #[serde(deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
    /// Its owners.
    #[serde(deserialize_with = "or_default")]
    pub owner_references: Vec<OwnerReference>,
}

/// One owner of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "Kubernetes' own fields")]
pub struct OwnerReference {
    /// The owner's group and version.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// The owner's UID.
    pub uid: String,
    /// Whether the owner is the one that manages the object.
    pub controller: Option<bool>,
}

/// What a watch of metadata tells.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum MetadataEvent {
    /// A list begins: what was known before counts no more once it is complete.
    Listing,
    /// An object of the list.
    Listed(Metadata),
    /// The list is complete.
    Complete,
    /// An object was made or changed.
    Changed(Metadata),
    /// An object is gone.
    Gone(Metadata),
}

impl Endpoint {
    /// Follows the metadata of all objects of a resource: a list, then each change. Its first error is to be its last: it
    /// is then begun anew by whoever wants to go on, as kube's watcher does not always find back by itself.
    pub fn watch_metadata(
        &self,
        resource: &GroupVersionResource,
        kind: &str,
    ) -> impl Stream<Item = Result<MetadataEvent, String>> + Send + use<> {
        let GroupVersionResource { group, version, resource: plural } = resource;
        let api_version = if group.is_core() { version.to_string() } else { format!("{group}/{version}") };
        let resource = ApiResource {
            group: group.to_string(),
            version: version.to_string(),
            api_version,
            kind: kind.to_owned(),
            plural: plural.to_string(),
        };
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(self.client(), &resource);
        let config = watcher::Config::default().timeout(WATCH_SECONDS);
        watcher(api, config).map(|event| match event {
            Ok(Event::Init) => Ok(MetadataEvent::Listing),
            Ok(Event::InitApply(object)) => Ok(MetadataEvent::Listed(object.into())),
            Ok(Event::InitDone) => Ok(MetadataEvent::Complete),
            Ok(Event::Apply(object)) => Ok(MetadataEvent::Changed(object.into())),
            Ok(Event::Delete(object)) => Ok(MetadataEvent::Gone(object.into())),
            Err(error) => Err(said_by(&error).0),
        })
    }

    /// Lists the metadata of all objects under a path, as they are now, page by page; keeps what `keep` makes of them.
    ///
    /// Refuses a list without `metadata.resourceVersion`, and one that expired in between: it can be begun anew.
    pub async fn list_metadata<T>(
        &self,
        path: &str,
        mut keep: impl FnMut(Metadata) -> Option<T>,
    ) -> Result<Vec<T>, ApiError> {
        let mut kept = Vec::new();
        let keep = |page: Vec<Item>| kept.extend(page.into_iter().filter_map(|item| keep(item.metadata)));
        self.pages(path, METADATA, usize::MAX, keep).await?;
        Ok(kept)
    }
}

impl Metadata {
    /// The metadata of an object, as it stands in its JSON.
    pub fn of(object: &serde_json::Value) -> Option<Self> {
        Self::deserialize(object.get("metadata")?).ok()
    }

    /// The path of the object, which is of this resource.
    pub fn path(&self, resource: &GroupVersionResource) -> String {
        resource.path(self.namespace.as_deref(), Some(&self.name))
    }
}

impl From<PartialObjectMeta<DynamicObject>> for Metadata {
    fn from(object: PartialObjectMeta<DynamicObject>) -> Self {
        let metadata = object.metadata;
        let owners = metadata.owner_references.unwrap_or_default().into_iter().map(|owner| OwnerReference {
            api_version: owner.api_version,
            kind: owner.kind,
            name: owner.name,
            uid: owner.uid,
            controller: owner.controller,
        });
        Self {
            name: metadata.name.unwrap_or_default(),
            namespace: metadata.namespace,
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            deletion_timestamp: metadata.deletion_timestamp.map(|time| time.0.to_string()),
            finalizers: metadata.finalizers.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            owner_references: owners.collect(),
        }
    }
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

/// `null` is how Go may write what is empty.
fn or_default<'de, T: Default + Deserialize<'de>, D: serde::Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
