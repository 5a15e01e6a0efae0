//! Condition `Enforced`: a rule has it only while the rule is enforced.

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
    let unreached = |said: &str| said.contains("the controller can't reach the webhook at ");
    world.condition_says(compute, "machines", "Enforced", "False", unreached).await?;
    depguard.start_webhook().await?;
    world.condition(compute, "machines", "Enforced", "True").await?;

    let changed = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.primary.name")]);
    world.change_rule(compute, "machines", &serde_json::json!({"spec": changed["spec"]})).await?;
    world.condition(compute, "machines", "Enforced", "True").await?;

    depguard.kill_webhook();
    world.condition(compute, "machines", "Enforced", "False").await?;
    // As if an authority that the controller does not know had renewed the webhook's certificate.
    depguard.renew_certificate_alone()?;
    depguard.start_webhook().await?;
    world.reason(compute, "machines", "Enforced", "CertificateInvalid").await
}
