//! Part of a check in the interlock: the targets of the new references, before anything is read.

use std::collections::{BTreeMap, BTreeSet};

use super::{MAX_TARGETS, ReferenceCheck, too_many_targets};
use crate::applicability::constraint_ends::TargetKind;
use crate::evaluation::decision::Decision;
use crate::evaluation::interlocked::{InterlockedReferences, InterlockedReview};
use crate::interlock::{Dependent, ObjectKey, Refusal, Revision};
use crate::model::names::Namespace;
use crate::protocol::admission_review::{Operation, unreadable_review};
use crate::protocol::deletion_target::is_stored_name;
use crate::protocol::object_review::ObjectReview;
use crate::rule::compiled_edge::EdgeState;

impl ReferenceCheck {
    /// Returns the part of the review in the interlock.
    pub(in crate::evaluation) fn interlocked(
        &self,
        review: &ObjectReview<'_>,
    ) -> Result<Option<InterlockedReferences>, Box<Decision>> {
        let (mut kinds, mut references, mut dependent_kind) = (BTreeMap::new(), BTreeSet::new(), None);
        for (ends, new) in &self.constraints {
            for reference in &new.certain {
                let edge = ends.constraint.edges().get(reference.edge).filter(|edge| edge.is_interlocked());
                let (Some(edge), Some(found)) = (edge, ends.target(reference.edge)) else { continue };
                let Some(gvr) = edge.target_gvr() else { continue };
                // Nobody finds the object of an invalid name, or of a kind that is not the rule's.
                if *found == TargetKind::Other || !is_stored_name(&reference.name) {
                    continue;
                }
                if let EdgeState::Usable { dependent, .. } = &edge.state {
                    let export = edge.rule.cluster.clone().zip(edge.dependent_export.clone());
                    dependent_kind.get_or_insert_with(|| (dependent.gvr.clone(), export));
                }
                let served = || (gvr.clone(), ends.expected_export(reference.edge));
                kinds.entry(edge.target.clone()).or_insert_with(served);
                references.insert((edge.target.clone(), reference.namespace.as_deref(), reference.name.as_str()));
            }
        }
        let Some(dependent_kind) = dependent_kind.filter(|_| !references.is_empty()) else { return Ok(None) };
        let reviewed = InterlockedReview { subject: self.subject.clone(), sender: self.sender, kinds };
        if references.len() > MAX_TARGETS {
            return Err(Box::new(reviewed.refused(&Refusal::Unknown(too_many_targets()))));
        }
        let Some(dependent) = self.dependent(review) else {
            let why = unreadable_review("its objects have no valid uid or no valid resourceVersion");
            return Err(Box::new(reviewed.refused(&Refusal::Unknown(why))));
        };
        let targets = references.into_iter().flat_map(|(kind, namespace, name)| {
            // Rules don't say if a kind has namespaces.
            let namespace = namespace.and_then(|namespace| Namespace::parse(namespace).ok());
            let key = move |namespace| ObjectKey {
                cluster: self.cluster.clone(),
                kind: kind.clone(),
                namespace,
                name: name.to_owned(),
            };
            namespace.map(|namespace| key(Some(namespace))).into_iter().chain([key(None)]).collect::<Vec<_>>()
        });
        let creates = review.review().operation() == Operation::Create;
        Ok(Some(InterlockedReferences {
            review: reviewed,
            dependent,
            dependent_kind,
            targets: targets.collect(),
            creates_name: creates && review.review().asked_name().is_some(),
            is_apply: creates && review.is_apply(),
        }))
    }

    /// Returns the dependent; `None` if its UID or the replaced state is unknown.
    fn dependent(&self, review: &ObjectReview<'_>) -> Option<Dependent> {
        let namespace = self.holder.namespace.as_deref().map(Namespace::parse).transpose().ok()?;
        let key = ObjectKey {
            cluster: self.cluster.clone(),
            kind: self.subject.kind.clone(),
            namespace,
            name: self.subject.name.clone(),
        };
        match review.review().operation() {
            Operation::Update => {
                let old = review.review().old_object()?;
                Some(Dependent::updated(key, Revision::parse(old.uid()?, old.resource_version()?).ok()?))
            }
            _ => Dependent::created(key, review.new_metadata()?.uid()?).ok(),
        }
    }
}
