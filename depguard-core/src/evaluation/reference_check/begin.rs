//! Beginning of a check: the constraints that a review meets, and the references that begin to count.

use std::sync::Arc;

use super::ReferenceCheck;
use super::new_references::{Holder, NewReferences};
use crate::applicability::constraint_ends::ConstraintEnds;
use crate::applicability::edges::BoundKinds;
use crate::evaluation::begin::Context;
use crate::evaluation::decision::{AllowReason, Change, Decision, Diagnostics, Sender, Subject};
use crate::evaluation::{Evaluation, State};
use crate::protocol::admission_review::{Operation, unreadable_review};
use crate::protocol::deletion_target::{cluster_of, is_stored_name};
use crate::protocol::object_review::ObjectReview;
use crate::protocol::query_queue::QueryQueue;
use crate::rule::reference_constraint::{ConstraintState, ReferenceConstraint};
use crate::rule::set::RuleSet;

/// Subresources whose reviews hold the whole object.
const WHOLE_OBJECT: [&str; 2] = ["status", "ephemeralcontainers"];

impl RuleSet {
    /// Begins to decide a creation or an update by the rules with `onMissing`: each reference that begins to count must
    /// mean an object that is there. Each other request is allowed.
    ///
    /// Nothing is asked of an object that is being deleted, of references that the object held before, and of an object
    /// that names itself. The paths of a rule hold for one version of the dependents, so only the rules for the version
    /// of the review count.
    pub fn evaluate_references(&self, review: &ObjectReview<'_>, context: &Context<'_>) -> Evaluation {
        let about = review.review();
        let change = match (about.operation(), about.sub_resource()) {
            (Operation::Create, None) => Change::Creation,
            (Operation::Update, None) => Change::Update,
            (Operation::Update, Some(sub)) if WHOLE_OBJECT.contains(&sub) => Change::Update,
            _ => return Evaluation::settled(Decision::allow(AllowReason::NotAChange)),
        };
        let reads = |constraint: &ReferenceConstraint| about.version().is_none_or(|version| constraint.reads(version));
        let constraints = self.constraints_of(about.group(), about.resource()).iter();
        let constraints = constraints.filter(|constraint| {
            let is_withdrawn = context.provider_withdrew && constraint.dependent_export.is_some();
            constraint.failure_policy == context.failure_policy && reads(constraint) && !is_withdrawn
        });
        let constraints: Vec<_> = constraints.collect();
        let Some(first) = constraints.first() else {
            return Evaluation::settled(Decision::allow(AllowReason::NoRule));
        };
        let subject = Subject { kind: first.dependent.clone(), name: "?".to_owned(), change };
        self.begin_check(review, context, subject, &constraints)
    }

    fn begin_check(
        &self,
        review: &ObjectReview<'_>,
        context: &Context<'_>,
        subject: Subject,
        constraints: &[&Arc<ReferenceConstraint>],
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
            bindings: None,
            applies: false,
            targets: Vec::new(),
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
        let Some(holder) = Holder::read(object, &metadata, name) else {
            return unreadable(check, "its object's owners are no list");
        };
        let old_object = review.old_object().filter(|_| check.subject.change == Change::Update);
        for (ends, references) in &mut check.constraints {
            match NewReferences::read(ends.constraint.edges(), &holder, object, old_object) {
                Ok(read) => *references = read,
                Err(error) => return unreadable(check, &format!("its object is {error}")),
            }
        }
        check.holder = holder;
        let is_invalid = |ends: &ConstraintEnds| matches!(ends.constraint.state, ConstraintState::Invalid(..));
        check.constraints.retain(|(ends, references)| is_invalid(ends) || !references.is_empty());
        if check.constraints.is_empty() {
            return Evaluation::settled(Decision::allow(AllowReason::NoNewReference));
        }
        check.begin_reads();
        Evaluation(State::Checking(Box::new(check)))
    }
}
