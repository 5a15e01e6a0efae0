//! Decision on a review about locks, and its text.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::lock::Lock;
use crate::evaluation::decision::{Causes, Sender, answered};
use crate::protocol::admission_review::unreadable_review;
use crate::protocol::cause::Cause;
use crate::protocol::problem::{Unresolved, clipped, joined};

/// The answer to a review about locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockDecision {
    verdict: Verdict,
    locks: Vec<String>,
    sender: Sender,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed(AllowReason),
    Denied(Refusal),
}

/// The reason for allowing a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AllowReason {
    /// The request does nothing that a lock could forbid.
    NotGuarded,
    /// The update changes only exempt metadata.
    Exempt,
    /// The object is already being deleted.
    Terminating,
    /// No lock names the object, or no lock forbids the request.
    Unlocked,
    /// All locks that would forbid the request have ended.
    Expired,
    /// The requester holds all locks that would forbid the request and have not ended.
    Holder,
    /// The requester has the right to unlock.
    Unlock,
    /// The object is torn down with its surroundings, and the locks release it in that case.
    Teardown,
    /// The tables now name the lock.
    Recorded,
}

/// The reason for refusing a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Locks forbid the request.
    Locked {
        /// The locks that the requester may see.
        shown: Vec<LockText>,
        /// The number of locks.
        count: usize,
        /// Further problems.
        problems: Vec<Unresolved>,
    },
    /// It is unknown if the object is locked.
    Undecided { object: Option<String>, problems: Vec<Unresolved> },
    /// The lock itself is protected as long as it holds.
    Guarded { lock: String, problems: Vec<Unresolved> },
    /// The lock has an error.
    Invalid { lock: String, why: String },
    /// The lock must not be stored, because reviews wouldn't find it.
    Unrecorded { lock: String, problems: Vec<Unresolved> },
    /// A lock of the older tool exists.
    Compat { lock: String },
}

/// A lock in the form that a refusal shows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LockText {
    lock: String,
    text: String,
    field: String,
}

impl LockText {
    /// Describes a lock that forbids a request, because of this field.
    pub(super) fn new(lock: &Lock, field: Option<&str>) -> Self {
        let name = lock.to_string();
        let mut text = match lock.problem() {
            Some(problem) => format!("the lock can't be read: {problem}; correct or delete it"),
            None if lock.reason().is_empty() => "no reason is given".to_owned(),
            None => lock.reason().to_owned(),
        };
        // Writing to a string can't fail.
        let _ = write!(text, " ({name}");
        if !lock.holder().is_empty() {
            let _ = write!(text, ", held by {}", lock.holder());
        }
        if let Some(expires) = lock.expires() {
            let _ = write!(text, ", until {expires}");
        }
        if let Some(field) = field {
            let _ = write!(text, ", which freezes {field}");
        }
        text.push(')');
        Self { lock: name, text, field: field.unwrap_or_default().to_owned() }
    }
}

impl LockDecision {
    /// All [labels](Self::label).
    pub const LABELS: [&str; 14] = [
        "not-guarded",
        "exempt",
        "terminating",
        "unlocked",
        "expired",
        "holder",
        "unlock",
        "teardown",
        "recorded",
        "locked",
        "undecided",
        "guarded",
        "invalid",
        "unrecorded",
    ];

    pub(super) fn allow(reason: AllowReason, locks: Vec<String>) -> Self {
        Self { verdict: Verdict::Allowed(reason), locks, sender: Sender::Unknown }
    }

    pub(super) fn refuse(refusal: Refusal, locks: Vec<String>) -> Self {
        Self { verdict: Verdict::Denied(refusal), locks, sender: Sender::Unknown }
    }

    /// Returns the decision as the answer to a review with this sender.
    pub(super) fn answering(self, sender: Sender) -> Self {
        Self { sender, ..self }
    }

    /// Refuses a review that lacks a required part.
    pub(super) fn unreadable(object: Option<&str>, why: &str) -> Self {
        let problems = vec![unreadable_review(why)];
        Self::refuse(Refusal::Undecided { object: object.map(str::to_owned), problems }, Vec::new())
    }

    /// Returns true if the review may go on.
    pub fn allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allowed(_))
    }

    /// Returns the message of a refusal, for people; `None` if the review is allowed.
    pub fn message(&self) -> Option<String> {
        match &self.verdict {
            Verdict::Allowed(_) => None,
            Verdict::Denied(refusal) => Some(refusal.message()),
        }
    }

    /// Returns the verdict as one word of a closed set, fit for a metric's label.
    pub fn label(&self) -> &'static str {
        match &self.verdict {
            Verdict::Allowed(reason) => reason.label(),
            Verdict::Denied(refusal) => refusal.label(),
        }
    }

    /// Returns the locks of the decision, such as `ObjectLock default/a`. They are for the log and the audit log; the
    /// requester may not be allowed to see them.
    pub fn locks(&self) -> &[String] {
        &self.locks
    }

    /// Returns the problems, for the operator's log; `None` if there was none that mattered.
    pub fn failure(&self) -> Option<String> {
        let problems = match &self.verdict {
            Verdict::Denied(
                Refusal::Locked { problems, .. }
                | Refusal::Undecided { problems, .. }
                | Refusal::Guarded { problems, .. }
                | Refusal::Unrecorded { problems, .. },
            ) => problems.as_slice(),
            Verdict::Denied(Refusal::Invalid { .. } | Refusal::Compat { .. }) | Verdict::Allowed(_) => &[],
        };
        (!problems.is_empty()).then(|| joined(problems))
    }

    /// Returns the audit annotations of the answer; an API server puts the webhook's name before each key.
    pub fn audit_annotations(&self) -> BTreeMap<&'static str, String> {
        if self.locks.is_empty() {
            return BTreeMap::new();
        }
        let mut locks: Vec<_> = self.locks.iter().take(MAX_NAMED).cloned().collect();
        if self.locks.len() > MAX_NAMED {
            locks.push(format!("and {} more", self.locks.len() - MAX_NAMED));
        }
        let decision = match &self.verdict {
            Verdict::Allowed(reason) => reason.label(),
            Verdict::Denied(_) => "refused",
        };
        BTreeMap::from([("lock", locks.join(", ")), ("lock-decision", decision.to_owned())])
    }

    /// Returns the causes of a refusal, for programs; none if the review is allowed.
    pub fn causes(&self) -> Causes {
        match &self.verdict {
            Verdict::Allowed(_) => Causes::default(),
            Verdict::Denied(refusal) => refusal.causes(),
        }
    }

    /// Returns the `admission.k8s.io/v1` AdmissionReview that answers the review of that `uid`, as JSON.
    /// [`Sender::status`] says which code a refusal has.
    pub fn to_review(&self, uid: &str) -> Vec<u8> {
        let status = match &self.verdict {
            Verdict::Allowed(_) => None,
            Verdict::Denied(refusal) => Some(self.sender.status(uid, &refusal.message(), &refusal.causes())),
        };
        answered(uid, status, &[], &self.audit_annotations())
    }
}

/// The most locks that an answer names.
pub(super) const MAX_NAMED: usize = 3;

impl AllowReason {
    fn label(self) -> &'static str {
        match self {
            Self::NotGuarded => "not-guarded",
            Self::Exempt => "exempt",
            Self::Terminating => "terminating",
            Self::Unlocked => "unlocked",
            Self::Expired => "expired",
            Self::Holder => "holder",
            Self::Unlock => "unlock",
            Self::Teardown => "teardown",
            Self::Recorded => "recorded",
        }
    }
}

impl Refusal {
    fn label(&self) -> &'static str {
        match self {
            Self::Locked { .. } | Self::Compat { .. } => "locked",
            Self::Undecided { .. } => "undecided",
            Self::Guarded { .. } => "guarded",
            Self::Invalid { .. } => "invalid",
            Self::Unrecorded { .. } => "unrecorded",
        }
    }

    fn message(&self) -> String {
        let (mut message, problems) = match self {
            Self::Locked { shown, count, problems } => (locked(shown, *count), problems),
            Self::Undecided { object, problems } => {
                let object = object.as_deref().unwrap_or("the object");
                return format!("could not find out whether {object} is locked: {}", joined(problems));
            }
            Self::Guarded { lock, problems } => (
                format!(
                    "Object is locked: {lock} holds; only its holder, or a user with the verb unlock on it, may change \
                     or delete the lock"
                ),
                problems,
            ),
            Self::Invalid { lock, why } => return format!("{lock} can't be used: {}", clipped(why)),
            Self::Unrecorded { lock, problems } => {
                return format!(
                    "{lock} can't be stored, because depguard could not record it in a lock table: {}",
                    joined(problems)
                );
            }
            Self::Compat { lock } => return format!("Object is locked by {lock}: delete the Lock to unlock it"),
        };
        if !problems.is_empty() {
            // Writing to a string can't fail.
            let _ = write!(message, "; depguard could not check everything: {}", joined(problems));
        }
        message
    }

    fn causes(&self) -> Causes {
        let mut causes = Causes::default();
        match self {
            Self::Locked { shown, problems, .. } => {
                for LockText { lock, field, .. } in shown {
                    causes.add(Cause::ObjectLocked, lock, field);
                }
                if shown.is_empty() {
                    causes.add(Cause::ObjectLocked, "", "");
                }
                causes.add_problems(problems);
            }
            Self::Undecided { object: _, problems } | Self::Unrecorded { lock: _, problems } => {
                causes.add_problems(problems);
            }
            Self::Guarded { lock, problems } => {
                causes.add(Cause::LockGuarded, lock, "");
                causes.add_problems(problems);
            }
            Self::Invalid { lock, why: _ } => causes.add(Cause::LockInvalid, lock, ""),
            Self::Compat { lock } => causes.add(Cause::ObjectLocked, lock, ""),
        }
        causes
    }
}

fn locked(shown: &[LockText], count: usize) -> String {
    let others = count.saturating_sub(shown.len());
    if shown.is_empty() {
        let by = if count > 1 { format!(" by {count} locks") } else { String::new() };
        return format!("Object is locked{by}; users with the verb get on the lock can read the reason");
    }
    let texts: Vec<_> = shown.iter().map(|shown| clipped(&shown.text)).collect();
    let more = if others > 0 { format!("; and {others} more") } else { String::new() };
    format!("Object is locked: {}{more}", texts.join("; "))
}
