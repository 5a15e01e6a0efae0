//! Objects that refer to each other: each is protected, and a teardown still ends them all.

use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::{Cast, Depguard, Outcome, Stop, World, eventually};
use serde_json::{Value, json};

use crate::teardown::{BINDINGS, conditions};

/// Creates the usual cast, and one rule for each of these edges: `spec.vpcRef` of machines, `spec.gateway` and
/// `spec.peer` of VPCs. Starts depguard.
async fn guarded(world: &Arc<World>, edges: &[&str]) -> Outcome<(Cast, Depguard)> {
    let cast = world.cast().await?;
    for edge in edges {
        let (provider, rule) = match *edge {
            "vpcRef" => (&cast.compute, rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")])),
            "gateway" => (&cast.network, rule("gateways", &cast.vpc, &[(&cast.vm, ".spec.gateway.name")])),
            _ => (&cast.network, rule("peers", &cast.vpc, &[(&cast.vpc, ".spec.peer")])),
        };
        world.add_rule(provider, &rule).await?;
    }
    let depguard = Depguard::start(world).await?;
    Ok((cast, depguard))
}

pub(crate) async fn two_kinds(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world, &["vpcRef", "gateway"]).await?;
    let consumer = &cast.consumer;
    consumer.create(&cast.vpc, "a", json!({"gateway": {"name": "m1"}})).await?;
    consumer.create_dependent(&cast.vm, "m1", "a").await?;
    // `b` and `m2` belong to no pair of objects that refer to each other. But `a`, the first VPC, waits for `m2`, the
    // second machine, and `m1`, the first machine, waits for `b`, the second VPC.
    consumer.create(&cast.vpc, "b", json!({"gateway": {"name": "m1"}})).await?;
    consumer.create_dependent(&cast.vm, "m2", "a").await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;
    consumer.until_protected(&world, &cast.vm, "m1").await?;

    consumer.refused(&world, &cast.vpc, "a", &["still referenced by VirtualMachine/m1, VirtualMachine/m2"]).await?;
    consumer.refused(&world, &cast.vm, "m1", &["still referenced by VPC/a, VPC/b"]).await?;
    consumer.api.delete(&consumer.namespace_path()).await?.ok()?;
    consumer.gone(&world, &consumer.namespace_path()).await
}

pub(crate) async fn one_kind(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world, &["peer"]).await?;
    let consumer = &cast.consumer;
    for (name, peer) in [("a", "c"), ("b", "a"), ("c", "b"), ("d", "d")] {
        consumer.create(&cast.vpc, name, json!({"peer": peer})).await?;
    }
    consumer.until_protected(&world, &cast.vpc, "a").await?;
    consumer.refused(&world, &cast.vpc, "a", &["cannot delete vpcs/a: still referenced by VPC/b"]).await?;
    // An object that refers only to itself is free.
    consumer.delete(&world, &cast.vpc, "d").await?;
    consumer.api.delete(&consumer.namespace_path()).await?.ok()?;
    consumer.gone(&world, &consumer.namespace_path()).await
}

pub(crate) async fn two_namespaces(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let across = |mut rule: Value, field: &str| {
        rule["spec"]["dependencies"][0]["fieldRef"]["namespacePath"] = format!(".spec.{field}.namespace").into();
        rule
    };
    let machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    world.add_rule(&cast.compute, &across(machines, "vpcRef")).await?;
    let gateways = rule("gateways", &cast.vpc, &[(&cast.vm, ".spec.gateway.name")]);
    world.add_rule(&cast.network, &across(gateways, "gateway")).await?;
    let _depguard = Depguard::start(&world).await?;

    let one = &cast.consumer;
    let two = one.in_namespace(&world, "two").await?;
    one.create(&cast.vpc, "a", json!({"gateway": {"name": "m1", "namespace": two.namespace}})).await?;
    two.create(&cast.vm, "m1", json!({"vpcRef": {"name": "a", "namespace": one.namespace}})).await?;
    one.until_protected(&world, &cast.vpc, "a").await?;
    two.until_protected(&world, &cast.vm, "m1").await?;

    let refusal = format!("cannot delete vpcs/a: still referenced by VirtualMachine/{}/m1", two.namespace);
    one.refused(&world, &cast.vpc, "a", &[&refusal]).await?;
    // A namespace that is deleted alone waits for the other.
    one.api.delete(&one.namespace_path()).await?.ok()?;
    eventually("the refusal shows on the namespace", world.patience(), async || {
        let said = conditions(&one.api.get(&one.namespace_path()).await?.ok()?);
        if said.contains(&refusal) { Ok(()) } else { Err(Stop::Failed(said)) }
    })
    .await?;
    one.untouched(&cast.vpc, "a").await?;
    two.api.delete(&two.namespace_path()).await?.ok()?;
    two.gone(&world, &two.namespace_path()).await?;
    one.gone(&world, &one.namespace_path()).await
}

pub(crate) async fn unbinding(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let consumer = &cast.consumer;
    let regions = rule("regions", &cast.vpc, &[(&cast.region, ".spec.region")]);
    world.add_rule(&cast.network, &regions).await?;
    world.add_rule(&cast.network, &rule("homes", &cast.region, &[(&cast.vpc, ".spec.home")])).await?;
    let _depguard = Depguard::start(&world).await?;
    consumer.create(&cast.vpc, "a", json!({"region": "north"})).await?;
    consumer.create(&cast.region, "north", json!({"home": "a"})).await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;
    consumer.until_protected(&world, &cast.region, "north").await?;

    consumer.refused(&world, &cast.vpc, "a", &["still referenced by Region/north"]).await?;
    let binding = format!("{BINDINGS}/{}", cast.network.export);
    consumer.api.delete(&binding).await?.ok()?;
    consumer.gone(&world, &binding).await
}

pub(crate) async fn kept_last(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let consumer = &cast.consumer;
    world.add_rule(&cast.compute, &rule("fleets", &cast.fleet, &[(&cast.vpc, ".spec.vpcRef.name")])).await?;
    let _depguard = Depguard::start(&world).await?;
    consumer.create_target(&cast.vpc, "a").await?;
    consumer.create_dependent(&cast.fleet, "f1", "a").await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;

    consumer.refused(&world, &cast.vpc, "a", &["still referenced by Fleet/f1"]).await?;
    world.delete_workspace("consumer").await?;
    eventually("the workspace is gone", world.patience(), async || match world.find_workspace("consumer").await? {
        None => Ok(()),
        Some(workspace) => Err(Stop::Failed(format!("status is {}", workspace["status"]))),
    })
    .await
}
