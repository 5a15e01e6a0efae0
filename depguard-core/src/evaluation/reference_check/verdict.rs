//! Decision from the results of the reads.

use super::target_read::{Found, FoundObject};
use super::{CheckedReference, CheckedTarget, ReferenceCheck};
use crate::evaluation::decision::{
    AllowReason, Decision, Denial, MissingReason, MissingTarget, MissingTargets, Reason, Verdict,
};
use crate::model::api::OnMissing;
use crate::protocol::response_error::unanswered;
use crate::rule::compiled_edge::EdgeState;

impl ReferenceCheck {
    pub(in crate::evaluation) fn decide(mut self) -> Decision {
        self.take_stock();
        let mut missing = self.missing();
        let mut take = |on_missing: OnMissing| {
            let (taken, rest) = std::mem::take(&mut missing).into_iter().partition(|(known, _)| *known == on_missing);
            missing = rest;
            let taken: Vec<(OnMissing, MissingTarget)> = taken;
            MissingTargets::new(taken.into_iter().map(|(_, target)| target).collect())
        };
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

    /// Turns everything that is still open, or that failed, into problems.
    fn take_stock(&mut self) {
        if self.bindings.is_some() {
            let strictest = self.strictest();
            self.record_failure(strictest, unanswered().about("the list of apibindings"));
        }
        let mut failures = Vec::new();
        for CheckedTarget { read, references, .. } in &self.targets {
            let why = match read.found() {
                None => unanswered(),
                Some(Found::Failed(why)) => why.clone(),
                Some(Found::Objects(_) | Found::Nothing | Found::NoKind) => continue,
            };
            let why = why.about(format_args!("the read of {}/{}", read.key().gvr.resource, read.key().name));
            let strictest = references.iter().map(|reference| reference.on_missing).max().unwrap_or_default();
            failures.push((strictest, why));
        }
        for (on_missing, why) in failures {
            self.record_failure(on_missing, why);
        }
        for problems in [&mut self.problems, &mut self.diagnostics.problems, &mut self.diagnostics.audited_problems] {
            problems.sort();
            problems.dedup();
        }
    }

    /// Returns the missing targets, each with the outcome of its reference.
    fn missing(&self) -> Vec<(OnMissing, MissingTarget)> {
        let references = self.targets.iter().flat_map(|target| {
            target.references.iter().filter_map(|reference| {
                let reason = self.missing_reason(target, reference)?;
                Some((reference.on_missing, self.missing_target(target, reference, reason)))
            })
        });
        references.collect()
    }

    /// Returns the reason for which a reference's target is missing; `None` if the target is there, or unknown.
    fn missing_reason(&self, target: &CheckedTarget, reference: &CheckedReference) -> Option<MissingReason> {
        match target.found()? {
            Found::Failed(_) => None,
            Found::NoKind => Some(MissingReason::NoKind),
            // Somebody else serves the kind, and the rule says nothing about it.
            _ if !target.is_own_kind => None,
            Found::Nothing => Some(MissingReason::NotFound),
            Found::Objects(objects) => {
                let reasons: Option<Vec<_>> =
                    objects.iter().map(|object| self.why_not(object, reference.uid.as_deref())).collect();
                // One object that will do is enough.
                reasons?.into_iter().next()
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
