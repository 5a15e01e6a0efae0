//! What is answered to a review, and in which words.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api::FailurePolicy;
use crate::review::Review;

mod denial;
mod notes;
mod referrers;

pub(crate) use self::denial::Subject;
pub use self::denial::{Denial, Reason, RefusalCode};
pub use self::notes::Notes;
pub use self::referrers::{Blocker, Count, Referrers};
pub(crate) use self::referrers::{clipped, joined, names};

/// The answer to a review: the ruling, and what is said besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    ruling: Ruling,
    notes: Notes,
}

/// Whether a review may go on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a review is allowed or it is not")]
pub enum Ruling {
    /// It may.
    Allowed(Because),
    /// It must not.
    Denied(Box<Denial>),
}

/// Why a review was allowed: one of a closed set, fit for a metric's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
    /// Others refer to it, but the rules want no more than a warning.
    Warned,
    /// Others refer to it, but the rules want it no more than recorded.
    Audited,
    /// It could not be found out whether others refer to it, but the rules don't want that refused.
    Tolerated,
}

/// Something that could not be found out, as a sentence that ends in what to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{0}")]
pub struct Problem(pub(crate) String);

impl Decision {
    pub(crate) fn new(ruling: Ruling, notes: Notes) -> Self {
        Self { ruling, notes }
    }

    pub(crate) fn allow(because: Because) -> Self {
        Self::new(Ruling::Allowed(because), Notes::default())
    }

    pub(crate) fn deny(subject: Subject, reason: Reason, refusal: RefusalCode) -> Self {
        Self::new(Ruling::Denied(Box::new(Denial::new(Some(subject), reason, refusal))), Notes::default())
    }

    /// The answer while the rules are not loaded, with what is missing: refused, but for those who ask for rules that are
    /// ignored where they fail.
    pub fn not_ready(failure_policy: FailurePolicy, missing: impl Into<String>) -> Self {
        let missing = missing.into();
        let why = if missing.is_empty() { String::new() } else { format!(" ({missing})") };
        let problem = Problem(format!("the rules are not loaded yet{why}; retry later"));
        Self::without_rules(failure_policy, problem, Reason::NotReady { missing })
    }

    /// The answer where it can't be told whether the rules that are loaded are what they are now, and why: refused, but
    /// for those who ask for rules that are ignored where they fail.
    pub fn not_current(failure_policy: FailurePolicy, why: impl Into<String>) -> Self {
        let problem = Problem(why.into());
        Self::without_rules(failure_policy, problem.clone(), Reason::Undecided { problems: vec![problem] })
    }

    fn without_rules(failure_policy: FailurePolicy, problem: Problem, reason: Reason) -> Self {
        match failure_policy {
            FailurePolicy::Fail => {
                let denial = Denial::new(None, reason, RefusalCode::Forbidden);
                Self::new(Ruling::Denied(Box::new(denial)), Notes::default())
            }
            FailurePolicy::Ignore => {
                let notes = Notes { problems: vec![problem], ..Notes::default() };
                Self::new(Ruling::Allowed(Because::Tolerated), notes)
            }
        }
    }

    /// The same as the answer to this review, which may be an eviction: that is refused by another code.
    pub fn answering(mut self, review: &Review<'_>) -> Self {
        if let Ruling::Denied(denial) = &mut self.ruling {
            denial.refusal = RefusalCode::of(review);
        }
        self
    }

    /// Whether the review may go on, and why.
    pub fn ruling(&self) -> &Ruling {
        &self.ruling
    }

    /// What is said besides.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Whether the review may go on.
    pub fn allowed(&self) -> bool {
        matches!(self.ruling, Ruling::Allowed(_))
    }

    /// Why it was refused; `None` where it was allowed.
    pub fn denial(&self) -> Option<&Denial> {
        match &self.ruling {
            Ruling::Allowed(_) => None,
            Ruling::Denied(denial) => Some(denial),
        }
    }

    /// Why it was refused, for people; `None` where it was allowed.
    pub fn message(&self) -> Option<String> {
        self.denial().map(Denial::message)
    }

    /// The ruling in one word of a closed set, fit for a metric's label.
    pub fn label(&self) -> &'static str {
        match &self.ruling {
            Ruling::Allowed(because) => because.label(),
            Ruling::Denied(denial) => denial.reason().label(),
        }
    }

    /// The `admission.k8s.io/v1` AdmissionReview that answers the review of that `uid`, as JSON.
    ///
    /// A refusal has code 403 and reason `Forbidden`, of an eviction code 429 and reason `TooManyRequests`, and a cause for
    /// each blocker that its message names.
    pub fn to_review(&self, uid: &str) -> Vec<u8> {
        let status = self.denial().map(Denial::status);
        answered(uid, status, &self.notes.warnings(), &self.notes.audit_annotations())
    }
}

/// The AdmissionReview that answers the review of that `uid`: allowed, unless there is a status of a refusal.
pub(crate) fn answered(
    uid: &str,
    refused: Option<Value>,
    warnings: &[String],
    annotations: &BTreeMap<&'static str, String>,
) -> Vec<u8> {
    let mut response = json!({"uid": uid, "allowed": refused.is_none()});
    if let Some(response) = response.as_object_mut() {
        if let Some(status) = refused {
            response.insert("status".to_owned(), status);
        }
        if !warnings.is_empty() {
            response.insert("warnings".to_owned(), json!(warnings));
        }
        if !annotations.is_empty() {
            response.insert("auditAnnotations".to_owned(), json!(annotations));
        }
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
        .to_string()
        .into_bytes()
}

impl Because {
    fn label(self) -> &'static str {
        match self {
            Self::NotADeletion => "not-a-deletion",
            Self::NoRule => "no-rule",
            Self::NotBound => "not-bound",
            Self::Terminating => "terminating",
            Self::Overridden => "overridden",
            Self::Unreferenced => "unreferenced",
            Self::TornDown => "torn-down",
            Self::Warned => "warned",
            Self::Audited => "audited",
            Self::Tolerated => "tolerated",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Group, GroupResource, Resource};
    use crate::rule::RuleKey;

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
            rule: rule("r"),
        }
    }

    fn rule(name: &str) -> RuleKey {
        RuleKey { cluster: None, name: name.to_owned() }
    }

    fn by(blockers: Vec<Blocker>, count: Count) -> Referrers {
        Referrers { blockers, count, rules: vec![rule("r")], messages: vec![] }
    }

    fn referenced(by: Referrers) -> Decision {
        Decision::deny(subject(), Reason::Referenced { by, problems: vec![], unread: vec![] }, RefusalCode::Forbidden)
    }

    #[test]
    fn the_message_names_each_blocker() {
        let decision = referenced(by(vec![blocker(None, "m1"), blocker(Some("ns"), "m2")], Count::Exactly(2)));
        assert_eq!(
            decision.message().unwrap(),
            "cannot delete vpcs/a: still referenced by VirtualMachine/m1, VirtualMachine/ns/m2"
        );
    }

    #[test]
    fn a_review_of_a_refusal_is_a_forbidden_status_with_a_cause_a_blocker() {
        let decision = referenced(by(vec![blocker(Some("ns"), "m1")], Count::Exactly(1)));
        let review: Value = serde_json::from_slice(&decision.to_review("u\"1")).unwrap();
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
        let allowed: Value = serde_json::from_slice(&Decision::allow(Because::Unreferenced).to_review("1")).unwrap();
        assert_eq!(allowed["response"], json!({"uid": "1", "allowed": true}));
    }

    #[test]
    fn a_message_stays_readable_however_many_blockers_there_are() {
        let many: Vec<_> = (0..1500).map(|n| blocker(None, &format!("m{n:04}"))).collect();
        let message = referenced(by(many, Count::Exactly(1500))).message().unwrap();
        assert!(message.ends_with("VirtualMachine/m0019 and 1480 more (1500 in all)"), "{message}");

        let long: Vec<_> =
            (0..20).map(|n| blocker(Some(&"n".repeat(63)), &format!("{n}{}", "m".repeat(250)))).collect();
        let decision = referenced(by(long, Count::AtLeast(10_000)));
        let message = decision.message().unwrap();
        assert!(message.len() < 3_000 && message.contains(" and at least 9994 more"));
        assert!(decision.to_review("1").len() < 8_000);
    }

    #[test]
    fn what_others_said_is_cut_to_a_readable_length() {
        let problems = vec![Problem("é".repeat(10_000)); 9];
        let message =
            Decision::deny(subject(), Reason::Undecided { problems }, RefusalCode::Forbidden).message().unwrap();
        assert!(message.starts_with("cannot delete vpcs/a: could not find out what refers to it: é"));
        assert!(message.ends_with("…; and 6 more problems") && message.len() < 5_000);
    }

    #[test]
    fn not_ready_says_what_the_reference_says() {
        let message = |missing: &str| Decision::not_ready(FailurePolicy::Fail, missing).message().unwrap();
        assert_eq!(message(""), "dependency webhook not yet initialized, retry later");
        let expected = "dependency webhook not yet initialized, retry later (no endpoint answers)";
        assert_eq!(message("no endpoint answers"), expected);
        let ignored = Decision::not_ready(FailurePolicy::Ignore, "no endpoint answers");
        assert!(ignored.allowed() && ignored.notes().warnings()[0].contains("not loaded yet (no endpoint answers)"));
    }

    #[test]
    fn rules_are_named_where_they_are_several_and_their_words_come_last() {
        let mut by = by(vec![blocker(None, "m1")], Count::Exactly(1));
        by.messages = vec!["detach it first".to_owned()];
        assert_eq!(
            referenced(by.clone()).message().unwrap(),
            "cannot delete vpcs/a: still referenced by VirtualMachine/m1; detach it first"
        );
        by.rules = (0..7).map(|n| rule(&format!("r{n}"))).collect();
        by.messages = vec!["é".repeat(1000); 9];
        let message = referenced(by).message().unwrap();
        assert!(message.contains("VirtualMachine/m1; by rules r0, r1, r2, r3, r4 and 2 more; é"), "{message}");
        assert!(message.len() < 5_000);
    }

    #[test]
    fn what_is_not_refused_is_warned_of_or_recorded() {
        let referrers = by(vec![blocker(None, "m1")], Count::Exactly(1));
        let problems = vec![Problem("the list failed".to_owned())];
        let notes = Notes {
            subject: Some(subject()),
            warned: Some(referrers.clone()),
            audited: Some(referrers),
            problems: problems.clone(),
            audited_problems: problems,
            overridden_by: Some("bob".to_owned()),
            misfits: 1,
            lookups: Vec::new(),
        };
        let decision = Decision::new(Ruling::Allowed(Because::Warned), notes);
        let review: Value = serde_json::from_slice(&decision.to_review("1")).unwrap();
        assert_eq!(
            review["response"],
            json!({
                "uid": "1", "allowed": true,
                "warnings": [
                    "vpcs/a is still referenced by VirtualMachine/m1",
                    "could not find out what refers to vpcs/a: the list failed",
                ],
                "auditAnnotations": {
                    "still-referenced-by": "VirtualMachine/m1",
                    "not-found-out": "the list failed",
                    "overridden-by": "bob",
                },
            })
        );
    }
}
