//! Home kcp: the workspaces, and what can't be done from here.

use std::time::Duration;

use depguard_core::{LogicalCluster, WorkspacePath};
use depguard_kcp::Connection;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Args;
use super::address::text;
use super::apply::Applier;
use super::objects::{self, Item, Place, Workspaces};
use crate::cli::DryRun;
use crate::outcome::Failure;
use crate::terminal::Terminal;

const ITSELF: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(300);

/// Installs, and gives what is left to do.
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
        args.processes(depguard_core::Home::Kcp, namespace, applier, terminal).await?;
    }
    Ok(left(args, namespace, cluster.as_ref()))
}

/// Makes depguard's workspace where it is not there, and gives its logical cluster. `None`: in a dry run it is not there.
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
        Failure::new(format!("there is no workspace {own}, and it can't be made"))
            .hint("name one below a workspace that is there, as in --workspace root:dep-ctrl")
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

/// `None`: there is no such workspace, or nothing can be read there yet.
async fn cluster_of(kcp: &Connection, path: &WorkspacePath) -> Result<Option<LogicalCluster>, Failure> {
    let itself: Value = match kcp.workspace(path).get_json(ITSELF).await {
        Ok(itself) => itself,
        // kcp says 403 of what is not there.
        Err(why) if matches!(why.status(), Some(403 | 404)) => return Ok(None),
        Err(why) => return Err(Failure::new(why)),
    };
    let cluster = text(&itself, "/metadata/annotations/kcp.io~1cluster");
    LogicalCluster::parse(cluster).map(Some).map_err(|why| Failure::new(format!("workspace {path} names {why}")))
}

fn left(args: &Args, namespace: &str, cluster: Option<&LogicalCluster>) -> Vec<String> {
    let mut left = Vec::new();
    if cluster.is_none() && args.dry_run == Some(DryRun::Server) {
        left.push(format!("what would be made in workspace {} was not tried: it is not there yet", args.workspace));
    }
    if args.shard_kubeconfig.is_empty() {
        left.push(
            "not done: the rights on each shard, without which nothing can be read there: name the shards' \
             administrators by --shard-kubeconfig, or apply to system:admin of each what --dry-run=client -o yaml prints"
                .to_owned(),
        );
    }
    if args.provider.is_empty() {
        left.push(
            "not done: the bindings of providers, by which depguard reads their rules and protects their objects: name \
             their workspaces by --provider"
                .to_owned(),
        );
    }
    if args.pods_kubeconfig.is_none() {
        left.push(
            "not done: the processes: name the cluster in which they are to run by --pods-kubeconfig, with --image and \
             --webhook-url, or install the chart there"
                .to_owned(),
        );
    } else {
        left.push(format!(
            "not done: the processes' kubeconfigs for workspace {}, which must be in the Secrets controller-kubeconfig \
             and webhook-kubeconfig of namespace {namespace}: docs/install-kcp.md",
            args.workspace
        ));
    }
    left
}
