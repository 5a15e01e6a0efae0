//! ValidatingAdmissionPolicy that keeps reference registers from others' hands, for plain Kubernetes.

use depguard_core::api;
use depguard_core::interlock::PLURAL;
use serde_json::{Value, json};

use crate::manifests::NAMESPACE;
use crate::manifests::rbac::{CONTROLLER, WEBHOOK};

const NAME: &str = "depguard-reference-registers";
/// Group whose members may delete registers: nothing keeps them from deleting the policy.
const ADMINISTRATORS: &str = "system:masters";

/// Returns the policy and its binding. A register that somebody else writes could say that nothing is under way.
///
/// No API server asks about the registers that go with their CustomResourceDefinition.
pub fn register_policy() -> Vec<Value> {
    let account = |name| format!("request.userInfo.username == \"system:serviceaccount:{NAMESPACE}:{name}\"");
    let expression = format!(
        "{} || (request.operation == \"UPDATE\" && {}) || (request.operation == \"DELETE\" && \"{ADMINISTRATORS}\" in \
         request.userInfo.groups)",
        account(CONTROLLER),
        account(WEBHOOK)
    );
    let rule = json!({
        "apiGroups": [api::GROUP],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": [PLURAL],
    });
    let message = format!("only depguard writes {PLURAL}, and only its controller and {ADMINISTRATORS} delete them");
    let policy = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": message, "reason": "Forbidden"}],
    });
    let binding = json!({"policyName": NAME, "validationActions": ["Deny"]});
    vec![object("ValidatingAdmissionPolicy", &policy), object("ValidatingAdmissionPolicyBinding", &binding)]
}

fn object(kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": NAME},
        "spec": spec,
    })
}
