//! Configurations whose probes have no result for the moment. What a status said of them stays for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use depguard_core::rule::RuleKey;
use tokio::time::Instant;

use crate::model::configuration_key::ConfigurationKey;
use crate::probe::job::Jobs;
use crate::probe::result::ProbeResults;

/// Time without a result after which nothing is said to be in force any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// Configurations whose probes are outstanding, each with the rules that the last result did not find in force.
pub(crate) type Outstanding = BTreeMap<ConfigurationKey, BTreeSet<RuleKey>>;

/// Record of the configurations that were probed.
#[derive(Debug, Default)]
pub(crate) struct LastResults(BTreeMap<ConfigurationKey, LastResult>);

#[derive(Debug)]
struct LastResult {
    /// Hash of the configuration to which the result belongs; `None`: there is no result yet, and the configuration was not
    /// found as it should be.
    configuration: Option<u64>,
    /// Rules that were not found in force.
    not_in_force: BTreeSet<RuleKey>,
    /// Time since which there is no result.
    missing_since: Option<Instant>,
}

impl LastResults {
    /// Takes what is known at this time. Returns the configurations whose probes are outstanding for less than a minute,
    /// and that are as they were when they were probed last, or when this controller first saw them.
    pub(crate) fn take(&mut self, jobs: &Jobs, results: &ProbeResults, now: Instant) -> Outstanding {
        self.0.retain(|key, _| jobs.contains_key(key));
        let mut outstanding = Outstanding::new();
        for (key, job) in jobs {
            if let Some(result) = results.get(key).filter(|result| !result.is_outstanding()) {
                let configuration = Some(job.configuration);
                let not_in_force = job.not_in_force(result).cloned().collect();
                self.0.insert(key.clone(), LastResult { configuration, not_in_force, missing_since: None });
                continue;
            }
            let known = self.0.entry(key.clone()).or_insert_with(|| LastResult {
                configuration: job.probe.was_found.then(|| job.configuration),
                not_in_force: BTreeSet::new(),
                missing_since: None,
            });
            let missing_since = *known.missing_since.get_or_insert(now);
            if known.configuration == Some(job.configuration) && now - missing_since < PATIENCE {
                outstanding.insert(key.clone(), known.not_in_force.clone());
            }
        }
        outstanding
    }

    /// Begins the minute anew of whatever has no result: nothing was said meanwhile.
    pub(crate) fn resume(&mut self) {
        self.0.values_mut().for_each(|last| last.missing_since = None);
    }

    /// Forgets all results: another controller may write meanwhile.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
