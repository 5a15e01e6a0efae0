//! Evictions of Pods: deletions for which admission sees no DELETE.

use std::fs::{self, File};
use std::process::Stdio;
use std::sync::Arc;

use depguard_controller::manifests;
use depguard_e2e::rules::rule;
use depguard_e2e::tools::Tools;
use depguard_e2e::{Consumer, Depguard, Outcome, Provider, Resource, Stop, World, ensure, eventually};
use serde_json::json;
use tokio::process::{Child, Command};

pub(crate) fn pods() -> Resource {
    Resource { group: String::new(), versions: &["v1"], ..Resource::namespaced("Pod") }
}

/// Waits until an eviction is refused as a PodDisruptionBudget would refuse it, with this message. These attempts evict
/// nothing.
async fn until_refused(world: &World, consumer: &Consumer, name: &str, message: &str) -> Outcome {
    eventually("the eviction is refused", world.patience(), async || {
        let reply = consumer.evict(&consumer.object(&pods(), name), true).await?;
        let refused = reply.status == 429 && reply.message().contains(message);
        if refused { Ok(()) } else { Err(reply.unexpected("429")) }
    })
    .await
}

/// Creates Pods, bound to a node if one is named, and the ServiceAccount without which no API server admits them.
pub(crate) async fn create_pods(consumer: &Consumer, names: &[&str], node: Option<&str>) -> Outcome {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    consumer.api.post(&format!("{}/serviceaccounts", consumer.namespace_path()), &account).await?.ok_or_there()?;
    for name in names {
        let mut spec = json!({"containers": [{"name": "one", "image": "a"}]});
        if let Some(node) = node {
            spec["nodeName"] = node.into();
        }
        consumer.create(&pods(), name, spec).await?;
    }
    Ok(())
}

/// A machine that refers to one of two Pods, with depguard running.
struct Pods {
    compute: Provider,
    machine: Resource,
    consumer: Consumer,
    _depguard: Depguard,
}

impl Pods {
    /// Creates Pods `used` and `free`, bound to a node if one is named.
    async fn create(world: &Arc<World>, node: Option<&str>) -> Outcome<Pods> {
        let compute = world.compute().await?;
        let machine = compute.kind("VirtualMachine")?;
        world.add_rule(&compute, &rule("machines", &machine, &[(&pods(), ".spec.podRef.name")])).await?;
        let consumer = world.consumer("consumer", &[&compute]).await?;
        create_pods(&consumer, &["used", "free"], node).await?;
        consumer.create(&machine, "m1", json!({"podRef": {"name": "used"}})).await?;
        let _depguard = Depguard::start(world).await?;
        consumer.until_protected(world, &pods(), "used").await?;
        Ok(Pods { compute, machine, consumer, _depguard })
    }

    /// Lets the webhook read the machines, and the Pods, which the review of an eviction does not contain.
    async fn let_read(&self, world: &World) -> Outcome {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": format!("evicted-{}", world.id()), "labels": {manifests::AGGREGATE: "true"}},
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
                {"apiGroups": [self.machine.group], "resources": [self.machine.plural], "verbs": ["get", "list"]},
            ],
        });
        world.grant_reading(&role).await?;
        until_refused(world, &self.consumer, "used", STILL_REFERENCED).await
    }
}

const STILL_REFERENCED: &str = "cannot delete pods/used: still referenced by VirtualMachine/m1";

pub(crate) async fn refused(world: Arc<World>) -> Outcome {
    let pod = pods();
    let made = Pods::create(&world, None).await?;
    let Pods { compute, machine, consumer, .. } = &made;
    if world.is_control() {
        consumer.evict(&consumer.object(&pod, "used"), false).await?.ok()?;
        consumer.gone(&world, &consumer.object(&pod, "used")).await?;
        return Err(Stop::ControlSeen);
    }

    // The review does not contain the Pod, and the webhook has no right to read Pods yet.
    until_refused(&world, consumer, "used", "give the webhook's user the right to get pods").await?;
    world.reason(compute, "machines", "Enforced", "RightMissing").await?;
    made.let_read(&world).await?;
    world.condition(compute, "machines", "Enforced", "True").await?;
    let reply = consumer.evict(&consumer.object(&pod, "used"), false).await?;
    ensure(reply.status == 429 && reply.body["reason"] == "TooManyRequests", || format!("refused by {}", reply.body))?;
    consumer.untouched(&pod, "used").await?;

    consumer.evict(&consumer.object(&pod, "free"), true).await?.ok()?;
    consumer.untouched(&pod, "free").await?;
    consumer.evict(&consumer.object(&pod, "free"), false).await?.ok()?;
    consumer.gone(&world, &consumer.object(&pod, "free")).await?;
    consumer.delete(&world, machine, "m1").await?;
    consumer.evict(&consumer.object(&pod, "used"), false).await?.ok()?;
    consumer.gone(&world, &consumer.object(&pod, "used")).await
}

/// Drains a node: kubectl repeats an eviction that was refused with 429, and gives up at a 403.
pub(crate) async fn drained(world: Arc<World>) -> Outcome {
    let tools = Tools::find().map_err(Stop::Skipped)?;
    let (pod, node) = (pods(), format!("drained-{}", world.id()));
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}});
    world.own_cluster().post("/api/v1/nodes", &object).await?.ok()?;
    let made = Pods::create(&world, Some(&node)).await?;
    let Pods { machine, consumer, .. } = &made;
    if !world.is_control() {
        made.let_read(&world).await?;
    }

    let folder = tempfile::tempdir()?;
    let (kubeconfig, log) = (folder.path().join("kubeconfig"), folder.path().join("log"));
    world.ring().write_kubeconfig(&consumer.path, &kubeconfig)?;
    let printed = || fs::read_to_string(&log).unwrap_or_default();
    let file = File::create(&log)?;
    // No kubelet runs the Pods, so nothing would end them within a grace period.
    let mut drain = Command::new(tools.folder().join("kubectl"))
        .args(["drain", &node, "--force", "--grace-period=0"])
        .env("KUBECONFIG", &kubeconfig)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .kill_on_drop(true)
        .spawn()?;
    if world.is_control() {
        ended_well(&mut drain, &printed).await?;
        consumer.gone(&world, &consumer.object(&pod, "used")).await?;
        world.own_cluster().delete(&format!("/api/v1/nodes/{node}")).await?.ok()?;
        return Err(Stop::ControlSeen);
    }

    consumer.gone(&world, &consumer.object(&pod, "free")).await?;
    eventually("the drain says whom it waits for", world.patience(), async || {
        let printed = printed();
        let waits = printed.contains(STILL_REFERENCED) && printed.contains("will retry after");
        ensure(waits, || printed)
    })
    .await?;
    ensure(drain.try_wait()?.is_none(), || format!("the drain has ended: {}", printed()))?;
    consumer.untouched(&pod, "used").await?;

    consumer.delete(&world, machine, "m1").await?;
    ended_well(&mut drain, &printed).await?;
    consumer.gone(&world, &consumer.object(&pod, "used")).await?;
    world.own_cluster().delete(&format!("/api/v1/nodes/{node}")).await?.ok().map(drop)
}

async fn ended_well(drain: &mut Child, printed: &dyn Fn() -> String) -> Outcome {
    let status = drain.wait().await?;
    ensure(status.success(), || format!("the drain ended with {status}: {}", printed()))
}
