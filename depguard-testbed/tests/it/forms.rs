//! Tests of metadata lists and tables, against the answers of a kube-apiserver 1.36.

use serde_json::{Value, json};

use crate::bed::Bed;
use crate::fixtures::CRDS;
use crate::plain::{GADGETS, gadget, gadgets};

const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// Returns a testbed with gadgets whose schema prints columns.
async fn with_columns() -> Bed {
    let bed = Bed::kubernetes().await;
    let mut crd = gadgets();
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "Owner", "type": "string", "jsonPath": ".spec.owner"},
        {"name": "Count", "type": "integer", "jsonPath": ".spec.count", "priority": 1},
        {"name": "Described", "type": "string", "description": "words", "jsonPath": ".spec.owner"},
        {"name": "All", "type": "string", "jsonPath": ".spec.list[*].name"},
        {"name": "Flag", "type": "boolean", "jsonPath": ".spec.flag"},
        {"name": "When", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    bed.admin.create(CRDS, &crd).await.ok();
    let mut full = gadget("a", "x");
    full["spec"] = json!({"owner": "x", "count": 3, "list": [{"name": "l1"}, {"name": "l2"}], "flag": true});
    bed.admin.create(GADGETS, &full).await.ok();
    let mut odd = gadget("b", "");
    odd["spec"] = json!({"owner": 7, "count": "x", "flag": "maybe"});
    bed.admin.create(GADGETS, &odd).await.ok();
    bed
}

#[tokio::test]
async fn a_list_of_metadata_has_nothing_else() {
    let bed = with_columns().await;
    let list = bed.admin.get_as(&format!("{GADGETS}?limit=1"), METADATA).await.ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1")));
    let item = list["items"][0].as_object().unwrap();
    assert_eq!(item.keys().collect::<Vec<_>>(), ["apiVersion", "kind", "metadata"]);
    assert_eq!((&item["kind"], &item["metadata"]["name"]), (&json!("PartialObjectMetadata"), &json!("a")));
    assert_eq!(list["metadata"]["remainingItemCount"], 1);
    let next = format!("{GADGETS}?limit=1&continue={}", list["metadata"]["continue"].as_str().unwrap());
    let last = bed.admin.get_as(&next, METADATA).await;
    assert_eq!(last.names(), ["b"]);
    assert_eq!(last.body["metadata"].get("continue"), None, "left out at the end");
    let none = bed.admin.get_as(&format!("{GADGETS}?fieldSelector=metadata.name%3Dc"), METADATA).await.ok();
    assert_eq!(none["items"], Value::Null);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_table_shows_the_columns_of_the_schema() {
    let bed = with_columns().await;
    let table = bed.admin.get_as(&format!("{GADGETS}?includeObject=None"), TABLE).await.ok();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    let columns: Vec<(&str, &str)> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| (column["name"].as_str().unwrap(), column["description"].as_str().unwrap()))
        .collect();
    assert_eq!(
        columns[1..5],
        [
            ("Owner", "Custom resource definition column (in JSONPath format): .spec.owner"),
            ("Count", "Custom resource definition column (in JSONPath format): .spec.count"),
            ("Described", "words"),
            ("All", "Custom resource definition column (in JSONPath format): .spec.list[*].name"),
        ]
    );
    assert_eq!(table["columnDefinitions"][0]["format"], "name");
    let cells = |row: usize| table["rows"][row]["cells"].as_array().unwrap()[..6].to_vec();
    assert_eq!(cells(0), ["a".into(), "x".into(), 3.into(), "x".into(), "l1".into(), Value::from(true)]);
    assert_eq!(cells(1), ["b".into(), "7".into(), Value::Null, "7".into(), Value::Null, Value::Null]);
    assert_eq!(table["rows"][0]["object"], Value::Null);
    assert!(table["metadata"]["resourceVersion"].is_string());
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_table_carries_what_it_is_asked_to() {
    let bed = with_columns().await;
    for (include, kind) in [
        ("", "PartialObjectMetadata"),
        ("?includeObject=Metadata", "PartialObjectMetadata"),
        ("?includeObject=Object", "Gadget"),
    ] {
        let table = bed.admin.get_as(&format!("{GADGETS}{include}"), TABLE).await.ok();
        assert_eq!(table["rows"][0]["object"]["kind"], kind, "{include}");
        assert_eq!(table["rows"][0]["object"]["metadata"]["name"], "a");
    }
    assert_eq!(bed.admin.get_as(&format!("{GADGETS}?includeObject=Other"), TABLE).await.code, 400);
    let without = bed.admin.get_as("/apis/example.com/v1beta1/namespaces/default/gadgets", TABLE).await.ok();
    assert_eq!(without["columnDefinitions"][1]["name"], "Age", "a version without columns");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn the_first_form_that_is_served_is_taken() {
    let bed = with_columns().await;
    for (accept, kind) in [
        ("application/json", "GadgetList"),
        ("*/*", "GadgetList"),
        ("application/json;as=Table;g=meta.k8s.io;v=v1beta9,application/json", "GadgetList"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io, application/json", "Table"),
        (
            "application/vnd.kubernetes.protobuf, application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            "PartialObjectMetadataList",
        ),
    ] {
        assert_eq!(bed.admin.get_as(GADGETS, accept).await.ok()["kind"], kind, "{accept}");
    }
    let refused = bed.admin.get_as(GADGETS, "application/json;as=Nonsense;g=meta.k8s.io;v=v1").await;
    assert_eq!((refused.code, &refused.body["reason"]), (406, &json!("NotAcceptable")));
    bed.testbed.stop().await;
}
