//! Tests of deletion: finalizers, preconditions, dry runs, collections, and the reviews of deletions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use serde_json::json;
use tokio::runtime::Handle;

use crate::bed::{Bed, gone};
use crate::client::Client;
use crate::fixtures::CONFIGURATIONS;
use crate::hook::{Hook, deletes};
use crate::plain::{GADGETS, gadget};

async fn guard(bed: &Bed, hook: &Hook) {
    let configuration = hook.configuration(&deletes("example.com", "gadgets"));
    bed.admin.create(CONFIGURATIONS, &configuration).await.ok();
}

#[tokio::test]
async fn a_finalizer_holds_a_terminating_object_and_a_second_delete_is_reviewed_again() {
    let bed = Bed::with_gadgets().await;
    let hook = Hook::allowing().await;
    guard(&bed, &hook).await;
    let mut held = gadget("a", "x");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    bed.admin.create(GADGETS, &held).await.ok();
    let path = format!("{GADGETS}/a");

    let going = bed.admin.delete(&path).await.ok();
    assert_eq!(going["kind"], "Gadget");
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(going["metadata"]["generation"], 2);
    let again = bed.admin.delete(&path).await.ok();
    assert_eq!(again["metadata"]["resourceVersion"], going["metadata"]["resourceVersion"], "nothing changed");
    assert_eq!(hook.calls().len(), 2);
    assert!(hook.calls()[1].request["oldObject"]["metadata"]["deletionTimestamp"].is_string());

    let mut more = going.clone();
    more["metadata"]["finalizers"] = json!(["example.com/hold", "example.com/more"]);
    assert_eq!(bed.admin.replace(&path, &more).await.code, 422, "no new finalizers now");
    bed.admin.merge(&path, &json!({"metadata": {"finalizers": []}})).await.ok();
    assert_eq!(bed.admin.get(&path).await.code, 404);
    assert_eq!(hook.calls().len(), 2, "taking the finalizer off is no delete");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn preconditions_and_dry_runs_are_kept_to() {
    let bed = Bed::with_gadgets().await;
    let hook = Hook::allowing().await;
    guard(&bed, &hook).await;
    let made = bed.admin.create(GADGETS, &gadget("a", "x")).await.ok();
    let path = format!("{GADGETS}/a");
    for preconditions in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        let refused = bed.admin.delete_with(&path, &json!({"preconditions": preconditions})).await;
        assert_eq!((refused.code, &refused.body["reason"]), (409, &json!("Conflict")));
    }
    assert!(hook.calls().is_empty(), "refused before it is reviewed");
    bed.admin.delete(&format!("{path}?dryRun=All")).await.ok();
    bed.admin.delete_with(&path, &json!({"dryRun": ["All"], "propagationPolicy": "Foreground"})).await.ok();
    bed.admin.delete_with(&format!("{path}?dryRun=none"), &json!({"dryRun": ["All"]})).await.ok();
    let asked: Vec<_> = hook.calls().into_iter().map(|call| call.request["dryRun"].clone()).collect();
    assert_eq!(asked, [json!(true), json!(true), json!(true)]);
    let metadata = &made["metadata"];
    let preconditions = json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
    let done = bed.admin.delete_with(&path, &json!({"preconditions": preconditions})).await.ok();
    assert_eq!(
        (&done["kind"], &done["status"], &done["details"]["uid"]),
        (&json!("Status"), &json!("Success"), &metadata["uid"])
    );
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_body_alone_says_how_to_delete_where_there_is_one() {
    let bed = Bed::with_gadgets().await;
    for name in ["a", "b", "c"] {
        bed.admin.create(GADGETS, &gadget(name, "x")).await.ok();
    }
    bed.admin.delete(&format!("{GADGETS}?dryRun=All")).await.ok();
    bed.admin.delete_with(&format!("{GADGETS}/a?dryRun=All"), &json!({"kind": "DeleteOptions"})).await.ok();
    assert_eq!(bed.admin.get(GADGETS).await.names(), ["b", "c"], "the query is not heard beside a body");
    bed.admin.delete_with(&format!("{GADGETS}?dryRun=All"), &json!({"kind": "DeleteOptions"})).await.ok();
    assert_eq!(bed.admin.get(GADGETS).await.names(), [""; 0]);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn an_object_that_changed_under_review_is_reviewed_again() {
    let bed = Bed::with_gadgets().await;
    let admin: Arc<OnceLock<Client>> = Arc::new(OnceLock::new());
    let (client, runtime, calls) = (Arc::clone(&admin), Handle::current(), AtomicUsize::new(0));
    let hook = Hook::start(move |_| {
        if calls.fetch_add(1, Ordering::SeqCst) == 0 {
            let client = client.get().unwrap();
            let patch = json!({"spec": {"owner": "changed"}});
            runtime.block_on(client.merge(&format!("{GADGETS}/a"), &patch)).ok();
        }
        json!({"allowed": true})
    })
    .await;
    admin.set(bed.admin.clone()).ok();
    guard(&bed, &hook).await;
    bed.admin.create(GADGETS, &gadget("a", "x")).await.ok();
    bed.admin.delete(&format!("{GADGETS}/a")).await.ok();
    let owners: Vec<_> =
        hook.calls().into_iter().map(|call| call.request["oldObject"]["spec"]["owner"].clone()).collect();
    assert_eq!(owners, ["x", "changed"]);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_collection_goes_in_key_order_and_stops_at_the_first_refusal() {
    let bed = Bed::with_gadgets().await;
    let hook = Hook::start(|request| json!({"allowed": request["oldObject"]["metadata"]["name"] != "b"})).await;
    guard(&bed, &hook).await;
    for name in ["c", "a", "b"] {
        bed.admin.create(GADGETS, &gadget(name, "x")).await.ok();
    }
    let refused = bed.admin.delete(GADGETS).await;
    assert_eq!(
        (refused.code, refused.message()),
        (400, "admission webhook \"guard.example.com\" denied the request without explanation")
    );
    assert_eq!(bed.admin.get(GADGETS).await.names(), ["b", "c"]);
    let calls = hook.calls();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|call| call.request.get("name").is_none() && call.request["namespace"] == "default"));

    // Control: without the webhook, the collection goes.
    bed.admin.delete(&format!("{CONFIGURATIONS}/guard")).await.ok();
    let deleted = bed.admin.delete(GADGETS).await;
    assert_eq!((deleted.names(), &deleted.body["kind"]), (vec!["b", "c"], &json!("GadgetList")));
    gone(&bed.admin, &format!("{GADGETS}/c")).await;
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_webhooks_warnings_reach_the_requester() {
    let bed = Bed::with_gadgets().await;
    let hook = Hook::start(|_| json!({"allowed": true, "warnings": ["still \"used\""]})).await;
    guard(&bed, &hook).await;
    bed.admin.create(GADGETS, &gadget("a", "x")).await.ok();
    let deleted = bed.admin.delete(&format!("{GADGETS}/a")).await;
    assert_eq!(deleted.headers["warning"], "299 - \"still \\\"used\\\"\"");

    let hook = Hook::start(|_| json!({"allowed": false, "warnings": ["used"]})).await;
    bed.admin.delete(&format!("{CONFIGURATIONS}/guard")).await.ok();
    guard(&bed, &hook).await;
    bed.admin.create(GADGETS, &gadget("b", "x")).await.ok();
    let refused = bed.admin.delete(&format!("{GADGETS}/b")).await;
    assert_eq!((refused.code, &refused.headers["warning"]), (400, &"299 - \"used\"".parse().unwrap()));
    bed.testbed.stop().await;
}
