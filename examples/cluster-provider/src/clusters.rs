//! Clusters: a workspace each.

mod version;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_runtime::controller::Action;
use kube_runtime::reflector::ObjectRef;
use kube_runtime::{Controller, watcher};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::api::{
    Aspect, Cluster, ClusterProfile, ClusterProfiles, ClusterStatus, ENDPOINT_EXTERNAL, ENDPOINT_INTERNAL, Endpoint,
    FINALIZER, K8S_VERSION, PROVIDER, PROVIDER_INFO, Status,
};
use crate::platform::Platform;
use crate::workspaces::{Progress, Removal, Workspace, Workspaces};
use crate::{Result, reconcile};

/// How often to look at what kcp is doing: it tells nobody here.
const SOON: Duration = Duration::from_secs(1);
/// How often to look whether what was ready still is.
const LATER: Duration = Duration::from_secs(60);

/// Condition: the version is one that the profile offers.
const VERSION: &str = "VersionSupported";
/// Condition: the workspace is there and answers.
const WORKSPACE: &str = "WorkspaceReady";

/// What a reconcile works with.
struct Context {
    platform: Arc<Platform>,
    workspaces: Arc<Workspaces>,
}

/// Reconciles Clusters until told to stop.
pub async fn run(platform: Arc<Platform>, workspaces: Arc<Workspaces>, stop: CancellationToken) {
    let controller = Controller::new(platform.all::<crate::api::Clusters>(), watcher::Config::default());
    let clusters = controller.store();
    // A profile that comes or changes matters to the Clusters that name it.
    let controller = controller.watches(platform.all(), watcher::Config::default(), move |profile: ClusterProfile| {
        let named = clusters.state().into_iter().filter(|cluster| cluster.spec.profile == profile.name());
        named.map(|cluster| ObjectRef::from_obj(&*cluster)).collect::<Vec<_>>()
    });
    reconcile::run(controller, one, Arc::new(Context { platform, workspaces }), stop).await;
}

async fn one(cluster: Arc<Cluster>, context: Arc<Context>) -> Result<Action> {
    let Context { platform, workspaces } = &*context;
    if Platform::is_ignored(&*cluster) {
        return Ok(Action::await_change());
    }
    let profile = platform.find::<ClusterProfiles>("", &cluster.spec.profile).await?;
    if !is_own(platform, &cluster, profile.as_ref()) || platform.take_up(&cluster).await? {
        return Ok(Action::await_change());
    }
    if cluster.is_terminating() {
        return take_down(platform, workspaces, &cluster).await;
    }
    // Before the finalizer, so that whoever finds that without its profile knows whose it is.
    if cluster.label(PROVIDER) != Some(platform.provider()) {
        platform.patch(&cluster, json!({"metadata": {"labels": {PROVIDER: platform.provider()}}})).await?;
        return Ok(Action::await_change());
    }
    if platform.hold(&cluster).await? {
        return Ok(Action::await_change());
    }
    set_up(platform, workspaces, &cluster, profile.as_ref()).await
}

/// Whether this provider is the one to act: the profile says so. Where the profile is gone, what this provider wrote on the
/// Cluster while it was there.
fn is_own(platform: &Platform, cluster: &Cluster, profile: Option<&ClusterProfile>) -> bool {
    match profile {
        Some(profile) => profile.spec.provider_ref.name == platform.provider(),
        None => {
            cluster.label(PROVIDER) == Some(platform.provider()) && cluster.finalizers().iter().any(|f| f == FINALIZER)
        }
    }
}

async fn set_up(
    platform: &Platform,
    workspaces: &Workspaces,
    cluster: &Cluster,
    profile: Option<&ClusterProfile>,
) -> Result<Action> {
    let mut status = cluster.status.clone().unwrap_or_default();
    let choice = version::choose(&cluster.spec.kubernetes.version, profile);
    let words = choice.words(&cluster.spec.profile);
    let say = |status: &mut ClusterStatus, aspect| status.common.say(cluster.generation(), aspect);
    say(&mut status, Aspect { kind: VERSION, status: words.status, reason: words.reason, message: &words.message });

    // What is there already stays as it is, whatever became of its version.
    let progress = match (&choice, workspaces.find(cluster).await) {
        (_, Ok(Some(workspace))) => Ok(Progress::Ready(workspace)),
        (choice, Ok(None)) if choice.version().is_some() => workspaces.ensure(platform, cluster).await,
        (_, Ok(None)) => Ok(Progress::Making("no workspace is made without a version that is offered".to_owned())),
        (_, Err(error)) => Err(error),
    };
    let mut later = if choice.version().is_some() { Action::requeue(SOON) } else { Action::await_change() };
    match &progress {
        Ok(Progress::Ready(workspace)) => {
            let message = format!("workspace `{}` in logical cluster `{}`", workspace.name, workspace.logical_cluster);
            say(&mut status, Aspect { kind: WORKSPACE, status: Status::True, reason: "Ready", message: &message });
            tell(&mut status, workspace);
            later = Action::requeue(LATER);
        }
        Ok(Progress::Making(why)) => {
            let reason = if choice.version().is_some() { "Making" } else { "NoVersion" };
            say(&mut status, Aspect { kind: WORKSPACE, status: Status::False, reason, message: why });
        }
        Err(error) => {
            let why = error.in_full();
            say(&mut status, Aspect { kind: WORKSPACE, status: Status::False, reason: "KcpProblem", message: &why });
        }
    }
    status.common.conclude(cluster.generation(), false);
    if describe(platform, cluster, choice.version(), &progress).await? {
        return Ok(Action::await_change());
    }
    platform.report(cluster, &status).await?;
    progress.map(|_| later)
}

/// Deletes the workspace once nobody else holds the Cluster, and lets the Cluster go once the workspace is gone.
async fn take_down(platform: &Platform, workspaces: &Workspaces, cluster: &Cluster) -> Result<Action> {
    if !cluster.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
        return Ok(Action::await_change());
    }
    let others: Vec<_> = cluster.finalizers().iter().filter(|&finalizer| finalizer != FINALIZER).cloned().collect();
    let (reason, message, later, failure) = if !others.is_empty() {
        let message = format!("the workspace stays until these finalizers are gone: {}", others.join(", "));
        ("WaitingForFinalizers", message, Action::await_change(), None)
    } else {
        match workspaces.remove(cluster).await {
            Ok(Removal::Gone) => {
                platform.release(cluster).await?;
                info!("{}: its workspace is gone", cluster.shown());
                return Ok(Action::await_change());
            }
            Ok(Removal::Going(why)) => ("Deleting", why, Action::requeue(SOON), None),
            Err(error) => ("KcpProblem", error.in_full(), Action::requeue(SOON), Some(error)),
        }
    };
    let mut status = cluster.status.clone().unwrap_or_default();
    status
        .common
        .say(cluster.generation(), Aspect { kind: WORKSPACE, status: Status::False, reason, message: &message });
    status.common.conclude(cluster.generation(), true);
    platform.report(cluster, &status).await?;
    failure.map_or(Ok(later), Err)
}

/// Where the Cluster's API server is.
fn tell(status: &mut ClusterStatus, workspace: &Workspace) {
    let endpoint = |name: &str, url: &str| Endpoint { name: name.to_owned(), url: url.to_owned() };
    status.api_server = workspace.url.clone();
    status.endpoints =
        vec![endpoint(ENDPOINT_EXTERNAL, &workspace.url), endpoint(ENDPOINT_INTERNAL, &workspace.internal_url)];
    status.provider_status = Some(BTreeMap::from([
        ("workspace".to_owned(), json!(workspace.name)),
        ("logicalCluster".to_owned(), json!(workspace.logical_cluster)),
    ]));
}

/// Writes the version's label and the annotation, where they say something new. Whether they did.
async fn describe(
    platform: &Platform,
    cluster: &Cluster,
    version: Option<&str>,
    progress: &Result<Progress>,
) -> Result<bool> {
    let version = version.filter(|version| cluster.label(K8S_VERSION) != Some(*version));
    let info = match progress {
        Ok(Progress::Ready(workspace)) => Some(format!("kcp workspace {}", workspace.name)),
        _ => None,
    };
    let info = info.filter(|info| cluster.annotation(PROVIDER_INFO) != Some(info));
    if version.is_none() && info.is_none() {
        return Ok(false);
    }
    let mut patch = json!({"metadata": {"labels": {}, "annotations": {}}});
    if let Some(version) = version {
        patch["metadata"]["labels"][K8S_VERSION] = json!(version);
    }
    if let Some(info) = info {
        patch["metadata"]["annotations"][PROVIDER_INFO] = json!(info);
    }
    platform.patch(cluster, patch).await?;
    Ok(true)
}
