//! Any custom object: one type for all kinds, which a missing field can't keep from being read.

use std::borrow::Cow;
use std::fmt::Debug;

use kube_client::core::{ObjectMeta, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::VERSION;

/// What a kind is called, and what its objects hold.
pub trait Kind: Debug + Clone + Send + Sync + 'static {
    /// Its `spec`. What a stranger left out is as if it were the default: one bad object must not stop a watch of all.
    type Spec: Debug + Clone + Default + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Its `status`.
    type Status: Debug + Clone + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Namespaced or not.
    type Scope: 'static;
    /// The API group.
    const GROUP: &'static str;
    /// The kind's name.
    const KIND: &'static str;
    /// Its resource.
    const PLURAL: &'static str;
}

/// A `spec` or `status` without anything in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {}

/// The name of an object of the same namespace, or of a cluster-scoped one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalRef {
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// Name and namespace of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its namespace.
    #[serde(default)]
    pub namespace: String,
}

/// An object of one kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound = "")]
pub struct Object<K: Kind> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: K::Spec,
    /// What is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<K::Status>,
}

impl<K: Kind> Object<K> {
    /// A new one, cluster-scoped unless a namespace is put into its metadata.
    pub fn new(name: &str, spec: K::Spec) -> Self {
        Self {
            api_version: format!("{}/{VERSION}", K::GROUP),
            kind: K::KIND.to_owned(),
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec,
            status: None,
        }
    }

    /// Its name; empty where it has none yet.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Its namespace; empty where it is cluster-scoped.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Its UID; empty where it is not stored yet.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Which version of its spec it is.
    pub fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or_default()
    }

    /// Whether its deletion was asked for.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// A label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str)
    }

    /// An annotation's value.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key)).map(String::as_str)
    }

    /// Its finalizers.
    pub fn finalizers(&self) -> &[String] {
        self.metadata.finalizers.as_deref().unwrap_or_default()
    }

    /// As messages name it: ``Cluster `namespace/name` ``.
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
