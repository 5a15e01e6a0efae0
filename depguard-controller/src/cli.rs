//! The command line of the stock binary.

use std::error::Error;
use std::io::Write;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::{fs, io};

use clap::{Args, Parser, Subcommand, ValueEnum};
use depguard_core::{ExportName, Home};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::{Config, Controller, WebhookTarget, WebhookTargetError, manifests};

/// Resolves DependencyRules, installs webhook configurations, reports status: the controller of depguard
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Run,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the objects that an API server needs before depguard can run on it
    Manifests(Manifests),
}

#[derive(Debug, Args)]
struct Run {
    /// Where depguard runs
    #[arg(long, value_enum, default_value_t)]
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

    /// URL at which API servers reach the webhook: https://host:9443/validate
    #[arg(long, value_name = "URL", default_value = "")]
    webhook_url: String,

    /// Service at which API servers reach the webhook, instead of a URL; home kubernetes only
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]")]
    webhook_service: Option<String>,

    /// PEM file of the certificates by which API servers know the webhook; a changed file is taken up within seconds
    /// [default: the API servers' own roots]
    #[arg(long, value_name = "FILE")]
    webhook_ca_bundle_path: Option<PathBuf>,

    /// Address of /healthz and /readyz; 0 = off
    #[arg(long, value_name = "ADDRESS", default_value = ":8081", value_parser = address)]
    health_probe_bind_address: Address,

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

#[derive(Debug, Args)]
struct Manifests {
    /// Where depguard runs
    #[arg(long, value_enum, default_value_t)]
    home: HomeArg,

    /// Workspace of depguard's APIExport, to which providers' APIBindings refer
    #[arg(long, value_name = "PATH", default_value = manifests::DEP_CTRL_PATH)]
    dep_ctrl_path: String,

    /// Write a file each into this folder, instead of printing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum HomeArg {
    /// A kcp: rules and objects in many workspaces
    #[default]
    Kcp,
    /// One plain Kubernetes cluster
    Kubernetes,
}

/// An address, or none.
#[derive(Debug, Clone, Copy)]
struct Address(Option<SocketAddr>);

impl Cli {
    /// Does what the command line says; runs until the process is asked to end.
    pub async fn run(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        if let Some(Command::Manifests(arguments)) = self.command {
            return arguments.run();
        }
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
        if self.run.zap.is_given() {
            tracing::warn!("the --zap-* flags have no effect here: set RUST_LOG instead, as in RUST_LOG=debug");
        }
        let controller = Controller::start(self.run.into_config()?).await?;
        tracing::info!(probes = ?controller.probe_addr(), "started");
        asked_to_stop().await;
        tracing::info!("stopping: what is installed stays installed");
        controller.stop().await;
        Ok(())
    }
}

impl Run {
    fn into_config(self) -> Result<Config, WebhookTargetError> {
        let webhook = match self.webhook_service {
            Some(_) if !self.webhook_url.is_empty() => return Err(WebhookTargetError::Both),
            Some(service) => service.parse()?,
            None => WebhookTarget::Url(self.webhook_url),
        };
        Ok(Config {
            kubeconfig: self.kubeconfig,
            base_host: self.kcp_base_host,
            probe_addr: self.health_probe_bind_address.0,
            ca_bundle_path: self.webhook_ca_bundle_path.filter(|path| !path.as_os_str().is_empty()),
            ..Config::new(self.home.into(), self.api_export_name, webhook)
        })
    }
}

impl Zap {
    fn is_given(&self) -> bool {
        let first = [&self.zap_devel, &self.zap_encoder, &self.zap_log_level];
        first.into_iter().chain([&self.zap_stacktrace_level, &self.zap_time_encoding]).any(Option::is_some)
    }
}

impl Manifests {
    fn run(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let files = manifests::files(self.home.into(), &self.dep_ctrl_path)?;
        let Some(folder) = self.out else {
            let texts: Vec<_> = files.into_iter().map(|file| file.text).collect();
            return Ok(io::stdout().write_all(texts.join("---\n").as_bytes())?);
        };
        fs::create_dir_all(&folder)?;
        for file in files {
            fs::write(folder.join(file.name), file.text)?;
        }
        Ok(())
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
async fn asked_to_stop() {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> Result<Config, String> {
        let cli = Cli::try_parse_from([&["depguard-controller"], flags].concat()).map_err(|why| why.to_string())?;
        cli.run.into_config().map_err(|why| why.to_string())
    }

    #[test]
    fn every_flag_of_the_reference_is_taken() {
        let config = parse(&[
            "--api-export-name=deps.example.com",
            "--health-probe-bind-address=:9000",
            "--kubeconfig=/etc/kubeconfig",
            "--kcp-base-host=https://kcp.example.com",
            "--webhook-url=https://webhook.example.com/validate",
            "--webhook-ca-bundle-path=/tls/ca.crt",
            "--zap-devel",
            "--zap-encoder=json",
            "--zap-log-level",
            "debug",
            "--zap-stacktrace-level=error",
            "--zap-time-encoding=iso8601",
        ])
        .unwrap();
        assert_eq!(config.home, Home::Kcp);
        assert_eq!(config.export_name.as_str(), "deps.example.com");
        assert_eq!(config.probe_addr.unwrap().to_string(), "[::]:9000");
        assert_eq!(config.kubeconfig.unwrap().to_str(), Some("/etc/kubeconfig"));
        assert_eq!(config.base_host.as_deref(), Some("https://kcp.example.com"));
        assert_eq!(config.webhook, WebhookTarget::Url("https://webhook.example.com/validate".to_owned()));
        assert_eq!(config.ca_bundle_path.unwrap().to_str(), Some("/tls/ca.crt"));
    }

    #[test]
    fn without_a_webhook_it_says_what_to_give() {
        for (home, flag) in [("kcp", "--webhook-url https"), ("kubernetes", "--webhook-service namespace/name")] {
            let config = parse(&[&format!("--home={home}")]).unwrap();
            let error = config.webhook.check(config.home).unwrap_err().to_string();
            assert!(error.contains(flag), "{error}");
        }
        assert!(parse(&["--webhook-service=a/b", "--webhook-url=https://c"]).unwrap_err().contains("leave one out"));
        assert!(parse(&["--home=kubernetes", "--webhook-service=a/b:9443"]).is_ok());
    }

    #[test]
    fn a_probe_address_may_be_off() {
        assert_eq!(parse(&["--health-probe-bind-address=0"]).unwrap().probe_addr, None);
        assert!(parse(&["--health-probe-bind-address=8081"]).unwrap_err().contains("write it as `:8081`"));
    }

    #[test]
    fn manifests_take_their_own_flags_only() {
        assert!(Cli::try_parse_from(["depguard-controller", "manifests", "--home", "kubernetes"]).is_ok());
        assert!(Cli::try_parse_from(["depguard-controller", "--webhook-url=https://a", "manifests"]).is_err());
    }
}
