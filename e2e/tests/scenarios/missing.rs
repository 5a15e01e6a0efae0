//! Order and teardown with references that are checked when they are made: nothing waits for a missing target that has no
//! need to.

use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::{Cast, Depguard, Outcome, Stop, World, ensure, eventually};
use serde_json::{Value, json};

/// Creates the usual cast, adds a rule about machines whose VPC is missing, altered by `change`, and starts depguard.
async fn guarded(world: &Arc<World>, change: impl FnOnce(&mut Value)) -> Outcome<(Cast, Depguard)> {
    let cast = world.cast().await?;
    let mut machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    change(&mut machines["spec"]["dependencies"][0]);
    world.add_rule(&cast.compute, &machines).await?;
    let depguard = Depguard::start(world).await?;
    Ok((cast, depguard))
}

fn to(target: &str) -> Value {
    json!({"vpcRef": {"name": target}})
}

pub(crate) async fn noted(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world, |dependency| dependency["onMissing"] = json!("Warn")).await?;
    let consumer = &cast.consumer;
    // A refusal by a second rule shows that the rules are in force.
    let mut fleets = rule("fleets", &cast.fleet, &[(&cast.vpc, ".spec.vpcRef.name")]);
    fleets["spec"]["dependencies"][0]["onMissing"] = json!("Deny");
    world.add_rule(&cast.compute, &fleets).await?;
    consumer.until_checked(&world, &cast.fleet, to("a")).await?;

    let collection = cast.vm.collection(&consumer.namespace);
    let machine = |name: &str| json!({"apiVersion": cast.vm.api_version(), "kind": cast.vm.kind, "metadata": {"name": name}, "spec": to("a")});
    let reply = consumer.api.post(&collection, &machine("m1")).await?;
    let warned = |warning: &String| warning.contains("vpcs/a not found (.spec.vpcRef.name)");
    ensure(reply.warnings.iter().any(warned), || format!("its warnings are {:?}", reply.warnings))?;
    reply.ok()?;
    // In any order: the target comes second, and the next dependent finds it.
    consumer.create_target(&cast.vpc, "a").await?;
    let reply = consumer.api.post(&collection, &machine("m2")).await?;
    ensure(reply.warnings.is_empty(), || format!("its warnings are {:?}", reply.warnings))?;
    reply.ok().map(drop)
}

pub(crate) async fn never_held_up(world: Arc<World>) -> Outcome {
    let missing_first = |dependency: &mut Value| {
        dependency["onMissing"] = json!("Deny");
        // The target may go first, so that the finalizer is removed from an object that refers to nothing.
        dependency["onDelete"] = json!("Audit");
    };
    let (cast, _depguard) = guarded(&world, missing_first).await?;
    let consumer = &cast.consumer;
    consumer.until_checked(&world, &cast.vm, to("a")).await?;
    consumer.create_target(&cast.vpc, "a").await?;
    let metadata = json!({"name": "m1", "finalizers": ["example.com/hold"]});
    consumer.create_with(&cast.vm, metadata, to("a")).await?;
    consumer.delete(&world, &cast.vpc, "a").await?;
    let path = consumer.object(&cast.vm, "m1");
    // A change that makes no reference is not held up, either.
    consumer.api.merge(&path, &json!({"metadata": {"labels": {"tier": "prod"}}})).await?.ok()?;
    consumer.api.delete(&path).await?.ok()?;
    consumer.release(&cast.vm, "m1").await?;
    consumer.gone(&world, &path).await
}

pub(crate) async fn namespace_ends(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world, |dependency| dependency["onMissing"] = json!("Deny")).await?;
    let consumer = &cast.consumer;
    consumer.until_checked(&world, &cast.vm, to("a")).await?;
    consumer.create_target(&cast.vpc, "a").await?;
    for name in ["m1", "m2"] {
        let metadata = json!({"name": name, "finalizers": ["example.com/hold"]});
        consumer.create_with(&cast.vm, metadata, to("a")).await?;
    }
    consumer.api.delete(&consumer.namespace_path()).await?.ok()?;
    for name in ["m1", "m2"] {
        let path = consumer.object(&cast.vm, name);
        eventually("the dependent is on its way out", world.patience(), async || {
            let object = consumer.api.get(&path).await?.ok()?;
            let is_going = object["metadata"].get("deletionTimestamp").is_some();
            if is_going { Ok(()) } else { Err(Stop::failed("not deleted yet")) }
        })
        .await?;
        consumer.release(&cast.vm, name).await?;
    }
    consumer.gone(&world, &consumer.namespace_path()).await
}
