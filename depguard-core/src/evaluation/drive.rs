//! Loop that drives an evaluation to its end.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;
use std::task::Poll;

use super::Evaluation;
use crate::evaluation::decision::Decision;
use crate::protocol::request::{Query, QueryId};
use crate::protocol::response::Fetched;

/// Maximum number of requests of one evaluation that are under way at once.
const MAX_AT_ONCE: usize = 8;

impl Evaluation {
    /// Decides by the answers of `get`, one query after the other. `get` does a GET of [`Query::path`] in the logical
    /// cluster [`Query::cluster`].
    ///
    /// `get` is responsible for the time limit: once it returns an `Err` for each remaining query, the evaluation
    /// ends with a refusal.
    pub fn decide_with<B, R>(mut self, mut get: impl FnMut(&Query) -> R) -> Decision
    where
        B: AsRef<[u8]>,
        R: Into<Fetched<B>>,
    {
        let mut waiting = VecDeque::new();
        while !self.is_settled() {
            waiting.extend(self.queries());
            let Some(query) = waiting.pop_front() else { break };
            let fetched = get(&query).into();
            self.answer(query.id, fetched.as_answer());
        }
        self.decide()
    }

    /// Decides by the answers of `get`, with several queries under way at once, until `deadline` is reached. Missing
    /// answers then lead to a refusal; the futures of their queries are dropped.
    ///
    /// This function spawns no task and knows no clock, so it works with any runtime: `deadline` is the runtime's
    /// `sleep`, for example for [`time_to_answer`](crate::time_to_answer).
    pub async fn decide_until<B, R, F>(
        self,
        deadline: impl Future<Output = ()>,
        mut get: impl FnMut(Query) -> F,
    ) -> Decision
    where
        B: AsRef<[u8]>,
        R: Into<Fetched<B>>,
        F: Future<Output = R>,
    {
        let mut queries = Queries(self, PhantomData);
        let carry_out = |query: Query| {
            let id = query.id;
            let fetched = get(query);
            async move { (id, fetched.await) }
        };
        drive(&mut queries, deadline, carry_out).await;
        queries.0.decide()
    }
}

/// Evaluation that asks for answers and decides by them.
pub trait Evaluating {
    /// Request of the evaluation.
    type Due;
    /// Result of a request.
    type Done;

    /// Returns true if no further result can change the decision.
    fn is_settled(&self) -> bool;

    /// Returns the requests to carry out now, each once.
    fn due(&mut self) -> Vec<Self::Due>;

    /// Takes the result of a request.
    fn take(&mut self, done: Self::Done);
}

/// Carries out the requests of an evaluation, at most eight at once, until it is settled or `deadline` is reached.
///
/// This function spawns no task and knows no clock. It polls `deadline` after each result.
pub async fn drive<A: Evaluating, F: Future<Output = A::Done>>(
    evaluation: &mut A,
    deadline: impl Future<Output = ()>,
    mut carry_out: impl FnMut(A::Due) -> F,
) {
    let mut deadline = pin!(deadline);
    let (mut waiting, mut running) = (VecDeque::new(), Vec::new());
    poll_fn(|context| {
        loop {
            if evaluation.is_settled() || deadline.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            waiting.extend(evaluation.due());
            while running.len() < MAX_AT_ONCE
                && let Some(due) = waiting.pop_front()
            {
                running.push(Box::pin(carry_out(due)));
            }
            let before = running.len();
            running.retain_mut(|future| match future.as_mut().poll(context) {
                Poll::Ready(done) => {
                    evaluation.take(done);
                    false
                }
                Poll::Pending => true,
            });
            match before.saturating_sub(running.len()) {
                0 if running.is_empty() => return Poll::Ready(()),
                0 => return Poll::Pending,
                _ => {}
            }
        }
    })
    .await;
}

/// Evaluation of a deletion that carries out its lookups itself: all requests are queries.
struct Queries<B, R>(Evaluation, PhantomData<fn(R) -> B>);

impl<B: AsRef<[u8]>, R: Into<Fetched<B>>> Evaluating for Queries<B, R> {
    type Due = Query;
    type Done = (QueryId, R);

    fn is_settled(&self) -> bool {
        self.0.is_settled()
    }

    fn due(&mut self) -> Vec<Query> {
        self.0.queries()
    }

    fn take(&mut self, (id, fetched): Self::Done) {
        self.0.answer(id, fetched.into().as_answer());
    }
}
