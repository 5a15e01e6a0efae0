//! Command line: the deployment contract's commands. Without a command, the program plays.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::level_filters::LevelFilter;

use crate::platform::{Platform, connect, read_kubeconfig};
use crate::workspaces::Workspaces;
use crate::{Error, Result, access, guard, play, provider};

/// An openMCP cluster provider whose clusters are kcp workspaces. Without a command it plays all of itself, on API servers
/// in this process.
#[derive(Debug, Parser)]
#[command(name = "cluster-provider-example", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    servers: Servers,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring the provider's own CustomResourceDefinition to the platform cluster
    Init(Common),
    /// Reconcile Clusters and AccessRequests, and review deletions
    Run(RunArgs),
}

/// Addresses of the two API servers.
#[derive(Debug, Args)]
struct Servers {
    /// Kubeconfig of the platform cluster [default: KUBECONFIG, or the pod's own account; for the play, a testbed]
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Kubeconfig of the kcp workspace under which those of clusters are made [default: KCP_KUBECONFIG; for the play, a
    /// testbed]
    #[arg(long, global = true, value_name = "FILE")]
    kcp_kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Common {
    /// Name of the environment
    #[arg(long)]
    environment: String,

    /// Verbosity of the log
    #[arg(long, value_enum, default_value_t, ignore_case = true)]
    verbosity: Verbosity,

    /// Name of this provider's ClusterProvider
    #[arg(long)]
    provider_name: String,
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    common: Common,

    /// Leader election among replicas. This example has none: run one replica
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value_t = false)]
    leader_elect: bool,

    /// Lifetime of a kubeconfig's token in seconds, which kcp may shorten. The provider renews the token after four
    /// fifths of it
    // No API server grants less than ten minutes.
    #[arg(long, env = "TOKEN_LIFETIME", value_name = "SECONDS", default_value_t = access::LIFETIME.as_secs(),
        value_parser = clap::value_parser!(u64).range(600..))]
    token_lifetime: u64,

    /// Address on which the webhook listens
    #[arg(long, env = "WEBHOOK_LISTEN", value_name = "ADDRESS", default_value = "0.0.0.0:9443")]
    webhook_listen: SocketAddr,

    /// URL at which the platform cluster's API server reaches the webhook [default: https://POD_IP:<port>]
    #[arg(long, env = "WEBHOOK_URL", value_name = "URL")]
    webhook_url: Option<String>,

    /// Folder with the webhook's tls.crt and tls.key [default: a certificate made at each start]
    #[arg(long, env = "WEBHOOK_CERT_DIR", value_name = "FOLDER")]
    webhook_cert_dir: Option<PathBuf>,

    /// User who may delete an object that is still in use, such as openMCP's scheduler, if the object has the
    /// annotation dependencies.opendefense.cloud/skip-protection: "true"
    #[arg(long = "override-user", env = "OVERRIDE_USERS", value_name = "USER", value_delimiter = ',')]
    override_users: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
#[value(rename_all = "UPPER")]
enum Verbosity {
    Debug,
    #[default]
    Info,
    Error,
}

impl Cli {
    /// Does what the command line says.
    pub async fn run(self) -> Result<()> {
        let servers = self.servers;
        match self.command {
            None => play::play(servers.kubeconfig.as_deref(), servers.kcp_kubeconfig.as_deref()).await,
            Some(Command::Init(common)) => provider::init(&platform(&servers, &common).await?).await,
            Some(Command::Run(arguments)) => run(&servers, arguments).await,
        }
    }
}

async fn run(servers: &Servers, arguments: RunArgs) -> Result<()> {
    if arguments.leader_elect {
        let why = "this example has no leader election: set `runReplicas` of its ClusterProvider to 1";
        return Err(Error::Refused(why.to_owned()));
    }
    let platform = Arc::new(platform(servers, &arguments.common).await?);
    let kcp = servers.kcp_kubeconfig.clone().or_else(|| std::env::var_os("KCP_KUBECONFIG").map(PathBuf::from));
    let Some(kcp) = kcp else {
        let why = "no kcp is set: set `--kcp-kubeconfig` or KCP_KUBECONFIG to a kubeconfig of the workspace that is to hold \
             the clusters' workspaces";
        return Err(Error::Refused(why.to_owned()));
    };
    let workspaces = Arc::new(Workspaces::open(read_kubeconfig(Some(&kcp)).await?)?);
    let options = guard::Options {
        listen: arguments.webhook_listen,
        url: arguments.webhook_url.or_else(|| {
            let pod = std::env::var("POD_IP").ok()?;
            Some(format!("https://{}", SocketAddr::new(pod.parse().ok()?, arguments.webhook_listen.port())))
        }),
        certificate: arguments.webhook_cert_dir,
        overrides: arguments.override_users,
    };
    let stop = CancellationToken::new();
    let asked_to = stop.clone();
    tokio::spawn(async move {
        told_to_stop().await;
        asked_to.cancel();
    });
    let lifetime = Duration::from_secs(arguments.token_lifetime);
    provider::run(platform, workspaces, options, lifetime, stop).await
}

async fn platform(servers: &Servers, common: &Common) -> Result<Platform> {
    tracing_subscriber::fmt()
        .with_max_level(common.verbosity.level())
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    let config = read_kubeconfig(servers.kubeconfig.as_deref()).await?;
    Ok(Platform::new(connect(config)?, &common.provider_name, &common.environment))
}

async fn told_to_stop() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

impl Verbosity {
    fn level(self) -> LevelFilter {
        match self {
            Self::Debug => LevelFilter::DEBUG,
            Self::Info => LevelFilter::INFO,
            Self::Error => LevelFilter::ERROR,
        }
    }
}
