//! A workspace that claims to be another.

use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::{Depguard, Outcome, Resource, World, ensure, eventually};
use serde_json::json;

const BINDING: &str = "/apis/apis.kcp.io/v1alpha2/apibindings/dependencies.opendefense.cloud";

pub(crate) async fn of_the_providers_path(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let (network, consumer) = (&cast.network, &cast.consumer);
    world.add_rule(&cast.compute, &rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")])).await?;
    consumer.create_target(&cast.vpc, "a").await?;
    consumer.create_dependent(&cast.vm, "m1", "a").await?;
    let mut depguard = Depguard::start(&world).await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;

    // Any administrator of a workspace can write this annotation, and the workspace's binding to depguard then carries
    // it.
    let liar = world.provider("liar", "liar.example.com", vec![Resource::namespaced("Lie")]).await?;
    let forged = json!({"metadata": {"annotations": {"kcp.io/path": network.path}}});
    liar.api.merge("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster", &forged).await?.ok()?;
    world.bind_depguard(&liar).await?;
    let binding = liar.api.get(BINDING).await?.ok()?;
    let said = &binding["metadata"]["annotations"]["kcp.io/path"];
    ensure(*said == json!(network.path), || format!("the lie did not take: {said}"))?;
    world.condition(&cast.compute, "machines", "ResolvedRefs", "True").await?;
    if !world.is_control() {
        let found = world.configuration(&liar.api).await?;
        ensure(found.is_none(), || format!("installed where the liar is: {found:?}"))?;
    }

    // From here on only the liar claims this path. The installed configuration stays, because no controller saw the
    // provider's binding go. The rule stays in force for a webhook that did not see the provider withdraw.
    depguard.stop_controller().await;
    depguard.kill_webhook();
    network.api.delete(BINDING).await?.ok()?;
    eventually("depguard is unbound", world.patience(), async || {
        let reply = network.api.get(BINDING).await?;
        if reply.is_gone() { Ok(()) } else { Err(reply.unexpected("404")) }
    })
    .await?;
    depguard.start_controller().await?;
    depguard.start_webhook().await?;
    let told = |said: &str| said.contains("falsely claims this path");
    world.condition_says(&cast.compute, "machines", "ResolvedRefs", "False", told).await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;
    consumer.refused(&world, &cast.vpc, "a", &["still referenced by VirtualMachine/m1"]).await.map(drop)
}
