//! Tests of create, update, patch and apply.

use serde_json::{Value, json};

use crate::bed::Bed;
use crate::fixtures::{CONFIGURATIONS, CRDS, names};
use crate::plain::{GADGETS, gadget};

#[tokio::test]
async fn a_created_object_gets_what_the_server_gives() {
    let bed = Bed::with_gadgets().await;
    let made = bed.admin.create(GADGETS, &gadget("a", "x")).await.ok();
    let metadata = &made["metadata"];
    assert!(metadata["uid"].is_string() && metadata["resourceVersion"].is_string());
    assert!(metadata["creationTimestamp"].as_str().is_some_and(|time| time.ends_with('Z') && time.len() == 20));
    assert_eq!((&metadata["generation"], &metadata["namespace"]), (&json!(1), &json!("default")));
    let again = bed.admin.create(GADGETS, &gadget("a", "x")).await;
    assert_eq!((again.code, &again.body["reason"]), (409, &json!("AlreadyExists")));
    let mut generated = gadget("", "x");
    generated["metadata"] = json!({"generateName": "made-"});
    let name = bed.admin.create(GADGETS, &generated).await.ok()["metadata"]["name"].clone();
    assert!(name.as_str().is_some_and(|name| name.starts_with("made-") && name.len() == 10), "{name}");
    assert_eq!(bed.admin.create(GADGETS, &gadget("Not_A_Name", "x")).await.code, 422);
    assert_eq!(bed.admin.create(&GADGETS.replace("default", "nowhere"), &gadget("b", "x")).await.code, 404);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn an_update_of_a_stale_revision_is_a_conflict() {
    let bed = Bed::with_gadgets().await;
    let mut made = bed.admin.create(GADGETS, &gadget("a", "x")).await.ok();
    let path = format!("{GADGETS}/a");
    made["spec"]["owner"] = json!("y");
    let updated = bed.admin.replace(&path, &made).await.ok();
    assert_eq!(updated["metadata"]["generation"], 2);
    let stale = bed.admin.replace(&path, &made).await;
    assert_eq!((stale.code, &stale.body["reason"]), (409, &json!("Conflict")));
    let unconditional = bed.admin.replace(&path, &gadget("a", "z")).await;
    assert_eq!(unconditional.code, 422, "custom resources can't be overwritten blindly");
    let unchanged = bed.admin.replace(&path, &updated).await.ok();
    assert_eq!(unchanged["metadata"]["resourceVersion"], updated["metadata"]["resourceVersion"]);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn spec_and_status_are_written_apart() {
    let bed = Bed::with_gadgets().await;
    let mut object = gadget("a", "x");
    object["status"] = json!({"phase": "Made"});
    let made = bed.admin.create(GADGETS, &object).await.ok();
    assert_eq!(made["status"], json!(null));
    let path = format!("{GADGETS}/a");
    let patch = json!({"spec": {"owner": "y"}, "status": {"phase": "Ready"}, "metadata": {"labels": {"a": "b"}}});
    let status = bed.admin.merge(&format!("{path}/status"), &patch).await.ok();
    assert_eq!((&status["status"]["phase"], &status["spec"]["owner"]), (&json!("Ready"), &json!("x")));
    assert_eq!((&status["metadata"]["generation"], &status["metadata"]["labels"]), (&json!(1), &json!(null)));
    let main = bed.admin.merge(&path, &json!({"spec": {"owner": "y"}, "status": {"phase": "Lost"}})).await.ok();
    assert_eq!((&main["status"]["phase"], &main["spec"]["owner"]), (&json!("Ready"), &json!("y")));
    assert_eq!(main["metadata"]["generation"], 2);
    bed.testbed.stop().await;
}

fn configuration(webhooks: &[&str]) -> Value {
    let webhook = |name: &&str| json!({"name": name, "rules": [{"resources": [format!("{name}s")]}]});
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "guard"}, "webhooks": webhooks.iter().map(webhook).collect::<Vec<_>>(),
    })
}

fn webhooks(object: &Value) -> Vec<&str> {
    object["webhooks"].as_array().unwrap().iter().map(|webhook| webhook["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn apply_owns_what_it_applies_and_leaves_what_others_do() {
    let bed = Bed::kubernetes().await;
    let path = format!("{CONFIGURATIONS}/guard");
    let made = bed.admin.apply(&path, "ours", &configuration(&["a", "b"])).await;
    assert_eq!(made.code, 201);
    let again = bed.admin.apply(&path, "ours", &configuration(&["a", "b"])).await.ok();
    assert_eq!(again["metadata"]["resourceVersion"], made.body["metadata"]["resourceVersion"], "nothing changed");

    let mut theirs = configuration(&["c"]);
    theirs["metadata"]["labels"] = json!({"theirs": "yes"});
    let both = bed.admin.apply(&path, "theirs", &theirs).await.ok();
    assert_eq!(webhooks(&both), ["a", "b", "c"]);
    let fewer = bed.admin.apply(&path, "ours", &configuration(&["b"])).await.ok();
    assert_eq!(webhooks(&fewer), ["b", "c"], "what ours no longer names goes, theirs stays");
    assert_eq!(fewer["metadata"]["labels"], json!({"theirs": "yes"}));
    assert_eq!(fewer["webhooks"][0]["failurePolicy"], "Fail", "defaults are written in");
    let mut replaced = configuration(&["b"]);
    replaced["webhooks"][0]["rules"] = json!([{"resources": ["others"], "scope": "*"}]);
    let replaced = bed.admin.apply(&path, "ours", &replaced).await.ok();
    assert_eq!(
        replaced["webhooks"][0]["rules"],
        json!([{"resources": ["others"], "scope": "*"}]),
        "a list is one value"
    );
    bed.testbed.stop().await;
}

#[tokio::test]
async fn an_object_against_its_schema_is_invalid_and_unknown_fields_are_pruned() {
    let bed = Bed::kubernetes().await;
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "required": ["path"],
        "properties": {
            "path": {"type": "string", "minLength": 2, "maxLength": 8, "pattern": "^[.a-z]+$"},
            "mode": {"type": "string", "enum": ["A", "B"], "default": "A"},
            "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    }}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "strict.example.com"},
        "spec": {
            "group": "example.com", "names": names("Strict", "stricts"), "scope": "Cluster",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    bed.admin.create(CRDS, &definition).await.ok();
    let path = "/apis/example.com/v1/stricts";
    let strict = |spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Strict", "metadata": {"name": "a"}, "spec": spec});
    for (spec, field) in [
        (json!({}), "spec.path"),
        (json!({"path": "x"}), "spec.path"),
        (json!({"path": "toolongforit"}), "spec.path"),
        (json!({"path": "UPPER"}), "spec.path"),
        (json!({"path": 7}), "spec.path"),
        (json!({"path": "ok", "mode": "C"}), "spec.mode"),
        (json!({"path": "ok", "list": []}), "spec.list"),
        (json!({"path": "ok", "list": [1, 2, 3]}), "spec.list"),
        (json!({"path": "ok", "list": [1, "x"]}), "spec.list[1]"),
    ] {
        let refused = bed.admin.create(path, &strict(spec)).await;
        let told = (refused.code, &refused.body["reason"], &refused.body["details"]["causes"][0]["field"]);
        assert_eq!(told, (422, &json!("Invalid"), &json!(field)), "{}", refused.body);
    }
    let spec = json!({"path": ".ok", "unknown": 1, "free": {"kept": true}, "list": [1]});
    let made = bed.admin.create(path, &strict(spec)).await.ok();
    assert_eq!(made["spec"], json!({"path": ".ok", "mode": "A", "free": {"kept": true}, "list": [1]}));
    let broken = bed.admin.merge(&format!("{path}/a"), &json!({"spec": {"path": null}})).await;
    assert_eq!(broken.code, 422, "on updates too");
    bed.testbed.stop().await;
}
