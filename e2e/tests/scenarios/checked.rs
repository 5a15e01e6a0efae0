//! Rules checked against the kinds and fields that exist.

use std::sync::Arc;

use depguard_e2e::rules::{RULES, rule};
use depguard_e2e::{Depguard, Outcome, Provider, Stop, World, ensure, eventually};
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

/// Strings of a rule in which somebody slips, each with the pointer to an existing word that is not meant, and true if that
/// word gives another right rule: it is enforced then, and nobody knows that it was a slip.
const SLIPS: [(&str, &str, bool); 11] = [
    ("/dependent/apiExportName", "", false),
    ("/dependent/group", "/dependencies/0/group", false),
    ("/dependent/version", "", false),
    ("/dependent/kind", "/fleet/kind", false),
    // Fleets may refer to VPCs, too: their schema allows anything.
    ("/dependent/resource", "/fleet/resource", true),
    ("/dependencies/0/apiExportRef/name", "/dependent/apiExportName", false),
    ("/dependencies/0/apiExportRef/path", "/compute", false),
    ("/dependencies/0/group", "/dependent/group", false),
    ("/dependencies/0/version", "", false),
    ("/dependencies/0/resource", "/region/resource", true),
    ("/dependencies/0/message", "", false),
];

/// Puts slips into a rule one after the other. While the rule says that it is enforced, what the right rule protects can't
/// be deleted.
pub(crate) async fn one_slip(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let compute = &cast.compute;
    let mut right = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    right["spec"]["dependencies"][0]["message"] = json!("detach it");
    world.add_rule(compute, &right).await?;
    cast.consumer.create_target(&cast.vpc, "used").await?;
    cast.consumer.create_dependent(&cast.vm, "user", "used").await?;
    let _depguard = Depguard::start(&world).await?;
    cast.consumer.until_protected(&world, &cast.vpc, "used").await?;
    let mut words = right["spec"].clone();
    words["fleet"] = json!({"kind": cast.fleet.kind, "resource": cast.fleet.plural});
    words["region"] = json!({"resource": cast.region.plural});
    words["compute"] = json!(compute.path);
    let word = |pointer: &str| words.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    for (pointer, other, is_right) in SLIPS {
        let (right_word, other) = (word(pointer), word(other));
        // A plain cluster has no exports.
        let Some((shorter, _)) = right_word.char_indices().last().map(|(at, _)| right_word.split_at(at)) else {
            continue;
        };
        let slips = [format!("{right_word}x"), shorter.to_owned(), format!("{shorter}x"), other.clone()];
        for slip in slips.iter().filter(|slip| !slip.is_empty()) {
            let mut spec = right["spec"].clone();
            *spec.pointer_mut(pointer).ok_or_else(|| Stop::Failed(format!("no {pointer}: {right}")))? = json!(slip);
            let changed = compute.api.merge(&format!("{RULES}/machines"), &json!({"spec": spec})).await?;
            // What neither the schema nor the webhook lets in leaves the rule as it was.
            let is_refused = changed.status == 403 && changed.body.to_string().contains("does not work as written");
            if changed.status == 422 || is_refused {
                continue;
            }
            changed.ok()?;
            let is_enforced = enforced(&world, compute).await?;
            let deleted = cast.consumer.api.dry_run_delete(&cast.consumer.object(&cast.vpc, "used")).await?;
            ensure(!is_enforced || (is_right && *slip == other) || deleted.status == 403, || {
                format!("enforced with {pointer}: {slip}, and the deletion had status {}", deleted.status)
            })?;
        }
    }
    world.change_rule(compute, "machines", &json!({"spec": right["spec"]})).await?;
    world.condition(compute, "machines", "Enforced", "True").await
}

/// Waits until it is known whether the present generation of the rule is enforced.
async fn enforced(world: &World, compute: &Provider) -> Outcome<bool> {
    eventually("it is known whether the rule is enforced", world.patience(), async || {
        let rule = compute.api.get(&format!("{RULES}/machines")).await?.ok()?;
        let conditions = rule["status"]["conditions"].as_array().into_iter().flatten();
        let mut of_generation = conditions.filter(|one| one["observedGeneration"] == rule["metadata"]["generation"]);
        match of_generation.find(|one| one["type"] == "Enforced").map(|one| &one["status"]) {
            Some(status) if status != "Unknown" => Ok(status == "True"),
            _ => Err(Stop::Failed(format!("status is {}", rule["status"]))),
        }
    })
    .await
}
