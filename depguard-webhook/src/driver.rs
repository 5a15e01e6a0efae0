//! Drives an evaluation: sends its queries side by side and hands it the answers, until the time is up.

use std::collections::VecDeque;

use depguard_core::{Decision, Evaluation, Query};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};

use crate::port::{Fetched, Port};

/// Queries at once for one review.
const MOST_AT_ONCE: usize = 8;

/// Decides by what `port` answers until `deadline`. What is not answered by then can't be known, and so refuses.
pub(crate) async fn drive<P: Port>(port: &P, mut evaluation: Evaluation, deadline: Instant) -> Decision {
    let mut waiting = VecDeque::new();
    let mut running = FuturesUnordered::new();
    // The clock is looked at each time: a port that is always ready would never let a timer run out.
    while !evaluation.is_settled() && Instant::now() < deadline {
        waiting.extend(evaluation.queries());
        while running.len() < MOST_AT_ONCE
            && let Some(query) = waiting.pop_front()
        {
            running.push(fetch(port, query));
        }
        let Ok(Some((query, fetched))) = timeout_at(deadline, running.next()).await else { break };
        evaluation.answer(query.id, fetched.as_answer());
    }
    evaluation.decide()
}

async fn fetch<P: Port>(port: &P, query: Query) -> (Query, Fetched) {
    let fetched = port.get(&query).await;
    (query, fetched)
}
