//! Consent of an APIExport's provider: the workspaces whose rules may protect the exported kinds.
//!
//! A rule holds up other people's deletions, so the provider of the targets may say whose rules it accepts: by the
//! annotation [`ACCEPT_ANNOTATION`](crate::model::api::ACCEPT_ANNOTATION) on its APIExport, a list of workspace paths
//! and logical clusters such as `root:compute, root:team:*, clusters/2x3yz`. Without the annotation, or if the
//! grant is unknown, all rules are accepted: one refusal too many is better than one deletion too many.
//!
//! A path is a workspace's own claim, and the workspace's administrator can write any path. A claim therefore counts
//! only as long as no look-up contradicts it. A logical cluster is named by kcp itself and needs no look-up.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use crate::model::api::{ACCEPT_ANNOTATION, CLUSTER_ANNOTATION, PATH_ANNOTATION};
use crate::model::names::{ExportName, LogicalCluster, WorkspacePath};

/// The known grants of all APIExports, and the known paths of the workspaces that hold rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleGrants {
    exports: HashMap<(LogicalCluster, ExportName), RuleGrant>,
    /// The paths that each workspace claims: one, unless the workspace lies.
    claims: HashMap<LogicalCluster, BTreeMap<WorkspacePath, ClaimState>>,
}

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        let paths = bindings.into_iter().filter_map(|binding| {
            let path = annotation(binding, PATH_ANNOTATION).and_then(|path| WorkspacePath::parse(path).ok())?;
            Some((cluster(binding)?, path))
        });
        Self::from_exports(exports, paths)
    }

    /// Reads APIExports, with workspace paths that are known from elsewhere.
    pub fn from_exports<'v>(
        exports: impl IntoIterator<Item = &'v Value>,
        workspaces: impl IntoIterator<Item = (LogicalCluster, WorkspacePath)>,
    ) -> Self {
        let exports = exports.into_iter().filter_map(|export| {
            let name = ExportName::parse(export.pointer("/metadata/name")?.as_str()?).ok()?;
            Some(((cluster(export)?, name), RuleGrant::read(export)))
        });
        let mut claimants: HashMap<WorkspacePath, BTreeSet<LogicalCluster>> = HashMap::new();
        for (cluster, path) in workspaces {
            claimants.entry(path).or_default().insert(cluster);
        }
        let mut claims: HashMap<LogicalCluster, BTreeMap<WorkspacePath, ClaimState>> = HashMap::new();
        for (path, claimants) in claimants {
            let state = if claimants.len() == 1 { ClaimState::Unconfirmed } else { ClaimState::Contested };
            for cluster in claimants {
                claims.entry(cluster).or_default().insert(path.clone(), state);
            }
        }
        Self { exports: exports.collect(), claims }
    }

    /// Returns the paths to look up: the paths that these workspaces claim, each with all workspaces that claim it.
    pub fn claims<'c>(
        &self,
        of: impl IntoIterator<Item = &'c LogicalCluster>,
    ) -> BTreeMap<WorkspacePath, BTreeSet<LogicalCluster>> {
        let of: BTreeSet<_> = of.into_iter().collect();
        let mut claims: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for path in of.iter().filter_map(|cluster| self.claims.get(*cluster)).flat_map(BTreeMap::keys) {
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
        self
    }

    /// Returns true if the provider accepts rules of the workspace `of` about the kinds of its export. True as well
    /// if the answer is unknown, and for the provider's own rules.
    pub fn grants(&self, of: &LogicalCluster, provider: &LogicalCluster, export: &ExportName) -> bool {
        self.acceptance(of, provider, export) != Acceptance::Refused
    }

    /// Returns the provider's answer to rules of the workspace `of` about the kinds of its export.
    pub fn acceptance(&self, of: &LogicalCluster, provider: &LogicalCluster, export: &ExportName) -> Acceptance {
        match self.of(provider, export) {
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
        let contains = |path| accepted.iter().any(|entry| entry.contains(path));
        // The path of the workspace is unknown, so any entry with a path may mean it.
        let any_path = accepted.iter().any(|entry| matches!(entry, Grantee::One(_) | Grantee::Below(_)));
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

    /// Returns true if any of the APIExports accepts only some rules.
    pub fn are_restricted(&self) -> bool {
        self.exports.values().any(|grant| matches!(grant, RuleGrant::Only(_)))
    }

    /// Returns the known grant of an APIExport; `None` if there is none.
    pub fn of(&self, provider: &LogicalCluster, export: &ExportName) -> Option<&RuleGrant> {
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
mod tests {
    use serde_json::json;

    use super::*;

    fn export(accept: Option<&str>) -> Value {
        let mut object =
            json!({"metadata": {"name": "network.example.com", "annotations": {"kcp.io/cluster": "network"}}});
        if let Some(accept) = accept {
            object["metadata"]["annotations"]["dependencies.opendefense.cloud/accept-rules-from"] = json!(accept);
        }
        object
    }

    fn binding(cluster: &str, path: &str) -> Value {
        json!({"metadata": {"annotations": {"kcp.io/cluster": cluster, "kcp.io/path": path}}})
    }

    #[test]
    fn a_path_is_accepted_by_its_own_entry_or_one_above_it() {
        for (accept, path, accepted) in [
            (None, "root:compute", true),
            (Some("root:compute"), "root:compute", true),
            (Some("root:compute"), "root:compute:a", false),
            (Some("root:compute"), "root:computer", false),
            (Some(" root:a ,\n root:compute,"), "root:compute", true),
            (Some("root:a,root:b"), "root:compute", false),
            (Some("root:team:*"), "root:team:a", true),
            (Some("root:team:*"), "root:team:a:b", true),
            (Some("root:team:*"), "root:team", false),
            (Some("root:team:*"), "root:teams:a", false),
            (Some("*"), "root:compute", true),
            (Some(""), "root:compute", false),
            (Some(" , "), "root:compute", false),
            // An unreadable entry may have been meant for anybody.
            (Some("root:a, Root Compute"), "root:compute", true),
            (Some("root:*:a"), "root:compute", true),
            (Some("root:team*"), "root:compute", true),
            (Some("clusters/Compute!"), "root:compute", true),
            (Some("clusters/"), "root:compute", true),
            (Some("clusters/compute"), "root:compute", false),
        ] {
            let path = WorkspacePath::parse(path).unwrap();
            assert_eq!(RuleGrant::read(&export(accept)).accepts(&path), accepted, "{accept:?} {path}");
        }
        assert_eq!(RuleGrant::read(&export(Some("root:a, x y"))), RuleGrant::Unreadable("x y".to_owned()));
    }

    #[test]
    fn what_is_not_known_is_accepted() {
        let accept = |exports: &[Value], bindings: &[Value], of: &str| {
            let name = ExportName::parse("network.example.com").unwrap();
            let [of, provider] = [of, "network"].map(|id| LogicalCluster::parse(id).unwrap());
            RuleGrants::read(exports, bindings).grants(&of, &provider, &name)
        };
        let closed = [export(Some("root:else"))];
        let bound = [binding("compute", "root:compute")];
        assert!(!accept(&closed, &bound, "compute"));
        // The provider's own rules; a rule whose workspace claims no path; an unknown export.
        assert!(accept(&closed, &bound, "network"));
        assert!(accept(&closed, &[], "compute"));
        assert!(accept(&[], &bound, "compute"));
        // A path that two workspaces claim is confirmed for neither of them.
        assert!(accept(&closed, &[binding("compute", "root:compute"), binding("liar", "root:compute")], "compute"));
        assert!(!accept(&closed, &[binding("compute", "root:compute"), bound[0].clone()], "compute"));
        // Nobody is accepted, whatever the path is.
        assert!(!accept(&[export(Some(""))], &[], "compute"));
    }

    #[test]
    fn a_claim_counts_as_long_as_no_look_up_contradicts_it() {
        use Acceptance::{Accepted, Assumed, Refused};
        let honest = ("compute", "root:compute");
        for (accept, claims, found, of, expected) in [
            ("root:compute", &[honest][..], None, "compute", Assumed),
            ("root:compute", &[honest], Some(("root:compute", "compute")), "compute", Accepted),
            ("root:else", &[honest], Some(("root:compute", "compute")), "compute", Refused),
            // A lie, alone and beside the truth, and without any such workspace.
            ("root:compute", &[("evil", "root:compute")], None, "evil", Assumed),
            ("root:compute", &[("evil", "root:compute")], Some(("root:compute", "compute")), "evil", Refused),
            ("root:compute", &[("evil", "root:compute")], Some(("root:compute", "")), "evil", Refused),
            ("root:compute", &[honest, ("evil", "root:compute")], None, "evil", Assumed),
            ("root:compute", &[honest, ("evil", "root:compute")], None, "compute", Assumed),
            ("root:compute", &[honest, ("evil", "root:compute")], Some(("root:compute", "compute")), "evil", Refused),
            (
                "root:compute",
                &[honest, ("evil", "root:compute")],
                Some(("root:compute", "compute")),
                "compute",
                Accepted,
            ),
            // One path is confirmed, so the other one is wrong, although nobody looked it up.
            (
                "root:compute",
                &[("evil", "root:evil"), ("evil", "root:compute")],
                Some(("root:evil", "evil")),
                "evil",
                Refused,
            ),
            ("root:compute", &[("evil", "root:evil"), ("evil", "root:compute")], None, "evil", Assumed),
            // A lie about another path, which is not accepted.
            ("root:compute", &[("evil", "root:else"), ("else", "root:else")], None, "evil", Assumed),
            (
                "root:compute",
                &[("evil", "root:else"), ("else", "root:else")],
                Some(("root:else", "else")),
                "evil",
                Refused,
            ),
            // A logical cluster needs no look-up. If only logical clusters are named, paths don't matter.
            ("clusters/compute", &[], None, "compute", Accepted),
            ("clusters/compute", &[("evil", "root:compute")], None, "evil", Refused),
            ("clusters/compute", &[], None, "evil", Refused),
            ("clusters/compute, root:a", &[], None, "evil", Assumed),
            // Everybody is accepted, whatever they claim.
            ("*", &[("evil", "root:compute")], Some(("root:compute", "")), "evil", Accepted),
        ] {
            let bindings: Vec<_> = claims.iter().map(|(cluster, path)| binding(cluster, path)).collect();
            let found =
                found.map(|(path, cluster)| (WorkspacePath::parse(path).unwrap(), LogicalCluster::parse(cluster).ok()));
            let grants = RuleGrants::read([&export(Some(accept))], &bindings).looked_up(&found.into_iter().collect());
            let [of, provider] = [of, "network"].map(|id| LogicalCluster::parse(id).unwrap());
            let name = ExportName::parse("network.example.com").unwrap();
            assert_eq!(grants.acceptance(&of, &provider, &name), expected, "{accept} {claims:?}: {of}");
            assert_eq!(grants.grants(&of, &provider, &name), expected != Refused);
        }
    }

    #[test]
    fn the_claims_of_a_workspace_are_told_with_all_who_share_them() {
        let bindings = [binding("a", "root:a"), binding("evil", "root:a"), binding("b", "root:b")];
        let grants = RuleGrants::read([], &bindings);
        let told = |of: &str| {
            let claims = grants.claims([&LogicalCluster::parse(of).unwrap()]).into_iter();
            claims.map(|(path, by)| format!("{path} {by:?}")).collect::<Vec<_>>()
        };
        assert_eq!(told("evil"), [r#"root:a {LogicalCluster("a"), LogicalCluster("evil")}"#]);
        assert_eq!(told("b"), [r#"root:b {LogicalCluster("b")}"#]);
        assert_eq!(told("c"), [""; 0]);
    }

    #[test]
    fn an_edge_without_consent_is_not_in_the_set_and_the_others_are() {
        use crate::{ControlPlane, RuleSet};
        let target = |path: &str, resource: &str| {
            json!({
                "apiExportRef": {"path": path, "name": "network.example.com"}, "group": "network.example.com",
                "version": "v1", "resource": resource, "fieldRef": {"path": ".spec.ref"},
            })
        };
        let mut rule = json!({
            "metadata": {"name": "r", "annotations": {"kcp.io/cluster": "compute"}},
            "spec": {
                "dependent": {"group": "a.example.com", "version": "v1", "kind": "A", "resource": "as", "apiExportName": "a"},
                "dependencies": [target("root:closed", "vpcs"), target("root:open", "subnets")],
            },
        });
        for broken in [false, true] {
            if broken {
                rule["spec"]["novelty"] = json!(true);
            }
            let set = RuleSet::load(ControlPlane::Kcp, [&rule]).retain_accepted(|rule, export| {
                assert_eq!(rule.name, "r");
                export.path.as_str() != "root:closed"
            });
            assert!(!set.names("network.example.com", "vpcs"));
            assert!(set.names("network.example.com", "subnets"));
        }
    }
}
