//! Single deletions and their answers.

use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::{Cast, Depguard, Outcome, Resource, World, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::json;

/// Creates the usual providers, consumer and rule, and starts depguard.
pub(crate) async fn guarded(world: &Arc<World>) -> Outcome<(Cast, Depguard)> {
    let cast = world.cast().await?;
    let machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    world.add_rule(&cast.compute, &machines).await?;
    let depguard = Depguard::start(world).await?;
    Ok((cast, depguard))
}

/// Creates a target `a` to which the machine `m1` refers, and waits until `a` is protected.
pub(crate) async fn one_reference(world: &World, cast: &Cast) -> Outcome {
    cast.consumer.create_target(&cast.vpc, "a").await?;
    cast.consumer.create_dependent(&cast.vm, "m1", "a").await?;
    cast.consumer.until_protected(world, &cast.vpc, "a").await
}

pub(crate) async fn referenced(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    one_reference(&world, &cast).await?;
    consumer.create_target(&cast.vpc, "b").await?;
    consumer.create_dependent(&cast.vm, "m2", "a").await?;

    let message = "cannot delete vpcs/a: still referenced by VirtualMachine/m1, VirtualMachine/m2";
    let reply = consumer.refused(&world, &cast.vpc, "a", &[message]).await?;
    ensure(reply.body["reason"] == "Forbidden", || format!("reason: {}", reply.body))?;
    let causes = reply.body["details"]["causes"].as_array().map_or(0, Vec::len);
    ensure(causes == 2, || format!("{causes} causes: {}", reply.body))?;

    consumer.delete(&world, &cast.vpc, "b").await?;
    consumer.delete(&world, &cast.vm, "m1").await?;
    consumer.refused(&world, &cast.vpc, "a", &["still referenced by VirtualMachine/m2"]).await?;
    consumer.delete(&world, &cast.vm, "m2").await?;
    consumer.delete(&world, &cast.vpc, "a").await
}

pub(crate) async fn collection(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    one_reference(&world, &cast).await?;
    consumer.create_target(&cast.vpc, "b").await?;

    let collection = cast.vpc.collection(&consumer.namespace);
    let message = "cannot delete vpcs/a: still referenced by VirtualMachine/m1";
    consumer.refused_at(&world, &collection, &cast.vpc, "a", &[message]).await?;

    consumer.delete(&world, &cast.vm, "m1").await?;
    consumer.api.delete(&collection).await?.ok()?;
    consumer.gone(&world, &consumer.object(&cast.vpc, "a")).await?;
    consumer.gone(&world, &consumer.object(&cast.vpc, "b")).await
}

pub(crate) async fn another_version(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    one_reference(&world, &cast).await?;
    // The rule names v1alpha1.
    let newer: Resource = cast.vpc.in_version(&["v1beta1"]);
    let message = "cannot delete vpcs/a: still referenced by VirtualMachine/m1";
    cast.consumer.refused(&world, &newer, "a", &[message]).await?;
    cast.consumer.delete(&world, &cast.vm, "m1").await?;
    cast.consumer.delete(&world, &newer, "a").await
}

pub(crate) async fn cluster_scoped_dependent(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let consumer = &cast.consumer;
    world.add_rule(&cast.compute, &rule("fleets", &cast.fleet, &[(&cast.vpc, ".spec.vpcRef.name")])).await?;
    let _depguard = Depguard::start(&world).await?;
    consumer.create_target(&cast.vpc, "a").await?;
    consumer.create_target(&cast.vpc, "b").await?;
    consumer.create_dependent(&cast.fleet, "f1", "a").await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;

    consumer.refused(&world, &cast.vpc, "a", &["cannot delete vpcs/a: still referenced by Fleet/f1"]).await?;
    consumer.delete(&world, &cast.vpc, "b").await?;
    consumer.delete(&world, &cast.fleet, "f1").await?;
    consumer.delete(&world, &cast.vpc, "a").await
}

pub(crate) async fn cluster_scoped_target(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let consumer = &cast.consumer;
    world.add_rule(&cast.compute, &rule("machines", &cast.vm, &[(&cast.region, ".spec.region")])).await?;
    let _depguard = Depguard::start(&world).await?;
    let other = consumer.in_namespace(&world, "two").await?;
    consumer.create_target(&cast.region, "north").await?;
    consumer.create_target(&cast.region, "south").await?;
    other.create(&cast.vm, "m1", json!({"region": "north"})).await?;
    consumer.until_protected(&world, &cast.region, "north").await?;

    let namespace = &other.namespace;
    let message = format!("cannot delete regions/north: still referenced by VirtualMachine/{namespace}/m1");
    consumer.refused(&world, &cast.region, "north", &[&message]).await?;
    consumer.delete(&world, &cast.region, "south").await?;
    other.delete(&world, &cast.vm, "m1").await?;
    consumer.delete(&world, &cast.region, "north").await
}

pub(crate) async fn many_blockers(world: Arc<World>) -> Outcome {
    const COUNT: usize = 1_500;
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    consumer.create_target(&cast.vpc, "a").await?;
    futures::stream::iter(0..COUNT)
        .map(|number| {
            let name = format!("machine-{number:04}");
            let (consumer, vm) = (consumer.clone(), cast.vm.clone());
            async move { consumer.create_dependent(&vm, &name, "a").await }
        })
        .buffer_unordered(16)
        .try_collect::<()>()
        .await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;

    let message = "cannot delete vpcs/a: still referenced by VirtualMachine/machine-0000, VirtualMachine/machine-0001";
    let reply = consumer.refused(&world, &cast.vpc, "a", &[message]).await?;
    let message = reply.message();
    ensure(message.len() < 4_096, || format!("a message of {} bytes", message.len()))?;
    let size = reply.body.to_string().len();
    ensure(size < 16_384, || format!("an answer of {size} bytes"))?;
    // The message names the first dependents and then only says that there are more.
    let named = message.matches("VirtualMachine/").count();
    ensure(named == 20 && message.contains(" and at least "), || message.clone())
}

pub(crate) async fn another_provider(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    one_reference(&world, &cast).await?;
    // The other provider exports the same group and resource. Deletions there are reviewed too, because of a rule about
    // another kind of dependent.
    let other = world.network("providers:other").await?;
    world.bind_depguard(&other).await?;
    let other_vpc = other.kind("VPC")?;
    world.add_rule(&cast.compute, &rule("fleets", &cast.fleet, &[(&other_vpc, ".spec.vpcRef.name")])).await?;
    let second = world.consumer("second", &[&other, &cast.compute]).await?;
    second.create_target(&other_vpc, "a").await?;
    second.create_target(&other_vpc, "b").await?;
    second.create_dependent(&cast.vm, "m1", "a").await?;
    second.create_dependent(&cast.fleet, "f1", "b").await?;
    second.until_protected(&world, &other_vpc, "b").await?;

    if !world.is_control() {
        second.delete(&world, &other_vpc, "a").await?;
    }
    cast.consumer.refused(&world, &cast.vpc, "a", &["still referenced by VirtualMachine/m1"]).await?;
    second.refused(&world, &other_vpc, "b", &["still referenced by Fleet/f1"]).await.map(drop)
}

pub(crate) async fn nested_provider(world: Arc<World>) -> Outcome {
    let (network, compute) = tokio::try_join!(world.network("providers:emea:west:network"), world.compute())?;
    tokio::try_join!(world.bind_depguard(&network), world.bind_depguard(&compute))?;
    let cast = world.consume(network, compute).await?;
    let machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    world.add_rule(&cast.compute, &machines).await?;
    let _depguard = Depguard::start(&world).await?;
    one_reference(&world, &cast).await?;
    world.condition(&cast.compute, "machines", "ResolvedRefs", "True").await?;
    cast.consumer.refused(&world, &cast.vpc, "a", &["still referenced by VirtualMachine/m1"]).await.map(drop)
}
