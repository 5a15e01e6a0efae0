//! Rights that the webhook lacks, found out before somebody's deletion fails by them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use depguard_core::{Inquiry, RequiredRead, RuleKey, RuleSet};
use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep_until};

use crate::driver::answer;
use crate::gets::Gets;
use crate::port::Port;
use crate::rules::{Loaded, Rules, Snapshot};

/// Reads that are tried at once.
const MAX_AT_ONCE: usize = 8;
/// How long all of them may take: a controller waits for the answer. What is not known by then is tried the next time.
const PATIENCE: Duration = Duration::from_secs(2);
/// For how long a read that was allowed is not tried again.
const FRESH: Duration = Duration::from_secs(45);
/// For how long one that was forbidden is not: somebody may just have granted it.
const FRESH_LACKING: Duration = Duration::from_secs(2);

/// What was found out, however often it is asked for.
#[derive(Default)]
pub(crate) struct Rights(Mutex<BTreeMap<RequiredRead, Tried>>);

#[derive(Clone)]
struct Tried {
    until: Instant,
    lacks: Option<String>,
}

impl Rights {
    /// Answers a controller that asks which rules are in force, and whether they can be followed.
    pub(crate) async fn tell<P: Port>(&self, gets: &Gets<P>, rules: &Rules, inquiry: &Inquiry) -> Vec<u8> {
        match &*rules.snapshot() {
            Snapshot::Loaded(Loaded { doubt: Some(doubt), .. }) => inquiry.answer(Err(&doubt.why), &BTreeMap::new()),
            Snapshot::Loaded(Loaded { rules, .. }) => {
                inquiry.answer(Ok(rules), &self.lacking(gets, rules, inquiry).await)
            }
            Snapshot::NotLoaded { why } => inquiry.answer(Err(why), &BTreeMap::new()),
        }
    }

    /// The rules of an inquiry for which a right is missing, each with that right.
    async fn lacking<P: Port>(&self, gets: &Gets<P>, rules: &RuleSet, inquiry: &Inquiry) -> BTreeMap<RuleKey, String> {
        let required = rules.required_reads(&inquiry.rules().collect());
        let known = self.known(gets, required.values().flatten().collect()).await;
        let missing = |reads: BTreeSet<RequiredRead>| {
            let lacks = reads.iter().filter_map(|read| known.get(read)?.lacks.clone());
            lacks.collect::<Vec<_>>()
        };
        let rules = required.into_iter().map(|(rule, reads)| (rule, missing(reads).join("; ")));
        rules.filter(|(_, lacks)| !lacks.is_empty()).collect()
    }

    /// What is known of these reads, after those that are due were tried.
    async fn known<P: Port>(&self, gets: &Gets<P>, reads: BTreeSet<&RequiredRead>) -> BTreeMap<RequiredRead, Tried> {
        let now = Instant::now();
        let is_known = |read: &RequiredRead| self.lock().get(read).is_some_and(|tried| tried.until > now);
        let due: Vec<_> = reads.into_iter().filter(|read| !is_known(read)).cloned().collect();
        let tries = stream::iter(due).map(|read| async move {
            let page = gets.get(&read.query()).await;
            let lacks = read.lacks(answer(page.as_ref()));
            let fresh = if lacks.is_some() { FRESH_LACKING } else { FRESH };
            let until = now.checked_add(fresh).unwrap_or(now);
            (read, Tried { until, lacks })
        });
        let end = now.checked_add(PATIENCE).unwrap_or(now);
        let tried: BTreeMap<_, _> = tries.buffer_unordered(MAX_AT_ONCE).take_until(sleep_until(end)).collect().await;
        let mut shared = self.lock();
        shared.retain(|_, tried| tried.until > now);
        shared.extend(tried);
        shared.clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RequiredRead, Tried>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
