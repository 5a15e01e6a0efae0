//! Whether what a rule asks for is installed.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::WorkspacePath;

use crate::configuration;
use crate::findings::{Finding, Findings};
use crate::plan::{Place, RulePlan, World};
use crate::status::Outcome;

/// The reason where a newer version's configuration is left to it.
const NEWER: &str = "NewerConfiguration";

/// Whether the targets' configurations are as desired.
pub(crate) fn programmed(world: &World<'_>, rule: &RulePlan<'_>, outcomes: &BTreeMap<Place, Outcome>) -> Finding {
    let mut findings = Findings::default();
    let mut installed = BTreeSet::new();
    let mut reason = "Programmed";
    for target in &rule.targets {
        for provider in &target.refused {
            let (kind, workspace) = (&target.kind, world.display(provider));
            findings.push(Finding::no(
                "RefNotPermitted",
                format!("nothing is installed in workspace {workspace} for {kind}: the rule is not accepted there"),
            ));
        }
        if let (true, Some(export)) = (target.is_unbound(), &target.export) {
            findings.push(Finding::no("Pending", unbound(&export.path)));
        }
        for place in &target.places {
            if world.is_unbinding(place) {
                let place = of_place(world, place);
                findings
                    .push(Finding::no("Unbinding", format!("removed from {place}: its APIBinding is being deleted")));
                continue;
            }
            match problem(world, place, outcomes.get(place)) {
                Some(finding) => findings.push(finding),
                None => {
                    installed.insert(of_place(world, place));
                    if matches!(outcomes.get(place), Some(Outcome::Newer { .. })) {
                        reason = NEWER;
                        let place = of_place(world, place);
                        findings.note(format!("in {place} as a newer version of depguard wrote it, for a while"));
                    }
                }
            }
        }
    }
    let done = match installed.into_iter().collect::<Vec<_>>().as_slice() {
        [] => "there is nothing to install: the rule names no dependency".to_owned(),
        places => format!("installed in {}", places.join(", ")),
    };
    // What somebody must act on comes before what only waits.
    let order =
        ["RefNotPermitted", "ClaimNotAccepted", "ForeignConfiguration", "ApplyFailed", NEWER, "Unbinding", "Pending"];
    findings.sum_up(&order, reason, &done)
}

/// Nobody there lets depguard look. What a provider leaves behind that unbinds, kcp takes away with nothing.
fn unbound(path: &WorkspacePath) -> String {
    format!(
        "nothing can be installed in workspace {path} before it binds, and nobody can see from here what is left there: if \
         it has unbound depguard, delete ValidatingWebhookConfiguration {} there",
        configuration::NAME
    )
}

fn problem(world: &World<'_>, place: &Place, outcome: Option<&Outcome>) -> Option<Finding> {
    let place = of_place(world, place);
    of_outcome(&Installing { name: configuration::NAME, place: &place, export: world.export_name }, outcome)
}

/// What is installed, for messages.
pub(crate) struct Installing<'n> {
    /// The configuration's name.
    pub(crate) name: &'n str,
    /// Where it is to be.
    pub(crate) place: &'n str,
    /// The APIExport whose binding there must accept the claim.
    pub(crate) export: &'n str,
}

/// What keeps a configuration from being in order.
pub(crate) fn of_outcome(installing: &Installing<'_>, outcome: Option<&Outcome>) -> Option<Finding> {
    let Installing { name, place, export } = installing;
    let finding = match outcome {
        Some(Outcome::Installed | Outcome::Newer { in_force: true }) => return None,
        None => Finding::no("Pending", format!("waiting to see the APIBinding in {place}")),
        Some(Outcome::Pending(why)) => Finding::no("Pending", format!("not yet installed in {place}: {why}")),
        Some(Outcome::ClaimNotAccepted) => Finding::no(
            "ClaimNotAccepted",
            format!(
                "claim on validatingwebhookconfigurations not accepted in {place}: accept it in the APIBinding of \
                 {export} there (state: Accepted, selector: matchAll)"
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
                "ValidatingWebhookConfiguration {name} in {place} says that a newer version of depguard wrote it, and it \
                 lacks something: unless that version puts it right, this one soon replaces it"
            ),
        ),
        Some(Outcome::Failed(why)) => {
            Finding::no("ApplyFailed", format!("could not install in {place}, trying again: {why}"))
        }
    };
    Some(finding)
}

/// `workspace root:providers:network`, or `the cluster`.
fn of_place(world: &World<'_>, place: &Place) -> String {
    match place {
        Some(cluster) => format!("workspace {}", world.display(cluster)),
        None => "the cluster".to_owned(),
    }
}
