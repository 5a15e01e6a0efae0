//! The webhook configuration: depguard installs it, repairs it, and leaves a foreign one alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use depguard_e2e::rules::{CONFIGURATION, CONFIGURATIONS, reviewed_kinds, rule};
use depguard_e2e::{Api, Depguard, Outcome, Resource, Stop, World, ensure};
use serde_json::{Value, json};

use crate::deletion::{guarded, one_reference};

const REFUSAL: &str = "cannot delete vpcs/a: still referenced by VirtualMachine/m1";
const OWN_WEBHOOK: &str = "dependency-controller.dependencies.opendefense.cloud";

pub(crate) async fn deleted_by_hand(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    one_reference(&world, &cast).await?;
    if !world.is_control() {
        let place = &cast.network.api;
        let before = world.until_configured(place, "the configuration is installed", |_| true).await?;
        place.delete(CONFIGURATION).await?.ok()?;
        let renewed = |found: &Value| found["metadata"]["uid"] != before["metadata"]["uid"];
        world.until_configured(place, "the configuration is installed again", renewed).await?;
        cast.consumer.until_protected(&world, &cast.vpc, "a").await?;
    }
    cast.consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await.map(drop)
}

pub(crate) async fn edited_by_hand(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    one_reference(&world, &cast).await?;
    if !world.is_control() {
        let place = &cast.network.api;
        let before = world.until_configured(place, "the configuration is installed", |_| true).await?;
        let mut webhooks = before["webhooks"].clone();
        webhooks[0]["failurePolicy"] = json!("Ignore");
        webhooks[0]["rules"][0]["operations"] = json!(["CREATE"]);
        place.merge(CONFIGURATION, &json!({"webhooks": webhooks})).await?.ok()?;
        let righted = |found: &Value| found["webhooks"] == before["webhooks"];
        let found = world.until_configured(place, "the configuration is put right", righted).await?;
        // depguard repaired it by an apply: the API server knows the owner of these fields, and keeps the fields of
        // other managers.
        let managers = found["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let applied = |entry: &Value| entry["manager"] == "depguard-controller" && entry["operation"] == "Apply";
        ensure(managers.iter().any(applied), || format!("managers are {managers:?}"))?;
        cast.consumer.until_protected(&world, &cast.vpc, "a").await?;
    }
    cast.consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await.map(drop)
}

pub(crate) async fn added_by_another_manager(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    one_reference(&world, &cast).await?;
    if !world.is_control() {
        let place = &cast.network.api;
        let before = world.until_configured(place, "the configuration is installed", |_| true).await?;
        // With this condition the webhook is never called, and depguard's own apply leaves the condition in place.
        let never = json!([{"name": "never", "expression": "false"}]);
        let patch = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "dependency-controller"},
            "webhooks": [{
                "name": OWN_WEBHOOK, "matchConditions": never, "clientConfig": before["webhooks"][0]["clientConfig"],
                "admissionReviewVersions": ["v1"], "sideEffects": "None",
            }],
        });
        let patched = place.apply(CONFIGURATION, &patch).await?.ok()?;
        ensure(patched["webhooks"][0]["matchConditions"] == never, || format!("it is not there: {patched}"))?;
        let righted = |found: &Value| found["webhooks"] == before["webhooks"];
        world.until_configured(place, "the condition is taken out", righted).await?;
        cast.consumer.until_protected(&world, &cast.vpc, "a").await?;
    }
    cast.consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await.map(drop)
}

/// Creates a configuration with depguard's name and one webhook with this name, which nobody serves.
async fn occupy(place: &Api, webhook: &str) -> Outcome<Value> {
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "dependency-controller"},
        "webhooks": [{
            "name": webhook,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/validate"},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "rules": [{
                "apiGroups": ["nobody.example.com"], "apiVersions": ["v1"],
                "operations": ["DELETE"], "resources": ["nothings"],
            }],
        }],
    });
    place.post(CONFIGURATIONS, &configuration).await?.ok()
}

pub(crate) async fn foreign(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let place = &cast.network.api;
    if !world.is_control() {
        occupy(place, "somebody.example.com").await?;
    }
    let machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    world.add_rule(&cast.compute, &machines).await?;
    let _depguard = Depguard::start(&world).await?;
    let named = |said: &str| said.contains("dependency-controller");
    world.condition_says(&cast.compute, "machines", "Programmed", "False", named).await?;
    if !world.is_control() {
        let found = world.configuration(place).await?.unwrap_or_default();
        let kept = found["webhooks"][0]["name"] == "somebody.example.com";
        ensure(kept, || format!("the foreign configuration was changed: {found}"))?;
        // Once the foreign configuration is gone, depguard installs its own.
        place.delete(CONFIGURATION).await?.ok()?;
    }
    world.condition(&cast.compute, "machines", "Programmed", "True").await?;
    one_reference(&world, &cast).await?;
    cast.consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await.map(drop)
}

/// Returns true if API servers call a path of their own below this URL.
pub(crate) fn is_below(client: &Value, url: &str) -> bool {
    let path = client["url"].as_str().and_then(|called| called.strip_prefix(url));
    path.is_some_and(|path| path.split('/').count() == 3)
}

pub(crate) async fn taken_over(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let place = &cast.network.api;
    if !world.is_control() {
        occupy(place, OWN_WEBHOOK).await?;
    }
    let machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    world.add_rule(&cast.compute, &machines).await?;
    let depguard = Depguard::start(&world).await?;
    if !world.is_control() {
        let url = depguard.url();
        let ours = |found: &Value| is_below(&found["webhooks"][0]["clientConfig"], &url);
        let found = world.until_configured(place, "the reference's configuration is taken over", ours).await?;
        let kinds = reviewed_kinds(&found);
        let expected = [format!("{}/vpcs", cast.network.export)];
        ensure(kinds == expected, || format!("it hears of {kinds:?}"))?;
    }
    one_reference(&world, &cast).await?;
    cast.consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await.map(drop)
}

pub(crate) async fn claim_not_accepted(world: Arc<World>) -> Outcome {
    let (network, compute) = tokio::try_join!(world.network("providers:network"), world.compute())?;
    world.bind_depguard(&compute).await?;
    let reject = |binding: &mut Value| {
        for claim in binding["spec"]["permissionClaims"].as_array_mut().into_iter().flatten() {
            claim["state"] = json!("Rejected");
        }
    };
    world.bind_depguard_as(&network, reject).await?;
    let cast = world.consume(network, compute).await?;
    let machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    world.add_rule(&cast.compute, &machines).await?;
    let _depguard = Depguard::start(&world).await?;
    let named = |said: &str| said.contains("validatingwebhookconfigurations") && said.contains("not accepted");
    world.condition_says(&cast.compute, "machines", "Programmed", "False", named).await?;

    world.accept_claims(&cast.network).await?;
    world.condition(&cast.compute, "machines", "Programmed", "True").await?;
    one_reference(&world, &cast).await?;
    cast.consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await.map(drop)
}

pub(crate) async fn moved(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = guarded(&world).await?;
    one_reference(&world, &cast).await?;
    if !world.is_control() {
        let place = &cast.network.api;
        let before = world.until_configured(place, "the configuration is installed", |_| true).await?;
        depguard.stop_controller().await;
        depguard.kill_webhook();
        depguard.move_webhook()?;
        depguard.start_controller().await?;
        depguard.start_webhook().await?;
        let url = depguard.url();
        let applied = |found: &Value| {
            let (old, new) = (&before["webhooks"][0]["clientConfig"], &found["webhooks"][0]["clientConfig"]);
            is_below(new, &url) && new["caBundle"] != old["caBundle"]
        };
        world.until_configured(place, "the new URL and CA are applied", applied).await?;
        cast.consumer.until_protected(&world, &cast.vpc, "a").await?;
    }
    cast.consumer.refused(&world, &cast.vpc, "a", &[REFUSAL]).await.map(drop)
}

pub(crate) async fn target_removed(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let both = [(&cast.vpc, ".spec.vpcRef.name"), (&cast.region, ".spec.region")];
    world.add_rule(&cast.compute, &rule("machines", &cast.vm, &both)).await?;
    let _depguard = Depguard::start(&world).await?;
    let group = &cast.network.export;
    let place = &cast.network.api;
    let hears = |kinds: &[&str]| {
        let expected: Vec<String> = kinds.iter().map(|kind| format!("{group}/{kind}")).collect();
        move |found: &Value| reviewed_kinds(found) == expected
    };
    world.until_configured(place, "both kinds are reviewed", hears(&["regions", "vpcs"])).await?;
    let one = rule("machines", &cast.vm, &both[..1]);
    world.change_rule(&cast.compute, "machines", &json!({"spec": one["spec"]})).await?;
    world.until_configured(place, "the removed target's kind has left", hears(&["vpcs"])).await.map(drop)
}

pub(crate) async fn restarts(world: Arc<World>) -> Outcome {
    const KINDS: usize = 8;
    const RESTARTS: usize = 20;
    let compute = world.compute().await?;
    let kinds = (0..KINDS).map(|number| Resource::namespaced(&format!("Disk{number}"))).collect();
    let storage = world.provider("providers:storage", "storage.example.com", kinds).await?;
    tokio::try_join!(world.bind_depguard(&compute), world.bind_depguard(&storage))?;
    let vm = compute.kind("VirtualMachine")?;
    let mut expected = Vec::new();
    for number in 0..KINDS {
        let disk = storage.kind(&format!("Disk{number}"))?;
        expected.push(format!("{}/{}", disk.group, disk.plural));
        let rule = rule(&format!("disk-{number}"), &vm, &[(&disk, ".spec.disk.name")]);
        world.add_rule(&compute, &rule).await?;
    }
    expected.sort();
    let mut depguard = Depguard::prepare(&world).await?;
    depguard.start_controller().await?;
    let all = |found: &Value| reviewed_kinds(found) == expected;
    world.until_configured(&storage.api, "all kinds are reviewed", all).await?;

    let over = AtomicBool::new(false);
    let watching = async {
        while !over.load(Ordering::Relaxed) {
            let found = world.configuration(&storage.api).await?.unwrap_or_default();
            ensure(all(&found), || format!("a kind was lost: {:?}", reviewed_kinds(&found)))?;
        }
        Ok::<(), Stop>(())
    };
    let restarting = async {
        for round in 0..RESTARTS {
            depguard.stop_controller().await;
            // Another client writes meanwhile, so that the controller's knowledge is out of date.
            let note = json!({"metadata": {"annotations": {"example.com/round": round.to_string()}}});
            storage.api.merge(CONFIGURATION, &note).await?.ok()?;
            depguard.start_controller().await?;
            // The status of a changed rule shows that this controller has taken over.
            let number = round % KINDS;
            let name = format!("disk-{number}");
            let disk = storage.kind(&format!("Disk{number}"))?;
            let changed = rule(&name, &vm, &[(&disk, &format!(".spec.disk.name{round}"))]);
            world.change_rule(&compute, &name, &json!({"spec": changed["spec"]})).await?;
            world.condition(&compute, &name, "Programmed", "True").await?;
        }
        over.store(true, Ordering::Relaxed);
        Ok::<(), Stop>(())
    };
    tokio::try_join!(watching, restarting)?;
    world.until_configured(&storage.api, "all kinds are reviewed in the end", all).await.map(drop)
}
