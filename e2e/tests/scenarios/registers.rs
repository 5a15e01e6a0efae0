//! Reference registers: rights to them, and their end.

use std::sync::Arc;

use depguard_e2e::rules::register_key;
use depguard_e2e::{Api, Depguard, Outcome, Reply, Stop, World, ensure, eventually};
use serde_json::{Value, json};

use crate::races::{REGISTERS, interlocked, register_path};

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const NAMESPACE: &str = "depguard-system";
/// ServiceAccount of an administrator, beside depguard's own accounts.
const STRANGER: &str = "stranger";
const WEBHOOK: &str = "depguard-webhook";

/// Has the registers made, opened, written and, in the end, deleted.
pub(crate) async fn until_uninstalled(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    world.add_rule(&cast.compute, &interlocked(&cast)).await?;
    let mut depguard = Depguard::start(&world).await?;
    cast.consumer.until_checked(&world, &cast.vm, json!({"vpcRef": {"name": "nowhere"}})).await?;
    cast.consumer.create_target(&cast.vpc, "a").await?;
    let machine = json!({
        "apiVersion": cast.vm.api_version(), "kind": cast.vm.kind, "metadata": {"name": "m"},
        "spec": {"vpcRef": {"name": "a"}},
    });
    let collection = cast.vm.collection(&cast.consumer.namespace);
    eventually("a mark about the reference is written", world.patience(), async || {
        cast.consumer.api.post(&collection, &machine).await?.ok().map(drop)
    })
    .await?;
    cast.consumer.until_protected(&world, &cast.vpc, "a").await?;
    depguard.kill_webhook();
    depguard.uninstall().await?;
    ensure(world.own_cluster().get(&register_key()).await?.is_gone(), || {
        "the key of the registers is left".to_owned()
    })?;
    let left = world.own_cluster().get(REGISTERS).await?.ok()?;
    ensure(left["items"].as_array().is_some_and(Vec::is_empty), || format!("registers are left: {left}"))
}

/// Gives the webhook's account and another one every right, so that the policy alone refuses.
pub(crate) async fn kept_from_others(world: Arc<World>) -> Outcome {
    let mut depguard = Depguard::prepare(&world).await?;
    let own = world.own_cluster();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": STRANGER}});
    own.post(&format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), &account).await?.ok_or_there()?;
    let subject = |name| json!({"kind": "ServiceAccount", "namespace": NAMESPACE, "name": name});
    let name = format!("everything-{}", world.id());
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [subject(STRANGER), subject(WEBHOOK)],
    });
    own.post(BINDINGS, &binding).await?.ok()?;
    depguard.start_controller().await?;
    let checked = only_depguard_writes(&world, &own).await;
    own.delete(&format!("{BINDINGS}/{name}")).await?.ok()?;
    checked
}

async fn only_depguard_writes(world: &World, own: &Api) -> Outcome {
    let path = &eventually("a register is made", world.patience(), async || register_path(world, 0).await).await?;
    let register = async || -> Outcome<Value> {
        eventually("the controller makes registers, and opens them", world.patience(), async || {
            let found = own.get(path).await?.ok()?;
            if found["spec"]["openFor"].is_string() { Ok(found) } else { Err(Stop::Failed(found.to_string())) }
        })
        .await
    };
    let before = register().await?;
    let (stranger, webhook) = (enter(world, own, STRANGER).await?, enter(world, own, WEBHOOK).await?);
    // An API server takes some seconds to see a policy.
    eventually("nobody else writes", world.patience(), async || {
        refused(&stranger.put(&format!("{path}?dryRun=All"), &register().await?).await?)
    })
    .await?;
    let mut foreign = before.clone();
    foreign["metadata"] = json!({"name": "bucket-0-of-5"});
    for account in [&stranger, &webhook] {
        refused(&account.post(REGISTERS, &foreign).await?)?;
        refused(&account.delete(path).await?)?;
        refused(&account.delete(REGISTERS).await?)?;
    }
    // An administrator of the group system:masters may not write, and may delete.
    refused(&own.put(path, &register().await?).await?)?;
    let touch = json!({"metadata": {"annotations": {"example.com/seen": "1"}}});
    refused(&stranger.merge(path, &touch).await?)?;
    eventually("the webhook writes", world.patience(), async || {
        webhook.put(path, &register().await?).await?.ok().map(drop)
    })
    .await?;
    let uid = |register: &Value| register["metadata"]["uid"].clone();
    ensure(uid(&register().await?) == uid(&before), || "the register is another one".to_owned())?;
    own.delete(path).await?.ok()?;
    let made_anew = register().await?;
    ensure(uid(&made_anew) != uid(&before), || "it was not deleted".to_owned())
}

fn refused(reply: &Reply) -> Outcome {
    let is_by_policy = reply.status == 403 && reply.message().contains("depguard-reference-registers");
    ensure(is_by_policy, || format!("{} {}", reply.status, reply.message()))
}

/// Returns a client with the rights of a ServiceAccount of depguard's namespace.
async fn enter(world: &World, own: &Api, account: &str) -> Outcome<Api> {
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
    let granted = own.post(&path, &request).await?.ok()?;
    world.ring().api_of(granted["status"]["token"].as_str().unwrap_or_default()).await
}
