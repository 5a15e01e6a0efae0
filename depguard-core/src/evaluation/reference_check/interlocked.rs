//! Part of a check in the interlock: a hint tells which rules bear on the object, marks are recorded by the hint, and then
//! the check reads everything, and proves the hint.

use std::collections::{BTreeMap, BTreeSet};

use super::{EndsReader, MAX_TARGETS, PendingQuery, ReferenceCheck, too_many_targets};
use crate::applicability::bindings_list::{BindingReader, BindingsList};
use crate::applicability::constraint_ends::TargetKind;
use crate::evaluation::decision::{Decision, Diagnostics};
use crate::evaluation::interlocked::{InterlockedReferences, InterlockedReview, ServedKind, under_way};
use crate::interlock::{Dependent, ObjectKey, Refusal, Revision};
use crate::model::names::{GroupResource, Namespace};
use crate::protocol::admission_review::{Operation, unreadable_review};
use crate::protocol::deletion_target::is_stored_name;
use crate::protocol::object_review::ObjectReview;
use crate::protocol::problem::Unresolved;
use crate::rule::RuleKey;
use crate::rule::compiled_edge::EdgeState;

/// Progress of a check in the interlock.
#[derive(Debug, Default)]
pub(super) enum Marking {
    /// The check leaves no marks.
    #[default]
    Off,
    /// The bindings are read as a hint.
    Hint {
        /// True if an API server answers from its cache.
        is_cached: bool,
    },
    /// Marks about these targets are recorded before anything is read.
    Recorded(BTreeSet<ObjectKey>),
}

/// Targets of new references by edges that are interlocked and bear on the object, as far as the ends are known.
#[derive(Default)]
struct Marks {
    targets: BTreeMap<ObjectKey, RuleKey>,
    /// Number of references.
    references: usize,
    kinds: BTreeMap<GroupResource, ServedKind>,
    dependent_kind: Option<ServedKind>,
}

impl Marking {
    pub(super) fn is_hint(&self) -> bool {
        matches!(self, Self::Hint { .. })
    }
}

impl ReferenceCheck {
    /// Reads only which rules bear on the object, if bindings show that. A hint may be outdated.
    pub(in crate::evaluation) fn seek_hint(&mut self) -> bool {
        let mut edges = self.constraints.iter().flat_map(|(ends, _)| ends.constraint.edges());
        let is_needed = self.bindings.is_some() && edges.any(|edge| edge.is_interlocked());
        if is_needed {
            self.marking = Marking::Hint { is_cached: true };
            self.bindings = Some(BindingsList::hint());
        }
        is_needed
    }

    /// Ends the hint. If the cache has no answer, the list is read as for the proof.
    pub(super) fn end_hint(&mut self, is_read: bool) {
        if let Marking::Hint { is_cached: is_cached @ true } = &mut self.marking
            && !is_read
        {
            *is_cached = false;
            self.bindings = Some(BindingsList::new());
            self.queries.push(PendingQuery::Bindings);
        }
    }

    /// Returns the part of the review in the interlock. After a hint, begins the reads that count; no other query may have
    /// been handed out before.
    pub(in crate::evaluation) fn interlocked(
        &mut self,
        review: &ObjectReview<'_>,
    ) -> Result<Option<InterlockedReferences>, Box<Decision>> {
        let part = self.part(review);
        let targets = part.as_ref().ok().and_then(Option::as_ref).map(|part| part.targets.clone());
        let marking = std::mem::replace(&mut self.marking, Marking::Recorded(targets.unwrap_or_default()));
        if marking.is_hint() {
            self.begin_anew();
        }
        part
    }

    /// Forgets what was read about the constraints, and begins their reads.
    fn begin_anew(&mut self) {
        EndsReader { kinds: &mut self.kinds, constraints: &mut self.constraints }.reset();
        self.targets.clear();
        self.served.clear();
        self.queries.clear();
        (self.problems, self.applies) = (Vec::new(), false);
        self.diagnostics = Diagnostics { subject: Some(self.subject.clone()), ..Diagnostics::default() };
        self.begin_reads();
    }

    /// Returns the reason why the check doesn't count, although it allows: a rule bears on the object that the hint did not
    /// show, so that no mark is recorded.
    pub(super) fn unmarked(&self) -> Option<Unresolved> {
        let Marking::Recorded(recorded) = &self.marking else { return None };
        let (_, rule) = self.marks().targets.into_iter().find(|(target, _)| !recorded.contains(target))?;
        Some(under_way(&[rule].into()))
    }

    fn part(&self, review: &ObjectReview<'_>) -> Result<Option<InterlockedReferences>, Box<Decision>> {
        let Marks { targets, references, kinds, dependent_kind } = self.marks();
        let Some(dependent_kind) = dependent_kind.filter(|_| references > 0) else { return Ok(None) };
        let rules = targets.values().cloned().collect();
        let reviewed = InterlockedReview { subject: self.subject.clone(), sender: self.sender, kinds, rules };
        if references > MAX_TARGETS {
            return Err(Box::new(reviewed.refused(&Refusal::Unknown(too_many_targets()))));
        }
        let Some(dependent) = self.dependent(review) else {
            let why = unreadable_review("its objects have no valid uid or no valid resourceVersion");
            return Err(Box::new(reviewed.refused(&Refusal::Unknown(why))));
        };
        let creates = review.review().operation() == Operation::Create;
        Ok(Some(InterlockedReferences {
            review: reviewed,
            dependent,
            dependent_kind,
            targets: targets.into_keys().collect(),
            creates_name: creates && review.review().asked_name().is_some(),
            is_apply: creates && review.is_apply(),
        }))
    }

    fn marks(&self) -> Marks {
        let (mut marks, mut references) = (Marks::default(), BTreeSet::new());
        for (ends, new) in self.constraints.iter().filter(|(ends, _)| ends.applies()) {
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
                    marks.dependent_kind.get_or_insert_with(|| (dependent.gvr.clone(), export));
                }
                match found {
                    // The bindings show by which edge the kind is read.
                    TargetKind::Own(export) => {
                        drop(marks.kinds.insert(edge.target.clone(), (gvr.clone(), export.clone())));
                    }
                    _ => {
                        let served = || (gvr.clone(), ends.expected_export(reference.edge));
                        marks.kinds.entry(edge.target.clone()).or_insert_with(served);
                    }
                }
                // Rules don't say if a kind has namespaces.
                let namespace = reference.namespace.as_deref();
                let namespace = namespace.and_then(|namespace| Namespace::parse(namespace).ok());
                for namespace in namespace.map(Some).into_iter().chain([None]) {
                    let (cluster, kind, name) = (self.cluster.clone(), edge.target.clone(), reference.name.clone());
                    let key = ObjectKey { cluster, kind, namespace, name };
                    marks.targets.entry(key).or_insert_with(|| edge.rule.clone());
                }
                references.insert((&edge.target, reference.namespace.as_deref(), reference.name.as_str()));
            }
        }
        marks.references = references.len();
        marks
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
