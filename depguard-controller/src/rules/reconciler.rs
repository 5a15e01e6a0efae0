//! One round about rules: from the watched objects to the writes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::interlock::Buckets;
use depguard_core::rule::RuleKey;
use depguard_core::{ControlPlane, LogicalCluster, api};
use depguard_kcp::{Endpoint, PathKey, PathPeriod, ReadThrough, Snapshot, WorkspaceLookups, bundle_expiry, latest};
use futures::StreamExt;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::interlock::InterlockState;
use crate::model::configuration_key::{ConfigurationKey, Side};
use crate::model::install_outcome::Outcome;
use crate::model::install_place::InstallPlace;
use crate::model::reference_count::{ReferenceCount, ReferenceCounts};
use crate::model::webhook_configuration::{Step, is_in_force, names_generation};
use crate::probe::job::{Job, Jobs, Probe};
use crate::probe::prober::ProbeHandle;
use crate::rules::generation_change::GenerationChange;
use crate::rules::interlocked::InterlockView;
use crate::rules::named_kinds::NamedKinds;
use crate::rules::plan::{self, ConfigurationPlan, Plan, PlanInput, RulePlan};
use crate::rules::status::{RoundOutcomes, RuleStatus, SettledRules};
use crate::rules::written_rule::WrittenRules;
use crate::rules::{named_kinds, snapshot};
use crate::runtime::apply::{ApplyResult, endpoint, install, own_endpoint, write_status};
use crate::runtime::backoff::Retries;
use crate::runtime::client_config::Clients;
use crate::runtime::deference::Deference;
use crate::runtime::events;
use crate::runtime::own_writes::OwnWrites;
use crate::runtime::round::{ReconcileContext, in_time};
use crate::schema::kind_reader::{KindCache, Kinds};

/// Executor of rounds. It remembers nothing of what it installed: only failures, and when to try again.
pub(crate) struct Reconciler {
    pub(crate) context: ReconcileContext,
    pub(crate) read_through: ReadThrough,
    pub(crate) lookups: WorkspaceLookups,
    pub(crate) kinds: KindCache,
    pub(crate) failures: Failures,
    pub(crate) written: WrittenRules,
    pub(crate) settled: SettledRules,
    pub(crate) probe_handle: ProbeHandle,
    /// Counts of the references whose targets don't exist.
    pub(crate) counts: watch::Receiver<Arc<ReferenceCounts>>,
    /// State of the interlock; `None`: it is off.
    pub(crate) interlock: Option<InterlockState>,
    pub(crate) change: GenerationChange,
    /// Time at which the next rule may be reported as interlocked.
    pub(crate) promise_due: Option<Instant>,
    /// Length of the period in which one key signs paths with the registers' generation.
    pub(crate) path_period: Duration,
    /// Time at which that key ends.
    pub(crate) renewal: Option<Instant>,
    /// Address at which the webhook is probed, instead of the installed one.
    pub(crate) probe_address: Option<String>,
    /// Folder with the certificate by which the webhook recognizes the controller.
    pub(crate) identity: Option<PathBuf>,
}

/// Failures, and when to try again.
pub(crate) struct Failures {
    installs: Retries<ConfigurationKey>,
    /// Outcomes to report until then.
    outcomes: HashMap<ConfigurationKey, Outcome>,
    /// Configurations that are left to a newer version.
    deference: Deference<ConfigurationKey>,
    own_writes: OwnWrites<ConfigurationKey>,
    statuses: Retries<RuleKey>,
}

impl Reconciler {
    /// Carries out one round for `state`, which must be loaded: looks up, plans, installs, probes, writes statuses.
    pub(crate) async fn round(&mut self, state: &Snapshot, mut clients: Clients) {
        let begun = Instant::now();
        let period = PathPeriod::now(self.path_period);
        let buckets = self.interlock.as_mut().map(|state| latest(&mut state.buckets));
        clients.generation = buckets.and_then(Buckets::generation);
        clients.generation_key = buckets.and_then(|buckets| PathKey::of_period(buckets, period.number));
        self.renewal = clients.generation_key.is_some().then(|| begun + period.left);
        self.context.metrics.ca_expiry(clients.ca_bundle.as_deref().and_then(bundle_expiry));
        let export_name = self.context.export_name.clone();
        let export_name = export_name.as_str();
        let (control_plane, read_through) = (self.context.control_plane, self.read_through);
        let (mut input, origins) =
            snapshot::plan_input(control_plane, read_through, export_name, state, &self.written, clients);
        let claims = input.claims();
        self.lookups.refresh(&self.context.connection, &claims).await;
        input.add_lookups(&claims, &self.lookups);
        let plan = plan::plan(&input);
        let own = own_endpoint(&self.context.connection);
        let prepared = self.change.prepare(&input, &plan, self.interlock.as_ref(), &own).await;
        if prepared.is_ok()
            && let Some(interlock) = &mut self.interlock
        {
            interlock.looked().await;
        }
        let outcomes = self.install_configurations(&input, &plan, &origins, prepared).await;
        let needed = plan.rules.iter().flat_map(|rule| named_kinds::kind_keys(&input, rule));
        let needed = needed.map(|key| (key.clone(), self.endpoint_of_place(&key.place, &origins))).collect();
        let counts = latest(&mut self.counts);
        let is_unserved = |rule: &&RulePlan| counts.get(&rule.key).is_some_and(ReferenceCount::lacks_a_kind);
        let unserved = plan.rules.iter().filter(is_unserved).flat_map(|rule| named_kinds::kind_keys(&input, rule));
        let kinds = self.kinds.refresh(&needed, unserved.collect()).await;
        let jobs = self.jobs(&input, &plan, &outcomes, &kinds, &origins);
        let (probe_results, outstanding) = self.probe_handle.probe(jobs).await;
        let interlock = self.interlock.as_mut().map(InterlockView::now);
        let found = RoundOutcomes { outcomes, kinds, probe_results, outstanding, counts, interlock };
        let now = k8s_openapi::jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let statuses = self.settled.new_statuses(&input, &plan, &found, &now);
        self.promise_due = found.interlock.as_ref().and_then(InterlockView::due);
        self.context.metrics.rules(statuses.iter().map(|said| (said.rule.key.name.as_str(), &said.figures)));
        self.write_statuses(state, statuses, &now).await;
        self.context.metrics.ended(begun.elapsed());
    }

    /// Returns the time at which a failure is to be tried again.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        let Failures { installs, statuses, deference, .. } = &self.failures;
        let failures = [installs.next(), statuses.next(), deference.next(Instant::now())];
        let lookups = self.lookups.next_due();
        let due = [self.kinds.next_retry(), self.promise_due, self.renewal, self.change.retry(), lookups];
        failures.into_iter().chain(due).flatten().min()
    }

    /// Stops what only a controller that may write does. Another one that `takes_over` may change the generation of
    /// registers meanwhile.
    pub(crate) fn stand_by(&mut self, takes_over: bool) {
        self.probe_handle.stop(takes_over);
        if let Some(state) = self.interlock.as_ref().filter(|_| takes_over) {
            state.begun.send_replace(None);
        }
    }

    /// Returns true if the registers' key is not known yet, which the configurations need.
    pub(crate) fn lacks_key(&mut self) -> bool {
        self.interlock.as_mut().is_some_and(|state| latest(&mut state.buckets).generation().is_none())
    }

    /// Returns jobs for the configurations that are in order: the prober checks whether they are in force.
    fn jobs(
        &self,
        input: &PlanInput<'_>,
        plan: &Plan,
        outcomes: &BTreeMap<ConfigurationKey, Outcome>,
        kinds: &Kinds,
        origins: &BTreeMap<LogicalCluster, Arc<str>>,
    ) -> Jobs {
        // In kcp no aggregated API server serves a kind that can be looked at.
        let rules = plan.rules.iter().filter(|_| input.control_plane == ControlPlane::Kubernetes);
        let usable = rules.filter_map(|rule| Some((rule, rule.rule().ok()?)));
        let canaries = usable.flat_map(|(rule, parsed)| NamedKinds::new(input, kinds, rule, parsed).canaries());
        let canaries: BTreeMap<_, _> = canaries.collect();
        let mut rules = plan.rules_by_configuration();
        let in_force = |key: &ConfigurationKey| outcomes.get(key).is_some_and(Outcome::is_in_force);
        // Nothing rests on the reviews of rules, so nobody probes these.
        let installed = plan.configurations.iter().filter(|(key, _)| key.side != Side::Rules && in_force(key));
        let jobs = installed.filter_map(|(key, what)| {
            let ConfigurationPlan::Do { desired: Some(desired), step } = what else { return None };
            let job = Job::new(Probe {
                side: key.side,
                desired: desired.clone(),
                was_found: *step == Step::Nothing,
                endpoint: self.endpoint_of_place(&key.place, origins).ok()?,
                rules: rules.remove(key).unwrap_or_default(),
                // Only deletions have a canary.
                own_namespace: input.clients.own_namespace.clone().filter(|_| key.side == Side::Targets),
                canaries: if key.side == Side::Targets { canaries.clone() } else { BTreeMap::new() },
                instead: self.probe_address.clone(),
                identity: self.identity.clone(),
            });
            Some((key.clone(), Arc::new(job)))
        });
        jobs.collect()
    }

    async fn install_configurations(
        &mut self,
        input: &PlanInput<'_>,
        plan: &Plan,
        origins: &BTreeMap<LogicalCluster, Arc<str>>,
        prepared: Result<(), String>,
    ) -> BTreeMap<ConfigurationKey, Outcome> {
        let mut outcomes = BTreeMap::new();
        let mut jobs = Vec::new();
        let now = Instant::now();
        for (key, what) in &plan.configurations {
            let existing = input.configurations.get(key);
            let known = match (what, &prepared) {
                (ConfigurationPlan::Do { desired: Some(_), .. }, Err(why))
                    if existing.is_some_and(|existing| !names_generation(existing, input.clients.generation)) =>
                {
                    // What failed before is tried at once when this is over, and not meanwhile.
                    self.failures.installs.done(key);
                    self.failures.outcomes.remove(key);
                    outcomes.insert(key.clone(), Outcome::Pending(why.clone()));
                    continue;
                }
                (what, _) => what,
            };
            let known = match known {
                ConfigurationPlan::ClaimNotAccepted => Outcome::ClaimNotAccepted,
                ConfigurationPlan::PathUnknown => {
                    Outcome::Pending("the APIBinding there does not show the workspace's path yet".to_owned())
                }
                ConfigurationPlan::Do { step: Step::Nothing, .. }
                    if self.failures.own_writes.are_seen(key, existing) =>
                {
                    Outcome::Installed
                }
                ConfigurationPlan::Do { step: Step::LeaveForeign, .. } => Outcome::Foreign,
                ConfigurationPlan::Do { step: Step::Defer { in_force }, .. }
                    if !self.failures.deference.is_over(key, now) =>
                {
                    Outcome::Newer { in_force: *in_force }
                }
                ConfigurationPlan::Do { desired, .. } => {
                    let attempt_hash = hash_of(desired.as_ref(), existing);
                    let due = self.failures.installs.is_due(key, attempt_hash, now);
                    match self.failures.outcomes.get(key).filter(|_| !due) {
                        Some(failed) => failed.clone(),
                        None => {
                            let overruled = self.failures.deference.is_over(key, now);
                            let endpoint = self.endpoint_of_place(&key.place, origins);
                            jobs.push((key.clone(), attempt_hash, desired.clone(), endpoint, overruled));
                            continue;
                        }
                    }
                }
            };
            self.failures.forget(key, &known);
            outcomes.insert(key.clone(), known);
        }
        let jobs = jobs.into_iter().map(|(key, attempt_hash, desired, endpoint, overruled)| async move {
            let done = match endpoint {
                Ok(endpoint) => install(&endpoint, key.side.configuration(), desired.as_ref(), overruled).await,
                Err(why) => ApplyResult::from_outcome(Outcome::Failed(why)),
            };
            (key, attempt_hash, desired, done)
        });
        let mut jobs = in_time(jobs);
        while let Some((key, attempt_hash, desired, ApplyResult { outcome, changed })) = jobs.next().await {
            log(&key, desired.is_some(), changed, &outcome);
            self.context.metrics.installed(&outcome, desired.is_some(), changed);
            self.failures.own_writes.note(key.clone(), desired.as_ref(), &outcome);
            self.failures.tried(&key, attempt_hash, &outcome);
            outcomes.insert(key, outcome);
        }
        for key in plan.configurations.keys() {
            let late = || {
                Outcome::Pending(
                    "earlier writes took all the time of this round; this write follows in the next one".to_owned(),
                )
            };
            outcomes.entry(key.clone()).or_insert_with(late);
        }
        self.failures.keep(|key| plan.configurations.contains_key(key));
        for (key, outcome) in &mut outcomes {
            let what = (plan.configurations.get(key), input.configurations.get(key));
            // While a signature is renewed, the one before is good for another period.
            if matches!(outcome, Outcome::Pending(_))
                && let (Some(ConfigurationPlan::Do { desired: Some(desired), .. }), Some(existing)) = what
                && is_in_force(existing, desired)
            {
                *outcome = Outcome::Installed;
            }
        }
        outcomes
    }

    /// Writes the rules' statuses that changed, and events about the changes.
    async fn write_statuses(&mut self, state: &Snapshot, statuses: Vec<RuleStatus<'_>>, now: &str) {
        // A status that was written after all, as the watch shows a moment later, is not to be tried again.
        let new: HashSet<_> = statuses.iter().filter(|said| said.change.is_some()).map(|said| &said.rule.key).collect();
        self.failures.statuses.keep(|key| new.contains(key));
        let due = statuses.into_iter().filter_map(|RuleStatus { rule, change, .. }| {
            let (before, object) = change?;
            let attempt_hash = hash_of(None, Some(&before));
            let due = self.failures.statuses.is_due(&rule.key, attempt_hash, Instant::now());
            let events = events::of_change(&before, &object, now);
            due.then(|| (rule.key.clone(), attempt_hash, object, events, self.endpoint_of_rule(state, &rule.key)))
        });
        let due: Vec<_> = due.collect();
        let jobs = due.into_iter().map(|(key, attempt_hash, object, events, endpoint)| async move {
            let written = match endpoint {
                Ok(endpoint) => match write_status(&endpoint, &object).await {
                    Ok(()) => {
                        events::write(&endpoint, &events).await;
                        Ok(())
                    }
                    // The rule changed or went; the reflector will show this.
                    Err(error) => Err((error.is_conflict() || error.is_not_found(), error.to_string())),
                },
                Err(why) => Err((false, why)),
            };
            (key, attempt_hash, written)
        });
        let mut jobs = in_time(jobs);
        while let Some((key, attempt_hash, written)) = jobs.next().await {
            match written {
                Ok(()) => {
                    self.context.metrics.status("written");
                    self.failures.statuses.done(&key);
                }
                Err((expected, why)) => {
                    self.context.metrics.status(if expected { "outdated" } else { "failed" });
                    if expected {
                        tracing::debug!(rule = %key, "the rule's status is out of date: {why}");
                    } else {
                        tracing::warn!(rule = %key, "could not write the rule's status, trying again: {why}");
                    }
                    self.failures.statuses.failed(key, attempt_hash, Instant::now());
                }
            }
        }
    }

    /// Returns the endpoint of a place's API server.
    fn endpoint_of_place(
        &self,
        place: &InstallPlace,
        origins: &BTreeMap<LogicalCluster, Arc<str>>,
    ) -> Result<Endpoint, String> {
        let Some(cluster) = place else { return Ok(own_endpoint(&self.context.connection)) };
        let origin = origins.get(cluster).ok_or("no endpoint of depguard's APIExport shows the APIBinding there")?;
        endpoint(&self.context.connection, origin, Some(cluster))
    }

    /// Returns the endpoint of the API server at which a rule was read.
    fn endpoint_of_rule(&self, state: &Snapshot, key: &RuleKey) -> Result<Endpoint, String> {
        let rules = state.resource(api::PLURAL).ok_or("rules are not watched")?;
        let found = rules.objects.get(&(key.cluster.clone(), key.name.clone())).ok_or("the rule is gone")?;
        endpoint(&self.context.connection, &found.origin, key.cluster.as_ref())
    }
}

impl Failures {
    /// Returns an empty record. `deference` is the time for which a configuration is left to a newer version.
    pub(crate) fn new(deference: Duration) -> Self {
        Self {
            installs: Retries::new(),
            outcomes: HashMap::new(),
            deference: Deference::new(deference),
            own_writes: OwnWrites::new(),
            statuses: Retries::new(),
        }
    }

    /// Notes the outcome of an attempt.
    fn tried(&mut self, key: &ConfigurationKey, attempt_hash: u64, outcome: &Outcome) {
        match outcome {
            Outcome::Failed(_) | Outcome::Pending(_) => {
                self.installs.failed(key.clone(), attempt_hash, Instant::now());
                self.outcomes.insert(key.clone(), outcome.clone());
            }
            _ => self.forget(key, outcome),
        }
    }

    /// Forgets the failure of a configuration that is in order, or in which nothing can be done.
    fn forget(&mut self, key: &ConfigurationKey, outcome: &Outcome) {
        self.deference.note(key.clone(), outcome, Instant::now());
        if !matches!(outcome, Outcome::Failed(_) | Outcome::Pending(_)) {
            self.installs.done(key);
            self.outcomes.remove(key);
        }
    }

    fn keep(&mut self, is_needed: impl Fn(&ConfigurationKey) -> bool) {
        self.installs.keep(&is_needed);
        self.outcomes.retain(|key, _| is_needed(key));
        self.deference.keep(&is_needed);
        self.own_writes.keep(&is_needed);
    }
}

fn log(key: &ConfigurationKey, is_desired: bool, changed: bool, outcome: &Outcome) {
    let (name, place) = (key.side.configuration(), key.place.as_ref().map_or("the cluster", LogicalCluster::as_str));
    match outcome {
        Outcome::Installed if !changed => tracing::debug!(name, place, "the webhook configuration is up to date"),
        Outcome::Installed if is_desired => tracing::info!(name, place, "the webhook configuration is installed"),
        Outcome::Installed => tracing::info!(name, place, "the webhook configuration is removed: no rule needs it"),
        Outcome::Pending(why) => tracing::info!(name, place, "the webhook configuration changed meanwhile: {why}"),
        Outcome::Newer { .. } => {
            tracing::info!(
                name,
                place,
                "a newer version of depguard wrote the webhook configuration, which stays for a while"
            );
        }
        Outcome::Failed(why) => tracing::warn!(name, place, "could not write the webhook configuration: {why}"),
        Outcome::Foreign => {
            tracing::warn!(name, place, "the webhook configuration is not depguard's and was left alone");
        }
        Outcome::ClaimNotAccepted => {
            tracing::warn!(name, place, "the workspace has not accepted the claim on webhook configurations");
        }
    }
}

/// Hashes the input of an attempt: the same input need not be tried again before it is due.
fn hash_of(desired: Option<&Value>, existing: Option<&Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    desired.map(ToString::to_string).hash(&mut hasher);
    let version = existing.and_then(|existing| existing.pointer("/metadata/resourceVersion"));
    version.and_then(Value::as_str).hash(&mut hasher);
    hasher.finish()
}
