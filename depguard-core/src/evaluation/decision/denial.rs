//! Refusal of a change.

use std::fmt::Write;

use serde_json::{Value, json};

use super::missing_targets::MissingTargets;
use super::referrers::Referrers;
use super::refusal::{Causes, Sender};
use crate::model::names::{Group, GroupResource, Resource};
use crate::protocol::cause::Cause;
use crate::protocol::problem::{Unresolved, clipped, joined};

/// The reason for refusing a change, and the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    subject: Option<Subject>,
    reason: Reason,
    pub(super) sender: Sender,
}

/// The object of a review, and the requested change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) kind: GroupResource,
    pub(crate) name: String,
    pub(crate) change: Change,
}

/// The change that a review asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Creation,
    Update,
    Deletion,
}

/// The reason for refusing a change of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Other objects refer to the object.
    Referenced {
        /// The referrers.
        by: Referrers,
        /// Further problems.
        problems: Vec<Unresolved>,
        /// Reasons why it is unknown if the referrers are torn down together with the object, if that would allow the
        /// deletion.
        unread: Vec<Unresolved>,
    },
    /// The object begins to refer to objects that are not there.
    MissingTargets {
        /// The missing objects.
        missing: MissingTargets,
        /// Further problems.
        problems: Vec<Unresolved>,
    },
    /// The referrers, or the objects to which a reference is made, are unknown.
    Undecided {
        /// The problems, with advice.
        problems: Vec<Unresolved>,
    },
    /// Another object has the name of the object to create, so the API server would not store it.
    NameTaken,
    /// The rules are not loaded yet.
    NotReady {
        /// The missing part.
        missing: String,
    },
}

impl Denial {
    pub(crate) fn new(subject: Option<Subject>, reason: Reason, sender: Sender) -> Self {
        Self { subject, reason, sender }
    }

    /// Returns the reason, for programs.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// Returns the reason, for people.
    pub fn message(&self) -> String {
        let subject = self.subject.as_ref();
        let change = subject.map_or(Change::Deletion, |subject| subject.change);
        let subject = subject.map(|subject| format!("cannot {} {subject}: ", change.verb())).unwrap_or_default();
        match &self.reason {
            Reason::NameTaken => self.subject.as_ref().map_or_else(String::new, |Subject { kind, name, change: _ }| {
                format!("{kind} \"{name}\" already exists")
            }),
            Reason::NotReady { missing } if missing.is_empty() => {
                "dependency webhook not yet initialized, retry later".to_owned()
            }
            Reason::NotReady { missing } => {
                format!("dependency webhook not yet initialized, retry later ({})", clipped(missing))
            }
            Reason::Undecided { problems } => {
                format!("{subject}could not find out {}: {}", change.question("it"), joined(problems))
            }
            Reason::MissingTargets { missing, problems } => {
                let mut message = format!("{subject}{}", missing.text());
                if !problems.is_empty() {
                    // Writing to a string can't fail.
                    let _ = write!(message, "; could not find out {}: {}", change.question("it"), joined(problems));
                }
                message
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

    /// Returns the causes, for programs.
    pub fn causes(&self) -> Causes {
        let mut causes = Causes::default();
        match &self.reason {
            Reason::Referenced { by, problems, unread } => {
                for blocker in by.named() {
                    causes.add(Cause::StillReferenced, &blocker.to_string(), &blocker.field);
                }
                causes.add_problems(problems);
                causes.add_problems(unread);
            }
            Reason::MissingTargets { missing, problems } => {
                for target in missing.named() {
                    causes.add(target.reason.cause(), &target.to_string(), &target.field);
                }
                causes.add_problems(problems);
            }
            Reason::Undecided { problems } => causes.add_problems(problems),
            Reason::NameTaken => {}
            Reason::NotReady { missing } => causes.add(Cause::RulesNotLoaded, missing, ""),
        }
        causes
    }

    pub(super) fn status(&self, uid: &str) -> Value {
        let mut status = self.sender.status(uid, &self.message(), &self.causes());
        if let (Some(subject), Some(details)) =
            (&self.subject, status.get_mut("details").and_then(Value::as_object_mut))
        {
            let Subject { kind: GroupResource { group, resource }, name, change: _ } = subject;
            let (group, resource): (&Group, &Resource) = (group, resource);
            for (key, value) in [("name", json!(name)), ("group", json!(group)), ("kind", json!(resource))] {
                details.insert(key.to_owned(), value);
            }
        }
        if let (Reason::NameTaken, Some(status)) = (&self.reason, status.as_object_mut()) {
            let answer = [("code", json!(409)), ("reason", json!("AlreadyExists"))];
            status.extend(answer.map(|(key, value)| (key.to_owned(), value)));
        }
        status
    }
}

impl Reason {
    /// Returns the problems, with advice.
    pub fn problems(&self) -> Vec<Unresolved> {
        match self {
            Self::Referenced { problems, unread, .. } => problems.iter().chain(unread).cloned().collect(),
            Self::MissingTargets { problems, .. } | Self::Undecided { problems } => problems.clone(),
            Self::NameTaken => Vec::new(),
            Self::NotReady { missing } => vec![Unresolved::new(Cause::RulesNotLoaded, missing)],
        }
    }

    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Referenced { .. } => "referenced",
            Self::MissingTargets { .. } => "missing-targets",
            Self::Undecided { .. } => "undecided",
            Self::NameTaken => "name-taken",
            Self::NotReady { .. } => "not-ready",
        }
    }
}

impl Subject {
    /// Creates the object of a deletion.
    pub(crate) fn deleted(kind: GroupResource, name: impl Into<String>) -> Self {
        Self { kind, name: name.into(), change: Change::Deletion }
    }
}

impl Change {
    fn verb(self) -> &'static str {
        match self {
            Self::Creation => "create",
            Self::Update => "update",
            Self::Deletion => "delete",
        }
    }

    /// Returns the question that a review of the object asks, as the end of a sentence.
    pub(super) fn question(self, object: &str) -> String {
        match self {
            Self::Creation | Self::Update => format!("if the objects exist to which {object} refers"),
            Self::Deletion => format!("what refers to {object}"),
        }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.kind.resource, self.name)
    }
}
