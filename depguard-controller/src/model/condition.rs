//! Findings about an object, and the conditions that report them.

use std::sync::Arc;

use depguard_core::api::Condition;
use serde::Deserialize;
use serde_json::Value;

/// A condition without its type and times.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Finding {
    /// `True`, `False` or `Unknown`.
    pub(crate) status: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Figures of a status, for metrics.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figures {
    /// Type, status and reason of each condition. Rules that are alike share them.
    pub(crate) conditions: Arc<Vec<[String; 3]>>,
    /// Number of the references without a target, if it is known.
    pub(crate) dangling: Option<i64>,
}

/// Findings about the parts of an object: problems, and notes that are no problem.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    wrong: Vec<Finding>,
    notes: Vec<String>,
}

/// Maximum number of messages in one condition.
const MAX_MESSAGES: usize = 5;
/// Maximum length of a message, in characters.
const MAX_MESSAGE: usize = 4000;

/// Returns the conditions of an object as it is stored.
pub(crate) fn stored_conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten()
}

/// Returns true if an object's stored status says that a condition is true of the object's present generation.
pub(crate) fn was_true(object: &Value, type_: &str) -> bool {
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    stored_conditions(object).any(|condition| {
        condition.get("type").and_then(Value::as_str) == Some(type_)
            && condition.get("status").and_then(Value::as_str) == Some("True")
            && condition.get("observedGeneration").and_then(Value::as_i64) == generation
    })
}

impl Finding {
    pub(crate) fn yes(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: "True", reason, message: message.into() }
    }

    pub(crate) fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: "False", reason, message: message.into() }
    }

    pub(crate) fn unknown(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: "Unknown", reason, message: message.into() }
    }
}

impl Findings {
    pub(crate) fn push(&mut self, finding: Finding) {
        if !self.wrong.contains(&finding) {
            self.wrong.push(finding);
        }
    }

    /// Adds a note that is no problem.
    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(crate) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|finding| self.push(finding));
    }

    /// Sums all findings up in one condition: problems come before unknowns, then `order` ranks the reasons. Without
    /// findings the condition is true, with the reason `well` and this message.
    pub(crate) fn sum_up(mut self, order: &[&str], well: &'static str, message: &str) -> Finding {
        let rank = |finding: &Finding| {
            let reason = order.iter().position(|reason| *reason == finding.reason).unwrap_or(order.len());
            (finding.status != "False", reason)
        };
        self.wrong.sort_by_key(rank);
        let notes = self.notes.iter().map(String::as_str);
        let Some(first) = self.wrong.first() else {
            return Finding::yes(well, shorten([message].into_iter().chain(notes)));
        };
        let message = shorten(self.wrong.iter().map(|finding| finding.message.as_str()).chain(notes));
        Finding { status: first.status, reason: first.reason, message }
    }
}

/// Returns the conditions of these types, each with the time since which it has its status. `old` is the object's
/// present status, `now` is in RFC 3339.
pub(crate) fn conditions(
    findings: impl IntoIterator<Item = (&'static str, Finding)>,
    old: Option<&Value>,
    generation: Option<i64>,
    now: &str,
) -> Vec<Condition> {
    let old = old.and_then(|old| old.get("conditions")).and_then(Value::as_array);
    let old: Vec<_> = old.into_iter().flatten().filter_map(|old| Condition::deserialize(old).ok()).collect();
    let conditions = findings.into_iter().map(|(type_, finding)| {
        let before = old.iter().find(|old| old.type_ == type_ && old.status == finding.status);
        Condition {
            type_: type_.to_owned(),
            status: finding.status.to_owned(),
            observed_generation: generation,
            last_transition_time: before.map_or_else(|| now.to_owned(), |old| old.last_transition_time.clone()),
            reason: finding.reason.to_owned(),
            message: finding.message,
        }
    });
    conditions.collect()
}

/// Joins the first few messages, and says how many more there are.
fn shorten<'m>(messages: impl Iterator<Item = &'m str>) -> String {
    let messages: Vec<_> = messages.collect();
    let more = messages.len().saturating_sub(MAX_MESSAGES);
    let text = messages.into_iter().take(MAX_MESSAGES).collect::<Vec<_>>().join("; ");
    let text: String = text.chars().take(MAX_MESSAGE).collect();
    if more == 0 { text } else { format!("{text}; and {more} more") }
}
