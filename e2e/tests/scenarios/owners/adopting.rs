//! Adoption: objects that an owner adopts, leaves alone, or releases again.

use std::sync::Arc;

use depguard_e2e::{Depguard, Outcome, World, ensure};
use serde_json::{Value, json};

use super::{create, spec, started};

/// Runs the older tool's example: a ConfigMap and a Secret with the label `adopt`.
pub(crate) async fn example(world: Arc<World>) -> Outcome {
    let consumer = world.consumer("consumer", &[]).await?;
    let _depguard = Depguard::start(&world).await?;
    let of = |resource: &str| format!("{}/{resource}", consumer.namespace_path());
    let object = |kind: &str, name: &str| {
        json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": {"name": name, "namespace": consumer.namespace, "labels": {"adopt": "true"}},
        })
    };
    let child = |resource: &str| json!({"apiVersion": "v1", "resource": resource});
    let selector = json!({"matchExpressions": [{"key": "adopt", "operator": "Exists"}]});
    let owner = json!({"childResources": [child("configmaps"), child("secrets")], "selector": selector});
    consumer.api.post(&of("configmaps"), &object("ConfigMap", "test")).await?.ok()?;
    let owner = world.own("global-owner", owner).await?;
    consumer.api.post(&of("secrets"), &object("Secret", "test")).await?.ok()?;
    let paths = [format!("{}/test", of("configmaps")), format!("{}/test", of("secrets"))];
    for path in &paths {
        let adopted = owner.until_adopted(&world, path).await?;
        let reference = &adopted["metadata"]["ownerReferences"][0];
        ensure(
            reference["kind"] == "GroupOwner"
                && reference["controller"] != true
                && reference["blockOwnerDeletion"] != true,
            || format!("the reference is {reference}"),
        )?;
    }
    owner.until(&world, "the status is of this generation", |status| status["observedGeneration"] == 1).await?;
    let groups = owner.groups().await?;
    ensure(groups.len() == 2, || format!("{groups:?}"))?;
    depguard_e2e::eventually("each group says what it owns", world.patience(), async || {
        let groups = owner.groups().await?;
        let owned: Vec<&Value> =
            groups.iter().filter_map(|group| group["status"]["ownedResources"].as_array()).flatten().collect();
        let names = |kind: &str| {
            owned.iter().any(|one| {
                one["kind"] == kind && one["name"] == "test" && one["namespace"] == consumer.namespace.as_str()
            })
        };
        ensure(names("ConfigMap") && names("Secret"), || format!("{owned:?}"))
    })
    .await?;
    // The roles cover these resources only.
    let roles = owner.roles().await?;
    let granted: Vec<&Value> =
        roles.iter().filter_map(|role| role["rules"].as_array()).flatten().map(|rule| &rule["resources"]).collect();
    ensure(
        granted.len() == 2 && granted.iter().all(|one| **one == json!(["configmaps"]) || **one == json!(["secrets"])),
        || format!("roles are {roles:?}"),
    )?;
    owner.delete().await?;
    owner.until_gone(&world).await?;
    for path in &paths {
        consumer.gone(&world, path).await?;
    }
    Ok(())
}

pub(crate) async fn labels(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = started(&world).await?;
    let consumer = &cast.consumer;
    let other = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"},
    });
    let other = consumer.api.post(&format!("{}/configmaps", consumer.namespace_path()), &other).await?.ok()?;
    let others = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": other["metadata"]["uid"]});
    let first = create(&world, &cast, &cast.vm, "first", false, json!({})).await?;
    let owned = json!({"metadata": {"ownerReferences": [others]}});
    consumer.api.merge(&first, &owned).await?.ok()?;
    let plain = consumer.object(&cast.vm, "plain");
    consumer.create(&cast.vm, "plain", json!({})).await?;

    let owner = world.own("labels", spec(&world, &[&cast.vm])).await?;
    let adopted = owner.until_adopted(&world, &first).await?;
    let keeps = |object: &Value| {
        let references = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        references.iter().any(|reference| reference["uid"] == other["metadata"]["uid"])
    };
    ensure(keeps(&adopted), || format!("the other owner is lost: {adopted}"))?;
    // The owner also adopts an object that is created later, and one that gets the label later.
    let late = create(&world, &cast, &cast.vm, "late", false, json!({})).await?;
    owner.until_adopted(&world, &late).await?;
    ensure(!owner.owns(&consumer.api.get(&plain).await?.ok()?).await?, || "one without the label".to_owned())?;
    let label = |label: Value| json!({"metadata": {"labels": {"adopt": label}}});
    consumer.api.merge(&plain, &label(json!(world.id()))).await?.ok()?;
    owner.until_adopted(&world, &plain).await?;

    consumer.api.merge(&first, &label(Value::Null)).await?.ok()?;
    let released = owner.until_released(&world, &first).await?;
    ensure(keeps(&released), || format!("the other owner is lost: {released}"))?;
    owner.delete().await?;
    owner.until_gone(&world).await?;
    // The released object stays, and the owned ones go.
    consumer.untouched(&cast.vm, "first").await?;
    consumer.gone(&world, &late).await?;
    consumer.gone(&world, &plain).await
}

pub(crate) async fn not_stolen(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = started(&world).await?;
    let consumer = &cast.consumer;
    let vpc = create(&world, &cast, &cast.vpc, "boss", false, json!({})).await?;
    let boss = consumer.api.get(&vpc).await?.ok()?;
    let controller = json!([{
        "apiVersion": cast.vpc.api_version(), "kind": cast.vpc.kind, "name": "boss",
        "uid": boss["metadata"]["uid"], "controller": true,
    }]);
    let controlled = create(&world, &cast, &cast.vm, "controlled", false, json!({})).await?;
    consumer.api.merge(&controlled, &json!({"metadata": {"ownerReferences": controller}})).await?.ok()?;
    let out = create(&world, &cast, &cast.vm, "out", false, json!({})).await?;
    let opt_out = json!({"metadata": {"annotations": {"dependencies.opendefense.cloud/adopt": "false"}}});
    consumer.api.merge(&out, &opt_out).await?.ok()?;
    let free = create(&world, &cast, &cast.vm, "free", false, json!({})).await?;

    let owner = world.own("polite", spec(&world, &[&cast.vm])).await?;
    owner.until_adopted(&world, &free).await?;
    depguard_e2e::eventually("what is not adopted is reported", world.patience(), async || {
        let (owner, groups) = (owner.get().await?, owner.groups().await?);
        let said = format!("{} {groups:?}", owner["status"]);
        let about = |text: &str| said.contains(text);
        ensure(about("controlled") && about("controller"), || said.clone())
    })
    .await?;
    for path in [&controlled, &out] {
        let object = consumer.api.get(path).await?.ok()?;
        ensure(!owner.owns(&object).await?, || format!("it was adopted: {object}"))?;
    }
    // An object that opts out later is released.
    consumer.api.merge(&free, &opt_out).await?.ok()?;
    owner.until_released(&world, &free).await?;
    owner.delete().await?;
    owner.until_gone(&world).await?;
    for name in ["controlled", "out", "free"] {
        consumer.untouched(&cast.vm, name).await?;
    }
    Ok(())
}

pub(crate) async fn selected(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = started(&world).await?;
    let consumer = &cast.consumer;
    let other = consumer.in_namespace(&world, "two").await?;
    let machines = |more: Value| {
        let mut entry = depguard_e2e::owners::group(&cast.vm);
        for (field, value) in more.as_object().into_iter().flatten() {
            entry[field] = value.clone();
        }
        entry
    };
    // Each entry has its own way to choose objects: a selector of its own, or names and a namespace.
    let tier = json!({"tier": world.id()});
    let spec = json!({
        "selector": {"matchLabels": {"adopt": world.id()}},
        "childResources": [
            machines(json!({"selector": {"matchLabels": tier}})),
            machines(json!({"names": ["n1"], "namespace": other.namespace})),
        ],
    });
    consumer.create_with(&cast.vm, json!({"name": "t1", "labels": tier}), json!({})).await?;
    for place in [consumer, &other] {
        for name in ["n1", "n2"] {
            let metadata = json!({"name": name, "labels": {"adopt": world.id()}});
            place.create_with(&cast.vm, metadata, json!({})).await?;
        }
    }
    let owner = world.own("selected", spec).await?;
    owner.until_adopted(&world, &consumer.object(&cast.vm, "t1")).await?;
    owner.until_adopted(&world, &other.object(&cast.vm, "n1")).await?;
    owner.delete().await?;
    owner.until_gone(&world).await?;
    consumer.gone(&world, &consumer.object(&cast.vm, "t1")).await?;
    consumer.gone(&world, &other.object(&cast.vm, "n1")).await?;
    consumer.untouched(&cast.vm, "n1").await?;
    other.untouched(&cast.vm, "n2").await?;
    if world.ring().kind().is_testbed() {
        return Ok(());
    }
    // An API server with CEL refuses an entry with both.
    let both = json!({"childResources": [machines(json!({"selector": {"matchLabels": tier}, "names": ["a"]}))]});
    let refused = world.own("both", both).await;
    ensure(refused.is_err_and(|stop| stop.to_string().contains("selector")), || "both are taken".to_owned())
}
