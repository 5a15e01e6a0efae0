//! Consent of an APIExport's provider: the workspaces whose rules may protect the exported kinds.
//!
//! A rule holds up other people's deletions, so the provider of the targets may say whose rules it accepts: by the
//! annotation [`ACCEPT_ANNOTATION`](crate::model::api::ACCEPT_ANNOTATION) on its APIExport, a list of workspace paths
//! and logical clusters such as `root:compute, root:team:*, clusters/2x3yz`. Without the annotation, or if the
//! grant is unknown, all rules are accepted: one refusal too many is better than one deletion too many.
//!
//! A path is a workspace's own claim, and the workspace's administrator can write any path. A claim therefore counts
//! only as long as no look-up contradicts it. An annotation that can't be a path is no claim: look-ups of the accepted
//! paths then show whether the workspace can be at one of them. A logical cluster is named by kcp itself and needs no
//! look-up.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use crate::model::api::{ACCEPT_ANNOTATION, CLUSTER_ANNOTATION, PATH_ANNOTATION};
use crate::model::names::{ExportName, LogicalCluster, WorkspacePath};

/// The known grants of all APIExports, and the known paths of the workspaces that hold rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleGrants {
    exports: HashMap<(LogicalCluster, ExportName), RuleGrant>,
    /// The paths that each workspace claims: one, unless the workspace lies; none, if its bindings have no annotation
    /// that is a path. A workspace without an entry has no binding that was seen.
    claims: HashMap<LogicalCluster, BTreeMap<WorkspacePath, ClaimState>>,
    lookups: PathLookups,
}

/// Maximum number of accepted paths that are looked up for one provider, because a workspace claims no path. Further
/// paths count as unknown.
const MAX_ACCEPTED_LOOKUPS: usize = 32;

/// The logical cluster at each path that was looked up; `None` if there is no workspace at the path.
pub type PathLookups = BTreeMap<WorkspacePath, Option<LogicalCluster>>;

/// Standing of a workspace's claim to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimState {
    /// A look-up found the workspace there.
    Confirmed,
    /// No other workspace claims the path, and it is unknown if the claim is true.
    Unconfirmed,
    /// Other workspaces claim the path as well, and its owner is unknown.
    Contested,
    /// A look-up found another workspace there, or no workspace.
    Contradicted,
}

/// A provider's answer to a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Acceptance {
    /// The rule is accepted, or no restriction is known.
    Accepted,
    /// The rule is accepted as long as the place of its workspace is unknown.
    Assumed,
    /// The rule is not accepted.
    Refused,
}

/// The rules that an APIExport accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum RuleGrant {
    /// All rules: the annotation is absent.
    #[default]
    Everyone,
    /// All rules, because the annotation can't be read: this entry names no workspaces.
    Unreadable(String),
    /// The rules of these workspaces.
    Only(Vec<Grantee>),
}

/// Workspaces that one entry of the annotation names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Grantee {
    /// `root:compute`: this workspace.
    One(WorkspacePath),
    /// `root:team:*`: all workspaces below this one, at any depth.
    Below(WorkspacePath),
    /// `clusters/2x3yz`: the workspace with this logical cluster.
    Cluster(LogicalCluster),
    /// `*`: all workspaces.
    All,
}

/// Prefix of an entry that names a logical cluster, as in kcp's URLs. No path has a slash.
const CLUSTERS: &str = "clusters/";

impl RuleGrants {
    /// Reads APIExports, and APIBindings for the paths of their workspaces.
    pub fn read<'v>(
        exports: impl IntoIterator<Item = &'v Value>,
        bindings: impl IntoIterator<Item = &'v Value>,
    ) -> Self {
        let workspaces = bindings.into_iter().filter_map(|binding| {
            let path = annotation(binding, PATH_ANNOTATION).and_then(|path| WorkspacePath::parse(path).ok());
            Some((cluster(binding)?, path))
        });
        Self::new(exports, workspaces)
    }

    /// Reads APIExports, with workspace paths that are known from elsewhere.
    pub fn from_exports<'v>(
        exports: impl IntoIterator<Item = &'v Value>,
        workspaces: impl IntoIterator<Item = (LogicalCluster, WorkspacePath)>,
    ) -> Self {
        Self::new(exports, workspaces.into_iter().map(|(cluster, path)| (cluster, Some(path))))
    }

    /// Reads APIExports, with the logical clusters that have a binding and the paths that these bindings claim.
    fn new<'v>(
        exports: impl IntoIterator<Item = &'v Value>,
        workspaces: impl IntoIterator<Item = (LogicalCluster, Option<WorkspacePath>)>,
    ) -> Self {
        let exports = exports.into_iter().filter_map(|export| {
            let name = ExportName::parse(export.pointer("/metadata/name")?.as_str()?).ok()?;
            Some(((cluster(export)?, name), RuleGrant::read(export)))
        });
        let mut claimants: HashMap<WorkspacePath, BTreeSet<LogicalCluster>> = HashMap::new();
        let mut claims: HashMap<LogicalCluster, BTreeMap<WorkspacePath, ClaimState>> = HashMap::new();
        for (cluster, path) in workspaces {
            claims.entry(cluster.clone()).or_default();
            if let Some(path) = path {
                claimants.entry(path).or_default().insert(cluster);
            }
        }
        for (path, claimants) in claimants {
            let state = if claimants.len() == 1 { ClaimState::Unconfirmed } else { ClaimState::Contested };
            for cluster in claimants {
                claims.entry(cluster).or_default().insert(path.clone(), state);
            }
        }
        Self { exports: exports.collect(), claims, lookups: PathLookups::new() }
    }

    /// Returns the paths to look up: the paths that these workspaces claim, each with all workspaces that claim it. If
    /// one of the workspaces has a binding, but claims no path, the accepted paths are among them.
    pub fn claims<'c>(
        &self,
        of: impl IntoIterator<Item = &'c LogicalCluster>,
    ) -> BTreeMap<WorkspacePath, BTreeSet<LogicalCluster>> {
        let of: BTreeSet<_> = of.into_iter().collect();
        let mut claims: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        let of = of.iter().filter_map(|cluster| self.claims.get(*cluster));
        let (pathless, claiming): (Vec<_>, Vec<_>) = of.partition(|claimed| claimed.is_empty());
        let accepted = if pathless.is_empty() { Vec::new() } else { self.accepted_paths() };
        for path in claiming.into_iter().flat_map(BTreeMap::keys).chain(accepted) {
            claims.entry(path.clone()).or_default();
        }
        for (cluster, paths) in &self.claims {
            for path in paths.keys() {
                if let Some(claimants) = claims.get_mut(path) {
                    claimants.insert(cluster.clone());
                }
            }
        }
        claims
    }

    /// Returns the paths that providers accept, of each provider at most [`MAX_ACCEPTED_LOOKUPS`].
    fn accepted_paths(&self) -> Vec<&WorkspacePath> {
        let mut accepted: HashMap<&LogicalCluster, BTreeSet<&WorkspacePath>> = HashMap::new();
        for ((provider, _), grant) in &self.exports {
            if let RuleGrant::Only(entries) = grant {
                accepted.entry(provider).or_default().extend(entries.iter().filter_map(Grantee::path));
            }
        }
        accepted.into_values().flat_map(|paths| paths.into_iter().take(MAX_ACCEPTED_LOOKUPS)).collect()
    }

    /// Returns the grants with the results of look-ups of paths.
    #[must_use]
    pub fn looked_up(mut self, lookups: &PathLookups) -> Self {
        for (cluster, claims) in &mut self.claims {
            for (path, state) in claims {
                *state = match lookups.get(path) {
                    Some(Some(found)) if found == cluster => ClaimState::Confirmed,
                    Some(_) => ClaimState::Contradicted,
                    None => *state,
                };
            }
        }
        self.lookups.clone_from(lookups);
        self
    }

    /// Returns true if the provider accepts rules of the workspace `of` about the kinds of its export. True as well
    /// if the answer is unknown, and for the provider's own rules.
    pub fn grants(&self, of: &LogicalCluster, provider: &LogicalCluster, export: &ExportName) -> bool {
        self.acceptance(of, provider, export) != Acceptance::Refused
    }

    /// Returns the provider's answer to rules of the workspace `of` about the kinds of its export.
    pub fn acceptance(&self, of: &LogicalCluster, provider: &LogicalCluster, export: &ExportName) -> Acceptance {
        match self.get(provider, export) {
            Some(RuleGrant::Only(accepted)) if of != provider => self.among_accepted(of, accepted),
            _ => Acceptance::Accepted,
        }
    }

    fn among_accepted(&self, of: &LogicalCluster, accepted: &[Grantee]) -> Acceptance {
        let is_named = |entry: &Grantee| match entry {
            Grantee::All => true,
            Grantee::Cluster(cluster) => cluster == of,
            Grantee::One(_) | Grantee::Below(_) => false,
        };
        if accepted.iter().any(is_named) {
            return Acceptance::Accepted;
        }
        if self.claims_no_path(of) {
            return self.without_claim(of, accepted);
        }
        let contains = |path| accepted.iter().any(|entry| entry.contains(path));
        // The path of the workspace is unknown, so any entry with a path may mean it.
        let any_path = accepted.iter().any(|entry| entry.path().is_some());
        let claims = self.claims.get(of).into_iter().flatten();
        let mut may_be = any_path && !self.claims.contains_key(of);
        for (path, state) in claims {
            match state {
                // A workspace has only one path.
                ClaimState::Confirmed if contains(path) => return Acceptance::Accepted,
                ClaimState::Confirmed => return Acceptance::Refused,
                ClaimState::Unconfirmed => may_be |= contains(path),
                ClaimState::Contested => may_be |= any_path,
                ClaimState::Contradicted => {}
            }
        }
        if may_be { Acceptance::Assumed } else { Acceptance::Refused }
    }

    /// Returns the answer to rules of a workspace whose bindings claim no path, by what is known of the accepted paths.
    /// A path that was not looked up may be that of the workspace.
    fn without_claim(&self, of: &LogicalCluster, accepted: &[Grantee]) -> Acceptance {
        let own = self.lookups.iter().find_map(|(path, found)| (found.as_ref() == Some(of)).then_some(path));
        if let Some(path) = own {
            let is_accepted = accepted.iter().any(|entry| entry.contains(path));
            return if is_accepted { Acceptance::Accepted } else { Acceptance::Refused };
        }
        let may_mean = |entry: &Grantee| match entry {
            Grantee::One(path) => !self.lookups.contains_key(path),
            // There is nothing below a workspace that does not exist.
            Grantee::Below(parent) => self.lookups.get(parent) != Some(&None),
            Grantee::Cluster(_) | Grantee::All => false,
        };
        if accepted.iter().any(may_mean) { Acceptance::Assumed } else { Acceptance::Refused }
    }

    /// Returns true if this workspace has a binding, but no binding with an annotation that is a path.
    pub fn claims_no_path(&self, workspace: &LogicalCluster) -> bool {
        self.claims.get(workspace).is_some_and(BTreeMap::is_empty)
    }

    /// Returns true if any of the APIExports accepts only some rules.
    pub fn are_restricted(&self) -> bool {
        self.exports.values().any(|grant| matches!(grant, RuleGrant::Only(_)))
    }

    /// Returns the known grant of an APIExport; `None` if there is none.
    pub fn get(&self, provider: &LogicalCluster, export: &ExportName) -> Option<&RuleGrant> {
        self.exports.get(&(provider.clone(), export.clone()))
    }
}

impl RuleGrant {
    /// Reads the annotation of an APIExport.
    ///
    /// An entry that can't be read may have been meant for anybody, so one such entry lifts the restriction. A list
    /// without any entry accepts nobody.
    pub fn read(export: &Value) -> Self {
        let Some(list) = annotation(export, ACCEPT_ANNOTATION) else { return Self::Everyone };
        let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let entries = entries.map(|entry| Grantee::parse(entry).ok_or_else(|| shown(entry)));
        entries.collect::<Result<_, _>>().map_or_else(Self::Unreadable, Self::Only)
    }

    /// Returns true if rules in this workspace are accepted.
    pub fn accepts(&self, path: &WorkspacePath) -> bool {
        match self {
            Self::Everyone | Self::Unreadable(_) => true,
            Self::Only(accepted) => accepted.iter().any(|accepted| accepted.contains(path)),
        }
    }
}

impl Grantee {
    fn parse(entry: &str) -> Option<Self> {
        if entry == "*" {
            return Some(Self::All);
        }
        if let Some(cluster) = entry.strip_prefix(CLUSTERS) {
            return LogicalCluster::parse(cluster).ok().map(Self::Cluster);
        }
        match entry.strip_suffix(":*") {
            Some(parent) => WorkspacePath::parse(parent).ok().map(Self::Below),
            None => WorkspacePath::parse(entry).ok().map(Self::One),
        }
    }

    /// Returns the path of the entry.
    fn path(&self) -> Option<&WorkspacePath> {
        match self {
            Self::One(path) | Self::Below(path) => Some(path),
            Self::Cluster(_) | Self::All => None,
        }
    }

    fn contains(&self, path: &WorkspacePath) -> bool {
        match self {
            Self::All => true,
            Self::Cluster(_) => false,
            Self::One(one) => one == path,
            Self::Below(parent) => {
                path.as_str().strip_prefix(parent.as_str()).is_some_and(|rest| rest.starts_with(':'))
            }
        }
    }
}

fn cluster(object: &Value) -> Option<LogicalCluster> {
    LogicalCluster::parse(annotation(object, CLUSTER_ANNOTATION)?).ok()
}

fn annotation<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

/// Returns an entry as a message repeats it.
fn shown(entry: &str) -> String {
    entry.chars().filter(|c| !c.is_control()).take(253).collect()
}

#[cfg(test)]
mod tests;
