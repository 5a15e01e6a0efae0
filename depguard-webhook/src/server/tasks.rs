//! Tasks of a server: all are known, so that the server can end without leaving one behind.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Set of tasks: spawns tasks, tells them to end, and waits for them. Clones share the set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    stopping: CancellationToken,
    killed: CancellationToken,
    /// Tasks that must not end by themselves.
    needed: Arc<Mutex<Vec<(&'static str, AbortHandle)>>>,
}

impl Tasks {
    /// Runs `task` until it is done, or until all tasks are killed.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        let killed = self.killed.clone();
        self.tracker.spawn(async move {
            // A kill drops the task where it stands.
            killed.run_until_cancelled(task).await;
        })
    }

    /// Does the same for a caller that may have no runtime any more: without one, `task` is dropped.
    pub(crate) fn try_spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if Handle::try_current().is_ok() {
            self.spawn(task);
        }
    }

    /// Runs `task` until the tasks are told to end. The other tasks are worth nothing without it: if it ends before
    /// that, or panics, the set is [`dead`](Self::dead).
    pub(crate) fn spawn_needed(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let stopping = self.stopping.clone();
        let running = self.spawn(async move {
            // A task may have ended because of the stop before this check runs.
            if stopping.run_until_cancelled(task).await.is_some() && !stopping.is_cancelled() {
                tracing::error!(task = name, "a needed task has ended");
            }
        });
        self.needed.lock().unwrap_or_else(PoisonError::into_inner).push((name, running.abort_handle()));
    }

    /// Returns a needed task that has ended though nobody told it to.
    pub(crate) fn dead(&self) -> Option<&'static str> {
        if self.stopping.is_cancelled() || self.killed.is_cancelled() {
            return None;
        }
        let needed = self.needed.lock().unwrap_or_else(PoisonError::into_inner);
        needed.iter().find(|(_, task)| task.is_finished()).map(|(name, _)| *name)
    }

    /// Waits until the tasks have been told to end.
    pub(crate) async fn stopping(&self) {
        self.stopping.cancelled().await;
    }

    /// Tells the tasks to end, waits for them, and after `grace` drops the rest.
    pub(crate) async fn stop(&self, grace: Duration) {
        self.stopping.cancel();
        self.tracker.close();
        if tokio::time::timeout(grace, self.tracker.wait()).await.is_err() {
            tracing::warn!(
                tasks = self.tracker.len(),
                "not all work was done within {grace:?}: dropping the remaining reviews"
            );
            self.killed.cancel();
            self.tracker.wait().await;
        }
    }

    /// Returns the number of tasks.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.tracker.len()
    }

    /// Aborts a needed task.
    #[cfg(test)]
    pub(crate) fn abort(&self, name: &str) {
        let needed = self.needed.lock().unwrap();
        needed.iter().find(|(other, _)| *other == name).unwrap().1.abort();
    }

    /// Drops all tasks where they stand.
    pub(crate) fn kill(&self) {
        self.killed.cancel();
    }
}

/// Executor for hyper, which runs the streams of an HTTP/2 connection as tasks of their own.
impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future + Send + 'static,
{
    fn execute(&self, task: F) {
        self.spawn(async {
            task.await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn stopping_waits_for_the_work_that_ends() {
        let tasks = Tasks::default();
        let (done, answered) = tokio::sync::oneshot::channel();
        let inside = tasks.clone();
        tasks.spawn(async move {
            inside.stopping().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            done.send(()).unwrap();
        });
        tasks.spawn_needed("one", pending());
        tasks.stop(Duration::from_secs(10)).await;
        assert!(tasks.tracker.is_empty());
        answered.await.unwrap();
    }

    #[tokio::test]
    async fn a_needed_task_that_ends_or_panics_is_dead_and_one_that_is_stopped_is_not() {
        let settled = async |tasks: &Tasks| {
            while tasks.tracker.len() > 1 {
                tokio::task::yield_now().await;
            }
            tasks.dead()
        };
        for end in [|| (), || panic!("as the test wants it")] {
            let tasks = Tasks::default();
            tasks.spawn_needed("steady", pending());
            assert_eq!(tasks.dead(), None);
            tasks.spawn_needed("ending", async move { end() });
            assert_eq!(settled(&tasks).await, Some("ending"));
            tasks.stop(Duration::from_secs(1)).await;
            assert_eq!(tasks.dead(), None);
        }
    }

    #[tokio::test]
    async fn stopping_drops_the_work_that_does_not_end() {
        let tasks = Tasks::default();
        tasks.spawn(pending());
        tasks.stop(Duration::from_millis(20)).await;
        assert!(tasks.tracker.is_empty());
    }

    #[tokio::test]
    async fn killing_drops_all_work() {
        let tasks = Tasks::default();
        tasks.spawn(pending());
        tasks.kill();
        tasks.tracker.close();
        tokio::time::timeout(Duration::from_secs(5), tasks.tracker.wait()).await.unwrap();
    }
}
