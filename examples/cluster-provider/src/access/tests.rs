mod played;

use serde_json::{Value, json};

use super::*;

fn request(change: &Value) -> AccessRequest {
    let mut request = json!({
        "metadata": {
            "name": "reader", "namespace": "team", "generation": 2,
            "labels": {PROVIDER: "workspaces", PROFILE: "play.workspaces.small"},
            "finalizers": [FINALIZER],
        },
        "status": {"phase": "Granted", "observedGeneration": 2},
    });
    for (pointer, value) in change.as_object().unwrap() {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        request.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    serde_json::from_value(request).unwrap()
}

#[test]
fn only_a_request_with_both_labels_and_the_own_name_is_acted_on() {
    let acts = |labels: Value| is_responsible(&request(&json!({"/metadata/labels": labels})), "workspaces");
    assert!(acts(json!({PROVIDER: "workspaces", PROFILE: "p"})));
    assert!(!acts(json!({PROVIDER: "workspaces"})));
    assert!(!acts(json!({PROFILE: "p"})));
    assert!(!acts(json!({PROVIDER: "another", PROFILE: "p"})));
    assert!(!acts(json!({})));
}

#[test]
fn after_a_change_it_is_the_operators_turn_first() {
    for (change, is_ours) in [
        (json!({}), true),
        (json!({"/metadata/generation": 3}), false),
        (json!({"/status/phase": "Pending", "/metadata/generation": 3}), true),
        (json!({"/status": null}), false),
        (json!({"/status/phase": ""}), false),
        (json!({"/status/phase": "Terminating"}), false),
        // A denied request that holds a finalizer is ended, and nothing more.
        (json!({"/status/phase": "Denied"}), true),
        (json!({"/status/phase": "Denied", "/metadata/finalizers": []}), false),
        // No phase may keep a deleted request from going.
        (json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z", "/metadata/generation": 3}), true),
        (json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z", "/status/phase": "Other"}), true),
        (json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z", "/metadata/finalizers": []}), false),
    ] {
        assert_eq!(is_responsible(&request(&change), "workspaces"), is_ours, "{change}");
    }
}
