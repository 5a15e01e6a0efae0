//! Consumer in kcp, beside providers that it has not bound.

use depguard_core::Evaluation;
use depguard_core::protocol::Answer;
use serde_json::{Value, json};

use crate::pages::{Dice, Size, object};

/// Returns a rule of the provider in this logical cluster: its virtual machines refer to VPCs, and to further kinds of its
/// own, none of which may be missing.
pub(crate) fn strange(cluster: &str, dependencies: usize) -> Value {
    let dependency = |n: usize| {
        let (resource, path) =
            if n == 0 { ("vpcs".to_owned(), ".spec.vpcRef.name") } else { (format!("k{n}s"), ".metadata.name") };
        json!({
            "apiExportRef": {"path": "root:network", "name": "network.example.com"},
            "group": "network.example.com", "version": "v1", "resource": resource,
            "fieldRef": {"path": path}, "onMissing": "Deny",
        })
    };
    json!({"metadata": {"name": "machines", "annotations": {"kcp.io/cluster": cluster}}, "spec": {
        "dependent": {
            "apiExportName": "compute.example.com", "group": "compute.example.com", "version": "v1",
            "kind": "VirtualMachine", "resource": "virtualmachines",
        },
        "dependencies": (0..dependencies).map(dependency).collect::<Vec<_>>(),
    }})
}

/// Returns a review of the creation of a virtual machine, in a logical cluster of kcp.
pub(crate) fn creation(size: Size) -> Vec<u8> {
    let mut object = object(&mut Dice(7), 0, size, "vpc-1");
    object["metadata"]["annotations"]["kcp.io/cluster"] = json!("consumer");
    object["metadata"]["uid"] = json!("m");
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": "CREATE", "name": object["metadata"]["name"], "namespace": "default", "object": object,
        "resource": {"group": "compute.example.com", "version": "v1", "resource": "virtualmachines"},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"], "extra": {"authentication.kcp.io/cluster-name": ["consumer"]}},
    }});
    review.to_string().into_bytes()
}

/// Answers that the logical cluster has bound the virtual machines of the provider `compute`, and VPCs.
pub(crate) fn answer_bindings(evaluation: &mut Evaluation) {
    let binding = |name: &str, provider: &str, resource: &str| {
        json!({
            "metadata": {"name": name}, "spec": {"reference": {"export": {"path": format!("root:{name}"), "name": format!("{name}.example.com")}}},
            "status": {"apiExportClusterName": provider, "boundResources": [{"group": format!("{name}.example.com"), "resource": resource}]},
        })
    };
    let items = [binding("compute", "compute", "virtualmachines"), binding("network", "network", "vpcs")];
    let list = json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBindingList", "metadata": {"resourceVersion": "1"}, "items": items});
    for query in evaluation.queries() {
        evaluation.answer(query.id, Answer::Response { status: 200, body: list.to_string().as_bytes() });
    }
}
