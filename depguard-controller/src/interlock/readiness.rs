//! Readiness of the registers, as the conditions of rules need it.

use std::time::Duration;

use depguard_core::interlock::Buckets;
use tokio::sync::watch;
use tokio::time::Instant;

/// Readiness of all registers together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RegisterReadiness {
    /// Each look at the registers since this moment found all of them open, and found the same ones.
    Open { since: Instant },
    /// Some register records nothing, or could not be looked at; the text says why.
    NotOpen { why: String },
}

/// State of the interlock of which the conditions of rules depend.
#[derive(Debug, Clone)]
pub(crate) struct InterlockState {
    /// Registers of the installation: each webhook must have the same.
    pub(crate) buckets: Buckets,
    /// Time for which all parts must have been in order before the promise holds.
    pub(crate) settling: Duration,
    pub(crate) readiness: watch::Receiver<RegisterReadiness>,
}

impl RegisterReadiness {
    pub(crate) fn not_looked() -> Self {
        Self::NotOpen { why: "depguard has not looked at the reference registers yet".to_owned() }
    }
}
