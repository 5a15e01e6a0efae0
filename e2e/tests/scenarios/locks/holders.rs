//! Users who may act in spite of a lock, and the messages for all others.

use std::sync::Arc;

use depguard_e2e::locks::{Attempt, named};
use depguard_e2e::{Consumer, Outcome, Stop, World, ensure, eventually};
use serde_json::{Value, json};

use super::guarded;

const RESIZE: fn(u32) -> Attempt = |size| Attempt::Merge(json!({"spec": {"size": size}}));

/// Builds a rule of a role about locks.
fn may(verbs: &[&str]) -> Value {
    json!({"apiGroups": ["dependencies.opendefense.cloud"], "resources": ["objectlocks"], "verbs": verbs})
}

pub(crate) async fn holder(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    let snapshotter = consumer.as_account(&world, "snapshotter").await?;
    let stranger = consumer.as_account(&world, "stranger").await?;
    consumer.create(&cast.vm, "m1", json!({"size": 1})).await?;
    let lock = json!({
        "targets": [named(&cast.vm, "m1")], "reason": "snapshot running",
        "holder": {"serviceAccounts": [{"namespace": consumer.namespace, "name": "snapshotter"}]},
    });
    let lock = snapshotter.lock("snapshot", lock).await?;
    let m1 = consumer.object(&cast.vm, "m1");
    consumer.until_locked(&world, &lock, &m1).await?;
    stranger.locked(&world, &m1, &RESIZE(2), &["Object is locked: snapshot running"]).await?;
    stranger.locked(&world, &m1, &Attempt::Delete, &["Object is locked: snapshot running"]).await?;
    // Not even an administrator may act.
    consumer.locked(&world, &m1, &RESIZE(2), &["Object is locked: snapshot running"]).await?;
    snapshotter.passes(&m1, &RESIZE(3)).await?;
    // Others may not change or remove the lock either; the lock's holder may.
    for attempt in [Attempt::Merge(json!({"spec": {"targets": [named(&cast.vm, "m2")]}})), Attempt::Delete] {
        stranger.locked(&world, &lock, &attempt, &[]).await?;
    }
    snapshotter.passes(&lock, &Attempt::Merge(json!({"spec": {"reason": "nearly done"}}))).await?;
    stranger.locked(&world, &m1, &Attempt::Delete, &["Object is locked: nearly done"]).await?;
    snapshotter.passes(&lock, &Attempt::Delete).await?;
    stranger.passes(&m1, &Attempt::Delete).await.map(drop)
}

pub(crate) async fn unlock(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    let tenant = consumer.as_user_with(&world, &[may(&["get", "create", "patch", "delete"])]).await?;
    consumer.create(&cast.vm, "m1", json!({})).await?;
    let lock = json!({"targets": [named(&cast.vm, "m1")], "reason": "frozen", "holder": {"users": ["somebody"]}});
    let lock = consumer.lock("frozen", lock).await?;
    let m1 = consumer.object(&cast.vm, "m1");
    consumer.until_locked(&world, &lock, &m1).await?;
    tenant.locked(&world, &m1, &Attempt::Delete, &["frozen"]).await?;
    tenant.locked(&world, &lock, &Attempt::Delete, &["unlock"]).await?;
    tenant.locked(&world, &lock, &Attempt::Merge(json!({"spec": {"reason": "mine"}})), &["unlock"]).await?;

    consumer.allow(&world, &[may(&["get", "create", "patch", "delete", "unlock"])]).await?;
    eventually("who may unlock takes the lock away", world.patience(), async || {
        tenant.passes(&lock, &Attempt::Delete).await.map(drop)
    })
    .await?;
    // An API server with an audit log has recorded both decisions.
    if let Some(audits) = world.ring().audits_of_locks(&consumer.namespace)? {
        for decision in ["refused", "unlock"] {
            let decided = |(name, value): (&String, &Value)| name.ends_with("/lock-decision") && value == decision;
            let is = |annotations: &Value| annotations.as_object().is_some_and(|all| all.iter().any(decided));
            ensure(audits.iter().any(is), || format!("no {decision} in {audits:?}"))?;
        }
    }
    tenant.passes(&m1, &Attempt::Delete).await.map(drop)
}

pub(crate) async fn unread(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    let tenant: Consumer = consumer.as_user_with(&world, &[]).await?;
    consumer.create(&cast.vm, "m1", json!({})).await?;
    let lock = json!({"targets": [named(&cast.vm, "m1")], "reason": "under investigation"});
    let lock = consumer.lock("secretive", lock).await?;
    let m1 = consumer.object(&cast.vm, "m1");
    consumer.until_locked(&world, &lock, &m1).await?;
    let reply = tenant.locked(&world, &m1, &Attempt::Delete, &["Object is locked"]).await?;
    for secret in ["investigation", "secretive"] {
        ensure(!reply.body.to_string().contains(secret), || format!("it tells `{secret}`: {}", reply.body))?;
    }
    consumer.allow(&world, &[may(&["get"])]).await?;
    eventually("who may read the lock is told why", world.patience(), async || {
        let reply = tenant.api.dry_run_delete(&m1).await?;
        let told = reply.message().contains("Object is locked: under investigation");
        if told { Ok(()) } else { Err(Stop::Failed(reply.message())) }
    })
    .await
}

pub(crate) async fn expired(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    for name in ["m1", "m2"] {
        consumer.create(&cast.vm, name, json!({})).await?;
    }
    let (m1, m2) = (consumer.object(&cast.vm, "m1"), consumer.object(&cast.vm, "m2"));
    // From here on the kind is reviewed.
    let lasting = consumer.lock("lasting", json!({"targets": [named(&cast.vm, "m1")], "reason": "for good"})).await?;
    consumer.until_locked(&world, &lasting, &m1).await?;
    let short = json!({"targets": [named(&cast.vm, "m2")], "reason": "for a moment", "ttl": "10s"});
    let short = consumer.lock("short", short).await?;
    consumer.locked(&world, &m2, &Attempt::Delete, &["Object is locked: for a moment", "until "]).await?;
    consumer.until_unlocked(&world, &m2).await?;
    consumer.locked(&world, &m1, &Attempt::Delete, &["Object is locked: for good"]).await?;
    consumer.passes(&m2, &RESIZE(2)).await?;
    consumer.delete(&world, &cast.vm, "m2").await?;
    // The expired lock does not hold itself either: any user with the right may delete it.
    let tenant = consumer.as_user_with(&world, &[may(&["get", "delete"])]).await?;
    tenant.passes(&short, &Attempt::Delete).await.map(drop)
}
