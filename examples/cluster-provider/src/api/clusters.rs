//! Clusters, their profiles, and requests for them.

use std::collections::BTreeMap;

use kube_client::core::{ClusterResourceScope, NamespaceResourceScope};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Common, GROUP, Kind, LocalRef, Nothing, Object, ObjectRef};

/// Kind Cluster.
#[derive(Debug, Clone)]
pub enum Clusters {}

/// Cluster that somebody wants.
pub type Cluster = Object<Clusters>;

/// Desired state of a [`Cluster`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Name of the Cluster's [`ClusterProfile`].
    #[serde(default)]
    pub profile: String,
    /// Kubernetes version of the Cluster.
    #[serde(default)]
    pub kubernetes: Kubernetes,
    /// Purposes of the Cluster, for the scheduler.
    #[serde(default)]
    pub purposes: Vec<String>,
    /// Tenancy for the scheduler: `Exclusive` or `Shared`.
    #[serde(default)]
    pub tenancy: String,
}

/// Kubernetes version.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Kubernetes {
    /// Wanted version; if it is empty, the provider chooses.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
}

/// Actual state of a [`Cluster`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Fields of every status.
    #[serde(flatten)]
    pub common: Common,
    /// URL of the API server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_server: String,
    /// URLs of the API server, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<Endpoint>,
    /// Notes of this provider for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<BTreeMap<String, Value>>,
}

/// Address of an API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Name of the endpoint.
    #[serde(default)]
    pub name: String,
    /// URL of the endpoint.
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

/// Kind ClusterProfile.
#[derive(Debug, Clone)]
pub enum ClusterProfiles {}

/// Sort of clusters that a provider offers.
pub type ClusterProfile = Object<ClusterProfiles>;

/// Offer of a [`ClusterProfile`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProfileSpec {
    /// Provider of the clusters.
    #[serde(default)]
    pub provider_ref: LocalRef,
    /// Configuration from which the provider made the profile.
    #[serde(default)]
    pub provider_config_ref: LocalRef,
    /// Versions to choose from.
    #[serde(default)]
    pub supported_versions: Vec<SupportedVersion>,
}

/// Kubernetes version that is offered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupportedVersion {
    /// Version, such as `1.36.0`.
    #[serde(default)]
    pub version: String,
    /// Set if the version still works, but should no longer be chosen.
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

/// Kind ClusterRequest.
#[derive(Debug, Clone)]
pub enum ClusterRequests {}

/// Request for some cluster, which the scheduler answers.
pub type ClusterRequest = Object<ClusterRequests>;

/// Content of a [`ClusterRequest`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ClusterRequestSpec {
    /// Purpose of the cluster.
    #[serde(default)]
    pub purpose: String,
}

/// Status of a [`ClusterRequest`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterRequestStatus {
    /// Fields of every status.
    #[serde(flatten)]
    pub common: Common,
    /// Cluster that the request was given.
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
