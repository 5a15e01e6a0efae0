//! Canary: the object that shows that an API server asks the webhook.
//!
//! On plain Kubernetes the controller asks the API server to delete a ConfigMap in depguard's own namespace, as a dry
//! run. The webhook always refuses that dry run, so a refusal with this message proves the connection from the API
//! server to the webhook. A real deletion of the ConfigMap, or a dry run for another object, is no canary.
//!
//! An aggregated API server asks webhooks by itself, or does not. So an object of another kind is a canary, too, if an
//! operator gives it the same name and label: its refusal proves that API servers ask about deletions of its kind.

use crate::model::api::FailurePolicy;
use crate::protocol::admission_review::{Operation, Review};

/// The canary's name.
pub const NAME: &str = "depguard-canary";
/// The canary's label, whose value must be `true`.
pub const LABEL: &str = "dependencies.opendefense.cloud/canary";
/// The message of the refusal.
pub const MESSAGE: &str = "depguard's canary: the webhook was asked";

/// Returns true if the review is the dry run of deleting a canary: at a path of rules with `failurePolicy: Ignore`, at which
/// an unreachable webhook refuses nothing, the ConfigMap or an object of another kind, at other paths only the latter.
/// Always false in kcp, because a review from kcp names the object's logical cluster.
pub fn is_canary(review: &Review<'_>, failure_policy: FailurePolicy) -> bool {
    let Some(object) = review.old_object() else { return false };
    let is_config_map = (review.group(), review.resource()) == ("", "configmaps");
    review.operation() == Operation::Delete
        && review.dry_run()
        && review.sub_resource().is_none()
        && (!is_config_map || failure_policy == FailurePolicy::Ignore)
        && object.name() == Some(NAME)
        && object.cluster().is_none()
        && object.labels().any(|label| label == (LABEL, "true"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_the_dry_run_of_a_deletion_of_the_name_with_the_label_is_one() {
        let canary = json!({"request": {
            "uid": "u", "operation": "DELETE", "dryRun": true, "resource": {"group": "", "resource": "configmaps"},
            "oldObject": {"metadata": {"name": NAME, "labels": {LABEL: "true"}}},
        }});
        let mut of_kind = canary.clone();
        of_kind["request"]["resource"] = json!({"group": "a.example.com", "resource": "as"});
        let is = |review: &Value| {
            [FailurePolicy::Ignore, FailurePolicy::Fail]
                .map(|policy| is_canary(&Review::parse(review.to_string().as_bytes()).unwrap(), policy))
        };
        // Where an unreachable webhook refuses deletions, only objects that an operator made for it.
        assert_eq!((is(&canary), is(&of_kind)), ([true, false], [true, true]));
        for canary in [canary, of_kind] {
            for (field, value) in [
                ("/request/dryRun", json!(false)),
                ("/request/operation", json!("UPDATE")),
                ("/request/oldObject/metadata/name", json!("other")),
                ("/request/oldObject/metadata/labels", json!({LABEL: "false"})),
                ("/request/oldObject/metadata/labels", json!({})),
                ("/request/oldObject", Value::Null),
            ] {
                let mut other = canary.clone();
                *other.pointer_mut(field).unwrap() = value;
                assert_eq!(is(&other), [false; 2], "{field}");
            }
            let mut scaled = canary.clone();
            scaled["request"]["subResource"] = json!("status");
            let mut in_kcp = canary;
            in_kcp["request"]["oldObject"]["metadata"]["annotations"] = json!({"kcp.io/cluster": "c1"});
            assert_eq!((is(&scaled), is(&in_kcp)), ([false; 2], [false; 2]));
        }
    }
}
