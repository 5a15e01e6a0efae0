use serde_json::{Value, json};

use super::*;
use crate::protocol::cascade::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};

fn deletion(resource: &str) -> Value {
    json!({"request": {
        "uid": "u", "operation": "DELETE", "resource": {"group": GROUP, "resource": resource},
        "options": {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"},
        "oldObject": {"metadata": {"name": "a", "uid": "o-1", "finalizers": ["dependencies.opendefense.cloud/teardown"]}},
    }})
}

fn decide(review: &Value) -> OwnerDecision {
    let bytes = review.to_string();
    let mut evaluation = OwnerEvaluation::begin(&Review::parse(bytes.as_bytes()).unwrap(), bytes.as_bytes()).unwrap();
    evaluation.answer(Answer::Response { status: 200, body: b"{}" });
    evaluation.decide()
}

#[test]
fn a_global_owner_is_deleted_in_any_way_but_the_foreground() {
    let foreground = || OwnerDecision::Foreground("a".to_owned());
    let teardown = "dependencies.opendefense.cloud/teardown";
    for (options, finalizers, decided) in [
        (json!({}), json!([teardown]), OwnerDecision::InOrder),
        (Value::Null, Value::Null, OwnerDecision::InOrder),
        (json!({"propagationPolicy": "Background"}), json!([teardown]), OwnerDecision::InOrder),
        (json!({"propagationPolicy": "Orphan"}), json!([teardown]), OwnerDecision::LetsGo),
        (json!({"propagationPolicy": "Foreground"}), json!([teardown]), foreground()),
        (json!({"propagationPolicy": "Sideways"}), json!([teardown]), foreground()),
        // The finalizer stands for an earlier request.
        (json!({}), json!([teardown, FOREGROUND_FINALIZER]), foreground()),
        (json!({"propagationPolicy": ""}), json!([FOREGROUND_FINALIZER]), foreground()),
        (Value::Null, json!([FOREGROUND_FINALIZER]), foreground()),
        (json!({"propagationPolicy": "Background"}), json!([FOREGROUND_FINALIZER]), OwnerDecision::InOrder),
        (json!({"orphanDependents": true}), json!([FOREGROUND_FINALIZER]), OwnerDecision::LetsGo),
        (json!({"orphanDependents": false}), json!([FOREGROUND_FINALIZER]), OwnerDecision::InOrder),
    ] {
        let mut review = deletion(GLOBAL_OWNERS);
        review["request"]["options"] = options.clone();
        review["request"]["oldObject"]["metadata"]["finalizers"] = finalizers.clone();
        assert_eq!(decide(&review), decided, "{options} {finalizers}");
        // The deletion may be requested again while the owner is terminating.
        review["request"]["oldObject"]["metadata"]["deletionTimestamp"] = json!("2026-11-22T05:00:00Z");
        assert_eq!(decide(&review), decided, "terminating: {options} {finalizers}");
    }
}

#[test]
fn that_what_it_owns_stays_is_noted_on_it_before_it_goes() {
    let (orphan, none) = (json!({"propagationPolicy": "Orphan"}), Value::Null);
    let noted = json!({CASCADE_ANNOTATION: ORPHAN});
    for (options, finalizers, annotations, terminating, written) in [
        (&orphan, none.clone(), none.clone(), false, Some(json!(ORPHAN))),
        (&orphan, none.clone(), json!({"other": "x"}), true, Some(json!(ORPHAN))),
        (&orphan, none.clone(), json!({CASCADE_ANNOTATION: "x"}), false, Some(json!(ORPHAN))),
        (&json!({"orphanDependents": true}), none.clone(), none.clone(), false, Some(json!(ORPHAN))),
        (&json!({}), json!([ORPHAN_FINALIZER]), none.clone(), false, Some(json!(ORPHAN))),
        (&none, json!([ORPHAN_FINALIZER]), none.clone(), false, Some(json!(ORPHAN))),
        // An earlier deletion requested to orphan the objects, and another webhook refused it.
        (&json!({}), none.clone(), noted.clone(), false, Some(Value::Null)),
        (
            &json!({"propagationPolicy": "Background"}),
            json!([ORPHAN_FINALIZER]),
            noted.clone(),
            false,
            Some(Value::Null),
        ),
        (&orphan, none.clone(), noted.clone(), false, None),
        (&json!({}), none.clone(), noted.clone(), true, None),
        (&json!({}), none.clone(), none.clone(), false, None),
    ] {
        let mut review = deletion(GLOBAL_OWNERS);
        let request = &mut review["request"];
        request["options"] = options.clone();
        let metadata = &mut request["oldObject"]["metadata"];
        (metadata["finalizers"], metadata["annotations"]) = (finalizers, annotations.clone());
        if terminating {
            metadata["deletionTimestamp"] = json!("2026-11-22T05:00:00Z");
        }
        let bytes = review.to_string();
        let begin = || OwnerEvaluation::begin(&Review::parse(bytes.as_bytes()).unwrap(), bytes.as_bytes()).unwrap();
        let send = begin().send();
        let body = send.map(|send| {
            assert_eq!(send.path, "/apis/globalowner.metacontroller.io/v1alpha1/globalowners/a");
            serde_json::from_slice::<Value>(&send.body).unwrap()["metadata"].clone()
        });
        let expected = written.map(|value| json!({"uid": "o-1", "annotations": {CASCADE_ANNOTATION: value}}));
        assert_eq!(body, expected, "{options} {annotations}");
        if expected.is_some() {
            let decide = |answer: Option<Answer<'_>>| {
                let mut evaluation = begin();
                answer.into_iter().for_each(|answer| evaluation.answer(answer));
                evaluation.decide()
            };
            assert!(decide(Some(Answer::Response { status: 200, body: b"{}" })).allowed());
            for answer in [
                None,
                Some(Answer::Response { status: 403, body: b"{}" }),
                Some(Answer::Response { status: 404, body: b"{}" }),
                Some(Answer::Response { status: 409, body: b"{}" }),
                Some(Answer::Failed("reset")),
                Some(Answer::TooLarge),
            ] {
                assert!(matches!(decide(answer), OwnerDecision::Unnoted(..)), "{answer:?}");
            }
        }
        review["request"]["dryRun"] = json!(true);
        let bytes = review.to_string();
        let dry = OwnerEvaluation::begin(&Review::parse(bytes.as_bytes()).unwrap(), bytes.as_bytes()).unwrap();
        assert!(dry.send().is_none() && dry.decide().allowed());
    }
}

#[test]
fn a_group_owner_goes_last() {
    let still = || OwnerDecision::StillOwns("a".to_owned());
    for (status, decided) in [
        (json!({"phase": EMPTY}), OwnerDecision::OwnsNothing),
        (json!({"phase": RELEASED}), OwnerDecision::OwnsNothing),
        (json!({"phase": "Removing"}), still()),
        (json!({"phase": ""}), still()),
        (json!({"phase": "empty"}), still()),
        (json!({"ownedResources": []}), still()),
        (Value::Null, still()),
    ] {
        let mut review = deletion(GROUP_OWNERS);
        review["request"]["oldObject"]["status"] = status.clone();
        assert_eq!(decide(&review), decided, "{status}");
    }
}

#[test]
fn only_deletions_of_owners_are_looked_at() {
    for (field, value, decided) in [
        ("/request/operation", json!("UPDATE"), OwnerDecision::NotADeletion),
        ("/request/subResource", json!("status"), OwnerDecision::NotADeletion),
        ("/request/resource/resource", json!("pods"), OwnerDecision::NoOwner),
        ("/request/resource/group", json!("other.example.com"), OwnerDecision::NoOwner),
    ] {
        let mut review = deletion(GROUP_OWNERS);
        review["request"]["subResource"] = Value::Null;
        *review.pointer_mut(field).unwrap() = value;
        assert_eq!(decide(&review), decided, "{field}");
        assert!(decided.allowed() && decided.message().is_none());
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    for (field, value, why) in [
        ("/request/oldObject", Value::Null, "no oldObject"),
        ("/request/oldObject/metadata/name", Value::Null, "no name"),
        ("/request/oldObject/metadata/name", json!("a/b"), "its oldObject has an invalid name"),
    ] {
        let mut review = deletion(GLOBAL_OWNERS);
        *review.pointer_mut(field).unwrap() = value;
        let decision = decide(&review);
        assert!(!decision.allowed() && decision.message().unwrap().contains(why), "{decision}");
    }
    let mut odd = deletion(GLOBAL_OWNERS);
    odd["request"]["options"]["propagationPolicy"] = json!({"Foreground": 1});
    // Whatever the review is about, its options decide what happens to owned objects.
    assert!(Review::parse(odd.to_string().as_bytes()).is_err());
}

#[test]
fn a_refusal_says_what_to_use_instead() {
    let mut review = deletion(GLOBAL_OWNERS);
    review["request"]["options"]["propagationPolicy"] = json!("Foreground");
    let message = decide(&review).message().unwrap();
    assert!(message.contains("use --cascade=background") && message.contains("--cascade=orphan"), "{message}");
    let message = decide(&deletion(GROUP_OWNERS)).message().unwrap();
    assert!(message.contains("groupowners/a") && message.contains("delete its GlobalOwner instead"), "{message}");
}
