//! Clusters, each of which becomes a workspace.

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

/// Interval of looking at kcp's progress, which kcp does not report here.
const SOON: Duration = Duration::from_secs(1);
/// Interval of checking if ready Clusters still are.
const LATER: Duration = Duration::from_secs(60);

/// Condition: the profile offers the version.
const VERSION: &str = "VersionSupported";
/// Condition: the workspace exists and answers.
const WORKSPACE: &str = "WorkspaceReady";

/// Context of a reconcile.
struct Context {
    platform: Arc<Platform>,
    workspaces: Arc<Workspaces>,
}

/// Reconciles Clusters until it is told to stop.
pub async fn run(platform: Arc<Platform>, workspaces: Arc<Workspaces>, stop: CancellationToken) {
    let controller = Controller::new(platform.all::<crate::api::Clusters>(), watcher::Config::default());
    let clusters = controller.store();
    // A new or changed profile matters to the Clusters that name it.
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
    // The label comes before the finalizer, so that a Cluster with the finalizer but without its profile shows whose it
    // is.
    if cluster.label(PROVIDER) != Some(platform.provider()) {
        platform.patch(&cluster, json!({"metadata": {"labels": {PROVIDER: platform.provider()}}})).await?;
        return Ok(Action::await_change());
    }
    if platform.hold(&cluster).await? {
        return Ok(Action::await_change());
    }
    set_up(platform, workspaces, &cluster, profile.as_ref()).await
}

/// Returns true if this provider must act. The profile decides. If the profile is gone, the label and finalizer that
/// this provider wrote on the Cluster decide.
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

    // An existing workspace stays as it is, whatever happened to its version.
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

/// Deletes the workspace once nobody else holds the Cluster. Releases the Cluster once the workspace is gone.
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
                info!("{}: the workspace is gone", cluster.shown());
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

/// Writes the addresses of the Cluster's API server into its status.
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

/// Writes the version's label and the annotation if they are new. Returns true if it wrote.
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
