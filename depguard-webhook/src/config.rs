//! What a webhook is started with.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use depguard_core::{ExportName, Home, OverridePolicy};
use depguard_kcp::{Allowance, Features, MirrorState, ReadThrough};

/// What a webhook is started with. `Default` is what the binary does without flags.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Where depguard runs.
    pub home: Home,
    /// depguard's own APIExport, in the workspace that the kubeconfig points to. Unused in home kubernetes.
    pub export_name: ExportName,
    /// What one workspace may have mirrored of each resource, or in home kubernetes the cluster: where there is more, its
    /// rules are not valid.
    pub allowance: Allowance,
    /// The kubeconfig; left out: `KUBECONFIG`, or the pod's own service account.
    pub kubeconfig: Option<PathBuf>,
    /// The base URL of kcp without a workspace; left out: the kubeconfig's.
    pub base_host: Option<String>,
    /// Which way dependents are read. In home kubernetes there is but the first.
    pub read_through: ReadThrough,
    /// The hosts of shards, where neither the base URL nor depguard's own endpoints name them: with
    /// [`ReadThrough::Export`], providers' endpoints are asked on no others. `*.example.com` is every host below.
    pub shard_hosts: Vec<String>,
    /// Where reviews are taken, over TLS. Port 0 is any free one.
    pub review_addr: SocketAddr,
    /// Where `/healthz` and `/readyz` are answered, if at all.
    pub probe_addr: Option<SocketAddr>,
    /// Where `/metrics` is answered, if at all.
    pub metrics_addr: Option<SocketAddr>,
    /// The folder that holds `tls.crt` and `tls.key`.
    pub tls_cert_dir: PathBuf,
    /// A PEM file of the authorities that have signed the API servers' own certificates, read again as it changes: nobody
    /// else is let in. Left out: anybody is.
    pub client_ca: Option<PathBuf>,
    /// What is answered beside rules, each at a path of its own: the same as the controller is started with.
    pub enable: Features,
    /// Who may delete what is still referenced.
    pub overrides: OverridePolicy,
    /// A file with the key by which the paths must be signed that are answered, read again as it changes. Left out: any
    /// caller is answered.
    pub path_key: Option<PathBuf>,
    /// How long rules are believed though nothing is heard of them. An API server that is well may say nothing for 35 s.
    pub patience: Duration,
    /// How long new reviews are still taken when it is told to stop, while `/readyz` says that it is not ready: it takes
    /// a moment until no API server is sent here any more. At most half of `shutdown_grace`.
    pub shutdown_delay: Duration,
    /// How long stopping takes at most, that included: then what is under way is broken off. No review takes longer
    /// than 30 s.
    pub shutdown_grace: Duration,
}

impl Config {
    depguard_kcp::builder_methods! {
        home: Home,
        export_name: ExportName,
        allowance: Allowance,
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
        overrides: OverridePolicy,
        path_key: Option<PathBuf>,
        patience: Duration,
        shutdown_delay: Duration,
        shutdown_grace: Duration,
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            home: Home::Kcp,
            export_name: default_export_name(),
            allowance: Allowance::DEFAULT,
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
            overrides: OverridePolicy::default(),
            path_key: None,
            patience: MirrorState::PATIENCE,
            shutdown_delay: Duration::from_secs(5),
            shutdown_grace: Duration::from_secs(35),
        }
    }
}

#[cfg_attr(not(test), expect(clippy::expect_used, reason = "a literal, and a test reads it"))]
fn default_export_name() -> ExportName {
    ExportName::parse("dependencies.opendefense.cloud").expect("a valid name")
}
