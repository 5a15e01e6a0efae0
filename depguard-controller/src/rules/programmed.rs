//! Condition `Programmed`: the configurations that a rule asks for are installed.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::WorkspacePath;

use crate::model::condition::{Finding, Findings};
use crate::model::configuration_key::{ConfigurationKey, Side};
use crate::model::install_outcome::Outcome;
use crate::model::install_place::InstallPlace;
use crate::rules::plan::{PlanInput, RulePlan};

/// Reason of the condition while a configuration is left to a newer version.
const NEWER: &str = "NewerConfiguration";

/// Returns the condition: true if the configurations of both sides are as desired.
pub(crate) fn programmed(
    input: &PlanInput<'_>,
    rule: &RulePlan,
    outcomes: &BTreeMap<ConfigurationKey, Outcome>,
) -> Finding {
    let mut findings = Findings::default();
    let mut installed = BTreeSet::new();
    let mut reason = "Programmed";
    for target in &rule.targets {
        for provider in &target.refused {
            let (kind, workspace) = (&target.kind, input.display(provider));
            findings.push(Finding::no(
                "RefNotPermitted",
                format!(
                    "no webhook configuration is installed in workspace {workspace} for {kind}: the workspace \
                         does not accept the rule"
                ),
            ));
        }
        if let (true, Some(export)) = (target.is_unbound(), &target.export) {
            findings.push(Finding::no("Pending", unbound(&export.path)));
        }
    }
    for key in rule.configurations() {
        let place = of_place(input, &key.place);
        if input.is_unbinding(&key.place) {
            findings.push(Finding::no(
                "Unbinding",
                format!("the configuration was removed from {place}: the APIBinding there is being deleted"),
            ));
            continue;
        }
        let installing = Installing { name: key.side.configuration(), place: &place, export: input.export_name };
        if let Some(finding) = of_outcome(&installing, outcomes.get(&key)) {
            findings.push(finding);
            continue;
        }
        if matches!(outcomes.get(&key), Some(Outcome::Newer { .. })) {
            reason = NEWER;
            findings.note(format!(
                "a newer version of depguard wrote the configuration in {place}, which stays for a while"
            ));
        }
        installed.insert(place);
    }
    let done = match installed.into_iter().collect::<Vec<_>>().as_slice() {
        [] => "there is nothing to install: the rule names no dependency".to_owned(),
        places => format!("installed in {}", places.join(", ")),
    };
    // Reasons on which somebody must act come before those that only wait.
    let order =
        ["RefNotPermitted", "ClaimNotAccepted", "ForeignConfiguration", "ApplyFailed", NEWER, "Unbinding", "Pending"];
    findings.sum_up(&order, reason, &done)
}

/// Returns the message about a path at which no workspace has bound depguard. A workspace that unbinds may leave a
/// configuration behind, which kcp never removes, and depguard can't see it.
fn unbound(path: &WorkspacePath) -> String {
    format!(
        "depguard can install nothing in workspace {path} before the workspace binds depguard, and can't see what is \
         left there: if the workspace has unbound depguard, delete ValidatingWebhookConfiguration {} there",
        Side::Targets.configuration()
    )
}

/// Configuration to install, for messages.
pub(crate) struct Installing<'n> {
    /// Name of the configuration.
    pub(crate) name: &'n str,
    /// Place of the configuration.
    pub(crate) place: &'n str,
    /// APIExport whose binding in this place must accept the claim.
    pub(crate) export: &'n str,
}

/// Returns the finding about a configuration that is not in order; `None` if it is.
pub(crate) fn of_outcome(installing: &Installing<'_>, outcome: Option<&Outcome>) -> Option<Finding> {
    let Installing { name, place, export } = installing;
    let finding = match outcome {
        Some(Outcome::Installed | Outcome::Newer { in_force: true }) => return None,
        None => Finding::no("Pending", format!("waiting for the APIBinding in {place}")),
        Some(Outcome::Pending(why)) => Finding::no("Pending", format!("not yet installed in {place}: {why}")),
        Some(Outcome::ClaimNotAccepted) => Finding::no(
            "ClaimNotAccepted",
            format!(
                "{place} has not accepted the claim on validatingwebhookconfigurations: accept it in the APIBinding \
                 of {export} there (state: Accepted, selector: matchAll)"
            ),
        ),
        Some(Outcome::Foreign) => Finding::no(
            "ForeignConfiguration",
            format!(
                "ValidatingWebhookConfiguration {name} in {place} is not depguard's and was left alone: delete or \
                 rename it, or label it app.kubernetes.io/managed-by=depguard to hand it over"
            ),
        ),
        Some(Outcome::Newer { in_force: false }) => Finding::no(
            NEWER,
            format!(
                "a newer version of depguard wrote ValidatingWebhookConfiguration {name} in {place}, and it lacks \
                 something: unless that version corrects it, this version soon replaces it"
            ),
        ),
        Some(Outcome::Failed(why)) => {
            Finding::no("ApplyFailed", format!("could not install in {place}, trying again: {why}"))
        }
    };
    Some(finding)
}

/// Returns `workspace root:providers:network`, or `the cluster`.
fn of_place(input: &PlanInput<'_>, place: &InstallPlace) -> String {
    match place {
        Some(cluster) => format!("workspace {}", input.display(cluster)),
        None => "the cluster".to_owned(),
    }
}
