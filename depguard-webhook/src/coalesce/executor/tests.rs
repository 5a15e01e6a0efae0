//! The coalescer with a batch job that a test controls.

use std::time::Duration;

use super::*;
use futures::FutureExt;
use tokio::sync::Semaphore;
use tokio::task::yield_now;

/// Batch job whose answer is the sum of its jobs. An odd job can't be done alone, and job 13 panics.
#[derive(Default)]
struct Adder {
    begun: Mutex<Vec<Vec<u32>>>,
    alone: Mutex<Vec<u32>>,
}

/// Semaphore without permits: a task that waits for it never goes on.
static NEVER: Semaphore = Semaphore::const_new(0);

impl BatchJob for Adder {
    type Key = &'static str;
    type Job = u32;
    type Answer = u32;

    const THRESHOLDS: Thresholds = Thresholds { at_once: 1, batch_threshold: 2 };

    async fn run_single(run: SingleRun<Self>) {
        let Some(job) = run.take() else { return };
        run.batch_job().alone.lock().unwrap().push(job);
        tokio::time::sleep(Duration::from_secs(1)).await;
        match job {
            13 => panic!("13"),
            job if job % 2 == 1 => run.refuse(job),
            job => run.answer(job),
        }
    }

    async fn run_batch(run: BatchRun<Self>) {
        if *run.key() == "stuck" {
            let _ = NEVER.acquire().await;
        }
        let Some(members) = run.begin() else { return };
        let jobs: Vec<_> = members.iter().map(|(_, job)| *job).collect();
        run.batch_job().begun.lock().unwrap().push(jobs.clone());
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!jobs.contains(&13), "13");
        for (ticket, _) in members {
            run.answer(ticket, jobs.iter().sum());
        }
        if *run.key() == "lingers" {
            let _ = NEVER.acquire().await;
        }
    }
}

fn coalescer() -> Coalescer<Adder> {
    Coalescer::new(Adder::default(), Tasks::default())
}

impl Coalescer<Adder> {
    fn begun(&self) -> Vec<Vec<u32>> {
        self.0.batch_job.begun.lock().unwrap().clone()
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
    let coalescer = coalescer();
    let first = [coalescer.ask("a", 1, false), coalescer.ask("a", 2, false)];
    settled().await;
    let second = [coalescer.ask("a", 4, false), coalescer.ask("a", 8, false)];
    let other = coalescer.ask("b", 16, false);
    assert_eq!(futures::future::join_all(first).await, [Some(3), Some(3)]);
    assert_eq!(other.await, Some(16));
    assert_eq!(futures::future::join_all(second).await, [Some(12), Some(12)]);
    assert!(coalescer.is_empty(), "a batcher that is idle is gone");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_done_alone_is_done_with_others() {
    let coalescer = coalescer();
    let (alone, refused) = (coalescer.ask("a", 2, true), coalescer.ask("a", 5, true));
    assert_eq!(alone.await, Some(2));
    assert_eq!(refused.await, Some(5));
    assert_eq!(*coalescer.0.batch_job.alone.lock().unwrap(), [2, 5]);
    assert_eq!(coalescer.begun(), [[5]]);
    assert!(coalescer.is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_leaves_ends_nobody_else_s_wait_and_the_last_one_ends_it() {
    let coalescer = coalescer();
    let alive = || coalescer.0.tasks.len();
    let (stays, leaves) = (coalescer.ask("a", 1, false), coalescer.ask("a", 2, false));
    settled().await;
    drop(leaves);
    assert_eq!(stays.await, Some(3));

    let (one, other, late) = (coalescer.ask("a", 1, false), coalescer.ask("a", 2, false), coalescer.ask("a", 4, true));
    settled().await;
    drop((one, other, late));
    settled().await;
    assert_eq!(alive(), 0, "nothing runs on for nobody");
    assert!(coalescer.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_waits_to_be_sent_is_joined_and_given_up_with_its_last_one() {
    let coalescer = coalescer();
    let waiting = [coalescer.ask("stuck", 1, false), coalescer.ask("stuck", 2, false)];
    settled().await;
    assert_eq!((coalescer.0.tasks.len(), coalescer.begun().len()), (1, 0));
    drop(waiting);
    settled().await;
    assert_eq!(coalescer.0.tasks.len(), 0);
    assert!(coalescer.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_over_has_no_say_in_what_comes_next() {
    let coalescer = coalescer();
    for n in 0..3 {
        // The task of the previous job is still there when this job asks.
        assert_eq!(coalescer.ask("lingers", n, false).await, Some(n));
    }
    settled().await;
    assert!(coalescer.is_empty());
    assert_eq!(coalescer.0.tasks.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_lost_leaves_nobody_waiting() {
    let coalescer = coalescer();
    let (lost, with_it) = (coalescer.ask("a", 13, false), coalescer.ask("a", 2, false));
    settled().await;
    let after = coalescer.ask("a", 4, false);
    assert_eq!((lost.await, with_it.await), (None, None));
    assert_eq!(after.await, Some(4), "the next one is not harmed");
    assert_eq!(coalescer.ask("a", 13, true).await, None);
    assert!(coalescer.is_empty());

    let (running, waiting) = (coalescer.ask("a", 1, false), coalescer.ask("b", 2, true));
    settled().await;
    let next = coalescer.ask("a", 1, false);
    coalescer.0.tasks.kill();
    assert_eq!((running.await, waiting.await, next.await), (None, None, None));
    assert!(coalescer.is_empty());
}

#[test]
fn a_runtime_that_ends_leaves_nobody_waiting() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let coalescer = coalescer();
    let asked = runtime.block_on(async {
        let asked = [coalescer.ask("a", 1, false), coalescer.ask("a", 2, true), coalescer.ask("a", 3, true)];
        settled().await;
        (asked, coalescer.ask("a", 4, false))
    });
    drop(runtime);
    let (first, next) = asked;
    assert_eq!(futures::future::join_all(first).now_or_never(), Some(vec![None, None, None]));
    assert_eq!(next.now_or_never(), Some(None));
    assert!(coalescer.is_empty());
}
