//! Starts and stops of depguard, and rules that change.

use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::{Depguard, Outcome, World, ensure};
use serde_json::json;

use crate::deletion::{guarded, one_reference};

const REFUSAL: &str = "cannot delete vpcs/a: still referenced by VirtualMachine/m1";

pub(crate) async fn webhook_killed(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    one_reference(&world, &cast).await?;
    consumer.create_target(&cast.vpc, "b").await?;
    if world.is_control() {
        return consumer.refused(&world, &cast.vpc, "b", &[]).await.map(drop);
    }

    depguard.kill_webhook();
    for name in ["a", "b"] {
        let reply = consumer.api.delete(&consumer.object(&cast.vpc, name)).await?;
        ensure(reply.status >= 400, || format!("{name} was deleted though nobody could be asked"))?;
        consumer.untouched(&cast.vpc, name).await?;
    }

    depguard.start_webhook().await?;
    // The first answer may be that the webhook has not loaded the rules yet, but never a permission. That passes by itself,
    // so clients are told when to try again.
    let reply = consumer.api.delete(&consumer.object(&cast.vpc, "a")).await?;
    let waits = reply.body["details"]["retryAfterSeconds"].is_u64();
    let is_refused = reply.status == 403 && !waits || reply.status == 429 && waits;
    ensure(is_refused, || format!("{}: {}", reply.status, reply.body))?;
    consumer.untouched(&cast.vpc, "a").await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;
    consumer.until_free(&world, &cast.vpc, "b").await?;
    consumer.delete(&world, &cast.vpc, "b").await?;
    consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await.map(drop)
}

pub(crate) async fn rule_changed(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    consumer.create_target(&cast.vpc, "a").await?;
    consumer.create_target(&cast.vpc, "b").await?;
    consumer.create(&cast.vm, "m1", json!({"vpcRef": {"name": "a"}, "primary": {"name": "b"}})).await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;
    consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await?;
    consumer.until_free(&world, &cast.vpc, "b").await?;

    let changed = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.primary.name")]);
    world.change_rule(&cast.compute, "machines", &json!({"spec": changed["spec"]})).await?;
    consumer.until_protected(&world, &cast.vpc, "b").await?;
    consumer.until_free(&world, &cast.vpc, "a").await?;
    consumer.delete(&world, &cast.vpc, "a").await?;
    consumer.refused(&world, &cast.vpc, "b", &["still referenced by VirtualMachine/m1"]).await.map(drop)
}

pub(crate) async fn rule_removed_while_down(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = guarded(&world).await?;
    one_reference(&world, &cast).await?;
    cast.consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await?;

    depguard.stop_controller().await;
    world.remove_rule(&cast.compute, "machines").await?;
    depguard.start_controller().await?;
    world.until_unconfigured(&cast.network.api).await?;
    cast.consumer.until_free(&world, &cast.vpc, "a").await?;
    cast.consumer.delete(&world, &cast.vpc, "a").await
}

pub(crate) async fn rule_before_binding(world: Arc<World>) -> Outcome {
    let (network, compute) = tokio::try_join!(world.network("providers:network"), world.compute())?;
    world.bind_depguard(&compute).await?;
    let cast = world.consume(network, compute).await?;
    let machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    world.add_rule(&cast.compute, &machines).await?;
    let _depguard = Depguard::start(&world).await?;
    let named = |said: &str| said.contains(&cast.network.path);
    world.condition_says(&cast.compute, "machines", "ResolvedRefs", "False", named).await?;

    world.bind_depguard(&cast.network).await?;
    one_reference(&world, &cast).await?;
    world.condition(&cast.compute, "machines", "Programmed", "True").await?;
    cast.consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await.map(drop)
}

pub(crate) async fn unrelated_rule(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    one_reference(&world, &cast).await?;
    let consumer = &cast.consumer;
    consumer.create_target(&cast.vpc, "b").await?;

    // A provider of other kinds writes a rule by which each VPC refers to itself.
    let stranger = world.provider("stranger", "stranger.example.com", vec![]).await?;
    world.bind_depguard(&stranger).await?;
    let trap = rule("trap", &cast.vpc, &[(&cast.vpc, ".metadata.name")]);
    world.add_rule(&stranger, &trap).await?;
    let named = |said: &str| said.contains(&cast.network.export);
    world.condition_says(&stranger, "trap", "ResolvedRefs", "False", named).await?;

    if !world.is_control() {
        consumer.delete(&world, &cast.vpc, "b").await?;
    }
    consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await.map(drop)
}

pub(crate) async fn override_by_an_operator(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    one_reference(&world, &cast).await?;
    cast.consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await?;
    let annotation = json!({"metadata": {"annotations": {"dependencies.opendefense.cloud/skip-protection": "true"}}});
    cast.consumer.api.merge(&cast.consumer.object(&cast.vpc, "a"), &annotation).await?.ok()?;
    cast.consumer.delete(&world, &cast.vpc, "a").await
}
