//! Rights that the webhook lacks, found before somebody's deletion fails for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use depguard_core::RuleSet;
use depguard_core::lookup::RequiredRead;
use depguard_core::probe::{LoadedRule, LoadedRulesRequest};
use depguard_core::rule::RuleKey;
use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep_until};

use crate::ports::api_reader::ApiReader;
use crate::reads::driver::answer;
use crate::reads::shared_gets::SharedGets;
use crate::rules::active_rules::{Loaded, Rules, RulesState};

/// Maximum number of reads that are tried at once.
const MAX_AT_ONCE: usize = 8;
/// Time limit for all tries: a controller waits for the answer. Reads without a result by then are tried the next time.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time for which an allowed read is not tried again.
const FRESH: Duration = Duration::from_secs(45);
/// Time for which a forbidden read is not tried again: somebody may just have granted the right.
const FRESH_LACKING: Duration = Duration::from_secs(2);

/// Results of the reads that were tried, shared by all loaded-rules requests.
#[derive(Default)]
pub(crate) struct MissingRights(Mutex<BTreeMap<RequiredRead, ReadResult>>);

#[derive(Clone)]
struct ReadResult {
    until: Instant,
    lacks: Option<String>,
}

impl MissingRights {
    /// Answers a controller's loaded-rules request about the rules in force, the watches that follow them, and the
    /// registers of the interlock, if the webhook has one.
    pub(crate) async fn answer_loaded_rules<P: ApiReader>(
        &self,
        gets: &SharedGets<P>,
        rules: &Rules,
        request: &LoadedRulesRequest,
        replica: &LoadedRule,
    ) -> Vec<u8> {
        match &*rules.snapshot() {
            RulesState::Loaded(Loaded { doubt: Some(doubt), .. }) => {
                request.answer(Err(&doubt.why), &BTreeMap::new(), replica)
            }
            RulesState::Loaded(Loaded { rules, .. }) => {
                request.answer(Ok(rules), &self.lacking(gets, rules, request).await, replica)
            }
            RulesState::NotLoaded { why } => request.answer(Err(why), &BTreeMap::new(), replica),
        }
    }

    /// Returns the rules of a loaded-rules request for which a right is missing, each with this right.
    async fn lacking<P: ApiReader>(
        &self,
        gets: &SharedGets<P>,
        rules: &RuleSet,
        request: &LoadedRulesRequest,
    ) -> BTreeMap<RuleKey, String> {
        let required = rules.required_reads(request.rules());
        let known = self.known(gets, required.values().flatten().collect()).await;
        let missing = |reads: BTreeSet<RequiredRead>| {
            let lacks = reads.iter().filter_map(|read| known.get(read)?.lacks.clone());
            lacks.collect::<Vec<_>>()
        };
        let rules = required.into_iter().map(|(rule, reads)| (rule, missing(reads).join("; ")));
        rules.filter(|(_, lacks)| !lacks.is_empty()).collect()
    }

    /// Tries the reads that are due, and returns all known results.
    async fn known<P: ApiReader>(
        &self,
        gets: &SharedGets<P>,
        reads: BTreeSet<&RequiredRead>,
    ) -> BTreeMap<RequiredRead, ReadResult> {
        let now = Instant::now();
        let is_known = |read: &RequiredRead| self.lock().get(read).is_some_and(|tried| tried.until > now);
        let due: Vec<_> = reads.into_iter().filter(|read| !is_known(read)).cloned().collect();
        let tries = stream::iter(due).map(|read| async move {
            let page = gets.get(&read.query()).await;
            let lacks = read.lacks(answer(page.as_ref()));
            let fresh = if lacks.is_some() { FRESH_LACKING } else { FRESH };
            let until = now.checked_add(fresh).unwrap_or(now);
            (read, ReadResult { until, lacks })
        });
        let end = now.checked_add(PATIENCE).unwrap_or(now);
        let tried: BTreeMap<_, _> = tries.buffer_unordered(MAX_AT_ONCE).take_until(sleep_until(end)).collect().await;
        let mut shared = self.lock();
        shared.retain(|_, tried| tried.until > now);
        shared.extend(tried);
        shared.clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RequiredRead, ReadResult>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
