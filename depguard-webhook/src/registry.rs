//! Keeps the rules in force as they are written: from watched objects to a set that decides.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::{ExportName, Home, LogicalCluster, RuleSet, WorkspacePath, Workspaces, api};
use depguard_kcp::{Connection, Failure, Mirror, MirrorOptions, MirrorState, Watched};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::rules::Rules;

/// The shortest time between two sets: a thousand rules that come in one by one are not a thousand sets.
const PAUSE: Duration = Duration::from_millis(100);
/// How long rules that can't be followed any more are believed to be what they were.
const MOST_STALE: Duration = Duration::from_secs(60);
/// How often that is looked at where nothing changes.
const LOOK: Duration = Duration::from_secs(5);

const RULES: Watched = Watched {
    group: api::GROUP,
    version: api::VERSION,
    plural: api::PLURAL,
    kind: api::KIND,
    required: true,
    names: None,
};

/// depguard's own: each says the path and the logical cluster of a provider's workspace.
const BINDINGS: Watched = Watched {
    group: "apis.kcp.io",
    version: "v1alpha2",
    plural: "apibindings",
    kind: "APIBinding",
    required: true,
    names: None,
};

/// Puts what is watched in force, until it is dropped.
pub(crate) async fn run(connection: Connection, home: Home, export_name: ExportName, rules: Rules) {
    let watched = match home {
        Home::Kcp => vec![RULES, BINDINGS],
        Home::Kubernetes => vec![RULES],
    };
    // The mirror lives as long as this future: dropped, it ends its watches.
    let (mirror, _) = Mirror::start(connection, MirrorOptions { home, export_name, watched });
    follow(mirror.subscribe(), home, &rules).await;
    rules.lose("the rules are not watched any more: restart the webhook");
}

/// Puts each state in force, until there are no more.
async fn follow(mut states: watch::Receiver<Arc<MirrorState>>, home: Home, rules: &Rules) {
    let mut known = None;
    loop {
        let state = states.borrow_and_update().clone();
        let missing = state.not_loaded().map(str::to_owned).or_else(|| stale(&state));
        if let Some(why) = missing {
            say(rules.not_loaded().as_ref(), Some(&why));
            rules.lose(why);
            known = None;
        } else if !known.as_ref().is_some_and(|known| Arc::ptr_eq(known, &state)) {
            say(rules.not_loaded().as_ref(), None);
            put_in_force(&state, home, rules);
            known = Some(state);
        }
        sleep(PAUSE).await;
        if let Ok(Err(_)) = timeout(LOOK, states.changed()).await {
            return;
        }
    }
}

fn put_in_force(state: &MirrorState, home: Home, rules: &Rules) {
    let objects = state.resource(RULES.plural).into_iter().flat_map(|resource| resource.values());
    let bindings = state.resource(BINDINGS.plural).into_iter().flat_map(|resource| resource.values());
    rules.load(RuleSet::load(home, objects), workspaces(bindings));
}

/// Which logical cluster each path stands for.
///
/// A path of which two are said, as when a workspace was deleted and made anew, is left out: then a target's binding is
/// judged by its own words, which rather refuses once too often.
fn workspaces<'v>(bindings: impl Iterator<Item = &'v Value>) -> Workspaces {
    let mut clusters: BTreeMap<WorkspacePath, Option<LogicalCluster>> = BTreeMap::new();
    for binding in bindings {
        let annotation = |name| binding.get("metadata")?.get("annotations")?.get(name)?.as_str();
        let path = annotation(api::PATH_ANNOTATION).and_then(|path| WorkspacePath::parse(path).ok());
        let cluster = annotation(api::CLUSTER_ANNOTATION).and_then(|cluster| LogicalCluster::parse(cluster).ok());
        if let (Some(path), Some(cluster)) = (path, cluster) {
            match clusters.entry(path) {
                Entry::Vacant(free) => _ = free.insert(Some(cluster)),
                Entry::Occupied(mut known) if known.get().as_ref() != Some(&cluster) => _ = known.insert(None),
                Entry::Occupied(_) => {}
            }
        }
    }
    clusters.into_iter().filter_map(|(path, cluster)| Some((path, cluster?))).collect()
}

/// Why the state is too old to decide by. A rule may have been written since, and it may forbid what is asked.
fn stale(state: &MirrorState) -> Option<String> {
    let failures = state.resources().iter().filter_map(|resource| resource.last_error.as_ref());
    let longest = failures.chain(state.slices_error()).max_by_key(|failure| failure.since.elapsed());
    let Failure { since, why } = longest.filter(|failure| failure.since.elapsed() > MOST_STALE)?;
    Some(format!("the rules could not be followed for {} s: {why}", since.elapsed().as_secs()))
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
mod tests {
    use super::*;
    use serde_json::json;

    fn binding(path: &str, cluster: &str) -> Value {
        json!({"metadata": {"name": "b", "annotations": {"kcp.io/path": path, "kcp.io/cluster": cluster}}})
    }

    fn known(bindings: &[Value], path: &str) -> Option<String> {
        let path = WorkspacePath::parse(path).unwrap();
        workspaces(bindings.iter()).cluster(&path).map(ToString::to_string)
    }

    #[test]
    fn a_path_stands_for_the_cluster_of_its_bindings() {
        let bindings =
            [binding("root:a", "c1"), binding("root:b", "c2"), binding("root:a", "c1"), json!({}), binding("", "c3")];
        assert_eq!(known(&bindings, "root:a").as_deref(), Some("c1"));
        assert_eq!(known(&bindings, "root:b").as_deref(), Some("c2"));
        assert_eq!(known(&bindings, "root:c"), None);
    }

    #[test]
    fn a_path_of_two_clusters_stands_for_neither() {
        let bindings = [binding("root:a", "c1"), binding("root:a", "c2"), binding("root:a", "c1")];
        assert_eq!(known(&bindings, "root:a"), None);
    }
}
