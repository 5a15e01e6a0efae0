//! Decision from the results of the reads.

use std::collections::BTreeMap;

use super::target_read::{Found, FoundObject, TargetKey};
use super::{CheckedReference, CheckedTarget, ReferenceCheck};
use crate::evaluation::decision::{
    AllowReason, Decision, Denial, MissingReason, MissingTarget, MissingTargets, Reason, Verdict,
};
use crate::model::api::OnMissing;
use crate::model::ownership::Collected;
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
        if let Some(reason) = self.exemption {
            return Decision::allow(reason);
        }
        let mut missing = self.take_stock();
        #[cfg(feature = "interlock")]
        let unmarked = self.unmarked();
        #[cfg(not(feature = "interlock"))]
        let unmarked = None;
        let mut take = |on_missing| MissingTargets::new(missing.remove(&on_missing).unwrap_or_default());
        let (denied, warned, audited) = (take(OnMissing::Deny), take(OnMissing::Warn), take(OnMissing::Audit));
        let Self { subject, sender, problems, mut diagnostics, applies, .. } = self;
        diagnostics.missing_warned = Some(warned).filter(|warned| !warned.is_empty());
        diagnostics.missing_audited = Some(audited).filter(|audited| !audited.is_empty());
        let reason = match (denied.is_empty(), problems.is_empty(), unmarked) {
            (false, _, _) => Reason::MissingTargets { missing: denied, problems },
            (true, false, _) => Reason::Undecided { problems },
            (true, true, Some(unmarked)) => Reason::Undecided { problems: vec![unmarked] },
            (true, true, None) => {
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
        if let Some(binding) = self.pod_binding.take() {
            let strictest = self.strictest();
            self.record_failure(strictest, unanswered().about(binding.read_name()));
        }
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
        let unread = self.served.values().filter_map(|served| served.as_ref().err());
        failures.extend(unread.map(|why| (self.strictest(), why.clone())));
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
            // The reference counted all along, if the object did not go with the target: a change of its owners makes
            // nothing worse.
            Some(Found::NoKind | Found::Nothing)
                if reference.is_old && self.never_went(target.read.key(), &self.gone_owner()) =>
            {
                Existence::There
            }
            Some(Found::NoKind) => Existence::Missing(MissingReason::NoKind),
            // Somebody else serves the kind, and the rule says nothing about it.
            Some(_) if !target.read.key().is_own_kind => Existence::There,
            Some(Found::Nothing) => Existence::Missing(MissingReason::NotFound),
            Some(Found::Objects { objects, are_all }) => {
                let results: Option<Vec<_>> = objects
                    .iter()
                    .map(|object| match self.existence_as(object, target.read.key(), reference) {
                        Existence::There => None,
                        absent => Some(absent),
                    })
                    .collect();
                // One object that will do is enough.
                let Some(results) = results else { return Existence::There };
                let result = results.into_iter().next().filter(|_| *are_all);
                result.unwrap_or_else(|| Existence::Unknown(too_many()))
            }
        }
    }

    /// Finds out if this object is the target of a reference.
    fn existence_as(&self, object: &FoundObject, key: &TargetKey, reference: &CheckedReference) -> Existence {
        if let (Some(uid), Some(own)) = (reference.uid.as_ref(), object.uid.as_ref())
            && uid != own
        {
            return Existence::Missing(MissingReason::OtherUid(uid.clone()));
        }
        // A deletion that orphans ignores no dependent, so that the garbage collector can take the owner away.
        if !object.is_terminating || (reference.is_old && self.never_went(key, object)) {
            return Existence::There;
        }
        match self.collects(key, object, &self.holder.owners) {
            Collected::Yes => Existence::There,
            Collected::No | Collected::IfServed { .. } => Existence::Missing(MissingReason::Terminating),
        }
    }

    /// Returns true if the reviewed object did not go with this object before the change, either.
    fn never_went(&self, key: &TargetKey, object: &FoundObject) -> bool {
        self.collects(key, object, &self.holder.old_owners) == Collected::No
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
