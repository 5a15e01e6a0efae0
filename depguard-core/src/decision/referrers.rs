//! Who refers to a target, and how that is said in a length that can be read.

use std::fmt::Write;

use serde_json::json;

use super::Problem;
use crate::rule::RuleKey;

/// The dependents that refer to a target.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Referrers {
    /// The first of them, in the order of kind, namespace and name; each once, however often it refers to the target.
    pub blockers: Vec<Blocker>,
    /// How many there are.
    pub count: Count,
    /// The rules that say so, in their order.
    pub rules: Vec<RuleKey>,
    /// What the rules want said besides.
    pub messages: Vec<String>,
}

/// A dependent that refers to a target, and so forbids its deletion where the rule says so.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Blocker {
    /// Its kind.
    pub kind: String,
    /// Its namespace, where it has one and it is not the target's.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The field that refers to the target: `spec.vpcRef.name`.
    pub field: String,
    /// The rule that says so; the first where there are several.
    pub rule: RuleKey,
}

/// How many dependents refer to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a number is known or it is not")]
pub enum Count {
    /// This many.
    Exactly(usize),
    /// This many were found before the search was given up.
    AtLeast(usize),
}

/// Bounds on a message, so that it can be read however many blockers there are.
const MOST_NAMED: usize = crate::found::ENOUGH - 1;
const MOST_NAMED_BYTES: usize = 2_048;
const MOST_RULES: usize = 5;
const MOST_MESSAGES: usize = 3;
const MOST_PROBLEMS: usize = 3;
const MOST_PROBLEM_BYTES: usize = 600;

impl Referrers {
    /// Who they are, the rules that say so where there are several, and what the rules want said besides.
    pub(super) fn text(&self) -> String {
        let mut text = names(&self.blockers, self.count);
        // Writing to a string can't fail.
        if self.rules.len() > 1 {
            let rules: Vec<_> = self.rules.iter().take(MOST_RULES).map(ToString::to_string).collect();
            let _ = write!(text, "; by rules {}", rules.join(", "));
            if self.rules.len() > MOST_RULES {
                let _ = write!(text, " and {} more", self.rules.len() - MOST_RULES);
            }
        }
        for message in self.messages.iter().take(MOST_MESSAGES) {
            let _ = write!(text, "; {}", clipped(message));
        }
        text
    }

    /// Those whom the text names.
    pub(super) fn named(&self) -> &[Blocker] {
        named(&self.blockers)
    }
}

impl Blocker {
    pub(super) fn cause(&self) -> serde_json::Value {
        json!({"reason": "StillReferenced", "message": self.to_string(), "field": self.field})
    }
}

impl std::fmt::Display for Blocker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind, self.name),
            None => write!(f, "{}/{}", self.kind, self.name),
        }
    }
}

/// `VirtualMachine/m1, VirtualMachine/m2 and 3 more (5 in all)`.
pub(crate) fn names(blockers: &[Blocker], count: Count) -> String {
    let names: Vec<_> = named(blockers).iter().map(Blocker::to_string).collect();
    let mut text = names.join(", ");
    let more = |count: usize| count.saturating_sub(names.len());
    // Writing to a string can't fail.
    let _ = match count {
        Count::Exactly(count) if more(count) == 0 => Ok(()),
        Count::Exactly(count) => write!(text, " and {} more ({count} in all)", more(count)),
        Count::AtLeast(count) => write!(text, " and at least {} more", more(count)),
    };
    text
}

/// Those that the message has room for: at least one.
fn named(blockers: &[Blocker]) -> &[Blocker] {
    let mut bytes = 0;
    let fits = blockers.iter().take(MOST_NAMED).take_while(|blocker| {
        let first = bytes == 0;
        bytes += blocker.to_string().len() + ", ".len();
        first || bytes <= MOST_NAMED_BYTES
    });
    let fits = fits.count();
    blockers.get(..fits).unwrap_or(blockers)
}

pub(crate) fn joined(problems: &[Problem]) -> String {
    let shown: Vec<_> = problems.iter().take(MOST_PROBLEMS).map(|problem| clipped(&problem.0)).collect();
    let mut text = shown.join("; ");
    if problems.len() > MOST_PROBLEMS {
        let _ = write!(text, "; and {} more problems", problems.len() - MOST_PROBLEMS);
    }
    text
}

/// Others' words, cut to a length that leaves a message readable.
pub(crate) fn clipped(text: &str) -> String {
    match text.char_indices().nth(MOST_PROBLEM_BYTES) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
