//! Tests of an export's rights on claimed kinds.

use serde_json::{Value, json};

use crate::bed::Bed;
use crate::fixtures::{BINDINGS, CONFIGURATIONS, accepted, bind, claim, provide, schema, workspace};

const GUARD: &str = "guard.example.com";
const WEBHOOKS: [&str; 2] = ["admissionregistration.k8s.io", "validatingwebhookconfigurations"];

/// Creates an export that claims webhook configurations. `root:network` binds it and accepts `claims`.
async fn bound(bed: &Bed, claims: &Value) -> (String, String) {
    let home = workspace(bed, "root", "guard").await;
    let provider = workspace(bed, "root", "network").await;
    let schemas = [schema(GUARD, "Rule", "rules", "Cluster")];
    let asked = json!([claim(WEBHOOKS[0], WEBHOOKS[1], &["get", "list", "watch", "create", "delete", "patch"])]);
    provide(&bed.admin.cluster("root:guard"), GUARD, &schemas, &asked).await;
    bind(&bed.admin.cluster("root:network"), "guard", "root:guard", GUARD, claims).await;
    (format!("/services/apiexport/{home}/{GUARD}/clusters"), provider)
}

fn configuration() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "guard"}, "webhooks": [],
    })
}

#[tokio::test]
async fn an_accepted_claim_lets_the_export_write_there() {
    let bed = Bed::kcp().await;
    let (view, provider) = bound(&bed, &json!([accepted(WEBHOOKS[0], WEBHOOKS[1], &["*"])])).await;
    let there = bed.admin.below(&format!("{view}/{provider}"));
    there.apply(&format!("{CONFIGURATIONS}/guard"), "test", &configuration()).await.ok();
    bed.admin.cluster("root:network").get(&format!("{CONFIGURATIONS}/guard")).await.ok();
    let everywhere = bed.admin.below(&format!("{view}/*"));
    assert_eq!(everywhere.get(CONFIGURATIONS).await.names(), ["guard"]);
    let by_name = format!("{CONFIGURATIONS}?fieldSelector=metadata.name%3Dguard");
    assert_eq!(there.get(&by_name).await.names(), ["guard"]);
    let nothing = everywhere.get(&by_name).await.ok();
    assert_eq!(nothing["items"], json!([]), "by name, nothing is found over all clusters");
    assert!(nothing["metadata"]["resourceVersion"].is_string());
    let watched = everywhere.get(&format!("{by_name}&watch=true&timeoutSeconds=1")).await;
    assert_eq!((watched.code, watched.text.as_str()), (200, ""));
    assert_eq!(there.get("/api/v1/configmaps").await.code, 403, "not claimed");

    let refused = bed.admin.below(&format!("{view}/*")).create(CONFIGURATIONS, &configuration()).await;
    assert!((400..500).contains(&refused.code), "no write through the wildcard: {}", refused.code);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_claim_that_was_not_accepted_is_forbidden() {
    let bed = Bed::kcp().await;
    let (view, provider) = bound(&bed, &json!([])).await;
    bed.admin.cluster("root:network").create(CONFIGURATIONS, &configuration()).await.ok();
    let there = bed.admin.below(&format!("{view}/{provider}"));
    assert_eq!(there.get(CONFIGURATIONS).await.code, 403);
    assert_eq!(bed.admin.below(&format!("{view}/*")).get(CONFIGURATIONS).await.names(), [""; 0]);
    // The export's own bindings are visible all the same, but not writable.
    let binding = there.get(&format!("{BINDINGS}/guard")).await.ok();
    assert_eq!(binding["metadata"]["annotations"]["kcp.io/path"], "root:network");
    assert_eq!(there.delete(&format!("{BINDINGS}/guard")).await.code, 403);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn verbs_are_those_that_both_sides_name() {
    let bed = Bed::kcp().await;
    let (view, provider) = bound(&bed, &json!([accepted(WEBHOOKS[0], WEBHOOKS[1], &["get", "list", "update"])])).await;
    let there = bed.admin.below(&format!("{view}/{provider}"));
    there.get(CONFIGURATIONS).await.ok();
    assert_eq!(there.create(CONFIGURATIONS, &configuration()).await.code, 403, "asked for, not granted");
    let path = format!("{CONFIGURATIONS}/guard");
    bed.admin.cluster("root:network").create(CONFIGURATIONS, &configuration()).await.ok();
    assert_eq!(there.replace(&path, &configuration()).await.code, 403, "granted, not asked for");
    bed.testbed.stop().await;
}
