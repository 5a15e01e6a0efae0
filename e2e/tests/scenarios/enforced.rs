//! A rule says that it is enforced only while it is.

use std::sync::Arc;
use std::time::Duration;

use depguard_e2e::rules::rule;
use depguard_e2e::{Depguard, Outcome, World};

pub(crate) async fn while_it_is(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let compute = &cast.compute;
    let machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    world.add_rule(compute, &machines).await?;
    let mut depguard = Depguard::prepare(&world).await?;
    depguard.look_again_after(Duration::from_secs(1));

    depguard.start_controller().await?;
    let unreached = |said: &str| said.contains("can't be reached from the controller");
    world.condition_says(compute, "machines", "Enforced", "False", unreached).await?;
    depguard.start_webhook().await?;
    world.condition(compute, "machines", "Enforced", "True").await?;

    let changed = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.primary.name")]);
    world.change_rule(compute, "machines", &serde_json::json!({"spec": changed["spec"]})).await?;
    world.condition(compute, "machines", "Enforced", "True").await?;

    depguard.kill_webhook();
    world.condition(compute, "machines", "Enforced", "False").await?;
    // As if its certificate had been renewed by an authority of which nobody was told.
    depguard.renew_certificate_alone()?;
    depguard.start_webhook().await?;
    world.reason(compute, "machines", "Enforced", "CertificateInvalid").await
}
