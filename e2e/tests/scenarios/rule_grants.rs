//! Rules of other workspaces that a provider accepts or rejects.

use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::{Depguard, Outcome, Resource, World, eventually};
use serde_json::json;

const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";
const LOGICAL_CLUSTER: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";

pub(crate) async fn accepted(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let (network, compute, consumer) = (&cast.network, &cast.compute, &cast.consumer);
    let export = format!("{EXPORTS}/{}", network.export);
    let accept = async |workspaces: &str| {
        let annotations = json!({"dependencies.opendefense.cloud/accept-rules-from": workspaces});
        let patch = json!({"metadata": {"annotations": annotations}});
        network.api.merge(&export, &patch).await?.ok().map(drop)
    };
    accept("root:somebody, root:else:*").await?;
    world.add_rule(compute, &rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")])).await?;
    // The provider's own rule makes the API server review the same kind.
    world.add_rule(network, &rule("regions", &cast.region, &[(&cast.vpc, ".spec.vpcRef.name")])).await?;
    consumer.create_target(&cast.vpc, "a").await?;
    consumer.create_target(&cast.vpc, "b").await?;
    consumer.create_dependent(&cast.vm, "m1", "a").await?;
    consumer.create_dependent(&cast.region, "r1", "b").await?;
    let _depguard = Depguard::start(&world).await?;
    consumer.until_protected(&world, &cast.vpc, "b").await?;

    let refused = |said: &str| said.contains("does not accept rules of workspace");
    world.condition_says(compute, "machines", "ResolvedRefs", "False", refused).await?;
    world.condition(compute, "machines", "Enforced", "False").await?;
    consumer.until_free(&world, &cast.vpc, "a").await?;
    accept(&format!("root:somebody, {}", compute.path)).await?;
    world.condition(compute, "machines", "Enforced", "True").await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;
    consumer.refused(&world, &cast.vpc, "a", &["still referenced by VirtualMachine/m1"]).await?;
    consumer.refused(&world, &cast.vpc, "b", &["still referenced by Region/r1"]).await.map(drop)
}

/// A workspace claims a path that nobody has, below a pattern that the targets' provider accepts.
pub(crate) async fn below_a_pattern(world: Arc<World>) -> Outcome {
    let (network, compute) = tokio::try_join!(world.network("providers:network"), world.compute())?;
    let (good, evil) = tokio::try_join!(
        world.provider("team:good", "good.example.com", vec![Resource::namespaced("Good")]),
        world.provider("liar", "liar.example.com", vec![Resource::namespaced("Lie")]),
    )?;
    // kcp finds an APIExport by the path that its workspace claims, so the consumer binds before the lie.
    let consumer = world.consumer("consumer", &[&network, &compute, &good, &evil]).await?;
    let team = good.path.strip_suffix(":good").unwrap_or_default();
    let forged = json!({"metadata": {"annotations": {"kcp.io/path": format!("{team}:evil")}}});
    evil.api.merge(LOGICAL_CLUSTER, &forged).await?.ok()?;
    for provider in [&network, &compute, &good, &evil] {
        world.bind_depguard(provider).await?;
    }
    let accept = json!({"dependencies.opendefense.cloud/accept-rules-from": format!("{team}:*, {}", compute.path)});
    let patch = json!({"metadata": {"annotations": accept}});
    network.api.merge(&format!("{EXPORTS}/{}", network.export), &patch).await?.ok()?;
    let vpc = network.kind("VPC")?;
    for (provider, kind, target) in [(&compute, "VirtualMachine", "a"), (&good, "Good", "b"), (&evil, "Lie", "c")] {
        let kind = provider.kind(kind)?;
        world.add_rule(provider, &rule("rule", &kind, &[(&vpc, ".spec.vpcRef.name")])).await?;
        consumer.create_target(&vpc, target).await?;
        consumer.create_dependent(&kind, "one", target).await?;
    }
    let _depguard = Depguard::start(&world).await?;
    for target in ["a", "b"] {
        consumer.until_protected(&world, &vpc, target).await?;
    }
    // Two look-ups, a minute apart.
    eventually("the forged path is found out", world.patience() * 6, async || {
        consumer.api.dry_run_delete(&consumer.object(&vpc, "c")).await?.ok().map(drop)
    })
    .await?;
    for (target, by) in [("a", "VirtualMachine/one"), ("b", "Good/one")] {
        consumer.refused(&world, &vpc, target, &[&format!("still referenced by {by}")]).await?;
    }
    // A workspace of that name is another one than the liar.
    world.workspace("team:evil").await?;
    let refused = |said: &str| said.contains("does not accept rules of workspace");
    // A look-up of the controller's that failed, on a busy machine, puts this off by another minute.
    eventually("the controller finds it out, too", world.patience() * 6, async || {
        world.condition_says(&evil, "rule", "ResolvedRefs", "False", refused).await
    })
    .await?;
    consumer.until_free(&world, &vpc, "c").await
}
