//! Playground: a plain cluster for trying depguard without a cluster: `cargo run --example playground`.
//!
//! It has the kinds of [docs/guide.md](../../docs/guide.md), and depguard, and no rules yet.

#[path = "../quickstart/running.rs"]
mod running;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use depguard_controller::manifests;
use depguard_core::ControlPlane;
use depguard_kcp::{ConnectOptions, Connection, Endpoint, Feature, Features};
use depguard_testbed::Testbed;
use serde_json::{Value, json};

use crate::running::Running;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Time limit until the API server serves a kind.
const PATIENCE: Duration = Duration::from_secs(60);

/// Run a plain cluster with depguard in it until Ctrl-C.
#[derive(Debug, Parser)]
struct Options {
    /// Folder for the kubeconfig and the webhook's files.
    #[arg(long, default_value = "target/playground")]
    folder: PathBuf,
    /// Kubeconfig of an empty API server on this machine, to use instead of the testbed.
    #[arg(long)]
    on: Option<PathBuf>,
    /// Features to enable beside rules (comma-separated).
    #[arg(long, value_enum, value_delimiter = ',')]
    enable: Vec<Feature>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    std::fs::create_dir_all(&options.folder)?;
    let kubeconfig = options.folder.join("kubeconfig");
    let testbed = start(options.on.as_deref(), &kubeconfig).await?;

    let cluster = connect(&kubeconfig).await?;
    println!("the API server listens on {}", cluster.url());
    let enable = Features::new(options.enable, []);
    prepare(&cluster, &enable).await?;
    let running = Running::start(&options.folder, ControlPlane::Kubernetes, &kubeconfig, enable).await?;
    println!("ready until Ctrl-C; in another terminal: export KUBECONFIG={}", kubeconfig.display());

    tokio::signal::ctrl_c().await?;
    running.stop().await;
    if let Some(testbed) = testbed {
        testbed.stop().await;
    }
    Ok(())
}

/// Starts an API server where there is none, and writes the kubeconfig.
async fn start(on: Option<&Path>, kubeconfig: &Path) -> Result<Option<Testbed>> {
    if let Some(on) = on {
        std::fs::copy(on, kubeconfig)?;
        return Ok(None);
    }
    let options = depguard_testbed::Options::kubernetes();
    let testbed = Testbed::start(options).await?;
    std::fs::write(kubeconfig, testbed.kubeconfig("", "admin"))?;
    Ok(Some(testbed))
}

async fn connect(kubeconfig: &Path) -> Result<Endpoint> {
    let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(kubeconfig.to_owned());
    Ok(Connection::open(&options).await?.own_endpoint())
}

/// The kinds, depguard's and the guide's, and depguard's namespace with what it tries the webhook by.
async fn prepare(cluster: &Endpoint, enable: &Features) -> Result<()> {
    let mut crds = vec![manifests::crd()];
    if enable.locks {
        crds.extend(manifests::lock_crds());
    }
    if enable.owners {
        crds.extend(manifests::owner_crds());
    }
    crds.extend(serde_saphyr::from_multiple::<Value>(include_str!("../guide/crds.yaml"))?);
    for crd in &crds {
        cluster.post_json("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await?;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": manifests::NAMESPACE}});
    cluster.post_json("/api/v1/namespaces", &namespace).await?;
    let canaries = format!("/api/v1/namespaces/{}/configmaps", manifests::NAMESPACE);
    cluster.post_json(&canaries, &manifests::canary()).await?;
    for crd in &crds {
        let text = |pointer| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = (text("/spec/group"), text("/spec/versions/0/name"));
        served(cluster, &format!("/apis/{group}/{version}/{}", text("/spec/names/plural"))).await?;
    }
    Ok(())
}

/// Waits until a collection can be listed.
async fn served(cluster: &Endpoint, collection: &str) -> Result<()> {
    let begun = Instant::now();
    while let Err(error) = cluster.list_json(collection).await {
        if begun.elapsed() > PATIENCE {
            return Err(format!("the API server does not serve {collection}: {error}").into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
