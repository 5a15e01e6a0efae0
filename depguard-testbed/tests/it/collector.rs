//! Tests of the fate of dependents when their owners go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::bed::{Bed, becomes, eventually, gone};
use crate::fixtures::{CONFIGURATIONS, Network, VPCS, vpc};
use crate::hook::{Hook, deletes};
use crate::plain::{GADGETS, gadget};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

/// Returns a reference to an object that was created.
fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
    })
}

fn blocking(owner: &Value) -> Value {
    let mut reference = reference(owner);
    reference["blockOwnerDeletion"] = json!(true);
    reference
}

fn path(name: &str) -> String {
    format!("{GADGETS}/{name}")
}

async fn make(bed: &Bed, name: &str, owners: &[Value], finalizers: &[&str]) -> Value {
    let mut object = gadget(name, "x");
    object["metadata"]["ownerReferences"] = json!(owners);
    object["metadata"]["finalizers"] = json!(finalizers);
    bed.admin.create(GADGETS, &object).await.ok()
}

async fn drop_finalizers(bed: &Bed, name: &str) {
    bed.admin.merge(&path(name), &json!({"metadata": {"finalizers": []}})).await.ok();
}

#[tokio::test]
async fn who_has_lost_every_owner_is_deleted_by_the_collector() {
    let bed = Bed::with_gadgets().await;
    let hook = Hook::allowing().await;
    bed.admin.create(CONFIGURATIONS, &hook.configuration(&deletes("example.com", "gadgets"))).await.ok();
    let owner = make(&bed, "owner", &[], &[]).await;
    let other = make(&bed, "other", &[], &[]).await;
    let child = make(&bed, "child", &[reference(&owner)], &[]).await;
    make(&bed, "grandchild", &[reference(&child)], &[]).await;
    make(&bed, "shared", &[reference(&owner), reference(&other)], &[]).await;
    bed.admin.delete(&path("owner")).await.ok();

    for name in ["child", "grandchild"] {
        gone(&bed.admin, &path(name)).await;
    }
    let left = json!([reference(&other)]);
    becomes(&bed.admin, &path("shared"), |found| found["metadata"]["ownerReferences"] == left).await;
    let calls = hook.calls();
    let call = calls.iter().find(|call| call.request["name"] == "child").unwrap();
    assert_eq!(call.request["userInfo"]["username"], COLLECTOR);
    assert_eq!(call.request["options"]["propagationPolicy"], "Background");
    assert_eq!(call.request["options"]["preconditions"]["uid"], child["metadata"]["uid"]);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn an_owner_counts_by_its_uid_and_where_it_lies() {
    let bed = Bed::with_gadgets().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    bed.admin.create("/api/v1/namespaces", &namespace).await.ok();
    let role = |name: &str, owners: &[Value]| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "ownerReferences": owners},
        })
    };
    let of_cluster = bed.admin.create(ROLES, &role("of-cluster", &[])).await.ok();
    let elsewhere = bed.admin.create(&GADGETS.replace("default", "team"), &gadget("elsewhere", "x")).await.ok();
    let here = make(&bed, "here", &[], &[]).await;
    let mut stranger = reference(&here);
    stranger["uid"] = json!("00000000-0000-4000-8000-000000000000");

    make(&bed, "owned-by-cluster-scoped", &[reference(&of_cluster)], &[]).await;
    bed.admin.create(ROLES, &role("owned-by-namespaced", &[reference(&here)])).await.ok();
    let unknown = json!({"apiVersion": "example.com/v9", "kind": "Gizmo", "name": "a", "uid": "1"});
    make(&bed, "owned-by-unknown-kind", &[unknown], &[]).await;
    make(&bed, "owned-across-namespaces", &[reference(&elsewhere)], &[]).await;
    make(&bed, "owned-by-a-predecessor", &[stranger], &[]).await;
    for name in ["owned-across-namespaces", "owned-by-a-predecessor"] {
        gone(&bed.admin, &path(name)).await;
    }
    // The collector processed the other objects before these two.
    bed.admin.get(&format!("{ROLES}/owned-by-namespaced")).await.ok();
    assert_eq!(bed.admin.get(GADGETS).await.names(), ["here", "owned-by-cluster-scoped", "owned-by-unknown-kind"]);
    bed.admin.delete(&format!("{ROLES}/of-cluster")).await.ok();
    gone(&bed.admin, &path("owned-by-cluster-scoped")).await;
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_deletion_in_the_foreground_takes_the_dependents_first_whatever_else_holds_the_owner() {
    let bed = Bed::with_gadgets().await;
    let owner = make(&bed, "owner", &[], &["example.com/hold"]).await;
    make(&bed, "free", &[blocking(&owner)], &[]).await;
    make(&bed, "slow", &[blocking(&owner)], &["example.com/hold"]).await;
    make(&bed, "aside", &[reference(&owner)], &["example.com/hold"]).await;
    let going = bed.admin.delete(&format!("{}?propagationPolicy=Foreground", path("owner"))).await.ok();
    assert_eq!(going["metadata"]["finalizers"], json!(["example.com/hold", "foregroundDeletion"]));

    gone(&bed.admin, &path("free")).await;
    for name in ["slow", "aside"] {
        becomes(&bed.admin, &path(name), |found| found["metadata"]["deletionTimestamp"].is_string()).await;
    }
    let held = bed.admin.get(&path("owner")).await.ok();
    assert_eq!(held["metadata"]["finalizers"], json!(["example.com/hold", "foregroundDeletion"]), "slow blocks");
    drop_finalizers(&bed, "slow").await;
    let only_theirs = json!(["example.com/hold"]);
    becomes(&bed.admin, &path("owner"), |found| found["metadata"]["finalizers"] == only_theirs).await;
    bed.admin.get(&path("aside")).await.ok();
    drop_finalizers(&bed, "owner").await;
    gone(&bed.admin, &path("owner")).await;
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_foreground_deletion_goes_down_the_tree_before_it_comes_up() {
    let bed = Bed::with_gadgets().await;
    let owner = make(&bed, "owner", &[], &[]).await;
    let child = make(&bed, "child", &[blocking(&owner)], &[]).await;
    make(&bed, "grandchild", &[blocking(&child)], &["example.com/hold"]).await;
    let options = json!({"propagationPolicy": "Foreground"});
    bed.admin.delete_with(&path("owner"), &options).await.ok();
    becomes(&bed.admin, &path("grandchild"), |found| found["metadata"]["deletionTimestamp"].is_string()).await;
    for name in ["owner", "child"] {
        let waiting = bed.admin.get(&path(name)).await.ok();
        assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]), "{name}");
    }
    drop_finalizers(&bed, "grandchild").await;
    for name in ["grandchild", "child", "owner"] {
        gone(&bed.admin, &path(name)).await;
    }
    bed.testbed.stop().await;
}

#[tokio::test]
async fn orphans_are_let_go_before_their_owner_goes() {
    let bed = Bed::with_gadgets().await;
    let owner = make(&bed, "owner", &[], &["example.com/hold"]).await;
    let other = make(&bed, "other", &[], &[]).await;
    make(&bed, "child", &[reference(&owner)], &[]).await;
    make(&bed, "shared", &[reference(&owner), reference(&other)], &[]).await;
    let going = bed.admin.delete_with(&path("owner"), &json!({"propagationPolicy": "Orphan"})).await.ok();
    assert_eq!(going["metadata"]["finalizers"], json!(["example.com/hold", "orphan"]));
    let only_theirs = json!(["example.com/hold"]);
    becomes(&bed.admin, &path("owner"), |found| found["metadata"]["finalizers"] == only_theirs).await;
    assert_eq!(bed.admin.get(&path("child")).await.ok()["metadata"].get("ownerReferences"), None);
    let left = &bed.admin.get(&path("shared")).await.ok()["metadata"]["ownerReferences"];
    assert_eq!(*left, json!([reference(&other)]));
    drop_finalizers(&bed, "owner").await;
    gone(&bed.admin, &path("owner")).await;
    assert_eq!(bed.admin.get(GADGETS).await.names(), ["child", "other", "shared"]);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn who_deletes_last_says_what_becomes_of_the_dependents() {
    let bed = Bed::with_gadgets().await;
    let owner = make(&bed, "owner", &[], &[]).await;
    make(&bed, "child", &[blocking(&owner)], &["example.com/hold"]).await;
    bed.admin.delete_with(&path("owner"), &json!({"propagationPolicy": "Foreground"})).await.ok();
    let again = bed.admin.delete(&path("owner")).await.ok();
    assert_eq!(again["metadata"]["finalizers"], json!(["foregroundDeletion"]), "who doesn't say changes nothing");
    bed.admin.delete_with(&path("owner"), &json!({"propagationPolicy": "Background"})).await.ok();
    assert_eq!(bed.admin.get(&path("owner")).await.code, 404);
    bed.admin.get(&path("child")).await.ok();
    for (options, why) in [
        (json!({"propagationPolicy": "Sideways"}), "Unsupported value: \"Sideways\""),
        (json!({"propagationPolicy": "Orphan", "orphanDependents": true}), "cannot be both set"),
    ] {
        let refused = bed.admin.delete_with(&path("child"), &options).await;
        assert_eq!((refused.code, refused.message().contains(why)), (422, true), "{}", refused.body);
    }
    bed.testbed.stop().await;
}

#[tokio::test]
async fn what_admission_refuses_the_collector_it_tries_again() {
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    let allowed = Arc::new(AtomicBool::new(false));
    let known = Arc::clone(&allowed);
    let hook =
        Hook::start(move |request| json!({"allowed": request["name"] == "owner" || known.load(Ordering::SeqCst)}))
            .await;
    let rule = deletes(crate::fixtures::NETWORK, "vpcs");
    network.provider.create(CONFIGURATIONS, &hook.configuration(&rule)).await.ok();
    let owner = network.tenant.create(VPCS, &vpc("owner")).await.ok();
    let mut child = vpc("child");
    child["metadata"]["ownerReferences"] = json!([reference(&owner)]);
    network.tenant.create(VPCS, &child).await.ok();
    network.tenant.delete(&format!("{VPCS}/owner")).await.ok();

    eventually("it is tried again", || async { (hook.calls().len() >= 3).then_some(()) }).await;
    network.tenant.get(&format!("{VPCS}/child")).await.ok();
    assert_eq!(hook.calls()[2].request["userInfo"]["username"], "system:apiserver");
    allowed.store(true, Ordering::SeqCst);
    gone(&network.tenant, &format!("{VPCS}/child")).await;
    bed.testbed.stop().await;
}
