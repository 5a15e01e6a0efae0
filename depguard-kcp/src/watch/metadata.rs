//! Objects of any resource, watched as a whole or by their metadata, and listed by their metadata.

use std::collections::BTreeMap;
use std::fmt;

use depguard_core::GroupVersionResource;
use futures::{Stream, StreamExt};
use kube_client::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube_client::{Api, Resource};
use kube_runtime::watcher::{self, Event, watcher};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::http::endpoint::Endpoint;
use crate::http::objects::ApiError;
use crate::watch::reflector::said_by;

/// Duration of a watch request. kube gives a watch up as dead if it is silent for 5 s longer.
const WATCH_SECONDS: u32 = 25;
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

/// Event of a watch, which shows objects as values of type `T`.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum WatchEvent<T> {
    /// A list begins. Earlier knowledge no longer counts once the list is complete.
    Listing,
    /// The list has this object.
    Listed(T),
    /// The list is complete.
    Complete,
    /// An object was created or changed.
    Changed(T),
    /// An object is gone.
    Gone(T),
}

/// Event of a metadata watch.
pub type MetadataEvent = WatchEvent<Metadata>;

/// Objects of a resource that a metadata watch follows; by default all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an object has no other name")]
pub struct WatchScope<'a> {
    /// Namespace of the objects.
    pub namespace: Option<&'a str>,
    /// Name of the only object.
    pub name: Option<&'a str>,
}

/// Error that ends a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct WatchFailure {
    /// Text of the error.
    pub why: String,
    /// HTTP status, if the API server answered with one.
    pub status: Option<u16>,
}

impl Endpoint {
    /// Follows the metadata of a resource's objects in `scope`: a list, then each change. The caller must drop the
    /// stream at its first error, and may begin a new one: kube's watcher does not always recover by itself.
    pub fn watch_metadata(
        &self,
        resource: &GroupVersionResource,
        kind: &str,
        scope: WatchScope<'_>,
    ) -> impl Stream<Item = Result<MetadataEvent, WatchFailure>> + Send + use<> {
        let resource = api_resource(resource, kind);
        let api: Api<PartialObjectMeta<DynamicObject>> = match scope.namespace {
            Some(namespace) => Api::namespaced_with(self.client(), namespace, &resource),
            None => Api::all_with(self.client(), &resource),
        };
        let mut config = watcher::Config::default();
        if let Some(name) = scope.name {
            config = config.fields(&format!("metadata.name={name}"));
        }
        follow(api, config, Metadata::from)
    }

    /// Follows all objects of a resource in all namespaces: a list, then each change. The same goes for the caller as
    /// with [`Self::watch_metadata`].
    pub fn watch_objects(
        &self,
        resource: &GroupVersionResource,
        kind: &str,
    ) -> impl Stream<Item = Result<WatchEvent<Value>, WatchFailure>> + Send + use<> {
        let api: Api<DynamicObject> = Api::all_with(self.client(), &api_resource(resource, kind));
        // An object that was read as JSON is always written as JSON.
        follow(api, watcher::Config::default(), |object| serde_json::to_value(object).unwrap_or_default())
    }

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
        self.pages(path, METADATA, keep).await?;
        Ok(kept)
    }
}

impl fmt::Display for WatchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for WatchFailure {}

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

fn api_resource(resource: &GroupVersionResource, kind: &str) -> ApiResource {
    let GroupVersionResource { group, version, resource: plural } = resource;
    let api_version = if group.is_core() { version.to_string() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.to_string(),
        version: version.to_string(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_string(),
    }
}

/// Follows objects, and shows each in the form that `show` gives it.
fn follow<K, T>(
    api: Api<K>,
    config: watcher::Config,
    show: fn(K) -> T,
) -> impl Stream<Item = Result<WatchEvent<T>, WatchFailure>> + Send
where
    K: Resource + Clone + DeserializeOwned + fmt::Debug + Send + 'static,
{
    watcher(api, config.timeout(WATCH_SECONDS)).map(move |event| match event {
        Ok(Event::Init) => Ok(WatchEvent::Listing),
        Ok(Event::InitApply(object)) => Ok(WatchEvent::Listed(show(object))),
        Ok(Event::InitDone) => Ok(WatchEvent::Complete),
        Ok(Event::Apply(object)) => Ok(WatchEvent::Changed(show(object))),
        Ok(Event::Delete(object)) => Ok(WatchEvent::Gone(show(object))),
        Err(error) => {
            let (why, status) = said_by(&error);
            Err(WatchFailure { why, status })
        }
    })
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

/// Reads a value that may be `null`, as Go may write empty values.
fn or_default<'de, T: Default + Deserialize<'de>, D: serde::Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
