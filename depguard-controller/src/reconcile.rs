//! One round: from what is mirrored to what is written.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::{LogicalCluster, RuleKey, api};
use depguard_kcp::{Derived, Endpoint, MirrorState, WorkspaceLookups, bundle_expiry};
use futures::StreamExt;
use serde_json::Value;
use tokio::time::Instant;

use crate::checks;
use crate::clients::Clients;
use crate::configuration::{self, Step};
use crate::deference::Deference;
use crate::events;
use crate::install::{Done, endpoint, home, install, write_status};
use crate::manifests::ReadThrough;
use crate::observe;
use crate::plan::{self, Place, PlacePlan, Plan, World};
use crate::prober::{Job, Jobs, Look, Probing};
use crate::retries::Retries;
use crate::rounds::{Basis, in_time};
use crate::sight::Sight;
use crate::status::{self, Found, Outcome, Said};
use crate::written_rule::WrittenRule;

/// Carries out rounds. It remembers nothing of what it installed: only what failed, and when to try that again.
pub(crate) struct Reconciler {
    pub(crate) basis: Basis,
    pub(crate) read_through: ReadThrough,
    pub(crate) lookups: WorkspaceLookups,
    pub(crate) sight: Sight,
    pub(crate) failures: Failures,
    /// What the rules say.
    pub(crate) written: Derived<WrittenRule>,
    pub(crate) probing: Probing,
    /// Where the webhook is asked, instead of where it is installed.
    pub(crate) probe_address: Option<String>,
    /// A folder with the certificate by which the webhook knows the controller.
    pub(crate) identity: Option<PathBuf>,
}

/// What failed, and when to try again.
pub(crate) struct Failures {
    places: Retries<Place>,
    /// What to say meanwhile.
    outcomes: HashMap<Place, Outcome>,
    /// The configurations that are left to a newer version.
    deference: Deference<Place>,
    statuses: Retries<RuleKey>,
}

impl Reconciler {
    /// Does what `state`, which must be loaded, asks for.
    pub(crate) async fn round(&mut self, state: &MirrorState, clients: Clients) {
        let begun = Instant::now();
        self.basis.metrics.ca_expiry(clients.ca_bundle.as_deref().and_then(bundle_expiry));
        let export_name = self.basis.export_name.clone();
        let (home, allowance) = (self.basis.home, self.basis.allowance);
        let rules = state.resource(api::PLURAL).map(Arc::as_ref);
        self.written.refresh(rules, |rule| WrittenRule::of_mirrored(home, allowance, rule));
        let further = rules.into_iter().flat_map(|rules| &rules.further);
        let further = further.map(|about| WrittenRule::of_too_many(home, allowance, about)).collect();
        let mut world = observe::world(home, export_name.as_str(), state, &self.written, further, clients);
        world.read_through = self.read_through;
        let claims = world.claims();
        self.lookups.refresh(&self.basis.connection, &claims).await;
        world.consents = world.consents.looked_up(&self.lookups.found(&claims));
        let looked_up = claims.into_keys().filter_map(|path| {
            let found = self.lookups.get(&path)?.clone();
            Some((path, found))
        });
        world.lookups = looked_up.collect();
        let plan = plan::plan(&world);
        let origins = observe::origins(export_name.as_str(), state);
        let outcomes = self.install(&world, &plan, &origins).await;
        let wanted = plan.rules.iter().flat_map(|rule| checks::keys(&world, rule));
        let wanted = wanted.map(|key| (key.clone(), self.place(&key.place, &origins))).collect();
        let kinds = self.sight.see(wanted).await;
        let jobs = self.jobs(&world, &plan, &outcomes, &origins);
        let found = Found { outcomes, kinds, checks: self.probing.look(jobs).await };
        let now = k8s_openapi::jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let statuses = status::all(&world, &plan, &found, &now);
        self.basis.metrics.rules(statuses.iter().map(|status| &status.object));
        self.report(state, statuses, &now).await;
        let keys: HashSet<_> = plan.rules.iter().map(|rule| &rule.key).collect();
        self.failures.statuses.keep(|key| keys.contains(key));
        self.basis.metrics.ended(begun.elapsed());
    }

    /// When something that failed is to be tried again.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        let Failures { places, statuses, deference, .. } = &self.failures;
        [places.next(), statuses.next(), deference.next(Instant::now())].into_iter().flatten().min()
    }

    /// The configurations that are in order, so that it can be found out whether they are in force.
    fn jobs(
        &self,
        world: &World<'_>,
        plan: &Plan<'_>,
        outcomes: &BTreeMap<Place, Outcome>,
        origins: &BTreeMap<LogicalCluster, Arc<str>>,
    ) -> Jobs {
        let mut rules = plan.rules_by_place();
        let in_force = |place: &Place| outcomes.get(place).is_some_and(Outcome::is_in_force);
        let installed = plan.places.iter().filter(|(place, _)| in_force(place));
        let jobs = installed.filter_map(|(place, what)| {
            let PlacePlan::Do { desired: Some(desired), .. } = what else { return None };
            let job = Job::new(Look {
                desired: desired.clone(),
                endpoint: self.place(place, origins).ok()?,
                rules: rules.remove(place).unwrap_or_default(),
                own_namespace: world.clients.own_namespace.clone(),
                instead: self.probe_address.clone(),
                identity: self.identity.clone(),
            });
            Some((place.clone(), Arc::new(job)))
        });
        jobs.collect()
    }

    async fn install(
        &mut self,
        world: &World<'_>,
        plan: &Plan<'_>,
        origins: &BTreeMap<LogicalCluster, Arc<str>>,
    ) -> BTreeMap<Place, Outcome> {
        let mut outcomes = BTreeMap::new();
        let mut jobs = Vec::new();
        let now = Instant::now();
        for (place, what) in &plan.places {
            let settled = match what {
                PlacePlan::ClaimNotAccepted => Outcome::ClaimNotAccepted,
                PlacePlan::PathUnknown => {
                    Outcome::Pending("its APIBinding does not tell the workspace's path yet".to_owned())
                }
                PlacePlan::Do { step: Step::Nothing, .. } => Outcome::Installed,
                PlacePlan::Do { step: Step::LeaveForeign, .. } => Outcome::Foreign,
                PlacePlan::Do { step: Step::Defer { in_force }, .. }
                    if !self.failures.deference.is_over(place, now) =>
                {
                    Outcome::Newer { in_force: *in_force }
                }
                PlacePlan::Do { desired, .. } => {
                    let input = hash_of(desired.as_ref(), world.configurations.get(place).copied());
                    let due = self.failures.places.is_due(place, input, now);
                    match self.failures.outcomes.get(place).filter(|_| !due) {
                        Some(failed) => failed.clone(),
                        None => {
                            let overruled = self.failures.deference.is_over(place, now);
                            jobs.push((place.clone(), input, desired.clone(), self.place(place, origins), overruled));
                            continue;
                        }
                    }
                }
            };
            self.failures.settle(place, &settled);
            outcomes.insert(place.clone(), settled);
        }
        let jobs = jobs.into_iter().map(|(place, input, desired, endpoint, overruled)| async move {
            let done = match endpoint {
                Ok(endpoint) => install(&endpoint, configuration::NAME, desired.as_ref(), overruled).await,
                Err(why) => Done::with(Outcome::Failed(why)),
            };
            (place, input, desired.is_some(), done)
        });
        let mut jobs = in_time(jobs);
        while let Some((place, input, wanted, Done { outcome, changed })) = jobs.next().await {
            log(&place, wanted, changed, &outcome);
            self.basis.metrics.installed(&outcome, wanted, changed);
            self.failures.tried(&place, input, &outcome);
            outcomes.insert(place, outcome);
        }
        for place in plan.places.keys() {
            let late = || Outcome::Pending("the writes before it took too long; it is next".to_owned());
            outcomes.entry(place.clone()).or_insert_with(late);
        }
        self.failures.keep(|place| plan.places.contains_key(place));
        outcomes
    }

    /// Writes what changed of the rules' statuses, and events that tell of it.
    async fn report(&mut self, state: &MirrorState, statuses: Vec<Said<'_>>, now: &str) {
        let due = statuses.into_iter().filter(|said| said.is_new).filter_map(|Said { rule, object, .. }| {
            let input = hash_of(None, Some(rule.object));
            let due = self.failures.statuses.is_due(&rule.key, input, Instant::now());
            let events = events::of_change(rule.object, &object, now);
            due.then(|| (rule.key.clone(), input, object, events, self.rule(state, &rule.key)))
        });
        let due: Vec<_> = due.collect();
        let jobs = due.into_iter().map(|(key, input, object, events, endpoint)| async move {
            let written = match endpoint {
                Ok(endpoint) => match write_status(&endpoint, &object).await {
                    Ok(()) => {
                        events::write(&endpoint, &events).await;
                        Ok(())
                    }
                    // It changed or went; the mirror will show it.
                    Err(error) => Err((error.is_conflict() || error.is_not_found(), error.to_string())),
                },
                Err(why) => Err((false, why)),
            };
            (key, input, written)
        });
        let mut jobs = in_time(jobs);
        while let Some((key, input, written)) = jobs.next().await {
            match written {
                Ok(()) => {
                    self.basis.metrics.status("written");
                    self.failures.statuses.done(&key);
                }
                Err((expected, why)) => {
                    self.basis.metrics.status(if expected { "outdated" } else { "failed" });
                    if expected {
                        tracing::debug!(rule = %key, "the rule's status is out of date: {why}");
                    } else {
                        tracing::warn!(rule = %key, "could not write the rule's status, trying again: {why}");
                    }
                    self.failures.statuses.failed(key, input, Instant::now());
                }
            }
        }
    }

    /// The API server of a place.
    fn place(&self, place: &Place, origins: &BTreeMap<LogicalCluster, Arc<str>>) -> Result<Endpoint, String> {
        let Some(cluster) = place else { return Ok(home(&self.basis.connection)) };
        let origin = origins.get(cluster).ok_or("no endpoint shows its APIBinding")?;
        endpoint(&self.basis.connection, origin, Some(cluster))
    }

    /// The API server that a rule was read at.
    fn rule(&self, state: &MirrorState, key: &RuleKey) -> Result<Endpoint, String> {
        let rules = state.resource(api::PLURAL).ok_or("rules are not watched")?;
        let found = rules.objects.get(&(key.cluster.clone(), key.name.clone())).ok_or("the rule is gone")?;
        endpoint(&self.basis.connection, &found.origin, key.cluster.as_ref())
    }
}

impl Failures {
    /// Nothing failed yet. What a newer version wrote is left to it for so long.
    pub(crate) fn new(deference: Duration) -> Self {
        Self {
            places: Retries::new(),
            outcomes: HashMap::new(),
            deference: Deference::new(deference),
            statuses: Retries::new(),
        }
    }

    /// Notes what a try came to.
    fn tried(&mut self, place: &Place, input: u64, outcome: &Outcome) {
        match outcome {
            Outcome::Failed(_) | Outcome::Pending(_) => {
                self.places.failed(place.clone(), input, Instant::now());
                self.outcomes.insert(place.clone(), outcome.clone());
            }
            _ => self.settle(place, outcome),
        }
    }

    /// Forgets a failure of a place that is in order, or where nothing can be done.
    fn settle(&mut self, place: &Place, outcome: &Outcome) {
        self.deference.note(place.clone(), outcome, Instant::now());
        if !matches!(outcome, Outcome::Failed(_) | Outcome::Pending(_)) {
            self.places.done(place);
            self.outcomes.remove(place);
        }
    }

    fn keep(&mut self, wanted: impl Fn(&Place) -> bool) {
        self.places.keep(&wanted);
        self.outcomes.retain(|place, _| wanted(place));
        self.deference.keep(&wanted);
    }
}

fn log(place: &Place, wanted: bool, changed: bool, outcome: &Outcome) {
    let place = place.as_ref().map_or("the cluster", LogicalCluster::as_str);
    match outcome {
        Outcome::Installed if !changed => tracing::debug!(place, "the webhook configuration is in order already"),
        Outcome::Installed if wanted => tracing::info!(place, "the webhook configuration is installed"),
        Outcome::Installed => tracing::info!(place, "the webhook configuration is removed: no rule needs it"),
        Outcome::Pending(why) => tracing::info!(place, "the webhook configuration changed meanwhile: {why}"),
        Outcome::Newer { .. } => {
            tracing::info!(place, "the webhook configuration is a newer version's, and left to it for a while");
        }
        Outcome::Failed(why) => tracing::warn!(place, "could not write the webhook configuration: {why}"),
        Outcome::Foreign | Outcome::ClaimNotAccepted => {
            tracing::warn!(place, "the webhook configuration is not depguard's and was left alone");
        }
    }
}

/// What a try was made from: the same again need not be tried before it is due.
fn hash_of(desired: Option<&Value>, existing: Option<&Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    desired.map(ToString::to_string).hash(&mut hasher);
    let version = existing.and_then(|existing| existing.pointer("/metadata/resourceVersion"));
    version.and_then(Value::as_str).hash(&mut hasher);
    hasher.finish()
}
