//! Log lines about decisions: they say who, what and why, and never show an object's content.

use depguard_core::decision::{AllowReason, Count, Denial, Diagnostics, Reason, Verdict};
use depguard_core::locks::LockDecision;
use depguard_core::{Decision, LogicalCluster, Review};

use crate::metrics::operation_label;

/// Maximum length of a logged value, in characters: the longest name that an API server allows.
const MAX_LEN: usize = 253;

/// Requester and object of a log line.
pub(crate) struct Subject<'r> {
    pub(crate) namespace: &'r str,
    pub(crate) name: &'r str,
    /// Kind of the object, such as `virtualmachines.compute.example.com`.
    pub(crate) kind: String,
    pub(crate) requester: &'r str,
}

impl<'r> Subject<'r> {
    pub(crate) fn from_review(review: &'r Review<'_>) -> Self {
        let kind = format!("{}.{}", clipped(review.resource()), clipped(review.group()));
        Self {
            namespace: clipped(review.namespace().unwrap_or_default()),
            name: clipped(review.name().unwrap_or_default()),
            kind: kind.trim_end_matches('.').to_owned(),
            requester: clipped(review.requester().username()),
        }
    }
}

/// Logs one line for a decision: for refusals, for overrides that were used, and for what a rule wants said or
/// recorded. Other decisions are logged at level debug.
pub(crate) fn decision(review: &Review<'_>, decision: &Decision) {
    let Subject { namespace, name, kind, requester } = Subject::from_review(review);
    // The cluster of the first lookup, if there is one: a tenant's annotation is not repeated.
    let cluster = decision.diagnostics().lookups.first().and_then(|planned| planned.dependents.cluster.as_ref());
    let cluster = cluster.map(LogicalCluster::as_str);
    let dry_run = review.dry_run();
    let decided = decision.label();
    let diagnostics = decision.diagnostics();
    let (noted, misfits, plan, marks) =
        (noted(diagnostics), diagnostics.misfits, plan(diagnostics), marks(diagnostics));
    match decision.verdict() {
        Verdict::Allowed(AllowReason::Overridden) => {
            let what = "allowed by an override; the object may still be referenced";
            tracing::warn!(cluster, namespace, name, kind, requester, dry_run, decided, marks, "{what}");
        }
        Verdict::Allowed(_) if noted.is_some() => {
            tracing::info!(
                cluster, namespace, name, kind, requester, dry_run, decided, plan, noted, misfits, marks, "allowed"
            );
        }
        Verdict::Allowed(_) => {
            tracing::debug!(
                cluster, namespace, name, kind, requester, dry_run, decided, plan, misfits, marks, "allowed"
            );
        }
        Verdict::Denied(denial) => {
            let (blockers, rules) = blocked_by(denial);
            let (causes, why) = (denial.causes().words().join(","), undecided(denial));
            tracing::info!(
                cluster, namespace, name, kind, requester, dry_run, decided, causes, plan, blockers, rules, why, noted,
                misfits, "denied"
            );
        }
    }
}

/// Logs one line for a decision about locks. A user who may not know of a lock is told nothing of it; the operator is.
pub(crate) fn lock_decision(review: &Review<'_>, decision: &LockDecision) {
    let Subject { namespace, name, kind, requester } = Subject::from_review(review);
    let (dry_run, decided, locks) = (review.dry_run(), decision.label(), decision.locks().join(","));
    let operation = operation_label(review.operation());
    match decision.allowed() {
        // A holder of a lock, or a user who may unlock it, passes it on purpose.
        true if matches!(decided, "holder" | "unlock" | "teardown") => {
            tracing::info!(namespace, name, kind, operation, requester, dry_run, decided, locks, "allowed");
        }
        true => tracing::debug!(namespace, name, kind, operation, requester, dry_run, decided, locks, "allowed"),
        false => {
            let (causes, why) = (decision.causes().words().join(","), decision.failure());
            tracing::info!(namespace, name, kind, operation, requester, dry_run, decided, causes, locks, why, "denied");
        }
    }
}

/// Returns the number of blockers, and the rules of the named ones.
fn blocked_by(denial: &Denial) -> (usize, String) {
    match denial.reason() {
        Reason::Referenced { by, .. } => {
            let (Count::Exactly(count) | Count::AtLeast(count)) = by.count;
            let rules: Vec<_> = by.rules.iter().map(ToString::to_string).collect();
            (count, rules.join(","))
        }
        Reason::MissingTargets { missing, .. } => {
            let rules: Vec<_> = missing.rules.iter().map(ToString::to_string).collect();
            (0, rules.join(","))
        }
        _ => (0, String::new()),
    }
}

/// Returns the failure behind a refusal, if there was one: the operator has to find the fault.
fn undecided(denial: &Denial) -> Option<String> {
    match denial.reason() {
        Reason::Referenced { .. } => None,
        _ => Some(denial.message()),
    }
}

/// Returns the way in which the dependents were looked for: `virtualmachines=FieldSelector,disks=ClusterScan`.
fn plan(diagnostics: &Diagnostics) -> Option<String> {
    let planned = diagnostics.lookups.iter();
    let each = planned.map(|planned| format!("{}={}", planned.dependents.gvr.resource, planned.strategy.as_str()));
    (!diagnostics.lookups.is_empty()).then(|| each.collect::<Vec<_>>().join(","))
}

/// Returns the registers in which the review left marks, with the number: `bucket-7-of-16=2`.
fn marks(diagnostics: &Diagnostics) -> Option<String> {
    let each = diagnostics.marks.iter().map(|(register, number)| format!("{register}={number}"));
    (!diagnostics.marks.is_empty()).then(|| each.collect::<Vec<_>>().join(","))
}

/// Returns everything that is said besides the verdict: warnings, audit records, and what could not be found out.
fn noted(diagnostics: &Diagnostics) -> Option<String> {
    let said: Vec<_> =
        diagnostics.warnings().into_iter().chain(diagnostics.audit_annotations().into_values()).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn clipped(text: &str) -> &str {
    text.char_indices().nth(MAX_LEN).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use depguard_core::api::Strategy;
    use depguard_core::lookup::{Dependents, LookupPlan};
    use depguard_core::model::{Resource, Version};
    use depguard_core::protocol::Accept;
    use depguard_core::{Group, GroupVersionResource};

    #[test]
    fn what_a_rule_wants_recorded_is_logged_too() {
        let mut diagnostics = Diagnostics::default();
        assert_eq!(noted(&diagnostics), None);
        diagnostics.overridden_by = Some("admin".to_owned());
        assert_eq!(noted(&diagnostics).as_deref(), Some("admin"));
    }

    #[test]
    fn the_plan_is_logged_by_the_names_of_its_strategies() {
        let mut diagnostics = Diagnostics::default();
        assert_eq!(plan(&diagnostics), None);
        let dependents = |resource| Dependents {
            cluster: None,
            export: None,
            gvr: GroupVersionResource {
                group: Group::parse("compute.example.com").unwrap(),
                version: Version::parse("v1").unwrap(),
                resource: Resource::parse(resource).unwrap(),
            },
            namespace: None,
            accept: Accept::Json,
        };
        for (resource, strategy) in [("vms", Strategy::FieldSelector), ("disks", Strategy::ClusterScan)] {
            diagnostics.lookups.push(LookupPlan {
                dependents: dependents(resource),
                strategy,
                field: None,
                rules: Arc::default(),
            });
        }
        assert_eq!(plan(&diagnostics).as_deref(), Some("vms=FieldSelector,disks=ClusterScan"));
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        assert_eq!(clipped("short"), "short");
        assert_eq!(clipped(&"é".repeat(300)).chars().count(), MAX_LEN);
    }
}
