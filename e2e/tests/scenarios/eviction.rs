//! The eviction of a Pod: a deletion of which admission sees no DELETE.

use std::sync::Arc;

use depguard_controller::manifests;
use depguard_e2e::rules::rule;
use depguard_e2e::{Consumer, Depguard, Outcome, Reply, Resource, Stop, World, ensure, eventually};
use serde_json::json;

fn pods() -> Resource {
    Resource { group: String::new(), versions: &["v1"], ..Resource::namespaced("Pod") }
}

async fn evict(consumer: &Consumer, name: &str, dry_run: bool) -> Outcome<Reply> {
    let mut eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    if dry_run {
        eviction["deleteOptions"] = json!({"dryRun": ["All"]});
    }
    consumer.api.post(&format!("{}/eviction", consumer.object(&pods(), name)), &eviction).await
}

/// Waits until an eviction is refused as a PodDisruptionBudget would refuse it, with this message. Nothing is evicted.
async fn until_refused(world: &World, consumer: &Consumer, name: &str, message: &str) -> Outcome {
    eventually("the eviction is refused", world.patience(), async || {
        let reply = evict(consumer, name, true).await?;
        let refused = reply.status == 429 && reply.message().contains(message);
        if refused { Ok(()) } else { Err(reply.unexpected("429")) }
    })
    .await
}

pub(crate) async fn refused(world: Arc<World>) -> Outcome {
    let (compute, pod) = (world.compute().await?, pods());
    let machine = compute.kind("VirtualMachine")?;
    world.add_rule(&compute, &rule("machines", &machine, &[(&pod, ".spec.podRef.name")])).await?;
    let consumer = world.consumer("consumer", &[&compute]).await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    consumer.api.post(&format!("{}/serviceaccounts", consumer.namespace_path()), &account).await?.ok_or_there()?;
    for name in ["used", "free"] {
        consumer.create(&pod, name, json!({"containers": [{"name": "one", "image": "a"}]})).await?;
    }
    consumer.create(&machine, "m1", json!({"podRef": {"name": "used"}})).await?;
    let _depguard = Depguard::start(&world).await?;
    consumer.until_protected(&world, &pod, "used").await?;
    if world.is_control() {
        evict(&consumer, "used", false).await?.ok()?;
        consumer.gone(&world, &consumer.object(&pod, "used")).await?;
        return Err(Stop::ControlSeen);
    }

    // The review doesn't show the Pod, and nobody has let the webhook read it.
    until_refused(&world, &consumer, "used", "give the webhook's user the right to get pods").await?;
    world.reason(&compute, "machines", "Enforced", "RightMissing").await?;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("evicted-{}", world.id()), "labels": {manifests::AGGREGATE: "true"}},
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            {"apiGroups": [machine.group], "resources": [machine.plural], "verbs": ["get", "list"]},
        ],
    });
    world.grant_reading(&role).await?;
    let message = "cannot delete pods/used: still referenced by VirtualMachine/m1";
    until_refused(&world, &consumer, "used", message).await?;
    world.condition(&compute, "machines", "Enforced", "True").await?;
    let reply = evict(&consumer, "used", false).await?;
    ensure(reply.status == 429 && reply.body["reason"] == "TooManyRequests", || format!("refused by {}", reply.body))?;
    consumer.untouched(&pod, "used").await?;

    evict(&consumer, "free", true).await?.ok()?;
    consumer.untouched(&pod, "free").await?;
    evict(&consumer, "free", false).await?.ok()?;
    consumer.gone(&world, &consumer.object(&pod, "free")).await?;
    consumer.delete(&world, &machine, "m1").await?;
    evict(&consumer, "used", false).await?.ok()?;
    consumer.gone(&world, &consumer.object(&pod, "used")).await
}
