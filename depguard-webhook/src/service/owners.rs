//! Reviews of GlobalOwners and GroupOwners, decided by the review alone. Before a deletion that keeps the owned
//! objects, a note of this is written on the GlobalOwner.

use depguard_core::Review;
use depguard_core::owners::{OwnerDecision, OwnerEvaluation};
use depguard_core::protocol::{Answer, Ask};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::limits::read_budget::Size;
use crate::metrics::{DecidedBy, Metrics};
use crate::ports::api_reader::{ApiReader, Writer};
use crate::reads::driver::{self, Reads};
use crate::service::decision_log::Subject;
use crate::service::rejection::Rejection;
use crate::service::routes::RoutedPath;

/// Estimated length of a GlobalOwner, in bytes.
const ESTIMATE: usize = 16 << 10;

/// Decides the review until `deadline`. Takes a `place` among the reviews that wait for API servers only if it has to
/// wait for one.
pub(crate) async fn decide<P: ApiReader>(
    reads: &Reads<P>,
    writer: &dyn Writer,
    review: &Review<'_>,
    bytes: &[u8],
    path: &RoutedPath,
    place: impl FnOnce() -> Result<OwnedSemaphorePermit, Rejection>,
    deadline: Instant,
) -> Result<(OwnerDecision, DecidedBy), Rejection> {
    if let Some(Some(_)) = path.scope() {
        // Only a plain Kubernetes has owners.
        return Ok((OwnerDecision::Elsewhere, DecidedBy::Memory));
    }
    let mut evaluation = OwnerEvaluation::begin(review, bytes)?;
    let Some(send) = evaluation.send() else { return Ok((evaluation.decide(), DecidedBy::Memory)) };
    let _place = place()?;
    let sent = async {
        let source = reads.gets.source();
        let permit = source.enter(Size::Small, ESTIMATE).await?;
        Some(source.send(writer, &Ask::Send(send), permit).await)
    };
    match timeout_at(deadline, sent).await {
        Ok(Some(page)) => evaluation.answer(page.fetched.as_answer()),
        Ok(None) => evaluation.answer(Answer::Failed(driver::LOST)),
        // The note counts as not answered.
        Err(_) => {}
    }
    Ok((evaluation.decide(), DecidedBy::Reads))
}

/// Counts and logs a decision.
pub(crate) fn tell(review: &Review<'_>, decision: &OwnerDecision, metrics: &Metrics) {
    let decided = decision.label();
    metrics.guards.owner_reviewed(decided);
    let Subject { namespace: _, name, kind, requester } = Subject::from_review(review);
    let dry_run = review.dry_run();
    if decision.allowed() {
        tracing::debug!(name, kind, requester, dry_run, decided, "allowed");
    } else {
        let causes = decision.causes();
        metrics.refused(&causes);
        let why = (decided == "undecided").then(|| decision.to_string());
        let causes = causes.words().join(",");
        tracing::info!(name, kind, requester, dry_run, decided, causes, why, "denied");
    }
}
