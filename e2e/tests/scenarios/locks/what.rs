//! Operations that a lock refuses, and operations that pass.

use std::sync::Arc;

use depguard_e2e::locks::{Attempt, labelled, named};
use depguard_e2e::{Depguard, Outcome, Resource, World, ensure};
use serde_json::{Value, json};

use super::guarded;

fn merge(spec: Value) -> Attempt {
    Attempt::Merge(Value::Object([("spec".to_owned(), spec)].into_iter().collect()))
}

pub(crate) async fn whole(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    consumer.create(&cast.vm, "m1", json!({"size": 1})).await?;
    consumer.create(&cast.vm, "m2", json!({"size": 1})).await?;
    let until = "2099-01-01T00:00:00Z";
    let lock = json!({
        "targets": [named(&cast.vm, "m1")], "reason": "snapshot running", "expiresAt": until,
        "holder": {"serviceAccounts": [{"namespace": "backup", "name": "snapshotter"}]},
    });
    let lock = consumer.lock("snapshot", lock).await?;
    let m1 = consumer.object(&cast.vm, "m1");
    consumer.until_locked(&world, &lock, &m1).await?;

    let whose = format!("Object is locked: snapshot running (ObjectLock {}/snapshot, held by ", consumer.namespace);
    let parts = [whose.as_str(), "backup", "snapshotter", until];
    let attempts = [
        Attempt::Delete,
        merge(json!({"size": 2})),
        Attempt::Put(json!({"size": 2})),
        Attempt::Apply(json!({"size": 2})),
        Attempt::Merge(json!({"metadata": {"labels": {"a": "b"}}})),
        Attempt::Merge(json!({"metadata": {"annotations": {"a": "b"}, "finalizers": ["example.com/hold"]}})),
    ];
    for attempt in &attempts {
        consumer.locked(&world, &m1, attempt, &parts).await?;
    }
    // Another object is free, and so is a new one.
    let m2 = consumer.object(&cast.vm, "m2");
    consumer.passes(&m2, &merge(json!({"size": 2}))).await?;
    consumer.create(&cast.vm, "m3", json!({})).await?;
    consumer.delete(&world, &cast.vm, "m2").await?;

    consumer.api.delete(&lock).await?.ok()?;
    consumer.passes(&m1, &merge(json!({"size": 2}))).await?;
    consumer.delete(&world, &cast.vm, "m1").await
}

pub(crate) async fn exempt(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    let held = json!({"name": "m1", "finalizers": ["example.com/hold"]});
    consumer.create_with(&cast.vm, held, json!({"size": 1})).await?;
    consumer.create_target(&cast.vpc, "owner").await?;
    let lock = consumer.lock("all", json!({"targets": [named(&cast.vm, "m1")], "reason": "busy"})).await?;
    let m1 = consumer.object(&cast.vm, "m1");
    consumer.until_locked(&world, &lock, &m1).await?;

    if !world.is_control() {
        let owner = consumer.api.get(&consumer.object(&cast.vpc, "owner")).await?.ok()?;
        let reference = json!([{
            "apiVersion": cast.vpc.api_version(), "kind": cast.vpc.kind, "name": "owner", "uid": owner["metadata"]["uid"],
        }]);
        let finalizers = json!(["example.com/hold", "example.com/more"]);
        let patch = json!({"metadata": {"finalizers": finalizers, "ownerReferences": reference}});
        consumer.passes(&m1, &Attempt::Merge(patch)).await?;
        // This apply changes nothing; the API server only records its manager.
        consumer.passes(&m1, &Attempt::Apply(json!({"size": 1}))).await?;
        consumer.passes(&m1, &Attempt::Merge(json!({"spec": {"size": 1}}))).await?;
        let after = consumer.api.get(&m1).await?.ok()?;
        ensure(after["metadata"]["finalizers"] == finalizers, || format!("it is {after}"))?;
        consumer.passes(&m1, &Attempt::Merge(json!({"metadata": {"ownerReferences": null}}))).await?;
    }
    let both = json!({"metadata": {"finalizers": null}, "spec": {"size": 2}});
    consumer.locked(&world, &m1, &Attempt::Merge(both), &["Object is locked: busy"]).await?;

    // The deletion of this object is already granted, so a late lock refuses nothing.
    consumer.create_with(&cast.vm, json!({"name": "m2", "finalizers": ["example.com/hold"]}), json!({})).await?;
    let m2 = consumer.object(&cast.vm, "m2");
    consumer.api.delete(&m2).await?.ok()?;
    consumer.lock("late", json!({"targets": [named(&cast.vm, "m2")], "reason": "too late"})).await?;
    consumer.api.delete(&m2).await?.ok()?;
    consumer.release(&cast.vm, "m2").await?;
    consumer.gone(&world, &m2).await
}

pub(crate) async fn subresources(world: Arc<World>) -> Outcome {
    let kinds = vec![Resource::namespaced("Pool").with_scale()];
    let provider = world.provider("providers:compute", "compute.example.com", kinds).await?;
    world.bind_depguard(&provider).await?;
    let consumer = world.consumer("consumer", &[&provider]).await?;
    world.bind_locks(&consumer).await?;
    let pool = provider.kind("Pool")?;
    let _depguard = Depguard::start(&world).await?;
    consumer.create(&pool, "p1", json!({"replicas": 1, "size": 1})).await?;
    let lock = json!({"targets": [named(&pool, "p1")], "reason": "busy"});
    let lock = consumer.lock("pool", lock).await?;
    let p1 = consumer.object(&pool, "p1");
    consumer.until_locked(&world, &lock, &p1).await?;

    let (status, scale) = (format!("{p1}/status"), format!("{p1}/scale"));
    let replicas = |count: u32| merge(json!({"replicas": count}));
    consumer.passes(&status, &Attempt::Merge(json!({"status": {"replicas": 1}}))).await?;
    consumer.passes(&scale, &replicas(3)).await?;
    let after = consumer.api.get(&p1).await?.ok()?;
    ensure(after["spec"]["replicas"] == 3 && after["status"]["replicas"] == 1, || format!("it is {after}"))?;
    consumer.locked(&world, &p1, &replicas(2), &["Object is locked: busy"]).await?;

    let mut target = named(&pool, "p1");
    target["resource"] = json!("pools/scale");
    let named = json!({"targets": [target], "reason": "budget"});
    if world.is_kcp() {
        // The review of a scale does not name the logical cluster, so the webhook could not find the lock.
        let said =
            consumer.lock("scale", named).await.map_or_else(|stop| stop.to_string(), |_| "it is taken".to_owned());
        return ensure(said.contains("names the subresource scale"), || said);
    }
    let lock = consumer.lock("scale", named).await?;
    consumer.until_programmed(&world, &lock).await?;
    depguard_e2e::eventually("scaling is refused", world.patience(), async || {
        let reply = consumer.attempt(&scale, &replicas(4)).await?;
        let refused = reply.status == 403 && reply.message().contains("Object is locked: budget");
        if refused { Ok(()) } else { Err(reply.unexpected("that it is locked")) }
    })
    .await?;
    consumer.passes(&status, &Attempt::Merge(json!({"status": {"replicas": 2}}))).await.map(drop)
}

/// Locks the tokens of a ServiceAccount, although a token is created, not updated.
pub(crate) async fn through(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    let accounts = format!("/api/v1/namespaces/{}/serviceaccounts", consumer.namespace);
    for name in ["locked", "free"] {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        consumer.api.post(&accounts, &account).await?.ok()?;
    }
    let target = json!({"resource": "serviceaccounts/token", "name": "locked"});
    let lock = json!({"targets": [target], "operations": ["Update"], "reason": "no tokens"});
    let lock = consumer.lock("tokens", lock).await?;
    consumer.until_programmed(&world, &lock).await?;

    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let [locked, free] = ["locked", "free"].map(|name| format!("{accounts}/{name}/token"));
    depguard_e2e::eventually("its token is refused", world.patience(), async || {
        let reply = consumer.api.post(&locked, &request).await?;
        let refused = reply.status == 403 && reply.message().contains("Object is locked: no tokens");
        if refused { Ok(()) } else { Err(reply.unexpected("that it is locked")) }
    })
    .await?;
    consumer.api.post(&free, &request).await?.ok().map(drop)
}

pub(crate) async fn fields(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    let disks = |size: u32, comment: &str| json!({"disks": [{"name": "root", "size": size, "comment": comment}]});
    consumer.create(&cast.vm, "m1", disks(1, "a")).await?;
    let mut target = named(&cast.vm, "m1");
    // The object has no `.spec.boot` yet, and in this version no other field has that name.
    target["version"] = cast.vm.versions[0].into();
    let lock = json!({
        "targets": [target], "reason": "no resizing", "fields": [".spec.disks[*].size", ".spec.boot"],
    });
    let lock = consumer.lock("disks", lock).await?;
    let m1 = consumer.object(&cast.vm, "m1");
    consumer.until_locked(&world, &lock, &m1).await?;

    let parts = ["Object is locked: no resizing"];
    consumer.locked(&world, &m1, &merge(disks(2, "a")), &parts).await?;
    consumer.locked(&world, &m1, &merge(json!({"boot": "net"})), &parts).await?;
    consumer.locked(&world, &m1, &merge(json!({"disks": null})), &parts).await?;
    consumer.locked(&world, &m1, &Attempt::Delete, &parts).await?;
    consumer.passes(&m1, &merge(disks(1, "b"))).await?;
    consumer.passes(&m1, &merge(json!({"size": 5}))).await?;
    consumer.passes(&m1, &Attempt::Merge(json!({"metadata": {"labels": {"a": "b"}}}))).await.map(drop)
}

pub(crate) async fn operations(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    consumer.create(&cast.vm, "kept", json!({"size": 1})).await?;
    consumer.create(&cast.vm, "frozen", json!({"size": 1})).await?;
    let lock = |name: &str, operation: &str| json!({"targets": [named(&cast.vm, name)], "operations": [operation], "reason": "half"});
    let (kept, frozen) = (consumer.object(&cast.vm, "kept"), consumer.object(&cast.vm, "frozen"));
    let deletes = consumer.lock("kept", lock("kept", "Delete")).await?;
    consumer.until_locked(&world, &deletes, &kept).await?;
    let updates = consumer.lock("frozen", lock("frozen", "Update")).await?;
    consumer.until_programmed(&world, &updates).await?;
    if !world.is_control() {
        depguard_e2e::eventually("changes are reviewed", world.patience(), async || {
            let reply = consumer.attempt(&frozen, &merge(json!({"size": 2}))).await?;
            if reply.status == 403 { Ok(()) } else { Err(reply.unexpected("403")) }
        })
        .await?;
    }
    consumer.locked(&world, &frozen, &merge(json!({"size": 3})), &["Object is locked: half"]).await?;
    consumer.passes(&kept, &merge(json!({"size": 2}))).await?;
    consumer.locked(&world, &kept, &Attempt::Delete, &["Object is locked: half"]).await?;
    consumer.delete(&world, &cast.vm, "frozen").await
}

pub(crate) async fn selector(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    let label = |tier: Value| Attempt::Merge(json!({"metadata": {"labels": {"tier": tier}}}));
    consumer.create_with(&cast.vm, json!({"name": "m1", "labels": {"tier": "gold"}}), json!({})).await?;
    consumer.create(&cast.vm, "m2", json!({})).await?;
    let gold = labelled(&cast.vm, &json!({"tier": "gold"}));
    let lock = consumer.lock("gold", json!({"targets": [gold], "reason": "precious"})).await?;
    let (m1, m2) = (consumer.object(&cast.vm, "m1"), consumer.object(&cast.vm, "m2"));
    consumer.until_locked(&world, &lock, &m1).await?;

    let parts = ["Object is locked: precious"];
    consumer.locked(&world, &m1, &Attempt::Delete, &parts).await?;
    // A user may not remove the label to get around the lock either.
    consumer.locked(&world, &m1, &label(Value::Null), &parts).await?;
    consumer.passes(&m2, &label(json!("gold"))).await?;
    consumer.locked(&world, &m2, &Attempt::Delete, &parts).await?;
    consumer.create_with(&cast.vm, json!({"name": "m3", "labels": {"tier": "tin"}}), json!({})).await?;
    consumer.delete(&world, &cast.vm, "m3").await
}

pub(crate) async fn cluster(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    let other = consumer.in_namespace(&world, "two").await?;
    consumer.create_target(&cast.region, "north").await?;
    consumer.create_target(&cast.region, "south").await?;
    for place in [consumer, &other] {
        place.create(&cast.vm, "m1", json!({})).await?;
        place.create_with(&cast.vpc, json!({"name": "a", "labels": {"shared": "yes"}}), json!({})).await?;
    }
    let mut there = named(&cast.vm, "m1");
    there["namespace"] = json!(other.namespace);
    let targets = json!([named(&cast.region, "north"), there, labelled(&cast.vpc, &json!({"shared": "yes"}))]);
    let name = format!("{}-freeze", world.id());
    let lock = consumer.cluster_lock(&name, json!({"targets": targets, "reason": "change freeze"})).await?;
    let north = consumer.object(&cast.region, "north");
    consumer.until_locked(&world, &lock, &north).await?;

    let said = format!("Object is locked: change freeze (ClusterObjectLock {name}");
    let locked = [north, other.object(&cast.vm, "m1"), consumer.object(&cast.vpc, "a"), other.object(&cast.vpc, "a")];
    for path in &locked {
        consumer.until_refused(&world, path).await?;
        consumer.locked(&world, path, &Attempt::Delete, &[&said]).await?;
    }
    consumer.delete(&world, &cast.region, "south").await?;
    consumer.delete(&world, &cast.vm, "m1").await?;
    consumer.api.delete(&lock).await?.ok()?;
    consumer.delete(&world, &cast.region, "north").await
}
