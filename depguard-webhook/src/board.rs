//! Carries out what lanes order: tasks that are started, given up and answered for.
//!
//! Whoever asks has a seat in a lane until it is answered or dropped. What a lane orders runs in tasks of their own, since
//! it may outlive the one who first wanted it. A task that is lost, whatever the reason, is one that is over: those who
//! waited for it are told that there is no answer, and never left to wait.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::lanes::{Bounds, Lane, Order, ScanId};
use crate::tasks::Tasks;

/// How that which lanes order is done.
pub(crate) trait Carrier: Send + Sync + Sized + 'static {
    /// What can be asked for together.
    type Key: Clone + Eq + Hash + Send + Sync + 'static;
    /// What each wants of it.
    type Job: Send + 'static;
    /// What each gets.
    type Answer: Send + 'static;

    /// When jobs are done together.
    const BOUNDS: Bounds;

    /// Whether those of this key are, where they could be done alone.
    fn may_crowd(&self, _: &Self::Key) -> bool {
        true
    }

    /// Does one job alone; where it does not say how, the job is done with others.
    fn select(selecting: Selecting<Self>) -> impl Future<Output = ()> + Send + 'static {
        async move {
            if let Some(job) = selecting.take() {
                selecting.refuse(job);
            }
        }
    }

    /// Does all that have come until it [begins](Scanning::begin).
    fn scan(scanning: Scanning<Self>) -> impl Future<Output = ()> + Send + 'static;
}

/// All lanes. Those in which nobody waits are gone.
pub(crate) struct Board<C: Carrier>(Arc<Inner<C>>);

struct Inner<C: Carrier> {
    carrier: C,
    tasks: Tasks,
    lanes: Mutex<Lanes<C>>,
}

struct Lanes<C: Carrier> {
    by_key: HashMap<C::Key, Entry<C>>,
    next_ticket: u64,
}

struct Entry<C: Carrier> {
    lane: Lane<Ticket>,
    waiters: HashMap<Ticket, Waiter<C>>,
    scan: CancellationToken,
}

struct Waiter<C: Carrier> {
    /// Until it is being done.
    job: Option<C::Job>,
    answer: oneshot::Sender<C::Answer>,
    select: CancellationToken,
}

/// Names one job of a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(u64);

/// Somebody who waits. Dropped, nobody does.
struct Seat<C: Carrier> {
    board: Board<C>,
    key: C::Key,
    ticket: Ticket,
}

/// A task that an order started.
enum Start<C: Carrier> {
    Select(Selecting<C>, CancellationToken),
    Scan(Scanning<C>, CancellationToken),
}

/// One job to be done alone. Dropped, it is over.
pub(crate) struct Selecting<C: Carrier> {
    board: Board<C>,
    key: C::Key,
    ticket: Ticket,
}

/// Jobs to be done together. Dropped, it is over, and who was not answered won't be.
pub(crate) struct Scanning<C: Carrier> {
    board: Board<C>,
    key: C::Key,
    id: ScanId,
}

// === Board

impl<C: Carrier> Board<C> {
    /// Tasks are counted among `tasks`. They end by themselves once nobody waits for them.
    pub(crate) fn new(carrier: C, tasks: Tasks) -> Self {
        let lanes = Mutex::new(Lanes { by_key: HashMap::new(), next_ticket: 0 });
        Self(Arc::new(Inner { carrier, tasks, lanes }))
    }

    pub(crate) fn carrier(&self) -> &C {
        &self.0.carrier
    }

    /// Has the job done by what begins after this was called, alone or with others. `None`: what did it was lost.
    ///
    /// `selects` says whether it can be done alone. The job counts from this call on, not from the first poll.
    pub(crate) fn ask(
        &self,
        key: C::Key,
        job: C::Job,
        selects: bool,
    ) -> impl Future<Output = Option<C::Answer>> + Send {
        let (answer, answered) = oneshot::channel();
        let crowd = if self.0.carrier.may_crowd(&key) { C::BOUNDS.crowd } else { usize::MAX };
        let mut lanes = self.lock();
        let ticket = Ticket(lanes.next_ticket);
        lanes.next_ticket = lanes.next_ticket.wrapping_add(1);
        let entry = lanes.by_key.entry(key.clone()).or_insert_with(|| Entry::new(ticket));
        entry.waiters.insert(ticket, Waiter { job: Some(job), answer, select: CancellationToken::new() });
        entry.lane.set_crowd(crowd);
        let orders = entry.lane.arrive(ticket, selects);
        self.follow(lanes, &key, orders);
        let seat = Seat { board: self.clone(), key, ticket };
        async move {
            let answer = answered.await.ok();
            drop(seat);
            answer
        }
    }

    /// Changes a lane, and carries out what it orders.
    fn change<T>(&self, key: &C::Key, change: impl FnOnce(&mut Entry<C>) -> (T, Vec<Order<Ticket>>)) -> Option<T> {
        let mut lanes = self.lock();
        let (done, orders) = change(lanes.by_key.get_mut(key)?);
        self.follow(lanes, key, orders);
        Some(done)
    }

    fn follow(&self, mut lanes: MutexGuard<'_, Lanes<C>>, key: &C::Key, orders: Vec<Order<Ticket>>) {
        let Some(entry) = lanes.by_key.get_mut(key) else { return };
        let starts: Vec<_> = orders.into_iter().filter_map(|order| entry.carry_out(self, key, order)).collect();
        if entry.lane.is_idle() {
            lanes.by_key.remove(key);
        }
        // A task that can't be started any more is dropped at once, and wants the lock for that.
        drop(lanes);
        for start in starts {
            self.0.tasks.try_spawn(start.run());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lanes<C>> {
        self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Carrier> Entry<C> {
    /// The first ticket names the lane: what belonged to an earlier one of the same key must not be taken for this one's.
    fn new(first: Ticket) -> Self {
        Self { lane: Lane::new(C::BOUNDS, first.0), waiters: HashMap::new(), scan: CancellationToken::new() }
    }

    fn carry_out(&mut self, board: &Board<C>, key: &C::Key, order: Order<Ticket>) -> Option<Start<C>> {
        let (board, key) = (board.clone(), key.clone());
        match order {
            Order::Select(ticket) => {
                let given_up = self.waiters.get(&ticket)?.select.clone();
                Some(Start::Select(Selecting { board, key, ticket }, given_up))
            }
            Order::Scan(id) => {
                self.scan = CancellationToken::new();
                Some(Start::Scan(Scanning { board, key, id }, self.scan.clone()))
            }
            // Whoever leaves takes the token along: see `leave`.
            Order::GiveUpSelect(_) => None,
            Order::GiveUpScan(_) => {
                self.scan.cancel();
                None
            }
        }
    }

    fn leave(&mut self, ticket: Ticket) -> (Option<Waiter<C>>, Vec<Order<Ticket>>) {
        let waiter = self.waiters.remove(&ticket);
        (waiter, self.lane.leave(ticket))
    }
}

impl<C: Carrier> Start<C> {
    async fn run(self) {
        match self {
            Self::Select(selecting, given_up) => given_up.run_until_cancelled(C::select(selecting)).await,
            Self::Scan(scanning, given_up) => given_up.run_until_cancelled(C::scan(scanning)).await,
        };
    }
}

impl<C: Carrier> Clone for Board<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

// === Seat

impl<C: Carrier> Drop for Seat<C> {
    fn drop(&mut self) {
        if let Some(Some(waiter)) = self.board.change(&self.key, |entry| entry.leave(self.ticket)) {
            waiter.select.cancel();
        }
    }
}

// === Selecting

impl<C: Carrier> Selecting<C> {
    pub(crate) fn carrier(&self) -> &C {
        &self.board.0.carrier
    }

    pub(crate) fn key(&self) -> &C::Key {
        &self.key
    }

    /// The job, once.
    pub(crate) fn take(&self) -> Option<C::Job> {
        self.board.lock().by_key.get_mut(&self.key)?.waiters.get_mut(&self.ticket)?.job.take()
    }

    pub(crate) fn answer(self, answer: C::Answer) {
        let left = self.board.change(&self.key, |entry| entry.leave(self.ticket));
        if let Some(Some(waiter)) = left {
            // Whoever has gone needs no answer.
            let _ = waiter.answer.send(answer);
        }
    }

    /// It can't be done alone: it is done with others, by what has not begun yet.
    pub(crate) fn refuse(self, job: C::Job) {
        self.board.change(&self.key, |entry| {
            if let Some(waiter) = entry.waiters.get_mut(&self.ticket) {
                waiter.job = Some(job);
            }
            ((), entry.lane.refuse(self.ticket))
        });
    }
}

impl<C: Carrier> Drop for Selecting<C> {
    fn drop(&mut self) {
        // Nothing where it was answered or refused: then it is not selecting any more.
        self.board.change(&self.key, |entry| {
            let lost = entry.lane.is_selecting(self.ticket);
            if lost { entry.leave(self.ticket) } else { (None, Vec::new()) }
        });
    }
}

// === Scanning

impl<C: Carrier> Scanning<C> {
    pub(crate) fn carrier(&self) -> &C {
        &self.board.0.carrier
    }

    pub(crate) fn key(&self) -> &C::Key {
        &self.key
    }

    /// To be called the moment before the first attempt is sent: the jobs of all who came until now. Whoever comes later
    /// waits for the next. `None`: nobody wants it any more, and it must not be sent.
    pub(crate) fn begin(&self) -> Option<Vec<(Ticket, C::Job)>> {
        let mut lanes = self.board.lock();
        let entry = lanes.by_key.get_mut(&self.key)?;
        let members = entry.lane.begin(self.id)?;
        let job = |ticket| Some((ticket, entry.waiters.get_mut(&ticket)?.job.take()?));
        Some(members.into_iter().filter_map(job).collect())
    }

    /// Those for whom nobody waits any more, by their places.
    pub(crate) fn gone(&self, tickets: &[Ticket]) -> Vec<usize> {
        let lanes = self.board.lock();
        let entry = lanes.by_key.get(&self.key);
        let waits = |ticket| entry.is_some_and(|entry| entry.waiters.contains_key(ticket));
        tickets.iter().enumerate().filter(|(_, ticket)| !waits(ticket)).map(|(place, _)| place).collect()
    }

    /// Answers one, while others may go on.
    pub(crate) fn answer(&self, ticket: Ticket, answer: C::Answer) {
        let mut waiter = None;
        let mut lanes = self.board.lock();
        if let Some(entry) = lanes.by_key.get_mut(&self.key) {
            waiter = entry.waiters.remove(&ticket);
        }
        drop(lanes);
        if let Some(waiter) = waiter {
            let _ = waiter.answer.send(answer);
        }
    }
}

impl<C: Carrier> Drop for Scanning<C> {
    fn drop(&mut self) {
        self.board.change(&self.key, |entry| {
            let (members, orders) = entry.lane.end(self.id);
            let lost: Vec<_> = members.iter().filter_map(|ticket| entry.waiters.remove(ticket)).collect();
            (lost, orders)
        });
    }
}

#[cfg(test)]
mod tests;
