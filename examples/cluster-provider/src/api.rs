//! The kinds of `clusters.openmcp.cloud/v1alpha1` and this provider's own, as far as it reads and writes them. Fields that
//! are not here are let stand: all writes are merge patches of what this provider owns.

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

/// The API group of the contract.
pub const GROUP: &str = "clusters.openmcp.cloud";
/// The version of both groups.
pub const VERSION: &str = "v1alpha1";
/// This provider's own API group.
pub const OWN_GROUP: &str = "workspaces.example.com";

/// Label of Clusters and AccessRequests: the provider that is responsible.
pub const PROVIDER: &str = "clusters.openmcp.cloud/provider";
/// Label of AccessRequests: their Cluster's profile.
pub const PROFILE: &str = "clusters.openmcp.cloud/profile";
/// Label of Clusters: the version that they run.
pub const K8S_VERSION: &str = "clusters.openmcp.cloud/k8sversion";
/// Annotation of Clusters: what `kubectl get clusters -o wide` shows of them.
pub const PROVIDER_INFO: &str = "clusters.openmcp.cloud/providerinfo";
/// Label of whatever a provider makes: the provider's name.
pub const MANAGED_BY: &str = "openmcp.cloud/managed-by";
/// Label of whatever a provider makes: the environment.
pub const ENVIRONMENT: &str = "openmcp.cloud/environment";
/// Annotation that stops a reconciler ([`IGNORE`]) or makes it look again ([`RECONCILE`]).
pub const OPERATION: &str = "openmcp.cloud/operation";
/// Value of [`OPERATION`]: leave this object alone.
pub const IGNORE: &str = "ignore";
/// Value of [`OPERATION`]: look at this object anew, and take the annotation off.
pub const RECONCILE: &str = "reconcile";
/// This provider's finalizer on Clusters and AccessRequests.
pub const FINALIZER: &str = "clusters.openmcp.cloud/finalizer";
/// What the finalizers of ClusterRequests on their Cluster begin with; the request's UID follows.
pub const REQUEST_FINALIZER_PREFIX: &str = "request.clusters.openmcp.cloud/";

/// Phases of Clusters: each of their conditions is true.
pub const READY: &str = "Ready";
/// Phase of what is neither ready nor going.
pub const PROGRESSING: &str = "Progressing";
/// Phase of what is being deleted.
pub const TERMINATING: &str = "Terminating";
/// Phase of requests that nobody has answered yet.
pub const PENDING: &str = "Pending";
/// Phase of requests that were granted.
pub const GRANTED: &str = "Granted";
/// Phase of requests that were denied.
pub const DENIED: &str = "Denied";

/// Name of the endpoint that is reached from outside.
pub const ENDPOINT_EXTERNAL: &str = "apiserver-external";
/// Name of the endpoint that the provider itself reaches.
pub const ENDPOINT_INTERNAL: &str = "apiserver-internal";

/// Keys of an AccessRequest's Secret.
pub mod secret {
    /// The kubeconfig itself.
    pub const KUBECONFIG: &str = "kubeconfig";
    /// When its token was made, in seconds since 1970.
    pub const CREATED: &str = "creationTimestamp";
    /// When its token expires, in seconds since 1970.
    pub const EXPIRES: &str = "expirationTimestamp";
    /// The server's URL.
    pub const HOST: &str = "host";
    /// The server's certificate authority, as PEM.
    pub const CA: &str = "ca.crt";
    /// The token alone.
    pub const TOKEN: &str = "token";
}
