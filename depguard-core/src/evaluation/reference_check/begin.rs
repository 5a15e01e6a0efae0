//! Beginning of a check: the constraints that a review meets, and the references that begin to count.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

#[cfg(feature = "interlock")]
use super::interlocked::Marking;
use super::new_references::{Holder, NewReferences};
use super::{MAX_TARGETS, ReferenceCheck};
use crate::applicability::bound_kinds::BoundKinds;
use crate::applicability::constraint_ends::ConstraintEnds;
use crate::evaluation::begin::Context;
use crate::evaluation::decision::{AllowReason, Change, Decision, Diagnostics, Sender, Subject};
use crate::evaluation::{Evaluation, State};
use crate::model::control_plane::ControlPlane;
use crate::protocol::admission_review::{Operation, unreadable_review};
use crate::protocol::deletion_target::{cluster_of, is_stored_name};
use crate::protocol::object_review::ObjectReview;
use crate::protocol::query_queue::QueryQueue;
use crate::protocol::reviewed_object::ReviewedObject;
use crate::protocol::subresource::Subresource;
use crate::rule::reference_constraint::{ConstraintState, ReferenceConstraint};
use crate::rule::set::RuleSet;

/// The most new references of one review that are kept, in sum over all rules. Whoever's rules have more of them than the
/// targets that are read has a share at least.
const MAX_REFERENCES: usize = 50_000;

impl RuleSet {
    /// Begins to decide a creation or an update by the rules with `onMissing`: each reference that begins to count must
    /// mean an object that is there. Each other request is allowed.
    ///
    /// The binding of a Pod to a node changes the Pod, which is read first.
    ///
    /// Nothing is asked of an object that is being deleted, of references that the object held before, and of an object
    /// that names itself. The paths of a rule hold for one version of the dependents, so only the rules for the version
    /// of the review count.
    pub fn evaluate_references(&self, review: &ObjectReview<'_>, context: &Context<'_>) -> Evaluation {
        let about = review.review();
        let binds_pod = about.is_binding() && self.control_plane() == ControlPlane::Kubernetes;
        let resource = if binds_pod { "pods" } else { about.resource() };
        let constraints = self.constraints_of(about.group(), resource);
        let dependent = constraints.first().map(|constraint| &constraint.dependent);
        let holds_object = |name| {
            let mut subresources = dependent.into_iter().flat_map(Subresource::from_kind);
            name != Subresource::BINDING && subresources.any(|subresource| subresource.name == name)
        };
        let change = match (about.operation(), about.sub_resource()) {
            _ if binds_pod => Change::Update,
            (Operation::Create, None) => Change::Creation,
            (Operation::Update, None) => Change::Update,
            (Operation::Update, Some(name)) if holds_object(name) => Change::Update,
            _ => return Evaluation::settled(Decision::allow(AllowReason::NotAChange)),
        };
        let reads = |constraint: &ReferenceConstraint| about.version().is_none_or(|version| constraint.reads(version));
        let constraints = constraints.iter().filter(|constraint| {
            let is_withdrawn = context.provider_withdrew && constraint.dependent_export.is_some();
            let is_within = context.scope.is_none_or(|scope| constraint.rule.cluster.as_ref() == scope);
            constraint.failure_policy == context.failure_policy && reads(constraint) && is_within && !is_withdrawn
        });
        let constraints: Vec<_> = constraints.collect();
        let Some(first) = constraints.first() else {
            return Evaluation::settled(Decision::allow(AllowReason::NoRule));
        };
        let subject = Subject { kind: first.dependent.clone(), name: "?".to_owned(), change };
        self.begin_check(review, context, subject, &constraints, binds_pod)
    }

    fn begin_check(
        &self,
        review: &ObjectReview<'_>,
        context: &Context<'_>,
        subject: Subject,
        constraints: &[&Arc<ReferenceConstraint>],
        binds_pod: bool,
    ) -> Evaluation {
        let control_plane = self.control_plane();
        let cluster = cluster_of(control_plane, review.review().cluster());
        let located = cluster.as_ref().ok().cloned().flatten();
        let kinds = BoundKinds::new(control_plane, located.clone(), context.workspaces);
        let ends = constraints.iter().filter_map(|constraint| {
            ConstraintEnds::new(control_plane, constraint, located.as_ref(), context.workspaces)
        });
        let mut check = ReferenceCheck {
            cluster: located.clone(),
            diagnostics: Diagnostics { subject: Some(subject.clone()), ..Diagnostics::default() },
            subject,
            holder: Holder::default(),
            failure_policy: context.failure_policy,
            sender: Sender::from_review(review.review()),
            graph: Arc::clone(self.constraint_graph()),
            kinds,
            constraints: ends.map(|ends| (ends, NewReferences::default())).collect(),
            pod_binding: None,
            bindings: None,
            #[cfg(feature = "interlock")]
            marking: Marking::default(),
            exemption: None,
            applies: false,
            targets: Vec::new(),
            served: BTreeMap::new(),
            problems: Vec::new(),
            queries: QueryQueue::new(),
        };
        // In an unknown logical cluster, each constraint may apply.
        let strictest = match cluster {
            Ok(_) => check.strictest(),
            Err(_) => constraints.iter().map(|constraint| constraint.on_missing()).max().unwrap_or_default(),
        };
        let unreadable =
            |check: ReferenceCheck, why: &str| Evaluation::settled(check.undecided(strictest, unreadable_review(why)));
        let (Some(object), Some(metadata)) = (review.object(), review.new_metadata()) else {
            return unreadable(check, "the review has no object");
        };
        if metadata.is_terminating() {
            return Evaluation::settled(Decision::allow(AllowReason::Terminating));
        }
        if let Err(why) = cluster {
            return unreadable(check, &why);
        }
        if review.review().version().is_none() {
            return unreadable(check, "it names no version");
        }
        let Some(name) = metadata.name() else { return unreadable(check, "its object has no name") };
        if !is_stored_name(name) {
            return unreadable(check, "its object has an invalid name");
        }
        check.subject.name = name.to_owned();
        check.diagnostics.subject = Some(check.subject.clone());
        let begun = if binds_pod {
            check.begin_binding(review, object)
        } else {
            let old_object = review.old_object().filter(|_| check.subject.change == Change::Update);
            check.begin_object(object, &metadata, old_object)
        };
        if let Err(why) = begun {
            return unreadable(check, &why);
        }
        Evaluation(State::Checking(Box::new(check)))
    }
}

impl ReferenceCheck {
    /// Reads the references that begin to count in this state of the object, and begins the reads about them. An error is
    /// the end of a sentence.
    pub(super) fn begin_object(
        &mut self,
        object: &str,
        metadata: &ReviewedObject<'_>,
        old_object: Option<&str>,
    ) -> Result<(), String> {
        let holder = Holder::read(object, old_object, metadata, &self.subject.name);
        let holder = holder.ok_or("its object's owners are no list")?;
        // Nobody knows yet whose rules bear on the object, so the references by each provider's rules have a share.
        let providers: HashSet<_> =
            self.constraints.iter().map(|(ends, _)| ends.constraint.rule.cluster.clone()).collect();
        let share = (MAX_REFERENCES / providers.len().max(1)).max(MAX_TARGETS + 1);
        let mut room: HashMap<_, _> = providers.into_iter().map(|provider| (provider, share)).collect();
        for (ends, references) in &mut self.constraints {
            *references = NewReferences::read(ends.constraint.edges(), &holder, object, old_object)
                .map_err(|error| format!("its object is {error}"))?;
            references.keep_within(room.entry(ends.constraint.rule.cluster.clone()).or_default());
        }
        self.holder = holder;
        let is_invalid = |ends: &ConstraintEnds| matches!(ends.constraint.state, ConstraintState::Invalid(..));
        self.constraints.retain(|(ends, references)| is_invalid(ends) || !references.is_empty());
        if self.constraints.is_empty() {
            self.exemption = Some(AllowReason::NoNewReference);
        } else {
            self.begin_reads();
        }
        Ok(())
    }
}
