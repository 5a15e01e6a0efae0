//! Condition `TargetsExist`: the references of a rule's dependents, or some of them, point to targets that exist.

use depguard_core::Rule;
use depguard_core::api::{Condition, DanglingReference, DanglingReferences, MissingObject, OnMissing};
use serde::Deserialize;
use serde_json::Value;

use crate::model::condition::Finding;
use crate::model::reference_count::{
    KIND_NOT_FOUND, NOT_COUNTED, RIGHT_MISSING, ReferenceCount, TOO_MANY, UNCLEAR, Uncounted, WATCH_FAILED,
};

pub(crate) const TARGETS_EXIST: &str = "TargetsExist";
const DANGLING_REFERENCES: &str = "DanglingReferences";
/// Reasons for which the condition is unknown.
const UNKNOWN: [&str; 6] = [KIND_NOT_FOUND, NOT_COUNTED, RIGHT_MISSING, TOO_MANY, UNCLEAR, WATCH_FAILED];

/// Returns the condition and the references without a target, if the rule asks for their count. While the objects are
/// being listed for the first time, `old`, the rule's present status, stays as it is if it is of this generation.
/// `in_no_namespace` tells of which resources the objects are in no namespace.
pub(crate) fn targets_exist(
    rule: &Rule,
    count: Option<&ReferenceCount>,
    in_no_namespace: impl Fn(&str) -> bool,
    old: Option<&Value>,
    generation: Option<i64>,
) -> Option<(Finding, Option<DanglingReferences>)> {
    if rule.edges().iter().all(|edge| edge.on_missing == OnMissing::Ignore) {
        return None;
    }
    match count {
        None | Some(ReferenceCount::Pending) => kept(old?, generation),
        Some(ReferenceCount::Unknown(untold)) => Some((unknown(untold), None)),
        // Nobody knows that it is 0.
        Some(ReferenceCount::AtLeast(DanglingReferences { count: 0, .. }, untold)) => Some((unknown(untold), None)),
        Some(ReferenceCount::AtLeast(dangling, Uncounted { message, .. })) => {
            let dangling = placed(dangling, in_no_namespace);
            let text = format!("at least {}; {message}", said_of_all(&dangling));
            Some((Finding::no(DANGLING_REFERENCES, text), Some(dangling)))
        }
        Some(ReferenceCount::Known(dangling)) => {
            let dangling = placed(dangling, in_no_namespace);
            let finding = match dangling.count {
                0 => Finding::yes(TARGETS_EXIST, "each reference has a target"),
                _ => Finding::no(DANGLING_REFERENCES, said_of_all(&dangling)),
            };
            Some((finding, Some(dangling)))
        }
    }
}

fn unknown(Uncounted { reason, message }: &Uncounted) -> Finding {
    Finding::unknown(reason, message.clone())
}

/// Returns the references without the namespaces of targets that are in none.
fn placed(dangling: &DanglingReferences, in_no_namespace: impl Fn(&str) -> bool) -> DanglingReferences {
    let mut dangling = dangling.clone();
    for MissingObject { resource, namespace, .. } in dangling.first.iter_mut().map(|first| &mut first.target) {
        if in_no_namespace(resource) {
            *namespace = None;
        }
    }
    dangling
}

fn kept(old: &Value, generation: Option<i64>) -> Option<(Finding, Option<DanglingReferences>)> {
    let conditions = old.get("conditions")?.as_array()?;
    let mut conditions = conditions.iter().filter_map(|condition| Condition::deserialize(condition).ok());
    let condition = conditions.find(|condition| condition.type_ == TARGETS_EXIST)?;
    if condition.observed_generation != generation {
        return None;
    }
    let dangling = old.get("danglingReferences").and_then(|dangling| DanglingReferences::deserialize(dangling).ok());
    let finding = match condition.reason.as_str() {
        TARGETS_EXIST => Finding::yes(TARGETS_EXIST, condition.message),
        DANGLING_REFERENCES => Finding::no(DANGLING_REFERENCES, condition.message),
        other => Finding::unknown(UNKNOWN.into_iter().find(|reason| *reason == other)?, condition.message),
    };
    Some((finding, dangling))
}

fn said_of_all(dangling: &DanglingReferences) -> String {
    let first: Vec<_> = dangling.first.iter().map(said).collect();
    let mut text = match dangling.count {
        1 => format!("1 reference has no target: {}", first.join("; ")),
        count => format!("{count} references have no target: {}", first.join("; ")),
    };
    match usize::try_from(dangling.count).unwrap_or(usize::MAX).saturating_sub(first.len()) {
        0 => {}
        more => text.push_str(&format!("; and {more} more")),
    }
    text
}

/// Names a reference: `x/m1 → vpcs.network.example.com x/a (spec.vpcRef.name)`.
fn said(reference: &DanglingReference) -> String {
    let DanglingReference {
        namespace,
        name,
        field,
        target: MissingObject { resource, namespace: within, name: target, uid },
    } = reference;
    let place = |namespace: &Option<String>| namespace.as_ref().map(|it| format!("{it}/")).unwrap_or_default();
    let mut text = format!("{}{name} → {resource} {}{target}", place(namespace), place(within));
    if let Some(uid) = uid {
        text.push_str(&format!(" with UID {uid}"));
    }
    if !field.is_empty() {
        text.push_str(&format!(" ({field})"));
    }
    text
}

#[cfg(test)]
mod tests {
    use depguard_core::ControlPlane;
    use serde_json::json;

    use super::*;

    fn rule(on_missing: &str) -> Rule {
        let object = json!({"metadata": {"name": "a"}, "spec": {
            "dependent": {"group": "c.example.com", "version": "v1", "kind": "VM", "resource": "vms"},
            "dependencies": [{"group": "n.example.com", "version": "v1", "resource": "vpcs",
                "fieldRef": {"path": ".spec.vpc"}, "onMissing": on_missing}],
        }});
        Rule::parse(ControlPlane::Kubernetes, &object).unwrap()
    }

    fn dangling(count: i64) -> DanglingReferences {
        let target = MissingObject {
            resource: "vpcs.n.example.com".to_owned(),
            namespace: Some("x".to_owned()),
            name: "a".to_owned(),
            uid: Some("1".to_owned()),
        };
        let reference = DanglingReference {
            namespace: Some("x".to_owned()),
            name: "m".to_owned(),
            field: "spec.vpc".to_owned(),
            target,
        };
        DanglingReferences { count, first: vec![reference; usize::try_from(count.min(1)).unwrap()] }
    }

    #[test]
    fn it_is_true_only_if_the_number_is_known_to_be_0() {
        let rule = rule("Warn");
        let said = |count| {
            let (finding, shown) = targets_exist(&rule, Some(&count), |_| false, None, Some(1)).unwrap();
            (format!("{} {}: {}", finding.status, finding.reason, finding.message), shown.map(|shown| shown.count))
        };
        let known = |count| said(ReferenceCount::Known(dangling(count)));
        assert_eq!(known(0), ("True TargetsExist: each reference has a target".to_owned(), Some(0)));
        let one = "x/m → vpcs.n.example.com x/a with UID 1 (spec.vpc)";
        assert_eq!(known(1), (format!("False DanglingReferences: 1 reference has no target: {one}"), Some(1)));
        let three = format!("False DanglingReferences: 3 references have no target: {one}; and 2 more");
        assert_eq!(known(3), (three, Some(3)));
        let why = Uncounted { reason: TOO_MANY, message: "so many".to_owned() };
        assert_eq!(said(ReferenceCount::Unknown(why.clone())), ("Unknown TooMany: so many".to_owned(), None));
        let at_least = |count| said(ReferenceCount::AtLeast(dangling(count), why.clone()));
        assert_eq!(at_least(0), ("Unknown TooMany: so many".to_owned(), None));
        let text = format!("False DanglingReferences: at least 1 reference has no target: {one}; so many");
        assert_eq!(at_least(1), (text, Some(1)));
        assert!(
            targets_exist(&self::rule("Ignore"), Some(&ReferenceCount::Pending), |_| false, None, Some(1)).is_none()
        );
    }

    #[test]
    fn while_objects_are_listed_the_last_result_stays_unless_it_is_of_another_generation() {
        let rule = rule("Deny");
        let status = |status, reason| {
            let condition = json!({"type": TARGETS_EXIST, "status": status, "reason": reason, "message": "b",
                "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            json!({"conditions": [condition], "danglingReferences": dangling(3)})
        };
        let kept = |old: &Value, generation| {
            targets_exist(&rule, Some(&ReferenceCount::Pending), |_| false, Some(old), Some(generation))
        };
        let old = status("False", DANGLING_REFERENCES);
        assert_eq!(kept(&old, 2), Some((Finding::no(DANGLING_REFERENCES, "b"), Some(dangling(3)))));
        assert_eq!(kept(&old, 3), None);
        assert_eq!(kept(&json!({}), 2), None);
        assert_eq!(kept(&status("Unknown", TOO_MANY), 2).unwrap().0, Finding::unknown(TOO_MANY, "b"));
        assert_eq!(kept(&status("Unknown", "OfALaterVersion"), 2), None);
    }
}
