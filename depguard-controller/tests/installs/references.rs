//! Configuration that has the references of dependents reviewed, beside the one about deletions.

use std::time::Duration;

use depguard_controller::Controller;
use depguard_kcp::Preconditions;
use depguard_testbed::{Fault, When};
use serde_json::{Value, json};

use crate::bed::{Bed, COMPUTE, NETWORK, REFERENCES, RULES, local_rule, rule, until};
use crate::removal::{removed, uninstalled};

/// Returns a rule that looks for its targets.
fn looking(mut rule: Value) -> Value {
    rule["spec"]["dependencies"][0]["onMissing"] = json!("Deny");
    rule
}

/// Waits until the configuration is there, or is not. Returns its webhooks.
async fn until_there(bed: &Bed, workspace: &str, there: bool) -> Option<Value> {
    until("the configuration is as expected", async || {
        let found = bed.found(workspace, REFERENCES).await.map(|found| found["webhooks"].clone());
        if found.is_some() == there { Ok(found) } else { Err(format!("{found:?}")) }
    })
    .await
}

#[tokio::test]
async fn references_are_reviewed_while_a_rule_looks_for_targets() {
    let bed = Bed::kubernetes().await;
    bed.own_namespace("").await;
    bed.at("").post_json(RULES, &local_rule("pods", "", "v1", "configmaps")).await.unwrap();
    let controller = Controller::start(bed.config().resync(Duration::from_secs(1))).await.unwrap();
    bed.until_installed("", &["configmaps"]).await;
    assert_eq!(bed.found("", REFERENCES).await, None);

    let path = format!("{RULES}/pods");
    bed.edit("", &path, |rule| rule["spec"]["dependencies"][0]["onMissing"] = json!("Deny")).await;
    let webhooks = until_there(&bed, "", true).await.unwrap();
    assert_eq!(webhooks[0]["clientConfig"], json!({"url": "https://127.0.0.1:9443/reference"}));
    assert_eq!(webhooks[0]["rules"][0]["resources"], json!(["pods"]));
    assert_eq!(webhooks[0]["namespaceSelector"]["matchExpressions"][0]["values"], json!(["depguard-system"]));
    bed.until_condition("", "pods", "Programmed", "True Programmed").await;

    bed.edit("", REFERENCES, |found| {
        found["webhooks"][0]["matchConditions"] = json!([{"name": "never", "expression": "false"}]);
    })
    .await;
    until("what somebody narrowed is as before", async || {
        let found = bed.found("", REFERENCES).await.unwrap_or_default();
        if found["webhooks"] == webhooks { Ok(()) } else { Err(found.to_string()) }
    })
    .await;

    bed.edit("", &path, |rule| _ = rule["spec"]["dependencies"][0].as_object_mut().unwrap().remove("onMissing")).await;
    until_there(&bed, "", false).await;
    assert!(bed.configuration("").await.is_some(), "deletions are still reviewed");
    controller.stop().await;
}

#[tokio::test]
async fn a_rule_whose_references_nobody_reviews_is_not_in_force() {
    let bed = Bed::kcp_bound().await;
    bed.at(COMPUTE).post_json(RULES, &looking(rule("vm", &["vpcs"]))).await.unwrap();
    let controller = bed.controller().await;
    let webhooks = until_there(&bed, COMPUTE, true).await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    assert_eq!(bed.found(NETWORK, REFERENCES).await, None);
    let said = bed.until_condition(COMPUTE, "vm", "Programmed", "True Programmed").await;
    assert_eq!(said, format!("installed in workspace {COMPUTE}, workspace {NETWORK}"));

    let faults = bed.testbed.faults();
    let creations = When::always().method("POST").path("validatingwebhookconfigurations");
    let fault = faults.inject(Fault::InternalError, creations);
    bed.at(COMPUTE).delete(REFERENCES, Preconditions::default()).await.unwrap();
    bed.until_condition(COMPUTE, "vm", "Programmed", "False ApplyFailed").await;
    bed.until_condition(COMPUTE, "vm", "Enforced", "False NotProgrammed").await;
    faults.clear(fault);
    assert_eq!(until_there(&bed, COMPUTE, true).await, webhooks);
    bed.until_condition(COMPUTE, "vm", "Programmed", "True Programmed").await;
    controller.stop().await;
}

#[tokio::test]
async fn somebody_elses_configuration_of_this_name_is_left_alone() {
    let bed = Bed::kcp_bound().await;
    let mut foreign = crate::takeover::configuration(&["mine.example.com"]);
    foreign["metadata"]["name"] = json!("dependency-references");
    bed.put_configuration(COMPUTE, &foreign).await;
    bed.at(COMPUTE).post_json(RULES, &looking(rule("vm", &["vpcs"]))).await.unwrap();
    let controller = bed.controller().await;
    let said = bed.until_condition(COMPUTE, "vm", "Programmed", "False ForeignConfiguration").await;
    assert!(
        said.starts_with("ValidatingWebhookConfiguration dependency-references in workspace root:compute"),
        "{said}"
    );
    bed.edit(COMPUTE, REFERENCES, |found| {
        found["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "depguard"});
    })
    .await;
    bed.until_condition(COMPUTE, "vm", "Programmed", "True Programmed").await;
    controller.stop().await;
}

/// An older version's account may neither see nor write it.
#[tokio::test]
async fn without_the_right_to_it_only_the_rules_that_need_it_say_so() {
    let bed = Bed::kubernetes().await;
    bed.testbed.faults().inject(Fault::Forbidden, When::always().path("dependency-references"));
    bed.at("").post_json(RULES, &local_rule("old", "", "v1", "configmaps")).await.unwrap();
    bed.at("").post_json(RULES, &looking(local_rule("new", "", "v1", "configmaps"))).await.unwrap();
    let controller = bed.controller().await;
    bed.until_condition("", "old", "Programmed", "True Programmed").await;
    bed.until_condition("", "new", "Programmed", "False ApplyFailed").await;
    controller.stop().await;
}

#[tokio::test]
async fn an_uninstall_removes_both() {
    for (bed, workspace) in [(Bed::kubernetes().await, ""), (Bed::kcp_bound().await, COMPUTE)] {
        let own = if workspace.is_empty() { "" } else { "root:dep-ctrl" };
        bed.own_namespace(own).await;
        let rule = if workspace.is_empty() { local_rule("vm", "", "v1", "configmaps") } else { rule("vm", &["vpcs"]) };
        bed.at(workspace).post_json(RULES, &looking(rule)).await.unwrap();
        let controller = bed.controller().await;
        bed.until_condition(workspace, "vm", "Programmed", "True Programmed").await;
        controller.stop().await;
        let done = uninstalled(&bed, 60).await.unwrap();
        let removed: Vec<_> = removed(&done).into_iter().map(|removed| removed.configuration).collect();
        assert_eq!(removed, ["dependency-controller", "dependency-references"]);
        until_there(&bed, workspace, false).await;
    }
}
