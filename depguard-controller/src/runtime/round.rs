//! Common parts of all work that is done in rounds.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::{ControlPlane, ExportName};
use depguard_kcp::{Allowance, Connection, Snapshot};
use futures::{Stream, StreamExt, stream};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::leader::write_permit::PermitReader;
use crate::runtime::client_config::Clients;
use crate::runtime::metrics::Metrics;

/// Maximum number of writes at once.
pub(crate) const MAX_CONCURRENT_WRITES: usize = 16;
/// Time for which it changes nothing about the interlock that nobody could be asked: one slow round of an API server says
/// nothing about webhooks and registers.
pub(crate) const MAX_SILENCE: Duration = Duration::from_secs(30);
/// Time limit for the writes of one kind in one round.
const WRITES: Duration = Duration::from_secs(45);
/// Time to wait for more changes after one.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// Common inputs of rounds. Clones see the same state.
#[derive(Clone)]
pub(crate) struct ReconcileContext {
    pub(crate) connection: Connection,
    pub(crate) control_plane: ControlPlane,
    /// depguard's APIExport; not used in plain Kubernetes.
    pub(crate) export_name: ExportName,
    /// Limit of the watched objects of one workspace, or of a plain cluster.
    pub(crate) allowance: Allowance,
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

/// Waits for a change, and for further changes that come with it. Returns false if there can be none any more.
pub(crate) async fn settled<T>(changes: &mut watch::Receiver<T>) -> bool {
    settled_unless(changes, |_| false).await
}

/// Waits as [`settled`] does, but returns at once when a state `is_urgent`.
#[expect(clippy::disallowed_methods, reason = "the borrow ends with the condition, which borrows nothing else")]
pub(crate) async fn settled_unless<T>(changes: &mut watch::Receiver<T>, is_urgent: impl Fn(&T) -> bool) -> bool {
    let mut changed = changes.changed().await.is_ok();
    let mut settled = pin!(sleep(DEBOUNCE));
    while changed && !is_urgent(&changes.borrow_and_update()) {
        tokio::select! {
            () = &mut settled => break,
            next = changes.changed() => changed = next.is_ok(),
        }
    }
    changed
}

/// Carries out writes of one kind, and returns the result of each. Writes for which no time is left wait for the next
/// round.
pub(crate) fn in_time<W: Future>(writes: impl IntoIterator<Item = W>) -> impl Stream<Item = W::Output> + Unpin {
    Box::pin(stream::iter(writes).buffer_unordered(MAX_CONCURRENT_WRITES).take_until(sleep(WRITES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_urgent_is_not_waited_upon_and_all_else_settles() {
        let (sender, mut changes) = watch::channel(0);
        let waited = async |changes: &mut watch::Receiver<i32>| {
            let begun = tokio::time::Instant::now();
            assert!(settled_unless(changes, |state| *state == 9).await);
            begun.elapsed()
        };
        sender.send_replace(1);
        assert_eq!(waited(&mut changes).await, DEBOUNCE);
        sender.send_replace(9);
        assert_eq!(waited(&mut changes).await, Duration::ZERO);
        // Also if the urgent state comes while something else settles.
        sender.send_replace(1);
        let late = async {
            sleep(DEBOUNCE / 4).await;
            sender.send_replace(9);
        };
        assert_eq!(tokio::join!(waited(&mut changes), late).0, DEBOUNCE / 4);
        drop(sender);
        assert!(!settled_unless(&mut changes, |_| false).await);
    }
}
