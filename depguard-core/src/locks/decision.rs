//! What is answered to a review about locks, and in which words.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::lock::Lock;
use crate::decision::{Problem, answered, clipped, joined};
use crate::review::unreadable_review;

/// The answer to a review about locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockDecision {
    ruling: Ruling,
    locks: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ruling {
    Allowed(Because),
    Denied(Refusal),
}

/// Why a review was allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Because {
    /// Nothing that a lock forbids.
    NotGuarded,
    /// Only what may always be changed is changed.
    Exempt,
    /// The object is being deleted already.
    Terminating,
    /// No lock names the object, or none forbids this.
    Unlocked,
    /// All locks that would forbid it have ended.
    Expired,
    /// The requester holds them.
    Holder,
    /// The requester may unlock it.
    Unlock,
    /// It lies in what is torn down, and the locks release it then.
    Teardown,
    /// The lock can be found now.
    Recorded,
}

/// Why a review was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Locks forbid it.
    Locked {
        /// Those that the requester may know of.
        shown: Vec<Shown>,
        /// How many there are.
        count: usize,
        /// What could not be found out besides.
        problems: Vec<Problem>,
    },
    /// It could not be found out whether the object is locked.
    Undecided { object: Option<String>, problems: Vec<Problem> },
    /// The lock itself is locked, since it holds.
    Guarded { lock: String, problems: Vec<Problem> },
    /// The lock can't be used.
    Invalid { lock: String, why: String },
    /// The lock can't be stored, for nobody would find it.
    Unrecorded { lock: String, problems: Vec<Problem> },
    /// A lock of the older kind is there.
    Compat { lock: String },
}

/// A lock, as a refusal shows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shown {
    lock: String,
    text: String,
    field: String,
}

impl Shown {
    /// What is said of a lock that forbids something, because of this field.
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
    /// Every [label](Self::label).
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

    pub(super) fn allow(because: Because, locks: Vec<String>) -> Self {
        Self { ruling: Ruling::Allowed(because), locks }
    }

    pub(super) fn refuse(refusal: Refusal, locks: Vec<String>) -> Self {
        Self { ruling: Ruling::Denied(refusal), locks }
    }

    /// The review lacks what it must say.
    pub(super) fn unreadable(object: Option<&str>, why: &str) -> Self {
        let problems = vec![Problem(unreadable_review(why))];
        Self::refuse(Refusal::Undecided { object: object.map(str::to_owned), problems }, Vec::new())
    }

    /// Whether the review may go on.
    pub fn allowed(&self) -> bool {
        matches!(self.ruling, Ruling::Allowed(_))
    }

    /// Why it was refused, for people; `None` where it was allowed.
    pub fn message(&self) -> Option<String> {
        match &self.ruling {
            Ruling::Allowed(_) => None,
            Ruling::Denied(refusal) => Some(refusal.message()),
        }
    }

    /// The ruling in one word of a closed set, fit for a metric's label.
    pub fn label(&self) -> &'static str {
        match &self.ruling {
            Ruling::Allowed(because) => because.label(),
            Ruling::Denied(refusal) => refusal.label(),
        }
    }

    /// Whether it was refused since something could not be found out or written, and not because it is locked.
    pub fn is_undecided(&self) -> bool {
        matches!(self.ruling, Ruling::Denied(Refusal::Undecided { .. } | Refusal::Unrecorded { .. }))
    }

    /// The locks that the decision is about, such as `ObjectLock default/a`: for the log and the audit log, not for the
    /// requester, who may not know of them.
    pub fn locks(&self) -> &[String] {
        &self.locks
    }

    /// What could not be found out, for the log of the operator; `None`: nothing, or nothing that mattered.
    pub fn trouble(&self) -> Option<String> {
        let problems = match &self.ruling {
            Ruling::Denied(
                Refusal::Locked { problems, .. }
                | Refusal::Undecided { problems, .. }
                | Refusal::Guarded { problems, .. }
                | Refusal::Unrecorded { problems, .. },
            ) => problems.as_slice(),
            Ruling::Denied(Refusal::Invalid { .. } | Refusal::Compat { .. }) | Ruling::Allowed(_) => &[],
        };
        (!problems.is_empty()).then(|| joined(problems))
    }

    /// The audit annotations of the answer; an API server puts the webhook's name before each key.
    pub fn audit_annotations(&self) -> BTreeMap<&'static str, String> {
        if self.locks.is_empty() {
            return BTreeMap::new();
        }
        let mut locks: Vec<_> = self.locks.iter().take(MOST_NAMED).cloned().collect();
        if self.locks.len() > MOST_NAMED {
            locks.push(format!("and {} more", self.locks.len() - MOST_NAMED));
        }
        let decision = match &self.ruling {
            Ruling::Allowed(because) => because.label(),
            Ruling::Denied(_) => "refused",
        };
        BTreeMap::from([("lock", locks.join(", ")), ("lock-decision", decision.to_owned())])
    }

    /// The `admission.k8s.io/v1` AdmissionReview that answers the review of that `uid`, as JSON. A refusal has code 403
    /// and reason `Forbidden`.
    pub fn to_review(&self, uid: &str) -> Vec<u8> {
        let status = match &self.ruling {
            Ruling::Allowed(_) => None,
            Ruling::Denied(refusal) => Some(refusal.status()),
        };
        answered(uid, status, &[], &self.audit_annotations())
    }
}

/// The most locks that are named.
pub(super) const MOST_NAMED: usize = 3;

impl Because {
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
                    "Object is locked: {lock} holds, and only its holder, or who has the verb unlock on it, may change or \
                     delete it"
                ),
                problems,
            ),
            Self::Invalid { lock, why } => return format!("{lock} can't be used: {}", clipped(why)),
            Self::Unrecorded { lock, problems } => {
                return format!("{lock} can't be stored, since nobody would find it: {}", joined(problems));
            }
            Self::Compat { lock } => return format!("Object is locked by {lock}: delete the Lock to unlock it"),
        };
        if !problems.is_empty() {
            // Writing to a string can't fail.
            let _ = write!(message, "; could not find out: {}", joined(problems));
        }
        message
    }

    fn status(&self) -> Value {
        let mut status = json!({
            "metadata": {}, "status": "Failure", "code": 403, "reason": "Forbidden", "message": self.message(),
        });
        if let (Self::Locked { shown, .. }, Some(status)) = (self, status.as_object_mut()) {
            let causes: Vec<_> = shown
                .iter()
                .map(|Shown { lock, field, .. }| json!({"reason": "ObjectLocked", "message": lock, "field": field}))
                .collect();
            status.insert("details".to_owned(), json!({"causes": causes}));
        }
        status
    }
}

fn locked(shown: &[Shown], count: usize) -> String {
    let others = count.saturating_sub(shown.len());
    if shown.is_empty() {
        let by = if count > 1 { format!(" by {count} locks") } else { String::new() };
        return format!("Object is locked{by}; the reason is told to those who may get the lock");
    }
    let texts: Vec<_> = shown.iter().map(|shown| clipped(&shown.text)).collect();
    let more = if others > 0 { format!("; and {others} more") } else { String::new() };
    format!("Object is locked: {}{more}", texts.join("; "))
}
