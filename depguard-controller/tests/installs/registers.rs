//! Reference registers: who opens them, and when.

use std::time::Duration;

use depguard_controller::Controller;
use depguard_core::interlock::Buckets;
use depguard_kcp::{Features, Preconditions};
use serde_json::{Value, json};

use crate::bed::{Bed, RULES, local_rule, ok, until};

const REGISTERS: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/referenceregisters";
/// Time for which a closed register stays closed: for longer than a test waits for anything.
const WAIT: Duration = Duration::from_secs(40);

/// Has registers served, and creates the namespace in which the controller makes their key.
async fn define_registers(bed: &Bed) {
    bed.own_namespace("").await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "referenceregisters.dependencies.opendefense.cloud"},
        "spec": {
            "group": "dependencies.opendefense.cloud", "scope": "Cluster",
            "names": {"kind": "ReferenceRegister", "listKind": "ReferenceRegisterList", "plural": "referenceregisters",
                "singular": "referenceregister"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    bed.at("").post_json(path, &definition).await.unwrap();
    until("registers are served", async || ok(bed.at("").list_json(REGISTERS).await)).await;
}

async fn controller(bed: &Bed) -> Controller {
    let mut enable = Features::new([], []);
    enable.registers = Buckets::new(1);
    Controller::start(bed.config().enable(enable).interlock_wait(WAIT)).await.unwrap()
}

async fn only_register(bed: &Bed) -> Value {
    bed.at("").list_json(REGISTERS).await.unwrap().items.pop().unwrap_or_default()
}

async fn until_register(bed: &Bed, what: &str, is_so: impl Fn(&Value) -> bool) {
    until(what, async || {
        let found = only_register(bed).await;
        if is_so(&found) { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
}

/// Starts depguard where a rule is there already, and waits until its register is open and its paths are installed.
async fn fresh() -> (Bed, Controller) {
    let bed = Bed::kubernetes().await;
    define_registers(&bed).await;
    let mut rule = local_rule("r", "network.example.com", "v1alpha1", "vpcs");
    rule["spec"]["dependent"] = json!(
        {"group": "compute.example.com", "version": "v1alpha1", "kind": "VirtualMachine", "resource": "virtualmachines"}
    );
    let edge = &mut rule["spec"]["dependencies"][0];
    edge["onMissing"] = "Deny".into();
    edge["fieldRef"]["path"] = ".spec.vpcRef.name".into();
    for (group, kind) in [("network.example.com", "VPC"), ("compute.example.com", "VirtualMachine")] {
        bed.define(group, kind).await;
    }
    // The rule is there before depguard is.
    bed.at("").post_json(RULES, &rule).await.unwrap();
    let controller = controller(&bed).await;
    until_register(&bed, "the register is open", |found| {
        found["spec"]["openFor"].is_string() && found["spec"]["openFor"] == found["metadata"]["uid"]
    })
    .await;
    bed.until_condition("", "r", "Programmed", "True Programmed").await;
    (bed, controller)
}

/// Returns the webhooks without their signatures, which are renewed each hour.
async fn stored_configuration(bed: &Bed) -> String {
    let mut webhooks = bed.configuration("").await.unwrap_or_default()["webhooks"].take();
    for webhook in webhooks.as_array_mut().into_iter().flatten() {
        let url = &mut webhook["clientConfig"]["url"];
        if let Some((before, _)) = url.as_str().unwrap().split_once("/control-plane.kubernetes/") {
            *url = before.into();
        }
    }
    webhooks.to_string()
}

#[tokio::test]
async fn a_fresh_installations_register_is_open_at_once_and_a_lost_one_is_not() {
    let (bed, controller) = fresh().await;
    let name = only_register(&bed).await["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    bed.at("").delete(&format!("{REGISTERS}/{name}"), Preconditions::default()).await.unwrap();
    until("the register is closed, as the controller sees", async || {
        let said = bed.until_condition("", "r", "Interlocked", "False RegistersNotOpen").await;
        if said.contains("is closed") { Ok(()) } else { Err(said) }
    })
    .await;
    until_register(&bed, "it is not open", |found| found["spec"]["openFor"].is_null()).await;
    controller.stop().await;
}

/// In kcp each tenant may write such a configuration.
#[tokio::test]
async fn a_configuration_with_another_path_takes_no_register_away() {
    let (bed, controller) = fresh().await;
    controller.stop().await;
    let register = only_register(&bed).await;
    let installed = stored_configuration(&bed).await;
    bed.edit_configuration("", |configuration| {
        for webhook in configuration["webhooks"].as_array_mut().unwrap() {
            let url = &mut webhook["clientConfig"]["url"];
            if let Some((before, _)) = url.as_str().unwrap().split_once("/registers-") {
                *url = before.into();
            }
        }
    })
    .await;
    assert_ne!(stored_configuration(&bed).await, installed);
    let controller = self::controller(&bed).await;
    until("the path is put right", async || {
        let found = stored_configuration(&bed).await;
        if found == installed { Ok(()) } else { Err(found) }
    })
    .await;
    controller.stop().await;
    assert_eq!(only_register(&bed).await["metadata"]["uid"], register["metadata"]["uid"]);
}

#[tokio::test]
async fn registers_of_another_generation_show_that_all_of_them_must_go() {
    let (bed, controller) = fresh().await;
    controller.stop().await;
    let (register, installed) = (only_register(&bed).await, stored_configuration(&bed).await);
    let mut former = register.clone();
    former["metadata"] = json!({"name": "bucket-0-of-1"});
    bed.at("").post_json(REGISTERS, &former).await.unwrap();
    let controller = self::controller(&bed).await;
    until("one register is left, which is new and closed", async || {
        let all = bed.at("").list_json(REGISTERS).await.unwrap().items;
        let is_new = |found: &Value| {
            let (new, old) = (&found["metadata"], &register["metadata"]);
            new["name"] == old["name"] && new["uid"] != old["uid"] && found["spec"]["openFor"].is_null()
        };
        if all.len() == 1 && all.iter().all(is_new) { Ok(()) } else { Err(json!(all).to_string()) }
    })
    .await;
    controller.stop().await;
    assert_eq!(stored_configuration(&bed).await, installed);
}
