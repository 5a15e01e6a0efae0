//! Another version of depguard's kinds becomes the stored one, beside `v1alpha1`, which stays served; and back.

use std::sync::Arc;

use depguard_e2e::locks::{Attempt, named};
use depguard_e2e::{Api, Depguard, Outcome, Reply, World, ensure, eventually, path_of};
use serde_json::{Value, json};

use crate::load::Load;
use crate::owners::{is_going, pair, started};
use crate::races::interlocked;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const OWN: &str = "v1alpha1";
/// Version that only these tests serve, with the schema of [`OWN`].
const NEXT: &str = "v1beta1";
const RULES: &[&str] = &["dependencyrules.dependencies.opendefense.cloud"];
const REGISTERS: &[&str] = &["referenceregisters.dependencies.opendefense.cloud"];
const LOCKS: &[&str] = &[
    "objectlocks.dependencies.opendefense.cloud",
    "clusterobjectlocks.dependencies.opendefense.cloud",
    "locktables.dependencies.opendefense.cloud",
];
const OWNERS: &[&str] = &["globalowners.globalowner.metacontroller.io", "groupowners.globalowner.metacontroller.io"];

/// Has the API server store a kind in a version, and serve it in both.
async fn store(world: &World, name: &str, stored: &str) -> Outcome {
    let (api, path) = (world.own_cluster(), format!("{CRDS}/{name}"));
    eventually("the definition takes another version", world.patience(), async || {
        let mut definition = api.get(&path).await?.ok()?;
        let mut version = definition["spec"]["versions"][0].clone();
        let versions = [OWN, NEXT].map(|name| {
            version["name"] = json!(name);
            version["storage"] = json!(name == stored);
            version.clone()
        });
        definition["spec"]["versions"] = json!(versions);
        api.put(&path, &definition).await?.ok().map(drop)
    })
    .await?;
    eventually("both versions are served", world.patience(), async || {
        let definition = api.get(&path).await?.ok()?;
        let kept = definition["status"]["storedVersions"].to_string();
        ensure(kept.contains(stored), || kept)?;
        api.get(&collection(&definition, NEXT)).await?.ok().map(drop)
    })
    .await
}

/// Writes each object of a kind once more, so that all are stored in one version, and says so in the definition. The API
/// server leaves objects alone that are stored in this version already.
async fn migrate(world: &World, name: &str, stored: &str) -> Outcome {
    let api = world.own_cluster();
    let definition = api.get(&format!("{CRDS}/{name}")).await?.ok()?;
    let collection = collection(&definition, NEXT);
    // After a change of its definition, the API server answers 429 for a moment.
    let listed = async || objects(&api, &collection).await;
    for object in eventually("all objects are listed", world.patience(), listed).await? {
        let path = path_of(&object);
        eventually(&format!("{path} is written once more"), world.patience(), async || {
            let object = api.get(&path).await?.ok()?;
            api.put(&path, &object).await?.ok().map(drop)
        })
        .await?;
    }
    trim(&api, name, stored).await
}

/// Says in a definition that all objects are stored in one version.
async fn trim(api: &Api, name: &str, stored: &str) -> Outcome {
    let status = json!({"status": {"storedVersions": [stored]}});
    api.merge(&format!("{CRDS}/{name}/status"), &status).await?.ok().map(drop)
}

/// Serves `v1alpha1` alone again, which stores everything.
async fn restore(world: &World, name: &str) -> Outcome {
    let (api, path) = (world.own_cluster(), format!("{CRDS}/{name}"));
    eventually("the definition has one version", world.patience(), async || {
        let mut definition = api.get(&path).await?.ok()?;
        definition["spec"]["versions"].as_array_mut().into_iter().for_each(|versions| versions.truncate(1));
        api.put(&path, &definition).await?.ok().map(drop)
    })
    .await
}

fn collection(definition: &Value, version: &str) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&definition["spec"]["group"]), text(&definition["spec"]["names"]["plural"]));
    format!("/apis/{group}/{version}/{plural}")
}

async fn objects(api: &Api, collection: &str) -> Outcome<Vec<Value>> {
    Ok(api.get(collection).await?.ok()?["items"].as_array().cloned().unwrap_or_default())
}

/// Moves kinds to another stored version and back. `check` runs at each state in between.
async fn there_and_back(world: &World, kinds: &[&str], mut check: impl AsyncFnMut(&str) -> Outcome) -> Outcome {
    for stored in [NEXT, OWN] {
        for name in kinds {
            store(world, name, stored).await?;
        }
        check(&format!("new objects are stored in {stored}")).await?;
        for name in kinds {
            migrate(world, name, stored).await?;
        }
        check(&format!("all objects are stored in {stored}")).await?;
    }
    for name in kinds {
        restore(world, name).await?;
    }
    check("all is as it was").await
}

/// Starts depguard again, which then reads all objects anew.
async fn restart(depguard: &mut Depguard) -> Outcome {
    depguard.kill_webhook();
    depguard.stop_controller().await;
    depguard.start_controller().await?;
    depguard.start_webhook().await
}

/// Deletions and creations go on while rules move.
pub(crate) async fn rules(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    world.add_rule(&cast.compute, &interlocked(&cast)).await?;
    let mut depguard = Depguard::start(&world).await?;
    cast.consumer.until_checked(&world, &cast.vm, json!({"vpcRef": {"name": "nowhere"}})).await?;
    let load = Load::new(&world, &cast).await?;
    cast.consumer.until_protected(&world, &cast.vpc, "referenced-0").await?;
    let steps = async {
        there_and_back(&world, RULES, async |state| {
            load.goes_on(state, true).await?;
            restart(&mut depguard).await?;
            load.goes_on(&format!("after a restart, {state}"), true).await?;
            load.check()
        })
        .await?;
        load.stop();
        world.print(format_args!("while the stored version of rules changed: {load}"));
        load.check()
    };
    futures::try_join!(load.run(), steps).map(drop)
}

/// Nobody may write registers, so they are not migrated but deleted: the controller makes them again.
pub(crate) async fn registers(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    world.add_rule(&cast.compute, &interlocked(&cast)).await?;
    let _depguard = Depguard::start(&world).await?;
    world.condition(&cast.compute, "machines", "Interlocked", "True").await?;
    let load = Load::new(&world, &cast).await?;
    let api = world.own_cluster();
    let steps = async {
        for stored in [NEXT, OWN] {
            for name in REGISTERS {
                store(&world, name, stored).await?;
                load.goes_on("while new registers are stored in another version", true).await?;
                let registers = collection(&api.get(&format!("{CRDS}/{name}")).await?.ok()?, NEXT);
                for register in objects(&api, &registers).await? {
                    let path = path_of(&register);
                    let refused = |reply: &Reply| reply.message().contains("depguard-reference-registers");
                    let reply = api.put(&format!("{path}?dryRun=All"), &register).await?;
                    // Somebody else's write may come first.
                    ensure(refused(&reply) || reply.status == 409, || format!("a register was written: {reply:?}"))?;
                    api.delete(&path).await?.ok()?;
                }
                trim(&api, name, stored).await?;
            }
            load.goes_on("after the registers are made again", true).await?;
            load.check()?;
        }
        for name in REGISTERS {
            restore(&world, name).await?;
        }
        world.condition(&cast.compute, "machines", "Interlocked", "True").await?;
        load.stop();
        world.print(format_args!("while the stored version of registers changed: {load}"));
        load.check()
    };
    futures::try_join!(load.run(), steps).map(drop)
}

/// A lock and its table hold in each state.
pub(crate) async fn locks(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = crate::locks::guarded(&world).await?;
    let consumer = &cast.consumer;
    consumer.create(&cast.vm, "m1", json!({"size": 1})).await?;
    let spec = json!({"targets": [named(&cast.vm, "m1")], "reason": "busy"});
    let lock = consumer.lock("lock", spec).await?;
    let mut in_the_namespace = named(&cast.vm, "m2");
    in_the_namespace["namespace"] = json!(consumer.namespace);
    let of_cluster = json!({"targets": [in_the_namespace], "reason": "busy"});
    consumer.create(&cast.vm, "m2", json!({"size": 1})).await?;
    let of_cluster = consumer.cluster_lock(&format!("lock-{}", world.id()), of_cluster).await?;
    let [m1, m2] = ["m1", "m2"].map(|name| consumer.object(&cast.vm, name));
    consumer.until_locked(&world, &lock, &m1).await?;
    consumer.until_locked(&world, &of_cluster, &m2).await?;
    there_and_back(&world, LOCKS, async |_| {
        for object in [&m1, &m2] {
            consumer.locked(&world, object, &Attempt::Delete, &["Object is locked: busy"]).await?;
        }
        restart(&mut depguard).await?;
        for object in [&m1, &m2] {
            consumer.until_refused(&world, object).await?;
        }
        // A new lock holds as well, and its end frees its object.
        consumer.create(&cast.vm, "m3", json!({})).await?;
        let m3 = consumer.object(&cast.vm, "m3");
        let lock = json!({"targets": [named(&cast.vm, "m3")], "reason": "busy"});
        let lock = consumer.lock("another", lock).await?;
        consumer.locked(&world, &m3, &Attempt::Delete, &["Object is locked: busy"]).await?;
        consumer.api.delete(&lock).await?.ok()?;
        consumer.delete(&world, &cast.vm, "m3").await
    })
    .await?;
    for (lock, object) in [(&lock, "m1"), (&of_cluster, "m2")] {
        consumer.api.delete(lock).await?.ok()?;
        consumer.delete(&world, &cast.vm, object).await?;
    }
    Ok(())
}

/// An owner is removed in order while its kind moves.
pub(crate) async fn owners(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = started(&world).await?;
    let consumer = &cast.consumer;
    let (owner, machine, vpc) = pair(&world, &cast, true).await?;
    for name in OWNERS {
        store(&world, name, NEXT).await?;
        migrate(&world, name, NEXT).await?;
    }
    restart(&mut depguard).await?;
    owner.delete().await?;
    crate::owners::until_going(&world, &cast, &machine).await?;
    ensure(!is_going(&cast, &vpc).await?, || "the second group has begun before the first is gone".to_owned())?;
    for name in OWNERS {
        store(&world, name, OWN).await?;
        migrate(&world, name, OWN).await?;
        restore(&world, name).await?;
    }
    restart(&mut depguard).await?;
    ensure(!is_going(&cast, &vpc).await?, || "the second group has begun before the first is gone".to_owned())?;
    consumer.release(&cast.vm, "m1").await?;
    consumer.gone(&world, &machine).await?;
    consumer.gone(&world, &vpc).await?;
    owner.until_gone(&world).await
}
