//! One round about locks: reads the reflectors, writes configurations, tables and statuses.

use std::collections::BTreeSet;
use std::time::Duration;

use depguard_core::api::CLUSTER_ANNOTATION;
use depguard_core::locks::Timestamp;
use depguard_core::{ControlPlane, LogicalCluster};
use depguard_kcp::{Connection, Endpoint, Features, ObjectText, Snapshot};
use futures::StreamExt;
use serde_json::Value;
use tokio::time::Instant;

use crate::locks::export_access::{Access, PlaceAccess};
use crate::locks::lock_kinds::{Kinds, LACKING};
use crate::locks::namespace_retention::NamespaceRetention;
use crate::locks::plan::{LockSnapshot, Plan, PlanInput, named, plan};
use crate::locks::status::{self, RoundOutcomes};
use crate::locks::upkeep::{self, TableUpkeep};
use crate::locks::webhooks::ReviewedResources;
use crate::locks::{snapshot, webhooks};
use crate::model::install_outcome::Outcome;
use crate::model::install_place::InstallPlace;
use crate::model::names::{COMPAT_LOCKS_CONFIGURATION, LOCK_KINDS_CONFIGURATION, LOCKS_CONFIGURATION};
use crate::model::vital_kind::VitalKind;
use crate::model::webhook_configuration::{self, Step};
use crate::runtime::apply::{self, endpoint, own_endpoint};
use crate::runtime::client_config::Clients;
use crate::runtime::deference::Deference;
use crate::runtime::own_writes::OwnWrites;
use crate::runtime::round::{ReconcileContext, in_time};

/// Executor of rounds.
pub(super) struct LockRounds {
    pub(super) context: ReconcileContext,
    pub(super) features: Features,
    pub(super) vital: BTreeSet<VitalKind>,
    pub(super) memory: Memory,
}

/// State that lasts from one round to the next.
pub(super) struct Memory {
    kinds: Kinds,
    keeping: TableUpkeep,
    namespace_retention: NamespaceRetention,
    /// Configurations that are left to a newer version of depguard.
    deference: Deference<(&'static str, InstallPlace)>,
    own_writes: OwnWrites<(&'static str, InstallPlace)>,
    /// depguard's own workspace, in kcp.
    own: Option<LogicalCluster>,
}

/// Result of a round.
#[derive(Debug, Default)]
pub(super) struct RoundResult {
    /// True if something failed and is to be tried again.
    pub(super) failed: bool,
    /// Time until the next look, whether the round failed or not.
    pub(super) again: Option<Duration>,
}

impl Memory {
    /// Returns an empty memory. `clean_after` is the time for which no lock must have asked for an entry before the
    /// entry goes; `deference` is the time for which a configuration is left to a newer version.
    pub(super) fn new(clean_after: Duration, deference: Duration) -> Self {
        let (keeping, deference) = (TableUpkeep::new(clean_after), Deference::new(deference));
        Self {
            kinds: Kinds::default(),
            keeping,
            namespace_retention: NamespaceRetention::default(),
            deference,
            own_writes: OwnWrites::new(),
            own: None,
        }
    }
}

impl LockRounds {
    /// Does what `state` asks for, which must be loaded; `rules` is the reflector of rules.
    pub(super) async fn round(&mut self, state: &Snapshot, rules: &Snapshot, clients: &Clients) -> RoundResult {
        let own = clients.own_namespace.as_deref();
        let mut ended = RoundResult::default();
        if !self.features.compat_lock_kinds.is_empty() {
            let client = clients.beside(&None, webhooks::COMPAT_PATH);
            let desired = webhooks::of_compat_locks(&self.features.compat_lock_kinds, &client, own);
            let known = snapshot::configurations(&[state, rules], COMPAT_LOCKS_CONFIGURATION).remove(&None);
            let own = Ok(own_endpoint(&self.context.connection));
            let outcome = self.install(COMPAT_LOCKS_CONFIGURATION, &None, own, known, Some(&desired)).await;
            ended.failed |= outcome != Outcome::Installed;
        }
        if self.features.locks {
            ended.failed |= !self.install_lock_kinds(state, clients).await;
            self.locks(state, rules, clients, &mut ended).await;
        }
        ended
    }

    async fn locks(&mut self, state: &Snapshot, rules: &Snapshot, clients: &Clients, ended: &mut RoundResult) {
        let mut kinds = std::mem::take(&mut self.memory.kinds);
        let locks = snapshot::locks(state);
        let own_namespace = clients.own_namespace.as_deref();
        let now = k8s_openapi::jiff::Timestamp::now();
        let moment = Timestamp::from_unix_millis(now.as_millisecond());
        let named = named(&locks, own_namespace);
        let vital = self.vital.clone();
        kinds.refresh(&self.context.connection, self.context.control_plane, &named).await;
        let input = PlanInput {
            control_plane: self.context.control_plane,
            now: moment,
            own_namespace,
            vital: &vital,
            locks,
            kinds: &kinds,
        };
        let programmed = input.locks.iter().filter(|seen| seen.is_programmed).count();
        self.context.metrics.locks(programmed, input.locks.len().saturating_sub(programmed));
        let stored = snapshot::tables(state);
        let mut found = RoundOutcomes {
            tables: upkeep::repair(&self.context.connection, &input, &stored).await,
            ..RoundOutcomes::default()
        };
        let mut plan = plan(&input);
        let leaves = self.memory.namespace_retention.keep_in(&mut plan, Instant::now());
        self.install_all(&plan, clients, state, rules, &mut found).await;
        ended.failed |= !found.tables.is_empty() || found.outcomes.values().any(|done| *done != Outcome::Installed);
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        ended.failed |= !report(&self.context.connection, &input, &found, &now).await;
        ended.again = kinds.next_due().map(|due| due.saturating_duration_since(Instant::now()));
        if plan.is_partial {
            // There was no time to ask about some kind, or no answer.
            ended.again = Some(ended.again.map_or(LACKING.first, |again| again.min(LACKING.first)));
        }
        let missing = self.memory.keeping.clean(&self.context.connection, &input, &stored).await;
        for after in missing.into_iter().chain(leaves) {
            ended.again = Some(ended.again.map_or(after, |again| again.min(after)));
        }
        self.memory.kinds = kinds;
    }

    /// Installs the configuration about locks themselves: in kcp where their APIExport is, since bound kinds are
    /// reviewed there.
    async fn install_lock_kinds(&mut self, state: &Snapshot, clients: &Clients) -> bool {
        let own = match self.own_workspace(clients).await {
            Ok(own) => own,
            Err(why) => {
                tracing::warn!("could not install {LOCK_KINDS_CONFIGURATION}, trying again: {why}");
                return false;
            }
        };
        let client = clients.beside(&own, webhooks::PATH);
        let desired = webhooks::of_lock_kinds(&client, clients.own_namespace.as_deref());
        let endpoint = Ok(own_endpoint(&self.context.connection));
        // In kcp nobody watches depguard's own workspace, so there this configuration is read each time.
        let known = snapshot::configurations(&[state], LOCK_KINDS_CONFIGURATION).remove(&None);
        let outcome = self.install(LOCK_KINDS_CONFIGURATION, &own, endpoint, known, Some(&desired)).await;
        outcome == Outcome::Installed
    }

    /// Returns the logical cluster of depguard's own workspace if paths are signed for it; `None` if they are not.
    async fn own_workspace(&mut self, clients: &Clients) -> Result<InstallPlace, String> {
        if self.context.control_plane == ControlPlane::Kubernetes || clients.key.is_none() {
            return Ok(None);
        }
        if self.memory.own.is_none() {
            let slices = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
            let slices =
                own_endpoint(&self.context.connection).list_json(slices).await.map_err(|error| error.to_string())?;
            let annotation = |slice: &Value| {
                let cluster = slice.pointer("/metadata/annotations")?.get(CLUSTER_ANNOTATION)?.as_str()?;
                LogicalCluster::parse(cluster).ok()
            };
            let own = slices.items.iter().find_map(annotation);
            self.memory.own =
                Some(own.ok_or("no APIExportEndpointSlice names the logical cluster of depguard's workspace")?);
        }
        Ok(self.memory.own.clone())
    }

    async fn install_all(
        &mut self,
        plan: &Plan,
        clients: &Clients,
        state: &Snapshot,
        rules: &Snapshot,
        found: &mut RoundOutcomes,
    ) {
        let access = Access::read(self.context.control_plane, self.context.export_name.as_str(), state, rules);
        let there = snapshot::configurations(&[state, rules], LOCKS_CONFIGURATION);
        let places: BTreeSet<InstallPlace> = plan.places.keys().chain(there.keys()).cloned().collect();
        self.memory.own_writes.keep(|(name, place)| *name != LOCKS_CONFIGURATION || places.contains(place));
        for place in places {
            let known = there.get(&place).copied();
            let guarded = plan.places.get(&place);
            let outcome = match access.to(&self.context.connection, &place) {
                PlaceAccess::Unbound => {
                    found.unbound.insert(place);
                    continue;
                }
                PlaceAccess::NotAccepted => Outcome::ClaimNotAccepted,
                PlaceAccess::Unbinding(endpoint) => {
                    self.install(LOCKS_CONFIGURATION, &place, endpoint, known, None).await;
                    Outcome::Pending("the APIBinding there is being deleted".to_owned())
                }
                PlaceAccess::Open(endpoint) => {
                    // Some lock that can't be placed now may ask for this configuration.
                    let may_lack = plan.is_partial && known.is_some();
                    match desired(endpoint.as_ref(), &place, guarded, clients, may_lack).await {
                        Ok(desired) => {
                            self.install(LOCKS_CONFIGURATION, &place, endpoint, known, desired.as_ref()).await
                        }
                        Err(why) => Outcome::Failed(why),
                    }
                }
            };
            if guarded.is_some()
                || !matches!(outcome, Outcome::Installed | Outcome::Foreign | Outcome::ClaimNotAccepted)
            {
                found.outcomes.insert(place, outcome);
            }
        }
    }

    /// Makes the configuration of this name as desired, or removes ours if none is desired. Nothing is read if the `known`
    /// one, which is watched, is as desired.
    async fn install(
        &mut self,
        name: &'static str,
        place: &InstallPlace,
        endpoint: Result<Endpoint, String>,
        known: Option<&ObjectText>,
        desired: Option<&Value>,
    ) -> Outcome {
        let known = known.map(ObjectText::read);
        let known = known.as_ref();
        let key = (name, place.clone());
        let overruled = self.memory.deference.is_over(&key, Instant::now());
        // A lock is in force only by what is installed, and not by what was before the last own write.
        let is_shown = self.memory.own_writes.are_seen(&key, known);
        let is_done = is_shown && known.is_some() && webhook_configuration::step(known, desired) == Step::Nothing;
        let done = match endpoint {
            Ok(_) if is_done => apply::ApplyResult::from_outcome(Outcome::Installed),
            Ok(endpoint) => apply::install(&endpoint, name, desired, overruled).await,
            Err(why) => apply::ApplyResult::from_outcome(Outcome::Failed(why)),
        };
        if !is_done {
            self.memory.own_writes.note(key.clone(), desired, &done.outcome);
        }
        self.memory.deference.note(key, &done.outcome, Instant::now());
        self.context.metrics.installed(&done.outcome, desired.is_some(), done.changed);
        let place = place.as_ref().map_or("the cluster", LogicalCluster::as_str);
        match &done.outcome {
            Outcome::Installed if !done.changed => {}
            Outcome::Installed if desired.is_some() => tracing::info!(place, name, "the configuration is installed"),
            Outcome::Installed => tracing::info!(place, name, "the configuration is removed: no lock needs it"),
            outcome => tracing::warn!(place, name, "the configuration could not be installed: {outcome:?}"),
        }
        done.outcome
    }
}

/// Returns the configuration that a place should have. With `may_lack`, it is no narrower than the existing one.
async fn desired(
    endpoint: Result<&Endpoint, &String>,
    place: &InstallPlace,
    guarded: Option<&ReviewedResources>,
    clients: &Clients,
    may_lack: bool,
) -> Result<Option<Value>, String> {
    let client = clients.beside(place, webhooks::PATH);
    let of = |guarded: &ReviewedResources| guarded.configuration(&client, clients.own_namespace.as_deref());
    if may_lack && let Ok(endpoint) = endpoint {
        let existing = apply::read(endpoint, LOCKS_CONFIGURATION).await.map_err(|error| error.to_string())?;
        if let Some(existing) = existing {
            let narrow = guarded.map_or_else(|| of(&ReviewedResources::default()), of);
            return Ok(Some(webhooks::no_narrower(narrow, &existing)));
        }
    }
    Ok(guarded.map(of))
}

/// Writes the lock statuses that changed. Returns false if some could not be written.
async fn report(connection: &Connection, input: &PlanInput<'_>, found: &RoundOutcomes, now: &str) -> bool {
    let jobs: Vec<_> = input.locks.iter().map(|seen| report_one(connection, input, seen, found, now)).collect();
    let written: Vec<bool> = in_time(jobs).collect().await;
    written.len() == input.locks.len() && written.iter().all(|written| *written)
}

/// Reads the lock only once its turn comes: a tree takes much more memory than a text.
async fn report_one(
    connection: &Connection,
    input: &PlanInput<'_>,
    seen: &LockSnapshot<'_>,
    found: &RoundOutcomes,
    now: &str,
) -> bool {
    let mut object = seen.text.read();
    let status = status::status(input, seen, &object, found, now);
    let Some(fields) = object.as_object_mut().filter(|fields| fields.get("status") != Some(&status)) else {
        return true;
    };
    fields.insert("status".to_owned(), status);
    let path = format!("{}/{}/status", seen.key.kind.path(seen.lock.namespace()), seen.lock.name());
    let why = match endpoint(connection, seen.origin, seen.key.cluster.as_ref()) {
        Ok(endpoint) => match Box::pin(endpoint.put_json(&path, &object)).await {
            // The lock changed or went; the reflector will show this.
            Err(error) if !error.is_conflict() && !error.is_not_found() => error.to_string(),
            Ok(_) | Err(_) => return true,
        },
        Err(why) => why,
    };
    tracing::warn!(lock = %seen.lock, "could not write the lock's status, trying again: {why}");
    false
}
