//! What all that is done in rounds has in common.

use std::sync::Arc;
use std::time::Duration;

use depguard_core::{ExportName, Home};
use depguard_kcp::{Connection, MirrorState};
use futures::{Stream, StreamExt, stream};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::clients::Clients;
use crate::gate::Permit;
use crate::metrics::Metrics;

/// How long a newer version of depguard has to put right what it wrote, before this one does it its own way.
pub(crate) const DEFERENCE: Duration = Duration::from_secs(60);
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
    /// What is mirrored for rules.
    pub(crate) rules: watch::Receiver<Arc<MirrorState>>,
    pub(crate) clients: watch::Receiver<Clients>,
    /// Whether to write.
    pub(crate) permit: watch::Receiver<Permit>,
    /// The longest time between two rounds.
    pub(crate) resync: Duration,
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
    let changed = changes.changed().await;
    sleep(DEBOUNCE).await;
    changed.is_ok()
}

/// Carries out writes of one kind, and gives what comes of each. What there is no time for is left to the next round.
pub(crate) fn in_time<W: Future>(writes: impl IntoIterator<Item = W>) -> impl Stream<Item = W::Output> + Unpin {
    Box::pin(stream::iter(writes).buffer_unordered(AT_ONCE).take_until(sleep(WRITES)))
}
