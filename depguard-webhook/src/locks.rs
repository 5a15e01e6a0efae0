//! Reviews about locks: of what they lock, and of the locks themselves.
//!
//! What is to be asked and written, and what follows from it, is for [`LockEvaluation`] to say. Here it is sent: reads
//! together with those of other reviews, what is noted in one table too, each question by itself, and all within the time of
//! the review.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use depguard_core::locks::{Ask, LockDecision, LockEvaluation, LockReview, Moment};
use depguard_core::{GroupResource, Home, QueryId};
use futures::future::join_all;
use tokio::time::{Instant, timeout_at};

use crate::budget::Size;
use crate::driver::{self, Asking, Reads};
use crate::paths::Asked;
use crate::port::{Port, Writer};
use crate::source::Page;

/// About what an answer to a question brings, in bytes.
const ESTIMATE: usize = 16 << 10;

/// The locks by which reviews are decided.
pub(crate) enum Locks {
    /// Object locks.
    Objects { home: Home, writer: Arc<dyn Writer> },
    /// Locks of the older tool, on objects of these kinds.
    Compat(BTreeSet<GroupResource>),
}

impl Locks {
    pub(crate) fn of_objects(home: Home, writer: Arc<dyn Writer>) -> Self {
        Self::Objects { home, writer }
    }

    /// Begins to decide a review, of what may be asked about.
    pub(crate) fn evaluate<'a>(&self, review: &LockReview<'a>, asked: &Asked) -> LockEvaluation<'a> {
        let evaluation = match self {
            Self::Objects { home, .. } => LockEvaluation::begin(*home, review, now()),
            Self::Compat(kinds) => LockEvaluation::of_compat(review, kinds),
        };
        match asked.scope() {
            Some(scope) => evaluation.within(scope),
            None => evaluation,
        }
    }

    /// Decides by what is answered until `deadline`. What is not answered by then can't be known, and so refuses.
    pub(crate) async fn decide<P: Port>(
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
                let table = note.table.clone();
                (table, timeout_at(deadline, reads.tables.note(writer, note)).await)
            });
            for (table, noted) in join_all(notes).await {
                // What is not told counts as not answered.
                if let Ok(Some(outcome)) = noted {
                    evaluation.noted(&table, &outcome);
                }
            }
        }
        evaluation.decide()
    }
}

/// By the clock on the wall, as the ends of locks are written.
fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_unix_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Sends what is asked for. What has a body goes nowhere without a writer, and counts as not answered.
async fn send<P: Port>(reads: &Reads<P>, writer: Option<&dyn Writer>, ask: Ask) -> (QueryId, Option<Arc<Page>>) {
    match ask {
        Ask::Get(query) => (query.id, reads.gets.get(&query).await),
        Ask::Send(send) => {
            let sent = async {
                let source = reads.gets.source();
                let room = source.enter(Size::Small, ESTIMATE).await?;
                Some(Arc::new(source.send(writer?, &send, room).await))
            };
            (send.id, sent.await)
        }
    }
}

/// An evaluation until it is about to write.
struct Finding<'a>(LockEvaluation<'a>);

impl Asking for Finding<'_> {
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
