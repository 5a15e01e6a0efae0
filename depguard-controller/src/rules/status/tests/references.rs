//! References that are checked when they are made: both sides must be in order before a condition is true.

use super::*;
use crate::probe::result::{CONFIGURATION_CHANGED, WEBHOOK_UNREACHABLE};
use crate::testing::looking;

fn setting(on_missing: &str) -> Setting {
    Setting::from_rule(looking(rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")]), on_missing))
}

/// Returns the setting with this result of probing the configuration about dependents.
fn probed(result: ProbeResult) -> Setting {
    Setting { of_dependents: (None, Some(result)), ..setting("Deny") }
}

#[test]
fn both_sides_are_named_where_both_are_in_force() {
    let deletions = "depguard refuses deletions of vpcs.network.example.com while dependents refer to them";
    let (dependents, targets) = ("virtualmachines.compute.example.com", "vpcs.network.example.com");
    for (on_missing, effect, exception) in [
        ("Deny", "depguard refuses to create or change", " (where such references form a cycle, it warns)"),
        ("Warn", "depguard warns about creations and changes of", ""),
        ("Audit", "depguard records creations and changes of", ""),
    ] {
        let expected =
            format!("True Enforced: {deletions}; {effect} {dependents} that refer to missing {targets}{exception}");
        assert_eq!(setting(on_missing).condition("Enforced"), expected);
        let programmed = setting(on_missing).condition("Programmed");
        assert_eq!(
            programmed,
            "True Programmed: installed in workspace root:compute, workspace root:providers:network"
        );
    }
    assert_eq!(setting("Ignore").condition("Enforced"), format!("True Enforced: {deletions}"));
    assert_eq!(
        setting("Ignore").condition("Programmed"),
        "True Programmed: installed in workspace root:providers:network"
    );
}

#[test]
fn without_the_configuration_about_dependents_nothing_is_well() {
    for (outcome, expected) in [
        (Outcome::Failed("403".to_owned()), "False ApplyFailed: could not install in workspace root:compute"),
        (Outcome::Pending("later".to_owned()), "False Pending: not yet installed in workspace root:compute"),
        (Outcome::ClaimNotAccepted, "False ClaimNotAccepted: workspace root:compute has not accepted"),
        (
            Outcome::Foreign,
            "False ForeignConfiguration: ValidatingWebhookConfiguration dependency-references in workspace root:compute",
        ),
        (
            Outcome::Newer { in_force: false },
            "False NewerConfiguration: a newer version of depguard wrote ValidatingWebhookConfiguration \
             dependency-references in workspace root:compute",
        ),
    ] {
        let setting = Setting { of_dependents: (Some(outcome), None), ..setting("Warn") };
        let programmed = setting.condition("Programmed");
        assert!(programmed.starts_with(expected), "{programmed}");
        let enforced = setting.condition("Enforced");
        assert!(enforced.starts_with("False NotProgrammed: "), "{enforced}");
    }
}

#[test]
fn a_workspace_without_a_binding_of_depguard_has_no_references_checked() {
    let mut setting = setting("Deny");
    setting.bindings.remove(0);
    let programmed = setting.condition("Programmed");
    assert!(programmed.starts_with("False Pending: waiting for the APIBinding in "), "{programmed}");
    let enforced = setting.condition("Enforced");
    assert!(enforced.starts_with("False NotProgrammed: "), "{enforced}");
}

#[test]
fn a_webhook_that_does_not_check_references_is_not_taken_for_one_that_does() {
    let nothing =
        ProbeResult { loaded: [(FailurePolicy::Fail, Ok(vec![BTreeMap::new()]))].into(), ..ProbeResult::default() };
    let unreachable = ProbeResult {
        loaded: [(FailurePolicy::Fail, Err(Finding::no(WEBHOOK_UNREACHABLE, "404")))].into(),
        ..ProbeResult::default()
    };
    let changed = ProbeResult::of_problem(Finding::no(CONFIGURATION_CHANGED, "somebody changed it"));
    for (result, expected) in [
        (nothing, "False NotLoaded: the webhook has not loaded the rule"),
        (unreachable, "False WebhookUnreachable: 404"),
        (changed, "False ConfigurationChanged: somebody changed it"),
        (ProbeResult::default(), "Unknown NotAsked: depguard is asking the webhook whether it has loaded the rule"),
    ] {
        assert_eq!(probed(result).condition("Enforced"), expected);
    }
}

#[test]
fn a_rule_that_cannot_be_used_says_what_it_refuses() {
    let broken = |on_missing| {
        let mut rule = looking(rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")]), on_missing);
        rule["spec"]["dependencies"][0]["fieldRef"]["path"] = json!("..");
        rule
    };
    let refused = "False NotEnforceable: until the rule is corrected, deletions of vpcs.network.example.com are refused \
                   where it applies; creations and changes of virtualmachines.compute.example.com ";
    for (on_missing, outcome) in [
        ("Deny", "are refused where it applies"),
        ("unknown", "are refused where it applies"),
        ("Warn", "are allowed with a warning"),
        ("Audit", "are recorded"),
    ] {
        let enforced = Setting::from_rule(broken(on_missing)).condition("Enforced");
        assert_eq!(enforced, format!("{refused}{outcome}"));
    }
    let mut rule = broken("Deny");
    rule["spec"]["failurePolicy"] = json!("Ignore");
    let enforced = Setting::from_rule(rule.clone()).condition("Enforced");
    assert_eq!(enforced.matches("are allowed as if the rule did not exist (failurePolicy: Ignore)").count(), 2);
    // Only the dependents can be read.
    rule["spec"]["dependencies"][0]["resource"] = json!("..");
    let setting = Setting::from_rule(rule);
    let enforced = setting.condition("Enforced");
    assert!(enforced.contains("corrected, creations and changes of virtualmachines"), "{enforced}");
    assert_eq!(setting.condition("Programmed"), "True Programmed: installed in workspace root:compute");
}
