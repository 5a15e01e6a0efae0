//! Rules checked against the kinds and fields that exist.

use std::sync::Arc;

use depguard_e2e::rules::{RULES, rule};
use depguard_e2e::{Depguard, Outcome, Stop, World, ensure, eventually};
use serde_json::{Value, json};

pub(crate) async fn against_schemas(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let compute = &cast.compute;
    world.add_rule(compute, &rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")])).await?;
    world.add_rule(compute, &rule("typo", &cast.vm, &[(&cast.region, ".spek.region")])).await?;
    let mut old = rule("old", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    old["spec"]["dependent"]["version"] = json!("v1beta9");
    world.add_rule(compute, &old).await?;
    let _depguard = Depguard::start(&world).await?;

    let whole = |said: &str| said == "everything that the rule names exists";
    world.condition_says(compute, "machines", "ResolvedRefs", "True", whole).await?;
    let unchecked = |said: &str| said.contains("spec.dependencies[0].fieldRef.path could not be checked");
    world.condition_says(compute, "machines", "Accepted", "True", unchecked).await?;
    world.condition(compute, "machines", "Enforced", "True").await?;
    let found = compute.api.get(&format!("{RULES}/machines")).await?.ok()?;
    ensure(found["status"]["summary"] == "vpcs", || found["status"].to_string())?;
    ensure(found["status"]["targets"][0]["lookup"] == "NamespaceScan", || found["status"].to_string())?;

    let misspelt = |said: &str| said.contains("the object has no field `spek`: it has");
    world.condition_says(compute, "typo", "Accepted", "False", misspelt).await?;
    let not_served = |said: &str| said.contains("is not served in version v1beta9, but in v1alpha1");
    world.condition_says(compute, "old", "ResolvedRefs", "False", not_served).await?;

    // Each rule has events about its conditions.
    let typo = compute.api.get(&format!("{RULES}/typo")).await?.ok()?["metadata"]["uid"].clone();
    let told = eventually("there is an event on the rule", world.patience(), async || {
        let events = compute.api.get("/api/v1/namespaces/default/events").await?.ok()?;
        let events = events["items"].as_array().cloned().unwrap_or_default();
        let told = |event: &&Value| event["involvedObject"]["uid"] == typo && event["reason"] == "FieldNotFound";
        events.iter().find(told).cloned().ok_or_else(|| Stop::Failed(format!("events are {events:?}")))
    })
    .await?;
    ensure(told["type"] == "Warning", || told.to_string())
}

/// Changes one name of a rule by a letter, and back, one after the other: the rule says each time that it protects nothing.
pub(crate) async fn one_wrong_letter(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let compute = &cast.compute;
    let right = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    world.add_rule(compute, &right).await?;
    let _depguard = Depguard::start(&world).await?;
    for name in [
        "/dependent/apiExportName",
        "/dependent/group",
        "/dependent/resource",
        "/dependencies/0/apiExportRef/name",
        "/dependencies/0/apiExportRef/path",
        "/dependencies/0/group",
        "/dependencies/0/resource",
    ] {
        world.condition(compute, "machines", "Enforced", "True").await?;
        let mut spec = right["spec"].clone();
        let word = spec.pointer_mut(name).ok_or_else(|| Stop::Failed(format!("no {name}: {right}")))?;
        *word = json!(format!("{}x", word.as_str().unwrap_or_default()));
        world.change_rule(compute, "machines", &json!({"spec": spec})).await?;
        world.condition(compute, "machines", "ResolvedRefs", "False").await?;
        world.condition(compute, "machines", "Enforced", "False").await?;
        world.change_rule(compute, "machines", &json!({"spec": right["spec"]})).await?;
    }
    Ok(())
}
