//! Events about refusals.

use std::sync::Arc;

use depguard_e2e::{Outcome, Stop, World, ensure, eventually};
use serde_json::Value;

use crate::deletion::{guarded, one_reference};

/// Has the deletion of an object refused again and again, and looks for the Event.
pub(crate) async fn told(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    one_reference(&world, &cast).await?;
    let events = format!("/apis/events.k8s.io/v1/namespaces/{}/events", consumer.namespace);
    let ours = async || -> Outcome<Vec<Value>> {
        let found = consumer.api.get(&events).await?.ok()?;
        let is_ours =
            |event: &&Value| event["reportingController"] == "dependencies.opendefense.cloud/depguard-webhook";
        Ok(found["items"].as_array().into_iter().flatten().filter(is_ours).cloned().collect())
    };
    let message = "cannot delete vpcs/a: still referenced by VirtualMachine/m1";
    for _ in 0..3 {
        consumer.refused(&world, &cast.vpc, "a", &[message]).await?;
    }
    let found = eventually("the refusal has an Event", world.patience(), async || {
        let found = ours().await?;
        if found.is_empty() { Err(Stop::failed("no Event")) } else { Ok(found) }
    })
    .await?;
    ensure(found.len() == 1, || format!("{} Events: {found:?}", found.len()))?;
    let event = &found[0];
    let about = &event["regarding"];
    let vpc = consumer.api.get(&consumer.object(&cast.vpc, "a")).await?.ok()?;
    let is_right = event["reason"] == "StillReferenced"
        && event["note"] == message
        && about["kind"] == cast.vpc.kind
        && about["name"] == "a"
        && about["uid"] == vpc["metadata"]["uid"];
    ensure(is_right, || format!("another Event: {event}"))
}
