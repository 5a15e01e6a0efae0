//! Flags and functions of the command line that both binaries share.

mod log;

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use depguard_core::interlock::Buckets;
use depguard_core::model::GroupResource;
use depguard_core::{ControlPlane, ExportName};
use tokio::signal::unix::{SignalKind, signal};

use crate::options::features::{Feature, Features};
use crate::watch::reflector::Allowance;

pub use self::log::{LogFormat, to_writer};

/// Flags that say where depguard runs and how it is reached.
#[derive(Debug, Args)]
pub struct Common {
    /// Control plane that depguard protects; --home is the same
    #[arg(long, alias = "home", value_enum, default_value_t)]
    pub control_plane: ControlPlaneArg,

    /// Name of depguard's APIExport, in the workspace of the kubeconfig
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

    /// Format of the log [default: text]; RUST_LOG sets the level, as in RUST_LOG=debug
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,

    #[command(flatten)]
    zap: Zap,
}

/// Flags that switch on what there is beside rules: the same for both binaries.
#[derive(Debug, Args)]
pub struct FeatureArgs {
    /// Features to enable beside rules (comma-separated); the same for the webhook and the controller
    #[arg(long, value_enum, value_name = "FEATURES", value_delimiter = ',')]
    enable: Vec<Feature>,

    /// Kinds that kotas.tech/v1 Locks protect, as in pods,deployments.apps (comma-separated); the same for the webhook
    /// and the controller; plain Kubernetes only
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    compat_lock_kinds: Vec<GroupResource>,

    /// Number of reference registers, by which the creation of a reference and the deletion of its target are interlocked
    /// where rules deny both; the same for the webhook and the controller; experimental; 0 = off
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1024))]
    reference_registers: u16,
}

/// Flags that say how much memory there is, and how much one tenant may have of what all share.
#[derive(Debug, Args)]
pub struct AllowanceArgs {
    /// Maximum number of rules, of APIBindings and of APIExports in one workspace or plain cluster, and of ObjectLocks
    /// in one namespace; with more rules, all rules of the workspace become invalid
    #[arg(long, value_name = "NUMBER", default_value_t = Allowance::DEFAULT.objects, value_parser = at_least_one)]
    workspace_max_objects: usize,

    /// Maximum memory for each of these, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Allowance::DEFAULT.memory >> 20, value_parser = at_least_one)]
    workspace_max_memory: usize,

    /// Memory that the program may take, as in 512Mi, at least 64Mi; whatever others send or store shares it [default: the
    /// memory limit of the program's cgroup, else 256Mi]
    #[arg(long, value_name = "QUANTITY", value_parser = memory)]
    pub memory_limit: Option<usize>,
}

/// The value of `--control-plane`.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum ControlPlaneArg {
    /// A kcp, with rules and objects in many workspaces
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
    /// No effect, like all --zap-* flags except --zap-encoder: set RUST_LOG instead
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    zap_devel: Option<String>,
    /// Same as --log-format, if json
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
                "the --zap-* flags except --zap-encoder have no effect: set RUST_LOG instead, as in RUST_LOG=debug"
            );
        }
    }

    fn log_format(&self) -> LogFormat {
        let meant = if self.zap.zap_encoder.as_deref() == Some("json") { LogFormat::Json } else { LogFormat::Text };
        self.log_format.unwrap_or(meant)
    }
}

impl AllowanceArgs {
    /// Allowance that the flags say.
    pub fn into_allowance(self) -> Allowance {
        let memory = self.workspace_max_memory.saturating_mul(1 << 20);
        Allowance { objects: self.workspace_max_objects, memory }
    }
}

impl FeatureArgs {
    /// Returns the features that the flags name.
    pub fn into_features(self) -> Features {
        let registers = Buckets::new(self.reference_registers);
        Features { registers, ..Features::new(self.enable, self.compat_lock_kinds) }
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

impl From<ControlPlaneArg> for ControlPlane {
    fn from(control_plane: ControlPlaneArg) -> Self {
        match control_plane {
            ControlPlaneArg::Kcp => Self::Kcp,
            ControlPlaneArg::Kubernetes => Self::Kubernetes,
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
            // Then only SIGINT is left.
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

/// Bytes, as Kubernetes writes a quantity of them: `268435456`, `256Mi` or `256M`.
fn memory(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "" => Some(1),
        "Ki" => Some(1 << 10),
        "Mi" => Some(1 << 20),
        "Gi" => Some(1 << 30),
        "k" => Some(1_000),
        "M" => Some(1_000_000),
        "G" => Some(1_000_000_000),
        _ => None,
    };
    let bytes = unit.and_then(|unit| digits.parse::<usize>().ok()?.checked_mul(unit));
    bytes.filter(|bytes| *bytes >= 64 << 20).ok_or_else(|| "write it as `256Mi` or `1Gi`, at least 64Mi".to_owned())
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
        // A repeated flag is an error, as any typing mistake is.
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
    fn memory_is_a_quantity_of_bytes_as_kubernetes_writes_it() {
        for (text, bytes) in [("67108864", 64 << 20), ("256Mi", 256 << 20), ("1Gi", 1 << 30), ("300M", 300_000_000)] {
            assert_eq!(memory(text), Ok(bytes), "{text}");
        }
        for text in ["", "Mi", "63Mi", "1.5Gi", "256MiB", "-1Gi", "99999999999Gi"] {
            assert!(memory(text).is_err(), "{text}");
        }
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
