//! Objects that depguard installs for locks, owners and rules themselves: depguard repairs them and, in the end, removes them.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use depguard_e2e::locks::{CLUSTER_LOCKS, COMPAT_CONFIGURATION, LOCK_KINDS_CONFIGURATION, LOCKS_CONFIGURATION, named};
use depguard_e2e::owners::{CONFIGURATION as OWNERS_CONFIGURATION, GLOBAL_OWNERS, GROUP_OWNERS, ROLES, group};
use depguard_e2e::rules::{RULES, SPEC_ADMISSION_CONFIGURATION, rule};
use depguard_e2e::{Api, Cast, Depguard, Outcome, Stop, World, ensure, eventually};
use serde_json::{Value, json};

use crate::owners::{pair, started};

/// Creates the usual cast, which has bound depguard's locks, and starts depguard; on a plain cluster, with the older
/// tool's locks, too.
pub(crate) async fn with_locks(world: &Arc<World>) -> Outcome<(Cast, Depguard)> {
    let cast = world.cast().await?;
    world.bind_locks(&cast.consumer).await?;
    let mut depguard = Depguard::prepare(world).await?;
    if !world.is_kcp() {
        depguard.guard_compat_locks(&[&cast.vm])?;
    }
    depguard.start_controller().await?;
    depguard.start_webhook().await?;
    Ok((cast, depguard))
}

/// Locks a ConfigMap. Returns the lock's path, and each webhook configuration about locks with a client for its place.
async fn locked(world: &World, cast: &Cast) -> Outcome<(String, Vec<(Api, &'static str)>)> {
    let consumer = &cast.consumer;
    let map = json!({"targets": [{"resource": "configmaps", "name": "settings"}], "reason": "kept"});
    let lock = consumer.lock("kept", map).await?;
    consumer.until_programmed(world, &lock).await?;
    let mut places = vec![(consumer.api.clone(), LOCKS_CONFIGURATION), (world.own_cluster(), LOCK_KINDS_CONFIGURATION)];
    if !world.is_kcp() {
        places.push((world.own_cluster(), COMPAT_CONFIGURATION));
    }
    for (api, path) in &places {
        until(world, api, path, "it is installed", |_| true).await?;
    }
    Ok((lock, places))
}

pub(crate) async fn locks_edited(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = with_locks(&world).await?;
    let (lock, places) = locked(&world, &cast).await?;
    // The controller checks the configuration for locks themselves whenever a lock changes.
    let changes = Cell::new(0);
    let touch = async || {
        changes.set(changes.get() + 1);
        let change = json!({"metadata": {"annotations": {"example.com/seen": changes.get().to_string()}}});
        cast.consumer.api.merge(&lock, &change).await?.ok().map(drop)
    };
    for (api, path) in &places {
        put_right(&world, api, path, &touch).await?;
    }
    Ok(())
}

/// Refuses what does not work as written, before and after somebody edits the configuration that has rules reviewed.
pub(crate) async fn rules_reviewed(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let (compute, own) = (&cast.compute, world.own_cluster());
    let right = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    world.add_rule(compute, &right).await?;
    let mut depguard = Depguard::start(&world).await?;
    until(&world, &own, SPEC_ADMISSION_CONFIGURATION, "it is installed", |_| true).await?;
    let mut wrong = vec![("pattern", right.clone())];
    wrong[0].1["spec"]["dependencies"][0]["fieldRef"]["pattern"] = json!("(");
    // A webhook that reads through exports may not read exports and schemas themselves.
    if !world.ring().kind().reads_through_exports() {
        wrong.push(("no field `spek`: it has", rule("machines", &cast.vm, &[(&cast.vpc, ".spek.vpc")])));
    }
    let refused = async || {
        for (word, wrong) in &wrong {
            let path = format!("{RULES}/machines?dryRun=All");
            eventually("a wrong rule is refused", world.patience(), async || {
                let reply = compute.api.merge(&path, &json!({"spec": wrong["spec"]})).await?;
                let message = reply.body["message"].as_str().unwrap_or_default();
                let is_told = message.contains("the rule does not work as written: ") && message.contains(word);
                if reply.status == 403 && is_told { Ok(()) } else { Err(reply.unexpected("403, with the field")) }
            })
            .await?;
        }
        Ok::<_, Stop>(())
    };
    refused().await?;
    let changes = Cell::new(0);
    // The controller checks the configuration whenever a rule changes.
    let touch = async || {
        changes.set(changes.get() + 1);
        let spec = json!({"dependencies": [right["spec"]["dependencies"][0], right["spec"]["dependencies"][0]]});
        let spec = if changes.get() % 2 == 0 { right["spec"].clone() } else { spec };
        world.change_rule(compute, "machines", &json!({"spec": spec})).await
    };
    put_right(&world, &own, SPEC_ADMISSION_CONFIGURATION, &touch).await?;
    refused().await?;
    uninstalled(&world, &mut depguard, &[(own, SPEC_ADMISSION_CONFIGURATION)]).await
}

/// Waits until `wrong` is refused with this sentence, and checks that `right` would be stored.
async fn is_reviewed(world: &World, api: &Api, path: &str, [wrong, right]: [&Value; 2], said: &str) -> Outcome {
    let dry_run = format!("{path}?dryRun=All");
    eventually("what does not work as written is refused", world.patience(), async || {
        let reply = api.post(&dry_run, wrong).await?;
        let message = reply.body["message"].as_str().unwrap_or_default();
        if reply.status == 403 && message.contains(said) {
            Ok(())
        } else {
            Err(reply.unexpected("403, with the field"))
        }
    })
    .await?;
    api.post(&dry_run, right).await?.ok().map(drop)
}

/// Refuses locks that can lock nothing, before they are stored.
pub(crate) async fn locks_reviewed(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = with_locks(&world).await?;
    let api = &cast.consumer.api;
    let lock = |target: &Value| {
        json!({
            "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "ClusterObjectLock",
            "metadata": {"name": format!("lock-{}", world.id())}, "spec": {"targets": [target], "reason": "kept"},
        })
    };
    let answers = json!({"group": "authorization.k8s.io", "resource": "subjectaccessreviews", "name": "a"});
    let mut machine = named(&cast.vm, "m1");
    let anywhere = lock(&machine);
    machine["namespace"] = json!(cast.consumer.namespace);
    let right = lock(&machine);
    let said = "the lock does not work as written: spec.targets[0]: ";
    is_reviewed(&world, api, CLUSTER_LOCKS, [&lock(&answers), &right], said).await?;
    // In kcp, a lock is held against itself only.
    if !world.is_kcp() {
        let said = "are in namespaces, so a target without a namespace locks no object named m1";
        is_reviewed(&world, api, CLUSTER_LOCKS, [&anywhere, &right], said).await?;
    }
    Ok(())
}

/// Refuses an owner that does not say which objects it owns, before it is stored.
pub(crate) async fn owners_reviewed(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = started(&world).await?;
    let owner = |group: &Value| {
        json!({
            "apiVersion": "globalowner.metacontroller.io/v1alpha1", "kind": "GlobalOwner",
            "metadata": {"name": format!("{}-owner", world.id())}, "spec": {"childResources": [group]},
        })
    };
    let wrong = group(&cast.vm);
    let mut right = wrong.clone();
    right["selector"] = json!({"matchLabels": {"adopt": world.id()}});
    let said = "the GlobalOwner does not work as written: spec.childResources[0]: has no selector, names or namespace";
    is_reviewed(&world, &world.own_cluster(), GLOBAL_OWNERS, [&owner(&wrong), &owner(&right)], said).await
}

pub(crate) async fn owners_edited(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = started(&world).await?;
    let (owner, ..) = pair(&world, &cast, false).await?;
    let own = world.own_cluster();
    // Unfinished work would make the controller check the configuration.
    eventually("all is settled", world.patience(), async || {
        let state = async || Ok::<_, Stop>((owner.get().await?, owner.groups().await?));
        let before = state().await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        ensure(state().await? == before, || "something is still written".to_owned())
    })
    .await?;
    put_right(&world, &own, OWNERS_CONFIGURATION, &async || Ok(())).await?;
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let (role, group) = (owner.roles().await?.remove(0), owner.groups().await?.remove(0));
    let paths = [format!("{ROLES}/{}", name(&role)), format!("{GROUP_OWNERS}/{}", name(&group))];
    own.merge(&paths[0], &json!({"rules": []})).await?.ok()?;
    // The controller checks roles whenever an owner changes.
    own.merge(&paths[1], &json!({"spec": {"childResource": {"resource": "others"}}})).await?.ok()?;
    until(&world, &own, &paths[0], "it is put right", |found| found["rules"] == role["rules"]).await?;
    until(&world, &own, &paths[1], "it is put right", |found| found["spec"] == group["spec"]).await.map(drop)
}

pub(crate) async fn locks_uninstalled(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = with_locks(&world).await?;
    let (_, places) = locked(&world, &cast).await?;
    uninstalled(&world, &mut depguard, &places).await
}

pub(crate) async fn owners_uninstalled(world: Arc<World>) -> Outcome {
    let (_, mut depguard) = started(&world).await?;
    let own = world.own_cluster();
    // While an owner owns objects, the configuration would stay.
    until(&world, &own, OWNERS_CONFIGURATION, "it is installed", |_| true).await?;
    uninstalled(&world, &mut depguard, &[(own, OWNERS_CONFIGURATION)]).await
}

/// Uninstalls while the webhook is dead, and waits until the configurations are gone.
async fn uninstalled(world: &World, depguard: &mut Depguard, places: &[(Api, &str)]) -> Outcome {
    depguard.kill_webhook();
    depguard.uninstall().await?;
    for (api, path) in places {
        eventually("the configuration is gone", world.patience(), async || {
            let reply = api.get(path).await?;
            if reply.is_gone() { Ok(()) } else { Err(reply.unexpected("404")) }
        })
        .await?;
    }
    Ok(())
}

/// Edits a configuration, and then adds to it as another manager would. Waits until depguard has undone each change,
/// the first by an apply.
async fn put_right(world: &World, api: &Api, path: &str, touch: &impl AsyncFn() -> Outcome) -> Outcome {
    let before = api.get(path).await?.ok()?;
    let righted = |found: &Value| found["webhooks"] == before["webhooks"];
    let mut webhooks = before["webhooks"].clone();
    webhooks[0]["timeoutSeconds"] = json!(1);
    api.merge(path, &json!({"webhooks": webhooks})).await?.ok()?;
    let found = until_touched(world, api, path, "it is put right", touch, righted).await?;
    // After an apply, the API server knows the owner of these fields, and keeps the fields of other managers.
    let managers = found["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let applied = |entry: &Value| entry["manager"] == "depguard-controller" && entry["operation"] == "Apply";
    ensure(managers.iter().any(applied), || format!("managers of {path} are {managers:?}"))?;

    // With this condition the webhook is never called, and depguard's own apply leaves the condition in place.
    let never = json!({"name": "never", "expression": "false"});
    let webhook = &before["webhooks"][0];
    let added = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": before["metadata"]["name"]},
        "webhooks": [{
            "name": webhook["name"], "matchConditions": [never], "clientConfig": webhook["clientConfig"],
            "admissionReviewVersions": ["v1"], "sideEffects": webhook["sideEffects"],
        }],
    });
    let applied = api.apply(path, &added).await?.ok()?;
    ensure(applied["webhooks"].to_string().contains("never"), || format!("it is not there: {applied}"))?;
    until_touched(world, api, path, "what was added is taken out", touch, righted).await.map(drop)
}

/// Waits until `check` accepts the object at `path`.
async fn until(world: &World, api: &Api, path: &str, what: &str, check: impl Fn(&Value) -> bool) -> Outcome<Value> {
    until_touched(world, api, path, what, &async || Ok(()), check).await
}

/// Waits as [`until`] does, and calls `touch` before each look.
async fn until_touched(
    world: &World,
    api: &Api,
    path: &str,
    what: &str,
    touch: &impl AsyncFn() -> Outcome,
    check: impl Fn(&Value) -> bool,
) -> Outcome<Value> {
    eventually(&format!("{path}: {what}"), world.patience(), async || {
        touch().await?;
        let found = api.get(path).await?.ok()?;
        if check(&found) { Ok(found) } else { Err(Stop::Failed(format!("found {found}"))) }
    })
    .await
}
