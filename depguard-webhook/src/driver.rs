//! Drives an evaluation: has what it asks for answered side by side, until the time is up.

use std::collections::VecDeque;
use std::sync::Arc;

use depguard_core::{Answer, Decision, Evaluation, Lookup, Query};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};

use crate::gets::Gets;
use crate::lookups::Lookups;
use crate::port::Port;
use crate::source::Page;
use crate::tables::Tables;

/// Queries and lookups at once for one review.
const MOST_AT_ONCE: usize = 8;
/// Why there is no answer where whatever was to bring it is gone.
const LOST: &str = "the webhook lost it on the way";

/// What is shared with other reviews.
pub(crate) struct Reads<P: Port> {
    pub(crate) gets: Gets<P>,
    pub(crate) lookups: Lookups<P>,
    pub(crate) tables: Tables<P>,
}

/// What decides by what it asks for.
pub(crate) trait Asking {
    /// Something that it needs.
    type Due;
    /// What came of it.
    type Done;

    fn is_settled(&self) -> bool;

    /// What is to be carried out now, each once.
    fn due(&mut self) -> Vec<Self::Due>;

    fn take(&mut self, done: Self::Done);
}

/// Has carried out what is asked for until it is settled, or until `deadline`.
pub(crate) async fn drive<A: Asking, F: Future<Output = A::Done>>(
    asking: &mut A,
    deadline: Instant,
    carry_out: impl Fn(A::Due) -> F,
) {
    let mut waiting = VecDeque::new();
    let mut running = FuturesUnordered::new();
    // The clock is looked at each time: a port that is always ready would never let a timer run out.
    while !asking.is_settled() && Instant::now() < deadline {
        waiting.extend(asking.due());
        while running.len() < MOST_AT_ONCE
            && let Some(due) = waiting.pop_front()
        {
            running.push(carry_out(due));
        }
        let Ok(Some(done)) = timeout_at(deadline, running.next()).await else { break };
        asking.take(done);
    }
}

/// Decides a deletion by what is answered until `deadline`. What is not answered by then can't be known, and so refuses.
pub(crate) async fn decide<P: Port>(reads: &Reads<P>, mut evaluation: Evaluation, deadline: Instant) -> Decision {
    drive(&mut evaluation, deadline, |due| reads.carry_out(due)).await;
    evaluation.decide()
}

/// What was answered.
pub(crate) fn answer(page: Option<&Arc<Page>>) -> Answer<'_> {
    page.map_or(Answer::Failed(LOST), |page| page.fetched.as_answer())
}

/// Something that the evaluation of a deletion needs.
pub(crate) enum Due {
    Query(Query),
    Lookup(Box<Lookup>),
}

/// What came of it.
pub(crate) enum Done {
    Query(Query, Option<Arc<Page>>),
    Lookup(Option<Box<Lookup>>),
}

impl Asking for Evaluation {
    type Due = Due;
    type Done = Done;

    fn is_settled(&self) -> bool {
        self.is_settled()
    }

    fn due(&mut self) -> Vec<Due> {
        let lookups = self.lookups().into_iter().map(|lookup| Due::Lookup(Box::new(lookup)));
        let mut due: Vec<_> = lookups.collect();
        due.extend(self.queries().into_iter().map(Due::Query));
        due
    }

    fn take(&mut self, done: Done) {
        match done {
            Done::Query(query, page) => self.answer(query.id, answer(page.as_ref())),
            Done::Lookup(Some(lookup)) => self.finish(*lookup),
            // It counts as not answered.
            Done::Lookup(None) => {}
        }
    }
}

impl<P: Port> Reads<P> {
    async fn carry_out(&self, due: Due) -> Done {
        match due {
            Due::Query(query) => {
                let page = self.gets.get(&query).await;
                Done::Query(query, page)
            }
            Due::Lookup(lookup) => Done::Lookup(self.lookups.find(*lookup).await.map(Box::new)),
        }
    }
}
