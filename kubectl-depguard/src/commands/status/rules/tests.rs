use serde_json::json;

use super::*;
use crate::io::terminal::Terminal;

#[test]
fn what_is_said_of_an_older_rule_does_not_count() {
    let rule = |generation: i64, status: &str| {
        json!({
            "metadata": {"name": "vm", "generation": generation, "creationTimestamp": "2026-01-01T00:04:00Z"},
            "status": {"conditions": [
                {"type": "Enforced", "status": status, "reason": "R", "observedGeneration": 1,
                    "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "m"},
                {"type": "Accepted", "status": "True", "reason": "Accepted", "observedGeneration": 1},
            ]},
        })
    };
    assert!(RuleStatus::from_rule(&rule(1, "True")).enforced);
    assert!(!RuleStatus::from_rule(&rule(2, "True")).enforced);
    assert!(!RuleStatus::from_rule(&rule(1, "False")).enforced);
    assert!(!RuleStatus::from_rule(&rule(1, "Unknown")).enforced);
    assert!(!RuleStatus::from_rule(&json!({"metadata": {"name": "vm"}})).enforced);
    let now = "2026-01-01T00:05:00Z".parse().unwrap();
    let shown = table(&[RuleStatus::from_rule(&rule(1, "False"))], now).render(&Terminal::captured("").0);
    assert!(shown.ends_with("vm     True       Unknown    Unknown      False (R)   60s\n"), "{shown}");
    let shown = table(&[RuleStatus::from_rule(&rule(1, "Unknown"))], now).render(&Terminal::captured("").0);
    assert!(shown.ends_with("vm     True       Unknown    Unknown      Unknown (R)   60s\n"), "{shown}");
    let shown = wide(&[RuleStatus::from_rule(&rule(2, "True")), RuleStatus::from_rule(&json!({}))], now)
        .render(&Terminal::captured("").0);
    assert!(
        shown.contains("Enforced    True      R          5m    (about an earlier version of the rule) m"),
        "{shown}"
    );
    assert!(shown.contains("no controller has checked it yet"), "{shown}");
}

#[test]
fn missing_targets_show_in_a_column_of_their_own_once_a_rule_is_counted() {
    let counted = json!({"metadata": {"name": "vm"}, "status": {"conditions": [
        {"type": "TargetsExist", "status": "False", "reason": "DanglingReferences"},
    ]}});
    let rules = [counted, json!({"metadata": {"name": "other"}})].map(|rule| RuleStatus::from_rule(&rule));
    let shown = |rules: &[RuleStatus]| table(rules, Timestamp::UNIX_EPOCH).render(&Terminal::captured("").0);
    let both = shown(&rules);
    assert!(both.contains("ENFORCED   TARGETS EXIST                AGE"), "{both}");
    assert!(both.contains("False (DanglingReferences)"), "{both}");
    assert!(!shown(&rules[1..]).contains("TARGETS EXIST"));
}

/// Returns a rule of generation 1 with all conditions true, and `Interlocked` as given, of the same generation or none.
fn interlocked(status: &str, reason: &str, generation: u8) -> RuleStatus {
    let condition = |name: &str| json!({"type": name, "status": "True", "reason": name, "observedGeneration": 1});
    let mut conditions: Vec<_> = CONDITIONS.into_iter().map(condition).collect();
    if !status.is_empty() {
        conditions
            .push(json!({"type": "Interlocked", "status": status, "reason": reason, "observedGeneration": generation}));
    }
    RuleStatus::from_rule(&json!({
        "metadata": {"name": "vm", "generation": 1},
        "spec": {"dependencies": [{"group": "", "resource": "secrets"}]},
        "status": {"conditions": conditions},
    }))
}

#[test]
fn the_interlock_shows_in_a_column_of_its_own_once_a_rule_has_it() {
    let shown = |rules: &[RuleStatus]| table(rules, Timestamp::UNIX_EPOCH).render(&Terminal::captured("").0);
    let (without, waiting) = (interlocked("", "", 1), interlocked("False", "Waiting", 1));
    let both = shown(&[without.clone(), waiting]);
    assert!(both.contains("ENFORCED   INTERLOCKED       AGE"), "{both}");
    assert!(both.contains("True       False (Waiting)"), "{both}");
    assert!(!shown(&[without]).contains("INTERLOCKED"));
    assert_eq!(tone_of_status("False (Waiting)"), Some(Tone::Warning));
    assert_eq!(tone_of_status("False (RegistersNotOpen)"), Some(Tone::Bad));
}

#[test]
fn a_rule_that_is_not_interlocked_is_not_well_unless_it_only_waits() {
    for (status, reason, generation, well) in [
        ("", "", 1, true),
        ("True", "Interlocked", 1, true),
        ("False", "Waiting", 1, true),
        ("False", "Waiting", 0, false),
        ("True", "Interlocked", 0, false),
        ("False", "Pods", 1, true),
        ("False", "OwnedDependents", 1, true),
        ("False", "Pods", 0, false),
        ("False", "RegistersNotOpen", 1, false),
        ("Unknown", "NotAsked", 1, false),
    ] {
        assert_eq!(interlocked(status, reason, generation).is_well(), well, "{status} {reason} {generation}");
    }
    let rules = vec![interlocked("True", "Interlocked", 1)];
    let mut found = RuleInventory { rules, all_configurations: true, ..RuleInventory::default() };
    found.correct_by_configurations(ControlPlane::Kubernetes);
    let said = found.rules[0].condition("Interlocked").unwrap();
    assert_eq!((&*said.status, &*said.reason), ("False", "NotInstalled"));
}

#[test]
fn a_rule_that_sleeps_is_well_unless_something_else_is_wrong() {
    let sleeping = |edit: fn(&mut Value)| {
        let condition = |name: &str, status: &str, reason: &str| json!({"type": name, "status": status, "reason": reason, "observedGeneration": 1});
        let mut conditions = json!([
            condition("Accepted", "True", "Accepted"),
            condition("ResolvedRefs", "False", "Dormant"),
            condition("Programmed", "True", "Programmed"),
            condition("Enforced", "False", "Dormant"),
            condition("Interlocked", "False", "NotEnforced"),
        ]);
        edit(&mut conditions);
        let rule = json!({"metadata": {"name": "vm", "generation": 1}, "status": {"conditions": conditions}});
        let rule = RuleStatus::from_rule(&rule);
        (rule.is_well(), rule.sleeps(), rule.enforced)
    };
    assert_eq!(sleeping(|_| ()), (true, true, false));
    let edits: [fn(&mut Value); 5] = [
        |conditions| conditions[0]["status"] = json!("False"),
        |conditions| conditions[1]["reason"] = json!("KindNotFound"),
        |conditions| conditions[2]["status"] = json!("Unknown"),
        |conditions| conditions[3]["reason"] = json!("NotEnforceable"),
        |conditions| conditions[3]["observedGeneration"] = json!(0),
    ];
    for edit in edits {
        assert_eq!(sleeping(edit), (false, false, false));
    }
    assert_eq!(tone_of_status("False (Dormant)"), Some(Tone::Warning));
}

#[test]
fn a_rule_whose_references_no_configuration_covers_is_not_enforced() {
    let rule = |on_missing: Value| {
        json!({
            "metadata": {"name": "vm", "generation": 1},
            "spec": {
                "dependent": {"group": "compute.example.com", "resource": "machines"},
                "dependencies": [{"group": "", "resource": "secrets", "onMissing": on_missing}],
            },
            "status": {"conditions": [{"type": "Enforced", "status": "True", "observedGeneration": 1}]},
        })
    };
    let configuration = |name: &str, operation: &str, group: &str, resource: &str| {
        let rule = json!({"operations": [operation], "apiGroups": [group], "resources": [resource]});
        json!({"metadata": {"name": name}, "webhooks": [{"rules": [rule]}]})
    };
    let of_targets = configuration("dependency-controller", "DELETE", "", "secrets");
    let of_dependents = configuration("dependency-references", "CREATE", "compute.example.com", "machines");
    let foreign = configuration("foreign", "CREATE", "compute.example.com", "machines");
    let found = |on_missing, configurations: &[&Value]| {
        let mut found = RuleInventory {
            objects: None,
            rules: vec![RuleStatus::from_rule(&rule(on_missing))],
            configurations: configurations.iter().copied().cloned().collect(),
            all_configurations: true,
            is_elsewhere: false,
        };
        found.correct_by_configurations(ControlPlane::Kubernetes);
        found.rules.remove(0)
    };
    for on_missing in ["Audit", "Warn", "Deny"] {
        assert!(found(json!(on_missing), &[&of_targets, &of_dependents]).enforced);
        let uncovered = found(json!(on_missing), &[&of_targets, &foreign]);
        assert!(!uncovered.enforced);
        let said = &uncovered.conditions[0].message;
        assert!(said.contains("covers creations of machines.compute.example.com"), "{said}");
    }
    for on_missing in [json!("Ignore"), Value::Null] {
        assert!(found(on_missing, &[&of_targets]).enforced);
    }
    assert!(!found(json!("Deny"), &[&of_dependents]).enforced);
}
