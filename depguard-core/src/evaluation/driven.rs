//! Evaluations that are driven from here, for those who would write the loop no other way.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use super::Evaluation;
use crate::decision::Decision;
use crate::fetched::Fetched;
use crate::query::{Query, QueryId};

/// Queries of one evaluation that are under way at once.
const MOST_AT_ONCE: usize = 8;

impl Evaluation {
    /// Decides by what `get` answers, one query after the other: a GET of [`Query::path`] at the logical cluster
    /// [`Query::cluster`].
    ///
    /// Time is `get`'s to keep: once it is late, an `Err` for each query that is left ends the evaluation with a refusal.
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

    /// Decides by what `get` answers, with several queries under way at once, until `deadline` is there. What was not
    /// answered by then is refused; the futures of its queries are dropped.
    ///
    /// It spawns nothing and knows no clock, so any runtime will do: `deadline` is its `sleep`, for
    /// [`time_to_answer`](crate::time_to_answer) say.
    pub async fn decide_until<B, R, F>(
        mut self,
        deadline: impl Future<Output = ()>,
        mut get: impl FnMut(Query) -> F,
    ) -> Decision
    where
        B: AsRef<[u8]>,
        R: Into<Fetched<B>>,
        F: Future<Output = R>,
    {
        let mut deadline = pin!(deadline);
        let (mut waiting, mut running) = (VecDeque::new(), Vec::new());
        poll_fn(|context| {
            loop {
                if self.is_settled() || deadline.as_mut().poll(context).is_ready() {
                    return Poll::Ready(());
                }
                waiting.extend(self.queries());
                while running.len() < MOST_AT_ONCE
                    && let Some(query) = waiting.pop_front()
                {
                    running.push((query.id, Box::pin(get(query))));
                }
                match self.take_answers(&mut running, context) {
                    0 if running.is_empty() => return Poll::Ready(()),
                    0 => return Poll::Pending,
                    _ => {}
                }
            }
        })
        .await;
        self.decide()
    }

    /// How many of those that run are done; what they brought is taken.
    fn take_answers<B, R, F>(&mut self, running: &mut Vec<(QueryId, Pin<Box<F>>)>, context: &mut Context<'_>) -> usize
    where
        B: AsRef<[u8]>,
        R: Into<Fetched<B>>,
        F: Future<Output = R>,
    {
        let before = running.len();
        running.retain_mut(|(id, future)| match future.as_mut().poll(context) {
            Poll::Ready(fetched) => {
                self.answer(*id, fetched.into().as_answer());
                false
            }
            Poll::Pending => true,
        });
        before.saturating_sub(running.len())
    }
}
