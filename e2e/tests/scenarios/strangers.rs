//! Strangers: providers whom a consumer has not bound cost the consumer nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::{Cast, Depguard, Outcome, World, ensure, eventually, metrics_page};
use serde_json::{Value, json};

use crate::races::{REGISTERS, machine, start};

/// Number of the stranger's dependencies: more than the references of one object that are checked at once.
const DEPENDENCIES: usize = 600;

/// Creates and deletes beside a stranger's rule, which is about a kind of the same group and resource as the machines, and
/// has many dependencies. Another of the stranger's rules is about the consumer's own targets.
pub(crate) async fn of_many_dependencies(world: Arc<World>) -> Outcome {
    let (cast, depguard) = start(&world).await?;
    let alone = marks_of_a_pair(&world, &cast, "alone").await?;
    let stranger = world.provider("stranger", &cast.vm.group, vec![cast.vm.clone()]).await?;
    world.bind_depguard(&stranger).await?;
    let machines = stranger.kind("VirtualMachine")?;
    let mut many = rule("many", &machines, &[(&machines, ".metadata.name")]);
    let dependency = many["spec"]["dependencies"][0].clone();
    let dependencies = (0..DEPENDENCIES).map(|n| {
        let mut dependency = dependency.clone();
        dependency["resource"] = json!(format!("k{n}s"));
        dependency["onMissing"] = json!("Deny");
        dependency
    });
    many["spec"]["dependencies"] = dependencies.collect();
    world.add_rule(&stranger, &many).await?;
    let mut few = rule("few", &machines, &[(&cast.vpc, ".spec.vpcRef.name")]);
    few["spec"]["dependencies"][0]["onMissing"] = json!("Deny");
    world.add_rule(&stranger, &few).await?;
    until_loaded(&world, &depguard, 3).await?;

    let beside = marks_of_a_pair(&world, &cast, "beside").await?;
    ensure(beside == alone, || format!("{beside:?} registers were written instead of {alone:?}"))?;
    world.condition(&cast.compute, "machines", "Interlocked", "True").await
}

/// Creates a machine by one request, and deletes another target by one request. Returns the number of registers that each of
/// both changes.
async fn marks_of_a_pair(world: &World, cast: &Cast, name: &str) -> Outcome<[usize; 2]> {
    let [target, free] = ["target", "free"].map(|of| format!("{name}-{of}"));
    cast.consumer.create_target(&cast.vpc, &target).await?;
    cast.consumer.create_target(&cast.vpc, &free).await?;
    let before = registers_without_marks(world).await?;
    let collection = cast.vm.collection(&cast.consumer.namespace);
    cast.consumer.api.post(&collection, &machine(cast, name, &target)).await?.ok()?;
    let created = changed(world, &before).await?;
    let before = registers_without_marks(world).await?;
    cast.consumer.api.delete(&cast.consumer.object(&cast.vpc, &free)).await?.ok()?;
    Ok([created, changed(world, &before).await?])
}

/// Waits until no register has a mark, and returns the revision of each.
async fn registers_without_marks(world: &World) -> Outcome<BTreeMap<String, Value>> {
    eventually("the registers have no marks", world.patience(), async || {
        let registers = registers(world).await?;
        let marked = registers
            .iter()
            .filter(|register| register["spec"]["targets"].as_array().is_some_and(|all| !all.is_empty()));
        ensure(marked.count() == 0, || "there are marks".to_owned())?;
        Ok(registers.iter().map(revision).collect())
    })
    .await
}

async fn changed(world: &World, before: &BTreeMap<String, Value>) -> Outcome<usize> {
    let now = registers(world).await?;
    Ok(now.iter().map(revision).filter(|(name, revision)| before.get(name) != Some(revision)).count())
}

async fn registers(world: &World) -> Outcome<Vec<Value>> {
    let registers = world.own_cluster().get(REGISTERS).await?.ok()?;
    Ok(registers["items"].as_array().cloned().unwrap_or_default())
}

fn revision(register: &Value) -> (String, Value) {
    let metadata = &register["metadata"];
    (metadata["name"].as_str().unwrap_or_default().to_owned(), metadata["resourceVersion"].clone())
}

/// Waits until the webhook has loaded this many rules.
async fn until_loaded(world: &World, depguard: &Depguard, rules: usize) -> Outcome {
    eventually("the webhook has loaded the rules", world.patience(), async || {
        let [webhook, _] = depguard.metrics();
        let page = metrics_page(webhook).await?;
        let says = format!("depguard_rules{{state=\"usable\"}} {rules}");
        ensure(page.contains(&says), || format!("its metrics don't say {says}"))
    })
    .await
}
