//! Tests of the changes that a webhook's rules and selectors select.

use serde_json::{Value, json};

use crate::bed::Bed;
use crate::fixtures::CONFIGURATIONS;
use crate::hook::Hook;
use crate::plain::{GADGETS, gadget};

const OLDER: &str = "/apis/example.com/v1beta1/namespaces/default/gadgets";

fn rule(versions: &[&str], resources: &[&str], operations: &[&str]) -> Value {
    json!({"apiGroups": ["example.com"], "apiVersions": versions, "resources": resources, "operations": operations})
}

async fn set(bed: &Bed, hook: &Hook, rule: &Value, more: &[(&str, Value)]) {
    bed.admin.delete(&format!("{CONFIGURATIONS}/guard")).await;
    let mut configuration = hook.configuration(rule);
    for (field, value) in more {
        configuration["webhooks"][0][*field] = value.clone();
    }
    bed.admin.create(CONFIGURATIONS, &configuration).await.ok();
}

/// Returns the number of calls that a dry-run DELETE of gadget `a` makes, in `v1` and in `v1beta1`.
async fn calls_of_deletes(bed: &Bed, hook: &Hook) -> (usize, usize) {
    let before = hook.calls().len();
    bed.admin.delete(&format!("{GADGETS}/a?dryRun=All")).await.ok();
    let between = hook.calls().len();
    bed.admin.delete(&format!("{OLDER}/a?dryRun=All")).await.ok();
    (between - before, hook.calls().len() - between)
}

#[tokio::test]
async fn rules_match_by_group_version_resource_and_operation() {
    let bed = Bed::with_gadgets().await;
    let hook = Hook::allowing().await;
    bed.admin.create(GADGETS, &gadget("a", "x")).await.ok();
    let all: &[&str] = &["*"];
    for (rule, expected) in [
        (rule(all, all, all), (1, 1)),
        (rule(&["v1"], &["gadgets"], &["DELETE"]), (1, 1)),
        (rule(all, &["gadgets"], &["CREATE", "UPDATE"]), (0, 0)),
        (rule(all, &["gadgets/status"], all), (0, 0)),
        (rule(all, &["others"], all), (0, 0)),
        (
            json!({"apiGroups": ["*"], "apiVersions": all, "resources": all, "operations": all, "scope": "Cluster"}),
            (0, 0),
        ),
        (json!({"apiGroups": [""], "apiVersions": all, "resources": all, "operations": all}), (0, 0)),
    ] {
        set(&bed, &hook, &rule, &[]).await;
        assert_eq!(calls_of_deletes(&bed, &hook).await, expected, "{rule}");
    }
    set(&bed, &hook, &rule(&["v1"], &["gadgets"], all), &[("matchPolicy", json!("Exact"))]).await;
    assert_eq!(calls_of_deletes(&bed, &hook).await, (1, 0));
    bed.testbed.stop().await;
}

#[tokio::test]
async fn an_equivalent_version_is_shown_in_the_version_asked_for() {
    let bed = Bed::with_gadgets().await;
    let hook = Hook::allowing().await;
    bed.admin.create(GADGETS, &gadget("a", "x")).await.ok();
    set(&bed, &hook, &rule(&["v1"], &["gadgets"], &["DELETE"]), &[]).await;
    bed.admin.delete(&format!("{OLDER}/a")).await.ok();
    let request = &hook.calls()[0].request;
    assert_eq!(
        (&request["resource"]["version"], &request["requestResource"]["version"]),
        (&json!("v1"), &json!("v1beta1"))
    );
    assert_eq!(request["oldObject"]["apiVersion"], "example.com/v1");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn selectors_pick_objects_and_namespaces() {
    let bed = Bed::with_gadgets().await;
    let hook = Hook::allowing().await;
    let mut labelled = gadget("a", "x");
    labelled["metadata"]["labels"] = json!({"tier": "prod"});
    bed.admin.create(GADGETS, &labelled).await.ok();
    let all = rule(&["*"], &["gadgets"], &["DELETE"]);
    let labels = |name: &str, value: &str| json!({"matchLabels": {name: value}});
    for (field, selector, expected) in [
        ("objectSelector", json!({}), (1, 1)),
        ("objectSelector", labels("tier", "prod"), (1, 1)),
        ("objectSelector", labels("tier", "dev"), (0, 0)),
        ("namespaceSelector", labels("kubernetes.io/metadata.name", "default"), (1, 1)),
        ("namespaceSelector", labels("kubernetes.io/metadata.name", "other"), (0, 0)),
        ("namespaceSelector", json!({"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}), (1, 1)),
    ] {
        set(&bed, &hook, &all, &[(field, selector.clone())]).await;
        assert_eq!(calls_of_deletes(&bed, &hook).await, expected, "{field}: {selector}");
    }
    bed.testbed.stop().await;
}

#[tokio::test]
async fn creates_updates_and_status_are_reviewed_where_they_are_asked_for() {
    let bed = Bed::with_gadgets().await;
    let hook = Hook::start(|request| json!({"allowed": request["object"]["spec"]["owner"] != "nobody"})).await;
    set(&bed, &hook, &rule(&["*"], &["gadgets", "gadgets/status"], &["CREATE", "UPDATE"]), &[]).await;
    assert_eq!(bed.admin.create(GADGETS, &gadget("a", "nobody")).await.code, 400);
    assert_eq!(bed.admin.get(GADGETS).await.names(), [""; 0]);
    bed.admin.create(GADGETS, &gadget("a", "x")).await.ok();
    let path = format!("{GADGETS}/a");
    assert_eq!(bed.admin.merge(&path, &json!({"spec": {"owner": "nobody"}})).await.code, 400);
    assert_eq!(bed.admin.get(&path).await.ok()["spec"]["owner"], "x");
    bed.admin.merge(&format!("{path}/status"), &json!({"status": {"ready": true}})).await.ok();

    let calls = hook.calls();
    let told: Vec<_> = calls.iter().map(|call| (&call.request["operation"], call.request.get("subResource"))).collect();
    let (create, update, status) = (json!("CREATE"), json!("UPDATE"), json!("status"));
    assert_eq!(told, [(&create, None), (&create, None), (&update, None), (&update, Some(&status))]);
    assert_eq!(calls[1].request["oldObject"], json!(null));
    assert_eq!(calls[2].request["oldObject"]["spec"]["owner"], "x");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn nobody_can_lock_the_configurations() {
    let bed = Bed::kubernetes().await;
    let hook = Hook::denying().await;
    let everything = json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]});
    bed.admin.create(CONFIGURATIONS, &hook.configuration(&everything)).await.ok();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(bed.admin.create("/api/v1/namespaces/default/configmaps", &map).await.code, 403);
    bed.admin.delete(&format!("{CONFIGURATIONS}/guard")).await.ok();
    bed.admin.create("/api/v1/namespaces/default/configmaps", &map).await.ok();
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_dry_run_is_refused_where_the_webhook_has_side_effects() {
    let bed = Bed::with_gadgets().await;
    let hook = Hook::allowing().await;
    bed.admin.create(GADGETS, &gadget("a", "x")).await.ok();
    set(&bed, &hook, &rule(&["*"], &["gadgets"], &["DELETE"]), &[("sideEffects", json!("Some"))]).await;
    assert_eq!(bed.admin.delete(&format!("{GADGETS}/a?dryRun=All")).await.code, 400);
    assert!(hook.calls().is_empty());
    bed.admin.delete(&format!("{GADGETS}/a")).await.ok();
    bed.testbed.stop().await;
}
