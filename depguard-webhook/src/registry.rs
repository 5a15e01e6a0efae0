//! Keeps the rules in force as they are written: from watched objects to a set that decides.

use std::sync::Arc;
use std::time::Duration;

use depguard_core::{CompiledRule, Consents, ExportName, Home, KnownRules, RuleSet, Workspaces};
use depguard_kcp::{
    Allowance, BoundWorkspaces, Claims, Connection, Derived, Failure, Mirror, MirrorOptions, MirrorState,
    MirroredObject, Tenant, Watched, WorkspaceLookups,
};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use crate::bound_since::BoundSince;
use crate::rules::{Departed, Doubt, Loaded, Rules};

/// The shortest time between two sets: a thousand rules that come in one by one are not a thousand sets.
const PAUSE: Duration = Duration::from_millis(100);
/// How often it is looked at whether the rules are still followed, as a part of the time that they are believed.
const LOOKS: u32 = 12;

/// Begins to watch what decides.
pub(crate) fn watch(connection: &Connection, home: Home, export_name: ExportName, allowance: Allowance) -> Mirror {
    let watched = match home {
        Home::Kcp => vec![Watched::RULES, Watched::BINDINGS, Watched::EXPORTS],
        Home::Kubernetes => vec![Watched::RULES],
    };
    Mirror::start(connection.clone(), MirrorOptions { home, export_name, watched, allowance }).0
}

/// What is watched, and for how long it is believed though nothing is heard of it.
pub(crate) struct Following {
    pub(crate) mirror: Mirror,
    pub(crate) connection: Connection,
    pub(crate) home: Home,
    pub(crate) export_name: ExportName,
    pub(crate) patience: Duration,
}

/// Puts what is watched in force, until it is dropped; the mirror lives no longer.
pub(crate) async fn run(following: Following, rules: Rules) {
    let Following { mirror, connection, home, export_name, patience } = following;
    let (allowance, compiled) = (mirror.allowance(), Derived::default());
    let (asked, claims) = watch::channel(Claims::new());
    let (told, lookups) = watch::channel(WorkspaceLookups::default());
    let _followed = Followed(rules.clone());
    let bound = BoundSince::default();
    let registry = Registry { home, export_name, allowance, rules, compiled, patience, bound, asked, lookups };
    tokio::select! {
        () = registry.follow(mirror.subscribe()) => {}
        () = look_up(connection, claims, told) => {}
    }
}

/// Rules that nobody follows any more must not decide: whatever ends the following, they are lost with it.
struct Followed(Rules);

impl Drop for Followed {
    fn drop(&mut self) {
        self.0.lose("the rules are not watched any more: restart the webhook");
    }
}

/// Looks into the claims to paths, and does so again from time to time.
async fn look_up(connection: Connection, mut claims: watch::Receiver<Claims>, told: watch::Sender<WorkspaceLookups>) {
    let mut lookups = WorkspaceLookups::default();
    loop {
        let wanted = claims.borrow_and_update().clone();
        lookups.refresh(&connection, &wanted).await;
        told.send_replace(lookups.clone());
        if let Ok(Err(_)) = timeout(WorkspaceLookups::FRESH, claims.changed()).await {
            return;
        }
    }
}

struct Registry {
    home: Home,
    export_name: ExportName,
    allowance: Allowance,
    rules: Rules,
    compiled: Derived<CompiledRule>,
    /// How long rules that can't be followed any more are believed to be what they were.
    patience: Duration,
    bound: BoundSince,
    asked: watch::Sender<Claims>,
    lookups: watch::Receiver<WorkspaceLookups>,
}

impl Registry {
    /// Puts each state in force, until there are no more.
    async fn follow(mut self, mut states: watch::Receiver<Arc<MirrorState>>) {
        let mut known: Option<(Arc<MirrorState>, bool)> = None;
        loop {
            let state = states.borrow_and_update().clone();
            let missing = state.not_loaded().map(str::to_owned);
            let missing = missing.or_else(|| overflown(&state));
            let stale = missing.is_none().then(|| stale(state.unheard(), self.patience)).flatten();
            let doubt = stale.is_some().then(|| self.doubt(&state)).flatten();
            // Consent that nobody follows any more may have been given since.
            let consent = doubt.is_none() && state.is_followed(Watched::EXPORTS.plural, self.patience);
            if let Some(why) = missing.or(stale.filter(|_| doubt.is_none())) {
                say(self.rules.not_loaded().as_ref(), Some(&why));
                self.rules.lose(why);
                known = None;
            } else if !known.as_ref().is_some_and(|known| Arc::ptr_eq(&known.0, &state) && known.1 == consent)
                || self.rules.doubt() != doubt
            {
                say(self.rules.not_loaded().as_ref(), None);
                say_doubt(self.rules.doubt().as_ref(), doubt.as_ref());
                if !self.put_in_force(&state, consent, doubt).await {
                    return;
                }
                known = Some((state, consent));
            }
            sleep(PAUSE).await;
            tokio::select! {
                changed = states.changed() => if changed.is_err() { return },
                Ok(()) = self.lookups.changed() => known = None,
                () = sleep(self.patience / LOOKS) => {}
            }
        }
    }

    /// Why rules that can't be followed any more are to be proved one deletion at a time; `None` where that makes no
    /// sense, since nothing at all is heard of.
    fn doubt(&self, state: &MirrorState) -> Option<String> {
        let is_kcp = self.home == Home::Kcp;
        let is_partly_heard = is_kcp && state.hears(self.patience) && state.own_cluster(&self.export_name).is_some();
        let silent = state.unheard().filter(|_| is_partly_heard)?;
        Some(format!("not all rules can be followed: {}", silent.why))
    }

    /// A path whose claims were not looked into yet counts as unknown: nobody waits for that. Where what providers
    /// consent to is not followed, everybody's rules count.
    ///
    /// Reviews go on to be decided meanwhile, by other threads. `false`: the rules were lost on the way.
    async fn put_in_force(&mut self, state: &Arc<MirrorState>, consent: bool, doubt: Option<String>) -> bool {
        let (compiled, state) = (std::mem::take(&mut self.compiled), Arc::clone(state));
        let (home, allowance, lookups) = (self.home, self.allowance, self.lookups.borrow_and_update().clone());
        let own = state.own_cluster(&self.export_name).map(|cluster| (cluster, self.export_name.clone()));
        let clusters = self.bound.departed(&self.export_name, values(&state, Watched::BINDINGS));
        let departed = own.clone().map(|own| Departed { own, clusters: Arc::new(clusters) });
        let made = spawn_blocking(move || {
            let mut compiled = compiled;
            let mirrored = state.resource(Watched::RULES.plural).map(Arc::as_ref);
            compiled.refresh(mirrored, |rule| compile(home, allowance, rule));
            let further = mirrored.into_iter().flat_map(|mirrored| &mirrored.further);
            let further = further.map(|about| CompiledRule::broken(home, about, &allowance.exceeded(home)));
            let further: Vec<_> = further.collect();
            let rules = RuleSet::new(home, compiled.values().chain(&further));
            let Made { mut rules, workspaces, claims } = Made::of(rules, &state, &lookups, consent);
            if doubt.is_some() {
                // It is not known what has closed a cycle.
                rules = rules.without_cycles();
            }
            let doubt = doubt.zip(own).map(|(why, own)| {
                let known = KnownRules::read(own, values(&state, Watched::RULES));
                Doubt { why, known: Arc::new(known) }
            });
            (compiled, Loaded { rules, workspaces, doubt, departed }, claims)
        });
        let Ok((compiled, loaded, claims)) = made.await else { return false };
        self.compiled = compiled;
        self.rules.put(loaded);
        self.asked.send_if_modified(|asked| {
            let news = *asked != claims;
            if news {
                *asked = claims;
            }
            news
        });
        true
    }
}

/// What is made of a state.
struct Made {
    rules: RuleSet,
    workspaces: Workspaces,
    /// What is to be looked up.
    claims: Claims,
}

impl Made {
    fn of(mut rules: RuleSet, state: &MirrorState, lookups: &WorkspaceLookups, consent: bool) -> Self {
        let mut claims = BoundWorkspaces::read(values(state, Watched::BINDINGS)).claims(rules.workspace_paths());
        let consents = Consents::read(values(state, Watched::EXPORTS), values(state, Watched::BINDINGS));
        let restrict = consent && consents.restrict();
        if restrict {
            let written = state.resource(Watched::RULES.plural).into_iter().flat_map(|rules| rules.objects.keys());
            claims.extend(consents.claims(written.filter_map(|(cluster, _)| cluster.as_ref())));
        }
        let (workspaces, found) = (lookups.confirmed(&claims), lookups.found(&claims));
        if restrict {
            let consents = consents.looked_up(&found);
            rules = rules.retain_accepted(|rule, export| {
                // Only a provider that is known for certain can refuse: one that lies would take protection away.
                match (&rule.cluster, workspaces.cluster(&export.path)) {
                    (Some(own), Some(provider)) => consents.accept(own, provider, &export.name),
                    _ => true,
                }
            });
        }
        Self { rules, workspaces, claims }
    }
}

/// The objects of a watched resource.
fn values(state: &MirrorState, watched: Watched) -> impl Iterator<Item = &Value> {
    state.resource(watched.plural).into_iter().flat_map(|resource| resource.values())
}

fn compile(home: Home, allowance: Allowance, rule: &MirroredObject) -> CompiledRule {
    if rule.shortened {
        CompiledRule::broken(home, &rule.value, &allowance.exceeded(home))
    } else {
        CompiledRule::read(home, &rule.value)
    }
}

/// Why rules can't be relied on of which a plain cluster has so many that they are not even held.
fn overflown(state: &MirrorState) -> Option<String> {
    let rules = state.resource(Watched::RULES.plural)?;
    let why = "there are more rules than --workspace-max-memory allows to be held: delete some, or raise it";
    rules.overflown.contains(&Tenant::Cluster).then(|| why.to_owned())
}

/// Why the state is too old to decide by. A rule may have been written since, and it may forbid what is asked. The text
/// stays the same for as long as the cause does: it is logged whenever it changes.
fn stale(unheard: Option<Failure>, patience: Duration) -> Option<String> {
    let Failure { since, why } = unheard?;
    let silent = Instant::now().into_std().saturating_duration_since(since);
    let patient = patience.as_secs_f32();
    (silent > patience).then(|| format!("the rules could not be followed for more than {patient} s: {why}"))
}

/// Logs what changed between two reasons not to be ready.
fn say(before: Option<&String>, now: Option<&String>) {
    match (before, now) {
        (Some(_), None) => tracing::info!("all rules are loaded"),
        (None, Some(why)) => tracing::warn!("refusing all reviews: {why}"),
        (Some(before), Some(why)) if before != why => tracing::info!("not ready: {why}"),
        _ => {}
    }
}

/// Logs where it begins, and where it ends, that not all rules can be followed.
fn say_doubt(before: Option<&String>, now: Option<&String>) {
    match (before, now) {
        (None, Some(why)) => tracing::warn!("deciding only what can be proved to be decided rightly: {why}"),
        (Some(_), None) => tracing::info!("all rules are followed again"),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
