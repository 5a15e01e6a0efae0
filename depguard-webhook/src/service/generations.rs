//! Registers of this replica, by the generation in the path of a review.
//!
//! A path without a generation is that of a version before keys, whose registers have none either. A path with a
//! generation that this replica doesn't have is not answered, so that API servers refuse: nobody would see the marks
//! that this replica records.
//!
//! Marks hold others' requests up, so a path with a generation must be signed by the registers' key, for the present
//! hour or a neighbouring one: the controller signs it anew each hour, so that a URL which somebody saw is soon worth
//! nothing. While the controller is away, the newest path that came stays good.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use depguard_core::interlock::{Buckets, Generation};
use depguard_kcp::{PathKey, PathPeriod, RegisterKeySecret, StoredRegisterKey};
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
    /// Set if no controller ever wrote a path that the key did not sign.
    signs_paths: Arc<AtomicBool>,
    /// The newest period of a path that came signed; 0: none came.
    newest: Arc<AtomicU64>,
    /// Length of a period.
    period: Duration,
    /// True if only clients with a certificate get here.
    are_certified: bool,
}

/// Proof that an API server asks at a path with a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The client's certificate.
    Certificate,
    /// The path's signature.
    Signature,
    /// None is asked for yet: an earlier controller may have written the path.
    Unneeded,
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
            signs_paths: Arc::default(),
            newest: Arc::default(),
            period: PathPeriod::LENGTH,
            are_certified: false,
        }
    }

    /// Sets how long one key signs paths, and if only clients with a certificate get here.
    pub(crate) fn proven_by(self, period: Duration, are_certified: bool) -> Self {
        Self { period, are_certified, ..self }
    }

    /// Returns the proof that an API server asks at a path with this generation; `None` if the path must not be answered.
    /// `is_signed` tells if a key has signed the path.
    pub(crate) fn proof(&self, generation: Generation, is_signed: impl Fn(&PathKey) -> bool) -> Option<Proof> {
        let buckets = self.at(Some(generation))?;
        if self.are_certified {
            return Some(Proof::Certificate);
        }
        let (now, newest) = (PathPeriod::now(self.period).number, self.newest.load(Ordering::Relaxed));
        // The clocks of the controller and of this replica may differ.
        let periods = [now, now.saturating_sub(1), now.saturating_add(1), newest];
        let by = |period: &u64| PathKey::of_period(buckets, *period).is_some_and(|key| is_signed(&key));
        match periods.into_iter().find(by) {
            Some(period) => {
                self.newest.fetch_max(period, Ordering::Relaxed);
                Some(Proof::Signature)
            }
            None if newest > 0 || self.signs_paths.load(Ordering::Relaxed) => None,
            None => Some(Proof::Unneeded),
        }
    }

    #[cfg(test)]
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
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
                Ok(Some(StoredRegisterKey { key, signs_paths })) => {
                    self.signs_paths.store(signs_paths, Ordering::Relaxed);
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
