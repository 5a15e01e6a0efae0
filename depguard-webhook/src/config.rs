//! Configuration of a webhook.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use depguard_core::{ControlPlane, ExportName, OverridePolicy};
use depguard_kcp::{Allowance, Features, PathPeriod, ReadThrough, RegisterKeySecret, Snapshot};

/// Settings of a webhook. `Default` has the settings of the binary without flags.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Control plane on which depguard runs.
    pub control_plane: ControlPlane,
    /// APIExport of depguard, in the workspace that the kubeconfig names. Unused in plain Kubernetes.
    pub export_name: ExportName,
    /// Limit of the objects that are watched of each resource of one workspace, or in plain Kubernetes of the cluster.
    /// Beyond this limit, the rules of that workspace or cluster are not valid.
    pub allowance: Allowance,
    /// Memory that the process may take, in bytes. Left out: the memory limit of its cgroup, else 256 MiB.
    pub memory_limit: Option<usize>,
    /// Path of the kubeconfig. Left out: the file that `KUBECONFIG` names, or the pod's own service account.
    pub kubeconfig: Option<PathBuf>,
    /// Base URL of kcp without a workspace. Left out: the URL in the kubeconfig.
    pub base_host: Option<String>,
    /// Way in which dependents are read. Plain Kubernetes has only the first way.
    pub read_through: ReadThrough,
    /// Hosts of shards that neither the base URL nor depguard's own endpoints name. With [`ReadThrough::Export`],
    /// providers' endpoints on other hosts are not asked. `*.example.com` is every host below.
    pub shard_hosts: Vec<String>,
    /// Address of reviews, over TLS. Port 0 is any free one.
    pub review_addr: SocketAddr,
    /// Address of `/healthz` and `/readyz`, if they are answered at all.
    pub probe_addr: Option<SocketAddr>,
    /// Address of `/metrics`, if it is answered at all.
    pub metrics_addr: Option<SocketAddr>,
    /// Folder with `tls.crt` and `tls.key`.
    pub tls_cert_dir: PathBuf,
    /// PEM file of the authorities that have signed the API servers' own certificates, read again when it changes:
    /// nobody else is let in. Left out: anybody is let in.
    pub client_ca: Option<PathBuf>,
    /// Features beside rules, each answered at a path of its own: the same as the controller is started with.
    pub enable: Features,
    /// depguard's own namespace, in kcp that of its own workspace: the controller makes the key of the reference registers
    /// there.
    pub namespace: String,
    /// Users who may delete objects that are still referenced.
    pub overrides: OverridePolicy,
    /// File with the key that must have signed the paths of requests, read again when it changes. Left out: any caller
    /// is answered.
    pub path_key: Option<PathBuf>,
    /// Time for which one key signs paths with a generation of reference registers; the same as the controller's.
    #[doc(hidden)]
    pub path_period: Duration,
    /// Base URL of a collector of OpenTelemetry, as in `http://collector:4318`: traces of reviews are posted to
    /// `/v1/traces` below. Left out: there are no traces.
    pub otlp_endpoint: Option<String>,
    /// Time for which rules are believed though depguard hears nothing of them. A healthy API server may say nothing
    /// for 35 s.
    pub patience: Duration,
    /// Time for which new reviews are still taken after the webhook was told to stop, while `/readyz` says that it is
    /// not ready: it takes a moment until no API server sends requests here any more. At most half of `shutdown_grace`.
    pub shutdown_delay: Duration,
    /// Maximum time that stopping takes, with the delay: then all remaining work is broken off. No review takes longer
    /// than 30 s.
    pub shutdown_grace: Duration,
}

impl Config {
    depguard_kcp::builder_methods! {
        control_plane: ControlPlane,
        export_name: ExportName,
        allowance: Allowance,
        memory_limit: Option<usize>,
        kubeconfig: Option<PathBuf>,
        base_host: Option<String>,
        read_through: ReadThrough,
        shard_hosts: Vec<String>,
        review_addr: SocketAddr,
        probe_addr: Option<SocketAddr>,
        metrics_addr: Option<SocketAddr>,
        tls_cert_dir: PathBuf,
        client_ca: Option<PathBuf>,
        enable: Features,
        namespace: String,
        overrides: OverridePolicy,
        path_key: Option<PathBuf>,
        path_period: Duration,
        otlp_endpoint: Option<String>,
        patience: Duration,
        shutdown_delay: Duration,
        shutdown_grace: Duration,
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            control_plane: ControlPlane::Kcp,
            export_name: default_export_name(),
            allowance: Allowance::DEFAULT,
            memory_limit: None,
            kubeconfig: None,
            base_host: None,
            read_through: ReadThrough::default(),
            shard_hosts: Vec::new(),
            review_addr: (Ipv6Addr::UNSPECIFIED, 9443).into(),
            probe_addr: Some((Ipv6Addr::UNSPECIFIED, 8081).into()),
            metrics_addr: Some((Ipv6Addr::UNSPECIFIED, 8080).into()),
            tls_cert_dir: PathBuf::from("/etc/webhook-tls"),
            client_ca: None,
            enable: Features::default(),
            namespace: RegisterKeySecret::NAMESPACE.to_owned(),
            overrides: OverridePolicy::default(),
            path_key: None,
            path_period: PathPeriod::LENGTH,
            otlp_endpoint: None,
            patience: Snapshot::PATIENCE,
            shutdown_delay: Duration::from_secs(5),
            shutdown_grace: Duration::from_secs(35),
        }
    }
}

#[cfg_attr(not(test), expect(clippy::expect_used, reason = "a literal, and a test reads it"))]
fn default_export_name() -> ExportName {
    ExportName::parse("dependencies.opendefense.cloud").expect("a valid name")
}
