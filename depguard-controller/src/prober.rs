//! Finds out, again and again, whether what is installed is in force: a task beside the rounds, so that a webhook that
//! does not answer holds no write up.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::canary;
use depguard_kcp::Endpoint;
use futures::StreamExt;
use futures::stream;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::asking::{self, Address};
use crate::check::{CONFIGURATION_CHANGED, Check, Checks, DISPATCH_UNKNOWN, NOT_ASKED, NOT_DISPATCHED};
use crate::configuration;
use crate::findings::Finding;
use crate::install;
use crate::plan::{Place, Rules};

/// Places that are looked at once.
const AT_ONCE: usize = 16;
/// How long all of them may take. What is left is looked at first the next time.
const PATIENCE: Duration = Duration::from_secs(45);
/// How long one request to an API server may take.
const REQUEST: Duration = Duration::from_secs(10);
/// How long a webhook may take to load a rule, and an API server a configuration, before it is told on the rule.
const SETTLING: Duration = Duration::from_millis(1500);
/// The pauses between two looks while something is not well.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// A configuration to look at.
#[derive(Debug)]
pub(crate) struct Job {
    what: Look,
    /// Another one for other content.
    number: u64,
}

/// What is looked at, and how.
#[derive(Debug)]
pub(crate) struct Look {
    /// What is to be there.
    pub(crate) desired: Value,
    /// The API server that has it.
    pub(crate) endpoint: Endpoint,
    /// The rules that it is for.
    pub(crate) rules: Rules,
    /// Where the canary is.
    pub(crate) own_namespace: Option<String>,
    /// Where the webhook is connected to instead of where the configuration says.
    pub(crate) instead: Option<String>,
    /// A folder with the certificate by which the webhook knows the controller.
    pub(crate) identity: Option<PathBuf>,
}

/// What is to be looked at.
pub(crate) type Jobs = BTreeMap<Place, Arc<Job>>;

/// The task's end of both channels.
pub(crate) struct Prober {
    jobs: watch::Receiver<Jobs>,
    checks: watch::Sender<Checks>,
    /// After how long all is looked at again though all is well.
    pause: Duration,
}

/// The rounds' end of both channels.
pub(crate) struct Probing {
    jobs: watch::Sender<Jobs>,
    checks: watch::Receiver<Checks>,
}

/// Both ends.
pub(crate) fn prober(pause: Duration) -> (Prober, Probing) {
    let (jobs, to_do) = watch::channel(Jobs::new());
    let (done, checks) = watch::channel(Checks::new());
    (Prober { jobs: to_do, checks: done, pause }, Probing { jobs, checks })
}

impl Probing {
    /// Has these places looked at from now on, and gives what is known of them: what is new is waited for, a while.
    pub(crate) async fn look(&mut self, jobs: Jobs) -> Checks {
        self.jobs.send_if_modified(|known| {
            let number = |(place, job): (&Place, &Arc<Job>)| (place.clone(), job.number);
            let news = known.iter().map(number).ne(jobs.iter().map(number));
            if news {
                known.clone_from(&jobs);
            }
            news
        });
        let is_known = |checks: &Checks| {
            jobs.iter().all(|(place, job)| checks.get(place).is_some_and(|check| check.of == job.number))
        };
        // Whatever is not known after that is said to be so.
        _ = timeout(SETTLING + Duration::from_millis(500), self.checks.wait_for(|checks| is_known(checks))).await;
        let mut checks = self.checks.borrow_and_update().clone();
        checks.retain(|place, check| jobs.get(place).is_some_and(|job| job.number == check.of));
        checks
    }

    /// Has nothing looked at any more.
    pub(crate) fn rest(&mut self) {
        self.jobs.send_if_modified(|jobs| !std::mem::take(jobs).is_empty());
    }

    /// Waits until something else is found.
    pub(crate) async fn news(&mut self) {
        if self.checks.changed().await.is_err() {
            // The task is gone, and so is the controller, soon.
            std::future::pending::<()>().await;
        }
    }
}

impl Prober {
    /// Looks until nobody wants to know any more.
    pub(crate) async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        let mut changed = Instant::now();
        loop {
            let jobs = self.jobs.borrow_and_update().clone();
            let found = look_at(&jobs).await;
            let well = jobs.iter().all(|(place, job)| found.get(place).is_some_and(|check| job.is_well(check)));
            if well || changed.elapsed() >= SETTLING || found.values().all(|check| !check.may_settle()) {
                self.checks.send_if_modified(|known| {
                    let news = *known != found;
                    *known = found;
                    news
                });
            }
            let next = if well { self.pause } else { pause.min(self.pause) };
            tokio::select! {
                more = self.jobs.changed() => {
                    if more.is_err() {
                        return;
                    }
                    (pause, changed) = (FIRST_PAUSE, Instant::now());
                }
                () = sleep(next) => pause = if well { FIRST_PAUSE } else { next * 2 },
            }
        }
    }
}

impl Job {
    pub(crate) fn new(what: Look) -> Self {
        let mut hasher = DefaultHasher::new();
        (what.desired.to_string(), what.endpoint.url(), &what.rules, &what.own_namespace).hash(&mut hasher);
        Self { what, number: hasher.finish() }
    }

    fn is_well(&self, check: &Check) -> bool {
        let mut rules = self.what.rules.iter();
        rules.all(|(key, (policy, generation))| check.of_rule(key, *policy, *generation).is_none())
    }

    async fn look(&self) -> Check {
        Check { of: self.number, ..self.what.carry_out().await }
    }
}

async fn look_at(jobs: &Jobs) -> Checks {
    let looks: Vec<_> = jobs.iter().map(|(place, job)| (place.clone(), Arc::clone(job))).collect();
    let looks = stream::iter(looks).map(|(place, job)| async move { (place, job.look().await) });
    let mut looks = Box::pin(looks.buffer_unordered(AT_ONCE).take_until(sleep(PATIENCE)));
    let mut checks = Checks::new();
    while let Some((place, check)) = looks.next().await {
        checks.insert(place, Arc::new(check));
    }
    for (place, job) in jobs {
        checks.entry(place.clone()).or_insert_with(|| {
            let why = "there was no time left to ask the webhook: it answers slowly";
            Arc::new(Check { of: job.number, ..nothing(Finding::unknown(NOT_ASKED, why)) })
        });
    }
    checks
}

impl Look {
    async fn carry_out(&self) -> Check {
        let endpoint = self.endpoint.within(REQUEST);
        let changed = match install::read(&endpoint, configuration::NAME).await {
            Ok(Some(found)) if configuration::is_in_force(&found, &self.desired) => None,
            Ok(Some(_)) => Some("the webhook configuration was changed by somebody else, and is being put right"),
            Ok(None) => Some("the webhook configuration is gone, and is being put back"),
            Err(why) => {
                let why = format!("the webhook configuration could not be read back: {why}");
                return nothing(Finding::unknown(NOT_ASKED, why));
            }
        };
        if let Some(why) = changed {
            return nothing(Finding::no(CONFIGURATION_CHANGED, why));
        }
        let mut loaded = BTreeMap::new();
        for webhook in self.desired.get("webhooks").and_then(Value::as_array).into_iter().flatten() {
            let Some(policy) = configuration::policy_of(webhook) else { continue };
            let rules: Vec<_> = self.rules.iter().filter(|(_, (of, _))| *of == policy).map(|(key, _)| key).collect();
            let answer = match Address::of(webhook, self.instead.as_deref()) {
                Some(address) => asking::ask(&address, self.identity.as_deref(), &rules).await,
                None => Err(Finding::unknown(NOT_ASKED, "it can't be told where the webhook is")),
            };
            loaded.insert(policy, answer);
        }
        let answered = loaded.values().all(Result::is_ok);
        let dispatch = match self.own_namespace.as_ref().filter(|_| answered) {
            Some(namespace) => try_canary(&endpoint, namespace).await.err(),
            None => None,
        };
        Check { loaded, dispatch, ..Check::default() }
    }
}

/// Nothing but what is wrong with the configuration.
fn nothing(problem: Finding) -> Check {
    Check { problem: Some(problem), ..Check::default() }
}

/// Whether the API server asks the webhook: a deletion that it always refuses must be refused.
async fn try_canary(endpoint: &Endpoint, namespace: &str) -> Result<(), Finding> {
    let name = canary::NAME;
    let unknown = |why: String| {
        let why = format!("whether the API server asks the webhook could not be tried: {why}");
        Err(Finding::unknown(DISPATCH_UNKNOWN, why))
    };
    match endpoint.delete_dry_run(&format!("/api/v1/namespaces/{namespace}/configmaps/{name}")).await {
        Ok(_) => Err(Finding::no(
            NOT_DISPATCHED,
            format!(
                "the API server did not ask the webhook about ConfigMap {namespace}/{name}: see whether it reaches the \
                 webhook, and whether the ConfigMap has its label {}",
                canary::LABEL
            ),
        )),
        Err(error) if error.to_string().contains(canary::MESSAGE) => Ok(()),
        Err(error) if error.is_not_found() => unknown(format!(
            "there is no ConfigMap {name} in namespace {namespace}: create it as `depguard-controller manifests --home \
             kubernetes` prints it"
        )),
        Err(error) => unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
