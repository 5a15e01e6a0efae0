//! Condition `Accepted`: the rule is valid, its paths lead somewhere, and API servers ask webhooks about its kinds.

use depguard_core::Rule;
use depguard_core::schema::{self, Schema, SchemaFit};

use crate::model::condition::{Finding, Findings};

/// Returns the condition of a valid rule: true if the rule's paths lead somewhere in its dependents, and API servers ask
/// webhooks about its kinds. `schema` is that of the dependents, if it is known.
pub(crate) fn accepted(parsed: &Rule, schema: Option<&Schema>) -> Finding {
    let mut findings = Findings::default();
    for (field, why) in schema::unreviewed(parsed) {
        findings.push(Finding::no("NotReviewed", format!("{field} has no effect: {why}")));
    }
    match schema {
        None => {
            let dependents = &parsed.dependent().gvr;
            findings.note(format!("the paths were not checked: the schema of {dependents} is not known"));
        }
        Some(schema) => {
            for unclear in parsed.edges().iter().filter_map(|edge| schema::unclear_selector(edge, schema)) {
                findings.note(unclear);
            }
            let others = parsed.edges().iter().filter_map(|edge| schema::other_default(edge, schema));
            findings.extend(others.map(|other| Finding::no("OtherDefaultKind", other.message)));
            for path in schema::paths(parsed, schema) {
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
