//! Drives an evaluation: has its queries and lookups answered side by side, until the time is up.

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

/// Queries and lookups at once for one review.
const MOST_AT_ONCE: usize = 8;
/// Why there is no answer where whatever was to bring it is gone.
const LOST: &str = "the webhook lost it on the way";

/// What is shared with other reviews.
pub(crate) struct Reads<P: Port> {
    pub(crate) gets: Gets<P>,
    pub(crate) lookups: Lookups<P>,
}

/// Something that the evaluation needs.
enum Due {
    Query(Query),
    Lookup(Box<Lookup>),
}

/// What came of it.
enum Done {
    Query(Query, Option<Arc<Page>>),
    Lookup(Option<Box<Lookup>>),
}

/// Decides by what is answered until `deadline`. What is not answered by then can't be known, and so refuses.
pub(crate) async fn drive<P: Port>(reads: &Reads<P>, mut evaluation: Evaluation, deadline: Instant) -> Decision {
    let mut waiting = VecDeque::new();
    let mut running = FuturesUnordered::new();
    // The clock is looked at each time: a port that is always ready would never let a timer run out.
    while !evaluation.is_settled() && Instant::now() < deadline {
        waiting.extend(evaluation.lookups().into_iter().map(|lookup| Due::Lookup(Box::new(lookup))));
        waiting.extend(evaluation.queries().into_iter().map(Due::Query));
        while running.len() < MOST_AT_ONCE
            && let Some(due) = waiting.pop_front()
        {
            running.push(reads.carry_out(due));
        }
        let Ok(Some(done)) = timeout_at(deadline, running.next()).await else { break };
        match done {
            Done::Query(query, page) => {
                let answer = page.as_ref().map_or(Answer::Failed(LOST), |page| page.fetched.as_answer());
                evaluation.answer(query.id, answer);
            }
            Done::Lookup(Some(lookup)) => evaluation.finish(*lookup),
            // It counts as not answered.
            Done::Lookup(None) => {}
        }
    }
    evaluation.decide()
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
