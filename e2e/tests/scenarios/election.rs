//! Election of the one controller that acts.

use std::sync::Arc;

use depguard_e2e::rules::{LEASE, rule};
use depguard_e2e::{Depguard, Outcome, World, ensure, eventually};
use serde_json::Value;

/// Checks that an elected controller installs the configuration and keeps renewing its lease.
pub(crate) async fn installs_and_renews(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    world.add_rule(&cast.compute, &machines).await?;
    let mut depguard = Depguard::prepare(&world).await?;
    depguard.elect();
    depguard.start_controller().await?;
    world.until_configured(&cast.network.api, "the configuration is installed", |_| true).await?;
    let own = world.own_cluster();
    let held = async || -> Outcome<Value> { Ok(own.get(LEASE).await?.ok()?["spec"].clone()) };
    let first = held().await?;
    ensure(first["holderIdentity"] != "", || format!("nobody holds the Lease: {first}"))?;
    eventually("the Lease is renewed", world.patience(), async || {
        let now = held().await?;
        let same = now["holderIdentity"] == first["holderIdentity"];
        ensure(same && now["renewTime"] != first["renewTime"], || format!("it was {first}, and is {now}"))
    })
    .await
}
