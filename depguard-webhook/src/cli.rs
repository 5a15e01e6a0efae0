//! The command line of the binary.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use depguard_core::{OverridePolicy, parse_duration};
use depguard_kcp::cli::{AllowanceArgs, Common, FeatureArgs};
use depguard_kcp::{MirrorState, ReadThrough};

use crate::config::Config;

/// The shortest and the longest that stopping may take.
const SHUTDOWN: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(600);

/// Refuses to delete what is still referenced: the admission webhook of depguard
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    #[command(flatten)]
    common: Common,

    /// Port on which reviews are taken, over TLS
    #[arg(long, value_name = "PORT", default_value_t = 9443)]
    webhook_port: u16,

    /// Folder that holds tls.crt and tls.key; a changed pair is taken up within seconds
    #[arg(long, value_name = "DIR", default_value = "/etc/webhook-tls")]
    tls_cert_dir: PathBuf,

    /// PEM file of the authorities that have signed the certificates which API servers show: nobody else is let in; a
    /// changed file is taken up within seconds [default: anybody is let in]
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,

    /// File with the secret that signs the URLs which the controller installs, the same as the controller's: nothing
    /// else is answered then; of several lines each counts; a changed file is taken up within seconds
    #[arg(long, value_name = "FILE")]
    path_key_file: Option<PathBuf>,

    /// Which way dependents are read; home kcp only
    #[arg(long, value_enum, default_value_t)]
    read_through: ReadThrough,

    /// Hosts of shards that neither the kubeconfig nor depguard's own endpoints name (comma-separated, without ports;
    /// *.example.com is every host below): with --read-through export no others are asked
    #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
    shard_hosts: Vec<String>,

    /// How long reviews are still taken after a SIGTERM, while /readyz says that it is not ready: until no API server is
    /// sent here any more; up to half of --shutdown-grace
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = shutdown_delay)]
    shutdown_delay: Duration,

    /// How long it takes to end after a SIGTERM at most, that included; a pod's terminationGracePeriodSeconds must be
    /// more (1s to 10m)
    #[arg(long, value_name = "DURATION", default_value = "35s", value_parser = shutdown_grace)]
    shutdown_grace: Duration,

    /// Users who may delete what is still referenced, where it carries the annotation
    /// dependencies.opendefense.cloud/skip-protection: "true" (comma-separated; never the control plane)
    #[arg(long, value_name = "USERS", value_delimiter = ',')]
    override_users: Vec<String>,

    /// Groups whose members may do so (comma-separated; empty = nobody)
    #[arg(long, value_name = "GROUPS", value_delimiter = ',',
        default_values_t = OverridePolicy::DEFAULT_GROUPS.map(str::to_owned))]
    override_groups: Vec<String>,

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

    /// What the flags say.
    pub fn into_config(self) -> Config {
        let given = |list: Vec<String>| {
            list.into_iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect::<BTreeSet<_>>()
        };
        Config {
            home: self.common.home.into(),
            export_name: self.common.api_export_name,
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
            enable: self.features.into_features(),
            patience: MirrorState::PATIENCE,
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
    fn every_flag_of_the_reference_is_taken() {
        let config = parse(&[
            "--api-export-name=deps.example.com",
            "--health-probe-bind-address=127.0.0.1:9000",
            "--metrics-bind-address=0",
            "--kubeconfig=/etc/kubeconfig",
            "--kcp-base-host",
            "https://kcp.example.com",
            "--webhook-port=443",
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
