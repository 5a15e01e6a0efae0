//! Dependents that their target owns race with the deletion of the target, while a garbage collector is at work.

use std::sync::Arc;
use std::time::Duration;

use depguard_e2e::rules::rule;
use depguard_e2e::{Cast, Depguard, Outcome, Stop, World, ensure, eventually};
use serde_json::{Value, json};
use tokio::join;

use crate::races::{
    Pair, before_change, before_deletion, beside_control, create_machine, head_start, interlocked, machine, race_pairs,
    start_by,
};

/// Number of pairs of each sequence.
const PAIRS: usize = 60;

/// Change of a machine at the same time as the deletion of its VPC, in the background.
#[derive(Clone, Copy)]
enum Change {
    /// A machine that the VPC owns loses its owner.
    LetsGo,
    /// Such a machine gets a second owner.
    Joins,
    /// A machine is created that the VPC and another object own.
    Comes,
}

/// Races each change with the deletion of the VPC, by a rule that ignores what the VPC owns. None may leave a machine
/// without its VPC, once the collector has nothing to do.
async fn race(world: Arc<World>, change: Change) -> Outcome {
    let rule = |cast: &Cast| {
        let mut rule = interlocked(cast);
        rule["spec"]["dependencies"][0]["ownedDependents"] = json!("Ignore");
        rule
    };
    let (cast, depguard) = start_by(&world, Depguard::prepare(&world).await?, rule).await?;
    let consumer = &cast.consumer;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "another"}});
    let config =
        consumer.api.post(&format!("/api/v1/namespaces/{}/configmaps", consumer.namespace), &config).await?.ok()?;
    let another = owner("v1", "ConfigMap", &config);
    let race = async |round: &str, pairs: usize| {
        let head_start = head_start(&cast, &consumer.api, round).await?;
        let one_pair = |pair| {
            let pair = (format!("{round}-{pair}"), pair, head_start);
            one_pair(&world, &cast, change, &another, pair)
        };
        race_pairs(pairs, one_pair).await
    };
    beside_control(&world, &cast, depguard, PAIRS, race).await
}

async fn one_pair(
    world: &World,
    cast: &Cast,
    change: Change,
    another: &Value,
    (name, number, head_start): (String, usize, Duration),
) -> Outcome<Pair> {
    let Cast { consumer, vpc, vm, .. } = cast;
    let [path, target] = [(vm, &name), (vpc, &name)].map(|(kind, name)| consumer.object(kind, name));
    consumer.create_target(vpc, &name).await?;
    let own = owner(&vpc.api_version(), &vpc.kind, &consumer.api.get(&target).await?.ok()?);
    let both = json!([own, another]);
    let owned_by = |owners: Value| {
        let mut machine = machine(cast, &name, &name);
        machine["metadata"]["ownerReferences"] = owners;
        machine
    };
    let machines = vm.collection(&consumer.namespace);
    if !matches!(change, Change::Comes) {
        create_machine(world, cast, &owned_by(json!([own]))).await?;
    }
    let change = async {
        before_change(number, head_start).await;
        match change {
            Change::LetsGo => consumer.api.merge(&path, &json!({"metadata": {"ownerReferences": null}})).await,
            Change::Joins => consumer.api.merge(&path, &json!({"metadata": {"ownerReferences": both}})).await,
            Change::Comes => consumer.api.post(&machines, &owned_by(both.clone())).await,
        }
    };
    let delete = async {
        before_deletion(number).await;
        consumer.api.delete_with(&target, &json!({"propagationPolicy": "Background"})).await
    };
    let (changed, deleted) = join!(change, delete);
    let statuses = [changed?.status, deleted?.status];
    let is_dangling = eventually("the collector has nothing to do", world.patience(), async || {
        let machine = consumer.api.get(&path).await?;
        let is_target_gone = consumer.api.get(&target).await?.is_gone();
        if machine.is_gone() || !is_target_gone {
            return Ok(false);
        }
        let machine = machine.ok()?;
        let owners = machine["metadata"]["ownerReferences"].as_array();
        let is_owned = owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == own["uid"]));
        // The collector has yet to delete the machine, or to take the owner away that is gone.
        if is_owned { Err(Stop::Failed(format!("{name} is still owned"))) } else { Ok(true) }
    })
    .await?;
    consumer.api.delete(&path).await?;
    Ok(Pair { statuses, is_dangling })
}

fn owner(api_version: &str, kind: &str, object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"]})
}

pub(crate) async fn lets_go(world: Arc<World>) -> Outcome {
    race(world, Change::LetsGo).await
}

pub(crate) async fn joins(world: Arc<World>) -> Outcome {
    race(world, Change::Joins).await
}

pub(crate) async fn comes(world: Arc<World>) -> Outcome {
    race(world, Change::Comes).await
}

/// Deletes a VPC in the background, which ignores the machine that the VPC owns, and once more such that the machine stays.
/// Only the first deletion may pass. The control shows that the collector leaves the machine behind.
pub(crate) async fn orphaned_later(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = ignoring_owned(&world).await?;
    let Cast { consumer, vpc, vm, .. } = &cast;
    let owned = async |target: Value, machine: &str| {
        let name = target["name"].clone();
        consumer.create_with(vpc, target, json!({})).await?;
        let target = consumer.object(vpc, name.as_str().unwrap_or_default());
        let own = owner(&vpc.api_version(), &vpc.kind, &consumer.api.get(&target).await?.ok()?);
        let metadata = json!({"name": machine, "ownerReferences": [own]});
        consumer.create_with(vm, metadata, json!({"vpcRef": {"name": name}})).await?;
        Ok::<_, Stop>((target, consumer.object(vm, machine)))
    };
    // A collector learns of new kinds late. Once it has deleted this machine, it knows both.
    let (known, gone) = owned(json!({"name": "known"}), "m2").await?;
    consumer.api.delete_with(&known, &json!({"propagationPolicy": "Background"})).await?.ok()?;
    consumer.gone(&world, &gone).await?;

    let (target, path) = owned(json!({"name": "a", "finalizers": ["example.com/hold"]}), "m1").await?;
    consumer.api.delete_with(&target, &json!({"propagationPolicy": "Background"})).await?.ok()?;
    let again = consumer.api.delete_with(&target, &json!({"propagationPolicy": "Orphan"})).await?;
    if world.is_control() {
        again.ok()?;
        eventually("the machine has no owner", world.patience(), async || {
            let machine = consumer.api.get(&path).await?.ok()?;
            let owners = machine["metadata"].get("ownerReferences").is_some();
            if owners { Err(Stop::failed("still owned")) } else { Ok(()) }
        })
        .await?;
        consumer.release(vpc, "a").await?;
        consumer.gone(&world, &target).await?;
        consumer.untouched(vm, "m1").await?;
        return Err(Stop::ControlSeen);
    }
    let is_refused = again.status == 403 && again.message().contains("still referenced by VirtualMachine/m1");
    ensure(is_refused, || format!("{again:?}"))?;
    consumer.release(vpc, "a").await?;
    consumer.gone(&world, &target).await?;
    consumer.gone(&world, &path).await
}

/// Deletes a VPC that owns a Fleet, which has no namespace: the collector never deletes such a dependent.
pub(crate) async fn out_of_reach(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = ignoring_owned(&world).await?;
    let Cast { consumer, vpc, fleet, .. } = &cast;
    let target = consumer.object(vpc, "a");
    consumer.create_target(vpc, "a").await?;
    let own = owner(&vpc.api_version(), &vpc.kind, &consumer.api.get(&target).await?.ok()?);
    let metadata = json!({"name": "f1", "ownerReferences": [own]});
    consumer.create_with(fleet, metadata, json!({"vpcRef": {"name": "a"}})).await?;
    consumer.refused(&world, vpc, "a", &["cannot delete vpcs/a: still referenced by Fleet/f1"]).await?;
    consumer.delete(&world, fleet, "f1").await?;
    consumer.delete(&world, vpc, "a").await
}

/// Starts depguard with rules that ignore what the VPC owns, and waits until they are in force.
async fn ignoring_owned(world: &Arc<World>) -> Outcome<(Cast, Depguard)> {
    let cast = world.cast().await?;
    for (name, dependents) in [("machines", &cast.vm), ("fleets", &cast.fleet)] {
        let mut rule = rule(name, dependents, &[(&cast.vpc, ".spec.vpcRef.name")]);
        rule["spec"]["dependencies"][0]["ownedDependents"] = json!("Ignore");
        world.add_rule(&cast.compute, &rule).await?;
    }
    let depguard = Depguard::start(world).await?;
    for rule in ["machines", "fleets"] {
        world.condition(&cast.compute, rule, "Enforced", "True").await?;
    }
    cast.consumer.create_target(&cast.vpc, "b").await?;
    cast.consumer.create_dependent(&cast.vm, "m0", "b").await?;
    cast.consumer.until_protected(world, &cast.vpc, "b").await?;
    Ok((cast, depguard))
}
