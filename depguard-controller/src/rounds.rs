//! What all that is done in rounds has in common.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::{ExportName, Home};
use depguard_kcp::{Allowance, Connection, MirrorState};
use futures::{Stream, StreamExt, stream};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::clients::Clients;
use crate::gate::Permit;
use crate::metrics::Metrics;

/// What is written at once.
pub(crate) const AT_ONCE: usize = 16;
/// How long the writes of one kind may take in one round.
const WRITES: Duration = Duration::from_secs(45);
/// How long to wait for more changes after one.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// What rounds go by. Clones are shown the same.
#[derive(Clone)]
pub(crate) struct Basis {
    pub(crate) connection: Connection,
    pub(crate) home: Home,
    /// depguard's APIExport; not used in home kubernetes.
    pub(crate) export_name: ExportName,
    /// What one workspace may have mirrored, or a plain cluster.
    pub(crate) allowance: Allowance,
    /// What is mirrored for rules.
    pub(crate) rules: watch::Receiver<Arc<MirrorState>>,
    pub(crate) clients: watch::Receiver<Clients>,
    /// Whether to write.
    pub(crate) permit: watch::Receiver<Permit>,
    /// The longest time between two rounds.
    pub(crate) resync: Duration,
    /// How long a newer version of depguard has to see to what it wrote, before this one does it its own way.
    pub(crate) deference: Duration,
    pub(crate) metrics: Metrics,
}

/// Carries out a round, which is broken off where nothing is to be written any more: then there is no answer.
pub(crate) async fn while_granted<T>(mut permit: watch::Receiver<Permit>, round: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        _ = permit.wait_for(|permit| *permit != Permit::Granted) => None,
        done = round => Some(done),
    }
}

/// Waits for a change, and for what changes along with it. `false`: there can be none any more.
pub(crate) async fn settled<T>(changes: &mut watch::Receiver<T>) -> bool {
    settled_unless(changes, |_| false).await
}

/// The same, where a state that `is_urgent` is not waited upon.
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

/// Carries out writes of one kind, and gives what comes of each. What there is no time for is left to the next round.
pub(crate) fn in_time<W: Future>(writes: impl IntoIterator<Item = W>) -> impl Stream<Item = W::Output> + Unpin {
    Box::pin(stream::iter(writes).buffer_unordered(AT_ONCE).take_until(sleep(WRITES)))
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
        // Also where it comes while something else settles.
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
