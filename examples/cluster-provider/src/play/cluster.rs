//! Act in which a Cluster becomes a workspace.

use super::profile::PROFILE;
use super::stage::{Stage, outline};
use crate::api::{
    Cluster, ClusterProfile, ClusterProfileSpec, ClusterProfiles, ClusterSpec, Clusters, K8S_VERSION, Kubernetes,
    LocalRef, PROVIDER, PROVIDER_INFO,
};
use crate::{Error, Result, profiles};

/// Name of the play's Cluster.
pub(super) const CLUSTER: &str = "blue";

/// Name of the Cluster of another provider's profile, and of that profile.
const FOREIGN: &str = "foreign";

pub(super) async fn act(stage: &Stage) -> Result<()> {
    becomes_workspace(stage).await?;
    has_a_version(stage).await?;
    leaves_others_alone(stage).await
}

async fn becomes_workspace(stage: &Stage) -> Result<()> {
    stage.title("a Cluster of that profile becomes a workspace in kcp");
    let spec = ClusterProfileSpec {
        provider_ref: LocalRef { name: FOREIGN.to_owned() },
        provider_config_ref: LocalRef { name: FOREIGN.to_owned() },
        ..ClusterProfileSpec::default()
    };
    stage.create(ClusterProfile::new(&stage.named(FOREIGN), spec)).await?;
    let mut foreign = cluster(stage, FOREIGN, "");
    foreign.spec.profile = stage.named(FOREIGN);
    stage.create(foreign).await?;
    stage.create(cluster(stage, CLUSTER, "1.36")).await?;
    let ready = stage.await_phase::<Clusters>(&stage.namespace(), CLUSTER, "Ready").await?;
    for key in [PROVIDER, K8S_VERSION] {
        stage.show(&format!("  label {key}: {}", ready.label(key).unwrap_or("none")));
    }
    stage.show(&format!("  annotation {PROVIDER_INFO}: {}", ready.annotation(PROVIDER_INFO).unwrap_or("none")));
    let status = ready.status.clone().unwrap_or_default();
    stage.show(&format!("  apiServer: {}", status.api_server));
    stage.show(&format!("  providerStatus: {}", outline(&status.provider_status)));
    let Some(workspace) = stage.workspaces.find(&ready).await? else {
        return Err(Error::Refused(format!("{} is ready, and has no workspace", ready.shown())));
    };
    let answer = stage.workspaces.client(&workspace)?.list_core_api_versions().await;
    answer.map_err(Error::api(format!("reach workspace `{}`", workspace.name)))?;
    Ok(())
}

async fn has_a_version(stage: &Stage) -> Result<()> {
    stage.title(
        "a deprecated version still works, and the condition says so; one that is not offered makes no workspace",
    );
    stage.create(cluster(stage, "old", "1.35")).await?;
    stage.await_phase::<Clusters>(&stage.namespace(), "old", "Ready").await?;
    stage.create(cluster(stage, "future", "9.9.9")).await?;
    let future =
        stage.await_reason::<Clusters>(&stage.namespace(), "future", "VersionSupported", "Unsupported").await?;
    match stage.workspaces.find(&future).await? {
        Some(workspace) => Err(Error::Refused(format!("there is a workspace `{}` all the same", workspace.name))),
        None => Ok(()),
    }
}

/// Shows that the foreign Cluster is untouched. Later Clusters are ready, so the provider had time for it.
async fn leaves_others_alone(stage: &Stage) -> Result<()> {
    stage.title("a Cluster of another provider's profile is left as it was made");
    let foreign = stage.there::<Clusters>(&stage.namespace(), FOREIGN).await?;
    let untouched = foreign.status.is_none() && foreign.finalizers().is_empty() && foreign.label(PROVIDER).is_none();
    if !untouched {
        return Err(Error::Refused(format!("{} was written to: {}", foreign.shown(), outline(&foreign))));
    }
    stage.show(&format!("{} has no finalizer, no label and no status", foreign.shown()));
    stage.delete::<Clusters>(&stage.namespace(), FOREIGN).await?;
    stage.await_gone::<Clusters>(&stage.namespace(), FOREIGN).await?;
    stage.delete::<ClusterProfiles>("", &stage.named(FOREIGN)).await
}

fn cluster(stage: &Stage, name: &str, version: &str) -> Cluster {
    let spec = ClusterSpec {
        profile: profiles::name_of(&stage.platform, PROFILE),
        kubernetes: Kubernetes { version: version.to_owned() },
        purposes: vec!["play".to_owned()],
        tenancy: "Exclusive".to_owned(),
    };
    let mut cluster = Cluster::new(name, spec);
    cluster.metadata.namespace = Some(stage.namespace());
    cluster
}
