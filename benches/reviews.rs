//! Reviews, and rules that apply to them.

use depguard_core::protocol::Answer;
use depguard_core::{Context, Decision, Review, RuleSet};
use serde_json::{Value, json};

use crate::pages::{Dice, Size, object};

/// Returns a rule. Rule 0 says that virtual machines refer to VPCs; the others name other targets.
pub(crate) fn rule(number: usize) -> Value {
    let vpcs = if number == 0 { "vpcs".to_owned() } else { format!("vpcs{number}") };
    json!({"metadata": {"name": format!("virtualmachines-{number}")}, "spec": {
        "dependent": {"group": "compute.example.com", "version": "v1", "kind": "VirtualMachine", "resource": "virtualmachines"},
        "dependencies": [{"group": "network.example.com", "version": "v1", "resource": vpcs, "fieldRef": {"path": ".spec.vpcRef.name"}}],
    }})
}

/// Returns a rule about virtual machines and VPCs with a field of its own, but for the first one.
pub(crate) fn sibling(number: usize) -> Value {
    let mut rule = rule(0);
    if number > 0 {
        rule["metadata"]["name"] = format!("sibling-{number}").into();
        rule["spec"]["dependencies"][0]["fieldRef"]["path"] = format!(".spec.ref{number}.name").into();
    }
    rule
}

/// Returns a review of the deletion of an object named `a`.
pub(crate) fn review(resource: &str, size: Size) -> Vec<u8> {
    let mut object = object(&mut Dice(7), 0, size, "vpc-1");
    object["metadata"]["name"] = json!("a");
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": "DELETE", "name": "a", "namespace": "default", "oldObject": object,
        "resource": {"group": "network.example.com", "version": "v1", "resource": resource},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
    }});
    review.to_string().into_bytes()
}

/// Decides a review. No field is selectable, and each list is this one page.
pub(crate) fn decide(rules: &RuleSet, review: &[u8], page: &[u8]) -> Decision {
    let review = Review::parse(review).expect("a review");
    let mut evaluation = rules.evaluate(&review, &Context::default());
    while let queries @ [_, ..] = &evaluation.queries()[..] {
        for query in queries {
            let answer = if query.path.contains("fieldSelector=") {
                Answer::Response { status: 400, body: br#"{"message":"field label not supported: spec.vpcRef.name"}"# }
            } else {
                Answer::Response { status: 200, body: page }
            };
            evaluation.answer(query.id, answer);
        }
    }
    evaluation.decide()
}
