//! Checks whether the installed configurations are in force, again and again. The prober is a task beside the rounds,
//! so that a webhook without an answer holds no write up.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::probe::{LoadedRule, dispatch_canary};
use depguard_core::rule::RuleKey;
use depguard_kcp::{Endpoint, latest, send_if_new};
use futures::{StreamExt, stream};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::model::condition::Finding;
use crate::model::configuration_key::{ConfigurationKey, Side};
use crate::model::webhook_configuration;
use crate::probe::result::{
    CONFIGURATION_CHANGED, DISPATCH_UNKNOWN, ExpectedRules, NOT_ASKED, NOT_DISPATCHED, ProbeResult, ProbeResults,
    is_silence,
};
use crate::probe::webhook_probe::{self, Address};
use crate::runtime::apply;
use crate::runtime::round::MAX_SILENCE;

/// Maximum number of configurations that are probed together.
const MAX_CONCURRENT_PROBES: usize = 16;
/// Time limit for all configurations. The rest counts as not asked.
const PATIENCE: Duration = Duration::from_secs(45);
/// Time limit of one request to an API server.
const REQUEST: Duration = Duration::from_secs(10);
/// Time that a webhook may take to load a rule, and an API server to take up a configuration, before the rule's status
/// reports a problem.
const SETTLING: Duration = Duration::from_millis(1500);
/// First pause between two probes while something is not well; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Probe to run, and the mark by which its result is recognized.
#[derive(Debug)]
pub(crate) struct Job {
    probe: Probe,
    /// Hash of the probe: another probe has another hash. A probe by which only signatures are renewed has the same, so
    /// that what is known stays known.
    hash: u64,
}

/// Probe of a configuration: the desired configuration, and the way to check it.
#[derive(Debug)]
pub(crate) struct Probe {
    /// Side that the configuration has reviewed.
    pub(crate) side: Side,
    /// Configuration that should be installed.
    pub(crate) desired: Value,
    /// API server on which it is installed.
    pub(crate) endpoint: Endpoint,
    /// Rules that the configuration is for.
    pub(crate) rules: ExpectedRules,
    /// Namespace of the canary.
    pub(crate) own_namespace: Option<String>,
    /// Address to connect to instead of the configuration's.
    pub(crate) instead: Option<String>,
    /// Folder with the certificate by which the webhook recognizes the controller.
    pub(crate) identity: Option<PathBuf>,
}

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

/// Probes to run, by configuration.
pub(crate) type Jobs = BTreeMap<ConfigurationKey, Arc<Job>>;

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
}

/// Makes the prober, and the handle by which the rounds use it.
pub(crate) fn prober(pause: Duration) -> (Prober, ProbeHandle) {
    let (work, to_do) = watch::channel(Work::default());
    let (done, results) = watch::channel(ProbeResults::new());
    (Prober { work: to_do, results: done, pause }, ProbeHandle { work, results })
}

impl ProbeHandle {
    /// Has these configurations probed from now on, and returns what is known of them. Waits a while for the results of new
    /// probes.
    pub(crate) async fn probe(&mut self, jobs: Jobs) -> ProbeResults {
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
        // A configuration without a result after that is reported as such.
        _ = timeout(SETTLING + Duration::from_millis(500), self.results.wait_for(|results| is_known(results))).await;
        let mut results = latest(&mut self.results);
        results.retain(|key, result| jobs.get(key).is_some_and(|job| job.hash == result.job_hash));
        results
    }

    /// Stops all probes. Another controller `takes_over`, or nobody knows for a while who may write.
    pub(crate) fn stop(&mut self, takes_over: bool) {
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

impl Job {
    pub(crate) fn new(probe: Probe) -> Self {
        let mut hasher = DefaultHasher::new();
        let desired = webhook_configuration::without_signatures(&probe.desired).to_string();
        (desired, probe.endpoint.url(), &probe.rules, &probe.own_namespace).hash(&mut hasher);
        Self { probe, hash: hasher.finish() }
    }

    /// Returns true if both probe the same configuration, with the same signatures.
    fn is_same(&self, other: &Self) -> bool {
        self.hash == other.hash && self.probe.desired == other.probe.desired
    }

    fn is_well(&self, result: &ProbeResult) -> bool {
        self.probe.rules.iter().all(|(key, expected)| result.of_rule(key, expected).is_none())
    }
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
        results.entry(key.clone()).or_insert_with(|| {
            let why = "the webhook answers slowly, so there was no time left to ask it about this rule";
            let problem = Finding::unknown(NOT_ASKED, why);
            Arc::new(ProbeResult { job_hash: job.hash, ..ProbeResult::of_problem(problem) })
        });
    }
    results
}

impl Probe {
    async fn run(&self) -> ProbeResult {
        let endpoint = self.endpoint.within(REQUEST);
        let changed = match apply::read(&endpoint, self.side.configuration()).await {
            Ok(Some(found)) if webhook_configuration::is_in_force(&found, &self.desired) => None,
            Ok(Some(_)) => Some("somebody changed the webhook configuration; depguard is restoring it"),
            Ok(None) => Some("the webhook configuration is gone; depguard is installing it again"),
            Err(why) => {
                let why = format!("could not read the webhook configuration back: {why}");
                return ProbeResult::of_problem(Finding::unknown(NOT_ASKED, why));
            }
        };
        if let Some(why) = changed {
            return ProbeResult::of_problem(Finding::no(CONFIGURATION_CHANGED, why));
        }
        let mut loaded = BTreeMap::new();
        for webhook in self.desired.get("webhooks").and_then(Value::as_array).into_iter().flatten() {
            let Some(policy) = webhook_configuration::policy_of(webhook) else { continue };
            // All webhooks of a policy have the same address.
            if loaded.contains_key(&policy) {
                continue;
            }
            let rules = self.rules.iter().filter(|(_, rule)| rule.policy == policy);
            let rules: Vec<_> = rules.map(|(key, _)| key).collect();
            let answer = match Address::from_webhook(webhook, self.instead.as_deref()) {
                Some(address) => webhook_probe::ask(&address, self.identity.as_deref(), &rules).await,
                None => {
                    Err(Finding::unknown(NOT_ASKED, "the webhook configuration has no usable address of the webhook"))
                }
            };
            loaded.insert(policy, answer);
        }
        let answered = loaded.values().all(Result::is_ok);
        let dispatch = match self.own_namespace.as_ref().filter(|_| answered) {
            Some(namespace) => try_canary(&endpoint, namespace).await.err(),
            None => None,
        };
        ProbeResult { loaded, dispatch, ..ProbeResult::default() }
    }
}

/// Tries whether the API server asks the webhook: the webhook always refuses this deletion, so it must be refused.
async fn try_canary(endpoint: &Endpoint, namespace: &str) -> Result<(), Finding> {
    let name = dispatch_canary::NAME;
    let unknown = |why: String| {
        let why = format!("could not test whether the API server calls the webhook: {why}");
        Err(Finding::unknown(DISPATCH_UNKNOWN, why))
    };
    match endpoint.delete_dry_run(&format!("/api/v1/namespaces/{namespace}/configmaps/{name}")).await {
        Ok(_) => Err(Finding::no(
            NOT_DISPATCHED,
            format!(
                "the API server did not call the webhook about ConfigMap {namespace}/{name}: check that it reaches \
                 the webhook, and that the ConfigMap has the label {}",
                dispatch_canary::LABEL
            ),
        )),
        Err(error) if error.to_string().contains(dispatch_canary::MESSAGE) => Ok(()),
        Err(error) if error.is_not_found() => unknown(format!(
            "namespace {namespace} has no ConfigMap {name}: create it as `depguard-controller manifests \
             --control-plane kubernetes` prints it"
        )),
        Err(error) => unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
