//! What is logged of a decision: who, what and why, never what an object holds.

use depguard_core::{Because, Count, Decision, Denial, Reason, Review, Ruling};

/// The longest value that is logged, in characters: the longest name that an API server allows.
const MAX_LEN: usize = 253;

/// One line for a refusal, one for an override that was used.
pub(crate) fn decision(review: &Review<'_>, decision: &Decision) {
    let namespace = clipped(review.namespace().unwrap_or_default());
    let name = clipped(review.name().unwrap_or_default());
    let resource = format!("{}.{}", clipped(review.resource()), clipped(review.group()));
    let resource = resource.trim_end_matches('.');
    let requester = clipped(review.requester().username());
    let dry_run = review.dry_run();
    let label = decision.label();
    match decision.ruling() {
        Ruling::Allowed(Because::Overridden) => {
            let what = "allowed by an override, whether or not it is still referenced";
            tracing::warn!(namespace, name, resource, requester, dry_run, label, "{what}");
        }
        Ruling::Allowed(_) => tracing::debug!(namespace, name, resource, requester, dry_run, label, "allowed"),
        Ruling::Denied(denial) => {
            let (blockers, rules) = blocked_by(denial);
            let why = undecided(denial);
            tracing::info!(namespace, name, resource, requester, dry_run, label, blockers, rules, why, "denied");
        }
    }
}

/// How many blockers there are, and the rules of those that are named.
fn blocked_by(denial: &Denial) -> (usize, String) {
    match denial.reason() {
        Reason::Referenced { by, .. } => {
            let (Count::Exactly(count) | Count::AtLeast(count)) = by.count;
            let rules: Vec<_> = by.rules.iter().map(ToString::to_string).collect();
            (count, rules.join(","))
        }
        Reason::Undecided { .. } | Reason::NotReady { .. } => (0, String::new()),
    }
}

/// What failed, where something did: it is for the operator to put right.
fn undecided(denial: &Denial) -> Option<String> {
    match denial.reason() {
        Reason::Referenced { .. } => None,
        Reason::Undecided { .. } | Reason::NotReady { .. } => Some(denial.message()),
    }
}

fn clipped(text: &str) -> &str {
    text.char_indices().nth(MAX_LEN).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}
