//! Condition `Accepted`: the rule is valid, its paths lead somewhere, and API servers ask webhooks about its kinds.

use depguard_core::Rule;
use depguard_core::model::GroupResource;
use depguard_core::protocol::Unreviewed;

use crate::model::condition::{Finding, Findings};
use crate::schema::rule_check::{self, Schema, SchemaFit};

/// Returns the condition of a valid rule: true if the rule's paths lead somewhere in its dependents, and API servers ask
/// webhooks about its kinds. `schema` is that of the dependents, if it is known.
pub(crate) fn accepted(parsed: &Rule, schema: Option<&Schema>) -> Finding {
    let mut findings = Findings::default();
    for (field, why) in unreviewed(parsed) {
        findings.push(Finding::no("NotReviewed", format!("{field} has no effect: {why}")));
    }
    match schema {
        None => {
            let dependents = rule_check::name(&parsed.dependent().gvr);
            findings.note(format!("the paths were not checked: the schema of {dependents} is not known"));
        }
        Some(schema) => {
            for path in rule_check::paths(parsed, schema) {
                match path.fit {
                    SchemaFit::Fits => {}
                    SchemaFit::Open => findings.note(path.to_string()),
                    SchemaFit::Missing(_) | SchemaFit::Other(_) => {
                        findings.push(Finding::no("FieldNotFound", path.to_string()));
                    }
                }
            }
        }
    }
    findings.sum_up(&["NotReviewed"], "Accepted", "the rule is well formed")
}

/// Returns the fields of a rule that name kinds about which API servers ask no webhook, each with the reason.
pub(crate) fn unreviewed(parsed: &Rule) -> Vec<(String, String)> {
    let dependent = parsed.dependent().gvr.group_resource();
    let stored = |kind: &GroupResource| Unreviewed::from_kind(kind) != Some(Unreviewed::Answers);
    let dependent = (!stored(&dependent)).then(|| ("spec.dependent".to_owned(), dependent));
    let targets = parsed.edges().iter().map(|edge| {
        let field = format!("spec.dependencies[{}]", edge.index);
        (field, edge.target.gvr.group_resource())
    });
    let named = dependent.into_iter().chain(targets);
    named.filter_map(|(field, kind)| Some((field, format!("{kind} {}", Unreviewed::from_kind(&kind)?)))).collect()
}
