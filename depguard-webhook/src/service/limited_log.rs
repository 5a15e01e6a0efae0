//! Log lines that anybody who reaches the port can cause, as often as they like.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Time for which a cause is not logged as a warning again.
const PAUSE: Duration = Duration::from_secs(60);

/// Warnings that are each logged once a minute and counted between. Both the event and its cause are words of closed
/// sets.
#[derive(Debug, Default)]
pub(crate) struct LimitedLog(Mutex<BTreeMap<[&'static str; 2], (Instant, u64)>>);

impl LimitedLog {
    /// Logs a warning; at level debug if the same was logged not long ago.
    pub(crate) fn warn(&self, what: &'static str, cause: &'static str, detail: &str) {
        match self.tell([what, cause]) {
            Some(kept_back) => tracing::warn!(cause, kept_back, "{what}: {detail}"),
            None => tracing::debug!(cause, "{what}: {detail}"),
        }
    }

    /// Returns the number of times that this was kept back since it was last logged; `None` if it is to be kept back
    /// now, too.
    fn tell(&self, cause: [&'static str; 2]) -> Option<u64> {
        let now = Instant::now();
        // Nothing under the lock can panic half-way.
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match told.get_mut(&cause) {
            Some((last, kept_back)) if now.saturating_duration_since(*last) < PAUSE => {
                *kept_back = kept_back.saturating_add(1);
                None
            }
            _ => Some(told.insert(cause, (now, 0)).map_or(0, |(_, kept_back)| kept_back)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cause_is_told_once_a_minute_with_the_number_of_those_between() {
        let log = LimitedLog::default();
        let tell = |cause| log.tell(["refused", cause]);
        assert_eq!([tell("a"), tell("a"), tell("b"), tell("a")], [Some(0), None, Some(0), None]);
        assert_eq!(log.tell(["rejected", "a"]), Some(0));
        tokio::time::advance(PAUSE).await;
        assert_eq!([tell("a"), tell("a"), tell("b")], [Some(2), None, Some(0)]);
    }
}
