//! Checks a run by the journal of the API server, without any of depguard's code.
//!
//! - A deletion is **wrong** if some dependent referred to the object at every moment from just before its review began
//!   until it was gone: every read of the webhook in between showed the dependent. The rules decide what refers, in all
//!   states that were in force from `lag` before the review on. If a rule changed in that time, a dependent must have
//!   referred by each of these states.
//! - A refusal is **too long** if nothing referred to the object any more, by any of these states, and no fault was on,
//!   for more than ten seconds before the deletion was requested.

mod history;

use std::time::{Duration, Instant};

pub(crate) use history::History;

use crate::disturb::{LAG, lag};
use crate::plan::Fault;

/// Time after the end of all faults in which a free object may still be refused.
pub(crate) const GRACE: Duration = Duration::from_secs(10);
/// Time before a deletion that counts as just before.
const JUST: Duration = Duration::from_millis(100);

/// Target of a deletion, by the plural of its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Object {
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Object {
    pub(crate) fn new(resource: &str, namespace: &str, name: &str) -> Self {
        Self { resource: resource.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// Request for a deletion, and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) object: Object,
    pub(crate) sent: Instant,
    pub(crate) answered: Instant,
    pub(crate) outcome: Outcome,
}

/// Answer to the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Gone,
    Refused(String),
    Unanswered(String),
}

/// Time in which a fault was active.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) fault: Fault,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
}

/// Findings of the checker.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Number of objects with a deletion that had to be refused.
    pub(crate) referenced: usize,
    /// Number of objects whose dependents had changed just before a deletion.
    pub(crate) just: usize,
    pub(crate) violations: Vec<String>,
}

/// Checks every deletion in the journal, and every refusal in the log.
pub(crate) fn check(history: &History, attempts: &[Attempt], spans: &[Span]) -> Verdict {
    let mut verdict = Verdict::default();
    let (mut referenced, mut just) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for gone in history.deletions() {
        let states = history.rules_within(gone.reviewed - lag_at(spans, gone.reviewed), gone.revision);
        if let Some(dependent) = history.refers_throughout(&gone.object, &states, gone.reviewed_at, gone.revision) {
            referenced.insert(&gone.object);
            verdict.violations.push(format!("{} was deleted although {dependent} referred to it", gone.object));
        }
    }
    for attempt in attempts {
        if history.changed_within(&attempt.object, attempt.sent - JUST, attempt.sent) {
            just.insert(&attempt.object);
        }
        let Some(why) = attempt.outcome.not_gone() else { continue };
        let (from, to) = (history.revision_at(attempt.sent), history.revision_at(attempt.answered));
        let lag = lag_at(spans, attempt.sent);
        let states = history.rules_within(attempt.sent - lag, to);
        if history.refers_throughout(&attempt.object, &states, from, to).is_some() {
            referenced.insert(&attempt.object);
            continue;
        }
        // Finds the time since which the object has been free and no fault has been on.
        let ended = spans.iter().filter(|span| span.began < attempt.answered).map(|span| span.ended).max();
        let well = ended.into_iter().chain([history.freed(&attempt.object, lag, to)]).max();
        if well.is_some_and(|well| attempt.sent.saturating_duration_since(well) > GRACE) {
            verdict
                .violations
                .push(format!("the deletion of {} was refused although nothing referred to it: {why}", attempt.object));
        }
    }
    (verdict.referenced, verdict.just) = (referenced.len(), just.len());
    verdict
}

/// Returns the time in which the webhook must see a rule, if a fault is active or has just ended.
fn lag_at(spans: &[Span], at: Instant) -> Duration {
    let near = spans.iter().filter(|span| span.began <= at && at <= span.ended + lag(span.fault));
    near.map(|span| lag(span.fault)).max().unwrap_or(LAG)
}

impl Outcome {
    fn not_gone(&self) -> Option<&str> {
        match self {
            Self::Gone => None,
            Self::Refused(why) | Self::Unanswered(why) => Some(why),
        }
    }
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.resource, self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests;
