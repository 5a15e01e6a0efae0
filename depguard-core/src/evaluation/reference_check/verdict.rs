//! Decision from the results of the reads.

use std::collections::BTreeMap;

use super::target_read::{Found, FoundObject};
use super::{CheckedReference, CheckedTarget, ReferenceCheck};
use crate::evaluation::decision::{
    AllowReason, Decision, Denial, MissingReason, MissingTarget, MissingTargets, Reason, Verdict,
};
use crate::model::api::OnMissing;
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;
use crate::protocol::response_error::unanswered;
use crate::rule::compiled_edge::EdgeState;

/// Answer to the question if the target of a reference is there.
enum Existence {
    There,
    Missing(MissingReason),
    /// Unknown, for this reason: the end of a sentence that begins with the name of the read.
    Unknown(Unresolved),
}

impl ReferenceCheck {
    pub(in crate::evaluation) fn decide(mut self) -> Decision {
        let mut missing = self.take_stock();
        let mut take = |on_missing| MissingTargets::new(missing.remove(&on_missing).unwrap_or_default());
        let (denied, warned, audited) = (take(OnMissing::Deny), take(OnMissing::Warn), take(OnMissing::Audit));
        let Self { subject, sender, problems, mut diagnostics, applies, .. } = self;
        diagnostics.missing_warned = Some(warned).filter(|warned| !warned.is_empty());
        diagnostics.missing_audited = Some(audited).filter(|audited| !audited.is_empty());
        let reason = match (denied.is_empty(), problems.is_empty()) {
            (false, _) => Reason::MissingTargets { missing: denied, problems },
            (true, false) => Reason::Undecided { problems },
            (true, true) => {
                let allow_reason = if diagnostics.missing_warned.is_some() {
                    AllowReason::Warned
                } else if diagnostics.missing_audited.is_some() {
                    AllowReason::Audited
                } else if !(diagnostics.problems.is_empty() && diagnostics.audited_problems.is_empty()) {
                    AllowReason::Tolerated
                } else if applies {
                    AllowReason::TargetsExist
                } else {
                    AllowReason::NotBound
                };
                return Decision::new(Verdict::Allowed(allow_reason), diagnostics);
            }
        };
        let denial = Denial::new(Some(subject), reason, sender);
        Decision::new(Verdict::Denied(Box::new(denial)), diagnostics)
    }

    /// Turns everything that is still open, or that failed, into problems. Returns the missing targets by the outcome of
    /// their references.
    fn take_stock(&mut self) -> BTreeMap<OnMissing, Vec<MissingTarget>> {
        if self.bindings.is_some() {
            let strictest = self.strictest();
            self.record_failure(strictest, unanswered().about("the list of apibindings"));
        }
        let (mut missing, mut failures) = (BTreeMap::<_, Vec<_>>::new(), Vec::new());
        for target in &self.targets {
            let mut unknown = Vec::new();
            for reference in &target.references {
                match self.existence(target, reference) {
                    Existence::There => {}
                    Existence::Missing(reason) => {
                        let missing = missing.entry(reference.on_missing).or_default();
                        missing.push(self.missing_target(target, reference, reason));
                    }
                    Existence::Unknown(why) => unknown.push((reference.on_missing, why)),
                }
            }
            // One problem a target, with the strictest outcome of the references to which it matters.
            if let Some((strictest, why)) = unknown.into_iter().max_by_key(|(on_missing, _)| *on_missing) {
                let key = target.read.key();
                failures.push((strictest, why.about(format_args!("the read of {}/{}", key.gvr.resource, key.name))));
            }
        }
        for (on_missing, why) in failures {
            self.record_failure(on_missing, why);
        }
        for problems in [&mut self.problems, &mut self.diagnostics.problems, &mut self.diagnostics.audited_problems] {
            problems.sort();
            problems.dedup();
        }
        missing
    }

    /// Finds out if the target of a reference is there.
    fn existence(&self, target: &CheckedTarget, reference: &CheckedReference) -> Existence {
        match target.read.found() {
            None => Existence::Unknown(unanswered()),
            Some(Found::Failed(why)) => Existence::Unknown(why.clone()),
            Some(Found::NoKind) => Existence::Missing(MissingReason::NoKind),
            // Somebody else serves the kind, and the rule says nothing about it.
            Some(_) if !target.read.key().is_own_kind => Existence::There,
            Some(Found::Nothing) => Existence::Missing(MissingReason::NotFound),
            Some(Found::Objects { objects, are_all }) => {
                let reasons: Option<Vec<_>> =
                    objects.iter().map(|object| self.why_not(object, reference.uid.as_deref())).collect();
                // One object that will do is enough.
                let Some(reasons) = reasons else { return Existence::There };
                let reason = reasons.into_iter().next().filter(|_| *are_all);
                reason.map_or_else(|| Existence::Unknown(too_many()), Existence::Missing)
            }
        }
    }

    /// Returns the reason for which this object is not the target of a reference; `None` if it is.
    fn why_not(&self, object: &FoundObject, uid: Option<&str>) -> Option<MissingReason> {
        if let (Some(uid), Some(own)) = (uid, object.uid.as_deref())
            && uid != own
        {
            return Some(MissingReason::OtherUid(uid.to_owned()));
        }
        // The garbage collector deletes an object that its owner leaves behind.
        let is_owner = object.uid.as_ref().is_some_and(|uid| self.holder.owners.contains(uid));
        (object.is_terminating && !is_owner).then_some(MissingReason::Terminating)
    }

    fn missing_target(
        &self,
        target: &CheckedTarget,
        reference: &CheckedReference,
        reason: MissingReason,
    ) -> MissingTarget {
        let key = target.read.key();
        let field = match &reference.edge.state {
            EdgeState::Usable { edge, .. } => edge.field(),
            EdgeState::Invalid(_) => String::new(),
        };
        MissingTarget {
            kind: reference.edge.target.clone(),
            namespace: key.namespace.clone().filter(|namespace| self.holder.namespace.as_ref() != Some(namespace)),
            name: key.name.clone(),
            field,
            reason,
            rule: reference.edge.rule.clone(),
        }
    }
}

/// Returns the message for a list of more objects than are read.
fn too_many() -> Unresolved {
    let text = "found too many objects of that name; name the namespace in the reference or in the rule";
    Unresolved::new(Cause::DependentInvalid, text)
}
