//! Count of references whose targets don't exist, in a rule's status.

use std::time::Duration;

use depguard_controller::Controller;
use depguard_kcp::Preconditions;
use depguard_testbed::{Fault, When};
use serde_json::{Value, json};

use crate::bed::{Bed, RULES, until};

const VPCS: &str = "/apis/network.example.com/v1alpha1/namespaces/default/vpcs";
const MACHINES: &str = "/apis/compute.example.com/v1alpha1/namespaces/default/virtualmachines";
const MISSING: &str = "False DanglingReferences";
const NONE_MISSING: &str = "True TargetsExist";

/// Starts a cluster with two kinds, and a rule that lets targets be deleted with a warning.
async fn bed() -> Bed {
    let bed = Bed::kubernetes().await;
    bed.define("network.example.com", "VPC").await;
    bed.define("compute.example.com", "VirtualMachine").await;
    let rule = json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1",
        "kind": "DependencyRule",
        "metadata": {"name": "vm"},
        // There is no webhook.
        "spec": {
            "failurePolicy": "Ignore",
            "dependent": {"group": "compute.example.com", "version": "v1alpha1", "kind": "VirtualMachine",
                "resource": "virtualmachines"},
            "dependencies": [{"group": "network.example.com", "version": "v1alpha1", "resource": "vpcs",
                "fieldRef": {"path": ".spec.vpcRef.name"}, "onDelete": "Warn", "onMissing": "Warn"}],
        },
    });
    bed.at("").post_json(RULES, &rule).await.unwrap();
    make(&bed, VPCS, &vpc("a")).await;
    make(&bed, MACHINES, &machine("m1", "a")).await;
    bed
}

async fn make(bed: &Bed, collection: &str, object: &Value) {
    until("the object is made", async || {
        bed.at("").post_json(collection, object).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
}

fn vpc(name: &str) -> Value {
    json!({"apiVersion": "network.example.com/v1alpha1", "kind": "VPC", "metadata": {"name": name}})
}

fn machine(name: &str, vpc: &str) -> Value {
    json!({"apiVersion": "compute.example.com/v1alpha1", "kind": "VirtualMachine", "metadata": {"name": name},
        "spec": {"vpcRef": {"name": vpc}}})
}

async fn shown(bed: &Bed) -> Value {
    bed.at("").get_json(&format!("{RULES}/vm")).await.unwrap()["status"]["danglingReferences"].clone()
}

/// Returns the number of Events about missing targets.
async fn events(bed: &Bed) -> usize {
    let events = bed.at("").list_json("/api/v1/namespaces/default/events").await.unwrap().items;
    events.iter().filter(|event| event["reason"] == "DanglingReferences" && event["type"] == "Warning").count()
}

#[tokio::test]
async fn a_deleted_target_is_counted_until_it_is_there_again_and_a_restart_counts_anew() {
    let bed = bed().await;
    let controller = bed.controller().await;
    bed.until_condition("", "vm", "TargetsExist", NONE_MISSING).await;
    assert_eq!(shown(&bed).await, json!({"count": 0}));

    let delete = async || bed.at("").delete(&format!("{VPCS}/a"), Preconditions::default()).await.unwrap();
    delete().await;
    let said = bed.until_condition("", "vm", "TargetsExist", MISSING).await;
    assert_eq!(said, "1 reference has no target: default/m1 → vpcs.network.example.com default/a (spec.vpcRef.name)");
    let target = json!({"resource": "vpcs.network.example.com", "namespace": "default", "name": "a"});
    let first = json!({"namespace": "default", "name": "m1", "field": "spec.vpcRef.name", "target": target});
    assert_eq!(shown(&bed).await, json!({"count": 1, "first": [first]}));
    until("there is an Event", async || match events(&bed).await {
        1 => Ok(()),
        other => Err(other.to_string()),
    })
    .await;

    make(&bed, VPCS, &vpc("a")).await;
    bed.until_condition("", "vm", "TargetsExist", NONE_MISSING).await;
    controller.stop().await;

    // Nobody sees how the target goes.
    delete().await;
    make(&bed, MACHINES, &machine("m2", "a")).await;
    let controller = bed.controller().await;
    bed.until_condition("", "vm", "TargetsExist", MISSING).await;
    assert_eq!(shown(&bed).await["count"], 2);
    // A dependent that is gone, and one that names no target any more, lack none.
    bed.at("").delete(&format!("{MACHINES}/m1"), Preconditions::default()).await.unwrap();
    bed.edit("", &format!("{MACHINES}/m2"), |machine| machine["spec"] = json!({})).await;
    bed.until_condition("", "vm", "TargetsExist", NONE_MISSING).await;
    controller.stop().await;
}

#[tokio::test]
async fn without_the_right_to_a_kind_the_count_is_unknown_and_never_0() {
    for kind in ["vpcs", "virtualmachines"] {
        let bed = bed().await;
        let fault = bed.testbed.faults().inject(Fault::Forbidden, When::always().method("GET").path(kind));
        let controller: Controller = bed.controller().await;
        let said = bed.until_condition("", "vm", "TargetsExist", "Unknown RightMissing").await;
        assert!(said.starts_with(&format!("the controller may not list and watch {kind}.")), "{said}");
        assert_eq!(shown(&bed).await, Value::Null);
        bed.testbed.faults().clear(fault);
        bed.until_condition("", "vm", "TargetsExist", NONE_MISSING).await;
        controller.stop().await;
    }
}

#[tokio::test]
async fn a_target_whose_deletion_no_watch_reports_is_missed_by_a_list() {
    let bed = bed().await;
    let controller = bed.controller().await;
    bed.until_condition("", "vm", "TargetsExist", NONE_MISSING).await;
    bed.testbed.faults().inject(Fault::WatchSilent, When::always().path("/vpcs?watch=true"));
    bed.at("").delete(&format!("{VPCS}/a"), Preconditions::default()).await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(36)).await;
    tokio::time::resume();
    bed.until_condition("", "vm", "TargetsExist", MISSING).await;
    controller.stop().await;
}
