//! Reviews about locks: of locked objects, and of the locks themselves.
//!
//! [`LockEvaluation`] decides which requests are needed, and what follows from the answers. This module sends the
//! requests. Reads are shared with other reviews, entries for one table are written together, each access review is
//! sent by itself, and all of this happens within the time of the review.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use depguard_core::ControlPlane;
use depguard_core::driver::Evaluating;
use depguard_core::locks::{LockDecision, LockEvaluation, TableNote, Timestamp};
use depguard_core::model::GroupResource;
use depguard_core::protocol::{Ask, ObjectReview, QueryId};
use futures::future::join_all;
use tokio::time::{Instant, timeout_at};

use crate::limits::read_budget::Size;
use crate::ports::api_reader::{ApiReader, Writer};
use crate::reads::bounded_reader::Page;
use crate::reads::driver::{self, Reads};
use crate::service::routes::RoutedPath;

/// Estimated bytes of an answer to a request with a body.
const ESTIMATE: usize = 16 << 10;

/// Locks by which reviews are decided.
pub(crate) enum Locks {
    /// Object locks.
    Objects { control_plane: ControlPlane, writer: Arc<dyn Writer> },
    /// Locks of the older tool, on objects of these kinds.
    Compat(BTreeSet<GroupResource>),
}

impl Locks {
    pub(crate) fn of_objects(control_plane: ControlPlane, writer: Arc<dyn Writer>) -> Self {
        Self::Objects { control_plane, writer }
    }

    /// Begins to decide a review, within the scope that the path allows.
    pub(crate) fn evaluate<'a>(&self, review: &ObjectReview<'a>, path: &RoutedPath) -> LockEvaluation<'a> {
        let evaluation = match self {
            Self::Objects { control_plane, .. } => LockEvaluation::begin(*control_plane, review, now()),
            Self::Compat(kinds) => LockEvaluation::of_compat(review, kinds),
        };
        match path.scope() {
            Some(scope) => evaluation.within(scope),
            None => evaluation,
        }
    }

    /// Decides by the answers that arrive until `deadline`. A missing answer counts as unknown, and so refuses.
    pub(crate) async fn decide<P: ApiReader>(
        &self,
        reads: &Reads<P>,
        mut evaluation: LockEvaluation<'_>,
        deadline: Instant,
    ) -> LockDecision {
        let writer = match self {
            Self::Objects { writer, .. } => Some(writer),
            Self::Compat(_) => None,
        };
        let mut notes = evaluation.take_notes();
        if notes.is_empty() {
            let mut finding = Finding(evaluation);
            driver::drive(&mut finding, deadline, |ask| send(reads, writer.map(|writer| &**writer), ask)).await;
            evaluation = finding.0;
            notes = evaluation.take_notes();
        }
        if let Some(writer) = writer {
            let notes = notes.into_iter().map(async |note| {
                let TableNote { cluster, table, entries } = note;
                let noted = reads.tables.record(writer, cluster, table.clone(), entries);
                (table, timeout_at(deadline, noted).await)
            });
            for (table, noted) in join_all(notes).await {
                // A missing outcome counts as not answered.
                if let Ok(Some(outcome)) = noted {
                    evaluation.noted(&table, &outcome);
                }
            }
        }
        evaluation.decide()
    }
}

/// Returns the time of the wall clock, in which the ends of locks are written.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Sends a request. Without a writer a request with a body is not sent, and counts as not answered.
async fn send<P: ApiReader>(reads: &Reads<P>, writer: Option<&dyn Writer>, ask: Ask) -> (QueryId, Option<Arc<Page>>) {
    match ask {
        Ask::Get(query) => (query.id, reads.gets.get(&query).await),
        Ask::Send(ref send) => {
            let sent = async {
                let source = reads.gets.source();
                let permit = source.enter(Size::Small, ESTIMATE).await?;
                Some(Arc::new(source.send(writer?, &ask, permit).await))
            };
            (send.id, sent.await)
        }
    }
}

/// Evaluation until it is about to write.
struct Finding<'a>(LockEvaluation<'a>);

impl Evaluating for Finding<'_> {
    type Due = Ask;
    type Done = (QueryId, Option<Arc<Page>>);

    fn is_settled(&self) -> bool {
        self.0.is_settled() || self.0.is_writing()
    }

    fn due(&mut self) -> Vec<Ask> {
        self.0.asks()
    }

    fn take(&mut self, (id, page): Self::Done) {
        self.0.answer(id, driver::answer(page.as_ref()));
    }
}
