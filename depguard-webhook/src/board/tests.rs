//! The board with a carrier that does what a test says.

use std::time::Duration;

use super::*;
use futures::FutureExt;
use tokio::sync::Semaphore;
use tokio::task::yield_now;

/// Adds up what it is given. A job that is odd can't be done alone, and 13 is one that nobody survives.
#[derive(Default)]
struct Adder {
    begun: Mutex<Vec<Vec<u32>>>,
    alone: Mutex<Vec<u32>>,
}

/// Lets so many scans or selections go on.
static NEVER: Semaphore = Semaphore::const_new(0);

impl Carrier for Adder {
    type Key = &'static str;
    type Job = u32;
    type Answer = u32;

    const BOUNDS: Bounds = Bounds { at_once: 1, crowd: 2 };

    async fn select(selecting: Selecting<Self>) {
        let Some(job) = selecting.take() else { return };
        selecting.carrier().alone.lock().unwrap().push(job);
        tokio::time::sleep(Duration::from_secs(1)).await;
        match job {
            13 => panic!("13"),
            job if job % 2 == 1 => selecting.refuse(job),
            job => selecting.answer(job),
        }
    }

    async fn scan(scanning: Scanning<Self>) {
        if *scanning.key() == "stuck" {
            let _ = NEVER.acquire().await;
        }
        let Some(members) = scanning.begin() else { return };
        let jobs: Vec<_> = members.iter().map(|(_, job)| *job).collect();
        scanning.carrier().begun.lock().unwrap().push(jobs.clone());
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!jobs.contains(&13), "13");
        for (ticket, _) in members {
            scanning.answer(ticket, jobs.iter().sum());
        }
        if *scanning.key() == "lingers" {
            let _ = NEVER.acquire().await;
        }
    }
}

fn board() -> Board<Adder> {
    Board::new(Adder::default(), Tasks::default())
}

impl Board<Adder> {
    fn begun(&self) -> Vec<Vec<u32>> {
        self.0.carrier.begun.lock().unwrap().clone()
    }

    fn is_empty(&self) -> bool {
        self.lock().by_key.is_empty()
    }
}

async fn settled() {
    for _ in 0..20 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn those_who_come_together_are_answered_by_one_and_later_ones_by_the_next() {
    let board = board();
    let first = [board.ask("a", 1, false), board.ask("a", 2, false)];
    settled().await;
    let second = [board.ask("a", 4, false), board.ask("a", 8, false)];
    let other = board.ask("b", 16, false);
    assert_eq!(futures::future::join_all(first).await, [Some(3), Some(3)]);
    assert_eq!(other.await, Some(16));
    assert_eq!(futures::future::join_all(second).await, [Some(12), Some(12)]);
    assert!(board.is_empty(), "a lane that is idle is gone");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_done_alone_is_done_with_others() {
    let board = board();
    let (alone, refused) = (board.ask("a", 2, true), board.ask("a", 5, true));
    assert_eq!(alone.await, Some(2));
    assert_eq!(refused.await, Some(5));
    assert_eq!(*board.0.carrier.alone.lock().unwrap(), [2, 5]);
    assert_eq!(board.begun(), [[5]]);
    assert!(board.is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_leaves_ends_nobody_else_s_wait_and_the_last_one_ends_it() {
    let board = board();
    let alive = || board.0.tasks.len();
    let (stays, leaves) = (board.ask("a", 1, false), board.ask("a", 2, false));
    settled().await;
    drop(leaves);
    assert_eq!(stays.await, Some(3));

    let (one, other, late) = (board.ask("a", 1, false), board.ask("a", 2, false), board.ask("a", 4, true));
    settled().await;
    drop((one, other, late));
    settled().await;
    assert_eq!(alive(), 0, "nothing runs on for nobody");
    assert!(board.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_waits_to_be_sent_is_joined_and_given_up_with_its_last_one() {
    let board = board();
    let waiting = [board.ask("stuck", 1, false), board.ask("stuck", 2, false)];
    settled().await;
    assert_eq!((board.0.tasks.len(), board.begun().len()), (1, 0));
    drop(waiting);
    settled().await;
    assert_eq!(board.0.tasks.len(), 0);
    assert!(board.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_over_has_no_say_in_what_comes_next() {
    let board = board();
    for n in 0..3 {
        // The task of the one before is still there when this one asks.
        assert_eq!(board.ask("lingers", n, false).await, Some(n));
    }
    settled().await;
    assert!(board.is_empty());
    assert_eq!(board.0.tasks.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_lost_leaves_nobody_waiting() {
    let board = board();
    let (lost, with_it) = (board.ask("a", 13, false), board.ask("a", 2, false));
    settled().await;
    let after = board.ask("a", 4, false);
    assert_eq!((lost.await, with_it.await), (None, None));
    assert_eq!(after.await, Some(4), "the next one is not harmed");
    assert_eq!(board.ask("a", 13, true).await, None);
    assert!(board.is_empty());

    let (running, waiting) = (board.ask("a", 1, false), board.ask("b", 2, true));
    settled().await;
    let next = board.ask("a", 1, false);
    board.0.tasks.kill();
    assert_eq!((running.await, waiting.await, next.await), (None, None, None));
    assert!(board.is_empty());
}

#[test]
fn a_runtime_that_ends_leaves_nobody_waiting() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let board = board();
    let asked = runtime.block_on(async {
        let asked = [board.ask("a", 1, false), board.ask("a", 2, true), board.ask("a", 3, true)];
        settled().await;
        (asked, board.ask("a", 4, false))
    });
    drop(runtime);
    let (first, next) = asked;
    assert_eq!(futures::future::join_all(first).now_or_never(), Some(vec![None, None, None]));
    assert_eq!(next.now_or_never(), Some(None));
    assert!(board.is_empty());
}
