//! The command line of the binary.

use std::collections::BTreeSet;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use depguard_core::{ExportName, Home, OverridePolicy};

use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::config::Config;

/// Refuses to delete what is still referenced: the admission webhook of depguard
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    /// Where depguard runs
    #[arg(long, value_enum, default_value_t = HomeArg::Kcp)]
    home: HomeArg,

    /// depguard's own APIExport, in the workspace that the kubeconfig points to
    #[arg(long, value_name = "NAME", default_value = "dependencies.opendefense.cloud")]
    api_export_name: ExportName,

    /// Kubeconfig whose server ends in /clusters/<depguard's workspace> [default: KUBECONFIG, or the pod's own account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Base URL of kcp without a workspace [default: the kubeconfig's server]
    #[arg(long, value_name = "URL")]
    kcp_base_host: Option<String>,

    /// Port on which reviews are taken, over TLS
    #[arg(long, value_name = "PORT", default_value_t = 9443)]
    webhook_port: u16,

    /// Folder that holds tls.crt and tls.key; a changed pair is taken up within seconds
    #[arg(long, value_name = "DIR", default_value = "/etc/webhook-tls")]
    tls_cert_dir: PathBuf,

    /// Address of /healthz and /readyz; 0 = off
    #[arg(long, value_name = "ADDRESS", default_value = ":8081", value_parser = address)]
    health_probe_bind_address: Address,

    /// Which way dependents are read
    #[arg(long, value_enum, default_value_t = ReadThrough::FrontProxy, value_parser = read_through)]
    read_through: ReadThrough,

    /// Users who may delete what is still referenced, where it carries the annotation
    /// dependencies.opendefense.cloud/skip-protection: "true" (comma-separated; never the control plane)
    #[arg(long, value_name = "USERS", value_delimiter = ',')]
    override_users: Vec<String>,

    /// Groups whose members may do so (comma-separated; empty = nobody)
    #[arg(long, value_name = "GROUPS", value_delimiter = ',',
        default_values_t = OverridePolicy::DEFAULT_GROUPS.map(str::to_owned))]
    override_groups: Vec<String>,

    #[command(flatten)]
    zap: Zap,
}

/// The reference's logger flags.
#[derive(Debug, Args)]
#[group(id = "zap", multiple = true)]
struct Zap {
    /// Without effect, like the other --zap-* flags of the reference's logger: set RUST_LOG instead
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    zap_devel: Option<String>,
    #[arg(long, hide = true)]
    zap_encoder: Option<String>,
    #[arg(long, hide = true)]
    zap_log_level: Option<String>,
    #[arg(long, hide = true)]
    zap_stacktrace_level: Option<String>,
    #[arg(long, hide = true)]
    zap_time_encoding: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum HomeArg {
    /// A kcp: rules and objects in many workspaces
    Kcp,
    /// One plain Kubernetes cluster
    Kubernetes,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ReadThrough {
    /// {base}/clusters/{logical cluster}, with the right to read there
    FrontProxy,
}

/// Sends the log to standard error: `info` and above, or what `RUST_LOG` says.
pub fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

/// Done once the process is asked to end: by SIGTERM, or SIGINT.
pub async fn asked_to_stop() {
    let terminate = async {
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => {
                terminate.recv().await;
            }
            // Then only the other one is left.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = terminate => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// An address, or none.
#[derive(Debug, Clone, Copy)]
struct Address(Option<SocketAddr>);

impl Cli {
    /// Whether flags were given that have no effect, so that it can be said.
    pub fn has_zap_flags(&self) -> bool {
        let zap = &self.zap;
        let all = [&zap.zap_devel, &zap.zap_encoder, &zap.zap_log_level, &zap.zap_stacktrace_level];
        all.into_iter().chain([&zap.zap_time_encoding]).any(Option::is_some)
    }

    /// What the flags say.
    pub fn into_config(self) -> Config {
        // The one way to read so far.
        let ReadThrough::FrontProxy = self.read_through;
        let given = |list: Vec<String>| {
            list.into_iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect::<BTreeSet<_>>()
        };
        Config {
            home: match self.home {
                HomeArg::Kcp => Home::Kcp,
                HomeArg::Kubernetes => Home::Kubernetes,
            },
            export_name: self.api_export_name,
            kubeconfig: self.kubeconfig,
            base_host: self.kcp_base_host,
            review_addr: (Ipv6Addr::UNSPECIFIED, self.webhook_port).into(),
            probe_addr: self.health_probe_bind_address.0,
            tls_cert_dir: self.tls_cert_dir,
            overrides: OverridePolicy { users: given(self.override_users), groups: given(self.override_groups) },
            ..Config::default()
        }
    }
}

/// `:8081`, `127.0.0.1:8081`, `[::1]:8081`, or `0` for none.
fn address(text: &str) -> Result<Address, String> {
    if text.is_empty() || text == "0" {
        return Ok(Address(None));
    }
    let address = match text.strip_prefix(':') {
        Some(port) => port.parse().ok().map(|port: u16| (Ipv6Addr::UNSPECIFIED, port).into()),
        None => text.parse().ok(),
    };
    address.map(|address| Address(Some(address))).ok_or_else(|| {
        "write it as `:8081` (every address), `127.0.0.1:8081` or `[::1]:8081`, or `0` for none".to_owned()
    })
}

fn read_through(text: &str) -> Result<ReadThrough, String> {
    match text {
        "front-proxy" => Ok(ReadThrough::FrontProxy),
        "export" => Err("this release reads only through the front-proxy: leave the flag out".to_owned()),
        _ => Err("the only way in this release is `front-proxy`".to_owned()),
    }
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
            "--kubeconfig=/etc/kubeconfig",
            "--kcp-base-host",
            "https://kcp.example.com",
            "--webhook-port=443",
            "--tls-cert-dir=/tls",
            "--zap-devel",
            "--zap-devel=false",
            "--zap-log-level=debug",
        ]);
        // A repeated flag is an error, as a typing mistake would be.
        assert!(config.unwrap_err().contains("--zap-devel"));
        let config = parse(&[
            "--api-export-name=deps.example.com",
            "--health-probe-bind-address=127.0.0.1:9000",
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
        assert_eq!(config.kubeconfig.unwrap().to_str(), Some("/etc/kubeconfig"));
        assert_eq!(config.base_host.as_deref(), Some("https://kcp.example.com"));
        assert_eq!(config.review_addr.to_string(), "[::]:443");
        assert_eq!(config.tls_cert_dir.to_str(), Some("/tls"));
    }

    #[test]
    fn addresses_are_written_as_the_reference_writes_them() {
        for (text, address) in [
            (":8081", Some("[::]:8081")),
            ("0.0.0.0:8081", Some("0.0.0.0:8081")),
            ("[::1]:8081", Some("[::1]:8081")),
            ("0", None),
            ("", None),
        ] {
            let flag = format!("--health-probe-bind-address={text}");
            assert_eq!(parse(&[&flag]).unwrap().probe_addr.map(|a| a.to_string()).as_deref(), address, "{text}");
        }
        for text in ["8081", "localhost:8081", ":x", ":99999"] {
            let error = parse(&[&format!("--health-probe-bind-address={text}")]).unwrap_err();
            assert!(error.contains("write it as `:8081`"), "{text}: {error}");
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
    fn a_way_to_read_that_is_not_there_yet_is_said_to_be_so() {
        assert!(parse(&["--read-through=front-proxy"]).is_ok());
        let error = parse(&["--read-through=export"]).unwrap_err();
        assert!(error.contains("this release reads only through the front-proxy"), "{error}");
    }

    #[test]
    fn the_loggers_flags_of_the_reference_are_noticed() {
        let noticed =
            |flags: &[&str]| Cli::try_parse_from([&["depguard-webhook"], flags].concat()).unwrap().has_zap_flags();
        assert!(!noticed(&[]));
        assert!(noticed(&["--zap-devel"]) && noticed(&["--zap-time-encoding=epoch"]));
    }
}
