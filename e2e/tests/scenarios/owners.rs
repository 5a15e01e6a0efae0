//! Global owners: many objects under one owner, removed in a given order.

pub(crate) mod adopting;
pub(crate) mod many;
pub(crate) mod refusing;
pub(crate) mod releasing;
pub(crate) mod removing;

use std::sync::Arc;

use depguard_e2e::owners::Owner;
use depguard_e2e::{Cast, Depguard, Outcome, Resource, World, ensure};
use serde_json::{Value, json};

const HOLD: &str = "example.com/hold";

/// Creates the usual cast and starts depguard.
pub(crate) async fn started(world: &Arc<World>) -> Outcome<(Cast, Depguard)> {
    let cast = world.cast().await?;
    let depguard = Depguard::start(world).await?;
    Ok((cast, depguard))
}

/// Builds the spec of an owner of this world's objects of these kinds, in this order.
fn spec(world: &World, kinds: &[&Resource]) -> Value {
    let groups: Vec<Value> = kinds.iter().map(|kind| depguard_e2e::owners::group(kind)).collect();
    json!({"selector": {"matchLabels": {"adopt": world.id()}}, "childResources": groups})
}

/// Creates an object with the label by which the owner adopts it, and returns the object's path. A held object has a
/// finalizer.
async fn create(world: &World, cast: &Cast, kind: &Resource, name: &str, held: bool, spec: Value) -> Outcome<String> {
    let mut metadata = json!({"name": name, "labels": {"adopt": world.id()}});
    if held {
        metadata["finalizers"] = json!([HOLD]);
    }
    cast.consumer.create_with(kind, metadata, spec).await?;
    Ok(cast.consumer.object(kind, name))
}

/// Creates a machine `m1` and a VPC `a`, and an owner of both that removes the machine first; waits until both are
/// adopted. The machine may be held.
pub(crate) async fn pair(world: &World, cast: &Cast, held: bool) -> Outcome<(Owner, String, String)> {
    let machine = create(world, cast, &cast.vm, "m1", held, json!({"vpcRef": {"name": "a"}})).await?;
    let vpc = create(world, cast, &cast.vpc, "a", false, json!({})).await?;
    let owner = world.own("pair", spec(world, &[&cast.vm, &cast.vpc])).await?;
    owner.until_adopted(world, &machine).await?;
    owner.until_adopted(world, &vpc).await?;
    Ok((owner, machine, vpc))
}

/// Returns true if an object is being deleted.
pub(crate) async fn is_going(cast: &Cast, path: &str) -> Outcome<bool> {
    let object = cast.consumer.api.get(path).await?.ok()?;
    Ok(object["metadata"].get("deletionTimestamp").is_some())
}

/// Waits until an object is being deleted.
pub(crate) async fn until_going(world: &World, cast: &Cast, path: &str) -> Outcome {
    depguard_e2e::eventually("the object is on its way out", world.patience(), async || {
        ensure(is_going(cast, path).await?, || "not deleted yet".to_owned())
    })
    .await
}
