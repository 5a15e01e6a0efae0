//! Tests of JSON patches, and of owner references that several clients write.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::bed::Bed;
use crate::client::Client;
use crate::fixtures::CONFIGURATIONS;
use crate::hook::Hook;
use crate::plain::{GADGETS, gadget};

fn path() -> String {
    format!("{GADGETS}/a")
}

fn owner(of: &Value) -> Value {
    let metadata = &of["metadata"];
    json!({"apiVersion": "example.com/v1", "kind": "Gadget", "name": metadata["name"], "uid": metadata["uid"]})
}

#[tokio::test]
async fn a_json_patch_is_carried_out_in_order_and_as_a_whole() {
    let bed = Bed::with_gadgets().await;
    let mut made = gadget("a", "x");
    made["spec"]["list"] = json!([1, 2, 3]);
    made["metadata"]["annotations"] = json!({"example.com/a~b": "old"});
    bed.admin.create(GADGETS, &made).await.ok();
    let patched = bed
        .admin
        .patch(
            &path(),
            &json!([
                {"op": "test", "path": "/spec/owner", "value": "x"},
                {"op": "test", "path": "/spec/nothing", "value": null},
                {"op": "add", "path": "/spec/list/1", "value": 9},
                {"op": "add", "path": "/spec/list/-", "value": 4},
                {"op": "remove", "path": "/spec/list/0"},
                {"op": "replace", "path": "/metadata/annotations/example.com~1a~0b", "value": "new"},
                {"op": "copy", "from": "/spec/owner", "path": "/spec/before"},
                {"op": "move", "from": "/spec/owner", "path": "/spec/moved"},
                {"op": "replace", "path": "/spec/new", "value": 1},
            ]),
        )
        .await
        .ok();
    assert_eq!(patched["spec"], json!({"list": [9, 2, 3, 4], "before": "x", "moved": "x", "new": 1}));
    assert_eq!(patched["metadata"]["annotations"], json!({"example.com/a~b": "new"}));
    assert_eq!(patched["metadata"]["generation"], 2);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_patch_that_does_not_fit_changes_nothing() {
    let bed = Bed::with_gadgets().await;
    let mut empty = gadget("a", "x");
    empty["metadata"]["ownerReferences"] = json!([]);
    let made = bed.admin.create(GADGETS, &empty).await.ok();
    assert_eq!(made["metadata"].get("ownerReferences"), None, "what is empty is not kept");
    let first = json!({"op": "add", "path": "/spec/changed", "value": true});
    for (operation, code) in [
        (json!({"op": "test", "path": "/metadata/resourceVersion", "value": "1"}), 422),
        (json!({"op": "test", "path": "/spec/owner", "value": null}), 422),
        (json!({"op": "remove", "path": "/spec/missing"}), 422),
        (json!({"op": "replace", "path": "/spec/missing/deeper", "value": 1}), 422),
        (json!({"op": "add", "path": "/spec/missing/deeper", "value": 1}), 422),
        (json!({"op": "add", "path": "/spec/owner/deeper", "value": 1}), 422),
        (json!({"op": "replace", "path": "", "value": "text"}), 422),
        (json!({"op": "replace", "path": "/metadata/uid", "value": "other"}), 422),
        (json!({"op": "replace", "path": "/metadata/name", "value": "b"}), 400),
        (json!({"op": "replace", "path": "/metadata", "value": "text"}), 422),
        (json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}), 409),
        (json!({"op": "add", "path": "/metadata/ownerReferences/-", "value": {}}), 422),
        (json!({"op": "frob", "path": "/spec"}), 422),
        (json!({"op": "add", "path": "spec", "value": 1}), 422),
    ] {
        let refused = bed.admin.patch(&path(), &json!([first, operation])).await;
        assert_eq!(refused.code, code, "{operation}: {}", refused.body);
    }
    assert_eq!(bed.admin.patch(&path(), &json!({"op": "test"})).await.code, 400, "no list");
    assert_eq!(bed.admin.get(&path()).await.ok(), made);
    assert_eq!(bed.admin.patch(&format!("{GADGETS}/none"), &json!([first])).await.code, 404);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_test_sees_the_object_as_it_is_written() {
    let bed = Bed::with_gadgets().await;
    let admin: Arc<OnceLock<Client>> = Arc::new(OnceLock::new());
    let (client, runtime, calls) = (Arc::clone(&admin), Handle::current(), AtomicUsize::new(0));
    let hook = Hook::start(move |_| {
        // Another client writes while the first review is in progress.
        if calls.fetch_add(1, Ordering::SeqCst) == 0 {
            let status = json!({"status": {"faster": true}});
            runtime.block_on(client.get().unwrap().merge(&format!("{GADGETS}/a/status"), &status)).ok();
        }
        json!({"allowed": true})
    })
    .await;
    admin.set(bed.admin.clone()).ok();
    let made = bed.admin.create(GADGETS, &gadget("a", "x")).await.ok();
    let updates =
        json!({"apiGroups": ["example.com"], "apiVersions": ["*"], "resources": ["gadgets"], "operations": ["UPDATE"]});
    bed.admin.create(CONFIGURATIONS, &hook.configuration(&updates)).await.ok();
    let version = &made["metadata"]["resourceVersion"];
    let guarded = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": "/spec/owner", "value": "changed"},
    ]);
    assert_eq!(bed.admin.patch(&path(), &guarded).await.code, 422);
    assert_eq!(bed.admin.get(&path()).await.ok()["spec"]["owner"], "x");
    bed.admin.patch(&path(), &json!([{"op": "replace", "path": "/spec/owner", "value": "changed"}])).await.ok();
    bed.testbed.stop().await;
}

#[tokio::test]
async fn owners_are_kept_apart_by_their_uid_and_named_in_full() {
    let bed = Bed::with_gadgets().await;
    let one = bed.admin.create(GADGETS, &gadget("one", "x")).await.ok();
    let two = bed.admin.create(GADGETS, &gadget("two", "x")).await.ok();
    bed.admin.create(GADGETS, &gadget("a", "x")).await.ok();
    let applied = |owners: Value| json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a", "ownerReferences": owners}});
    bed.admin.apply(&path(), "first", &applied(json!([owner(&one)]))).await.ok();
    let both = bed.admin.apply(&path(), "second", &applied(json!([owner(&two)]))).await.ok();
    assert_eq!(both["metadata"]["ownerReferences"], json!([owner(&one), owner(&two)]));
    let left = bed.admin.apply(&path(), "first", &applied(json!([]))).await.ok();
    assert_eq!(left["metadata"]["ownerReferences"], json!([owner(&two)]));

    let add = |reference: &Value| json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": reference}]);
    let mut nobodys = owner(&one);
    nobodys["uid"] = json!("");
    let refused = bed.admin.patch(&path(), &add(&nobodys)).await;
    let field = &refused.body["details"]["causes"][0]["field"];
    assert_eq!((refused.code, field), (422, &json!("metadata.ownerReferences.uid")));
    let mut controlling = [owner(&one), owner(&two)];
    controlling.iter_mut().for_each(|reference| reference["controller"] = json!(true));
    let refused = bed.admin.merge(&path(), &json!({"metadata": {"ownerReferences": controlling}})).await;
    assert_eq!((refused.code, refused.message().contains("Gadget/one and Gadget/two")), (422, true));
    bed.testbed.stop().await;
}
