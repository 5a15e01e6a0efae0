//! What is answered to a review, and in which words.

use std::fmt::Write;

use serde_json::json;

use crate::names::{Group, GroupResource, Resource};
use crate::rule::RuleKey;

/// The answer to a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may go on.
    Allowed(Because),
    /// It must not.
    Denied(Denial),
}

/// Why a review was allowed: one of a closed set, fit for a metric's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Because {
    /// Not a deletion of an object.
    NotADeletion,
    /// No rule names this kind.
    NoRule,
    /// Rules name this kind, but none bears on this logical cluster.
    NotBound,
    /// The object is already being deleted: there is nothing left to grant.
    Terminating,
    /// The object says so, and the requester is one whom the operator allowed to override.
    Overridden,
    /// Nothing refers to it.
    Unreferenced,
    /// Only what is torn down together with it refers to it, and one would wait for the other for ever.
    TornDown,
}

/// Why a deletion was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    subject: Option<Subject>,
    reason: Reason,
}

/// The object that was to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) kind: GroupResource,
    pub(crate) name: String,
}

/// Why a deletion was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Others refer to it.
    Referenced {
        /// The first of them, in the order of kind, namespace and name.
        blockers: Vec<Blocker>,
        /// How many there are.
        count: Count,
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

/// A dependent that forbids a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// Its kind.
    pub kind: String,
    /// Its namespace, where it has one and it is not the target's.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The field that refers to the target: `spec.vpcRef.name`.
    pub field: String,
    /// The rule that says so.
    pub rule: RuleKey,
}

/// How many dependents refer to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// This many.
    Exactly(usize),
    /// This many were found before the search was given up.
    AtLeast(usize),
}

/// Something that could not be found out, as a sentence that ends in what to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{0}")]
pub struct Problem(pub(crate) String);

/// Bounds on a message, so that it can be read however many blockers there are.
const MOST_NAMED: usize = 20;
const MOST_NAMED_BYTES: usize = 2_048;
const MOST_PROBLEMS: usize = 3;
const MOST_PROBLEM_BYTES: usize = 600;

impl Decision {
    /// The answer while the rules are not loaded: refused, with what is missing.
    pub fn not_ready(missing: impl Into<String>) -> Self {
        Self::Denied(Denial { subject: None, reason: Reason::NotReady { missing: missing.into() } })
    }

    /// Whether the review may go on.
    pub fn allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// Why it was refused, for people; `None` where it was allowed.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::Allowed(_) => None,
            Self::Denied(denial) => Some(denial.message()),
        }
    }

    /// The decision in one word of a closed set, fit for a metric's label.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Allowed(Because::NotADeletion) => "not-a-deletion",
            Self::Allowed(Because::NoRule) => "no-rule",
            Self::Allowed(Because::NotBound) => "not-bound",
            Self::Allowed(Because::Terminating) => "terminating",
            Self::Allowed(Because::Overridden) => "overridden",
            Self::Allowed(Because::Unreferenced) => "unreferenced",
            Self::Allowed(Because::TornDown) => "torn-down",
            Self::Denied(Denial { reason: Reason::Referenced { .. }, .. }) => "referenced",
            Self::Denied(Denial { reason: Reason::Undecided { .. }, .. }) => "undecided",
            Self::Denied(Denial { reason: Reason::NotReady { .. }, .. }) => "not-ready",
        }
    }

    /// The `admission.k8s.io/v1` AdmissionReview that answers the review of that `uid`, as JSON.
    ///
    /// A refusal has code 403 and reason `Forbidden`, and a cause for each blocker that its message names.
    pub fn to_review(&self, uid: &str) -> Vec<u8> {
        let mut response = json!({"uid": uid, "allowed": self.allowed()});
        if let (Self::Denied(denial), Some(response)) = (self, response.as_object_mut()) {
            response.insert("status".to_owned(), denial.status());
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
            .to_string()
            .into_bytes()
    }
}

impl Denial {
    pub(crate) fn new(subject: Subject, reason: Reason) -> Self {
        Self { subject: Some(subject), reason }
    }

    /// Why, for those who decide on it.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// Why, for people.
    pub fn message(&self) -> String {
        let subject = self.subject.as_ref();
        let subject = subject.map(|s| format!("cannot delete {}/{}: ", s.kind.resource, s.name)).unwrap_or_default();
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
            Reason::Referenced { blockers, count, problems, unread } => {
                let named = named(blockers);
                let names: Vec<_> = named.iter().map(Blocker::to_string).collect();
                let mut message = format!("{subject}still referenced by {}", names.join(", "));
                let more = |count: usize| count.saturating_sub(names.len());
                // Writing to a string can't fail.
                let _ = match *count {
                    Count::Exactly(count) if more(count) == 0 => Ok(()),
                    Count::Exactly(count) => write!(message, " and {} more ({count} in all)", more(count)),
                    Count::AtLeast(count) => write!(message, " and at least {} more", more(count)),
                };
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

    fn status(&self) -> serde_json::Value {
        let mut status = json!({
            "metadata": {}, "status": "Failure", "code": 403, "reason": "Forbidden", "message": self.message(),
        });
        if let Some(Subject { kind: GroupResource { group, resource }, name }) = &self.subject {
            let causes: Vec<_> = match &self.reason {
                Reason::Referenced { blockers, .. } => named(blockers).iter().map(Blocker::cause).collect(),
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

impl Blocker {
    fn cause(&self) -> serde_json::Value {
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

fn joined(problems: &[Problem]) -> String {
    let shown: Vec<_> = problems.iter().take(MOST_PROBLEMS).map(|problem| clipped(&problem.0)).collect();
    let mut text = shown.join("; ");
    if problems.len() > MOST_PROBLEMS {
        let _ = write!(text, "; and {} more problems", problems.len() - MOST_PROBLEMS);
    }
    text
}

/// Others' words, cut to a length that leaves a message readable.
fn clipped(text: &str) -> String {
    match text.char_indices().nth(MOST_PROBLEM_BYTES) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn subject() -> Subject {
        let group = Group::parse("network.example.com").unwrap();
        Subject { kind: GroupResource { group, resource: Resource::parse("vpcs").unwrap() }, name: "a".to_owned() }
    }

    fn blocker(namespace: Option<&str>, name: &str) -> Blocker {
        Blocker {
            kind: "VirtualMachine".to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            field: "spec.vpcRef.name".to_owned(),
            rule: RuleKey { cluster: None, name: "r".to_owned() },
        }
    }

    fn referenced(blockers: Vec<Blocker>, count: Count) -> Denial {
        Denial::new(subject(), Reason::Referenced { blockers, count, problems: vec![], unread: vec![] })
    }

    #[test]
    fn the_message_names_each_blocker() {
        let denial = referenced(vec![blocker(None, "m1"), blocker(Some("ns"), "m2")], Count::Exactly(2));
        assert_eq!(
            denial.message(),
            "cannot delete vpcs/a: still referenced by VirtualMachine/m1, VirtualMachine/ns/m2"
        );
    }

    #[test]
    fn a_review_of_a_refusal_is_a_forbidden_status_with_a_cause_a_blocker() {
        let denial = referenced(vec![blocker(Some("ns"), "m1")], Count::Exactly(1));
        let review: Value = serde_json::from_slice(&Decision::Denied(denial).to_review("u\"1")).unwrap();
        assert_eq!(
            review,
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
                "uid": "u\"1", "allowed": false, "status": {
                    "metadata": {}, "status": "Failure", "code": 403, "reason": "Forbidden",
                    "message": "cannot delete vpcs/a: still referenced by VirtualMachine/ns/m1",
                    "details": {"name": "a", "group": "network.example.com", "kind": "vpcs", "causes": [
                        {"reason": "StillReferenced", "message": "VirtualMachine/ns/m1", "field": "spec.vpcRef.name"},
                    ]},
                },
            }})
        );
        let allowed: Value = serde_json::from_slice(&Decision::Allowed(Because::Unreferenced).to_review("1")).unwrap();
        assert_eq!(allowed["response"], json!({"uid": "1", "allowed": true}));
    }

    #[test]
    fn a_message_stays_readable_however_many_blockers_there_are() {
        let many: Vec<_> = (0..1500).map(|n| blocker(None, &format!("m{n:04}"))).collect();
        let message = referenced(many, Count::Exactly(1500)).message();
        assert!(message.ends_with("VirtualMachine/m0019 and 1480 more (1500 in all)"), "{message}");

        let long: Vec<_> =
            (0..20).map(|n| blocker(Some(&"n".repeat(63)), &format!("{n}{}", "m".repeat(250)))).collect();
        let denial = referenced(long, Count::AtLeast(10_000));
        assert!(denial.message().len() < 3_000 && denial.message().contains(" and at least 9994 more"));
        assert!(Decision::Denied(denial).to_review("1").len() < 8_000);
    }

    #[test]
    fn what_others_said_is_cut_to_a_readable_length() {
        let problems = vec![Problem("é".repeat(10_000)); 9];
        let message = Denial::new(subject(), Reason::Undecided { problems }).message();
        assert!(message.starts_with("cannot delete vpcs/a: could not find out what refers to it: é"));
        assert!(message.ends_with("…; and 6 more problems") && message.len() < 5_000);
    }

    #[test]
    fn not_ready_says_what_the_reference_says() {
        let Decision::Denied(denial) = Decision::not_ready("") else { panic!() };
        assert_eq!(denial.message(), "dependency webhook not yet initialized, retry later");
        let Decision::Denied(denial) = Decision::not_ready("no endpoint answers") else { panic!() };
        assert_eq!(denial.message(), "dependency webhook not yet initialized, retry later (no endpoint answers)");
    }
}
