//! One round: from what is mirrored to what is written.

use std::collections::BTreeSet;
use std::time::Duration;

use depguard_core::api::CLUSTER_ANNOTATION;
use depguard_core::locks::Moment;
use depguard_core::{Home, LogicalCluster};
use depguard_kcp::{Connection, Endpoint, Features, MirrorState};
use futures::StreamExt;
use serde_json::Value;
use tokio::time::Instant;

use super::access::{Access, Way};
use super::kinds::{Kinds, LACKING};
use super::plan::{Plan, World, named, plan};
use super::status::{self, Found};
use super::upkeep::{self, Keeping};
use super::webhooks::Guarded;
use super::world;
use super::{COMPAT_CONFIGURATION, CONFIGURATION, KINDS_CONFIGURATION, VitalKind, webhooks};
use crate::clients::Clients;
use crate::deference::Deference;
use crate::install::{self, endpoint, home};
use crate::plan::Place;
use crate::rounds::{Basis, in_time};
use crate::status::Outcome;

/// Carries out rounds.
pub(super) struct Rounds {
    pub(super) basis: Basis,
    pub(super) features: Features,
    pub(super) vital: BTreeSet<VitalKind>,
    pub(super) memory: Memory,
}

/// What is remembered from one round to the next.
pub(super) struct Memory {
    kinds: Kinds,
    keeping: Keeping,
    /// The configurations that are left to a newer version.
    deference: Deference<(&'static str, Place)>,
    /// depguard's own workspace, in home kcp.
    own: Option<LogicalCluster>,
}

/// How a round went.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Something is to be tried again.
    pub(super) failed: bool,
    /// When to look again, however it went.
    pub(super) again: Option<Duration>,
}

impl Memory {
    /// Of which nothing is known yet. For `clean_after` a lock must have been missed before its entry goes; for `deference`
    /// a newer version's configuration is left to it.
    pub(super) fn new(clean_after: Duration, deference: Duration) -> Self {
        let (keeping, deference) = (Keeping::new(clean_after), Deference::new(deference));
        Self { kinds: Kinds::default(), keeping, deference, own: None }
    }
}

impl Rounds {
    /// Does what `state`, which must be loaded, asks for; `rules` is what is mirrored for rules.
    pub(super) async fn round(&mut self, state: &MirrorState, rules: &MirrorState, clients: &Clients) -> Ended {
        let own = clients.own_namespace.as_deref();
        let mut ended = Ended::default();
        if !self.features.compat_lock_kinds.is_empty() {
            let client = clients.beside(&None, webhooks::COMPAT_PATH);
            let desired = webhooks::of_compat_locks(&self.features.compat_lock_kinds, &client, own);
            let outcome =
                self.install(COMPAT_CONFIGURATION, &None, Ok(home(&self.basis.connection)), Some(&desired)).await;
            ended.failed |= outcome != Outcome::Installed;
        }
        if self.features.locks {
            ended.failed |= !self.install_lock_kinds(clients).await;
            self.locks(state, rules, clients, &mut ended).await;
        }
        ended
    }

    async fn locks(&mut self, state: &MirrorState, rules: &MirrorState, clients: &Clients, ended: &mut Ended) {
        let mut kinds = std::mem::take(&mut self.memory.kinds);
        let locks = world::locks(state);
        let own_namespace = clients.own_namespace.as_deref();
        let now = k8s_openapi::jiff::Timestamp::now();
        let moment = Moment::from_unix_millis(now.as_millisecond());
        let named = named(&locks, own_namespace);
        let vital = self.vital.clone();
        kinds.refresh(&self.basis.connection, self.basis.home, &named).await;
        let world = World { home: self.basis.home, now: moment, own_namespace, vital: &vital, locks, kinds: &kinds };
        let programmed = world.locks.iter().filter(|seen| status::is_programmed(seen)).count();
        self.basis.metrics.locks(programmed, world.locks.len().saturating_sub(programmed));
        let stored = world::tables(state);
        let mut found =
            Found { tables: upkeep::repair(&self.basis.connection, &world, &stored).await, ..Found::default() };
        let plan = plan(&world);
        self.install_all(&plan, clients, state, rules, &mut found).await;
        ended.failed |= !found.tables.is_empty() || found.outcomes.values().any(|done| *done != Outcome::Installed);
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        ended.failed |= !report(&self.basis.connection, &world, &found, &now).await;
        let lacks = |(cluster, kind): &(_, _)| kinds.serves(cluster, kind, None) != Ok(true);
        if plan.is_partial || named.iter().any(lacks) {
            ended.again = Some(LACKING);
        }
        let missing = self.memory.keeping.clean(&self.basis.connection, &world, &stored).await;
        if let Some(after) = missing {
            ended.again = Some(ended.again.map_or(after, |again| again.min(after)));
        }
        self.memory.kinds = kinds;
    }

    /// The configuration about locks themselves: in home kcp where their APIExport is, as what is bound is reviewed there.
    async fn install_lock_kinds(&mut self, clients: &Clients) -> bool {
        let own = match self.own_workspace(clients).await {
            Ok(own) => own,
            Err(why) => {
                tracing::warn!("could not install {KINDS_CONFIGURATION}, trying again: {why}");
                return false;
            }
        };
        let client = clients.beside(&own, webhooks::PATH);
        let desired = webhooks::of_lock_kinds(&client, clients.own_namespace.as_deref());
        let endpoint = Ok(home(&self.basis.connection));
        self.install(KINDS_CONFIGURATION, &own, endpoint, Some(&desired)).await == Outcome::Installed
    }

    /// The logical cluster of depguard's own workspace, where paths are signed for it.
    async fn own_workspace(&mut self, clients: &Clients) -> Result<Place, String> {
        if self.basis.home == Home::Kubernetes || clients.key.is_none() {
            return Ok(None);
        }
        if self.memory.own.is_none() {
            let slices = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
            let slices = home(&self.basis.connection).list_json(slices).await.map_err(|error| error.to_string())?;
            let annotation = |slice: &Value| {
                let cluster = slice.pointer("/metadata/annotations")?.get(CLUSTER_ANNOTATION)?.as_str()?;
                LogicalCluster::parse(cluster).ok()
            };
            let own = slices.items.iter().find_map(annotation);
            self.memory.own = Some(own.ok_or("no APIExportEndpointSlice tells depguard's own logical cluster")?);
        }
        Ok(self.memory.own.clone())
    }

    async fn install_all(
        &mut self,
        plan: &Plan,
        clients: &Clients,
        state: &MirrorState,
        rules: &MirrorState,
        found: &mut Found,
    ) {
        let access = Access::read(self.basis.home, self.basis.export_name.as_str(), state, rules);
        let mut there = world::places(state, CONFIGURATION);
        there.extend(world::places(rules, CONFIGURATION));
        let places: BTreeSet<Place> = plan.places.keys().chain(&there).cloned().collect();
        for place in places {
            let guarded = plan.places.get(&place);
            let outcome = match access.to(&self.basis.connection, &place) {
                Way::Unbound => {
                    found.unbound.insert(place);
                    continue;
                }
                Way::NotAccepted => Outcome::ClaimNotAccepted,
                Way::Unbinding(endpoint) => {
                    self.install(CONFIGURATION, &place, endpoint, None).await;
                    Outcome::Pending("its APIBinding is being deleted".to_owned())
                }
                Way::Open(endpoint) => {
                    // Something may be asked of it that can't be seen now.
                    let may_lack = plan.is_partial && there.contains(&place);
                    match desired(endpoint.as_ref(), &place, guarded, clients, may_lack).await {
                        Ok(desired) => self.install(CONFIGURATION, &place, endpoint, desired.as_ref()).await,
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

    /// Makes the configuration of this name as desired, or sees that there is none of ours.
    async fn install(
        &mut self,
        name: &'static str,
        place: &Place,
        endpoint: Result<Endpoint, String>,
        desired: Option<&Value>,
    ) -> Outcome {
        let key = (name, place.clone());
        let overruled = self.memory.deference.is_over(&key, Instant::now());
        let done = match endpoint {
            Ok(endpoint) => install::install(&endpoint, name, desired, overruled).await,
            Err(why) => install::Done::with(Outcome::Failed(why)),
        };
        self.memory.deference.note(key, &done.outcome, Instant::now());
        self.basis.metrics.installed(&done.outcome, desired.is_some(), done.changed);
        let place = place.as_ref().map_or("the cluster", LogicalCluster::as_str);
        match &done.outcome {
            Outcome::Installed if !done.changed => {}
            Outcome::Installed if desired.is_some() => tracing::info!(place, name, "the configuration is installed"),
            Outcome::Installed => tracing::info!(place, name, "the configuration is removed: no lock needs it"),
            outcome => tracing::warn!(place, name, "the configuration is not in order: {outcome:?}"),
        }
        done.outcome
    }
}

/// The configuration of a place. Where that `may_lack` something, it is no narrower than what is there.
async fn desired(
    endpoint: Result<&Endpoint, &String>,
    place: &Place,
    guarded: Option<&Guarded>,
    clients: &Clients,
    may_lack: bool,
) -> Result<Option<Value>, String> {
    let client = clients.beside(place, webhooks::PATH);
    let of = |guarded: &Guarded| guarded.configuration(&client, clients.own_namespace.as_deref());
    if may_lack && let Ok(endpoint) = endpoint {
        let existing = install::read(endpoint, CONFIGURATION).await.map_err(|error| error.to_string())?;
        if let Some(existing) = existing {
            let narrow = guarded.map_or_else(|| of(&Guarded::default()), of);
            return Ok(Some(webhooks::no_narrower(narrow, &existing)));
        }
    }
    Ok(guarded.map(of))
}

/// Writes what changed of the locks' statuses. `false`: something could not be written.
async fn report(connection: &Connection, world: &World<'_>, found: &Found, now: &str) -> bool {
    let due = world.locks.iter().filter_map(|seen| {
        let status = status::status(world, seen, found, now);
        if seen.object.get("status") == Some(&status) {
            return None;
        }
        let mut object = seen.object.clone();
        object.as_object_mut()?.insert("status".to_owned(), status);
        Some((seen, object))
    });
    let jobs = due.map(|(seen, object)| async move {
        let path = format!("{}/{}/status", seen.key.kind.path(seen.lock.namespace()), seen.lock.name());
        let written = match endpoint(connection, seen.origin, seen.key.cluster.as_ref()) {
            Ok(endpoint) => endpoint.put_json(&path, &object).await.map_err(|error| {
                // It changed or went; the mirror will show it.
                (error.is_conflict() || error.is_not_found(), error.to_string())
            }),
            Err(why) => Err((false, why)),
        };
        match written {
            Err((false, why)) => {
                tracing::warn!(lock = %seen.lock, "could not write the lock's status, trying again: {why}");
                false
            }
            Ok(_) | Err((true, _)) => true,
        }
    });
    let jobs: Vec<_> = jobs.collect();
    let all = jobs.len();
    let written: Vec<bool> = in_time(jobs).collect().await;
    written.len() == all && written.iter().all(|written| *written)
}
