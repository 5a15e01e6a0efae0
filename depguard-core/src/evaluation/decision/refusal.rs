//! Refusal in the form that an API server passes on: code, reason, causes, and the time after which to try again.

use serde_json::{Map, Value, json};

use crate::applicability::overrides::is_control_plane;
use crate::protocol::admission_review::Review;
use crate::protocol::cause::Cause;
use crate::protocol::problem::{MAX_PROBLEMS, Unresolved, clipped};

/// The sender of the request under review, by what it does after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sender {
    /// A client such as `kubectl`: after a 429 with `Retry-After` it waits and repeats the request by itself, after a
    /// 403 it ends.
    Client,
    /// `kubectl drain` and others that evict a Pod. A PodDisruptionBudget refuses with 429, after which they try
    /// again; after a 403 they end.
    Evictor,
    /// The control plane: it tries again by itself in any case. After a 429 with `Retry-After` its client waits within
    /// the request, so one of its few workers does nothing for others meanwhile.
    ControlPlane,
    /// The review was not read to its requester.
    Unknown,
}

/// The causes of one refusal: `details.causes` of its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Causes {
    shown: Vec<Value>,
    all: Vec<Cause>,
}

impl Sender {
    /// Returns the sender of the request under review.
    pub fn from_review(review: &Review<'_>) -> Self {
        if review.is_eviction() {
            Self::Evictor
        } else if is_control_plane(review.requester().username()) {
            Self::ControlPlane
        } else {
            Self::Client
        }
    }

    /// Returns the `metav1.Status` that refuses the review of this `uid`.
    ///
    /// It has code 403 and reason `Forbidden`. If all causes pass by themselves, and the sender is a client, it has code
    /// 429, reason `TooManyRequests`, and `details.retryAfterSeconds`. An eviction is always refused with 429.
    pub fn status(self, uid: &str, message: &str, causes: &Causes) -> Value {
        let passes = causes.pass();
        let (is_429, waits) = match self {
            Self::Client => (passes, passes),
            Self::Evictor => (true, passes),
            Self::ControlPlane | Self::Unknown => (false, false),
        };
        let (code, reason) = if is_429 { (429, "TooManyRequests") } else { (403, "Forbidden") };
        let mut details = Map::from_iter([("causes".to_owned(), json!(causes.shown))]);
        if waits {
            details.insert("retryAfterSeconds".to_owned(), json!(retry_after(uid)));
        }
        json!({
            "metadata": {}, "status": "Failure", "code": code, "reason": reason, "message": message, "details": details,
        })
    }
}

impl Causes {
    /// Creates the causes of a refusal that has one.
    pub fn one(cause: Cause, message: &str) -> Self {
        let mut causes = Self::default();
        causes.add(cause, message, "");
        causes
    }

    /// Adds a cause. `message` and `field`, the field of the object that the message names, may be empty.
    pub(crate) fn add(&mut self, cause: Cause, message: &str, field: &str) {
        let texts = [("reason", cause.word()), ("message", &clipped(message)), ("field", field)];
        let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
        self.shown.push(texts.map(|(key, text)| (key.to_owned(), json!(text))).collect());
        self.all.push(cause);
    }

    /// Adds the causes of these problems; only as many are shown as the message names.
    pub(crate) fn add_problems(&mut self, problems: &[Unresolved]) {
        for problem in problems.iter().take(MAX_PROBLEMS) {
            self.add(problem.cause(), &problem.to_string(), "");
        }
        self.all.extend(problems.iter().skip(MAX_PROBLEMS).map(Unresolved::cause));
    }

    /// Returns each cause once, the first one first.
    pub fn words(&self) -> Vec<&'static str> {
        let mut words = Vec::new();
        for word in self.all.iter().map(|cause| cause.word()) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words
    }

    /// Returns the first cause, by which a refusal is counted.
    pub fn first(&self) -> Option<Cause> {
        self.all.first().copied()
    }

    /// Returns true if the refusal passes by itself: all of its causes do.
    pub fn pass(&self) -> bool {
        !self.all.is_empty() && self.all.iter().all(|cause| cause.passes())
    }
}

/// The longest wait before a client tries again, in seconds. An API server's clients try ten times.
const MAX_WAIT: u32 = 3;

/// Returns the seconds after which to try again. They differ from review to review, so that those who are refused at
/// once don't all come back at once.
fn retry_after(uid: &str) -> u32 {
    // FNV-1a; a review that is sent again has another UID.
    let hash = uid.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    1 + hash % MAX_WAIT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(sender: Sender, causes: &[Cause]) -> (u64, Option<u64>) {
        let mut all = Causes::default();
        causes.iter().for_each(|cause| all.add(*cause, "why", ""));
        let status = sender.status("u-1", "no", &all);
        let words: Vec<_> = causes.iter().map(|cause| cause.word()).collect();
        let shown = status["details"]["causes"].as_array().unwrap();
        assert_eq!(shown.iter().map(|cause| cause["reason"].as_str().unwrap()).collect::<Vec<_>>(), words);
        let code = status["code"].as_u64().unwrap();
        assert_eq!(status["reason"], if code == 429 { "TooManyRequests" } else { "Forbidden" });
        (code, status["details"]["retryAfterSeconds"].as_u64())
    }

    #[test]
    fn a_client_is_told_to_try_again_only_if_every_cause_passes() {
        let (code, seconds) = status(Sender::Client, &[Cause::ReadFailed, Cause::RulesNotLoaded]);
        assert_eq!(code, 429);
        assert!((1..=u64::from(MAX_WAIT)).contains(&seconds.unwrap()));
        for causes in [&[][..], &[Cause::StillReferenced], &[Cause::ReadFailed, Cause::RuleInvalid]] {
            assert_eq!(status(Sender::Client, causes), (403, None), "{causes:?}");
        }
    }

    #[test]
    fn a_problem_that_is_not_shown_still_counts() {
        let mut problems = vec![Unresolved::new(Cause::ReadFailed, "it failed"); MAX_PROBLEMS];
        let passes = |problems: &[Unresolved]| {
            let mut causes = Causes::default();
            causes.add_problems(problems);
            (causes.shown.len(), causes.pass())
        };
        assert_eq!(passes(&problems), (MAX_PROBLEMS, true));
        problems.push(Unresolved::new(Cause::ReadForbidden, "no"));
        assert_eq!(passes(&problems), (MAX_PROBLEMS, false));
    }

    #[test]
    fn an_eviction_is_429_and_the_control_plane_gets_no_wait() {
        let (passing, lasting) = ([Cause::ReadFailed], [Cause::StillReferenced]);
        assert!(matches!(status(Sender::Evictor, &passing), (429, Some(_))));
        assert_eq!(status(Sender::Evictor, &lasting), (429, None));
        for sender in [Sender::ControlPlane, Sender::Unknown] {
            assert_eq!((status(sender, &passing), status(sender, &lasting)), ((403, None), (403, None)));
        }
    }

    #[test]
    fn the_wait_differs_between_reviews_and_not_between_replicas() {
        let waits: Vec<_> = (0..100).map(|n| retry_after(&format!("4e5f-{n}"))).collect();
        assert!((1..=MAX_WAIT).all(|wait| waits.iter().filter(|other| **other == wait).count() > 10), "{waits:?}");
        assert_eq!(retry_after("u-1"), retry_after("u-1"));
    }
}
