//! Decisions by rules: from memory, by reads, and with marks in the interlock.

use depguard_core::interlocked::{BearingEdges, InterlockedDeletion};
use depguard_core::{Decision, Evaluation};
use tokio::time::Instant;

use super::Shared;
use crate::metrics::DecidedBy;
use crate::ports::api_reader::ApiReader;
use crate::reads::{driver, freshness_proof};
use crate::rules::active_rules::RulesState;
use crate::service::interlock::InterlockAt;
use crate::service::question::Question;
use crate::service::rejection::Rejection;
use crate::service::routes::RoutedPath;
use crate::service::ruled_review::RuledReview;

impl<P: ApiReader> Shared<P> {
    /// Decides a review until `deadline`.
    pub(super) async fn decide(
        &self,
        interlock: Option<InterlockAt<'_>>,
        ruled: &RuledReview<'_>,
        path: &RoutedPath,
        deadline: Instant,
    ) -> Result<(Decision, DecidedBy), Rejection> {
        let review = ruled.review();
        let failure_policy = path.route.failure_policy();
        let snapshot = self.rules.snapshot();
        let loaded = match &*snapshot {
            RulesState::Loaded(loaded) => loaded,
            RulesState::NotLoaded { why } => {
                let decision = Decision::not_ready(failure_policy, why.clone()).answering(review);
                return Ok((decision, DecidedBy::Memory));
            }
        };
        let mut place = None;
        if let Some(doubt) = &loaded.doubt {
            place = Some(self.place()?);
            if let Err(why) = freshness_proof::rules_are_current(&self.reads, doubt, review, deadline).await {
                return Ok((Decision::not_current(failure_policy, why).answering(review), DecidedBy::Reads));
            }
        }
        let overrides = &self.overrides;
        let question = Question { loaded, review: ruled, path, overrides, provider_withdrew: false };
        let evaluation = question.evaluate();
        if evaluation.is_settled() && place.is_none() {
            let decision = evaluation.decide();
            let bearing = BearingEdges::default();
            let Some((interlock, part)) = marking(interlock, &question, &decision, &bearing) else {
                return Ok((decision, DecidedBy::Memory));
            };
            let _place = self.place()?;
            return Ok((self.confirm(interlock, &question, part, decision, deadline).await, DecidedBy::Reads));
        }
        let _place = match place {
            Some(place) => place,
            None => self.place()?,
        };
        let mut decision = self.decide_by_reads(interlock, &question, evaluation, deadline).await;
        if !decision.allowed()
            && let Some(departed) = &loaded.departed
            && freshness_proof::provider_has_withdrawn(&self.reads, departed, review, deadline).await
        {
            let question = Question { provider_withdrew: true, ..question };
            decision = self.decide_by_reads(interlock, &question, question.evaluate(), deadline).await;
        }
        Ok((decision, DecidedBy::Reads))
    }

    /// Decides by the answers of API servers. If the review takes part in the interlock, its marks are recorded before the
    /// reads that count.
    async fn decide_by_reads(
        &self,
        interlock: Option<InterlockAt<'_>>,
        question: &Question<'_>,
        mut evaluation: Evaluation,
        deadline: Instant,
    ) -> Decision {
        if let (Some(interlock), Some(review)) = (interlock, question.references_to_mark()) {
            if evaluation.seek_hint() {
                driver::settle(&self.reads, &mut evaluation, deadline).await;
            }
            return match evaluation.interlocked_references(review) {
                Ok(Some(part)) => self.reads.interlocking(interlock, deadline).reference(part, evaluation).await,
                Ok(None) => driver::decide(&self.reads, evaluation, deadline).await,
                Err(refused) => *refused,
            };
        }
        driver::settle(&self.reads, &mut evaluation, deadline).await;
        let bearing = evaluation.bearing_edges();
        let decision = evaluation.decide();
        match marking(interlock, question, &decision, &bearing) {
            Some((interlock, part)) => self.confirm(interlock, question, part, decision, deadline).await,
            None => decision,
        }
    }

    /// Confirms a deletion that `first` allows.
    async fn confirm(
        &self,
        interlock: InterlockAt<'_>,
        question: &Question<'_>,
        part: Result<InterlockedDeletion, Box<Decision>>,
        first: Decision,
        deadline: Instant,
    ) -> Decision {
        match part {
            Err(refused) => *refused,
            Ok(part) => {
                let again = || driver::decide(&self.reads, question.evaluate(), deadline);
                self.reads.interlocking(interlock, deadline).deletion(part, first, again).await
            }
        }
    }
}

/// Returns the part in the interlock of a deletion that may go on by the decision; `None` if there is no interlock, or the
/// deletion has no part in it. Without an interlock nothing is computed for it.
fn marking<'i>(
    interlock: Option<InterlockAt<'i>>,
    question: &Question<'_>,
    decision: &Decision,
    bearing: &BearingEdges,
) -> Option<(InterlockAt<'i>, Result<InterlockedDeletion, Box<Decision>>)> {
    let interlock = interlock?;
    Some((interlock, question.deletion_to_mark(decision, bearing)?))
}
