//! The tasks of a server: all are known, so that it can end without leaving one behind.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Spawns tasks, tells them to end, and waits for them. Clones speak of the same tasks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    stopping: CancellationToken,
    killed: CancellationToken,
}

impl Tasks {
    /// Runs `task` until it is done, or all are killed.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let killed = self.killed.clone();
        self.tracker.spawn(async move {
            // Dropped where it stands when killed.
            killed.run_until_cancelled(task).await;
        });
    }

    /// Runs `task` as well, from where there may be no runtime any more to do so: then it is dropped.
    pub(crate) fn try_spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if Handle::try_current().is_ok() {
            self.spawn(task);
        }
    }

    /// Runs `task`, which has no work of its own to finish, until the tasks are told to come to an end.
    pub(crate) fn spawn_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stopping = self.stopping.clone();
        self.spawn(async move {
            stopping.run_until_cancelled(task).await;
        });
    }

    /// Done once the tasks have been told to come to an end.
    pub(crate) async fn stopping(&self) {
        self.stopping.cancelled().await;
    }

    /// Tells the tasks to come to an end, waits for them, and drops those that have not after `grace`.
    pub(crate) async fn stop(&self, grace: Duration) {
        self.stopping.cancel();
        self.tracker.close();
        if tokio::time::timeout(grace, self.tracker.wait()).await.is_err() {
            tracing::warn!(tasks = self.tracker.len(), "not all work was done within {grace:?}: dropping the rest");
            self.killed.cancel();
            self.tracker.wait().await;
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.tracker.len()
    }

    /// Drops all tasks where they stand.
    pub(crate) fn kill(&self) {
        self.killed.cancel();
    }
}

/// hyper runs the streams of an HTTP/2 connection as tasks of their own.
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
        tasks.spawn_background(pending());
        tasks.stop(Duration::from_secs(10)).await;
        assert!(tasks.tracker.is_empty());
        answered.await.unwrap();
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
