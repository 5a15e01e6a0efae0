//! Installation in kcp: depguard's workspaces, and the steps that `install` can't do.

use std::time::Duration;

use depguard_core::{LogicalCluster, WorkspacePath};
use depguard_kcp::Connection;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Args;
use super::apply::Applier;
use super::objects::{self, Item, Place, Workspaces};
use crate::cluster::resource_path::text;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;
use crate::options::DryRun;

const ITSELF: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(300);

/// Installs depguard, and returns the steps that are left to the user.
pub(super) async fn install(
    args: &Args,
    namespace: &str,
    applier: &mut Applier,
    terminal: &mut Terminal,
) -> Result<Vec<String>, Failure> {
    let own = &args.workspace;
    let cluster = match applier.targets.kcp.clone() {
        Some(kcp) => workspace(&kcp, own, applier, terminal).await?,
        None => None,
    };
    let workspaces = Workspaces {
        own: own.clone(),
        cluster: cluster.clone(),
        providers: args.provider.clone(),
        shards: applier.targets.shards.len(),
    };
    let items = objects::in_workspaces(&workspaces, args.read_through);
    if cluster.is_some() || applier.dry_run == Some(DryRun::Client) {
        applier.apply(&items, terminal).await?;
    }
    if args.has_processes() {
        let mut items = vec![objects::namespace(namespace)];
        super::adopt_namespace(applier, &mut items, terminal).await?;
        applier.apply(&items, terminal).await?;
        args.processes(depguard_core::ControlPlane::Kcp, namespace, applier, terminal).await?;
    }
    Ok(left(args, namespace, cluster.as_ref()))
}

/// Creates depguard's workspace if it doesn't exist, and returns its logical cluster; `None` if a dry run finds no
/// workspace.
async fn workspace(
    kcp: &Connection,
    own: &WorkspacePath,
    applier: &mut Applier,
    terminal: &mut Terminal,
) -> Result<Option<LogicalCluster>, Failure> {
    if let Some(cluster) = cluster_of(kcp, own).await? {
        return Ok(Some(cluster));
    }
    let nameless = || {
        Failure::new(format!("workspace {own} does not exist, and can't be created"))
            .hint("name one below an existing workspace, as in --workspace root:dep-ctrl")
    };
    let (parent, name) = own.as_str().rsplit_once(':').ok_or_else(nameless)?;
    let parent = WorkspacePath::parse(parent).map_err(|_| nameless())?;
    let object = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
    applier.apply(&[Item { place: Place::Workspace(parent), object }], terminal).await?;
    if applier.dry_run.is_some() {
        return Ok(None);
    }
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(cluster) = cluster_of(kcp, own).await? {
            return Ok(Some(cluster));
        }
        if Instant::now() >= end {
            return Err(Failure::new(format!("workspace {own} is not ready after {} s", PATIENCE.as_secs()))
                .hint("its conditions say why; then run this again"));
        }
        sleep(PAUSE).await;
    }
}

/// Returns the logical cluster of a workspace; `None` if the workspace doesn't exist or can't be read yet.
async fn cluster_of(kcp: &Connection, path: &WorkspacePath) -> Result<Option<LogicalCluster>, Failure> {
    let itself: Value = match kcp.workspace(path).get_json(ITSELF).await {
        Ok(itself) => itself,
        // kcp answers 403 for a workspace that doesn't exist.
        Err(why) if matches!(why.status(), Some(403 | 404)) => return Ok(None),
        Err(why) => return Err(Failure::new(why)),
    };
    let cluster = text(&itself, "/metadata/annotations/kcp.io~1cluster");
    LogicalCluster::parse(cluster).map(Some).map_err(|why| Failure::new(format!("workspace {path} names {why}")))
}

fn left(args: &Args, namespace: &str, cluster: Option<&LogicalCluster>) -> Vec<String> {
    let mut left = Vec::new();
    if cluster.is_none() && args.dry_run == Some(DryRun::Server) {
        left.push(format!("the objects of workspace {} were not tried: it does not exist yet", args.workspace));
    }
    if args.shard_kubeconfig.is_empty() {
        left.push(
            "not done: rights on the shards, which depguard needs to read there; name the shards' administrators with \
             --shard-kubeconfig, or apply the objects of --dry-run=client -o yaml to system:admin of each shard"
                .to_owned(),
        );
    }
    if args.provider.is_empty() {
        left.push(
            "not done: the providers' bindings, by which depguard reads their rules and protects their objects; name \
             the providers' workspaces with --provider"
                .to_owned(),
        );
    }
    if args.pods_kubeconfig.is_none() {
        left.push(
            "not done: the processes; name their cluster with --pods-kubeconfig, together with --image and \
             --webhook-url, or install the chart there"
                .to_owned(),
        );
    } else {
        left.push(format!(
            "not done: the processes' kubeconfigs for workspace {}; put them into the Secrets controller-kubeconfig \
             and webhook-kubeconfig of namespace {namespace} (see docs/install-kcp.md)",
            args.workspace
        ));
    }
    left
}
