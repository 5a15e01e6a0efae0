//! Configuration of a controller.

use std::collections::BTreeSet;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use depguard_core::locks::CLEAN_AFTER;
use depguard_core::{ControlPlane, ExportName};
use depguard_kcp::{Allowance, Features, PathPeriod, ReadThrough, Snapshot};

use crate::model::names::{LEASE, NAMESPACE};
use crate::model::vital_kind::VitalKind;
use crate::model::webhook_target::WebhookTarget;

/// Default of [`Config::interlock_wait`]: an API server's `--request-timeout` is 60 s unless it is set.
pub(crate) const INTERLOCK_WAIT: Duration = Duration::from_secs(90);

/// Settings of a controller.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Control plane on which depguard runs.
    pub control_plane: ControlPlane,
    /// depguard's APIExport; not used in plain Kubernetes.
    pub export_name: ExportName,
    /// Limit of the watched objects of each resource of one workspace, or in plain Kubernetes of the cluster.
    /// Beyond this limit, the rules of that workspace or cluster are not valid.
    pub allowance: Allowance,
    /// Memory that the process may take, in bytes. Left out: the memory limit of its cgroup, else 256 MiB.
    pub memory_limit: Option<usize>,
    /// Path of a kubeconfig file. Left out: the file that `KUBECONFIG` names, else the pod's own service account.
    pub kubeconfig: Option<PathBuf>,
    /// Base URL of kcp, without a workspace. Left out: the URL in the kubeconfig.
    pub base_host: Option<String>,
    /// Address of `/healthz` and `/readyz`; port 0 is any free one. Left out: neither is served.
    pub probe_addr: Option<SocketAddr>,
    /// Address of `/metrics`; port 0 is any free one. Left out: metrics are not served.
    pub metrics_addr: Option<SocketAddr>,
    /// Way in which the webhook reads dependents, the same as the webhook's own flag. kcp only.
    pub read_through: ReadThrough,
    /// Address at which API servers reach the webhook.
    pub webhook: WebhookTarget,
    /// PEM file of the certificates by which API servers verify the webhook, read again when it changes. Left out: the
    /// API servers' own roots.
    pub ca_bundle_path: Option<PathBuf>,
    /// File with the key that signs the webhook's paths, read again when it changes. Left out: paths are not signed.
    pub path_key: Option<PathBuf>,
    /// Time for which one key signs paths with a generation of reference registers; the same as the webhook's.
    #[doc(hidden)]
    pub path_period: Duration,
    /// Features that are switched on beside rules, the same as the webhook's own flags.
    pub enable: Features,
    /// True if somebody else makes the ClusterRoles that give the controller its rights to owned objects.
    pub precreated_roles: bool,
    /// Vital kinds that locks may name, though a cluster's own controllers can't do without them.
    pub vital_lock_kinds: BTreeSet<VitalKind>,
    /// Time for which no lock must have asked for an entry of a lock table before the controller reads the entry's lock
    /// again and takes the entry out. Longer than any review, and than any request that makes a lock.
    pub lock_clean_after: Duration,
    /// Time for which marks in reference registers are kept: longer than `--request-timeout` of each API server, with room
    /// for its etcd. Only with registers.
    pub interlock_wait: Duration,
    /// Longest time for which a webhook goes by rules of which it hears nothing.
    pub webhook_patience: Duration,
    /// depguard's own namespace in plain Kubernetes: nothing in it is protected, and the canary is in it. Not used in
    /// kcp.
    pub namespace: String,
    /// True if only one of several controllers writes at a time.
    pub leader_elect: bool,
    /// Namespace of the Lease that elects this one controller, and of the Lease by which an uninstall stops all
    /// controllers. In kcp a namespace of depguard's own workspace.
    pub leader_election_namespace: String,
    /// Name of the Lease that elects the controller.
    pub leader_election_id: String,
    /// Time for which the other controllers leave the Lease to a holder that no longer renews it, in whole seconds.
    pub lease_duration: Duration,
    /// `host:port` at which the controller asks the webhook whether its rules are loaded, under the name and by the
    /// certificates of the configuration. Left out: the address at which API servers reach the webhook.
    pub webhook_probe_address: Option<String>,
    /// Folder with `tls.crt` and `tls.key`, by which a webhook that checks its clients recognizes the controller; read
    /// at each probe.
    pub webhook_client_cert_dir: Option<PathBuf>,
    /// Interval after which the controller looks at everything again, even if nothing seems to have changed.
    pub resync: Duration,
    /// Time for which this controller leaves a webhook configuration to a newer version of depguard, which the
    /// configuration's annotation names, before this controller writes its own.
    pub deference: Duration,
}

impl Config {
    /// Returns the defaults of the stock binary, with the webhook at this address.
    pub fn new(control_plane: ControlPlane, export_name: ExportName, webhook: WebhookTarget) -> Self {
        let namespace = match &webhook {
            WebhookTarget::Service { namespace, .. } => namespace.clone(),
            WebhookTarget::Url(_) => NAMESPACE.to_owned(),
        };
        Self {
            control_plane,
            export_name,
            allowance: Allowance::DEFAULT,
            memory_limit: None,
            kubeconfig: None,
            base_host: None,
            probe_addr: Some((Ipv6Addr::UNSPECIFIED, 8081).into()),
            metrics_addr: Some((Ipv6Addr::UNSPECIFIED, 8080).into()),
            read_through: ReadThrough::default(),
            webhook,
            ca_bundle_path: None,
            path_key: None,
            path_period: PathPeriod::LENGTH,
            enable: Features::default(),
            precreated_roles: false,
            vital_lock_kinds: BTreeSet::new(),
            lock_clean_after: CLEAN_AFTER,
            interlock_wait: INTERLOCK_WAIT,
            webhook_patience: Snapshot::PATIENCE,
            leader_election_namespace: match control_plane {
                ControlPlane::Kcp => NAMESPACE.to_owned(),
                ControlPlane::Kubernetes => namespace.clone(),
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
        control_plane: ControlPlane,
        export_name: ExportName,
        allowance: Allowance,
        memory_limit: Option<usize>,
        kubeconfig: Option<PathBuf>,
        base_host: Option<String>,
        probe_addr: Option<SocketAddr>,
        metrics_addr: Option<SocketAddr>,
        read_through: ReadThrough,
        webhook: WebhookTarget,
        ca_bundle_path: Option<PathBuf>,
        path_key: Option<PathBuf>,
        path_period: Duration,
        enable: Features,
        precreated_roles: bool,
        vital_lock_kinds: BTreeSet<VitalKind>,
        lock_clean_after: Duration,
        interlock_wait: Duration,
        webhook_patience: Duration,
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
