//! Notes besides a verdict: for the user who deletes, and for the audit log.

use std::collections::BTreeMap;

use super::denial::{Change, Subject};
use super::missing_targets::MissingTargets;
use super::referrers::Referrers;
use crate::lookup::planner::LookupPlan;
use crate::protocol::problem::{Unresolved, joined};

/// Notes besides a verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diagnostics {
    /// The object of the review.
    pub(crate) subject: Option<Subject>,
    /// Referrers by rules that ask for a warning, without the referrers by refusing rules.
    pub warned: Option<Referrers>,
    /// Referrers by rules that ask for a record, without the referrers by stricter rules.
    pub audited: Option<Referrers>,
    /// Missing targets by rules that ask for a warning.
    pub missing_warned: Option<MissingTargets>,
    /// Missing targets by rules that ask for a record.
    pub missing_audited: Option<MissingTargets>,
    /// Problems that don't lead to a refusal; the user who deletes sees them.
    pub problems: Vec<Unresolved>,
    /// Problems that are only recorded.
    pub audited_problems: Vec<Unresolved>,
    /// The user who overrode the protection.
    pub overridden_by: Option<String>,
    /// Number of values that have another type than a rule's path asks for: numbers instead of names, for example.
    /// Only objects that were read count: most objects without the target's name are skipped unread.
    pub misfits: usize,
    /// The strategies for finding the dependents.
    pub lookups: Vec<LookupPlan>,
    /// Number of marks that the review left in the interlock, by the name of their register.
    pub marks: BTreeMap<String, usize>,
}

impl Diagnostics {
    /// Returns the warnings of the answer.
    pub fn warnings(&self) -> Vec<String> {
        let change = self.subject.as_ref().map_or(Change::Deletion, |subject| subject.change);
        let subject = self.subject.as_ref().map_or("it".to_owned(), ToString::to_string);
        let missing = self.missing_warned.as_ref();
        let missing = missing.map(|missing| format!("{subject} refers to what is not there: {}", missing.text()));
        let referenced = self.warned.as_ref().map(|by| format!("{subject} is still referenced by {}", by.text()));
        let problems = (!self.problems.is_empty())
            .then(|| format!("could not find out {}: {}", change.question(&subject), joined(&self.problems)));
        referenced.into_iter().chain(missing).chain(problems).collect()
    }

    /// Returns the audit annotations of the answer; an API server puts the webhook's name before each key.
    pub fn audit_annotations(&self) -> BTreeMap<&'static str, String> {
        let mut annotations = BTreeMap::new();
        if let Some(by) = &self.audited {
            annotations.insert("still-referenced-by", by.text());
        }
        if let Some(missing) = &self.missing_audited {
            annotations.insert("missing-targets", missing.text());
        }
        if !self.audited_problems.is_empty() {
            annotations.insert("not-found-out", joined(&self.audited_problems));
        }
        if let Some(user) = &self.overridden_by {
            annotations.insert("overridden-by", user.clone());
        }
        annotations
    }
}
