//! Act in which objects in use can't be deleted, and the refusal names their users.

use super::cluster::CLUSTER;
use super::profile::PROFILE;
use super::stage::Stage;
use crate::api::{
    AccessRequest, AccessRequestSpec, AccessRequests, ClusterProfiles, ClusterRequest, ClusterRequestSpec,
    ClusterRequestStatus, ClusterRequests, Clusters, Common, GRANTED, Kind, ObjectRef, TokenConfig,
};
use crate::{Error, Result, guard, profiles};

/// Names of a request that was given the play's Cluster, and of the access by it.
const REQUEST: &str = "wanted";
const USER: &str = "ci";

pub(super) async fn act(stage: &Stage) -> Result<()> {
    stage.title("what is still in use can't be deleted: the provider's webhook names who uses it");
    let (namespace, profile) = (stage.namespace(), profiles::name_of(&stage.platform, PROFILE));
    refused::<ClusterProfiles>(stage, "", &profile, &format!("Cluster/{namespace}/{CLUSTER}")).await?;
    request(stage).await?;
    access(stage).await?;
    refused::<Clusters>(stage, &namespace, CLUSTER, &format!("ClusterRequest/{REQUEST}")).await?;
    refused::<ClusterRequests>(stage, &namespace, REQUEST, &format!("AccessRequest/{USER}")).await?;

    stage.title("in order everything goes: first who has access, then the request");
    stage.delete::<AccessRequests>(&namespace, USER).await?;
    stage.await_gone::<AccessRequests>(&namespace, USER).await?;
    stage.delete::<ClusterRequests>(&namespace, REQUEST).await?;
    stage.await_gone::<ClusterRequests>(&namespace, REQUEST).await
}

/// Tries to delete an object that must stay: first as dry runs, until the webhook is there.
async fn refused<K: Kind>(stage: &Stage, namespace: &str, name: &str, by: &str) -> Result<()> {
    let object = stage.there::<K>(namespace, name).await?;
    let webhook = format!("admission webhook \"{}\" denied the request: ", guard::webhook_name(&stage.platform));
    // The user may be one among others.
    let is_meant = |error: &Error| {
        let said = error.in_full();
        said.contains(&webhook) && said.split([' ', ',']).any(|word| word == by)
    };
    let what = format!("{} is kept for {by}", object.shown());
    stage
        .eventually(&what, async || match stage.try_deletion(&object, true).await {
            Ok(()) => Ok(None),
            Err(error) if is_meant(&error) => Ok(Some(())),
            Err(error) => Err(error),
        })
        .await?;
    match stage.try_deletion(&object, false).await {
        Err(error) if is_meant(&error) => stage.show(&error.in_full()),
        Err(error) => return Err(error),
        Ok(()) => return Err(Error::Refused(format!("{} was deleted, though {by} uses it", object.shown()))),
    }
    Ok(())
}

/// Creates a request that was given the Cluster, as openMCP's scheduler leaves it.
async fn request(stage: &Stage) -> Result<()> {
    let mut request = ClusterRequest::new(REQUEST, ClusterRequestSpec { purpose: "play".to_owned() });
    request.metadata.namespace = Some(stage.namespace());
    stage.create(request).await?;
    let request = stage.there::<ClusterRequests>(&stage.namespace(), REQUEST).await?;
    let common = Common { observed_generation: request.generation(), phase: GRANTED.to_owned(), ..Common::default() };
    let cluster = ObjectRef { name: CLUSTER.to_owned(), namespace: stage.namespace() };
    stage.platform.report(&request, &ClusterRequestStatus { common, cluster: Some(cluster) }).await
}

/// Creates an access by that request. It has no labels yet, so no provider acts on it.
async fn access(stage: &Stage) -> Result<()> {
    let by = ObjectRef { name: REQUEST.to_owned(), namespace: stage.namespace() };
    let token = Some(TokenConfig::default());
    let spec = AccessRequestSpec { request_ref: Some(by), token, ..AccessRequestSpec::default() };
    let mut access = AccessRequest::new(USER, spec);
    access.metadata.namespace = Some(stage.namespace());
    stage.create(access).await
}
