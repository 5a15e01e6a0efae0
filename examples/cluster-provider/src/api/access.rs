//! Requests for access to a cluster.

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube_client::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Common, GROUP, Kind, LocalRef, Object, ObjectRef};

/// The kind AccessRequest.
#[derive(Debug, Clone)]
pub enum AccessRequests {}

/// A request for access to a cluster.
pub type AccessRequest = Object<AccessRequests>;

/// What an [`AccessRequest`] asks for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessRequestSpec {
    /// The Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ObjectRef>,
    /// The ClusterRequest that was given the Cluster, if no Cluster is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_ref: Option<ObjectRef>,
    /// Access by a ServiceAccount's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenConfig>,
    /// Access by an OIDC provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcConfig>,
}

/// Access by a token.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenConfig {
    /// Roles to make and to bind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Permissions>,
    /// Roles that are there, to bind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub role_refs: Vec<RoleRef>,
}

/// A Role (with a namespace) or ClusterRole (without) that is to be made.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Permissions {
    /// Its name; empty: the provider chooses one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Whether the namespace is left unmade if it is not there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_automatic_namespace_creation: bool,
    /// What it allows.
    #[serde(default)]
    pub rules: Vec<PolicyRule>,
}

/// A role that is there.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RoleRef {
    /// `Role` or `ClusterRole`.
    #[serde(default)]
    pub kind: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The namespace of a Role.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// Access by an OIDC provider, which this provider doesn't offer: only that it was asked for matters.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct OidcConfig {
    /// All of it.
    #[serde(flatten)]
    pub fields: serde_json::Map<String, Value>,
}

/// What came of an [`AccessRequest`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessRequestStatus {
    /// What every status has.
    #[serde(flatten)]
    pub common: Common,
    /// The Secret with the kubeconfig, in the request's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalRef>,
}

impl Kind for AccessRequests {
    type Spec = AccessRequestSpec;
    type Status = AccessRequestStatus;
    type Scope = NamespaceResourceScope;
    const GROUP: &'static str = GROUP;
    const KIND: &'static str = "AccessRequest";
    const PLURAL: &'static str = "accessrequests";
}
