//! Teardown of whole scopes: dependents have to go first, and then everything ends.

use std::sync::Arc;

use depguard_e2e::{Api, Cast, Consumer, Outcome, Stop, World, eventually};
use serde_json::{Value, json};

use crate::deletion::guarded;

pub(crate) const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";

/// Creates a target `a`, and a machine `m1` that refers to `a` and that a finalizer will hold.
async fn held_reference(world: &World, cast: &Cast) -> Outcome {
    cast.consumer.create_target(&cast.vpc, "a").await?;
    let metadata = json!({"name": "m1", "finalizers": ["example.com/hold"]});
    cast.consumer.create_with(&cast.vm, metadata, json!({"vpcRef": {"name": "a"}})).await?;
    cast.consumer.until_protected(world, &cast.vpc, "a").await
}

/// Waits until the dependent is being deleted and the deletion of the target has been refused, as the object at `scope`
/// reports; the target must stay untouched. A control expects the target to go before its dependent, and ends there.
async fn target_waits(world: &World, cast: &Cast, scope: (&Api, &str)) -> Outcome {
    let consumer = &cast.consumer;
    let dependent = consumer.object(&cast.vm, "m1");
    eventually("the dependent is on its way out", world.patience(), async || {
        let object = consumer.api.get(&dependent).await?.ok()?;
        let going = object["metadata"].get("deletionTimestamp").is_some();
        if going { Ok(()) } else { Err(Stop::failed("not deleted yet")) }
    })
    .await?;
    if world.is_control() {
        consumer.gone(world, &consumer.object(&cast.vpc, "a")).await?;
        consumer.release(&cast.vm, "m1").await?;
        return Err(Stop::ControlSeen);
    }
    eventually("the refusal shows on what is torn down", world.patience(), async || {
        let object = scope.0.get(scope.1).await?.ok()?;
        // A workspace's teardown also deletes its namespaces; then the namespaces report what holds them up.
        let namespaces = consumer.api.get("/api/v1/namespaces").await?.ok()?;
        let namespaces = namespaces["items"].as_array().cloned().unwrap_or_default();
        let said: Vec<_> = [&object].into_iter().chain(&namespaces).map(conditions).collect();
        let refusal = "cannot delete vpcs/a: still referenced by VirtualMachine/m1";
        if said.iter().any(|said| said.contains(refusal)) { Ok(()) } else { Err(Stop::Failed(said.join("; "))) }
    })
    .await?;
    consumer.untouched(&cast.vpc, "a").await
}

pub(crate) fn conditions(object: &Value) -> String {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().filter_map(|condition| condition["message"].as_str()).collect::<Vec<_>>().join("\n")
}

async fn namespace_waits(world: &World, cast: &Cast) -> Outcome {
    let consumer = &cast.consumer;
    target_waits(world, cast, (&consumer.api, &consumer.namespace_path())).await
}

pub(crate) async fn namespace(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    held_reference(&world, &cast).await?;
    let consumer = &cast.consumer;
    consumer.api.delete(&consumer.namespace_path()).await?.ok()?;
    namespace_waits(&world, &cast).await?;
    consumer.release(&cast.vm, "m1").await?;
    consumer.gone(&world, &consumer.namespace_path()).await
}

pub(crate) async fn workspace(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    held_reference(&world, &cast).await?;
    world.delete_workspace("consumer").await?;
    let logical_cluster = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";
    target_waits(&world, &cast, (&cast.consumer.api, logical_cluster)).await?;
    cast.consumer.release(&cast.vm, "m1").await?;
    eventually("the workspace is gone", world.patience(), async || match world.find_workspace("consumer").await? {
        None => Ok(()),
        Some(workspace) => Err(Stop::Failed(format!("status is {}", workspace["status"]))),
    })
    .await
}

pub(crate) async fn unbinding(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    consumer.create_target(&cast.vpc, "a").await?;
    consumer.create_dependent(&cast.vm, "m1", "a").await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;

    let binding = format!("{BINDINGS}/{}", cast.network.export);
    consumer.api.delete(&binding).await?.ok()?;
    if world.is_control() {
        consumer.gone(&world, &binding).await?;
        return Err(Stop::ControlSeen);
    }
    eventually("the refusal shows on the binding", world.patience(), async || {
        let object = consumer.api.get(&binding).await?.ok()?;
        let shown = conditions(&object).contains("still referenced by VirtualMachine/m1");
        if shown { Ok(()) } else { Err(Stop::Failed(format!("status is {}", object["status"]))) }
    })
    .await?;
    consumer.untouched(&cast.vpc, "a").await?;
    consumer.delete(&world, &cast.vm, "m1").await?;
    consumer.gone(&world, &binding).await
}

pub(crate) async fn tenant(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    held_reference(&world, &cast).await?;
    let tenant: Consumer = cast.consumer.as_tenant(&world).await?;
    let annotation = json!({"metadata": {"annotations": {"dependencies.opendefense.cloud/skip-protection": "true"}}});
    tenant.api.merge(&tenant.object(&cast.vpc, "a"), &annotation).await?.ok()?;
    if !world.is_control() {
        tenant.refused(&world, &cast.vpc, "a", &["still referenced by VirtualMachine/m1"]).await?;
    }
    // The control plane, a member of system:masters, carries out the deletion of the namespace.
    tenant.api.delete(&tenant.namespace_path()).await?.ok()?;
    namespace_waits(&world, &cast).await?;
    cast.consumer.release(&cast.vm, "m1").await?;
    cast.consumer.gone(&world, &cast.consumer.namespace_path()).await
}
