//! Kinds of `clusters.openmcp.cloud/v1alpha1` and this provider's own kinds, as far as the provider reads and writes
//! them. Other fields stay untouched: all writes are merge patches of fields that this provider owns.

mod access;
mod clusters;
mod config;
mod object;
mod status;

pub use access::{
    AccessRequest, AccessRequestSpec, AccessRequestStatus, AccessRequests, OidcConfig, Permissions, RoleRef,
    TokenConfig,
};
pub use clusters::{
    Cluster, ClusterProfile, ClusterProfileSpec, ClusterProfiles, ClusterRequest, ClusterRequestSpec,
    ClusterRequestStatus, ClusterRequests, ClusterSpec, ClusterStatus, Clusters, Endpoint, Kubernetes,
    SupportedVersion,
};
pub use config::{
    ProfileConfig, WorkspaceProviderConfig, WorkspaceProviderConfigSpec, WorkspaceProviderConfigStatus,
    WorkspaceProviderConfigs,
};
pub use object::{Kind, LocalRef, Nothing, Object, ObjectRef};
pub use status::{Aspect, Common, Status, is_ready};

/// API group of the contract.
pub const GROUP: &str = "clusters.openmcp.cloud";
/// Version of both groups.
pub const VERSION: &str = "v1alpha1";
/// API group of this provider's own kinds.
pub const OWN_GROUP: &str = "workspaces.example.com";

/// Label of Clusters and AccessRequests: the responsible provider.
pub const PROVIDER: &str = "clusters.openmcp.cloud/provider";
/// Label of AccessRequests: their Cluster's profile.
pub const PROFILE: &str = "clusters.openmcp.cloud/profile";
/// Label of Clusters: the Kubernetes version that they run.
pub const K8S_VERSION: &str = "clusters.openmcp.cloud/k8sversion";
/// Annotation of Clusters: the text that `kubectl get clusters -o wide` shows.
pub const PROVIDER_INFO: &str = "clusters.openmcp.cloud/providerinfo";
/// Label of all objects that a provider makes: the provider's name.
pub const MANAGED_BY: &str = "openmcp.cloud/managed-by";
/// Label of all objects that a provider makes: the environment.
pub const ENVIRONMENT: &str = "openmcp.cloud/environment";
/// Annotation that stops a reconciler ([`IGNORE`]) or requests another look ([`RECONCILE`]).
pub const OPERATION: &str = "openmcp.cloud/operation";
/// Value of [`OPERATION`]: reconcilers leave this object alone.
pub const IGNORE: &str = "ignore";
/// Value of [`OPERATION`]: the reconciler looks at this object again, and removes the annotation.
pub const RECONCILE: &str = "reconcile";
/// Finalizer of this provider on Clusters and AccessRequests.
pub const FINALIZER: &str = "clusters.openmcp.cloud/finalizer";
/// Prefix of the finalizers of ClusterRequests on their Cluster; the request's UID follows.
pub const REQUEST_FINALIZER_PREFIX: &str = "request.clusters.openmcp.cloud/";

/// Phase of Clusters whose conditions are all true.
pub const READY: &str = "Ready";
/// Phase of objects that are neither ready nor being deleted.
pub const PROGRESSING: &str = "Progressing";
/// Phase of objects that are being deleted.
pub const TERMINATING: &str = "Terminating";
/// Phase of requests that nobody has answered yet.
pub const PENDING: &str = "Pending";
/// Phase of requests that were granted.
pub const GRANTED: &str = "Granted";
/// Phase of requests that were denied.
pub const DENIED: &str = "Denied";

/// Name of the endpoint that clients outside use.
pub const ENDPOINT_EXTERNAL: &str = "apiserver-external";
/// Name of the endpoint that the provider itself uses.
pub const ENDPOINT_INTERNAL: &str = "apiserver-internal";

/// Keys of an AccessRequest's Secret.
pub mod secret {
    /// Complete kubeconfig.
    pub const KUBECONFIG: &str = "kubeconfig";
    /// Time of the token's creation, in seconds since 1970.
    pub const CREATED: &str = "creationTimestamp";
    /// Time of the token's expiry, in seconds since 1970.
    pub const EXPIRES: &str = "expirationTimestamp";
    /// URL of the server.
    pub const HOST: &str = "host";
    /// Certificate authority of the server, as PEM.
    pub const CA: &str = "ca.crt";
    /// Token alone.
    pub const TOKEN: &str = "token";
}
