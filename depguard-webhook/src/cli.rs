//! The command line of the binary.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use depguard_core::model::{Namespace, parse_duration};
use depguard_core::{ControlPlane, OverridePolicy};
use depguard_kcp::cli::{AllowanceArgs, Common, FeatureArgs};
use depguard_kcp::{PathPeriod, ReadThrough, RegisterKeySecret, Snapshot};

use crate::config::Config;

/// The shortest and the longest that stopping may take.
const SHUTDOWN: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(600);

/// Admission webhook of depguard: refuses to delete objects that are still referenced
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    #[command(flatten)]
    common: Common,

    /// TLS port for reviews
    #[arg(long, value_name = "PORT", default_value_t = 9443)]
    webhook_port: u16,

    /// Folder with tls.crt and tls.key; the webhook uses a changed pair within seconds
    #[arg(long, value_name = "DIR", default_value = "/etc/webhook-tls")]
    tls_cert_dir: PathBuf,

    /// PEM file of the authorities that sign the API servers' client certificates; the webhook rejects all other
    /// clients, and uses a changed file within seconds [default: all clients may connect]
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,

    /// File with the secret that signs the URLs which the controller installs, the same as the controller's; each line
    /// is one key; the webhook answers only at signed URLs, and uses a changed file within seconds
    #[arg(long, value_name = "FILE")]
    path_key_file: Option<PathBuf>,

    /// Base URL of an OpenTelemetry collector, as in http://collector:4318, to which traces of reviews are posted as
    /// OTLP/JSON [default: no traces]
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,

    /// Way to read dependents; kcp only
    #[arg(long, value_enum, default_value_t)]
    read_through: ReadThrough,

    /// Hosts of shards that neither the kubeconfig nor depguard's own endpoints name (comma-separated, without ports;
    /// *.example.com is every host below); --read-through export asks no other hosts
    #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
    shard_hosts: Vec<String>,

    /// Time after a SIGTERM in which the webhook still takes reviews while /readyz fails, until no API server is routed
    /// here; at most half of --shutdown-grace
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = shutdown_delay)]
    shutdown_delay: Duration,

    /// Maximum time from a SIGTERM to the end, with --shutdown-delay (1s to 10m); a pod's terminationGracePeriodSeconds
    /// must be longer
    #[arg(long, value_name = "DURATION", default_value = "35s", value_parser = shutdown_grace)]
    shutdown_grace: Duration,

    /// Users who may delete objects that are still referenced, if the object has the annotation
    /// dependencies.opendefense.cloud/skip-protection: "true" (comma-separated; never the control plane)
    #[arg(long, value_name = "USERS", value_delimiter = ',')]
    override_users: Vec<String>,

    /// Groups whose members may do the same (comma-separated; empty = nobody)
    #[arg(long, value_name = "GROUPS", value_delimiter = ',',
        default_values_t = OverridePolicy::DEFAULT_GROUPS.map(str::to_owned))]
    override_groups: Vec<String>,

    /// Namespace of depguard itself, in which the controller makes the key of the reference registers; plain Kubernetes
    /// only [default: depguard-system]
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE")]
    namespace: Option<Namespace>,

    #[command(flatten)]
    allowance: AllowanceArgs,

    #[command(flatten)]
    features: FeatureArgs,
}

impl Cli {
    /// Begins to log.
    pub fn log(&self) {
        self.common.log();
    }

    /// Returns the configuration that the flags describe.
    pub fn into_config(self) -> Config {
        let given = |list: Vec<String>| {
            list.into_iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect::<BTreeSet<_>>()
        };
        let control_plane = self.common.control_plane.into();
        let own = self.namespace.filter(|_| control_plane == ControlPlane::Kubernetes);
        Config {
            control_plane,
            export_name: self.common.api_export_name,
            memory_limit: self.allowance.memory_limit,
            allowance: self.allowance.into_allowance(),
            kubeconfig: self.common.kubeconfig,
            base_host: self.common.kcp_base_host,
            read_through: self.read_through,
            shard_hosts: given(self.shard_hosts).into_iter().collect(),
            review_addr: (Ipv6Addr::UNSPECIFIED, self.webhook_port).into(),
            probe_addr: self.common.health_probe_bind_address.0,
            metrics_addr: self.common.metrics_bind_address.0,
            tls_cert_dir: self.tls_cert_dir,
            client_ca: self.client_ca,
            path_key: self.path_key_file,
            path_period: PathPeriod::LENGTH,
            otlp_endpoint: self.otlp_endpoint,
            enable: self.features.into_features(),
            namespace: own.map_or(RegisterKeySecret::NAMESPACE.to_owned(), |own| own.to_string()),
            patience: Snapshot::PATIENCE,
            shutdown_delay: self.shutdown_delay,
            shutdown_grace: self.shutdown_grace,
            overrides: OverridePolicy { users: given(self.override_users), groups: given(self.override_groups) },
        }
    }
}

fn shutdown_delay(text: &str) -> Result<Duration, String> {
    if text == "0" || text == "0s" { Ok(Duration::ZERO) } else { shutdown_grace(text) }
}

fn shutdown_grace(text: &str) -> Result<Duration, String> {
    let in_range = |duration: &Duration| SHUTDOWN.contains(duration);
    parse_duration(text).filter(in_range).ok_or_else(|| "write it as `35s` or `1m30s`, between 1s and 10m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> Result<Config, String> {
        let cli = Cli::try_parse_from([&["depguard-webhook"], flags].concat());
        cli.map(Cli::into_config).map_err(|why| why.to_string())
    }

    #[test]
    fn without_flags_it_is_what_the_library_does_by_itself() {
        assert_eq!(format!("{:?}", parse(&[]).unwrap()), format!("{:?}", Config::default()));
    }

    #[test]
    fn home_is_an_alias_of_control_plane() {
        assert_eq!(parse(&["--home=kubernetes"]).unwrap().control_plane, depguard_core::ControlPlane::Kubernetes);
    }

    #[test]
    fn every_flag_of_the_reference_is_taken() {
        let config = parse(&[
            "--api-export-name=deps.example.com",
            "--health-probe-bind-address=127.0.0.1:9000",
            "--metrics-bind-address=0",
            "--kubeconfig=/etc/kubeconfig",
            "--kcp-base-host",
            "https://kcp.example.com",
            "--webhook-port=443",
            "--otlp-endpoint=http://collector:4318",
            "--tls-cert-dir=/tls",
            "--zap-devel",
            "--zap-encoder=json",
            "--zap-log-level",
            "debug",
            "--zap-stacktrace-level=error",
            "--zap-time-encoding=iso8601",
        ])
        .unwrap();
        assert_eq!(config.export_name.as_str(), "deps.example.com");
        assert_eq!(config.probe_addr.unwrap().to_string(), "127.0.0.1:9000");
        assert_eq!(config.metrics_addr, None);
        assert_eq!(config.kubeconfig.unwrap().to_str(), Some("/etc/kubeconfig"));
        assert_eq!(config.base_host.as_deref(), Some("https://kcp.example.com"));
        assert_eq!(config.review_addr.to_string(), "[::]:443");
        assert_eq!(config.tls_cert_dir.to_str(), Some("/tls"));
        assert_eq!(config.otlp_endpoint.as_deref(), Some("http://collector:4318"));
    }

    #[test]
    fn stopping_takes_between_a_second_and_ten_minutes() {
        let config = parse(&["--shutdown-grace=1m30s", "--shutdown-delay=0"]).unwrap();
        assert_eq!((config.shutdown_delay, config.shutdown_grace), (Duration::ZERO, Duration::from_secs(90)));
        for flag in ["--shutdown-grace=0s", "--shutdown-grace=999ms", "--shutdown-grace=601s", "--shutdown-grace=35"] {
            assert!(parse(&[flag]).unwrap_err().contains("between 1s and 10m"), "{flag}");
        }
    }

    #[test]
    fn who_may_override_is_a_comma_list_and_can_be_nobody() {
        let groups = |flags: &[&str]| parse(flags).unwrap().overrides.groups.into_iter().collect::<Vec<_>>();
        assert_eq!(groups(&[]), ["system:kcp:admin", "system:masters"]);
        assert_eq!(groups(&["--override-groups=ops, sre"]), ["ops", "sre"]);
        assert!(groups(&["--override-groups="]).is_empty());
        let users = parse(&["--override-users=alice,bob"]).unwrap().overrides.users;
        assert_eq!(users.into_iter().collect::<Vec<_>>(), ["alice", "bob"]);
    }

    #[test]
    fn what_a_workspace_may_have_is_a_number_and_an_amount() {
        let allowance = parse(&["--workspace-max-objects=5000", "--workspace-max-memory=64"]).unwrap().allowance;
        assert_eq!((allowance.objects, allowance.memory), (5000, 64 << 20));
        assert!(parse(&["--workspace-max-objects=0"]).unwrap_err().contains("at least 1"));
    }

    #[test]
    fn what_is_enabled_is_told_by_name() {
        let config = parse(&["--enable=locks,owners", "--compat-lock-kinds=pods,deployments.apps"]).unwrap();
        assert!(config.enable.locks && config.enable.owners);
        assert_eq!(config.enable.compat_lock_kinds.len(), 2);
        assert!(parse(&["--enable=rules"]).unwrap_err().contains("locks, owners"));
    }

    #[test]
    fn the_way_to_read_is_one_of_two() {
        assert_eq!(parse(&[]).unwrap().read_through, ReadThrough::FrontProxy);
        assert_eq!(parse(&["--read-through=front-proxy"]).unwrap().read_through, ReadThrough::FrontProxy);
        assert_eq!(parse(&["--read-through=export"]).unwrap().read_through, ReadThrough::Export);
        let error = parse(&["--read-through=cache"]).unwrap_err();
        assert!(error.contains("front-proxy, export"), "{error}");
        assert_eq!(parse(&["--shard-hosts=a.test, *.b.test,"]).unwrap().shard_hosts, ["*.b.test", "a.test"]);
    }
}
