//! Writes of depguard's programs, at which a scenario kills them.

use depguard_testbed::{Life, Write};

use super::World;
use crate::outcome::{Outcome, Stop};

impl World {
    /// Follows the writes of one of depguard's accounts, and counts those that `counts` selects. Only a testbed can.
    pub async fn follow(
        &self,
        account: &str,
        counts: impl Fn(&Write) -> bool + Send + Sync + 'static,
    ) -> Outcome<Life> {
        let cannot = || Stop::Skipped("a real server can't cut one request of a program".to_owned());
        let testbed = self.ring.in_process().ok_or_else(cannot)?;
        Ok(testbed.faults().follow(&self.token(account).await?, counts))
    }
}
