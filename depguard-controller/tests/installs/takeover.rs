//! Ownership of a configuration: ours, the reference's, a newer version's, or somebody else's.

use std::time::Duration;

use depguard_controller::Controller;
use serde_json::{Value, json};

use crate::bed::{Bed, COMPUTE, NETWORK, URL, until};

/// Returns a configuration with our configuration's name, as somebody else makes it.
pub(crate) fn configuration(webhooks: &[&str]) -> Value {
    let webhooks = webhooks.iter().map(|name| {
        json!({
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://elsewhere.example.com/validate"},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "rules": [{"apiGroups": ["a.example.com"], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["as"]}],
        })
    });
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "dependency-controller"},
        "webhooks": webhooks.collect::<Vec<_>>(),
    })
}

#[tokio::test]
async fn a_foreign_configuration_is_left_and_reported_until_it_goes() {
    let bed = Bed::kcp_bound().await;
    bed.put_configuration(NETWORK, &configuration(&["mine.example.com"])).await;
    let before = bed.configuration(NETWORK).await.unwrap();
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    let said = bed.until_condition(COMPUTE, "vm", "Programmed", "False ForeignConfiguration").await;
    assert!(said.contains("in workspace root:network is not depguard's and was left alone"), "{said}");
    assert_eq!(bed.configuration(NETWORK).await.unwrap()["webhooks"], before["webhooks"]);

    bed.delete_configuration(NETWORK).await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    bed.until_condition(COMPUTE, "vm", "Programmed", "True Programmed").await;
    controller.stop().await;
}

#[tokio::test]
async fn a_foreign_configuration_outlives_the_last_rule() {
    let bed = Bed::kcp_bound().await;
    bed.put_configuration(NETWORK, &configuration(&["mine.example.com"])).await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    bed.until_condition(COMPUTE, "vm", "Programmed", "False ForeignConfiguration").await;
    bed.delete_rule(COMPUTE, "vm").await;
    bed.rule("other", &[]).await;
    bed.until_condition(COMPUTE, "other", "Programmed", "True Programmed").await;
    assert!(bed.configuration(NETWORK).await.is_some());
    controller.stop().await;
}

#[tokio::test]
async fn the_reference_s_own_configuration_is_taken_over() {
    let bed = Bed::kcp_bound().await;
    let own = "dependency-controller.dependencies.opendefense.cloud";
    bed.put_configuration(NETWORK, &configuration(&[own])).await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    let found = bed.configuration(NETWORK).await.unwrap();
    assert_eq!(found["webhooks"][0]["clientConfig"]["url"], URL);
    assert_eq!(found["metadata"]["labels"]["app.kubernetes.io/managed-by"], "depguard");

    // A webhook that somebody adds to it is removed again.
    let extra = configuration(&["extra.example.com"])["webhooks"][0].clone();
    bed.edit_configuration(NETWORK, |found| found["webhooks"].as_array_mut().unwrap().push(extra.clone())).await;
    until("there is one webhook again", async || {
        let webhooks = bed.configuration(NETWORK).await.unwrap_or_default()["webhooks"].clone();
        if webhooks.as_array().is_some_and(|webhooks| webhooks.len() == 1) { Ok(()) } else { Err(webhooks.to_string()) }
    })
    .await;
    controller.stop().await;
}

/// Makes the configuration claim that a newer version wrote it.
fn from_a_newer_version(found: &mut Value) {
    found["metadata"]["annotations"]["dependencies.opendefense.cloud/configuration-revision"] = json!("4000000");
}

#[tokio::test]
async fn what_says_to_be_newer_counts_only_where_it_lacks_nothing_and_only_for_a_while() {
    let bed = Bed::kcp_bound().await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    bed.until_condition(COMPUTE, "vm", "Programmed", "True Programmed").await;
    bed.edit_configuration(NETWORK, from_a_newer_version).await;
    bed.until_condition(COMPUTE, "vm", "Programmed", "True NewerConfiguration").await;
    // The webhook is asked about nothing any more.
    bed.edit_configuration(NETWORK, |found| {
        found["webhooks"][0]["objectSelector"] = json!({"matchLabels": {"never": "never"}});
    })
    .await;
    let said = bed.until_condition(COMPUTE, "vm", "Programmed", "False NewerConfiguration").await;
    assert!(said.contains("it lacks something"), "{said}");
    bed.until_condition(COMPUTE, "vm", "Enforced", "False NotProgrammed").await;
    controller.stop().await;

    let controller = Controller::start(bed.config().deference(Duration::from_millis(100))).await.unwrap();
    bed.until_condition(COMPUTE, "vm", "Programmed", "True Programmed").await;
    let found = bed.configuration(NETWORK).await.unwrap();
    assert_eq!(found["webhooks"][0]["objectSelector"], json!({}));
    // A configuration that lacks nothing is not left for longer either.
    bed.edit_configuration(NETWORK, from_a_newer_version).await;
    until("it is of this version again", async || {
        let revision = bed.configuration(NETWORK).await.unwrap_or_default()["metadata"]["annotations"].clone();
        if revision.to_string().contains("4000000") { Err(revision.to_string()) } else { Ok(()) }
    })
    .await;
    controller.stop().await;
}
