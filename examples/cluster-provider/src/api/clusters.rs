//! Clusters, their profiles, and requests for them.

use std::collections::BTreeMap;

use kube_client::core::{ClusterResourceScope, NamespaceResourceScope};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Common, GROUP, Kind, LocalRef, Nothing, Object, ObjectRef};

/// The kind Cluster.
#[derive(Debug, Clone)]
pub enum Clusters {}

/// A cluster that is wanted.
pub type Cluster = Object<Clusters>;

/// What a [`Cluster`] should be.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// The name of its [`ClusterProfile`].
    #[serde(default)]
    pub profile: String,
    /// Which Kubernetes it should be.
    #[serde(default)]
    pub kubernetes: Kubernetes,
    /// What it is for. The scheduler's.
    #[serde(default)]
    pub purposes: Vec<String>,
    /// `Exclusive` or `Shared`. The scheduler's.
    #[serde(default)]
    pub tenancy: String,
}

/// Which Kubernetes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Kubernetes {
    /// The version wanted; empty: the provider chooses.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
}

/// What a [`Cluster`] is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// What every status has.
    #[serde(flatten)]
    pub common: Common,
    /// The API server's URL.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_server: String,
    /// The same by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<Endpoint>,
    /// What this provider notes for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<BTreeMap<String, Value>>,
}

/// One way to reach an API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Which.
    #[serde(default)]
    pub name: String,
    /// Where.
    #[serde(default)]
    pub url: String,
}

impl Kind for Clusters {
    type Spec = ClusterSpec;
    type Status = ClusterStatus;
    type Scope = NamespaceResourceScope;
    const GROUP: &'static str = GROUP;
    const KIND: &'static str = "Cluster";
    const PLURAL: &'static str = "clusters";
}

/// The kind ClusterProfile.
#[derive(Debug, Clone)]
pub enum ClusterProfiles {}

/// A sort of clusters that a provider offers.
pub type ClusterProfile = Object<ClusterProfiles>;

/// What a [`ClusterProfile`] offers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProfileSpec {
    /// The provider.
    #[serde(default)]
    pub provider_ref: LocalRef,
    /// The configuration that the provider took it from.
    #[serde(default)]
    pub provider_config_ref: LocalRef,
    /// The versions to choose from.
    #[serde(default)]
    pub supported_versions: Vec<SupportedVersion>,
}

/// A version of Kubernetes that is offered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupportedVersion {
    /// As in `1.36.0`.
    #[serde(default)]
    pub version: String,
    /// Whether it still works, but should no longer be chosen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
}

impl Kind for ClusterProfiles {
    type Spec = ClusterProfileSpec;
    type Status = Nothing;
    type Scope = ClusterResourceScope;
    const GROUP: &'static str = GROUP;
    const KIND: &'static str = "ClusterProfile";
    const PLURAL: &'static str = "clusterprofiles";
}

/// The kind ClusterRequest.
#[derive(Debug, Clone)]
pub enum ClusterRequests {}

/// A request for some cluster, which the scheduler answers.
pub type ClusterRequest = Object<ClusterRequests>;

/// What a [`ClusterRequest`] is for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ClusterRequestSpec {
    /// What the cluster is to be used for.
    #[serde(default)]
    pub purpose: String,
}

/// What came of a [`ClusterRequest`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterRequestStatus {
    /// What every status has.
    #[serde(flatten)]
    pub common: Common,
    /// The cluster that it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ObjectRef>,
}

impl Kind for ClusterRequests {
    type Spec = ClusterRequestSpec;
    type Status = ClusterRequestStatus;
    type Scope = NamespaceResourceScope;
    const GROUP: &'static str = GROUP;
    const KIND: &'static str = "ClusterRequest";
    const PLURAL: &'static str = "clusterrequests";
}
