//! Act in which everything is deleted, in order.

use serde_json::json;

use super::cluster::CLUSTER;
use super::profile::{CONFIG, PROFILE};
use super::stage::Stage;
use crate::api::{ClusterProfiles, Clusters, FINALIZER, REQUEST_FINALIZER_PREFIX, WorkspaceProviderConfigs};
use crate::workspaces::Removal;
use crate::{Error, Result, profiles};

pub(super) async fn act(stage: &Stage) -> Result<()> {
    waits_for_requests(stage).await?;
    stage.title("Clusters go with their workspaces, then the configuration with its profiles");
    for name in [CLUSTER, "old", "future"] {
        let cluster = stage.there::<Clusters>(&stage.namespace(), name).await?;
        if !cluster.is_terminating() {
            stage.delete::<Clusters>(&stage.namespace(), name).await?;
        } else {
            stage.platform.patch(&cluster, json!({"metadata": {"finalizers": [FINALIZER]}})).await?;
            stage.show(&format!("{} is no longer held by a request", cluster.shown()));
        }
        stage.await_gone::<Clusters>(&stage.namespace(), name).await?;
        if stage.workspaces.remove(&cluster).await? != Removal::Gone {
            return Err(Error::Refused(format!("{} is gone, and its workspace is not", cluster.shown())));
        }
    }
    let profile = profiles::name_of(&stage.platform, PROFILE);
    stage.await_gone::<ClusterProfiles>("", &profile).await?;
    stage.delete::<WorkspaceProviderConfigs>("", &stage.named(CONFIG)).await?;
    stage.await_gone::<WorkspaceProviderConfigs>("", &stage.named(CONFIG)).await?;
    match stage.platform.find::<ClusterProfiles>("", &profiles::name_of(&stage.platform, "spare")).await? {
        Some(profile) => Err(Error::Refused(format!("{} is still there", profile.shown()))),
        None => Ok(()),
    }
}

/// Shows that a request's finalizer holds a workspace. The scheduler marks a Cluster by a finalizer for each
/// ClusterRequest that was given the Cluster.
async fn waits_for_requests(stage: &Stage) -> Result<()> {
    stage.title("while a request's finalizer is on a Cluster, its workspace stays");
    let cluster = stage.there::<Clusters>(&stage.namespace(), CLUSTER).await?;
    let request = format!("{REQUEST_FINALIZER_PREFIX}7b6f");
    stage.platform.patch(&cluster, json!({"metadata": {"finalizers": [FINALIZER, request]}})).await?;
    stage.delete::<Clusters>(&stage.namespace(), CLUSTER).await?;
    let held =
        stage.await_reason::<Clusters>(&stage.namespace(), CLUSTER, "WorkspaceReady", "WaitingForFinalizers").await?;
    match stage.workspaces.find(&held).await? {
        Some(_) => Ok(()),
        None => Err(Error::Refused(format!("the workspace of {} is gone or going already", held.shown()))),
    }
}
