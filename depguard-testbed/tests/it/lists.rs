//! Tests of lists: selectors, and pages at one revision.

use serde_json::json;

use crate::bed::{Bed, eventually};
use crate::fixtures::CRDS;
use crate::plain::{GADGETS, gadget};

#[tokio::test]
async fn pages_show_the_revision_of_the_first() {
    let bed = Bed::with_gadgets().await;
    for name in ["a", "b", "c", "d"] {
        bed.admin.create(GADGETS, &gadget(name, "x")).await.ok();
    }
    let first = bed.admin.get(&format!("{GADGETS}?limit=2")).await;
    assert_eq!((first.names(), &first.body["kind"]), (vec!["a", "b"], &json!("GadgetList")));
    let metadata = &first.body["metadata"];
    assert_eq!(metadata["remainingItemCount"], 2);
    bed.admin.delete(&format!("{GADGETS}/c")).await.ok();
    bed.admin.create(GADGETS, &gadget("e", "x")).await.ok();

    let token = metadata["continue"].as_str().unwrap();
    let last = bed.admin.get(&format!("{GADGETS}?limit=2&continue={token}")).await;
    assert_eq!(last.names(), ["c", "d"], "as it was");
    assert_eq!(last.body["metadata"]["resourceVersion"], metadata["resourceVersion"]);
    assert_eq!(last.body["metadata"]["continue"], "", "the end");
    assert_eq!(bed.admin.get(GADGETS).await.names(), ["a", "b", "d", "e"]);
    assert_eq!(bed.admin.get(&format!("{GADGETS}?continue=nonsense")).await.code, 400);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_token_or_a_watch_older_than_the_history_is_expired() {
    let bed = Bed::with_gadgets().await;
    for name in ["a", "b"] {
        bed.admin.create(GADGETS, &gadget(name, "x")).await.ok();
    }
    let page = bed.admin.get(&format!("{GADGETS}?limit=1")).await.ok();
    let (token, revision) = (&page["metadata"]["continue"], &page["metadata"]["resourceVersion"]);
    let (token, revision) = (token.as_str().unwrap(), revision.as_str().unwrap());
    // There are more changes than the store keeps. They run concurrently, because it would take long otherwise.
    let changes = (0..4_500).map(|count| {
        let admin = bed.admin.clone();
        async move {
            let patch = json!({"spec": {"count": count}});
            admin.merge(&format!("{GADGETS}/a"), &patch).await.ok();
        }
    });
    futures::StreamExt::collect::<Vec<()>>(futures::StreamExt::buffer_unordered(futures::stream::iter(changes), 16))
        .await;

    let expired = bed.admin.get(&format!("{GADGETS}?limit=1&continue={token}")).await;
    assert_eq!((expired.code, &expired.body["reason"]), (410, &json!("Expired")));
    let mut watch = bed.admin.watch(&format!("{GADGETS}?watch=true&resourceVersion={revision}")).await;
    let (kind, status) = watch.next_any().await.unwrap();
    assert_eq!((kind.as_str(), &status["code"], &status["reason"]), ("ERROR", &json!(410), &json!("Expired")));
    assert!(watch.next_any().await.is_none());
    bed.testbed.stop().await;
}

#[tokio::test]
async fn field_selectors_are_those_the_schema_declares() {
    let bed = Bed::with_gadgets().await;
    for (name, owner) in [("a", "x"), ("b", "y,z"), ("c", "x")] {
        bed.admin.create(GADGETS, &gadget(name, owner)).await.ok();
    }
    for (selector, expected) in [
        ("spec.owner%3Dx", vec!["a", "c"]),
        ("spec.owner!%3Dx", vec!["b"]),
        ("spec.owner%3Dy%5C%2Cz", vec!["b"]),
        ("spec.owner%3Dx,metadata.name%3Dc", vec!["c"]),
        ("metadata.namespace%3Dother", vec![]),
    ] {
        let list = bed.admin.get(&format!("{GADGETS}?fieldSelector={selector}")).await;
        assert_eq!(list.names(), expected, "{selector}");
    }
    let refused = bed.admin.get(&format!("{GADGETS}?fieldSelector=spec.other%3Da")).await;
    assert_eq!((refused.code, refused.message()), (400, "field label not supported: spec.other"));
    bed.testbed.stop().await;
}

#[tokio::test]
async fn label_selectors_select() {
    let bed = Bed::with_gadgets().await;
    for (name, labels) in [("a", json!({"tier": "prod"})), ("b", json!({"tier": "dev", "old": ""})), ("c", json!({}))] {
        let mut labelled = gadget(name, "x");
        labelled["metadata"]["labels"] = labels;
        bed.admin.create(GADGETS, &labelled).await.ok();
    }
    for (selector, expected) in [
        ("tier%3Dprod", vec!["a"]),
        ("tier!%3Dprod", vec!["b", "c"]),
        ("tier%20in%20(prod,dev),!old", vec!["a"]),
        ("tier%20notin%20(prod)", vec!["b", "c"]),
        ("old", vec!["b"]),
    ] {
        let list = bed.admin.get(&format!("{GADGETS}?labelSelector={selector}")).await;
        assert_eq!(list.names(), expected, "{selector}");
    }
    assert_eq!(bed.admin.get(&format!("{GADGETS}?labelSelector=a%20b")).await.code, 400);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn every_list_says_its_revision_and_what_it_lists() {
    let bed = Bed::with_gadgets().await;
    let path = format!("{CRDS}/gadgets.example.com");
    eventually("the CRD is settled", || async {
        let settled = bed.admin.get(&path).await.body["status"]["storedVersions"] == json!(["v1"]);
        settled.then_some(())
    })
    .await;
    let anywhere = bed.admin.get("/apis/example.com/v1/gadgets").await.ok();
    assert_eq!((&anywhere["kind"], &anywhere["apiVersion"]), (&json!("GadgetList"), &json!("example.com/v1")));
    assert!(anywhere["metadata"]["resourceVersion"].is_string());
    let namespaces = bed.admin.get("/api/v1/namespaces").await.ok();
    assert_eq!(namespaces["kind"], "NamespaceList");
    assert!(namespaces["items"][0].get("kind").is_none(), "as kinds that are compiled in are listed");
    bed.testbed.stop().await;
}
