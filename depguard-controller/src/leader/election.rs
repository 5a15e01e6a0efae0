//! Leader election among several controllers: one holds a Lease, and the others take it when it is no longer renewed.
//!
//! No two clocks are compared. A candidate counts from the moment at which *it* saw the Lease change, and takes the
//! Lease only if nothing changed for as long as the Lease lasts. The holder counts from before it *sent* its renewal,
//! and stops acting sooner than that: [`Timing::deadline`] is shorter than [`Timing::duration`] by the time that a
//! write under way may still take.

use std::time::Duration;

use tokio::time::Instant;

use crate::leader::lease::HeldLease;

/// Duration of a Lease, and the times that follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timing {
    /// Time after a renewal for which the others leave the Lease to its holder.
    pub(crate) duration: Duration,
    /// Time after a renewal for which the holder acts.
    pub(crate) deadline: Duration,
    /// Interval at which the Lease is renewed, or read.
    pub(crate) retry: Duration,
}

/// One candidate in the election, and its observations.
#[derive(Debug)]
pub(crate) struct Candidate {
    identity: String,
    timing: Timing,
    /// Version of the Lease as it was last seen to change, and the time at which it was seen.
    seen: Option<(String, Instant)>,
    /// Time at which the last renewal was sent; `None` if the candidate does not hold the Lease.
    renewed: Option<Instant>,
}

impl Timing {
    /// Returns the timing of a Lease that lasts so long, cut to the whole seconds in which it is written.
    pub(crate) fn new(duration: Duration) -> Self {
        let duration = Duration::from_secs(duration.as_secs().max(1));
        Self { duration, deadline: duration * 2 / 3, retry: duration / 8 }
    }
}

impl Candidate {
    pub(crate) fn new(identity: String, timing: Timing) -> Self {
        Self { identity, timing, seen: None, renewed: None }
    }

    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// Takes in the Lease that was read, and returns true if the candidate may write it: the Lease is its own,
    /// nobody's, or no longer renewed.
    pub(crate) fn may_write(&mut self, held: Option<&HeldLease>, now: Instant) -> bool {
        let Some(held) = held else { return true };
        let since = match &self.seen {
            Some((version, since)) if *version == held.version => *since,
            _ => {
                self.seen = Some((held.version.clone(), now));
                now
            }
        };
        held.holder.is_empty() || held.holder == self.identity || now.duration_since(since) >= held.duration
    }

    /// Notes that a request sent at that time wrote the Lease.
    pub(crate) fn wrote(&mut self, sent: Instant) {
        self.renewed = Some(sent);
    }

    /// Notes that another candidate holds the Lease.
    pub(crate) fn lost(&mut self) {
        self.renewed = None;
    }

    /// Returns the time until which the candidate acts; `None` if it must not act.
    pub(crate) fn acts_until(&self) -> Option<Instant> {
        self.renewed.map(|sent| sent + self.timing.deadline)
    }
}

#[cfg(test)]
mod tests;
