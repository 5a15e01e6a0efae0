//! Canary: the object that shows that an API server asks the webhook.
//!
//! On plain Kubernetes the controller asks the API server to delete a ConfigMap in depguard's own namespace, as a dry
//! run. The webhook always refuses that dry run, so a refusal with this message proves the connection from the API
//! server to the webhook. A real deletion of the ConfigMap, or a dry run for another object, is no canary.

use crate::protocol::admission_review::{Operation, Review};

/// The ConfigMap's name.
pub const NAME: &str = "depguard-canary";
/// The ConfigMap's label, whose value must be `true`.
pub const LABEL: &str = "dependencies.opendefense.cloud/canary";
/// The message of the refusal.
pub const MESSAGE: &str = "depguard's canary: the webhook was asked";

/// Returns true if the review is the dry run of deleting the canary. Always false in kcp, because a review from kcp
/// names the object's logical cluster.
pub fn is_canary(review: &Review<'_>) -> bool {
    let Some(object) = review.old_object() else { return false };
    review.operation() == Operation::Delete
        && review.dry_run()
        && (review.group(), review.resource(), review.sub_resource()) == ("", "configmaps", None)
        && object.name() == Some(NAME)
        && object.cluster().is_none()
        && object.labels().any(|label| label == (LABEL, "true"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_a_dry_run_deletion_of_the_very_object_is_one() {
        let canary = json!({"request": {
            "uid": "u", "operation": "DELETE", "dryRun": true, "resource": {"group": "", "resource": "configmaps"},
            "oldObject": {"metadata": {"name": NAME, "labels": {LABEL: "true"}}},
        }});
        let is = |review: &Value| is_canary(&Review::parse(review.to_string().as_bytes()).unwrap());
        assert!(is(&canary));
        for (field, value) in [
            ("/request/dryRun", json!(false)),
            ("/request/operation", json!("UPDATE")),
            ("/request/resource/resource", json!("secrets")),
            ("/request/resource/group", json!("a.example.com")),
            ("/request/oldObject/metadata/name", json!("other")),
            ("/request/oldObject/metadata/labels", json!({LABEL: "false"})),
            ("/request/oldObject/metadata/labels", json!({})),
            ("/request/oldObject", Value::Null),
        ] {
            let mut other = canary.clone();
            *other.pointer_mut(field).unwrap() = value;
            assert!(!is(&other), "{field}");
        }
        let mut in_kcp = canary;
        in_kcp["request"]["oldObject"]["metadata"]["annotations"] = json!({"kcp.io/cluster": "c1"});
        assert!(!is(&in_kcp));
    }
}
