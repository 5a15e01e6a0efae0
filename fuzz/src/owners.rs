//! Deletions of owners.

use depguard_core::Review;
use depguard_core::owners::OwnerEvaluation;
use depguard_core::owners::{CASCADE_ANNOTATION, GLOBAL_OWNERS, GROUP, GROUP_OWNERS, ORPHAN};
use depguard_core::protocol::Answer;
use serde_json::Value;

use crate::targets::mended;

/// Deletions of owners: some that go on, and some that do not.
pub const GOOD_OWNERS: [&str; 3] = [
    r#"{"request": {"uid": "1", "operation": "DELETE", "dryRun": false, "resource": {"group": "globalowner.metacontroller.io", "version": "v1alpha1", "resource": "globalowners"}, "options": {"kind": "DeleteOptions", "propagationPolicy": "Orphan", "orphanDependents": null}, "oldObject": {"metadata": {"name": "a", "uid": "o-1", "finalizers": ["orphan"], "annotations": {"dependencies.opendefense.cloud/cascade": "Orphan"}}}}}"#,
    r#"{"request": {"uid": "1", "operation": "DELETE", "resource": {"group": "globalowner.metacontroller.io", "version": "v1alpha1", "resource": "globalowners"}, "options": null, "oldObject": {"metadata": {"name": "a", "uid": "o-1", "finalizers": ["foregroundDeletion"], "deletionTimestamp": "2026-11-22T05:00:00Z"}}}}"#,
    r#"{"request": {"uid": "1", "operation": "DELETE", "resource": {"group": "globalowner.metacontroller.io", "version": "v1alpha1", "resource": "groupowners"}, "oldObject": {"metadata": {"name": "a", "uid": "o-1"}, "status": {"phase": "Released"}}}}"#,
];

/// Checks that a deletion goes on only if the garbage collector deletes nothing, and if the fate of the owned objects
/// is noted.
pub fn owner(bytes: &[u8]) {
    let Ok(review) = Review::parse(bytes) else { return };
    let Ok(mut evaluation) = OwnerEvaluation::begin(&review, bytes) else { return };
    if evaluation.send().is_some() {
        evaluation.answer(Answer::Response { status: 403, body: bytes });
        assert!(!evaluation.decide().allowed(), "what could not be noted");
        return;
    }
    let decision = evaluation.decide();
    assert_eq!(decision.message().is_none(), decision.allowed());
    if decision.allowed() {
        let said: Value = serde_json::from_slice(bytes).or_else(|_| serde_json::from_slice(&mended(bytes))).unwrap();
        assert!(goes(&said["request"]), "{said}");
    }
}

/// Returns true if the deletion may go on, by a plain reading of the request.
fn goes(request: &Value) -> bool {
    let (kind, old) = (&request["resource"], &request["oldObject"]);
    let sub_resource = request["subResource"].as_str().unwrap_or_default();
    if request["operation"] != "DELETE" || !sub_resource.is_empty() || kind["group"] != GROUP {
        return true;
    }
    let policy = request["options"]["propagationPolicy"].as_str().unwrap_or_default();
    let orphans = request["options"]["orphanDependents"].as_bool();
    let finalizers = old["metadata"]["finalizers"].as_array().map_or(&[][..], Vec::as_slice);
    let unsaid = policy.is_empty() && orphans.is_none();
    // As in the API server, the older option goes before the policy, and the first of the two finalizers counts.
    let marked =
        finalizers.iter().filter_map(Value::as_str).find(|name| ["foregroundDeletion", "orphan"].contains(name));
    let mark = marked.filter(|_| unsaid);
    if kind["resource"] == GLOBAL_OWNERS {
        let policy = if orphans.is_none() { policy } else { "" };
        let foreground = !["", "Background", "Orphan"].contains(&policy) || mark == Some("foregroundDeletion");
        let stays = policy == "Orphan" || orphans == Some(true) || mark == Some("orphan");
        let noted = old["metadata"]["annotations"][CASCADE_ANNOTATION] == ORPHAN;
        return !foreground && (!stays || noted || request["dryRun"] == true);
    }
    kind["resource"] != GROUP_OWNERS || ["Empty", "Released"].iter().any(|phase| old["status"]["phase"] == *phase)
}
