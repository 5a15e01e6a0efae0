//! Requests for access to a cluster.

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube_client::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Common, GROUP, Kind, LocalRef, Object, ObjectRef};

/// Kind AccessRequest.
#[derive(Debug, Clone)]
pub enum AccessRequests {}

/// Request for access to a cluster.
pub type AccessRequest = Object<AccessRequests>;

/// Access that an [`AccessRequest`] asks for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessRequestSpec {
    /// Cluster of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ObjectRef>,
    /// ClusterRequest whose Cluster is meant, if no Cluster is named.
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
    /// Roles to create and to bind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Permissions>,
    /// Existing roles to bind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub role_refs: Vec<RoleRef>,
}

/// Role (with a namespace) or ClusterRole (without one) to create.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Permissions {
    /// Name of the role; if it is empty, the provider chooses one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace of the role.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Set if a missing namespace is not created.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_automatic_namespace_creation: bool,
    /// Rules of the role.
    #[serde(default)]
    pub rules: Vec<PolicyRule>,
}

/// Existing role.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RoleRef {
    /// Kind of the role: `Role` or `ClusterRole`.
    #[serde(default)]
    pub kind: String,
    /// Name of the role.
    #[serde(default)]
    pub name: String,
    /// Namespace of a Role.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// Access by an OIDC provider, which this provider doesn't offer. Only its presence matters.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct OidcConfig {
    /// Fields of the configuration.
    #[serde(flatten)]
    pub fields: serde_json::Map<String, Value>,
}

/// Status of an [`AccessRequest`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessRequestStatus {
    /// Fields of every status.
    #[serde(flatten)]
    pub common: Common,
    /// Secret with the kubeconfig, in the request's namespace.
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
