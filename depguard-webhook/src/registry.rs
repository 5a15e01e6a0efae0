//! Keeps the rules in force as they are written: from watched objects to a set that decides.

use std::sync::Arc;
use std::time::Duration;

use depguard_core::{Consents, ExportName, Home, RuleSet};
use depguard_kcp::{
    BoundWorkspaces, Claims, Connection, Failure, Mirror, MirrorOptions, MirrorState, Watched, WorkspaceLookups,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::rules::Rules;

/// The shortest time between two sets: a thousand rules that come in one by one are not a thousand sets.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest that rules which can't be followed any more are believed to be what they were.
const MOST_STALE: Duration = Duration::from_secs(60);
/// How often that is looked at where nothing changes, as a part of that time.
const LOOKS: u32 = 12;

/// Begins to watch what decides.
pub(crate) fn watch(connection: &Connection, home: Home, export_name: ExportName) -> Mirror {
    let watched = match home {
        Home::Kcp => vec![Watched::RULES, Watched::BINDINGS, Watched::EXPORTS],
        Home::Kubernetes => vec![Watched::RULES],
    };
    Mirror::start(connection.clone(), MirrorOptions { home, export_name, watched }).0
}

/// Puts what is watched in force, until it is dropped; the mirror lives no longer.
pub(crate) async fn run(mirror: Mirror, connection: Connection, home: Home, rules: Rules) {
    run_with(mirror, connection, home, rules, MOST_STALE).await;
}

async fn run_with(mirror: Mirror, connection: Connection, home: Home, rules: Rules, patience: Duration) {
    let (asked, claims) = watch::channel(Claims::new());
    let (told, lookups) = watch::channel(WorkspaceLookups::default());
    let _followed = Followed(rules.clone());
    let registry = Registry { home, rules: rules.clone(), patience, asked, lookups };
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
    rules: Rules,
    /// How long rules that can't be followed any more are believed to be what they were.
    patience: Duration,
    asked: watch::Sender<Claims>,
    lookups: watch::Receiver<WorkspaceLookups>,
}

impl Registry {
    /// Puts each state in force, until there are no more.
    async fn follow(mut self, mut states: watch::Receiver<Arc<MirrorState>>) {
        let mut known = None;
        loop {
            let state = states.borrow_and_update().clone();
            let missing = state.not_loaded().map(str::to_owned).or_else(|| stale(&state, self.patience));
            if let Some(why) = missing {
                say(self.rules.not_loaded().as_ref(), Some(&why));
                self.rules.lose(why);
                known = None;
            } else if !known.as_ref().is_some_and(|known| Arc::ptr_eq(known, &state)) {
                say(self.rules.not_loaded().as_ref(), None);
                self.put_in_force(&state);
                known = Some(state);
            }
            sleep(PAUSE).await;
            tokio::select! {
                changed = states.changed() => if changed.is_err() { return },
                Ok(()) = self.lookups.changed() => known = None,
                () = sleep(self.patience / LOOKS) => {}
            }
        }
    }

    /// A path whose claims were not looked into yet counts as unknown: nobody waits for that.
    fn put_in_force(&mut self, state: &MirrorState) {
        let objects = |plural| state.resource(plural).into_iter().flat_map(|resource| resource.values());
        let mut rules = RuleSet::load(self.home, objects(Watched::RULES.plural));
        let claims = BoundWorkspaces::read(objects(Watched::BINDINGS.plural)).claims(rules.workspace_paths());
        let workspaces = self.lookups.borrow_and_update().confirmed(&claims);
        let consents = Consents::read(objects(Watched::EXPORTS.plural), objects(Watched::BINDINGS.plural));
        if consents.restrict() {
            rules = rules.retain_accepted(|rule, export| {
                // Only a provider that is known for certain can refuse: one that lies would take protection away.
                match (&rule.cluster, workspaces.cluster(&export.path)) {
                    (Some(own), Some(provider)) => consents.accept(own, provider, &export.name),
                    _ => true,
                }
            });
        }
        self.rules.load(rules, workspaces);
        self.asked.send_if_modified(|asked| {
            let news = *asked != claims;
            if news {
                *asked = claims;
            }
            news
        });
    }
}

/// Why the state is too old to decide by. A rule may have been written since, and it may forbid what is asked.
fn stale(state: &MirrorState, patience: Duration) -> Option<String> {
    let Failure { since, why } = state.unheard()?;
    let silent = Instant::now().into_std().saturating_duration_since(since);
    (silent > patience).then(|| format!("the rules could not be followed for {} s: {why}", silent.as_secs()))
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

#[cfg(test)]
mod tests;
