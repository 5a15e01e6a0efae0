//! A rule with a field that only a newer version of depguard knows, as after a rollback of the programs alone.

use std::sync::Arc;

use depguard_e2e::rules::{RULES, rule};
use depguard_e2e::{Depguard, Outcome, World, ensure, eventually};
use serde_json::{Value, json};

use crate::deletion::one_reference;

const CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/dependencyrules.dependencies.opendefense.cloud";

/// Adds a field of a newer version to the schema of rules, or takes the field away.
async fn serve_newer_field(world: &World, is_served: bool) -> Outcome {
    eventually("the definition takes another schema", world.patience(), async || {
        let mut definition = world.own_cluster().get(CRD).await?.ok()?;
        let properties =
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/dependencies/items/properties";
        if let Some(fields) = definition.pointer_mut(properties).and_then(Value::as_object_mut) {
            fields.remove("newer");
            fields.extend(is_served.then(|| ("newer".to_owned(), json!({"type": "string"}))));
        }
        world.own_cluster().put(CRD, &definition).await?.ok().map(drop)
    })
    .await
}

pub(crate) async fn field(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    let mut newer = machines.clone();
    newer["spec"]["dependencies"][0]["newer"] = json!("x");
    // A schema without the field: a strict client, as kubectl is, learns that. To others the API server says nothing.
    let strict = cast.compute.api.post(&format!("{RULES}?fieldValidation=Strict"), &newer).await?;
    ensure(strict.status == 400 && strict.message().contains("newer"), || format!("{strict:?}"))?;

    serve_newer_field(&world, true).await?;
    world.add_rule(&cast.compute, &machines).await?;
    let _depguard = Depguard::start(&world).await?;
    one_reference(&world, &cast).await?;
    cast.consumer.create_target(&cast.vpc, "free").await?;
    eventually("the rule has the field", world.patience(), async || {
        let dependencies = &newer["spec"]["dependencies"];
        world.change_rule(&cast.compute, "machines", &json!({"spec": {"dependencies": dependencies}})).await?;
        let stored = cast.compute.api.get(&format!("{RULES}/machines")).await?.ok()?;
        ensure(stored["spec"]["dependencies"][0]["newer"] == "x", || "it was dropped".to_owned())
    })
    .await?;
    let says = |said: &str| said.contains("unknown field `newer`");
    world.condition_says(&cast.compute, "machines", "Accepted", "False", says).await?;
    for name in ["a", "free"] {
        eventually("deletions are refused for it", world.patience(), async || {
            let reply = cast.consumer.api.dry_run_delete(&cast.consumer.object(&cast.vpc, name)).await?;
            let is_refused = reply.status == 403 && reply.message().contains("unknown field `newer`");
            ensure(is_refused, || format!("{reply:?}"))
        })
        .await?;
    }
    let without = json!({"spec": {"dependencies": machines["spec"]["dependencies"]}});
    world.change_rule(&cast.compute, "machines", &without).await?;
    world.condition(&cast.compute, "machines", "Accepted", "True").await?;
    cast.consumer.until_free(&world, &cast.vpc, "free").await?;
    cast.consumer.until_protected(&world, &cast.vpc, "a").await?;
    serve_newer_field(&world, false).await
}
