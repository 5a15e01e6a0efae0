//! Locks that appear and disappear in quick succession: none may be overlooked.

use std::sync::Arc;

use depguard_e2e::locks::{Attempt, named};
use depguard_e2e::{Consumer, Outcome, Resource, World, ensure, eventually};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::json;

use super::guarded;

pub(crate) async fn at_once(world: Arc<World>) -> Outcome {
    const ROUNDS: usize = 120;
    let (cast, _depguard) = guarded(&world).await?;
    let (consumer, vm) = (&cast.consumer, &cast.vm);
    consumer.create(vm, "first", json!({})).await?;
    let lock = consumer.lock("first", json!({"targets": [named(vm, "first")], "reason": "the first"})).await?;
    let first = consumer.object(vm, "first");
    consumer.until_locked(&world, &lock, &first).await?;
    consumer.locked(&world, &first, &Attempt::Delete, &["Object is locked: the first"]).await?;
    // The kind is reviewed now: from here on a lock holds as soon as it exists, and no longer than it exists.
    futures::stream::iter(0..ROUNDS)
        .map(|round| round_trip(&world, consumer, vm, format!("m{round}")))
        .buffer_unordered(12)
        .try_collect::<()>()
        .await
}

async fn round_trip(world: &World, consumer: &Consumer, vm: &Resource, name: String) -> Outcome {
    consumer.create(vm, &name, json!({})).await?;
    let path = consumer.object(vm, &name);
    let reason = format!("round {name}");
    // Some of many concurrent creations may be refused and are repeated; a refused lock does not exist.
    let lock = eventually("the lock is made", world.patience(), async || {
        consumer.lock(&name, json!({"targets": [named(vm, &name)], "reason": reason})).await
    })
    .await?;
    consumer.locked(world, &path, &Attempt::Delete, &[&format!("Object is locked: {reason} ")]).await?;
    consumer.api.delete(&lock).await?.ok()?;
    consumer.api.delete(&path).await?.ok().map(drop)
}

/// Locks one object with more locks than depguard reads one by one.
pub(crate) async fn many_of_one(world: Arc<World>) -> Outcome {
    const LOCKS: usize = 10;
    let (cast, _depguard) = guarded(&world).await?;
    let (consumer, vm) = (&cast.consumer, &cast.vm);
    consumer.create(vm, "m1", json!({})).await?;
    let m1 = consumer.object(vm, "m1");
    let spec = json!({"targets": [named(vm, "m1")], "reason": "one of many"});
    let first = consumer.lock("lock-0", spec.clone()).await?;
    consumer.until_locked(&world, &first, &m1).await?;
    for number in 1..LOCKS {
        consumer.lock(&format!("lock-{number}"), spec.clone()).await?;
    }
    // A lock of another kind, which has a lock table of its own.
    consumer.lock("other", json!({"targets": [named(&cast.vpc, "a")], "reason": "another"})).await?;
    for number in 0..LOCKS {
        consumer.locked(&world, &m1, &Attempt::Delete, &["Object is locked: one of many"]).await?;
        consumer.api.delete(&format!("{}/lock-{number}", consumer.locks())).await?.ok()?;
    }
    consumer.delete(&world, vm, "m1").await
}

pub(crate) async fn collection(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    for name in ["m1", "m2"] {
        consumer.create(&cast.vm, name, json!({})).await?;
    }
    let lock = consumer.lock("m1", json!({"targets": [named(&cast.vm, "m1")], "reason": "kept"})).await?;
    consumer.until_locked(&world, &lock, &consumer.object(&cast.vm, "m1")).await?;
    let collection = cast.vm.collection(&consumer.namespace);
    consumer.refused_at(&world, &collection, &cast.vm, "m1", &["Object is locked: kept"]).await?;
    consumer.api.delete(&lock).await?.ok()?;
    consumer.api.delete(&collection).await?.ok()?;
    for name in ["m1", "m2"] {
        consumer.gone(&world, &consumer.object(&cast.vm, name)).await?;
    }
    Ok(())
}

pub(crate) async fn webhook_away(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    for name in ["m1", "m2"] {
        consumer.create(&cast.vm, name, json!({"size": 1})).await?;
    }
    let lock = consumer.lock("m1", json!({"targets": [named(&cast.vm, "m1")], "reason": "kept"})).await?;
    let (m1, m2) = (consumer.object(&cast.vm, "m1"), consumer.object(&cast.vm, "m2"));
    consumer.until_locked(&world, &lock, &m1).await?;
    consumer.locked(&world, &m1, &Attempt::Delete, &["Object is locked: kept"]).await?;

    depguard.kill_webhook();
    let resize = Attempt::Merge(json!({"spec": {"size": 2}}));
    for (path, attempt) in [(&m1, &Attempt::Delete), (&m1, &resize), (&m2, &Attempt::Delete), (&m2, &resize)] {
        let reply = consumer.attempt(path, attempt).await?;
        ensure(reply.status >= 400, || format!("{attempt:?} of {path} went through though nobody could be asked"))?;
    }
    let late = json!({"targets": [named(&cast.vm, "m2")], "reason": "nobody asked"});
    ensure(consumer.lock("late", late).await.is_err(), || "a lock was made though nobody could be asked".to_owned())?;
    let objects = [consumer.api.get(&m1).await?.ok()?, consumer.api.get(&m2).await?.ok()?];
    ensure(objects.iter().all(|object| object["spec"]["size"] == 1), || format!("they are {objects:?}"))?;

    depguard.start_webhook().await?;
    consumer.until_refused(&world, &m1).await?;
    consumer.until_unlocked(&world, &m2).await?;
    consumer.locked(&world, &m1, &resize, &["Object is locked: kept"]).await?;
    consumer.delete(&world, &cast.vm, "m2").await
}
