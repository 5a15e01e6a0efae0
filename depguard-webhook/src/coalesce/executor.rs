//! Executor of the batchers' actions: starts tasks, cancels them, and passes on their answers.
//!
//! Each asker has a guard in a batcher until the guard is answered or dropped. A batcher's actions run in tasks of
//! their own, since they may outlive the first asker. A lost task counts as over, whatever the reason: its waiters are
//! told that there is no answer, and are never left to wait.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::coalesce::batcher::{Action, Batcher, ScanId, Thresholds};
use crate::server::tasks::Tasks;

/// Way in which the actions of batchers are carried out.
pub(crate) trait BatchJob: Send + Sync + Sized + 'static {
    /// Key of the jobs that can be done together.
    type Key: Clone + Eq + Hash + Send + Sync + 'static;
    /// Job of one asker.
    type Job: Send + 'static;
    /// Answer to one asker.
    type Answer: Send + 'static;

    /// Thresholds at which jobs are done together.
    const THRESHOLDS: Thresholds;

    /// Returns true if jobs of this key may be done together although they could be done alone.
    fn may_batch(&self, _: &Self::Key) -> bool {
        true
    }

    /// Does one job alone. By default the job is done with others.
    fn run_single(run: SingleRun<Self>) -> impl Future<Output = ()> + Send + 'static {
        async move {
            if let Some(job) = run.take() {
                run.refuse(job);
            }
        }
    }

    /// Does all jobs that have come until it [begins](BatchRun::begin).
    fn run_batch(run: BatchRun<Self>) -> impl Future<Output = ()> + Send + 'static;
}

/// All batchers. A batcher in which nobody waits is removed.
pub(crate) struct Coalescer<C: BatchJob>(Arc<Inner<C>>);

struct Inner<C: BatchJob> {
    batch_job: C,
    tasks: Tasks,
    batchers: Mutex<Batchers<C>>,
}

struct Batchers<C: BatchJob> {
    by_key: HashMap<C::Key, Entry<C>>,
    next_ticket: u64,
}

struct Entry<C: BatchJob> {
    batcher: Batcher<Ticket>,
    waiters: HashMap<Ticket, Waiter<C>>,
    scan: CancellationToken,
}

struct Waiter<C: BatchJob> {
    /// Job, until it is being done.
    job: Option<C::Job>,
    answer: oneshot::Sender<C::Answer>,
    select: CancellationToken,
}

/// Name of one job of a coalescer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(u64);

/// Guard of one waiter. The wait ends when the guard is dropped.
struct WaiterGuard<C: BatchJob> {
    coalescer: Coalescer<C>,
    key: C::Key,
    ticket: Ticket,
}

/// Task that an action starts.
enum Start<C: BatchJob> {
    Select(SingleRun<C>, CancellationToken),
    Scan(BatchRun<C>, CancellationToken),
}

/// One job to be done alone. The task is over when this is dropped.
pub(crate) struct SingleRun<C: BatchJob> {
    coalescer: Coalescer<C>,
    key: C::Key,
    ticket: Ticket,
}

/// Jobs to be done together. The scan is over when this is dropped, and members without an answer get none.
pub(crate) struct BatchRun<C: BatchJob> {
    coalescer: Coalescer<C>,
    key: C::Key,
    id: ScanId,
}

// === Coalescer

impl<C: BatchJob> Coalescer<C> {
    /// Makes a coalescer whose tasks are counted among `tasks`. The tasks end by themselves once nobody waits for them.
    pub(crate) fn new(batch_job: C, tasks: Tasks) -> Self {
        let batchers = Mutex::new(Batchers { by_key: HashMap::new(), next_ticket: 0 });
        Self(Arc::new(Inner { batch_job, tasks, batchers }))
    }

    pub(crate) fn batch_job(&self) -> &C {
        &self.0.batch_job
    }

    /// Has the job done by a task that begins after this call, alone or with others. `None` if this task was lost.
    ///
    /// `selects` is true if the job can be done alone. The job counts from this call on, not from the first poll.
    pub(crate) fn ask(
        &self,
        key: C::Key,
        job: C::Job,
        selects: bool,
    ) -> impl Future<Output = Option<C::Answer>> + Send + use<C> {
        let (answer, answered) = oneshot::channel();
        let threshold = if self.0.batch_job.may_batch(&key) { C::THRESHOLDS.batch_threshold } else { usize::MAX };
        let mut batchers = self.lock();
        let ticket = Ticket(batchers.next_ticket);
        batchers.next_ticket = batchers.next_ticket.wrapping_add(1);
        let entry = batchers.by_key.entry(key.clone()).or_insert_with(|| Entry::new(ticket));
        entry.waiters.insert(ticket, Waiter { job: Some(job), answer, select: CancellationToken::new() });
        entry.batcher.set_batch_threshold(threshold);
        let actions = entry.batcher.arrive(ticket, selects);
        self.follow(batchers, &key, actions);
        let guard = WaiterGuard { coalescer: self.clone(), key, ticket };
        async move {
            let answer = answered.await.ok();
            drop(guard);
            answer
        }
    }

    /// Changes a batcher, and carries out its actions.
    fn change<T>(&self, key: &C::Key, change: impl FnOnce(&mut Entry<C>) -> (T, Vec<Action<Ticket>>)) -> Option<T> {
        let mut batchers = self.lock();
        let (done, actions) = change(batchers.by_key.get_mut(key)?);
        self.follow(batchers, key, actions);
        Some(done)
    }

    fn follow(&self, mut batchers: MutexGuard<'_, Batchers<C>>, key: &C::Key, actions: Vec<Action<Ticket>>) {
        let Some(entry) = batchers.by_key.get_mut(key) else { return };
        let starts: Vec<_> = actions.into_iter().filter_map(|action| entry.carry_out(self, key, action)).collect();
        if entry.batcher.is_idle() {
            batchers.by_key.remove(key);
        }
        // A task that can't be started any more is dropped at once, and its drop takes the lock.
        drop(batchers);
        for start in starts {
            self.0.tasks.try_spawn(start.run());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Batchers<C>> {
        self.0.batchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: BatchJob> Entry<C> {
    /// Creates an entry. The number of its first ticket identifies the batcher, so that a scan of an earlier batcher for
    /// the same key is not mistaken for one of this batcher.
    fn new(first: Ticket) -> Self {
        Self { batcher: Batcher::new(C::THRESHOLDS, first.0), waiters: HashMap::new(), scan: CancellationToken::new() }
    }

    fn carry_out(&mut self, coalescer: &Coalescer<C>, key: &C::Key, action: Action<Ticket>) -> Option<Start<C>> {
        let (coalescer, key) = (coalescer.clone(), key.clone());
        match action {
            Action::Select(ticket) => {
                let given_up = self.waiters.get(&ticket)?.select.clone();
                Some(Start::Select(SingleRun { coalescer, key, ticket }, given_up))
            }
            Action::Scan(id) => {
                self.scan = CancellationToken::new();
                Some(Start::Scan(BatchRun { coalescer, key, id }, self.scan.clone()))
            }
            // A waiter that leaves takes the token along: see `leave`.
            Action::GiveUpSelect(_) => None,
            Action::GiveUpScan(_) => {
                self.scan.cancel();
                None
            }
        }
    }

    fn leave(&mut self, ticket: Ticket) -> (Option<Waiter<C>>, Vec<Action<Ticket>>) {
        let waiter = self.waiters.remove(&ticket);
        (waiter, self.batcher.leave(ticket))
    }
}

impl<C: BatchJob> Start<C> {
    async fn run(self) {
        match self {
            Self::Select(run, given_up) => given_up.run_until_cancelled(C::run_single(run)).await,
            Self::Scan(run, given_up) => given_up.run_until_cancelled(C::run_batch(run)).await,
        };
    }
}

impl<C: BatchJob> Clone for Coalescer<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

// === Guard of a waiter

impl<C: BatchJob> Drop for WaiterGuard<C> {
    fn drop(&mut self) {
        if let Some(Some(waiter)) = self.coalescer.change(&self.key, |entry| entry.leave(self.ticket)) {
            waiter.select.cancel();
        }
    }
}

// === Single run

impl<C: BatchJob> SingleRun<C> {
    pub(crate) fn batch_job(&self) -> &C {
        &self.coalescer.0.batch_job
    }

    pub(crate) fn key(&self) -> &C::Key {
        &self.key
    }

    /// Returns the job, once.
    pub(crate) fn take(&self) -> Option<C::Job> {
        self.coalescer.lock().by_key.get_mut(&self.key)?.waiters.get_mut(&self.ticket)?.job.take()
    }

    pub(crate) fn answer(self, answer: C::Answer) {
        let left = self.coalescer.change(&self.key, |entry| entry.leave(self.ticket));
        if let Some(Some(waiter)) = left {
            // A waiter that has gone needs no answer.
            let _ = waiter.answer.send(answer);
        }
    }

    /// Refuses to do the job alone: a scan that has not begun yet does it with others.
    pub(crate) fn refuse(self, job: C::Job) {
        self.coalescer.change(&self.key, |entry| {
            if let Some(waiter) = entry.waiters.get_mut(&self.ticket) {
                waiter.job = Some(job);
            }
            ((), entry.batcher.refuse(self.ticket))
        });
    }
}

impl<C: BatchJob> Drop for SingleRun<C> {
    fn drop(&mut self) {
        // Does nothing after an answer or a refusal: the job is not selecting any more then.
        self.coalescer.change(&self.key, |entry| {
            let lost = entry.batcher.is_selecting(self.ticket);
            if lost { entry.leave(self.ticket) } else { (None, Vec::new()) }
        });
    }
}

// === Batch run

impl<C: BatchJob> BatchRun<C> {
    pub(crate) fn batch_job(&self) -> &C {
        &self.coalescer.0.batch_job
    }

    pub(crate) fn key(&self) -> &C::Key {
        &self.key
    }

    /// Begins the scan, and returns the jobs of all who came until now. Call this the moment before the first attempt
    /// is sent. Later jobs wait for the next scan. `None`: nobody wants the scan any more, and it must not be sent.
    pub(crate) fn begin(&self) -> Option<Vec<(Ticket, C::Job)>> {
        let mut batchers = self.coalescer.lock();
        let entry = batchers.by_key.get_mut(&self.key)?;
        let members = entry.batcher.begin(self.id)?;
        let job = |ticket| Some((ticket, entry.waiters.get_mut(&ticket)?.job.take()?));
        Some(members.into_iter().filter_map(job).collect())
    }

    /// Returns the indexes of the tickets for which nobody waits any more.
    pub(crate) fn gone(&self, tickets: &[Ticket]) -> Vec<usize> {
        let batchers = self.coalescer.lock();
        let entry = batchers.by_key.get(&self.key);
        let waits = |ticket| entry.is_some_and(|entry| entry.waiters.contains_key(ticket));
        tickets.iter().enumerate().filter(|(_, ticket)| !waits(ticket)).map(|(place, _)| place).collect()
    }

    /// Answers one job, while others may go on.
    pub(crate) fn answer(&self, ticket: Ticket, answer: C::Answer) {
        let mut waiter = None;
        let mut batchers = self.coalescer.lock();
        if let Some(entry) = batchers.by_key.get_mut(&self.key) {
            waiter = entry.waiters.remove(&ticket);
        }
        drop(batchers);
        if let Some(waiter) = waiter {
            let _ = waiter.answer.send(answer);
        }
    }
}

impl<C: BatchJob> Drop for BatchRun<C> {
    fn drop(&mut self) {
        self.coalescer.change(&self.key, |entry| {
            let (members, actions) = entry.batcher.end(self.id);
            let lost: Vec<_> = members.iter().filter_map(|ticket| entry.waiters.remove(ticket)).collect();
            (lost, actions)
        });
    }
}

#[cfg(test)]
mod tests;
