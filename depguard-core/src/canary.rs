//! The object by which it is seen that an API server does ask the webhook.
//!
//! In home kubernetes the controller asks the API server to delete a ConfigMap of depguard's own namespace, as a dry
//! run. The webhook refuses that always, so a refusal with this message shows the way from the API server to the
//! webhook. A real deletion of it passes, as does a dry run of anything else.

use crate::review::{Operation, Review};

/// The ConfigMap's name.
pub const NAME: &str = "depguard-canary";
/// Its label, which must be `true`.
pub const LABEL: &str = "dependencies.opendefense.cloud/canary";
/// What the webhook refuses with.
pub const MESSAGE: &str = "depguard's canary: the webhook was asked";

/// Whether the review is of such a dry run. Never in home kcp, whose reviews tell the object's logical cluster.
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
