//! Plain Kubernetes: one cluster, local rules.

use std::time::Duration;

use depguard_controller::{Controller, StartError, WebhookTarget};
use serde_json::json;

use crate::bed::{Bed, RULES, rule, until};

#[tokio::test]
async fn a_local_rule_is_installed_with_a_service_and_removed_with_it() {
    let bed = Bed::kubernetes().await;
    let mut local = rule("vm", &["vpcs"]);
    local["spec"]["dependent"].as_object_mut().unwrap().remove("apiExportName");
    local["spec"]["dependencies"][0].as_object_mut().unwrap().remove("apiExportRef");
    bed.at("").post_json(RULES, &local).await.unwrap();

    let mut config = bed.config();
    config.webhook = "depguard-system/depguard-webhook".parse().unwrap();
    config.resync = Duration::from_secs(1);
    let controller = Controller::start(config).await.unwrap();
    bed.until_installed("", &["vpcs"]).await;
    assert_eq!(
        bed.configuration("").await.unwrap()["webhooks"][0]["clientConfig"]["service"],
        json!({"namespace": "depguard-system", "name": "depguard-webhook", "port": 443, "path": "/validate"})
    );
    let said = bed.until_condition("", "vm", "Programmed", "True Programmed").await;
    assert_eq!(said, "installed in the cluster");
    // While nothing of the groups is there, the rule sleeps.
    let said = bed.until_condition("", "vm", "ResolvedRefs", "False Dormant").await;
    assert!(said.starts_with("no kind of the group compute.example.com is served: install"), "{said}");
    bed.define("compute.example.com", "Disk").await;
    let said = bed.until_condition("", "vm", "ResolvedRefs", "False KindNotFound").await;
    assert!(said.starts_with("there is no virtualmachines.compute.example.com v1alpha1: "), "{said}");
    bed.define("compute.example.com", "VirtualMachine").await;
    bed.define("network.example.com", "VPC").await;
    bed.until_condition("", "vm", "ResolvedRefs", "True ResolvedRefs").await;
    // Its version is not served for a while.
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/virtualmachines.compute.example.com";
    let serve = async |versions: [(&str, bool); 2]| {
        bed.edit("", definition, |definition| {
            let version = definition["spec"]["versions"][0].clone();
            let versions = versions.map(|(name, served)| {
                let mut version = version.clone();
                version["name"] = json!(name);
                version["served"] = json!(served);
                version["storage"] = json!(name == "v1");
                version
            });
            definition["spec"]["versions"] = json!(versions);
        })
        .await;
    };
    serve([("v1alpha1", false), ("v1", true)]).await;
    let said = bed.until_condition("", "vm", "ResolvedRefs", "False KindNotFound").await;
    assert!(said.contains("is not served in version v1alpha1, but in v1"), "{said}");
    bed.until_condition("", "vm", "Enforced", "False KindNotFound").await;
    serve([("v1alpha1", true), ("v1", true)]).await;
    bed.until_condition("", "vm", "ResolvedRefs", "True ResolvedRefs").await;
    let found = bed.at("").get_json(&format!("{RULES}/vm")).await.unwrap();
    assert_eq!(found["status"]["summary"], "vpcs");
    assert_eq!(found["status"]["targets"][0]["lookup"], "NamespaceScan");

    bed.edit("", &format!("{RULES}/vm"), |rule| {
        rule["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(".spec.vpcRef.nam");
    })
    .await;
    let said = bed.until_condition("", "vm", "Accepted", "False FieldNotFound").await;
    until("there is an event", async || {
        let events = bed.at("").list_json("/api/v1/namespaces/default/events").await.unwrap().items;
        let told = events.iter().any(|event| event["reason"] == "FieldNotFound" && event["type"] == "Warning");
        if told { Ok(()) } else { Err(format!("{events:?}")) }
    })
    .await;
    assert!(said.ends_with("`.spec.vpcRef` has no field `nam`: it has `name`"), "{said}");

    bed.delete_rule("", "vm").await;
    until("the configuration is gone", async || bed.configuration("").await.map_or(Ok(()), |_| Err("there".into())))
        .await;
    controller.stop().await;
}

#[tokio::test]
async fn a_rule_that_names_exports_is_invalid_there() {
    let bed = Bed::kubernetes().await;
    bed.at("").post_json(RULES, &rule("vm", &["vpcs"])).await.unwrap();
    let controller = bed.controller().await;
    let said = bed.until_condition("", "vm", "Accepted", "False Invalid").await;
    assert!(said.contains("a plain Kubernetes cluster has no APIExports: leave it out"), "{said}");
    controller.stop().await;
}

#[tokio::test]
async fn what_cannot_work_does_not_start() {
    let bed = Bed::kubernetes().await;
    let mut config = bed.config();
    config.webhook = WebhookTarget::Url(String::new());
    assert!(matches!(Controller::start(config).await, Err(StartError::Webhook(_))));
    let mut config = bed.config();
    config.ca_bundle_path = Some(bed.folder.path().join("missing.crt"));
    assert!(matches!(Controller::start(config).await, Err(StartError::CaBundle(_))));
}
