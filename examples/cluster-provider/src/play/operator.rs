//! Stand-in for the operator's controller, which prepares AccessRequests before a provider acts. The play has no
//! operator.

use serde_json::json;

use super::stage::Stage;
use crate::api::{
    AccessRequest, AccessRequests, ClusterProfiles, ClusterRequests, Clusters, PENDING, PROFILE, PROVIDER,
};
use crate::{Error, Result};

/// Finds the Cluster and its provider, writes both into the request, and makes the request pending. The operator does
/// this after the creation and after each change.
pub(super) async fn prepare(stage: &Stage, name: &str) -> Result<()> {
    let namespace = stage.namespace();
    let request = stage.there::<AccessRequests>(&namespace, name).await?;
    let cluster = match (&request.spec.cluster_ref, &request.spec.request_ref) {
        (Some(cluster), _) => Some(cluster.clone()),
        (None, Some(of)) => {
            let granted = stage.there::<ClusterRequests>(&of.namespace, &of.name).await?;
            granted.status.and_then(|status| status.cluster)
        }
        (None, None) => None,
    };
    let Some(reference) = cluster else {
        return Err(Error::Refused(format!("{} leads to no Cluster", request.shown())));
    };
    let cluster = stage.there::<Clusters>(&reference.namespace, &reference.name).await?;
    let profile = stage.there::<ClusterProfiles>("", &cluster.spec.profile).await?;
    let labels = json!({PROVIDER: profile.spec.provider_ref.name, PROFILE: profile.name()});
    let prepared = json!({"metadata": {"labels": labels}, "spec": {"clusterRef": reference}});
    write(stage, name, async |request| stage.platform.patch(&request, prepared.clone()).await).await?;
    write(stage, name, async |request| {
        let mut pending = request.status.clone().unwrap_or_default();
        pending.common.phase = PENDING.to_owned();
        pending.common.observed_generation = request.generation();
        stage.platform.report(&request, &pending).await
    })
    .await
}

/// Writes a request, and repeats the write after concurrent writes of others.
pub(super) async fn write(
    stage: &Stage,
    name: &str,
    mut attempt: impl AsyncFnMut(AccessRequest) -> Result<()>,
) -> Result<()> {
    let what = format!("AccessRequest `{name}` is written");
    stage
        .eventually(&what, async || {
            let request = stage.there::<AccessRequests>(&stage.namespace(), name).await?;
            match attempt(request).await {
                Err(error) if error.status() == Some(409) => Ok(None),
                written => written.map(Some),
            }
        })
        .await
}
