//! Decision on a review, and its text.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::model::api::FailurePolicy;
use crate::protocol::admission_review::Review;
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;

mod denial;
mod diagnostics;
mod missing_targets;
mod referrers;
mod refusal;

pub(crate) use self::denial::{Change, Subject};
pub use self::denial::{Denial, Reason};
pub use self::diagnostics::Diagnostics;
pub use self::missing_targets::{MissingReason, MissingTarget, MissingTargets};
#[cfg(feature = "interlock")]
pub(in crate::evaluation) use self::referrers::by_rules;
pub(crate) use self::referrers::names;
pub use self::referrers::{Blocker, Count, Referrers};
pub use self::refusal::{Causes, Sender};

/// The answer to a review: the verdict, and further notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    verdict: Verdict,
    diagnostics: Diagnostics,
}

/// The verdict on a review.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a review is allowed or it is not")]
pub enum Verdict {
    /// The review may go on.
    Allowed(AllowReason),
    /// The review must not go on.
    Denied(Box<Denial>),
}

/// The reason for allowing a review: one of a closed set, fit for a metric's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AllowReason {
    /// The request is not a deletion of an object.
    NotADeletion,
    /// The request neither creates nor updates an object.
    NotAChange,
    /// No rule names this kind.
    NoRule,
    /// Rules name this kind, but none of them applies in this logical cluster.
    NotBound,
    /// The object is already being deleted, so there is nothing left to allow.
    Terminating,
    /// The object has the annotation, and the operator allows the requester to override.
    Overridden,
    /// The object is not referenced.
    Unreferenced,
    /// The object begins to refer to nothing.
    NoNewReference,
    /// All objects to which the object begins to refer are there.
    TargetsExist,
    /// Only objects that are torn down together with the object refer to it, and each would wait for the other
    /// forever.
    TornDown,
    /// Other objects refer to the object, but the rules only ask for a warning.
    Warned,
    /// Other objects refer to the object, but the rules only ask for a record.
    Audited,
    /// The referrers are unknown, but the rules don't ask for a refusal in that case.
    Tolerated,
}

impl Decision {
    pub(crate) fn new(verdict: Verdict, diagnostics: Diagnostics) -> Self {
        Self { verdict, diagnostics }
    }

    pub(crate) fn allow(reason: AllowReason) -> Self {
        Self::new(Verdict::Allowed(reason), Diagnostics::default())
    }

    pub(crate) fn deny(subject: Subject, reason: Reason, sender: Sender) -> Self {
        Self::new(Verdict::Denied(Box::new(Denial::new(Some(subject), reason, sender))), Diagnostics::default())
    }

    /// Returns the answer while the rules are not loaded, with the missing part. The answer is a refusal, unless the
    /// caller asks for rules with failure policy `Ignore`.
    pub fn not_ready(failure_policy: FailurePolicy, missing: impl Into<String>) -> Self {
        let missing = missing.into();
        let why = if missing.is_empty() { String::new() } else { format!(" ({missing})") };
        let problem = Unresolved::new(
            Cause::RulesNotLoaded,
            format!("the webhook has not loaded the rules yet{why}; retry later"),
        );
        Self::without_rules(failure_policy, problem, Reason::NotReady { missing })
    }

    /// Returns the answer if the loaded rules may be outdated, with the reason. The answer is a refusal, unless the
    /// caller asks for rules with failure policy `Ignore`.
    pub fn not_current(failure_policy: FailurePolicy, problem: Unresolved) -> Self {
        Self::without_rules(failure_policy, problem.clone(), Reason::Undecided { problems: vec![problem] })
    }

    fn without_rules(failure_policy: FailurePolicy, problem: Unresolved, reason: Reason) -> Self {
        match failure_policy {
            FailurePolicy::Fail => {
                let denial = Denial::new(None, reason, Sender::Unknown);
                Self::new(Verdict::Denied(Box::new(denial)), Diagnostics::default())
            }
            FailurePolicy::Ignore => {
                let diagnostics = Diagnostics { problems: vec![problem], ..Diagnostics::default() };
                Self::new(Verdict::Allowed(AllowReason::Tolerated), diagnostics)
            }
        }
    }

    /// Returns the decision as the answer to this review, whose sender decides about the code of a refusal.
    pub fn answering(mut self, review: &Review<'_>) -> Self {
        if let Verdict::Denied(denial) = &mut self.verdict {
            denial.sender = Sender::from_review(review);
        }
        self
    }

    /// Returns the decision of a review that left these marks in the interlock.
    pub fn with_marks(mut self, marks: BTreeMap<String, usize>) -> Self {
        self.diagnostics.marks = marks;
        self
    }

    /// Returns the verdict with its reason.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Returns the notes besides the verdict.
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.diagnostics
    }

    /// Returns true if the review may go on.
    pub fn allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allowed(_))
    }

    /// Returns the refusal; `None` if the review is allowed.
    pub fn denial(&self) -> Option<&Denial> {
        match &self.verdict {
            Verdict::Allowed(_) => None,
            Verdict::Denied(denial) => Some(denial),
        }
    }

    /// Returns the causes of a refusal, for programs; none if the review is allowed.
    pub fn causes(&self) -> Causes {
        self.denial().map(Denial::causes).unwrap_or_default()
    }

    /// Returns the message of a refusal, for people; `None` if the review is allowed.
    pub fn message(&self) -> Option<String> {
        self.denial().map(Denial::message)
    }

    /// Returns the verdict as one word of a closed set, fit for a metric's label.
    pub fn label(&self) -> &'static str {
        match &self.verdict {
            Verdict::Allowed(reason) => reason.label(),
            Verdict::Denied(denial) => denial.reason().label(),
        }
    }

    /// Returns the `admission.k8s.io/v1` AdmissionReview that answers the review of that `uid`, as JSON.
    ///
    /// A refusal has a cause for each blocker and each problem that its message names; [`Sender::status`] says which
    /// code it has.
    pub fn to_review(&self, uid: &str) -> Vec<u8> {
        let status = self.denial().map(|denial| denial.status(uid));
        answered(uid, status, &self.diagnostics.warnings(), &self.diagnostics.audit_annotations())
    }
}

/// Returns the AdmissionReview that answers the review of that `uid`: allowed, unless there is a refusal's status.
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

impl AllowReason {
    fn label(self) -> &'static str {
        match self {
            Self::NotADeletion => "not-a-deletion",
            Self::NotAChange => "not-a-change",
            Self::NoRule => "no-rule",
            Self::NotBound => "not-bound",
            Self::Terminating => "terminating",
            Self::Overridden => "overridden",
            Self::Unreferenced => "unreferenced",
            Self::NoNewReference => "no-new-reference",
            Self::TargetsExist => "targets-exist",
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
    use crate::model::names::{Group, GroupResource, Resource};
    use crate::rule::RuleKey;

    fn subject() -> Subject {
        let group = Group::parse("network.example.com").unwrap();
        Subject::deleted(GroupResource { group, resource: Resource::parse("vpcs").unwrap() }, "a")
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
        Decision::deny(subject(), Reason::Referenced { by, problems: vec![], unread: vec![] }, Sender::Client)
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
        let allowed: Value =
            serde_json::from_slice(&Decision::allow(AllowReason::Unreferenced).to_review("1")).unwrap();
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
        let problems = vec![Unresolved::new(Cause::ReadFailed, "é".repeat(10_000)); 9];
        let message = Decision::deny(subject(), Reason::Undecided { problems }, Sender::Client).message().unwrap();
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
        assert!(
            ignored.allowed()
                && ignored.diagnostics().warnings()[0].contains("not loaded the rules yet (no endpoint answers)")
        );
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
        let problems = vec![Unresolved::new(Cause::ReadFailed, "the list failed")];
        let diagnostics = Diagnostics {
            subject: Some(subject()),
            warned: Some(referrers.clone()),
            audited: Some(referrers),
            problems: problems.clone(),
            audited_problems: problems,
            missing_warned: None,
            missing_audited: None,
            overridden_by: Some("bob".to_owned()),
            misfits: 1,
            lookups: Vec::new(),
            // They stand in the log only.
            marks: [("bucket-0-of-1".to_owned(), 1)].into(),
        };
        let decision = Decision::new(Verdict::Allowed(AllowReason::Warned), diagnostics);
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
