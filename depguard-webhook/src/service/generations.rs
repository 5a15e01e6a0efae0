//! Registers of this replica, by the generation in the path of a review.
//!
//! A path without a generation is that of a version before keys, whose registers have none either. A path with a
//! generation that this replica doesn't have is not answered, so that API servers refuse: nobody would see the marks
//! that this replica records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use depguard_core::interlock::{Buckets, Generation};
use depguard_kcp::RegisterKeySecret;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Minimum pause between two reads of the key, and the maximum while there is none.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// Registers of this replica. Clones share the key.
#[derive(Clone)]
pub(crate) struct Generations {
    unkeyed: Buckets,
    keyed: Arc<ArcSwapOption<Buckets>>,
    /// Notified once a review names a generation that this replica doesn't have.
    unknown: Arc<Notify>,
    /// Set once the first read of the key has ended, whatever it showed.
    is_read: Arc<AtomicBool>,
}

impl Generations {
    /// Makes the holder of these registers, whose key may follow later.
    pub(crate) fn new(buckets: Buckets) -> Self {
        let keyed = buckets.generation().map(|_| Arc::new(buckets));
        let is_read = Arc::new(AtomicBool::new(keyed.is_some()));
        Self {
            unkeyed: buckets.unkeyed(),
            keyed: Arc::new(ArcSwapOption::new(keyed)),
            unknown: Arc::default(),
            is_read,
        }
    }

    /// Returns the reason why this replica is not to be asked yet: other replicas may know the key. A key that can't be
    /// read keeps no replica out, since reviews at other paths need none.
    pub(crate) fn unread(&self) -> Option<String> {
        let is_read = self.is_read.load(Ordering::Relaxed);
        (!is_read).then(|| "the webhook is reading the key of the reference registers".to_owned())
    }

    /// Returns the registers for a path with this generation; `None` if this replica doesn't have them.
    pub(crate) fn at(&self, generation: Option<Generation>) -> Option<Buckets> {
        if generation.is_none() {
            return Some(self.unkeyed);
        }
        let keyed = self.keyed.load().as_deref().copied().filter(|keyed| keyed.generation() == generation);
        if keyed.is_none() {
            self.unknown.notify_one();
        }
        keyed
    }

    /// Reads the key until it is there, and again whenever a review names another generation. Never ends.
    pub(crate) async fn follow(self, secret: RegisterKeySecret) {
        let mut said = None;
        loop {
            let problem = match secret.read().await {
                Ok(Some(key)) => {
                    self.keyed.store(Some(Arc::new(self.unkeyed.keyed(key))));
                    None
                }
                Ok(None) => Some("the controller has not made the key of the reference registers yet".to_owned()),
                Err(why) => Some(why),
            };
            self.is_read.store(true, Ordering::Relaxed);
            if let Some(why) = problem.as_ref().filter(|_| said != problem) {
                tracing::warn!("{why}");
            }
            said = problem;
            sleep(PAUSES.0).await;
            match self.keyed.load().is_some() {
                true => self.unknown.notified().await,
                false => _ = timeout(PAUSES.1, self.unknown.notified()).await,
            }
        }
    }
}
