//! Owners that are deleted and leave their objects.

use std::sync::Arc;

use depguard_e2e::{Outcome, World, ensure};
use serde_json::json;

use super::{create, pair, spec, started};

pub(crate) async fn orphaned(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = started(&world).await?;
    let consumer = &cast.consumer;
    let (owner, machine, vpc) = pair(&world, &cast, false).await?;
    // `kubectl delete --cascade=orphan` sends this option.
    consumer.api.delete_with(owner.path(), &json!({"propagationPolicy": "Orphan"})).await?.ok()?;
    owner.until_gone(&world).await?;
    for (kind, name, path) in [(&cast.vm, "m1", &machine), (&cast.vpc, "a", &vpc)] {
        consumer.untouched(kind, name).await?;
        let left = consumer.api.get(path).await?.ok()?;
        let references = left["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
        ensure(references == 0, || format!("it is still owned: {left}"))?;
    }
    Ok(())
}

pub(crate) async fn by_policy(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = started(&world).await?;
    let consumer = &cast.consumer;
    let machine = create(&world, &cast, &cast.vm, "m1", false, json!({})).await?;
    let mut spec = spec(&world, &[&cast.vm]);
    spec["deletionPolicy"] = json!("Orphan");
    let owner = world.own("policy", spec).await?;
    owner.until_adopted(&world, &machine).await?;
    owner.delete().await?;
    owner.until_gone(&world).await?;
    consumer.untouched(&cast.vm, "m1").await?;
    let left = consumer.api.get(&machine).await?.ok()?;
    let references = left["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
    ensure(references == 0, || format!("it is still owned: {left}"))
}
