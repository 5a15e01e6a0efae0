//! Tests of the teardown of namespaces, workspaces and bindings while a webhook refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::bed::{Bed, becomes, condition, eventually, gone};
use crate::fixtures::{BINDINGS, CONFIGURATIONS, NETWORK, Network, VPCS, WORKSPACES, vpc};
use crate::hook::{Hook, deletes};
use crate::plain::{GADGETS, gadget};

/// Returns a webhook that refuses until it is told to allow.
async fn refusing() -> (Hook, Arc<AtomicBool>) {
    let allowed = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&allowed);
    let answer = move |_: &Value| {
        let status = json!({"code": 403, "reason": "Forbidden", "message": "still used"});
        json!({"allowed": now.load(Ordering::SeqCst), "status": status})
    };
    (Hook::start(answer).await, allowed)
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn fails(object: &Value, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|condition| {
        condition["status"] == status && condition["message"].as_str().is_some_and(|said| said.contains("still used"))
    })
}

#[tokio::test]
async fn a_namespace_goes_when_nobody_refuses_any_more() {
    let bed = Bed::with_gadgets().await;
    let (hook, allowed) = refusing().await;
    bed.admin.create(CONFIGURATIONS, &hook.configuration(&deletes("example.com", "gadgets"))).await.ok();
    bed.admin.create("/api/v1/namespaces", &namespace("team")).await.ok();
    let gadgets = GADGETS.replace("default", "team");
    bed.admin.create(&gadgets, &gadget("a", "x")).await.ok();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "free"}});
    bed.admin.create("/api/v1/namespaces/team/configmaps", &map).await.ok();

    let path = "/api/v1/namespaces/team";
    let going = bed.admin.delete(path).await.ok();
    assert_eq!(going["status"]["phase"], "Terminating");
    becomes(&bed.admin, path, |found| fails(found, "NamespaceDeletionContentFailure", "True")).await;
    gone(&bed.admin, "/api/v1/namespaces/team/configmaps/free").await;
    bed.admin.get(&format!("{gadgets}/a")).await.ok();
    let late = bed.admin.create(&gadgets, &gadget("late", "x")).await;
    assert_eq!((late.code, &late.body["details"]["causes"][0]["reason"]), (403, &json!("NamespaceTerminating")));
    bed.admin.delete(path).await.ok();

    eventually("it is tried again", || async { (hook.calls().len() >= 2).then_some(()) }).await;
    let calls = hook.calls();
    let request = &calls[0].request;
    assert_eq!(request["userInfo"]["username"], "system:serviceaccount:kube-system:namespace-controller");
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"]);
    assert_eq!((&request["userInfo"]["groups"], request.get("name")), (&groups, None));
    assert_eq!(request["options"]["propagationPolicy"], "Background");

    allowed.store(true, Ordering::SeqCst);
    gone(&bed.admin, path).await;
    assert_eq!(bed.admin.delete("/api/v1/namespaces/default").await.code, 403, "that one stays");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_workspace_is_torn_down_by_the_control_plane_and_waits() {
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    let (hook, allowed) = refusing().await;
    network.provider.create(CONFIGURATIONS, &hook.configuration(&deletes(NETWORK, "vpcs"))).await.ok();
    network.tenant.create(VPCS, &vpc("a")).await.ok();
    let root = bed.admin.cluster("root");
    root.delete(&format!("{WORKSPACES}/tenant")).await.ok();
    becomes(&network.tenant, "/api/v1/namespaces/default", |found| {
        fails(found, "NamespaceDeletionContentFailure", "True")
    })
    .await;
    let waiting = becomes(&root, &format!("{WORKSPACES}/tenant"), |found| {
        condition(found, "WorkspaceContentDeleted").is_some_and(|condition| condition["status"] == "False")
    })
    .await;
    let said = condition(&waiting, "WorkspaceContentDeleted").unwrap()["message"].as_str().unwrap();
    assert_eq!(said, "Some resources are remaining: namespaces. has 1 resource instances");
    let binding = network.tenant.get(&format!("{BINDINGS}/network")).await.ok();
    assert_eq!(binding["metadata"].get("deletionTimestamp"), None, "bindings go last");
    let user = json!({"username": "system:apiserver", "groups": ["system:authenticated", "system:masters"]});
    assert_eq!(hook.calls()[0].request["userInfo"], user);

    allowed.store(true, Ordering::SeqCst);
    gone(&root, &format!("{WORKSPACES}/tenant")).await;
    bed.testbed.stop().await;
}

#[tokio::test]
async fn unbinding_deletes_the_objects_first_and_waits_for_who_refuses() {
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    let (hook, allowed) = refusing().await;
    network.provider.create(CONFIGURATIONS, &hook.configuration(&deletes(NETWORK, "vpcs"))).await.ok();
    network.tenant.create(VPCS, &vpc("a")).await.ok();
    let path = format!("{BINDINGS}/network");
    network.tenant.delete(&path).await.ok();
    let waiting = becomes(&network.tenant, &path, |found| fails(found, "BindingResourceDeleteSuccess", "False")).await;
    assert!(waiting["metadata"]["deletionTimestamp"].is_string());
    network.tenant.get(&format!("{VPCS}/a")).await.ok();
    assert_eq!(network.tenant.create(VPCS, &vpc("late")).await.code, 403, "no new ones meanwhile");
    assert_eq!(hook.calls()[0].request["userInfo"]["username"], "system:apiserver");

    allowed.store(true, Ordering::SeqCst);
    gone(&network.tenant, &path).await;
    assert_eq!(network.tenant.get(VPCS).await.code, 404, "no longer served");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn what_was_bound_stays_served_when_its_export_is_gone() {
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    network.tenant.create(VPCS, &vpc("a")).await.ok();
    network.provider.delete(&format!("{}/{NETWORK}", crate::fixtures::EXPORTS)).await.ok();
    network.provider.delete(&format!("{}/v1.vpcs.{NETWORK}", crate::fixtures::SCHEMAS)).await.ok();
    assert_eq!(network.tenant.get(VPCS).await.names(), ["a"]);
    let hook = Hook::denying().await;
    network.provider.create(CONFIGURATIONS, &hook.configuration(&deletes(NETWORK, "vpcs"))).await.ok();
    assert_eq!(network.tenant.delete(&format!("{VPCS}/a")).await.code, 403, "and protected");
    bed.testbed.stop().await;
}
