//! Common parts of all work that is done in rounds.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::{ControlPlane, ExportName};
use depguard_kcp::{Allowance, Connection, MemoryBudget, Snapshot};
use futures::{Stream, StreamExt, stream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::leader::write_permit::{PermitReader, WritePermit};
use crate::runtime::client_config::Clients;
use crate::runtime::metrics::Metrics;

/// Maximum number of writes at once.
pub(crate) const MAX_CONCURRENT_WRITES: usize = 16;
/// Time for which it changes nothing about the interlock that nobody could be asked: one slow round of an API server says
/// nothing about webhooks and registers.
pub(crate) const MAX_SILENCE: Duration = Duration::from_secs(30);
/// Time limit for the writes of one kind in one round.
const WRITES: Duration = Duration::from_secs(45);

/// Common inputs of rounds. Clones see the same state.
#[derive(Clone)]
pub(crate) struct ReconcileContext {
    pub(crate) connection: Connection,
    pub(crate) control_plane: ControlPlane,
    /// depguard's APIExport; not used in plain Kubernetes.
    pub(crate) export_name: ExportName,
    /// Limit of the watched objects of one workspace, or of a plain cluster.
    pub(crate) allowance: Allowance,
    /// Memory that this process may take.
    pub(crate) memory: MemoryBudget,
    /// Snapshot of the objects that rules need.
    pub(crate) rules: watch::Receiver<Arc<Snapshot>>,
    pub(crate) clients: watch::Receiver<Clients>,
    /// Permission to write.
    pub(crate) permit: PermitReader,
    /// Maximum time between two rounds.
    pub(crate) resync: Duration,
    /// Time that a newer version of depguard has for its configuration, before this one writes its own.
    pub(crate) deference: Duration,
    pub(crate) metrics: Metrics,
}

/// Source of changes.
pub(crate) trait Changes: Send {
    /// Waits for a change that is a reason for another round. No change is lost if the future is dropped.
    fn changed(&mut self) -> impl Future<Output = Change> + Send;
}

/// Work that is done in rounds, after changes that it follows.
pub(crate) trait Rounds: Changes {
    /// Input of a round.
    type Input: Send;

    /// Time to wait for more changes after one.
    const SETTLE: Duration = Duration::from_millis(200);

    /// Takes in the permit and the newest state. Returns the input of a round, if one is to be carried out.
    fn prepare(&mut self, permit: WritePermit) -> Option<Self::Input>;

    /// Carries out a round. Returns the time at which the next one is due, if it is due before the resync.
    fn round(&mut self, input: Self::Input) -> impl Future<Output = Option<Instant>> + Send;
}

/// Change that is a reason for another round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// More changes may come with it.
    Usual,
    /// Change that can't wait.
    Urgent,
    /// Nothing will change any more.
    Over,
}

impl<T, E> From<Result<T, E>> for Change {
    /// Reads the result of waiting for a channel: an error says that its sender is gone.
    fn from(changed: Result<T, E>) -> Self {
        if changed.is_ok() { Self::Usual } else { Self::Over }
    }
}

/// Carries out a round whenever something changed, a failure is due again, or the time has come. Looks for an uninstall
/// before each round, and breaks a round off once the permit to write is gone. Ends when nothing can change any more.
pub(crate) async fn run_rounds<W: Rounds>(context: ReconcileContext, mut work: W) {
    let ReconcileContext { mut permit, mut clients, resync, .. } = context;
    loop {
        clients.mark_unchanged();
        let mut due = None;
        if let Some(input) = work.prepare(permit.latest()) {
            match permit.clone().while_granted(work.round(input)).await {
                Some(next) => due = next,
                None => tracing::warn!("the controller may not write any more; it did not finish a round"),
            }
        }
        let now = Instant::now();
        // What is overdue waits as long as a change does, or one round would follow the other.
        let due = due.map_or(now + resync, |due| due.clamp(now + W::SETTLE, now + resync.max(W::SETTLE)));
        if !wait(W::SETTLE, due, &mut AllChanges { work: &mut work, clients: &mut clients, permit: &mut permit }).await
        {
            return;
        }
    }
}

/// Changes of some work, and those that matter to all of it.
struct AllChanges<'a, W> {
    work: &'a mut W,
    clients: &'a mut watch::Receiver<Clients>,
    permit: &'a mut PermitReader,
}

impl<W: Changes> Changes for AllChanges<'_, W> {
    async fn changed(&mut self) -> Change {
        tokio::select! {
            change = self.work.changed() => change,
            changed = self.clients.changed() => changed.into(),
            is_there = self.permit.changed() => if is_there { Change::Usual } else { Change::Over },
        }
    }
}

/// Waits until a round is due, or until a change has settled. Returns false if nothing will change any more.
async fn wait(settle: Duration, due: Instant, changes: &mut impl Changes) -> bool {
    let (mut end, mut is_settling) = (pin!(sleep_until(due)), false);
    loop {
        let change = tokio::select! {
            change = changes.changed() => change,
            () = &mut end => return true,
        };
        match change {
            Change::Over => return false,
            Change::Urgent => return true,
            Change::Usual if is_settling => {}
            Change::Usual => {
                is_settling = true;
                end.as_mut().reset(due.min(Instant::now() + settle));
            }
        }
    }
}

/// Carries out writes of one kind, and returns the result of each. Writes for which no time is left wait for the next
/// round.
pub(crate) fn in_time<W: Future>(writes: impl IntoIterator<Item = W>) -> impl Stream<Item = W::Output> + Unpin {
    Box::pin(stream::iter(writes).buffer_unordered(MAX_CONCURRENT_WRITES).take_until(sleep(WRITES)))
}

#[cfg(test)]
mod tests {
    use depguard_kcp::latest;

    use super::*;

    const SETTLE: Duration = Duration::from_millis(200);

    /// Waits for the channel's changes, and returns the time that this took; `None` if nothing will change any more.
    async fn waited(changes: &mut watch::Receiver<i32>) -> Option<Duration> {
        let begun = Instant::now();
        wait(SETTLE, begun + SETTLE * 10, changes).await.then(|| begun.elapsed())
    }

    impl Changes for watch::Receiver<i32> {
        async fn changed(&mut self) -> Change {
            match Self::changed(self).await {
                Ok(()) if latest(self) == 9 => Change::Urgent,
                changed => changed.into(),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn urgent_changes_wait_for_nothing_and_others_settle() {
        let (sender, mut changes) = watch::channel(0);
        assert_eq!(waited(&mut changes).await, Some(SETTLE * 10), "a round is due");
        sender.send_replace(1);
        assert_eq!(waited(&mut changes).await, Some(SETTLE));
        sender.send_replace(9);
        assert_eq!(waited(&mut changes).await, Some(Duration::ZERO));
        // Also if the urgent change comes while another one settles.
        sender.send_replace(1);
        let late = async {
            sleep(SETTLE / 4).await;
            sender.send_replace(9);
        };
        assert_eq!(tokio::join!(waited(&mut changes), late).0, Some(SETTLE / 4));
        // A change that goes on puts the round off no further.
        let often = async {
            for _ in 0..8 {
                sender.send_replace(1);
                sleep(SETTLE / 4).await;
            }
        };
        assert_eq!(tokio::join!(waited(&mut changes), often).0, Some(SETTLE));
        changes.mark_unchanged();
        drop(sender);
        assert_eq!(waited(&mut changes).await, None);
    }
}
