//! Reviews about locks, over a cluster in memory.

mod failing;
mod holding;
mod many;

use depguard_core::ControlPlane;
use depguard_core::locks::TableName;
use depguard_core::model::{GroupResource, Namespace};
use depguard_webhook::ReviewService;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::{answer, post_bytes, service};

const NAMESPACE: &str = "/api/v1/namespaces/default";
const ROOT: &str = "/apis/dependencies.opendefense.cloud/v1alpha1";

fn guarded(cluster: &Cluster) -> ReviewService<Cluster> {
    cluster.put(NAMESPACE, Some(json!({"metadata": {"name": "default"}})));
    service(cluster.clone()).guarding_locks(ControlPlane::Kubernetes, cluster.clone())
}

fn vm_kind() -> GroupResource {
    "virtualmachines.compute.example.com".parse().unwrap()
}

/// Returns the path of the table of VMs in a namespace, or in the cluster.
fn table(namespace: Option<&str>) -> String {
    let namespace = namespace.map(|name| Namespace::parse(name).unwrap());
    TableName { namespace, kind: vm_kind() }.path()
}

fn lock_path(name: &str) -> String {
    format!("{ROOT}/namespaces/default/objectlocks/{name}")
}

/// Returns an ObjectLock on the VM `vm-1`, as a user writes it and an API server stores it.
fn lock(name: &str, edit: impl FnOnce(&mut Value)) -> Value {
    let mut lock = json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "ObjectLock",
        "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": "2026-11-22T05:00:00Z"},
        "spec": {
            "targets": [{"group": "compute.example.com", "resource": "virtualmachines", "name": "vm-1"}],
            "reason": "snapshot running",
            "holder": {"users": ["backup"]},
        },
    });
    edit(&mut lock["spec"]);
    lock
}

fn vm(spec: &Value) -> Value {
    json!({
        "apiVersion": "compute.example.com/v1", "kind": "VirtualMachine",
        "metadata": {"name": "vm-1", "namespace": "default", "uid": "o-1", "labels": {"app": "a"}}, "spec": spec,
    })
}

/// Returns a review by `user`: of a lock if the objects are locks, else of a VM.
fn review(operation: &str, user: &str, old: &Value, new: &Value) -> Value {
    let shown = if new.is_null() { old } else { new };
    let (group, resource) = match shown["kind"].as_str() {
        Some("ObjectLock") => ("dependencies.opendefense.cloud", "objectlocks"),
        _ => ("compute.example.com", "virtualmachines"),
    };
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": operation, "name": shown["metadata"]["name"],
        "namespace": shown["metadata"]["namespace"],
        "resource": {"group": group, "version": "v1", "resource": resource},
        "userInfo": {"username": user, "groups": ["system:authenticated"]}, "oldObject": old, "object": new,
    }})
}

fn update(user: &str) -> Value {
    review("UPDATE", user, &vm(&json!({"cpus": 1})), &vm(&json!({"cpus": 2})))
}

fn deletion(user: &str) -> Value {
    review("DELETE", user, &vm(&json!({"cpus": 1})), &Value::Null)
}

/// Returns the same review about a VM of another name.
fn about(name: &str, mut review: Value) -> Value {
    for object in ["oldObject", "object"] {
        review["request"][object]["metadata"]["name"] = json!(name);
    }
    review
}

async fn ask(service: &ReviewService<Cluster>, review: &Value) -> Value {
    answer(service.clone(), post_bytes("/lock?timeout=10s", review.to_string())).await
}

/// Creates a lock as an API server does: it is reviewed first, and stored if that allows it.
async fn create(
    service: &ReviewService<Cluster>,
    cluster: &Cluster,
    name: &str,
    edit: impl FnOnce(&mut Value),
) -> Value {
    let lock = lock(name, edit);
    let response = ask(service, &review("CREATE", "alice", &Value::Null, &lock)).await;
    if response["allowed"] == true {
        cluster.put(&lock_path(name), Some(lock));
    }
    response
}
