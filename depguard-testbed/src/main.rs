//! Runs a testbed until Ctrl-C and says where its kubeconfig is.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use depguard_testbed::{Kind, Options, Testbed};

/// An API server that plays kcp or Kubernetes, in memory.
#[derive(Parser)]
struct Arguments {
    /// Control plane to play.
    #[arg(long, value_enum, default_value = "kcp")]
    kind: Play,
    /// Port on 127.0.0.1; 0 for any free port.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// File for the admin's kubeconfig [default: a new file in the temporary folder].
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Play {
    Kcp,
    Kubernetes,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let (kind, cluster) = match arguments.kind {
        Play::Kcp => (Kind::Kcp, "root"),
        Play::Kubernetes => (Kind::Kubernetes, ""),
    };
    let testbed = Testbed::start(Options::new(kind).port(arguments.port)).await?;
    let default = || std::env::temp_dir().join(format!("depguard-testbed-{}.kubeconfig", std::process::id()));
    let path = arguments.kubeconfig.unwrap_or_else(default);
    std::fs::write(&path, testbed.kubeconfig(cluster, "admin"))?;
    println!("{}", path.display());
    tokio::signal::ctrl_c().await?;
    testbed.stop().await;
    Ok(())
}
