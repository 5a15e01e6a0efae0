//! Tests of the webhooks that are called, of the reviews that they see, and of the effects of their answers.

use serde_json::json;

use crate::bed::Bed;
use crate::fixtures::{CONFIGURATIONS, NETWORK, Network, VPCS, vpc};
use crate::hook::{Hook, deletes};

#[tokio::test]
async fn a_delete_of_a_bound_object_is_reviewed_where_its_export_lies() {
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    let hook = Hook::denying().await;
    network.tenant.create(VPCS, &vpc("a")).await.ok();
    let configuration = hook.configuration(&deletes(NETWORK, "vpcs"));

    // A configuration in the consumer's own workspace has no effect.
    network.tenant.create(CONFIGURATIONS, &configuration).await.ok();
    network.tenant.delete(&format!("{VPCS}/a")).await.ok();
    assert!(hook.calls().is_empty());

    network.tenant.create(VPCS, &vpc("a")).await.ok();
    network.provider.create(CONFIGURATIONS, &configuration).await.ok();
    let denied = network.tenant.as_user("alice").delete(&format!("{VPCS}/a")).await;
    assert_eq!(denied.code, 403);
    assert_eq!(denied.message(), "admission webhook \"guard.example.com\" denied the request: still referenced");
    assert_eq!((&denied.body["kind"], &denied.body["reason"]), (&json!("Status"), &json!("Forbidden")));
    assert_eq!(denied.body["details"]["causes"][0]["message"], "by VirtualMachine/m1");
    network.tenant.get(&format!("{VPCS}/a")).await.ok();

    let calls = hook.calls();
    assert_eq!((calls.len(), calls[0].path.as_str()), (1, "/validate?timeout=10s"));
    let request = &calls[0].request;
    let kind = json!({"group": NETWORK, "version": "v1alpha1", "kind": "VPC"});
    let resource = json!({"group": NETWORK, "version": "v1alpha1", "resource": "vpcs"});
    assert_eq!((&request["kind"], &request["requestKind"]), (&kind, &kind));
    assert_eq!((&request["resource"], &request["requestResource"]), (&resource, &resource));
    assert_eq!((&request["name"], &request["namespace"]), (&json!("a"), &json!("default")));
    assert_eq!((&request["operation"], &request["dryRun"]), (&json!("DELETE"), &json!(false)));
    assert_eq!(request["userInfo"], json!({"username": "alice", "groups": ["system:authenticated"]}));
    assert_eq!(request["object"], json!(null));
    assert_eq!(request["oldObject"]["metadata"]["annotations"]["kcp.io/cluster"], json!(network.tenant_cluster));
    assert_eq!(request["options"]["kind"], "DeleteOptions");

    // Control: without the configuration, the object goes.
    network.provider.delete(&format!("{CONFIGURATIONS}/guard")).await.ok();
    network.tenant.delete(&format!("{VPCS}/a")).await.ok();
    assert_eq!(network.tenant.get(&format!("{VPCS}/a")).await.code, 404);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn an_unreachable_webhook_refuses_or_is_passed_over_as_its_policy_says() {
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    let hook = Hook::allowing().await;
    let mut configuration = hook.configuration(&deletes(NETWORK, "vpcs"));
    drop(hook);
    network.provider.create(CONFIGURATIONS, &configuration).await.ok();
    network.tenant.create(VPCS, &vpc("a")).await.ok();
    let refused = network.tenant.delete(&format!("{VPCS}/a")).await;
    assert_eq!((refused.code, &refused.body["reason"]), (500, &json!("InternalError")));
    assert!(refused.message().contains("failed calling webhook \"guard.example.com\": "), "{}", refused.message());
    network.tenant.get(&format!("{VPCS}/a")).await.ok();

    configuration["webhooks"][0]["failurePolicy"] = json!("Ignore");
    network.provider.apply(&format!("{CONFIGURATIONS}/guard"), "test", &configuration).await.ok();
    network.tenant.delete(&format!("{VPCS}/a")).await.ok();
    assert_eq!(network.tenant.get(&format!("{VPCS}/a")).await.code, 404);
    bed.testbed.stop().await;
}
