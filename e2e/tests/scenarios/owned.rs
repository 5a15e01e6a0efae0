//! Dependents that their target owns race with the deletion of the target, while a garbage collector is at work.

use std::sync::Arc;
use std::time::Duration;

use depguard_e2e::{Cast, Depguard, Outcome, Stop, World, eventually};
use serde_json::{Value, json};
use tokio::join;

use crate::races::{
    Pair, before_change, before_deletion, beside_control, create_machine, head_start, interlocked, machine, race_pairs,
    start_by,
};

/// Number of pairs of each sequence.
const PAIRS: usize = 60;

/// What happens at the same time as the deletion of a VPC, in the background.
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
