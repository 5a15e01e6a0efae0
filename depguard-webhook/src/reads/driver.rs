//! Driver of evaluations: carries out their queries side by side, until the time is up.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use depguard_core::driver::Evaluating;
use depguard_core::interlock::Register;
use depguard_core::locks::LockTable;
use depguard_core::lookup::Lookup;
use depguard_core::protocol::Answer;
use depguard_core::{Decision, Evaluation, Query};
use tokio::time::{Instant, sleep_until};

use crate::ports::api_reader::ApiReader;
use crate::reads::bounded_reader::Page;
use crate::reads::lookup_runner::LookupRunner;
use crate::reads::shared_gets::SharedGets;
use crate::reads::shared_writer::SharedWriter;
use crate::server::tasks::Tasks;

/// Reason for a missing answer when the task that should bring it is gone.
pub(crate) const LOST: &str = "the webhook lost the answer on the way";

/// Reads that are shared with other reviews.
pub(crate) struct Reads<P: ApiReader> {
    pub(crate) gets: SharedGets<P>,
    pub(crate) lookups: LookupRunner<P>,
    pub(crate) tables: SharedWriter<LockTable, P>,
    pub(crate) registers: SharedWriter<Register, P>,
    /// Tasks that may outlive a review.
    pub(crate) tasks: Tasks,
}

/// Carries out the requests of an evaluation until it is settled, or until `deadline`.
pub(crate) async fn drive<A: Evaluating, F: Future<Output = A::Done>>(
    evaluation: &mut A,
    deadline: Instant,
    carry_out: impl FnMut(A::Due) -> F,
) {
    let mut sleep = pin!(sleep_until(deadline));
    // The clock is checked each time: a port that is always ready would never let a timer run out.
    let reached = poll_fn(|context| match Instant::now() >= deadline {
        true => Poll::Ready(()),
        false => sleep.as_mut().poll(context),
    });
    depguard_core::driver::drive(evaluation, reached, carry_out).await;
}

/// Decides a deletion by the answers that arrive until `deadline`. A missing answer counts as unknown, and so refuses.
pub(crate) async fn decide<P: ApiReader>(reads: &Reads<P>, mut evaluation: Evaluation, deadline: Instant) -> Decision {
    settle(reads, &mut evaluation, deadline).await;
    evaluation.decide()
}

/// Carries out the requests of an evaluation until it is settled, or until `deadline`.
pub(crate) async fn settle<P: ApiReader>(reads: &Reads<P>, evaluation: &mut Evaluation, deadline: Instant) {
    drive(&mut Shared(evaluation), deadline, |due| reads.carry_out(due)).await;
}

/// Returns the answer on a page; without a page, a failure.
pub(crate) fn answer(page: Option<&Arc<Page>>) -> Answer<'_> {
    page.map_or(Answer::Failed(LOST), |page| page.fetched.as_answer())
}

/// Request of a deletion's evaluation.
pub(crate) enum Due {
    Query(Query),
    Lookup(Box<Lookup>),
}

/// Result of such a request.
pub(crate) enum Done {
    Query(Query, Option<Arc<Page>>),
    Lookup(Option<Box<Lookup>>),
}

/// Evaluation whose lookups other reviews share.
struct Shared<'e>(&'e mut Evaluation);

impl Evaluating for Shared<'_> {
    type Due = Due;
    type Done = Done;

    fn is_settled(&self) -> bool {
        self.0.is_settled()
    }

    fn due(&mut self) -> Vec<Due> {
        let lookups = self.0.lookups().into_iter().map(|lookup| Due::Lookup(Box::new(lookup)));
        let mut due: Vec<_> = lookups.collect();
        due.extend(self.0.queries().into_iter().map(Due::Query));
        due
    }

    fn take(&mut self, done: Done) {
        match done {
            Done::Query(query, page) => self.0.answer(query.id, answer(page.as_ref())),
            Done::Lookup(Some(lookup)) => self.0.finish(*lookup),
            // The lookup counts as not answered.
            Done::Lookup(None) => {}
        }
    }
}

impl<P: ApiReader> Reads<P> {
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
