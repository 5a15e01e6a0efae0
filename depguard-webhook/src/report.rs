//! What is logged of a decision: who, what and why, never what an object holds.

use depguard_core::locks::LockDecision;
use depguard_core::{Because, Count, Decision, Denial, LogicalCluster, Notes, Reason, Review, Ruling};

use crate::metrics::operation_label;

/// The longest value that is logged, in characters: the longest name that an API server allows.
const MAX_LEN: usize = 253;

/// Of whom and of what a line of the log is.
pub(crate) struct Subject<'r> {
    pub(crate) namespace: &'r str,
    pub(crate) name: &'r str,
    /// `virtualmachines.compute.example.com`
    pub(crate) kind: String,
    pub(crate) requester: &'r str,
}

impl<'r> Subject<'r> {
    pub(crate) fn of(review: &'r Review<'_>) -> Self {
        let kind = format!("{}.{}", clipped(review.resource()), clipped(review.group()));
        Self {
            namespace: clipped(review.namespace().unwrap_or_default()),
            name: clipped(review.name().unwrap_or_default()),
            kind: kind.trim_end_matches('.').to_owned(),
            requester: clipped(review.requester().username()),
        }
    }
}

/// One line for a refusal, for an override that was used, and for what a rule wants said or recorded.
pub(crate) fn decision(review: &Review<'_>, decision: &Decision) {
    let Subject { namespace, name, kind, requester } = Subject::of(review);
    // Where there is one: what a tenant wrote into an annotation is not repeated.
    let cluster = decision.notes().lookups.first().and_then(|planned| planned.dependents.cluster.as_ref());
    let cluster = cluster.map(LogicalCluster::as_str);
    let dry_run = review.dry_run();
    let decided = decision.label();
    let (noted, misfits, plan) = (noted(decision.notes()), decision.notes().misfits, plan(decision.notes()));
    match decision.ruling() {
        Ruling::Allowed(Because::Overridden) => {
            let what = "allowed by an override, whether or not it is still referenced";
            tracing::warn!(cluster, namespace, name, kind, requester, dry_run, decided, "{what}");
        }
        Ruling::Allowed(_) if noted.is_some() => {
            tracing::info!(
                cluster, namespace, name, kind, requester, dry_run, decided, plan, noted, misfits, "allowed"
            );
        }
        Ruling::Allowed(_) => {
            tracing::debug!(cluster, namespace, name, kind, requester, dry_run, decided, plan, misfits, "allowed");
        }
        Ruling::Denied(denial) => {
            let (blockers, rules) = blocked_by(denial);
            let why = undecided(denial);
            tracing::info!(
                cluster, namespace, name, kind, requester, dry_run, decided, plan, blockers, rules, why, noted,
                misfits, "denied"
            );
        }
    }
}

/// The same for a decision about locks. Who may not know of a lock is told nothing of it; the operator is.
pub(crate) fn lock_decision(review: &Review<'_>, decision: &LockDecision) {
    let Subject { namespace, name, kind, requester } = Subject::of(review);
    let (dry_run, decided, locks) = (review.dry_run(), decision.label(), decision.locks().join(","));
    let operation = operation_label(review.operation());
    match decision.allowed() {
        // Whoever holds a lock, or may unlock it, goes by it on purpose.
        true if matches!(decided, "holder" | "unlock" | "teardown") => {
            tracing::info!(namespace, name, kind, operation, requester, dry_run, decided, locks, "allowed");
        }
        true => tracing::debug!(namespace, name, kind, operation, requester, dry_run, decided, locks, "allowed"),
        false => {
            let why = decision.trouble();
            tracing::info!(namespace, name, kind, operation, requester, dry_run, decided, locks, why, "denied");
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
        _ => (0, String::new()),
    }
}

/// What failed, where something did: it is for the operator to put right.
fn undecided(denial: &Denial) -> Option<String> {
    match denial.reason() {
        Reason::Referenced { .. } => None,
        _ => Some(denial.message()),
    }
}

/// How the dependents were looked for: `virtualmachines=FieldSelector,disks=ClusterScan`.
fn plan(notes: &Notes) -> Option<String> {
    let planned = notes.lookups.iter();
    let each = planned.map(|planned| format!("{}={}", planned.dependents.gvr.resource, planned.strategy.as_str()));
    (!notes.lookups.is_empty()).then(|| each.collect::<Vec<_>>().join(","))
}

/// What is said besides the ruling: who is warned of or recorded, and what could not be found out.
fn noted(notes: &Notes) -> Option<String> {
    let said: Vec<_> = notes.warnings().into_iter().chain(notes.audit_annotations().into_values()).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn clipped(text: &str) -> &str {
    text.char_indices().nth(MAX_LEN).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use depguard_core::{Accept, Dependents, Group, GroupVersionResource, Planned, Resource, Strategy, Version};

    #[test]
    fn what_a_rule_wants_recorded_is_logged_too() {
        let mut notes = Notes::default();
        assert_eq!(noted(&notes), None);
        notes.overridden_by = Some("admin".to_owned());
        assert_eq!(noted(&notes).as_deref(), Some("admin"));
    }

    #[test]
    fn the_plan_is_logged_by_the_names_of_its_strategies() {
        let mut notes = Notes::default();
        assert_eq!(plan(&notes), None);
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
            notes.lookups.push(Planned { dependents: dependents(resource), strategy, field: None, rules: Vec::new() });
        }
        assert_eq!(plan(&notes).as_deref(), Some("vms=FieldSelector,disks=ClusterScan"));
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        assert_eq!(clipped("short"), "short");
        assert_eq!(clipped(&"é".repeat(300)).chars().count(), MAX_LEN);
    }
}
