//! Plain Kubernetes: one cluster, local rules.

use std::time::Duration;

use depguard_controller::{Controller, StartError, WebhookTarget};
use depguard_testbed::{Fault, When};
use serde_json::{Value, json};

use crate::bed::{Bed, RULES, rule, until};

const MACHINES: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/virtualmachines.compute.example.com";
const VPCS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/vpcs.network.example.com";

/// Returns a rule of the one cluster: virtual machines refer to VPCs.
fn machines_refer() -> Value {
    let mut local = rule("vm", &["vpcs"]);
    local["spec"]["dependent"].as_object_mut().unwrap().remove("apiExportName");
    local["spec"]["dependencies"][0].as_object_mut().unwrap().remove("apiExportRef");
    local
}

/// Has a kind served in version v1, and in the version that the rule names or not.
async fn serve(bed: &Bed, definition: &str, is_served: bool) {
    bed.edit("", definition, |definition| {
        let version = definition["spec"]["versions"][0].clone();
        let versions = [("v1alpha1", is_served), ("v1", true)].map(|(name, served)| {
            let mut version = version.clone();
            version["name"] = json!(name);
            version["served"] = json!(served);
            version["storage"] = json!(name == "v1");
            version
        });
        definition["spec"]["versions"] = json!(versions);
    })
    .await;
}

#[tokio::test]
async fn a_local_rule_is_installed_with_a_service_and_removed_with_it() {
    let bed = Bed::kubernetes().await;
    bed.at("").post_json(RULES, &machines_refer()).await.unwrap();

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
    serve(&bed, MACHINES, false).await;
    let said = bed.until_condition("", "vm", "ResolvedRefs", "False KindNotFound").await;
    assert!(said.contains("is not served in version v1alpha1, but in v1"), "{said}");
    bed.until_condition("", "vm", "Enforced", "False KindNotFound").await;
    serve(&bed, MACHINES, true).await;
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

/// Kinds are read again by themselves only after an hour here.
#[tokio::test]
async fn the_list_that_shows_that_a_version_is_served_no_more_changes_the_conditions() {
    let bed = Bed::kubernetes().await;
    bed.define("compute.example.com", "VirtualMachine").await;
    bed.define("network.example.com", "VPC").await;
    let mut looking = machines_refer();
    looking["spec"]["dependencies"][0]["onMissing"] = json!("Warn");
    bed.at("").post_json(RULES, &looking).await.unwrap();
    let controller = Controller::start(bed.config().resync(Duration::from_secs(3600))).await.unwrap();
    for definition in [MACHINES, VPCS] {
        bed.until_condition("", "vm", "ResolvedRefs", "True ResolvedRefs").await;
        bed.until_condition("", "vm", "TargetsExist", "True TargetsExist").await;
        serve(&bed, definition, false).await;
        // An API server ends the watches of a version that it serves no more.
        let dropped = bed.testbed.faults().inject(Fault::WatchDropped, When::always().path(".example.com/v1alpha1/"));
        bed.until_condition("", "vm", "ResolvedRefs", "False KindNotFound").await;
        bed.testbed.faults().clear(dropped);
        serve(&bed, definition, true).await;
    }
    bed.until_condition("", "vm", "ResolvedRefs", "True ResolvedRefs").await;
    controller.stop().await;
}

#[tokio::test]
async fn a_kind_without_a_definition_is_one_of_an_aggregated_server() {
    let bed = Bed::kubernetes().await;
    bed.define("compute.example.com", "VirtualMachine").await;
    bed.define("network.example.com", "VPC").await;
    bed.at("").post_json(RULES, &machines_refer()).await.unwrap();
    // So an API server answers about a kind that another server serves, and so without the right to see definitions.
    for (fault, expected) in [
        (Some(Fault::NotFound), Some("; vpcs.network.example.com has no CustomResourceDefinition, so an aggregated")),
        (Some(Fault::Forbidden), Some("; an aggregated API server may serve vpcs.network.example.com")),
        (None, None),
    ] {
        let fault = fault.map(|fault| bed.testbed.faults().inject(fault, When::always().path(VPCS)));
        let controller = bed.controller().await;
        until("the condition tells of the server, and of nothing else but the webhook", async || {
            let said = bed.until_condition("", "vm", "Enforced", "False WebhookUnreachable").await;
            let is_told = expected.map_or(!said.contains("aggregated"), |expected| said.contains(expected));
            if is_told { Ok(()) } else { Err(said) }
        })
        .await;
        bed.until_condition("", "vm", "ResolvedRefs", "True ResolvedRefs").await;
        controller.stop().await;
        fault.into_iter().for_each(|fault| bed.testbed.faults().clear(fault));
    }
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
