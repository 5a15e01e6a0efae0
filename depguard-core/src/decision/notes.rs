//! What is said besides a ruling: to whoever deletes, and to the audit log.

use std::collections::BTreeMap;

use super::Problem;
use super::denial::Subject;
use super::referrers::{Referrers, joined};
use crate::plan::Planned;

/// What is said besides a ruling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// The object that was to be deleted.
    pub(crate) subject: Option<Subject>,
    /// Who refers to it by rules that want a warning, and by none that refuses.
    pub warned: Option<Referrers>,
    /// Who refers to it by rules that want it recorded, and by none that wants more.
    pub audited: Option<Referrers>,
    /// What could not be found out and is not refused; whoever deletes is told.
    pub problems: Vec<Problem>,
    /// What could not be found out and is only recorded.
    pub audited_problems: Vec<Problem>,
    /// The user who overrode the protection.
    pub overridden_by: Option<String>,
    /// How many values stood where a name was looked for and were none: numbers, say. Only objects that were read count:
    /// most that don't hold the target's name are passed over unread.
    pub misfits: usize,
    /// How the dependents were looked for.
    pub lookups: Vec<Planned>,
}

impl Notes {
    /// The warnings of the answer.
    pub fn warnings(&self) -> Vec<String> {
        let subject = self.subject.as_ref().map_or("it".to_owned(), ToString::to_string);
        let referenced = self.warned.as_ref().map(|by| format!("{subject} is still referenced by {}", by.text()));
        let problems = (!self.problems.is_empty())
            .then(|| format!("could not find out what refers to {subject}: {}", joined(&self.problems)));
        referenced.into_iter().chain(problems).collect()
    }

    /// The audit annotations of the answer; an API server puts the webhook's name before each key.
    pub fn audit_annotations(&self) -> BTreeMap<&'static str, String> {
        let mut annotations = BTreeMap::new();
        if let Some(by) = &self.audited {
            annotations.insert("still-referenced-by", by.text());
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
