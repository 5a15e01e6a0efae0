//! Question that a review asks of the rules, as often as it has to be evaluated.

use depguard_core::api::FailurePolicy;
use depguard_core::interlocked::{BearingEdges, InterlockedDeletion};
use depguard_core::protocol::ObjectReview;
use depguard_core::{Context, Decision, Evaluation, OverridePolicy};

use crate::rules::active_rules::Loaded;
use crate::service::routes::RoutedPath;
use crate::service::ruled_review::RuledReview;

/// A review, the rules in force, and whoever may override them.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) loaded: &'a Loaded,
    pub(crate) review: &'a RuledReview<'a>,
    pub(crate) path: &'a RoutedPath,
    pub(crate) overrides: &'a OverridePolicy,
    /// True once the provider of the object's kind is known to have withdrawn.
    pub(crate) provider_withdrew: bool,
}

impl Question<'_> {
    pub(crate) fn context(&self) -> Context<'_> {
        Context::default()
            .with_workspaces(&self.loaded.workspaces)
            .with_overrides(self.overrides)
            .with_failure_policy(self.path.route.failure_policy())
            .with_provider_withdrawn(self.provider_withdrew)
            .with_scope(self.path.scope())
    }

    /// Begins to decide. Nothing was read before.
    pub(crate) fn evaluate(&self) -> Evaluation {
        self.review.evaluate(&self.loaded.rules, &self.context())
    }

    /// Returns the review of a creation or an update that may have to leave marks in the interlock.
    pub(crate) fn references_to_mark(&self) -> Option<&ObjectReview<'_>> {
        match self.review {
            RuledReview::References(review) => Some(review).filter(|_| self.may_mark()),
            RuledReview::Deletion(_) => None,
        }
    }

    /// Returns the part in the interlock of a deletion that may go on by the decision. An error is the decision for a
    /// review that can't take part.
    pub(crate) fn deletion_to_mark(
        &self,
        decision: &Decision,
        bearing: &BearingEdges,
    ) -> Option<Result<InterlockedDeletion, Box<Decision>>> {
        let RuledReview::Deletion(review) = self.review else { return None };
        if !decision.allowed() || !self.may_mark() {
            return None;
        }
        self.loaded.rules.interlocked_deletion(review, &self.context(), bearing).transpose()
    }

    /// Only rules with failure policy `Fail` are interlocked, and a dry run writes nothing.
    fn may_mark(&self) -> bool {
        self.path.route.failure_policy() == FailurePolicy::Fail && !self.review.review().dry_run()
    }
}
