//! Consumer in kcp, beside providers that it has not bound.

use depguard_core::protocol::Answer;
use depguard_core::{Context, ControlPlane, Decision, Evaluation, Review, RuleSet};
use serde_json::{Value, json};

use crate::pages::Size;
use crate::reviews::review;

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

/// Returns a review of the deletion of a VPC named `a`, in a logical cluster of kcp.
pub(crate) fn deletion() -> Vec<u8> {
    let mut review: Value = serde_json::from_slice(&review("vpcs", Size::Small)).expect("a review");
    review["request"]["oldObject"]["metadata"]["annotations"]["kcp.io/cluster"] = json!("consumer");
    review["request"]["userInfo"]["extra"] = json!({"authentication.kcp.io/cluster-name": ["consumer"]});
    review.to_string().into_bytes()
}

/// Decides a deletion in a logical cluster of kcp; the list of virtual machines is this one page.
pub(crate) fn decide_deletion(rules: &RuleSet, review: &[u8], page: &[u8]) -> Decision {
    let review = Review::parse(review).expect("a review");
    let mut evaluation = rules.evaluate(&review, &Context::default());
    answer_bindings(&mut evaluation);
    for query in evaluation.queries() {
        evaluation.answer(query.id, Answer::Response { status: 200, body: page });
    }
    evaluation.decide()
}

/// Returns rules about VPCs, none of which looks for targets: of so many providers that nobody has bound, and of one that is
/// bound.
pub(crate) fn foreign_rules(foreign: usize) -> RuleSet {
    let providers = (0..foreign).map(|n| format!("foreign{n}")).chain(["compute".to_owned()]);
    let rules: Vec<_> = providers
        .map(|provider| {
            let mut rule = strange(&provider, 1);
            rule["spec"]["dependencies"][0]["onMissing"] = Value::Null;
            rule
        })
        .collect();
    RuleSet::load(ControlPlane::Kcp, &rules)
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
