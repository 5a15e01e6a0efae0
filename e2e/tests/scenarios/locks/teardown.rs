//! Locks in a namespace that is being deleted.

use std::sync::Arc;

use depguard_e2e::locks::{Attempt, named};
use depguard_e2e::{Cast, Outcome, Stop, World, eventually};
use serde_json::json;

use super::guarded;
use crate::teardown::conditions;

/// Creates a locked machine, and returns the lock's path.
async fn locked(world: &World, cast: &Cast, during: &str) -> Outcome<String> {
    let consumer = &cast.consumer;
    consumer.create(&cast.vm, "m1", json!({})).await?;
    let lock = json!({"targets": [named(&cast.vm, "m1")], "reason": "kept", "duringTeardown": during});
    let lock = consumer.lock("kept", lock).await?;
    consumer.until_locked(world, &lock, &consumer.object(&cast.vm, "m1")).await?;
    Ok(lock)
}

pub(crate) async fn released(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    locked(&world, &cast, "Release").await?;
    let m1 = consumer.object(&cast.vm, "m1");
    consumer.locked(&world, &m1, &Attempt::Delete, &["Object is locked: kept"]).await?;
    consumer.api.delete(&consumer.namespace_path()).await?.ok()?;
    consumer.gone(&world, &consumer.namespace_path()).await
}

pub(crate) async fn held(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    let lock = locked(&world, &cast, "Hold").await?;
    consumer.api.delete(&consumer.namespace_path()).await?.ok()?;
    if world.is_control() {
        consumer.gone(&world, &consumer.namespace_path()).await?;
        return Err(Stop::ControlSeen);
    }
    eventually("the refusal shows on the namespace", world.patience(), async || {
        let said = conditions(&consumer.api.get(&consumer.namespace_path()).await?.ok()?);
        if said.contains("Object is locked") { Ok(()) } else { Err(Stop::Failed(said)) }
    })
    .await?;
    consumer.untouched(&cast.vm, "m1").await?;
    consumer.api.get(&lock).await?.ok()?;
    consumer.api.delete(&lock).await?.ok()?;
    consumer.gone(&world, &consumer.namespace_path()).await
}
