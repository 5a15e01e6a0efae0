//! Which one of several controllers acts: a Lease that one holds, and the others take when it is no longer renewed.
//!
//! No two clocks are compared. A candidate counts from when *it* saw the Lease change, and takes it only when nothing
//! changed for as long as the Lease lasts. The holder counts from before it *sent* what renewed it, and stops acting
//! sooner than that: [`Timing::deadline`] is shorter than [`Timing::duration`] by what a write that was under way may
//! still take.

use std::time::Duration;

use tokio::time::Instant;

use crate::lease::Held;

/// How long a Lease lasts, and what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timing {
    /// For how long others leave it to its holder after it was renewed.
    pub(crate) duration: Duration,
    /// For how long its holder acts after that.
    pub(crate) deadline: Duration,
    /// How often it is renewed, or looked at.
    pub(crate) retry: Duration,
}

/// What a candidate knows.
#[derive(Debug)]
pub(crate) struct Candidate {
    identity: String,
    timing: Timing,
    /// The Lease as it was last seen to change, and when.
    seen: Option<(String, Instant)>,
    /// When what last renewed it was sent.
    renewed: Option<Instant>,
}

impl Timing {
    /// With a Lease that lasts so long, in seconds as it is written.
    pub(crate) fn of(duration: Duration) -> Self {
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

    /// Takes in what was read, and says whether the Lease may be written: it is ours, nobody's, or was left.
    pub(crate) fn may_write(&mut self, held: Option<&Held>, now: Instant) -> bool {
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

    /// Notes that it was written by what was sent then.
    pub(crate) fn wrote(&mut self, sent: Instant) {
        self.renewed = Some(sent);
    }

    /// Notes that it is somebody else's.
    pub(crate) fn lost(&mut self) {
        self.renewed = None;
    }

    /// Until when to act; `None`: not at all.
    pub(crate) fn acts_until(&self) -> Option<Instant> {
        self.renewed.map(|sent| sent + self.timing.deadline)
    }
}

#[cfg(test)]
mod tests;
