//! Watcher of rules: turns watched objects into the set of rules in force, and keeps it up to date.

use std::sync::Arc;
use std::time::Duration;

use depguard_core::applicability::RuleGrants;
use depguard_core::freshness::KnownRules;
use depguard_core::rule::CompiledRule;
use depguard_core::{ControlPlane, ExportName, RuleSet, Workspaces};
use depguard_kcp::{
    Allowance, BoundWorkspaces, Claims, Connection, Derived, Failure, Reflector, ReflectorOptions, Snapshot, Tenant,
    Watched, WatchedObject, WorkspaceLookups, latest, send_if_new,
};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use crate::rules::active_rules::{Departed, Doubt, Loaded, Rules};
use crate::rules::bound_since::BoundSince;

/// Minimum time between two sets: a thousand rules that come in one by one are not a thousand sets.
const PAUSE: Duration = Duration::from_millis(100);
/// Number of checks, within the patience, that the rules are still followed.
const LOOKS: u32 = 12;

/// Begins to watch the objects on which decisions rest.
pub(crate) fn watch(
    connection: &Connection,
    control_plane: ControlPlane,
    export_name: ExportName,
    allowance: Allowance,
) -> Reflector {
    // What the controller and kcp say in a status decides nothing.
    let specs = |watched| Watched { fields: Some(&["spec"]), ..watched };
    let exports = Watched { fields: Some(&[]), ..Watched::EXPORTS };
    let watched = match control_plane {
        ControlPlane::Kcp => vec![specs(Watched::RULES), specs(Watched::BINDINGS), exports],
        ControlPlane::Kubernetes => vec![specs(Watched::RULES)],
    };
    Reflector::start(connection.clone(), ReflectorOptions { control_plane, export_name, watched, allowance }).0
}

/// Watched resources, and the time for which they are believed though depguard hears nothing of them.
pub(crate) struct RuleWatch {
    pub(crate) reflector: Reflector,
    pub(crate) connection: Connection,
    pub(crate) control_plane: ControlPlane,
    pub(crate) export_name: ExportName,
    pub(crate) patience: Duration,
}

/// Puts the watched rules in force until it is dropped, and the reflector with it.
pub(crate) async fn run(following: RuleWatch, rules: Rules) {
    let RuleWatch { reflector, connection, control_plane, export_name, patience } = following;
    let (allowance, compiled) = (reflector.allowance(), Derived::default());
    let (asked, claims) = watch::channel(Claims::new());
    let (told, lookups) = watch::channel(WorkspaceLookups::default());
    let _guard = InForceGuard(rules.clone());
    let bound = BoundSince::default();
    let watcher =
        RuleWatcher { control_plane, export_name, allowance, rules, compiled, patience, bound, asked, lookups };
    tokio::select! {
        () = watcher.follow(reflector.subscribe()) => {}
        () = look_up(connection, claims, told) => {}
    }
}

/// Guard that takes the rules out of force when their following ends, for whatever reason: rules that nobody follows
/// must not decide.
struct InForceGuard(Rules);

impl Drop for InForceGuard {
    fn drop(&mut self) {
        self.0.lose("the webhook does not watch the rules any more: restart it");
    }
}

/// Looks up the claims to paths, and does so again from time to time. Wakes the watcher of rules only if an answer says
/// something new, or is too old to say anything.
async fn look_up(connection: Connection, mut claims: watch::Receiver<Claims>, told: watch::Sender<WorkspaceLookups>) {
    let (mut lookups, mut said) = (WorkspaceLookups::default(), None);
    loop {
        let newest = latest(&mut claims);
        lookups.refresh(&connection, &newest).await;
        let found = Some((lookups.found(&newest), newest));
        told.send_if_modified(|told| {
            told.clone_from(&lookups);
            std::mem::replace(&mut said, found.clone()) != found
        });
        if let Ok(Err(_)) = timeout(WorkspaceLookups::FRESH, claims.changed()).await {
            return;
        }
    }
}

struct RuleWatcher {
    control_plane: ControlPlane,
    export_name: ExportName,
    allowance: Allowance,
    rules: Rules,
    compiled: Derived<CompiledRule>,
    /// Time for which rules that can't be followed any more are believed to be unchanged.
    patience: Duration,
    bound: BoundSince,
    asked: watch::Sender<Claims>,
    lookups: watch::Receiver<WorkspaceLookups>,
}

impl RuleWatcher {
    /// Puts each state in force, until there are no more.
    async fn follow(mut self, mut states: watch::Receiver<Arc<Snapshot>>) {
        let mut known: Option<(Arc<Snapshot>, bool)> = None;
        loop {
            let state = latest(&mut states);
            let missing = state.not_loaded().map(str::to_owned);
            let missing = missing.or_else(|| overflown(&state));
            let stale = missing.is_none().then(|| stale(state.stalest(), self.patience)).flatten();
            let doubt = stale.is_some().then(|| self.doubt(&state)).flatten();
            // Rule grants that can't be watched any more may have changed.
            let grants_known = doubt.is_none() && state.is_followed(Watched::EXPORTS.plural, self.patience);
            if let Some(why) = missing.or(stale.filter(|_| doubt.is_none())) {
                say(self.rules.not_loaded().as_ref(), Some(&why));
                self.rules.lose(why);
                known = None;
            } else if !known.as_ref().is_some_and(|known| Arc::ptr_eq(&known.0, &state) && known.1 == grants_known)
                || self.rules.doubt() != doubt
            {
                say(self.rules.not_loaded().as_ref(), None);
                say_doubt(self.rules.doubt().as_ref(), doubt.as_ref());
                if !self.put_in_force(&state, grants_known, doubt).await {
                    return;
                }
                known = Some((state, grants_known));
            }
            sleep(PAUSE).await;
            tokio::select! {
                changed = states.changed() => if changed.is_err() { return },
                Ok(()) = self.lookups.changed() => known = None,
                () = sleep(self.patience / LOOKS) => {}
            }
        }
    }

    /// Returns the reason why rules that can't be followed any more are to be proved one deletion at a time; `None` if
    /// nothing at all is heard, so that a proof makes no sense.
    fn doubt(&self, state: &Snapshot) -> Option<String> {
        let is_kcp = self.control_plane == ControlPlane::Kcp;
        let is_partly_heard = is_kcp && state.hears(self.patience) && state.own_cluster(&self.export_name).is_some();
        let silent = state.stalest().filter(|_| is_partly_heard)?;
        Some(format!("the webhook can't follow all rules: {}", silent.why))
    }

    /// Puts the rules of a state in force. A path whose claims were not looked up yet counts as unknown: nobody waits
    /// for that. If the providers' rule grants are not watched, everybody's rules count.
    ///
    /// Other threads go on deciding reviews meanwhile. Returns false if the rules were lost on the way.
    async fn put_in_force(&mut self, state: &Arc<Snapshot>, grants_known: bool, doubt: Option<String>) -> bool {
        let (compiled, state) = (std::mem::take(&mut self.compiled), Arc::clone(state));
        let (control_plane, allowance, lookups) = (self.control_plane, self.allowance, latest(&mut self.lookups));
        let own = state.own_cluster(&self.export_name).map(|cluster| (cluster, self.export_name.clone()));
        let (export_name, mut bound) = (self.export_name.clone(), std::mem::take(&mut self.bound));
        let made = spawn_blocking(move || {
            let mut compiled = compiled;
            let bindings: Vec<_> = values(&state, Watched::BINDINGS).collect();
            let clusters = bound.departed(&export_name, &bindings);
            let departed = own.clone().map(|own| Departed { own, clusters: Arc::new(clusters) });
            let resource = state.resource(Watched::RULES.plural).map(Arc::as_ref);
            compiled.refresh(resource, |rule| compile(control_plane, allowance, rule));
            let further = resource.into_iter().flat_map(|resource| &resource.further);
            let further =
                further.map(|about| CompiledRule::broken(control_plane, about, &allowance.exceeded(control_plane)));
            let further: Vec<_> = further.collect();
            let rules = RuleSet::new(control_plane, compiled.values().chain(&further));
            let LoadedSet { mut rules, workspaces, claims } =
                LoadedSet::new(rules, &state, &bindings, &lookups, grants_known);
            if doubt.is_some() {
                // Nobody knows which new rule has closed a cycle.
                rules = rules.without_cycles();
            }
            let doubt = doubt.zip(own).map(|(why, own)| {
                let known = KnownRules::read(own, values(&state, Watched::RULES));
                Doubt { why, known: Arc::new(known) }
            });
            (compiled, bound, Loaded { rules, workspaces, doubt, departed }, claims)
        });
        let Ok((compiled, bound, loaded, claims)) = made.await else { return false };
        (self.compiled, self.bound) = (compiled, bound);
        self.rules.put(loaded);
        send_if_new(&self.asked, claims);
        true
    }
}

/// Rules and look-ups made from a state.
struct LoadedSet {
    rules: RuleSet,
    workspaces: Workspaces,
    /// Paths to look up.
    claims: Claims,
}

impl LoadedSet {
    fn new(
        mut rules: RuleSet,
        state: &Snapshot,
        bindings: &[Value],
        lookups: &WorkspaceLookups,
        grants_known: bool,
    ) -> Self {
        let mut claims = BoundWorkspaces::read(bindings).claims(rules.workspace_paths());
        let rule_grants = RuleGrants::read(&values(state, Watched::EXPORTS).collect::<Vec<_>>(), bindings);
        let restrict = grants_known && rule_grants.are_restricted();
        if restrict {
            let written = state.resource(Watched::RULES.plural).into_iter().flat_map(|rules| rules.objects.keys());
            claims.extend(rule_grants.claims(written.filter_map(|(cluster, _)| cluster.as_ref())));
        }
        let (workspaces, found) = (lookups.confirmed(&claims), lookups.found(&claims));
        if restrict {
            let rule_grants = rule_grants.looked_up(&found);
            rules = rules.retain_accepted(|rule, export| {
                // Only a provider that is known for certain can refuse a rule: a workspace with a false path would take
                // protection away.
                match (&rule.cluster, workspaces.cluster(&export.path)) {
                    (Some(own), Some(provider)) => rule_grants.grants(own, provider, &export.name),
                    _ => true,
                }
            });
        }
        Self { rules, workspaces, claims }
    }
}

/// Returns the objects of a watched resource.
fn values(state: &Snapshot, watched: Watched) -> impl Iterator<Item = Value> {
    state.resource(watched.plural).into_iter().flat_map(|resource| resource.values())
}

fn compile(control_plane: ControlPlane, allowance: Allowance, rule: &WatchedObject) -> CompiledRule {
    if rule.shortened {
        CompiledRule::broken(control_plane, &rule.text.read(), &allowance.exceeded(control_plane))
    } else {
        CompiledRule::read(control_plane, &rule.text.read())
    }
}

/// Returns the reason why rules can't be relied on if a plain cluster has so many that they are not even held.
fn overflown(state: &Snapshot) -> Option<String> {
    let rules = state.resource(Watched::RULES.plural)?;
    let why = "the rules need more memory than --workspace-max-memory allows: delete some, or raise the flag";
    rules.overflown.contains(&Tenant::Cluster).then(|| why.to_owned())
}

/// Returns the reason why the state is too old to decide by: a newer rule may forbid the deletion. The text stays the
/// same for as long as the cause does, as it is logged whenever it changes.
fn stale(stalest: Option<Failure>, patience: Duration) -> Option<String> {
    let Failure { since, why } = stalest?;
    let silent = Instant::now().into_std().saturating_duration_since(since);
    let patient = patience.as_secs_f32();
    (silent > patience).then(|| format!("the webhook could not follow the rules for more than {patient} s: {why}"))
}

/// Logs a change between two reasons not to be ready.
fn say(before: Option<&String>, now: Option<&String>) {
    match (before, now) {
        (Some(_), None) => tracing::info!("all rules are loaded"),
        (None, Some(why)) => tracing::warn!("refusing all reviews: {why}"),
        (Some(before), Some(why)) if before != why => tracing::info!("not ready: {why}"),
        _ => {}
    }
}

/// Logs the beginning and the end of a time in which not all rules can be followed.
fn say_doubt(before: Option<&String>, now: Option<&String>) {
    match (before, now) {
        (None, Some(why)) => tracing::warn!("deciding only by rules that are proved current: {why}"),
        (Some(_), None) => tracing::info!("following all rules again"),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
