//! Webhook configurations that depguard installs for locks, and their repair.

use std::sync::Arc;

use depguard_e2e::locks::{Attempt, LOCK_KINDS_CONFIGURATION, TABLES, named};
use depguard_e2e::{Cast, Consumer, Outcome, Resource, World, ensure, eventually};
use serde_json::{Value, json};

use super::guarded;
use crate::eviction::{create_pods, pods};

/// Waits until exactly these operations are reviewed.
async fn until_reviewed(world: &World, cast: &Cast, kinds: &[(&str, &Resource)]) -> Outcome {
    let mut expected: Vec<String> =
        kinds.iter().map(|(operation, kind)| format!("{operation} {}/{}", kind.group, kind.plural)).collect();
    expected.sort();
    eventually("what is reviewed is what locks name", world.patience(), async || {
        // A single provider offers the locked kinds.
        let found = world.reviewed_for_locks(&cast.compute).await?;
        ensure(found == expected, || format!("{found:?} are reviewed, and not {expected:?}"))
    })
    .await
}

pub(crate) async fn narrow(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    until_reviewed(&world, &cast, &[]).await?;
    let lock = |kind: &Resource, operations: &[&str]| json!({"targets": [named(kind, "x")], "operations": operations, "reason": "a"});
    let machines = consumer.lock("machines", lock(&cast.vm, &["Delete"])).await?;
    consumer.until_programmed(&world, &machines).await?;
    until_reviewed(&world, &cast, &[("DELETE", &cast.vm)]).await?;
    let fleets = consumer.cluster_lock(&format!("{}-fleets", world.id()), lock(&cast.fleet, &["Update"])).await?;
    consumer.until_programmed(&world, &fleets).await?;
    until_reviewed(&world, &cast, &[("DELETE", &cast.vm), ("UPDATE", &cast.fleet)]).await?;
    let patch = json!({"spec": {"operations": ["Update", "Delete"]}});
    consumer.api.merge(&machines, &patch).await?.ok()?;
    until_reviewed(&world, &cast, &[("DELETE", &cast.vm), ("UPDATE", &cast.fleet), ("UPDATE", &cast.vm)]).await?;
    consumer.api.delete(&machines).await?.ok()?;
    until_reviewed(&world, &cast, &[("UPDATE", &cast.fleet)]).await?;
    consumer.api.delete(&fleets).await?.ok()?;
    until_reviewed(&world, &cast, &[]).await?;
    eventually("no configuration about locked kinds is left", world.patience(), async || {
        let reply = cast.compute.api.get(depguard_e2e::locks::LOCKS_CONFIGURATION).await?;
        if reply.is_gone() { Ok(()) } else { Err(reply.unexpected("404")) }
    })
    .await?;
    // No lock table may be left either.
    eventually("no table is left", world.patience(), async || {
        let tables = consumer.api.get(TABLES).await?.ok()?;
        let of_ours = |table: &&Value| table["spec"]["group"] == cast.vm.group.as_str();
        let left: Vec<_> = tables["items"].as_array().into_iter().flatten().filter(of_ours).collect();
        ensure(left.is_empty(), || format!("{left:?}"))
    })
    .await
}

/// Makes each lock while the last one about the same kind goes. From the moment at which a lock says that it holds, its
/// kind is reviewed until the lock goes.
pub(crate) async fn narrow_meanwhile(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let (consumer, mut last) = (&cast.consumer, None::<String>);
    let of = |name: &str| json!({"targets": [named(&cast.vm, name)], "operations": ["Delete"], "reason": "kept"});
    for round in 0..10 {
        let name = format!("m{round}");
        consumer.create(&cast.vm, &name, json!({})).await?;
        let goes = async {
            match &last {
                Some(last) => consumer.api.delete(last).await?.ok().map(drop),
                None => Ok(()),
            }
        };
        let comes = async {
            let lock = consumer.lock(&name, of(&name)).await?;
            consumer.until_programmed(&world, &lock).await?;
            Ok(lock)
        };
        let ((), lock) = if round % 2 == 0 {
            tokio::try_join!(goes, comes)?
        } else {
            goes.await?;
            ((), comes.await?)
        };
        let expected = format!("DELETE {}/{}", cast.vm.group, cast.vm.plural);
        for _ in 0..20 {
            let found = world.reviewed_for_locks(&cast.compute).await?;
            ensure(found.contains(&expected), || format!("{name} is locked, and only {found:?} are reviewed"))?;
        }
        consumer.until_locked(&world, &lock, &consumer.object(&cast.vm, &name)).await?;
        last = Some(lock);
    }
    Ok(())
}

/// Locks an Event. While no webhook answers, the Events of other namespaces come and go.
pub(crate) async fn events(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = guarded(&world).await?;
    let (consumer, other) = (&cast.consumer, cast.consumer.in_namespace(&world, "other").await?);
    let path = |place: &Consumer| format!("/api/v1/namespaces/{}/events", place.namespace);
    let event = |place: &Consumer, name: &str| {
        let about = json!({"kind": "Pod", "name": "a", "namespace": place.namespace});
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": about, "reason": "a"})
    };
    for place in [consumer, &other] {
        place.api.post(&path(place), &event(place, "kept")).await?.ok()?;
    }
    let lock = json!({"targets": [{"resource": "events", "name": "kept"}], "reason": "evidence"});
    let lock = consumer.lock("kept", lock).await?;
    consumer.until_locked(&world, &lock, &format!("{}/kept", path(consumer))).await?;
    depguard.kill_webhook();
    other.api.delete(&format!("{}/kept", path(&other))).await?.ok()?;
    for place in [consumer, &other] {
        place.api.post(&path(place), &event(place, "new")).await?.ok()?;
    }
    let reply = consumer.api.delete(&format!("{}/new", path(consumer))).await?;
    ensure(reply.status >= 400, || "it went though nobody could be asked".to_owned())?;
    depguard.start_webhook().await?;
    consumer
        .locked(&world, &format!("{}/kept", path(consumer)), &Attempt::Delete, &["Object is locked: evidence"])
        .await
        .map(drop)
}

pub(crate) async fn repaired(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    for name in ["m1", "m2"] {
        consumer.create(&cast.vm, name, json!({})).await?;
    }
    let lock = consumer.lock("m1", json!({"targets": [named(&cast.vm, "m1")], "reason": "kept"})).await?;
    let (m1, m2) = (consumer.object(&cast.vm, "m1"), consumer.object(&cast.vm, "m2"));
    consumer.until_locked(&world, &lock, &m1).await?;
    if !world.is_control() {
        // An administrator deletes the table.
        let tables = consumer.api.get(TABLES).await?.ok()?;
        let ours = |table: &&Value| table["spec"]["namespace"] == consumer.namespace.as_str();
        let table = tables["items"].as_array().into_iter().flatten().find(ours).cloned().unwrap_or_default();
        let table = format!("{TABLES}/{}", table["metadata"]["name"].as_str().unwrap_or_default());
        consumer.api.delete(&table).await?.ok()?;
        eventually("the table is back", world.patience(), async || consumer.api.get(&table).await?.ok().map(drop))
            .await?;
    }
    consumer.until_refused(&world, &m1).await?;
    consumer.locked(&world, &m1, &Attempt::Delete, &["Object is locked: kept"]).await?;

    // A lock that no webhook reviewed.
    depguard.stop_controller().await;
    world.admin(&lock_kinds_place(&world)).delete(LOCK_KINDS_CONFIGURATION).await?.ok()?;
    let number = std::cell::Cell::new(0);
    let unseen = eventually("a lock is made that nobody saw", world.patience(), async || {
        // The API server notices a removed configuration a moment later.
        number.set(number.get() + 1);
        let name = format!("unseen{}", number.get());
        let lock = consumer.lock(&name, json!({"targets": [named(&cast.vm, "m2")], "reason": "unseen"})).await?;
        if consumer.api.dry_run_delete(&m2).await?.status == 403 {
            consumer.api.delete(&lock).await?.ok()?;
            return Err(depguard_e2e::Stop::failed("it was seen"));
        }
        Ok(lock)
    })
    .await?;
    depguard.start_controller().await?;
    consumer.until_locked(&world, &unseen, &m2).await?;
    consumer.locked(&world, &m2, &Attempt::Delete, &["Object is locked: unseen"]).await?;
    let found = world.admin(&lock_kinds_place(&world)).get(LOCK_KINDS_CONFIGURATION).await?;
    found.ok().map(drop)
}

/// Returns the path of the workspace with the export of locks; empty on a plain cluster.
fn lock_kinds_place(world: &World) -> String {
    world.own_path()
}

pub(crate) async fn compat(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let consumer = &cast.consumer;
    let other = consumer.in_namespace(&world, "two").await?;
    let lockable = json!({"metadata": {"labels": {"lockable": "true"}}});
    consumer.api.merge(&consumer.namespace_path(), &lockable).await?.ok()?;
    let mut depguard = depguard_e2e::Depguard::prepare(&world).await?;
    depguard.guard_compat_locks(&[&cast.vm, &pods()])?;
    depguard.start_controller().await?;
    depguard.start_webhook().await?;

    let lock = |name: &str| json!({"apiVersion": "kotas.tech/v1", "kind": "Lock", "metadata": {"name": name}});
    let locks = |place: &depguard_e2e::Consumer| format!("/apis/kotas.tech/v1/namespaces/{}/locks", place.namespace);
    for place in [consumer, &other] {
        // Creation is not guarded.
        place.api.post(&locks(place), &lock("m1")).await?.ok()?;
        place.create(&cast.vm, "m1", json!({"size": 1})).await?;
        place.create(&cast.vm, "m2", json!({"size": 1})).await?;
    }
    let (m1, m2) = (consumer.object(&cast.vm, "m1"), consumer.object(&cast.vm, "m2"));
    consumer.until_refused(&world, &m1).await?;
    let resize = Attempt::Merge(json!({"spec": {"size": 2}}));
    for attempt in [resize.clone(), Attempt::Delete] {
        // The API server's message begins with the webhook that refused.
        consumer.locked(&world, &m1, &attempt, &["denied the request: Object is locked"]).await?;
        other.passes(&other.object(&cast.vm, "m2"), &attempt).await?;
    }
    consumer.passes(&m2, &resize).await?;
    other.passes(&other.object(&cast.vm, "m1"), &resize).await?;
    other.delete(&world, &cast.vm, "m1").await?;
    consumer.delete(&world, &cast.vm, "m2").await?;
    consumer.api.delete(&format!("{}/m1", locks(consumer))).await?.ok()?;
    consumer.passes(&m1, &resize).await?;
    consumer.delete(&world, &cast.vm, "m1").await?;

    // An eviction deletes a Pod, though no API server has that deletion reviewed.
    consumer.api.post(&locks(consumer), &lock("p1")).await?.ok()?;
    create_pods(consumer, &["p1", "p2"], None).await?;
    let [p1, p2] = ["p1", "p2"].map(|name| consumer.object(&pods(), name));
    for attempt in [Attempt::Delete, Attempt::Evict] {
        consumer.locked(&world, &p1, &attempt, &["denied the request: Object is locked by Lock"]).await?;
    }
    consumer.passes(&p2, &Attempt::Evict).await?;
    consumer.gone(&world, &p2).await?;
    consumer.api.delete(&format!("{}/p1", locks(consumer))).await?.ok()?;
    consumer.passes(&p1, &Attempt::Evict).await?;
    consumer.gone(&world, &p1).await
}
