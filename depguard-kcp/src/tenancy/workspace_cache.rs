//! Cache of workspace look-ups, which show if a logical cluster really has the path that it claims.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use depguard_core::applicability::PathLookups;
use depguard_core::{LogicalCluster, WorkspacePath, Workspaces};
use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep};

use crate::http::connection::Connection;
use crate::tenancy::workspace_paths::WorkspaceLookup;

/// Paths, each with the logical clusters that claim it: none, one, or several if somebody lies.
pub type Claims = BTreeMap<WorkspacePath, BTreeSet<LogicalCluster>>;

/// Maximum of look-ups at a time.
const MAX_CONCURRENT_LOOKUPS: usize = 8;
/// Phase of a workspace that is neither being made nor being deleted.
const READY: &str = "Ready";
/// Time limit of one refresh. The next refresh looks up the remaining paths.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the time for which an answer is fresh that nobody can change under the same `key`: 20 to 30 minutes, another
/// time for each key, so that the requests of a platform are spread.
pub fn long_freshness(key: &impl Hash) -> Duration {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    Duration::from_secs(20 * 60 + hasher.finish() % (10 * 60))
}

/// Results of looking up the Workspace objects of paths.
///
/// The path in a workspace's APIBinding proves nothing: kcp copies it from the workspace's LogicalCluster object, in
/// which the workspace's administrators can write any other path. The Workspace object lies in the parent, out of their
/// reach, and kcp itself finds workspaces by this object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkspaceLookups {
    known: BTreeMap<WorkspacePath, Known>,
}

#[derive(Debug, Clone, PartialEq)]
struct Known {
    /// Logical clusters that claimed the path when it was looked up.
    claimants: BTreeSet<LogicalCluster>,
    lookup: WorkspaceLookup,
    /// Set if the look-up before said the same.
    again: bool,
    at: Instant,
}

impl WorkspaceLookups {
    /// Time for which an answer is fresh while the claims to its path stay the same. Where two answers in a row name a
    /// claimant, and its workspace is `Ready`, the second is fresh for 20 to 30 minutes: a workspace keeps its logical
    /// cluster for life, and one that takes its path later must bind depguard, which changes the claims, before it
    /// counts.
    pub const FRESH: Duration = Duration::from_secs(60);

    /// Looks up each path of `claims` whose claims changed since its last look-up, or whose last look-up is not
    /// [fresh](Self::FRESH) any more. Forgets all other paths. Takes at most 10 s, with eight requests at a time.
    ///
    /// If the future is dropped halfway, the results so far stay.
    pub async fn refresh(&mut self, connection: &Connection, claims: &Claims) {
        self.known.retain(|path, known| claims.get(path) == Some(&known.claimants));
        let is_fresh = |path| self.known.get(path).is_some_and(|known| known.at.elapsed() < known.fresh(path));
        let due = claims.iter().filter(|(path, _)| !is_fresh(*path));
        let due: Vec<_> = due.map(|(path, claimants)| (path.clone(), claimants.clone())).collect();
        let lookups = stream::iter(due).map(|(path, claimants)| async move {
            let at = Instant::now();
            let lookup = connection.look_up_claim(&path, &claimants).await;
            (path, Known { claimants, lookup, again: false, at })
        });
        let mut lookups = Box::pin(lookups.buffer_unordered(MAX_CONCURRENT_LOOKUPS).take_until(sleep(PATIENCE)));
        while let Some((path, mut known)) = lookups.next().await {
            known.again = self.known.get(&path).is_some_and(|before| before.lookup == known.lookup);
            self.known.insert(path, known);
        }
    }

    /// Returns the time at which the next answer is no longer fresh.
    pub fn next_due(&self) -> Option<Instant> {
        // What is overdue already was not answered in time, and waits for the next refresh.
        let due = self.known.iter().map(|(path, known)| known.at + known.fresh(path));
        due.filter(|due| *due > Instant::now()).min()
    }

    /// Returns the last result for a path, if the path was looked up since its claims, as of the last refresh, last
    /// changed.
    pub fn get(&self, path: &WorkspacePath) -> Option<&WorkspaceLookup> {
        self.known.get(path).map(|known| &known.lookup)
    }

    /// Returns the paths of `claims` whose logical cluster is confirmed: a look-up since the last change of the claims
    /// named one of the claimants, and was [fresh](Self::FRESH) within the last minute. Leaves the other paths out, as if
    /// nobody had claimed them.
    pub fn confirmed(&self, claims: &Claims) -> Workspaces {
        let found = self.found(claims).into_iter().filter_map(|(path, cluster)| Some((path, cluster?)));
        found.filter(|(path, cluster)| claims.get(path).is_some_and(|claimants| claimants.contains(cluster))).collect()
    }

    /// Returns the logical cluster at each path of `claims`, as far as a look-up since the last change of the claims
    /// found out; `None` if two look-ups in a row found no workspace. Leaves the other paths out: a parent that is
    /// missing for a moment takes away nobody's protection.
    pub fn found(&self, claims: &Claims) -> PathLookups {
        let found = claims.iter().filter_map(|(path, claimants)| {
            let is_valid = |known: &&Known| known.claimants == *claimants && known.at.elapsed() < known.max_age(path);
            let known = self.known.get(path).filter(is_valid)?;
            let cluster = match &known.lookup {
                WorkspaceLookup::Found { cluster, .. } => Some(cluster.clone()),
                WorkspaceLookup::NotFound if known.again => None,
                WorkspaceLookup::NotFound | WorkspaceLookup::Unknown { .. } => return None,
            };
            Some((path.clone(), cluster))
        });
        found.collect()
    }
}

impl Known {
    fn fresh(&self, path: &WorkspacePath) -> Duration {
        let confirms = matches!(&self.lookup, WorkspaceLookup::Found { cluster, phase }
            if phase == READY && self.claimants.contains(cluster));
        if !(confirms && self.again) {
            return WorkspaceLookups::FRESH;
        }
        long_freshness(path)
    }

    /// Returns the maximum age of an answer that could not be renewed.
    fn max_age(&self, path: &WorkspacePath) -> Duration {
        self.fresh(path) + WorkspaceLookups::FRESH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> WorkspacePath {
        WorkspacePath::parse(path).unwrap()
    }

    fn clusters(clusters: &[&str]) -> BTreeSet<LogicalCluster> {
        clusters.iter().map(|cluster| LogicalCluster::parse(cluster).unwrap()).collect()
    }

    fn found(cluster: &str) -> WorkspaceLookup {
        WorkspaceLookup::Found { cluster: LogicalCluster::parse(cluster).unwrap(), phase: "Ready".to_owned() }
    }

    /// Returns the logical cluster of `root:a`, which `now` claims and which was looked up when `then` claimed it.
    fn confirmed(then: &[&str], lookup: WorkspaceLookup, now: &[&str]) -> Option<String> {
        let known = Known { claimants: clusters(then), lookup, again: false, at: Instant::now() };
        let lookups = WorkspaceLookups { known: BTreeMap::from([(path("root:a"), known)]) };
        let claims = Claims::from([(path("root:a"), clusters(now))]);
        lookups.confirmed(&claims).cluster(&path("root:a")).map(ToString::to_string)
    }

    #[test]
    fn a_claim_stands_only_where_the_workspace_object_confirms_it() {
        let unknown = || WorkspaceLookup::Unknown { why: "403".to_owned() };
        for (claimants, lookup, expected) in [
            (&["c1"][..], found("c1"), Some("c1")),
            (&["c1", "liar"], found("c1"), Some("c1")),
            (&["liar"], found("c1"), None),
            (&["liar"], WorkspaceLookup::NotFound, None),
            (&["c1"], unknown(), None),
            (&[], found("c1"), None),
        ] {
            assert_eq!(
                confirmed(claimants, lookup.clone(), claimants).as_deref(),
                expected,
                "{claimants:?} {lookup:?}"
            );
        }
        assert_eq!(
            WorkspaceLookups::default().confirmed(&Claims::from([(path("root:a"), clusters(&["c1"]))])),
            Workspaces::new()
        );
    }

    /// Covers a look-up beside many that hang, which may not be renewed for long.
    #[tokio::test(start_paused = true)]
    async fn a_look_up_from_long_ago_confirms_nothing() {
        let known = Known { claimants: clusters(&["c1"]), lookup: found("c1"), again: false, at: Instant::now() };
        let lookups = WorkspaceLookups { known: BTreeMap::from([(path("root:a"), known)]) };
        let claims = Claims::from([(path("root:a"), clusters(&["c1"]))]);
        tokio::time::advance(WorkspaceLookups::FRESH * 2 - Duration::from_secs(1)).await;
        assert!(lookups.confirmed(&claims).cluster(&path("root:a")).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(lookups.confirmed(&claims), Workspaces::new());
    }

    /// Covers the answers that an attacker may hope to keep: whoever lies, and whoever goes.
    #[test]
    fn only_a_claim_that_is_confirmed_again_is_fresh_for_long() {
        let of = |claimants: &[&str], lookup, again| {
            let known = Known { claimants: clusters(claimants), lookup, again, at: Instant::now() };
            known.fresh(&path("root:a"))
        };
        let phase = |phase: &str| WorkspaceLookup::Found {
            cluster: LogicalCluster::parse("c1").unwrap(),
            phase: phase.to_owned(),
        };
        let long = of(&["c1", "liar"], found("c1"), true);
        assert_eq!(long, long_freshness(&path("root:a")));
        for (claimants, lookup, again) in [
            (&["c1"][..], found("c1"), false),
            (&["liar"], found("c1"), true),
            (&[], found("c1"), true),
            (&["c1"], phase("Initializing"), true),
            (&["c1"], phase("Deleting"), true),
            (&["c1"], WorkspaceLookup::NotFound, true),
            (&["c1"], WorkspaceLookup::Unknown { why: "403".to_owned() }, true),
        ] {
            assert_eq!(of(claimants, lookup.clone(), again), WorkspaceLookups::FRESH, "{claimants:?} {lookup:?}");
        }
    }

    #[test]
    fn that_there_is_no_workspace_must_be_told_twice() {
        let claims = Claims::from([(path("root:a"), clusters(&["c1"]))]);
        let told = |lookup, again| {
            let known = Known { claimants: clusters(&["c1"]), lookup, again, at: Instant::now() };
            WorkspaceLookups { known: BTreeMap::from([(path("root:a"), known)]) }.found(&claims)
        };
        let nobody = PathLookups::from([(path("root:a"), None)]);
        assert_eq!(told(WorkspaceLookup::NotFound, false), PathLookups::new());
        assert_eq!(told(WorkspaceLookup::NotFound, true), nobody);
        let other = PathLookups::from([(path("root:a"), LogicalCluster::parse("other").ok())]);
        assert_eq!(told(found("other"), false), other);
        assert_eq!(told(WorkspaceLookup::Unknown { why: "403".to_owned() }, true), PathLookups::new());
    }

    #[test]
    fn a_look_up_from_before_the_claims_changed_confirms_nothing() {
        assert_eq!(confirmed(&["c1"], found("c1"), &["c1", "c2"]), None);
        assert_eq!(confirmed(&["c1", "c2"], found("c1"), &["c1"]), None);
    }
}
