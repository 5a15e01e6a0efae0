//! Condition `Interlocked`: each part that is not in order keeps the condition from being true.

use std::cell::Cell;
use std::time::Duration;

use depguard_core::interlock::Buckets;

use super::*;
use crate::interlock::RegisterReadiness;

const SETTLING: Duration = Duration::from_secs(240);
const INTERLOCKED: &str = "True Interlocked: of a new reference and the deletion of its target, at most one is allowed";

/// Returns a rule that refuses on both sides, in a setting in which all parts have been in order for so long.
fn in_order_for(time: Duration) -> Setting {
    let mut rule = vm_to_vpc();
    rule["spec"]["dependencies"][0]["onMissing"] = "Deny".into();
    let since = Instant::now();
    let mut setting = Setting::from_rule(rule);
    setting.registers = [Side::Targets, Side::Dependents].map(|side| (side, (4, since))).into();
    setting.interlock = Some(InterlockView {
        buckets: Buckets::new(4).unwrap(),
        settling: SETTLING,
        readiness: RegisterReadiness::Open { since },
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
        view.readiness = RegisterReadiness::Open { since: view.now - SETTLING + late };
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
    // Dependents without namespaces mean a VPC of each namespace.
    let of_each = said(|setting| {
        setting.seen.push(("virtualmachines", facts("virtualmachines", |facts| facts.namespaced = false)));
    });
    assert!(of_each.starts_with("False NoSingleTarget: "), "{of_each}");
    let unknown = said(|setting| setting.seen.push(("virtualmachines", KindState::Unknown("403".to_owned()))));
    assert!(unknown.starts_with("Unknown KindUnknown: ") || unknown.starts_with("False NotEnforced"), "{unknown}");
}

#[test]
fn kinds_that_refer_to_each_other_are_not_interlocked() {
    let cycle = said(|setting| {
        let mut back = rule("network", "back", &[(NETWORK, "virtualmachines.compute.example.com")]);
        back["spec"]["dependent"] = json!({
            "apiExportName": "network", "group": "network.example.com", "version": "v1alpha1", "kind": "VPC",
            "resource": "vpcs",
        });
        back["spec"]["dependencies"][0]["onMissing"] = "Deny".into();
        setting.rules.push(back);
    });
    assert!(cycle.starts_with("False Cycle: spec.dependencies[0]: these kinds refer to each other"), "{cycle}");
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
