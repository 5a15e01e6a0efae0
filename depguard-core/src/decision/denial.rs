//! A refusal.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Problem;
use super::referrers::{Blocker, Referrers, clipped, joined};
use crate::names::{Group, GroupResource, Resource};
use crate::review::Review;

/// Why a deletion was refused, and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    subject: Option<Subject>,
    reason: Reason,
    pub(super) refusal: RefusalCode,
}

/// The code and the reason by which an API server tells a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalCode {
    /// 403, as of a deletion: nothing but a change of what refers to the object lets it go.
    Forbidden,
    /// 429, as a PodDisruptionBudget refuses an eviction: `kubectl drain` then tries again, and ends at a 403.
    TooManyRequests,
}

impl RefusalCode {
    /// The one that the sender of this review can use.
    pub fn of(review: &Review<'_>) -> Self {
        if review.is_eviction() { Self::TooManyRequests } else { Self::Forbidden }
    }

    /// The `metav1.Status` with this message.
    pub fn status(self, message: &str) -> Value {
        let (code, reason) = match self {
            Self::Forbidden => (403, "Forbidden"),
            Self::TooManyRequests => (429, "TooManyRequests"),
        };
        json!({"metadata": {}, "status": "Failure", "code": code, "reason": reason, "message": message})
    }
}

/// The object that was to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) kind: GroupResource,
    pub(crate) name: String,
}

/// Why a deletion was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Others refer to it.
    Referenced {
        /// Who.
        by: Referrers,
        /// What could not be found out besides.
        problems: Vec<Problem>,
        /// Why it could not be told whether they are torn down together with it, where that would let it go.
        unread: Vec<Problem>,
    },
    /// It could not be found out whether others refer to it.
    Undecided {
        /// What could not be found out, and what to do.
        problems: Vec<Problem>,
    },
    /// The rules are not loaded yet.
    NotReady {
        /// What is missing.
        missing: String,
    },
}

impl Denial {
    pub(crate) fn new(subject: Option<Subject>, reason: Reason, refusal: RefusalCode) -> Self {
        Self { subject, reason, refusal }
    }

    /// Why, for those who decide on it.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// Why, for people.
    pub fn message(&self) -> String {
        let subject = self.subject.as_ref();
        let subject = subject.map(|subject| format!("cannot delete {subject}: ")).unwrap_or_default();
        match &self.reason {
            Reason::NotReady { missing } if missing.is_empty() => {
                "dependency webhook not yet initialized, retry later".to_owned()
            }
            Reason::NotReady { missing } => {
                format!("dependency webhook not yet initialized, retry later ({})", clipped(missing))
            }
            Reason::Undecided { problems } => {
                format!("{subject}could not find out what refers to it: {}", joined(problems))
            }
            Reason::Referenced { by, problems, unread } => {
                let mut message = format!("{subject}still referenced by {}", by.text());
                // Writing to a string can't fail.
                if !problems.is_empty() {
                    let _ = write!(message, "; could not find out what else refers to it: {}", joined(problems));
                }
                if !unread.is_empty() {
                    let _ = write!(message, "; could not find out what is being torn down: {}", joined(unread));
                }
                message
            }
        }
    }

    pub(super) fn status(&self) -> Value {
        let mut status = self.refusal.status(&self.message());
        if let Some(Subject { kind: GroupResource { group, resource }, name }) = &self.subject {
            let causes: Vec<_> = match &self.reason {
                Reason::Referenced { by, .. } => by.named().iter().map(Blocker::cause).collect(),
                Reason::Undecided { .. } | Reason::NotReady { .. } => Vec::new(),
            };
            let (group, resource): (&Group, &Resource) = (group, resource);
            let details = json!({"name": name, "group": group, "kind": resource, "causes": causes});
            if let Some(status) = status.as_object_mut() {
                status.insert("details".to_owned(), details);
            }
        }
        status
    }
}

impl Reason {
    /// What could not be found out, and what to do.
    pub fn problems(&self) -> Vec<String> {
        match self {
            Self::Referenced { problems, unread, .. } => {
                problems.iter().chain(unread).map(ToString::to_string).collect()
            }
            Self::Undecided { problems } => problems.iter().map(ToString::to_string).collect(),
            Self::NotReady { missing } => vec![missing.clone()],
        }
    }

    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Referenced { .. } => "referenced",
            Self::Undecided { .. } => "undecided",
            Self::NotReady { .. } => "not-ready",
        }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.kind.resource, self.name)
    }
}
