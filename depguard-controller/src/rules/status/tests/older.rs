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

#[test]
fn a_rule_without_a_resource_says_where_to_write_what() {
    let mut rule = vm_to_vpc();
    rule["spec"]["dependent"].as_object_mut().unwrap().remove("resource");
    let setting = Setting::from_rule(rule);
    assert_eq!(
        setting.condition("Accepted"),
        "False Invalid: spec.dependent.resource is missing: write the plural name of VirtualMachine that `kubectl \
         api-resources` prints"
    );
    let enforced = setting.condition("Enforced");
    assert_eq!(enforced, "False NotEnforceable: the rule protects nothing: its kinds can't be read");

    let mut rule = vm_to_vpc();
    rule["spec"]["dependencies"][0].as_object_mut().unwrap().remove("resource");
    let accepted = Setting::from_rule(rule).condition("Accepted");
    assert!(accepted.starts_with("False Invalid: spec.dependencies[0].resource is missing: write"), "{accepted}");
}
