//! Which logical clusters really are where they say to be, remembered for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use depguard_core::{LogicalCluster, PathLookups, WorkspacePath, Workspaces};
use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep};

use crate::connection::Connection;
use crate::workspaces::WorkspaceLookup;

/// Paths, each with the logical clusters that claim it: one, unless somebody lies, or none.
pub type Claims = BTreeMap<WorkspacePath, BTreeSet<LogicalCluster>>;

/// Paths that are looked up at once.
const AT_ONCE: usize = 8;
/// How long an answer is believed that could not be had anew.
const MAX_AGE: Duration = WorkspaceLookups::FRESH.saturating_mul(2);
/// How long one refresh may take. What is left is looked up in the next.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the Workspace objects of paths say.
///
/// An APIBinding's word for its workspace's path is not enough: kcp copies it from the workspace's LogicalCluster
/// object, where whoever administers the workspace can write any other's. The Workspace object is in the parent, out of
/// his reach, and kcp itself finds workspaces by it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkspaceLookups {
    known: BTreeMap<WorkspacePath, Known>,
}

#[derive(Debug, Clone, PartialEq)]
struct Known {
    /// Who claimed the path when it was looked up.
    claimants: BTreeSet<LogicalCluster>,
    lookup: WorkspaceLookup,
    /// The look-up before it said the same.
    again: bool,
    at: Instant,
}

impl WorkspaceLookups {
    /// How long an answer holds while the claims to its path stay what they were.
    pub const FRESH: Duration = Duration::from_secs(60);

    /// Looks up each path of `claims` that has not been looked up since its claims changed, or not for
    /// [`FRESH`](Self::FRESH), and forgets all others. Takes 10 s at most, with eight requests at once.
    ///
    /// Dropped halfway, it keeps what it has found out.
    pub async fn refresh(&mut self, connection: &Connection, claims: &Claims) {
        self.known.retain(|path, known| claims.get(path) == Some(&known.claimants));
        let is_fresh = |path| self.known.get(path).is_some_and(|known| known.at.elapsed() < Self::FRESH);
        let due = claims.iter().filter(|(path, _)| !is_fresh(*path));
        let due: Vec<_> = due.map(|(path, claimants)| (path.clone(), claimants.clone())).collect();
        let lookups = stream::iter(due).map(|(path, claimants)| async move {
            let at = Instant::now();
            let lookup = connection.look_up(&path).await;
            (path, Known { claimants, lookup, again: false, at })
        });
        let mut lookups = Box::pin(lookups.buffer_unordered(AT_ONCE).take_until(sleep(PATIENCE)));
        while let Some((path, mut known)) = lookups.next().await {
            known.again = self.known.get(&path).is_some_and(|before| before.lookup == known.lookup);
            self.known.insert(path, known);
        }
    }

    /// What was found at a path the last time, if that was since the claims to it are what they were at the last refresh.
    pub fn get(&self, path: &WorkspacePath) -> Option<&WorkspaceLookup> {
        self.known.get(path).map(|known| &known.lookup)
    }

    /// The paths of `claims` of which it is known which of their claimants they stand for: a look-up since the claims
    /// are what they are has named it, within the last two minutes. The others are left out, as if nobody had claimed
    /// them.
    pub fn confirmed(&self, claims: &Claims) -> Workspaces {
        let found = self.found(claims).into_iter().filter_map(|(path, cluster)| Some((path, cluster?)));
        found.filter(|(path, cluster)| claims.get(path).is_some_and(|claimants| claimants.contains(cluster))).collect()
    }

    /// The logical cluster at each path of `claims` of which a look-up since the claims are what they are has told that:
    /// `None` where there is no workspace, as two look-ups in a row said. The others are left out: a parent that can't be
    /// found for a moment takes nobody's protection away.
    pub fn found(&self, claims: &Claims) -> PathLookups {
        let found = claims.iter().filter_map(|(path, claimants)| {
            let is_valid = |known: &&Known| known.claimants == *claimants && known.at.elapsed() < MAX_AGE;
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

    /// What `root:a` stands for, claimed by `now`, looked up when `then` claimed it.
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

    /// Look-ups beside many that hang may not be had anew for long.
    #[tokio::test(start_paused = true)]
    async fn a_look_up_from_long_ago_confirms_nothing() {
        let known = Known { claimants: clusters(&["c1"]), lookup: found("c1"), again: false, at: Instant::now() };
        let lookups = WorkspaceLookups { known: BTreeMap::from([(path("root:a"), known)]) };
        let claims = Claims::from([(path("root:a"), clusters(&["c1"]))]);
        tokio::time::advance(MAX_AGE - Duration::from_secs(1)).await;
        assert!(lookups.confirmed(&claims).cluster(&path("root:a")).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(lookups.confirmed(&claims), Workspaces::new());
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
