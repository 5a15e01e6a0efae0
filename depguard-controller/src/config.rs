//! What a controller needs to know.

use std::collections::BTreeSet;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use depguard_core::locks::CLEAN_AFTER;
use depguard_core::{ExportName, Home};
use depguard_kcp::{Allowance, Features};

use crate::locks::VitalKind;
use crate::manifests::ReadThrough;
use crate::webhook_target::WebhookTarget;

/// depguard's own namespace, unless told otherwise.
pub const NAMESPACE: &str = "depguard-system";

/// The Lease's name, unless told otherwise.
pub(crate) const LEASE: &str = "depguard-controller";

/// How a controller is to run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Where depguard runs.
    pub home: Home,
    /// depguard's APIExport; not used in home kubernetes.
    pub export_name: ExportName,
    /// What one workspace may have mirrored of each resource, or in home kubernetes the cluster: where there is more, its
    /// rules are not valid.
    pub allowance: Allowance,
    /// A kubeconfig file. Left out: what `KUBECONFIG` names, else the pod's own service account.
    pub kubeconfig: Option<PathBuf>,
    /// The base URL of kcp, without a workspace. Left out: from the kubeconfig.
    pub base_host: Option<String>,
    /// Where `/healthz` and `/readyz` are served; port 0 is any free one. Left out: nowhere.
    pub probe_addr: Option<SocketAddr>,
    /// Where `/metrics` is served; port 0 is any free one. Left out: nowhere.
    pub metrics_addr: Option<SocketAddr>,
    /// By which way the webhook reads dependents: its own flag. Home kcp only.
    pub read_through: ReadThrough,
    /// Where API servers reach the webhook.
    pub webhook: WebhookTarget,
    /// A PEM file of the certificates by which they know it, read again as it changes. Left out: their own roots.
    pub ca_bundle_path: Option<PathBuf>,
    /// A file with the key that signs the webhook's paths, read again as it changes. Left out: they are not signed.
    pub path_key: Option<PathBuf>,
    /// What is switched on beside rules: the webhook's own flags.
    pub enable: Features,
    /// Whether somebody else makes the ClusterRoles by which it may do with owned objects what it must.
    pub precreated_roles: bool,
    /// What locks may name though a cluster's own controllers can't do without.
    pub vital_lock_kinds: BTreeSet<VitalKind>,
    /// For how long the lock of an entry of a lock table must have been missed before it is looked whether it is there at
    /// all: longer than any request lasts that makes a lock, and any review.
    pub lock_clean_after: Duration,
    /// depguard's own namespace in home kubernetes: nothing in it is protected, and the canary lies in it. Not used in
    /// home kcp.
    pub namespace: String,
    /// Whether, of several controllers, only one writes at a time.
    pub leader_elect: bool,
    /// The namespace of the Lease by which that one is elected, and of the one by which an uninstall stops them all: in
    /// home kcp one of depguard's own workspace.
    pub leader_election_namespace: String,
    /// The Lease's name.
    pub leader_election_id: String,
    /// For how long the others leave it to one that no longer renews it; seconds.
    pub lease_duration: Duration,
    /// `host:port` at which the controller asks the webhook whether its rules are loaded, under the name and by the
    /// certificates of the configuration. Left out: where API servers reach it.
    pub webhook_probe_address: Option<String>,
    /// A folder with `tls.crt` and `tls.key` by which the webhook knows the controller, where it asks who calls; read
    /// each time.
    pub webhook_client_cert_dir: Option<PathBuf>,
    /// After how long everything is looked at again though nothing seems to have changed.
    pub resync: Duration,
    /// For how long a webhook configuration is left to a newer version of depguard that wrote it, as its annotation
    /// says, before this one writes its own.
    pub deference: Duration,
}

impl Config {
    /// The defaults of the stock binary, with the webhook there.
    pub fn new(home: Home, export_name: ExportName, webhook: WebhookTarget) -> Self {
        let namespace = match &webhook {
            WebhookTarget::Service { namespace, .. } => namespace.clone(),
            WebhookTarget::Url(_) => NAMESPACE.to_owned(),
        };
        Self {
            home,
            export_name,
            allowance: Allowance::DEFAULT,
            kubeconfig: None,
            base_host: None,
            probe_addr: Some((Ipv6Addr::UNSPECIFIED, 8081).into()),
            metrics_addr: Some((Ipv6Addr::UNSPECIFIED, 8080).into()),
            read_through: ReadThrough::default(),
            webhook,
            ca_bundle_path: None,
            path_key: None,
            enable: Features::default(),
            precreated_roles: false,
            vital_lock_kinds: BTreeSet::new(),
            lock_clean_after: CLEAN_AFTER,
            leader_election_namespace: match home {
                Home::Kcp => NAMESPACE.to_owned(),
                Home::Kubernetes => namespace.clone(),
            },
            namespace,
            leader_elect: false,
            leader_election_id: LEASE.to_owned(),
            lease_duration: Duration::from_secs(15),
            webhook_probe_address: None,
            webhook_client_cert_dir: None,
            resync: Duration::from_secs(60),
            deference: Duration::from_secs(60),
        }
    }

    depguard_kcp::builder_methods! {
        home: Home,
        export_name: ExportName,
        allowance: Allowance,
        kubeconfig: Option<PathBuf>,
        base_host: Option<String>,
        probe_addr: Option<SocketAddr>,
        metrics_addr: Option<SocketAddr>,
        read_through: ReadThrough,
        webhook: WebhookTarget,
        ca_bundle_path: Option<PathBuf>,
        path_key: Option<PathBuf>,
        enable: Features,
        precreated_roles: bool,
        vital_lock_kinds: BTreeSet<VitalKind>,
        lock_clean_after: Duration,
        namespace: String,
        leader_elect: bool,
        leader_election_namespace: String,
        leader_election_id: String,
        lease_duration: Duration,
        webhook_probe_address: Option<String>,
        webhook_client_cert_dir: Option<PathBuf>,
        resync: Duration,
        deference: Duration,
    }
}
