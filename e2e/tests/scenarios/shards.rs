//! A kcp of several shards: workspaces on different shards, and shards that are away.

use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::{Cast, Consumer, Depguard, Outage, Outcome, Resource, Shard, Stop, World, ensure, eventually};

use crate::deletion::guarded;
use crate::teardown::BINDINGS;

const REFUSAL: &str = "cannot delete vpcs/a: still referenced by VirtualMachine/m1";
/// Refusal of a deletion that an unreadable rule may forbid.
const DOUBT: &str = "the webhook can't follow all rules";

/// Kind of an outage of a shard.
#[derive(Clone, Copy)]
enum ShardOutage {
    Hangs,
    IsKilled,
}

impl ShardOutage {
    fn begin<'a>(self, world: &'a World, shard: &'static str) -> Outcome<Outage<'a>> {
        match self {
            ShardOutage::Hangs => world.ring().suspend_shard(shard),
            ShardOutage::IsKilled => world.ring().kill_shard(shard),
        }
    }
}

/// Creates a target `a` with its dependent `m1`, and a target `b` to which nothing refers; waits until deletions are
/// decided.
async fn fill(world: &World, cast: &Cast, consumer: &Consumer) -> Outcome {
    for target in ["a", "b"] {
        consumer.create_target(&cast.vpc, target).await?;
    }
    consumer.create_dependent(&cast.vm, "m1", "a").await?;
    decided(world, cast, consumer).await
}

/// Waits until deletions are decided: the deletion of `a` is refused because of its dependent, and the deletion of `b`
/// is allowed.
async fn decided(world: &World, cast: &Cast, consumer: &Consumer) -> Outcome {
    consumer.until_protected(world, &cast.vpc, "a").await?;
    consumer.until_free(world, &cast.vpc, "b").await
}

/// Checks, without waiting, that the next deletions are decided likewise.
async fn still_decided(cast: &Cast, consumer: &Consumer) -> Outcome {
    for _ in 0..5 {
        let reply = consumer.api.dry_run_delete(&consumer.object(&cast.vpc, "a")).await?;
        ensure(reply.message().contains(REFUSAL), || format!("{} {}", reply.status, reply.message()))?;
        consumer.api.dry_run_delete(&consumer.object(&cast.vpc, "b")).await?.ok()?;
    }
    Ok(())
}

/// Waits until the deletion of `b` is refused with this text, and checks that no deletion of `a` is allowed meanwhile.
async fn refused_at_last(world: &World, cast: &Cast, consumer: &Consumer, text: &str) -> Outcome {
    let is_let_go = eventually(&format!("a refusal with `{text}`"), world.patience(), async || {
        if consumer.api.dry_run_delete(&consumer.object(&cast.vpc, "a")).await?.status < 400 {
            return Ok(true);
        }
        let free = consumer.api.dry_run_delete(&consumer.object(&cast.vpc, "b")).await?;
        let is_refused = matches!(free.status, 403 | 429) && free.message().contains(text);
        if is_refused { Ok(false) } else { Err(free.unexpected("a refusal")) }
    })
    .await?;
    ensure(!is_let_go, || "what is referenced may be deleted".to_owned())
}

/// Creates a provider of networks and a provider of machines with a rule, each on its shard, and their consumer on the
/// root shard.
async fn platform(world: &World, name: &str, [network, compute]: [&'static str; 2]) -> Outcome<Cast> {
    let [networks_at, machines_at, consumer_at] =
        ["network", "compute", "consumer"].map(|what| format!("{name}-{what}"));
    world.place(&networks_at, network);
    world.place(&machines_at, compute);
    let networks = vec![Resource::namespaced("VPC"), Resource::cluster_scoped("Region")];
    let machines = vec![Resource::namespaced("VirtualMachine"), Resource::cluster_scoped("Fleet")];
    let (network, compute) = tokio::try_join!(
        world.provider(&networks_at, "network.example.com", networks),
        world.provider(&machines_at, "compute.example.com", machines),
    )?;
    tokio::try_join!(world.bind_depguard(&network), world.bind_depguard(&compute))?;
    let consumer = world.consumer(&consumer_at, &[&network, &compute]).await?;
    let (vpc, region) = (network.kind("VPC")?, network.kind("Region")?);
    let (vm, fleet) = (compute.kind("VirtualMachine")?, compute.kind("Fleet")?);
    world.add_rule(&compute, &rule("machines", &vm, &[(&vpc, ".spec.vpcRef.name")])).await?;
    Ok(Cast { network, compute, consumer, vpc, region, vm, fleet })
}

/// Creates one more consumer of the same providers, on the second shard.
async fn abroad(world: &World, cast: &Cast) -> Outcome<Consumer> {
    world.place("abroad", Shard::BETA);
    world.consumer("abroad", &[&cast.network, &cast.compute]).await
}

pub(crate) async fn consumers_on_each(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let abroad = abroad(&world, &cast).await?;
    for (workspace, shard) in [
        (world.own_path(), Shard::ROOT),
        (cast.network.path.clone(), Shard::ROOT),
        (cast.compute.path.clone(), Shard::BETA),
        (cast.consumer.path.clone(), Shard::ROOT),
        (abroad.path.clone(), Shard::BETA),
    ] {
        ensure(world.lies_on(&workspace, shard).await?, || format!("{workspace} is not on shard {shard}"))?;
    }
    for consumer in [&abroad, &cast.consumer] {
        fill(&world, &cast, consumer).await?;
        consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await?;
        consumer.delete(&world, &cast.vpc, "b").await?;
        consumer.delete(&world, &cast.vm, "m1").await?;
        consumer.delete(&world, &cast.vpc, "a").await?;
    }
    Ok(())
}

pub(crate) async fn host_not_named(world: Arc<World>) -> Outcome {
    let cast = platform(&world, "near", [Shard::ROOT; 2]).await?;
    let mut depguard = Depguard::prepare(&world).await?;
    depguard.name_shard_hosts(false);
    depguard.start_controller().await?;
    depguard.start_webhook().await?;
    fill(&world, &cast, &cast.consumer).await?;
    cast.consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await?;

    let abroad = abroad(&world, &cast).await?;
    for target in ["a", "b"] {
        abroad.create_target(&cast.vpc, target).await?;
    }
    abroad.create_dependent(&cast.vm, "m1", "a").await?;
    if world.ring().kind().reads_through_exports() {
        refused_at_last(&world, &cast, &abroad, "name it in --shard-hosts").await?;
        still_decided(&cast, &cast.consumer).await?;
        depguard.kill_webhook();
        depguard.name_shard_hosts(true);
        depguard.start_webhook().await?;
    }
    for consumer in [&abroad, &cast.consumer] {
        decided(&world, &cast, consumer).await?;
        consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await?;
    }
    Ok(())
}

pub(crate) async fn provider_unbinds(world: Arc<World>) -> Outcome {
    let cast = platform(&world, "far", [Shard::BETA, Shard::ROOT]).await?;
    let _depguard = Depguard::start(&world).await?;
    let abroad = abroad(&world, &cast).await?;
    let consumers = [&cast.consumer, &abroad];
    for consumer in consumers {
        fill(&world, &cast, consumer).await?;
        consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await?;
    }
    let binding = format!("{BINDINGS}/dependencies.opendefense.cloud");
    cast.network.api.delete(&binding).await?.ok()?;
    for consumer in consumers {
        consumer.until_free(&world, &cast.vpc, "a").await?;
    }
    eventually("the binding has ended", world.patience(), async || {
        let reply = cast.network.api.get(&binding).await?;
        if reply.is_gone() { Ok(()) } else { Err(reply.unexpected("404")) }
    })
    .await?;
    world.bind_depguard(&cast.network).await?;
    for consumer in consumers {
        decided(&world, &cast, consumer).await?;
        consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await?;
    }
    Ok(())
}

pub(crate) async fn providers_hang(world: Arc<World>) -> Outcome {
    providers_away(world, ShardOutage::Hangs).await
}

pub(crate) async fn providers_killed(world: Arc<World>) -> Outcome {
    providers_away(world, ShardOutage::IsKilled).await
}

/// Takes a shard away, with a provider of rules and a provider of targets on it, and brings the shard back.
async fn providers_away(world: Arc<World>, away: ShardOutage) -> Outcome {
    let (near, rules, targets) = tokio::try_join!(
        platform(&world, "near", [Shard::ROOT; 2]),
        platform(&world, "rules", [Shard::ROOT, Shard::BETA]),
        platform(&world, "targets", [Shard::BETA, Shard::ROOT]),
    )?;
    let _depguard = Depguard::start(&world).await?;
    for cast in [&rules, &targets, &near] {
        fill(&world, cast, &cast.consumer).await?;
        cast.consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await?;
    }

    let outage = away.begin(&world, Shard::BETA)?;
    for cast in [&rules, &targets] {
        refused_at_last(&world, cast, &cast.consumer, DOUBT).await?;
    }
    decided(&world, &near, &near.consumer).await?;
    still_decided(&near, &near.consumer).await?;
    for cast in [&rules, &targets] {
        refused_at_last(&world, cast, &cast.consumer, DOUBT).await?;
    }
    outage.end().await?;
    for cast in [&rules, &targets, &near] {
        decided(&world, cast, &cast.consumer).await?;
        cast.consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await?;
        cast.consumer.delete(&world, &cast.vpc, "b").await?;
    }
    Ok(())
}

pub(crate) async fn consumers_killed(world: Arc<World>) -> Outcome {
    let cast = platform(&world, "near", [Shard::ROOT; 2]).await?;
    let _depguard = Depguard::start(&world).await?;
    let abroad = abroad(&world, &cast).await?;
    for consumer in [&cast.consumer, &abroad] {
        fill(&world, &cast, consumer).await?;
        consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await?;
    }
    let outage = ShardOutage::IsKilled.begin(&world, Shard::BETA)?;
    still_decided(&cast, &cast.consumer).await?;
    let path = abroad.object(&cast.vpc, "b");
    let reply = abroad.api.delete(&path).await;
    ensure(reply.is_err() || reply.is_ok_and(|reply| reply.status >= 500), || "its shard is there".to_owned())?;
    outage.end().await?;
    for consumer in [&cast.consumer, &abroad] {
        decided(&world, &cast, consumer).await?;
        consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await?;
    }
    Ok(())
}

pub(crate) async fn started_meanwhile(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = guarded(&world).await?;
    fill(&world, &cast, &cast.consumer).await?;
    cast.consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await?;
    world.condition(&cast.compute, "machines", "Programmed", "True").await?;
    let installed = async || {
        let found = world.configuration(&cast.network.api).await?.unwrap_or_default();
        Ok::<_, Stop>([found["metadata"]["uid"].clone(), found["metadata"]["generation"].clone()])
    };
    let before = installed().await?;
    depguard.kill_webhook();
    depguard.stop_controller().await;

    let outage = ShardOutage::Hangs.begin(&world, Shard::BETA)?;
    depguard.start_webhook().await?;
    refused_at_last(&world, &cast, &cast.consumer, "not yet initialized").await?;
    depguard.start_controller().await?;
    refused_at_last(&world, &cast, &cast.consumer, "not yet initialized").await?;
    outage.end().await?;
    decided(&world, &cast, &cast.consumer).await?;
    cast.consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await?;
    world.condition(&cast.compute, "machines", "Enforced", "True").await?;
    let after = installed().await?;
    ensure(after == before, || format!("the configuration was {before:?} and is {after:?}"))
}
