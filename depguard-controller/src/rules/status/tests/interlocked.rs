//! Condition `Interlocked`: each part that is not in order keeps the condition from being true.

use std::cell::Cell;
use std::time::Duration;

use depguard_core::interlock::Buckets;
use depguard_core::rule::{RuleKey, RuleVersion};

use super::*;
use crate::interlock::RegisterReadiness;
use crate::probe::result::{ExpectedRule, NOT_ASKED};

pub(super) const SETTLING: Duration = Duration::from_secs(240);
const INTERLOCKED: &str = "True Interlocked: of a new reference and the deletion of its target, at most one is allowed; \
                           excepted: deletions by override, dependents that are being deleted";

/// Returns a rule that refuses on both sides, in a setting in which all parts have been in order for so long.
pub(super) fn in_order_for(time: Duration) -> Setting {
    let mut rule = vm_to_vpc();
    rule["spec"]["dependencies"][0]["onMissing"] = "Deny".into();
    let since = Instant::now();
    let mut setting = Setting::from_rule(rule);
    setting.registers = [Side::Targets, Side::Dependents].map(|side| (side, (4, since))).into();
    setting.interlock = Some(InterlockView {
        buckets: Buckets::new(4).unwrap(),
        settling: SETTLING,
        has_locks: false,
        readiness: RegisterReadiness::Open { since, full: None },
        now: since + time,
        due: Cell::new(None),
    });
    setting
}

fn dependency(setting: &mut Setting) -> &mut Value {
    &mut setting.rules[0]["spec"]["dependencies"][0]
}

fn said(edit: impl FnOnce(&mut Setting)) -> String {
    let mut setting = in_order_for(SETTLING);
    edit(&mut setting);
    setting.condition("Interlocked")
}

#[test]
fn it_is_true_once_all_parts_were_in_order_for_long_enough_and_no_sooner() {
    assert_eq!(in_order_for(SETTLING).condition("Interlocked"), INTERLOCKED);
    let setting = in_order_for(SETTLING - Duration::from_millis(1));
    assert!(setting.condition("Interlocked").starts_with("False Waiting: all webhooks that answer record marks"));
    assert!(setting.condition("Interlocked").contains("for 240 s"));
}

#[test]
fn the_part_that_was_in_order_last_decides() {
    let late = Duration::from_millis(1);
    let waits = |edit: &dyn Fn(&mut Setting)| assert!(said(|setting| edit(setting)).starts_with("False Waiting"));
    waits(&|setting| setting.registers.values_mut().next().unwrap().1 += late);
    waits(&|setting| setting.registers.values_mut().last().unwrap().1 += late);
    waits(&|setting| {
        let view = setting.interlock.as_mut().unwrap();
        view.readiness = RegisterReadiness::Open { since: view.now - SETTLING + late, full: None };
    });
}

#[test]
fn a_part_that_is_not_in_order_is_named() {
    let not_open = RegisterReadiness::NotOpen { why: "ReferenceRegister bucket-1-of-4 is closed".to_owned() };
    let said_of_registers = said(|setting| setting.interlock.as_mut().unwrap().readiness = not_open);
    assert_eq!(said_of_registers, "False RegistersNotOpen: ReferenceRegister bucket-1-of-4 is closed");
    for side in [Side::Targets, Side::Dependents] {
        let off = said(|setting| setting.registers.get_mut(&side).unwrap().0 = 0);
        assert!(off.starts_with("False OtherRegisters: a webhook interlocks nothing: start it with"), "{off}");
        let other = said(|setting| setting.registers.get_mut(&side).unwrap().0 = 5);
        assert!(other.starts_with("False OtherRegisters: a webhook interlocks by 5 registers"), "{other}");
        // No series of probes: the last probe found something else, or there was none.
        let unasked = said(|setting| _ = setting.registers.remove(&side));
        assert!(unasked.starts_with("Unknown NotAsked"), "{unasked}");
    }
    let not_installed = said(|setting| setting.outcome = Outcome::Failed("403".to_owned()));
    assert!(not_installed.starts_with("False NotEnforced: the rule is not enforced: "), "{not_installed}");
}

#[test]
fn a_full_register_is_told_and_breaks_no_promise() {
    let said = said(|setting| {
        let RegisterReadiness::Open { full, .. } = &mut setting.interlock.as_mut().unwrap().readiness else { panic!() };
        *full = Some(Buckets::new(4).unwrap().registers().next().unwrap());
    });
    let full = "ReferenceRegister bucket-0-of-4 is full, so requests about its targets are put off";
    assert_eq!(said, format!("{INTERLOCKED}; {full}"));
}

#[test]
fn an_answer_that_is_late_changes_nothing_and_another_replica_does() {
    let in_force = in_order_for(SETTLING).registers;
    let with = |change: &dyn Fn(&mut ProbeResult)| {
        said(|setting| {
            let rule = &setting.rules[0];
            let key = RuleKey { cluster: Some(cluster("compute")), name: "a".to_owned() };
            let expected = ExpectedRule { policy: FailurePolicy::Fail, version: RuleVersion::of(rule) };
            let mut result = super::in_force(&[(key, expected)].into(), in_force.get(&Side::Dependents));
            change(&mut result);
            setting.of_dependents.1 = Some(result);
        })
    };
    let late = |result: &mut ProbeResult| {
        result.problem = Some(Finding::unknown(NOT_ASKED, "could not read the webhook configuration back: no answer"));
    };
    assert_eq!(with(&late), INTERLOCKED);
    // The prober tells nothing of the rule once nobody has answered for too long.
    let silent = with(&|result| {
        late(result);
        result.steady.clear();
    });
    assert!(silent.starts_with("Unknown EnforcementUnknown: the rule is not enforced: could not read"), "{silent}");
    let without = with(&|result| {
        for (loaded, _) in result.steady.values_mut() {
            let other = loaded[0].clone().interlocked_by(0);
            loaded.push(other);
        }
    });
    assert!(without.starts_with("False OtherRegisters: a webhook interlocks nothing"), "{without}");
    let asked_by_anybody = with(&|result| {
        for (loaded, _) in result.steady.values_mut() {
            let other = loaded[0].clone().authenticated(false);
            loaded.push(other);
        }
    });
    assert!(
        asked_by_anybody.starts_with("False ReviewsNotAuthenticated: a webhook records marks"),
        "{asked_by_anybody}"
    );
}

#[test]
fn a_rule_that_can_not_be_interlocked_says_why() {
    let by = |edit: &dyn Fn(&mut Value)| said(|setting| edit(dependency(setting)));
    let warns = by(&|dependency| dependency["onDelete"] = "Warn".into());
    assert!(warns.starts_with("False DeletionAllowed: spec.dependencies[0]: only onDelete: Deny"), "{warns}");
    let ignored = said(|setting| setting.rules[0]["spec"]["failurePolicy"] = "Ignore".into());
    assert!(ignored.starts_with("False FailurePolicyIgnore: "), "{ignored}");
    let of_pods = by(&|dependency| {
        dependency["group"] = "".into();
        dependency["resource"] = "pods".into();
        dependency["apiExportRef"].take();
    });
    assert!(of_pods.starts_with("False Pods: spec.dependencies[0]: evictions"), "{of_pods}");
    // API servers write a namespace's phase, or an approval, by themselves.
    let status = said(|setting| {
        setting.rules[0]["spec"]["dependent"]["group"] = "apps".into();
        dependency(setting)["fieldRef"]["path"] = ".status.vpc".into();
    });
    assert!(status.starts_with("False Status: "), "{status}");
    let of_custom = by(&|dependency| dependency["fieldRef"]["path"] = ".status.vpc".into());
    assert!(!of_custom.contains("Status:"), "{of_custom}");
    // Dependents without namespaces mean a VPC of each namespace.
    let of_each = said(|setting| {
        setting.seen.push(("virtualmachines", facts("virtualmachines", |facts| facts.namespaced = false)));
    });
    assert!(of_each.starts_with("False NoSingleTarget: "), "{of_each}");
    let unknown = said(|setting| setting.seen.push(("virtualmachines", KindState::Unknown("403".to_owned()))));
    assert!(unknown.starts_with("Unknown KindUnknown: ") || unknown.starts_with("False NotEnforced"), "{unknown}");
}

/// Adds a rule by which the VPCs of this workspace's export refer to virtual machines.
pub(super) fn refer_back(setting: &mut Setting, cluster: &str) {
    let mut back = rule(cluster, "back", &[("root:compute", "virtualmachines.compute.example.com")]);
    back["spec"]["dependencies"][0]["apiExportRef"]["name"] = "compute.example.com".into();
    back["spec"]["dependent"] = json!({
        "apiExportName": "network.example.com", "group": "network.example.com", "version": "v1alpha1", "kind": "VPC",
        "resource": "vpcs",
    });
    back["spec"]["dependencies"][0]["onMissing"] = "Deny".into();
    setting.rules.push(back);
}

#[test]
fn kinds_that_refer_to_each_other_are_not_interlocked() {
    let cycle = said(|setting| refer_back(setting, "network"));
    assert!(cycle.starts_with("False Cycle: spec.dependencies[0]: these kinds refer to each other"), "{cycle}");
}

#[test]
fn kinds_of_the_same_names_from_a_stranger_close_no_cycle() {
    let stranger = said(|setting| {
        setting.bindings.push(binding("evil", "root:evil"));
        refer_back(setting, "evil");
    });
    assert_eq!(stranger, INTERLOCKED);
}

#[test]
fn owned_dependents_that_something_may_keep_are_not_interlocked() {
    let ignore = |setting: &mut Setting| dependency(setting)["ownedDependents"] = "Ignore".into();
    let free = said(ignore);
    assert_eq!(free, format!("{INTERLOCKED}, owned dependents that a finalizer or another webhook keeps"));
    let locked = said(|setting| {
        ignore(setting);
        setting.interlock.as_mut().unwrap().has_locks = true;
    });
    let why =
        "with ownedDependents: Ignore, a lock may keep virtualmachines.compute.example.com after the owner is gone";
    assert_eq!(locked, format!("False OwnedDependents: spec.dependencies[0]: {why}"));
    let referenced = said(|setting| {
        ignore(setting);
        refer_back(setting, "network");
        setting.rules[1]["spec"]["dependencies"][0]["onMissing"] = "Warn".into();
    });
    assert!(referenced.contains("OwnedDependents: spec.dependencies[0]: with ownedDependents: Ignore, a rule may"));
    // Without the field each dependent keeps its target.
    assert_eq!(said(|setting| setting.interlock.as_mut().unwrap().has_locks = true), INTERLOCKED);
}

#[test]
fn on_kubernetes_the_cases_that_nobody_reviews_are_told() {
    let mut setting = in_order_for(SETTLING);
    setting.control_plane = ControlPlane::Kubernetes;
    setting.own_namespace = Some("depguard-system".to_owned());
    let rule = &mut setting.rules[0];
    rule["metadata"].as_object_mut().unwrap().remove("annotations");
    rule["spec"]["dependent"].as_object_mut().unwrap().remove("apiExportName");
    let target = &mut rule["spec"]["dependencies"][0];
    target.as_object_mut().unwrap().remove("apiExportRef");
    target["group"] = "".into();
    target["resource"] = "secrets".into();
    let cases = "objects in namespace depguard-system, the Secrets of Helm's releases";
    assert_eq!(setting.condition("Interlocked"), format!("{INTERLOCKED}, {cases}"));
}

#[test]
fn an_edge_that_is_only_checked_is_named_beside_one_that_is_interlocked() {
    let said = said(|setting| {
        let mut other = dependency(setting).clone();
        other["onDelete"] = "Audit".into();
        other["fieldRef"]["path"] = ".spec.open.vpc".into();
        setting.rules[0]["spec"]["dependencies"].as_array_mut().unwrap().push(other);
    });
    let expected = "; not so spec.dependencies[1]: only onDelete: Deny refuses deletions";
    assert_eq!(said, format!("{INTERLOCKED}{expected}"));
}

#[test]
fn a_rule_that_looks_for_no_target_has_no_such_condition() {
    let mut setting = in_order_for(SETTLING);
    dependency(&mut setting)["onMissing"] = "Warn".into();
    let object = setting.changed().remove(0);
    let conditions = object["status"]["conditions"].as_array().unwrap();
    assert!(!conditions.iter().any(|condition| condition["type"] == "Interlocked"), "{conditions:?}");
    let mut off = in_order_for(SETTLING);
    off.interlock = None;
    let object = off.changed().remove(0);
    let conditions = object["status"]["conditions"].as_array().unwrap();
    assert!(!conditions.iter().any(|condition| condition["type"] == "Interlocked"), "{conditions:?}");
}
