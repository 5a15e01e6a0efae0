//! Reviews of GlobalOwners and GroupOwners: decided by the review alone, once it is noted on a GlobalOwner that what it
//! owns is to stay.

use depguard_core::{Answer, OwnerDecision, OwnerEvaluation, Review};
use tokio::time::{Instant, timeout_at};

use crate::budget::Size;
use crate::driver::Reads;
use crate::metrics::{Metrics, Way};
use crate::paths::Asked;
use crate::port::{Port, Writer};
use crate::rejection::Rejection;
use crate::report::Subject;

/// About what a GlobalOwner is long, in bytes.
const ESTIMATE: usize = 16 << 10;

/// Decides until `deadline`.
pub(crate) async fn decide<P: Port>(
    reads: &Reads<P>,
    writer: &dyn Writer,
    review: &Review<'_>,
    bytes: &[u8],
    asked: &Asked,
    deadline: Instant,
) -> Result<(OwnerDecision, Way), Rejection> {
    if let Some(Some(_)) = asked.scope() {
        // There are owners in a plain Kubernetes only.
        return Ok((OwnerDecision::Elsewhere, Way::Memory));
    }
    let mut evaluation = OwnerEvaluation::begin(review, bytes)?;
    let Some(send) = evaluation.send() else { return Ok((evaluation.decide(), Way::Memory)) };
    let sent = async {
        let source = reads.gets.source();
        let room = source.enter(Size::Small, ESTIMATE).await?;
        Some(source.send(writer, &send, room).await)
    };
    match timeout_at(deadline, sent).await {
        Ok(Some(page)) => evaluation.answer(page.fetched.as_answer()),
        Ok(None) => evaluation.answer(Answer::Failed("the webhook lost it on the way")),
        // It counts as not answered.
        Err(_) => {}
    }
    Ok((evaluation.decide(), Way::Reads))
}

/// Counts and logs a decision.
pub(crate) fn tell(review: &Review<'_>, decision: &OwnerDecision, metrics: &Metrics) {
    let decided = decision.label();
    metrics.guards.owner_reviewed(decided);
    let Subject { namespace: _, name, kind, requester } = Subject::of(review);
    let dry_run = review.dry_run();
    if decision.allowed() {
        tracing::debug!(name, kind, requester, dry_run, decided, "allowed");
    } else {
        let undecided = decided == "undecided";
        metrics.refused(if undecided { decided } else { "owns" });
        let why = undecided.then(|| decision.to_string());
        tracing::info!(name, kind, requester, dry_run, decided, why, "denied");
    }
}
