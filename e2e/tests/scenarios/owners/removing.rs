//! Removal of an owner's objects, in order.

use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::{Outcome, World, ensure};
use serde_json::{Value, json};

use super::{create, is_going, pair, spec, started, until_going};

pub(crate) async fn in_order(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = started(&world).await?;
    let consumer = &cast.consumer;
    let (owner, machine, vpc) = pair(&world, &cast, true).await?;
    let finalizers = |object: &Value| object["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
    let adopted = consumer.api.get(&vpc).await?.ok()?;
    ensure(finalizers(&adopted) == 0, || format!("a finalizer is on an owned object: {adopted}"))?;
    owner.delete().await?;
    until_going(&world, &cast, &machine).await?;
    // A finalizer holds the machine. The VPC waits for the machine, and the owner's status says so.
    let status = owner
        .until(&world, "the status shows the wave", |status| {
            status["wave"] == 1 && status["remaining"].as_u64().is_some_and(|left| left > 0)
        })
        .await?;
    ensure(status["metadata"].get("deletionTimestamp").is_some(), || format!("{status}"))?;
    ensure(!is_going(&cast, &vpc).await?, || "the second group has begun before the first is gone".to_owned())?;
    consumer.release(&cast.vm, "m1").await?;
    consumer.gone(&world, &machine).await?;
    consumer.gone(&world, &vpc).await?;
    owner.until_gone(&world).await
}

pub(crate) async fn by_rules(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = started(&world).await?;
    let consumer = &cast.consumer;
    world.add_rule(&cast.compute, &rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")])).await?;
    let machine = create(&world, &cast, &cast.vm, "m1", true, json!({"vpcRef": {"name": "a"}})).await?;
    let vpc = create(&world, &cast, &cast.vpc, "a", false, json!({})).await?;
    // The kinds are listed in the wrong order.
    let mut spec = spec(&world, &[&cast.vpc, &cast.vm]);
    spec["order"] = json!("ByRules");
    let owner = world.own("by-rules", spec).await?;
    owner.until_adopted(&world, &machine).await?;
    owner.until_adopted(&world, &vpc).await?;
    let planned = |status: &Value| {
        let plan = status["plan"].as_array().cloned().unwrap_or_default();
        let of = |wave: usize| plan.get(wave).map(|wave| wave["groups"].to_string()).unwrap_or_default();
        plan.len() == 2 && of(0).contains(&cast.vm.plural) && of(1).contains(&cast.vpc.plural)
    };
    owner.until(&world, "the plan is the rules' order", planned).await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;
    owner.delete().await?;
    until_going(&world, &cast, &machine).await?;
    ensure(!is_going(&cast, &vpc).await?, || "the VPC goes before the machine that uses it".to_owned())?;
    consumer.release(&cast.vm, "m1").await?;
    consumer.gone(&world, &vpc).await?;
    owner.until_gone(&world).await
}

pub(crate) async fn stuck(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = started(&world).await?;
    let consumer = &cast.consumer;
    world.add_rule(&cast.compute, &rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")])).await?;
    let vpc = create(&world, &cast, &cast.vpc, "a", false, json!({})).await?;
    // A machine that the owner does not own uses the VPC.
    consumer.create_dependent(&cast.vm, "theirs", "a").await?;
    let region = create(&world, &cast, &cast.region, &format!("{}-north", world.id()), false, json!({})).await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;
    let owner = world.own("stuck", spec(&world, &[&cast.vpc, &cast.region])).await?;
    owner.until_adopted(&world, &vpc).await?;
    owner.until_adopted(&world, &region).await?;
    owner.delete().await?;
    let denial = "still referenced by VirtualMachine/theirs";
    let says_why = |status: &Value| {
        let stuck = status["stuck"].as_array().cloned().unwrap_or_default();
        stuck.iter().any(|one| one["name"] == "a" && one["message"].as_str().is_some_and(|why| why.contains(denial)))
    };
    let stuck = owner.until(&world, "the status says what is stuck", says_why).await?;
    depguard_e2e::eventually("an event says so", world.patience(), async || {
        let events = world.own_cluster().get("/api/v1/events").await?.ok()?;
        let mut events = events["items"].as_array().cloned().unwrap_or_default();
        events.retain(|event| event["involvedObject"]["uid"] == stuck["metadata"]["uid"]);
        let told = |event: &Value| event["message"].as_str().is_some_and(|message| message.contains(denial));
        ensure(events.iter().any(told), || format!("{events:?}"))
    })
    .await?;
    ensure(!is_going(&cast, &region).await?, || "the second group has begun before the first is gone".to_owned())?;
    // Once that machine goes, the VPC goes, too.
    consumer.delete(&world, &cast.vm, "theirs").await?;
    consumer.gone(&world, &vpc).await?;
    consumer.gone(&world, &region).await?;
    owner.until_gone(&world).await
}

pub(crate) async fn restarted(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = started(&world).await?;
    let consumer = &cast.consumer;
    let (owner, machine, vpc) = pair(&world, &cast, true).await?;
    owner.delete().await?;
    until_going(&world, &cast, &machine).await?;
    depguard.stop_controller().await;
    // The first group goes while no controller runs.
    consumer.release(&cast.vm, "m1").await?;
    consumer.gone(&world, &machine).await?;
    ensure(!is_going(&cast, &vpc).await?, || "nobody was there to delete it".to_owned())?;
    owner.get().await?;
    depguard.start_controller().await?;
    consumer.gone(&world, &vpc).await?;
    owner.until_gone(&world).await
}

/// Deletes an owner while the controller is away, with all of the controller's work still to do.
pub(crate) async fn deleted_while_away(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = started(&world).await?;
    let (owner, machine, vpc) = pair(&world, &cast, false).await?;
    depguard.stop_controller().await;
    owner.delete().await?;
    cast.consumer.untouched(&cast.vm, "m1").await?;
    depguard.start_controller().await?;
    cast.consumer.gone(&world, &machine).await?;
    cast.consumer.gone(&world, &vpc).await?;
    owner.until_gone(&world).await
}

/// Removes the finalizer that should keep an owner until all work is done.
pub(crate) async fn finalizer_taken(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = started(&world).await?;
    let (owner, ..) = pair(&world, &cast, false).await?;
    depguard.stop_controller().await;
    owner.delete().await?;
    world.own_cluster().merge(owner.path(), &json!({"metadata": {"finalizers": null}})).await?.ok()?;
    depguard.start_controller().await?;
    depguard_e2e::eventually("its roles are gone", world.patience(), async || {
        let roles = owner.roles().await?;
        ensure(roles.is_empty(), || format!("{roles:?}"))
    })
    .await?;
    // The garbage collector has tried before, and its pauses grow.
    owner.until_collected(&world).await?;
    cast.consumer.untouched(&cast.vm, "m1").await?;
    cast.consumer.untouched(&cast.vpc, "a").await
}

/// Writes, on a foreign object, a reference that only looks like one to a GroupOwner.
pub(crate) async fn foreign_reference(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = started(&world).await?;
    let consumer = &cast.consumer;
    let (owner, machine, vpc) = pair(&world, &cast, false).await?;
    consumer.create(&cast.vm, "theirs", json!({})).await?;
    for group in owner.groups().await? {
        let reference = json!({
            "apiVersion": "globalowner.metacontroller.io/v9", "kind": "GroupOwner",
            "name": group["metadata"]["name"], "uid": "00000000-0000-0000-0000-000000000000",
        });
        let owned = json!({"metadata": {"ownerReferences": [reference]}});
        consumer.api.merge(&consumer.object(&cast.vm, "theirs"), &owned).await?.ok()?;
    }
    owner.delete().await?;
    consumer.gone(&world, &machine).await?;
    consumer.gone(&world, &vpc).await?;
    owner.until_gone(&world).await
}

/// Creates an object while the controller is away, a moment before the owner is deleted, and another one once its group
/// is being removed.
pub(crate) async fn not_adopted_yet(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = started(&world).await?;
    let consumer = &cast.consumer;
    let (owner, machine, vpc) = pair(&world, &cast, false).await?;
    depguard.stop_controller().await;
    let last = create(&world, &cast, &cast.vm, "last", true, json!({})).await?;
    let uid = owner.get().await?["metadata"]["uid"].clone();
    owner.delete().await?;
    depguard.start_controller().await?;
    consumer.gone(&world, &machine).await?;
    until_going(&world, &cast, &last).await?;
    ensure(!is_going(&cast, &vpc).await?, || "the second group has begun before the first is gone".to_owned())?;
    create(&world, &cast, &cast.vm, "late", false, json!({})).await?;
    consumer.release(&cast.vm, "last").await?;
    consumer.gone(&world, &last).await?;
    consumer.gone(&world, &vpc).await?;
    owner.until_gone(&world).await?;
    consumer.untouched(&cast.vm, "late").await?;
    depguard_e2e::eventually("an event names what stays", world.patience(), async || {
        let events = world.own_cluster().get("/api/v1/events").await?.ok()?;
        let mut events = events["items"].as_array().cloned().unwrap_or_default();
        events.retain(|event| event["involvedObject"]["uid"] == uid);
        let told = |event: &Value| {
            event["reason"] == "LeftBehind"
                && event["message"].as_str().is_some_and(|message| message.contains("/late"))
        };
        ensure(events.iter().any(told), || format!("{events:?}"))
    })
    .await
}
