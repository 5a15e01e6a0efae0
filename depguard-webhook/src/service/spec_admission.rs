//! Reviews of rules, locks and owners that are about to be stored.

use std::sync::Arc;

use depguard_core::driver::Evaluating;
use depguard_core::protocol::{ObjectReview, QueryId};
use depguard_core::spec_admission::{SpecAdmission, SpecDecision};
use depguard_core::{ControlPlane, Query};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::metrics::Metrics;
use crate::ports::api_reader::ApiReader;
use crate::reads::bounded_reader::Page;
use crate::reads::driver::{self, Reads};
use crate::service::decision_log::Subject;
use crate::service::rejection::Rejection;

/// Reviewer of specs.
pub(crate) struct SpecAdmissions {
    control_plane: ControlPlane,
    /// Turn of one review: trees of a spec and of a schema take many times their text.
    turn: Semaphore,
}

impl SpecAdmissions {
    pub(crate) fn new(control_plane: ControlPlane) -> Self {
        Self { control_plane, turn: Semaphore::new(1) }
    }

    /// Decides by the answers that arrive until `deadline`. What is not known then is no reason to refuse. Whoever waits
    /// for a turn takes no `place` among the reviews that wait for API servers.
    pub(crate) async fn decide<P: ApiReader>(
        &self,
        reads: &Reads<P>,
        review: &ObjectReview<'_>,
        place: impl FnOnce() -> Result<OwnedSemaphorePermit, Rejection>,
        deadline: Instant,
    ) -> Result<SpecDecision, Rejection> {
        let turn = timeout_at(deadline, self.turn.acquire()).await.ok().and_then(Result::ok);
        let _turn = turn.ok_or(Rejection::TooMany)?;
        let _place = place()?;
        let mut reading = Reading(SpecAdmission::begin(self.control_plane, review));
        driver::drive(&mut reading, deadline, async |query: Query| (query.id, reads.gets.get(&query).await)).await;
        Ok(reading.0.decide())
    }
}

/// Counts and logs a decision.
pub(crate) fn tell(review: &ObjectReview<'_>, decision: &SpecDecision, metrics: &Metrics) {
    let decided = decision.label();
    metrics.guards.spec_reviewed(decided);
    let Subject { namespace: _, name, kind, requester } = Subject::from_review(review.review());
    let dry_run = review.review().dry_run();
    if decision.allowed() {
        tracing::debug!(name, kind, requester, dry_run, decided, "allowed");
    } else {
        // No refusal in the sense of the metrics: nothing that somebody wants to delete is held up.
        let causes = decision.causes().words().join(",");
        tracing::info!(name, kind, requester, dry_run, decided, causes, "denied");
    }
}

/// Evaluation whose kinds are read.
struct Reading(SpecAdmission);

impl Evaluating for Reading {
    type Due = Query;
    type Done = (QueryId, Option<Arc<Page>>);

    fn is_settled(&self) -> bool {
        self.0.is_settled()
    }

    fn due(&mut self) -> Vec<Query> {
        self.0.queries()
    }

    fn take(&mut self, (id, page): Self::Done) {
        self.0.answer(id, driver::answer(page.as_ref()));
    }
}
