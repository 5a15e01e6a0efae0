//! Drives an evaluation: sends its queries side by side and hands it the answers, until the time is up.

use std::collections::VecDeque;
use std::sync::Arc;

use depguard_core::{Answer, Decision, Evaluation, Query};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};

use crate::gets::Gets;
use crate::port::Port;
use crate::source::Page;

/// Queries at once for one review.
const MOST_AT_ONCE: usize = 8;
/// Why there is no answer where whatever was to bring it is gone.
const LOST: &str = "the webhook lost it on the way";

/// Decides by what is answered until `deadline`. What is not answered by then can't be known, and so refuses.
pub(crate) async fn drive<P: Port>(gets: &Gets<P>, mut evaluation: Evaluation, deadline: Instant) -> Decision {
    let mut waiting = VecDeque::new();
    let mut running = FuturesUnordered::new();
    // The clock is looked at each time: a port that is always ready would never let a timer run out.
    while !evaluation.is_settled() && Instant::now() < deadline {
        waiting.extend(evaluation.queries());
        while running.len() < MOST_AT_ONCE
            && let Some(query) = waiting.pop_front()
        {
            running.push(get(gets, query));
        }
        let Ok(Some((query, page))) = timeout_at(deadline, running.next()).await else { break };
        let answer = page.as_ref().map_or(Answer::Failed(LOST), |page| page.fetched.as_answer());
        evaluation.answer(query.id, answer);
    }
    evaluation.decide()
}

async fn get<P: Port>(gets: &Gets<P>, query: Query) -> (Query, Option<Arc<Page>>) {
    let page = gets.get(&query).await;
    (query, page)
}
