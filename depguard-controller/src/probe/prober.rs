//! Checks whether the installed configurations are in force, again and again. The prober is a task beside the rounds,
//! so that a webhook without an answer holds no write up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::probe::LoadedRule;
use depguard_core::rule::RuleKey;
use depguard_kcp::{latest, send_if_new};
use futures::{StreamExt, stream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::model::configuration_key::ConfigurationKey;
use crate::probe::job::{Job, Jobs};
use crate::probe::outstanding::{LastResults, Outstanding};
use crate::probe::result::{ExpectedRules, ProbeResult, ProbeResults, is_silence};
use crate::runtime::round::MAX_SILENCE;

/// Maximum number of configurations that are probed together.
const MAX_CONCURRENT_PROBES: usize = 16;
/// Time limit for all configurations. The probes of the rest stay outstanding.
const PATIENCE: Duration = Duration::from_secs(45);
/// Time that a webhook may take to load a rule, and an API server to take up a configuration, before the rule's status
/// reports a problem.
const SETTLING: Duration = Duration::from_millis(1500);
/// First pause between two probes while something is not well; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Series of probes without a break, by configuration, each with the rules that the last probe expected.
type Series = BTreeMap<ConfigurationKey, (ExpectedRules, BTreeMap<RuleKey, Sighting>)>;

/// Rule in a series of probes.
#[derive(Debug, Clone)]
struct Sighting {
    /// The rule as the replicas of the webhook have loaded it.
    loaded: Vec<LoadedRule>,
    since: Instant,
    /// Time of the last probe that was answered.
    last: Instant,
}

/// Work of the prober.
#[derive(Debug, Clone, Default)]
struct Work {
    jobs: Jobs,
    /// Number of times that another controller took the work over: what was found before is worth nothing then.
    handovers: usize,
}

/// Task that runs the probes.
pub(crate) struct Prober {
    work: watch::Receiver<Work>,
    results: watch::Sender<ProbeResults>,
    /// Pause between two probes while all is well.
    pause: Duration,
}

/// Handle by which the rounds use the prober.
pub(crate) struct ProbeHandle {
    work: watch::Sender<Work>,
    results: watch::Receiver<ProbeResults>,
    last: LastResults,
}

/// Makes the prober, and the handle by which the rounds use it.
pub(crate) fn prober(pause: Duration) -> (Prober, ProbeHandle) {
    let (work, to_do) = watch::channel(Work::default());
    let (done, results) = watch::channel(ProbeResults::new());
    (Prober { work: to_do, results: done, pause }, ProbeHandle { work, results, last: LastResults::default() })
}

impl ProbeHandle {
    /// Has these configurations probed from now on, and returns what is known of them. Waits a while for the results of new
    /// probes, and tells which are outstanding.
    pub(crate) async fn probe(&mut self, jobs: Jobs) -> (ProbeResults, Outstanding) {
        self.work.send_if_modified(|Work { jobs: known, .. }| {
            let is_same =
                |((key, job), (known, before)): ((_, &Arc<Job>), (_, &Arc<Job>))| key == known && job.is_same(before);
            let news = known.len() != jobs.len() || !jobs.iter().zip(known.iter()).all(is_same);
            if news {
                known.clone_from(&jobs);
            }
            news
        });
        let is_known = |results: &ProbeResults| {
            jobs.iter().all(|(key, job)| results.get(key).is_some_and(|result| result.job_hash == job.hash))
        };
        _ = timeout(SETTLING + Duration::from_millis(500), self.results.wait_for(|results| is_known(results))).await;
        let mut results = latest(&mut self.results);
        results.retain(|key, result| jobs.get(key).is_some_and(|job| job.hash == result.job_hash));
        let outstanding = self.last.take(&jobs, &results, Instant::now());
        (results, outstanding)
    }

    /// Stops all probes. Another controller `takes_over`, or nobody knows for a while who may write.
    pub(crate) fn stop(&mut self, takes_over: bool) {
        if takes_over {
            self.last.clear();
        } else {
            self.last.resume();
        }
        self.work.send_if_modified(|Work { jobs, handovers }| {
            *handovers = handovers.wrapping_add(usize::from(takes_over));
            takes_over || !std::mem::take(jobs).is_empty()
        });
    }

    /// Waits until a probe finds something new.
    pub(crate) async fn changed(&mut self) {
        if self.results.changed().await.is_err() {
            // The task is gone, and soon the controller is, too.
            std::future::pending::<()>().await;
        }
    }
}

impl Prober {
    /// Probes until the handle is dropped: what changed and what is not well at once, all after a pause.
    pub(crate) async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        let (mut changed, mut all_due) = (Instant::now(), Instant::now());
        let (mut steady, mut known_handovers) = (Series::new(), 0);
        let (mut probed, mut results) = (Jobs::new(), ProbeResults::new());
        loop {
            let Work { jobs, handovers } = latest(&mut self.work);
            if std::mem::replace(&mut known_handovers, handovers) != handovers {
                steady.clear();
                all_due = Instant::now();
            }
            let all = Instant::now() >= all_due;
            let due = if all { jobs.clone() } else { due(&jobs, &probed, &results) };
            let mut found = probe_all(&due).await;
            // Each probe counts, also one whose result is not passed on.
            steady = self::steady(&due, &mut found, &steady, Instant::now());
            if all {
                all_due = Instant::now() + self.pause;
            }
            results.retain(|key, _| jobs.contains_key(key));
            results.extend(found);
            let well = jobs.iter().all(|(key, job)| results.get(key).is_some_and(|result| job.is_well(result)));
            if well || changed.elapsed() >= SETTLING || results.values().all(|result| !result.may_settle()) {
                send_if_new(&self.results, results.clone());
            }
            probed = jobs;
            let next = if well { all_due } else { all_due.min(Instant::now() + pause) };
            tokio::select! {
                more = self.work.changed() => {
                    if more.is_err() {
                        return;
                    }
                    (pause, changed) = (FIRST_PAUSE, Instant::now());
                }
                () = sleep_until(next) => pause = if well { FIRST_PAUSE } else { (pause * 2).min(self.pause) },
            }
        }
    }
}

/// Returns the jobs that are not as they were when they were `probed`, or whose results are not well.
fn due(jobs: &Jobs, probed: &Jobs, results: &ProbeResults) -> Jobs {
    let is_known = |(key, job): &(&ConfigurationKey, &Arc<Job>)| {
        probed.get(*key).is_some_and(|known| known.is_same(job))
            && results.get(*key).is_some_and(|result| job.is_well(result))
    };
    let due = jobs.iter().filter(|job| !is_known(job));
    due.map(|(key, job)| (key.clone(), Arc::clone(job))).collect()
}

/// Notes in the results since when each rule has been found in force, in one version and by the same registers, without
/// a probe that found anything else. That nobody answered for a short time is nothing else. `before` is what the probes
/// before have noted.
fn steady(jobs: &Jobs, found: &mut ProbeResults, before: &Series, now: Instant) -> Series {
    let is_fresh = |sighting: &&Sighting| now.saturating_duration_since(sighting.last) < MAX_SILENCE;
    let mut series = before.clone();
    series.retain(|key, (_, sightings)| !found.contains_key(key) && sightings.values().any(|known| is_fresh(&known)));
    for (key, result) in found {
        let Some(job) = jobs.get(key) else { continue };
        let mut sightings = BTreeMap::new();
        for (rule, expected) in &job.probe.rules {
            let same = before.get(key).filter(|(known, _)| known.get(rule) == Some(expected));
            let known = same.and_then(|(_, sightings)| sightings.get(rule)).filter(is_fresh);
            let sighting = match (result.of_rule(rule, expected), known) {
                (None, known) => {
                    let loaded = result.loaded(rule, expected.policy);
                    let since = known.filter(|known| known.loaded == loaded).map_or(now, |known| known.since);
                    Sighting { loaded, since, last: now }
                }
                (Some(problem), Some(known)) if is_silence(&problem) => known.clone(),
                (Some(_), _) => continue,
            };
            sightings.insert(rule.clone(), sighting);
        }
        let steady = sightings.iter().map(|(rule, known)| (rule.clone(), (known.loaded.clone(), known.since)));
        *result = Arc::new(ProbeResult { steady: steady.collect(), ..ProbeResult::clone(result) });
        series.insert(key.clone(), (job.probe.rules.clone(), sightings));
    }
    series
}

/// Runs all probes.
async fn probe_all(jobs: &Jobs) -> ProbeResults {
    let probes: Vec<_> = jobs.iter().map(|(key, job)| (key.clone(), Arc::clone(job))).collect();
    let probes = stream::iter(probes)
        .map(|(key, job)| async move { (key, ProbeResult { job_hash: job.hash, ..job.probe.run().await }) });
    let mut probes = Box::pin(probes.buffer_unordered(MAX_CONCURRENT_PROBES).take_until(sleep(PATIENCE)));
    let mut results = ProbeResults::new();
    while let Some((key, result)) = probes.next().await {
        results.insert(key, Arc::new(result));
    }
    for (key, job) in jobs {
        let outstanding = || Arc::new(ProbeResult { job_hash: job.hash, ..ProbeResult::default() });
        results.entry(key.clone()).or_insert_with(outstanding);
    }
    results
}

#[cfg(test)]
mod tests;
