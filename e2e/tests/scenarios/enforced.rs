//! Condition `Enforced`: a rule has it only while the rule is enforced.

use std::sync::Arc;
use std::time::Duration;

use depguard_core::probe::dispatch_canary;
use depguard_e2e::rules::rule;
use depguard_e2e::{Depguard, Outcome, World, ensure, eventually};
use serde_json::json;
use tokio::net::TcpListener;

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
    world.change_rule(compute, "machines", &json!({"spec": changed["spec"]})).await?;
    world.condition(compute, "machines", "Enforced", "True").await?;

    depguard.kill_webhook();
    world.condition(compute, "machines", "Enforced", "False").await?;
    // As if an authority that the controller does not know had renewed the webhook's certificate.
    depguard.renew_certificate_alone()?;
    depguard.start_webhook().await?;
    world.reason(compute, "machines", "Enforced", "CertificateInvalid").await
}

/// Starts the controller again beside a webhook that takes connections and never answers.
pub(crate) async fn while_nobody_answers(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let compute = &cast.compute;
    world.add_rule(compute, &rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")])).await?;
    let mut depguard = Depguard::start(&world).await?;
    world.condition(compute, "machines", "Enforced", "True").await?;
    let doubts = async || -> Outcome<usize> {
        let events = compute.api.get("/api/v1/namespaces/default/events").await?.ok()?;
        let is_doubt =
            |event: &&serde_json::Value| event["involvedObject"]["name"] == "machines" && event["reason"] == "NotAsked";
        Ok(events["items"].as_array().into_iter().flatten().filter(is_doubt).count())
    };
    let before = doubts().await?;
    depguard.stop_controller().await;
    depguard.kill_webhook();
    let port = depguard.port();
    let silent = eventually("the webhook's port is free", world.patience(), async || {
        Ok(TcpListener::bind(("127.0.0.1", port)).await?)
    });
    let silent = silent.await?;
    depguard.start_controller().await?;
    // That no answer came in time is an answer. Until then nothing is said anew.
    world.reason(compute, "machines", "Enforced", "WebhookUnreachable").await?;
    let told = doubts().await? - before;
    ensure(told == 0, || format!("{told} Events tell that the webhook is being asked"))?;
    drop(silent);
    depguard.start_webhook().await?;
    world.condition(compute, "machines", "Enforced", "True").await
}

/// Has the targets served as an aggregated API server would serve them, which asks webhooks.
pub(crate) async fn once_a_canary_came(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let (compute, vpc) = (&cast.compute, &cast.vpc);
    world.hide_definition(vpc)?;
    world.add_rule(compute, &rule("machines", &cast.vm, &[(vpc, ".spec.vpcRef.name")])).await?;
    let mut depguard = Depguard::prepare(&world).await?;
    depguard.look_again_after(Duration::from_secs(1));
    depguard.start_controller().await?;
    depguard.start_webhook().await?;
    world.reason(compute, "machines", "Enforced", "AggregatedServer").await?;

    let canary = json!({
        "apiVersion": vpc.api_version(), "kind": vpc.kind,
        "metadata": {"name": dispatch_canary::NAME, "labels": {dispatch_canary::LABEL: "true"}},
    });
    compute.api.post(&vpc.collection("default"), &canary).await?.ok()?;
    // The right that docs/status.md names.
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let name = format!("canary-{}", world.id());
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
        "rules": [{
            "apiGroups": [vpc.group], "resources": [vpc.plural], "resourceNames": [dispatch_canary::NAME], "verbs": ["delete"],
        }],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": "depguard-system", "name": "depguard-controller"}],
    });
    world.own_cluster().post(&format!("{rbac}/roles"), &role).await?.ok()?;
    world.own_cluster().post(&format!("{rbac}/rolebindings"), &binding).await?.ok()?;
    world.condition(compute, "machines", "Enforced", "True").await?;

    // The controller only tried to delete it. Without it, nobody knows any more.
    compute.api.delete(&format!("{}/{}", vpc.collection("default"), dispatch_canary::NAME)).await?.ok()?;
    world.reason(compute, "machines", "Enforced", "AggregatedServer").await
}
