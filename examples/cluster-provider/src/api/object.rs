//! Custom object of any kind. A missing field never makes it unreadable.

use std::borrow::Cow;
use std::fmt::Debug;

use kube_client::core::{ObjectMeta, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::VERSION;

/// Names of a kind, and the content of its objects.
pub trait Kind: Debug + Clone + Send + Sync + 'static {
    /// Type of the `spec`. A missing field has its default, because one bad object must not stop a watch of all.
    type Spec: Debug + Clone + Default + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Type of the `status`.
    type Status: Debug + Clone + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Scope of the kind: namespaced or not.
    type Scope: 'static;
    /// API group of the kind.
    const GROUP: &'static str;
    /// Name of the kind.
    const KIND: &'static str;
    /// Plural of the kind's resource.
    const PLURAL: &'static str;
}

/// Empty `spec` or `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {}

/// Name of an object in the same namespace, or of a cluster-scoped one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalRef {
    /// Name of the object.
    #[serde(default)]
    pub name: String,
}

/// Name and namespace of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Name of the object.
    #[serde(default)]
    pub name: String,
    /// Namespace of the object.
    #[serde(default)]
    pub namespace: String,
}

/// Object of one kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound = "")]
pub struct Object<K: Kind> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    /// Metadata of the object.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(default)]
    pub spec: K::Spec,
    /// Actual state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<K::Status>,
}

impl<K: Kind> Object<K> {
    /// Makes a new object, which is cluster-scoped unless its metadata gets a namespace.
    pub fn new(name: &str, spec: K::Spec) -> Self {
        Self {
            api_version: format!("{}/{VERSION}", K::GROUP),
            kind: K::KIND.to_owned(),
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec,
            status: None,
        }
    }

    /// Returns the name; empty if there is none yet.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the namespace; empty if the object is cluster-scoped.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the UID; empty if the object is not stored yet.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns the generation of the spec.
    pub fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or_default()
    }

    /// Returns true if the object is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Returns a label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str)
    }

    /// Returns an annotation's value.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key)).map(String::as_str)
    }

    /// Returns the finalizers.
    pub fn finalizers(&self) -> &[String] {
        self.metadata.finalizers.as_deref().unwrap_or_default()
    }

    /// Returns the object's name in messages: ``Cluster `namespace/name` ``.
    pub fn shown(&self) -> String {
        match self.namespace() {
            "" => format!("{} `{}`", K::KIND, self.name()),
            namespace => format!("{} `{namespace}/{}`", K::KIND, self.name()),
        }
    }
}

impl<K: Kind> Resource for Object<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        K::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
