//! Rules of other workspaces that a provider accepts or rejects.

use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::{Depguard, Outcome, World};
use serde_json::json;

const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";

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
