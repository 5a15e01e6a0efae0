//! What the command lines of both binaries have in common.

mod log;

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use depguard_core::{ExportName, GroupResource, Home};
use tokio::signal::unix::{SignalKind, signal};

use crate::features::{Feature, Features};
use crate::mirror::Allowance;

pub use self::log::{LogFormat, to_writer};

/// Flags that say where depguard runs and how it is reached.
#[derive(Debug, Args)]
pub struct Common {
    /// Where depguard runs
    #[arg(long, value_enum, default_value_t)]
    pub home: HomeArg,

    /// depguard's own APIExport, in the workspace that the kubeconfig points to
    #[arg(long, value_name = "NAME", default_value = "dependencies.opendefense.cloud")]
    pub api_export_name: ExportName,

    /// Kubeconfig whose server ends in /clusters/<depguard's workspace> [default: KUBECONFIG, or the pod's own account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Base URL of kcp without a workspace [default: the kubeconfig's server]
    #[arg(long, value_name = "URL")]
    pub kcp_base_host: Option<String>,

    /// Address of /healthz and /readyz; 0 = off
    #[arg(long, value_name = "ADDRESS", default_value = ":8081", value_parser = address)]
    pub health_probe_bind_address: Address,

    /// Address of /metrics; 0 = off
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", value_parser = address)]
    pub metrics_bind_address: Address,

    /// How the log is written [default: text]; RUST_LOG says what, as in RUST_LOG=debug
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,

    #[command(flatten)]
    zap: Zap,
}

/// Flags that switch on what there is beside rules: the same for both binaries.
#[derive(Debug, Args)]
pub struct FeatureArgs {
    /// What is switched on beside rules (comma-separated), at the webhook and the controller alike
    #[arg(long, value_enum, value_name = "FEATURES", value_delimiter = ',')]
    enable: Vec<Feature>,

    /// The kinds that kotas.tech/v1 Locks guard, as in pods,deployments.apps (comma-separated), at the webhook and the
    /// controller alike; home kubernetes only
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    compat_lock_kinds: Vec<GroupResource>,
}

/// Flags that say how much one tenant may have of what all share: the same for both binaries.
#[derive(Debug, Args)]
pub struct AllowanceArgs {
    /// The most rules, APIBindings and APIExports each that are held of one workspace, or of a plain cluster, and the most
    /// ObjectLocks of one namespace. Where there are more rules, none of them is valid
    #[arg(long, value_name = "NUMBER", default_value_t = Allowance::DEFAULT.objects, value_parser = at_least_one)]
    workspace_max_objects: usize,

    /// The most memory that each of these may take, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Allowance::DEFAULT.memory >> 20, value_parser = at_least_one)]
    workspace_max_memory: usize,
}

/// The value of `--home`.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum HomeArg {
    /// A kcp: rules and objects in many workspaces
    #[default]
    Kcp,
    /// One plain Kubernetes cluster
    Kubernetes,
}

/// An address, or none.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Address(pub Option<SocketAddr>);

/// The reference's logger flags.
#[derive(Debug, Args)]
#[group(id = "zap", multiple = true)]
struct Zap {
    /// Without effect, like the other --zap-* flags of the reference's logger but --zap-encoder: set RUST_LOG instead
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    zap_devel: Option<String>,
    /// json: the same as --log-format=json
    #[arg(long, hide = true)]
    zap_encoder: Option<String>,
    #[arg(long, hide = true)]
    zap_log_level: Option<String>,
    #[arg(long, hide = true)]
    zap_stacktrace_level: Option<String>,
    #[arg(long, hide = true)]
    zap_time_encoding: Option<String>,
}

impl Common {
    /// Sends the log to standard error: `info` and above, or what `RUST_LOG` says.
    pub fn log(&self) {
        log::to_standard_error(self.log_format());
        if self.zap.is_in_vain() {
            tracing::warn!(
                "the --zap-* flags have no effect here, but for --zap-encoder: set RUST_LOG instead, as in RUST_LOG=debug"
            );
        }
    }

    fn log_format(&self) -> LogFormat {
        let meant = if self.zap.zap_encoder.as_deref() == Some("json") { LogFormat::Json } else { LogFormat::Text };
        self.log_format.unwrap_or(meant)
    }
}

impl AllowanceArgs {
    /// What they say.
    pub fn into_allowance(self) -> Allowance {
        let memory = self.workspace_max_memory.saturating_mul(1 << 20);
        Allowance { objects: self.workspace_max_objects, memory }
    }
}

impl FeatureArgs {
    /// What they say.
    pub fn into_features(self) -> Features {
        Features::new(self.enable, self.compat_lock_kinds)
    }
}

impl Zap {
    fn is_in_vain(&self) -> bool {
        let first = [&self.zap_devel, &self.zap_log_level, &self.zap_stacktrace_level];
        let others = first.into_iter().chain([&self.zap_time_encoding]);
        let encoder = self.zap_encoder.as_deref().is_some_and(|encoder| !matches!(encoder, "json" | "console"));
        encoder || others.into_iter().any(Option::is_some)
    }
}

impl From<HomeArg> for Home {
    fn from(home: HomeArg) -> Self {
        match home {
            HomeArg::Kcp => Self::Kcp,
            HomeArg::Kubernetes => Self::Kubernetes,
        }
    }
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

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "write a whole number, at least 1".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        common: Common,
    }

    fn parse(flags: &[&str]) -> Result<Common, String> {
        let cli = Cli::try_parse_from([&["depguard"], flags].concat());
        cli.map(|cli| cli.common).map_err(|why| why.to_string())
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
            let parsed = parse(&[&format!("--health-probe-bind-address={text}")]).unwrap();
            let Address(parsed) = parsed.health_probe_bind_address;
            assert_eq!(parsed.map(|a| a.to_string()).as_deref(), address, "{text}");
        }
        for text in ["8081", "localhost:8081", ":x", ":99999"] {
            let error = parse(&[&format!("--health-probe-bind-address={text}")]).unwrap_err();
            assert!(error.contains("write it as `:8081`"), "{text}: {error}");
        }
    }

    #[test]
    fn the_loggers_flags_of_the_reference_are_noticed() {
        let noticed = |flags: &[&str]| parse(flags).unwrap().zap.is_in_vain();
        assert!(!noticed(&[]) && !noticed(&["--zap-encoder=json"]) && !noticed(&["--zap-encoder=console"]));
        assert!(noticed(&["--zap-devel"]) && noticed(&["--zap-time-encoding=epoch"]));
        assert!(noticed(&["--zap-encoder=toml"]) && noticed(&["--zap-devel=false", "--zap-log-level", "debug"]));
        // A repeated flag is an error, as a typing mistake would be.
        assert!(parse(&["--zap-devel", "--zap-devel=false"]).unwrap_err().contains("--zap-devel"));
    }

    #[test]
    fn the_log_is_text_unless_json_is_asked_for_in_either_way() {
        let format = |flags: &[&str]| parse(flags).unwrap().log_format();
        assert_eq!(format(&[]), LogFormat::Text);
        assert_eq!(format(&["--log-format=json"]), LogFormat::Json);
        assert_eq!(format(&["--zap-encoder=json"]), LogFormat::Json);
        assert_eq!(format(&["--zap-encoder=json", "--log-format=text"]), LogFormat::Text);
        assert!(parse(&["--log-format=xml"]).is_err());
    }

    #[test]
    fn features_are_told_by_name_and_kinds_as_they_are_printed() {
        #[derive(Debug, Parser)]
        struct Cli {
            #[command(flatten)]
            features: FeatureArgs,
        }
        let parse = |flags: &[&str]| Cli::try_parse_from([&["depguard"], flags].concat());
        let features = |flags: &[&str]| parse(flags).unwrap().features.into_features();
        assert_eq!(features(&[]), Features::default());
        let all = features(&["--enable=locks,owners", "--compat-lock-kinds=pods,deployments.apps"]);
        assert!(all.locks && all.owners);
        let kinds: Vec<_> = all.compat_lock_kinds.iter().map(ToString::to_string).collect();
        assert_eq!(kinds, ["pods", "deployments.apps"]);
        assert!(parse(&["--enable=rules"]).is_err());
        assert!(parse(&["--compat-lock-kinds=pods/scale"]).is_err());
    }
}
