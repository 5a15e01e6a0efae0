//! Reviews of creations and updates.

use depguard_core::decision::{AllowReason, MissingTarget, MissingTargets, Reason, Verdict};
use depguard_core::protocol::ObjectReview;
use depguard_core::{Query, RuleSet};
use serde_json::{Value, json};

use super::{CONSUMER, Kind, Object, Outcome, Reply, World, set};

impl Object {
    /// Returns the review of the object's creation by a tenant, as kcp would send it.
    pub(crate) fn creation(&self) -> Value {
        self.change("CREATE", None)
    }

    /// Returns the review of an update that makes the object of `old`.
    pub(crate) fn update(&self, old: &Self) -> Value {
        self.change("UPDATE", Some(old))
    }

    fn change(&self, operation: &str, old: Option<&Self>) -> Value {
        let Kind { group, versions, resource, .. } = self.kind;
        let located = |object: &Self| {
            let (mut object, cluster) = (object.json.clone(), "/metadata/annotations/kcp.io~1cluster");
            if object.pointer(cluster).is_none() {
                set(&mut object, cluster, CONSUMER.into());
            }
            object
        };
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "1", "operation": operation, "object": located(self), "oldObject": old.map(located),
            "name": self.json["metadata"]["name"], "namespace": self.json["metadata"]["namespace"],
            "resource": {"group": group, "version": versions[0], "resource": resource},
            "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        }})
    }
}

impl World {
    pub(crate) fn creates(&self, object: &Object) -> Outcome {
        self.change(&object.creation())
    }

    pub(crate) fn updates(&self, old: &Object, object: &Object) -> Outcome {
        self.change(&object.update(old))
    }

    /// Decides the review of a creation or an update; this server answers all queries.
    pub(crate) fn change(&self, review: &Value) -> Outcome {
        self.change_with(review, |query| Some(self.reply(&query.path)))
    }

    /// Decides such a review with `reply` as the server; `None` means that no answer comes.
    pub(crate) fn change_with(&self, review: &Value, reply: impl FnMut(&Query) -> Option<Reply>) -> Outcome {
        self.change_in_order(review, |_| 0, reply)
    }

    /// Decides such a review; `pick` gets the number of open queries and chooses the next one to answer.
    pub(crate) fn change_in_order(
        &self,
        review: &Value,
        pick: impl FnMut(usize) -> usize,
        reply: impl FnMut(&Query) -> Option<Reply>,
    ) -> Outcome {
        let review = review.to_string();
        let review = ObjectReview::parse(review.as_bytes()).expect("a review");
        let rules = RuleSet::load(self.control_plane, &self.rules);
        self.carry_out(rules.evaluate_references(&review, &self.context()), pick, reply)
    }
}

/// Returns a missing target as tests name it: `vpcs/ns/a` if it is in another namespace than the object.
pub(crate) fn named(target: &MissingTarget) -> String {
    let place = target.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    format!("{}/{place}{}", target.kind.resource, target.name)
}

fn all(missing: Option<&MissingTargets>) -> Vec<String> {
    missing.into_iter().flat_map(|missing| &missing.targets).map(named).collect()
}

impl Outcome {
    /// Asserts that the change is refused because exactly these targets are missing, and that nothing is unknown.
    #[track_caller]
    pub(crate) fn missing(&self, targets: &[&str]) -> &Self {
        let denial = self.decision.denial().unwrap_or_else(|| panic!("{}", self.shown()));
        let Reason::MissingTargets { missing, problems } = denial.reason() else { panic!("{}", self.shown()) };
        assert_eq!((all(Some(missing)), problems.len()), (strings(targets), 0), "{}", self.shown());
        self
    }

    /// Asserts that the change is allowed for this reason, without any remark.
    #[track_caller]
    pub(crate) fn is_fine(&self, because: AllowReason) -> &Self {
        assert_eq!(*self.decision.verdict(), Verdict::Allowed(because), "{}", self.shown());
        let notes = self.decision.diagnostics();
        assert_eq!((notes.warnings(), notes.audit_annotations().len()), (Vec::new(), 0));
        self
    }

    /// Asserts that the change is allowed, that the user is warned of the first targets, and that the second ones are
    /// recorded.
    #[track_caller]
    pub(crate) fn tells(&self, warned: &[&str], audited: &[&str]) -> &Self {
        let notes = self.decision.diagnostics();
        let told = (all(notes.missing_warned.as_ref()), all(notes.missing_audited.as_ref()));
        assert!(self.decision.allowed(), "{}", self.shown());
        assert_eq!(told, (strings(warned), strings(audited)), "{}", self.shown());
        self
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
