//! Readiness of the registers, as the conditions of rules need it.

use std::time::Duration;

use depguard_core::interlock::{Buckets, Generation, RegisterName};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// Maximum time for which a round about rules waits for the first look at the registers.
const PATIENCE: Duration = Duration::from_secs(5);

/// Readiness of all registers together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RegisterReadiness {
    /// Each look at the registers since this moment found all of them open, and found the same ones.
    Open {
        since: Instant,
        /// Register that has no room for another mark; `None`: all have room.
        full: Option<RegisterName>,
    },
    /// Some register records nothing, or could not be looked at; the text says why.
    NotOpen { why: String },
}

/// State of the interlock of which the conditions of rules depend.
#[derive(Debug)]
pub(crate) struct InterlockState {
    /// Registers of the installation: each webhook must have the same. Without a key until it is read.
    pub(crate) buckets: watch::Receiver<Buckets>,
    /// Generation in which registers may be made, because no marks of a former one count any more.
    pub(crate) begun: watch::Sender<Option<Generation>>,
    /// Time for which all parts must have been in order before the promise holds.
    pub(crate) settling: Duration,
    /// True if locks may refuse deletions of objects of any kind.
    pub(crate) has_locks: bool,
    pub(crate) readiness: watch::Receiver<RegisterReadiness>,
}

impl InterlockState {
    /// Waits for a short time until the registers were looked at, so that those of a fresh installation are open before
    /// the webhook is asked about references.
    pub(crate) async fn looked(&mut self) {
        let not_looked = RegisterReadiness::not_looked();
        _ = timeout(PATIENCE, self.readiness.wait_for(|readiness| *readiness != not_looked)).await;
    }
}

impl RegisterReadiness {
    pub(crate) fn not_looked() -> Self {
        Self::NotOpen { why: "depguard has not looked at the reference registers yet".to_owned() }
    }
}
