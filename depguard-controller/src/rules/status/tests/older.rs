//! Statuses of rules in the forms that older tools had.

use super::*;

#[test]
fn a_target_without_an_export_is_noted_if_the_dependents_have_one() {
    let mut rule = vm_to_vpc();
    rule["spec"]["dependencies"][0].as_object_mut().unwrap().remove("apiExportRef");
    let note = "everything that the rule names exists; spec.dependencies[0] has no apiExportRef, so the rule protects \
                vpcs.network.example.com in its own workspace only";
    let resolved = Setting::from_rule(rule.clone()).condition("ResolvedRefs");
    assert!(resolved.starts_with(&format!("True ResolvedRefs: {note}")), "{resolved}");

    rule["spec"]["dependencies"][0]["group"] = json!("");
    let resolved = Setting::from_rule(rule).condition("ResolvedRefs");
    assert_eq!(resolved, "True ResolvedRefs: everything that the rule names exists");
    let resolved = Setting::from_rule(vm_to_vpc()).condition("ResolvedRefs");
    assert_eq!(resolved, "True ResolvedRefs: everything that the rule names exists");
}
