//! Policies of a rule: the action on a reference, and the answer if nobody can decide.

use std::sync::Arc;

use depguard_e2e::rules::{deciding, reviewed_kinds, rule};
use depguard_e2e::{Depguard, Outcome, World, ensure};
use serde_json::json;

use crate::deletion::one_reference;

pub(crate) async fn ignore(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let mut machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    machines["spec"]["failurePolicy"] = json!("Ignore");
    world.add_rule(&cast.compute, &machines).await?;
    let mut depguard = Depguard::start(&world).await?;
    one_reference(&world, &cast).await?;
    let message = "cannot delete vpcs/a: still referenced by VirtualMachine/m1";
    cast.consumer.refused(&world, &cast.vpc, "a", &[message]).await?;
    let ignores = |said: &str| said.ends_with("it allows the deletion (failurePolicy: Ignore)");
    world.condition_says(&cast.compute, "machines", "Enforced", "True", ignores).await?;

    // A second rule about the same kind, with the usual policy, stays in force.
    world.add_rule(&cast.compute, &rule("fleets", &cast.fleet, &[(&cast.vpc, ".spec.vpcRef.name")])).await?;
    let both = |found: &serde_json::Value| deciding(found).count() == 2;
    let found = world.until_configured(&cast.network.api, "both webhooks are installed", both).await?;
    ensure(reviewed_kinds(&found).len() == 1, || found["webhooks"].to_string())?;
    world.remove_rule(&cast.compute, "fleets").await?;
    let one = |found: &serde_json::Value| deciding(found).count() == 1;
    world.until_configured(&cast.network.api, "one webhook is left", one).await?;

    depguard.kill_webhook();
    cast.consumer.until_free(&world, &cast.vpc, "a").await?;
    cast.consumer.delete(&world, &cast.vpc, "a").await
}

pub(crate) async fn warn(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let mut machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    machines["spec"]["dependencies"][0]["onDelete"] = json!("Warn");
    world.add_rule(&cast.compute, &machines).await?;
    // A refusal by the second rule shows that the rules are in force.
    world.add_rule(&cast.compute, &rule("fleets", &cast.fleet, &[(&cast.vpc, ".spec.vpcRef.name")])).await?;
    let _depguard = Depguard::start(&world).await?;
    let consumer = &cast.consumer;
    for name in ["a", "b"] {
        consumer.create_target(&cast.vpc, name).await?;
    }
    consumer.create_dependent(&cast.vm, "m1", "a").await?;
    consumer.create_dependent(&cast.fleet, "f1", "b").await?;
    consumer.until_protected(&world, &cast.vpc, "b").await?;
    let warns = |said: &str| said.contains("depguard warns about deletions of ");
    world.condition_says(&cast.compute, "machines", "Enforced", "True", warns).await?;
    let path = consumer.object(&cast.vpc, "a");
    let reply = consumer.api.delete(&path).await?;
    let warned = |warning: &String| warning.contains("still referenced by VirtualMachine/m1");
    ensure(reply.warnings.iter().any(warned), || format!("its warnings are {:?}", reply.warnings))?;
    reply.ok()?;
    consumer.gone(&world, &path).await
}
