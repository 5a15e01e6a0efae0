//! Whose rules may protect what an APIExport serves: the consent of whoever exports it.
//!
//! A rule holds up other people's deletions, so the provider of the targets may say whose rules it accepts: by the
//! annotation [`ACCEPT_ANNOTATION`](crate::api::ACCEPT_ANNOTATION) on its APIExport, a list of workspace paths and
//! logical clusters such as `root:compute, root:team:*, clusters/2x3yz`. Without it everybody's are accepted, and so are
//! they wherever consent can't be told: better one refusal too many than one deletion.
//!
//! A path is what the rule's workspace says of itself, and its administrator can write any. So it counts as long as no
//! look-up contradicts it; a logical cluster is kcp's own word and needs none.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use crate::api::{ACCEPT_ANNOTATION, CLUSTER_ANNOTATION, PATH_ANNOTATION};
use crate::names::{ExportName, LogicalCluster, WorkspacePath};

/// What is known of the consents of all APIExports, and of the paths of the workspaces that rules lie in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consents {
    exports: HashMap<(LogicalCluster, ExportName), Consent>,
    /// The paths that each workspace claims: one, unless it lies.
    claims: HashMap<LogicalCluster, BTreeMap<WorkspacePath, Standing>>,
}

/// Logical cluster at each path that was looked up; `None` where there is no workspace.
pub type PathLookups = BTreeMap<WorkspacePath, Option<LogicalCluster>>;

/// Standing of a workspace's claim to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// A look-up found the workspace there.
    Confirmed,
    /// Nobody else claims it, and it is not known whether it is true.
    Unconfirmed,
    /// Others claim it, too, and it is not known whose it is.
    Contested,
    /// A look-up found another workspace there, or none.
    Contradicted,
}

/// Answer of a provider to a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Acceptance {
    /// The rule is accepted, or nothing is known of a restriction.
    Accepted,
    /// The rule is accepted as long as it is not known where its workspace is.
    Assumed,
    /// The rule is not accepted.
    Refused,
}

/// Whose rules an APIExport accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Consent {
    /// Everybody's: the annotation is absent.
    #[default]
    Everyone,
    /// Everybody's, since the annotation can't be read: this entry of it is no workspace path.
    Unreadable(String),
    /// Those of rules in one of these workspaces.
    Only(Vec<Accepted>),
}

/// Workspaces, as an entry of the annotation names them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Accepted {
    /// `root:compute`: this one.
    One(WorkspacePath),
    /// `root:team:*`: all below this one, however deep.
    Below(WorkspacePath),
    /// `clusters/2x3yz`: the one with this logical cluster.
    Cluster(LogicalCluster),
    /// `*`: all.
    All,
}

/// Prefix of an entry that names a logical cluster, as in kcp's URLs. No path has a slash.
const CLUSTERS: &str = "clusters/";

impl Consents {
    /// Reads APIExports, and APIBindings for the paths of their workspaces.
    pub fn read<'v>(
        exports: impl IntoIterator<Item = &'v Value>,
        bindings: impl IntoIterator<Item = &'v Value>,
    ) -> Self {
        let paths = bindings.into_iter().filter_map(|binding| {
            let path = annotation(binding, PATH_ANNOTATION).and_then(|path| WorkspacePath::parse(path).ok())?;
            Some((cluster(binding)?, path))
        });
        Self::among(exports, paths)
    }

    /// Reads APIExports, where the paths of workspaces are known from elsewhere.
    pub fn among<'v>(
        exports: impl IntoIterator<Item = &'v Value>,
        workspaces: impl IntoIterator<Item = (LogicalCluster, WorkspacePath)>,
    ) -> Self {
        let exports = exports.into_iter().filter_map(|export| {
            let name = ExportName::parse(export.pointer("/metadata/name")?.as_str()?).ok()?;
            Some(((cluster(export)?, name), Consent::read(export)))
        });
        let mut claimants: HashMap<WorkspacePath, BTreeSet<LogicalCluster>> = HashMap::new();
        for (cluster, path) in workspaces {
            claimants.entry(path).or_default().insert(cluster);
        }
        let mut claims: HashMap<LogicalCluster, BTreeMap<WorkspacePath, Standing>> = HashMap::new();
        for (path, claimants) in claimants {
            let standing = if claimants.len() == 1 { Standing::Unconfirmed } else { Standing::Contested };
            for cluster in claimants {
                claims.entry(cluster).or_default().insert(path.clone(), standing);
            }
        }
        Self { exports: exports.collect(), claims }
    }

    /// The paths that these workspaces claim, each with all that claim it: what is to be looked up.
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

    /// The same consents, where claims to these paths are known to be true or false.
    #[must_use]
    pub fn looked_up(mut self, lookups: &PathLookups) -> Self {
        for (cluster, claims) in &mut self.claims {
            for (path, standing) in claims {
                *standing = match lookups.get(path) {
                    Some(Some(found)) if found == cluster => Standing::Confirmed,
                    Some(_) => Standing::Contradicted,
                    None => *standing,
                };
            }
        }
        self
    }

    /// Whether the provider accepts rules of the workspace `of` about what its export serves. Where that is not known,
    /// it does; a provider always accepts its own.
    pub fn accept(&self, of: &LogicalCluster, provider: &LogicalCluster, export: &ExportName) -> bool {
        self.acceptance(of, provider, export) != Acceptance::Refused
    }

    /// The provider's answer to rules of the workspace `of` about what its export serves.
    pub fn acceptance(&self, of: &LogicalCluster, provider: &LogicalCluster, export: &ExportName) -> Acceptance {
        match self.of(provider, export) {
            Some(Consent::Only(accepted)) if of != provider => self.among_accepted(of, accepted),
            _ => Acceptance::Accepted,
        }
    }

    fn among_accepted(&self, of: &LogicalCluster, accepted: &[Accepted]) -> Acceptance {
        let is_named = |entry: &Accepted| match entry {
            Accepted::All => true,
            Accepted::Cluster(cluster) => cluster == of,
            Accepted::One(_) | Accepted::Below(_) => false,
        };
        if accepted.iter().any(is_named) {
            return Acceptance::Accepted;
        }
        let contains = |path| accepted.iter().any(|entry| entry.contains(path));
        // Whichever path it is, an entry for a path may mean it.
        let any_path = accepted.iter().any(|entry| matches!(entry, Accepted::One(_) | Accepted::Below(_)));
        let claims = self.claims.get(of).into_iter().flatten();
        let mut may_be = any_path && !self.claims.contains_key(of);
        for (path, standing) in claims {
            match standing {
                // A workspace has one path.
                Standing::Confirmed if contains(path) => return Acceptance::Accepted,
                Standing::Confirmed => return Acceptance::Refused,
                Standing::Unconfirmed => may_be |= contains(path),
                Standing::Contested => may_be |= any_path,
                Standing::Contradicted => {}
            }
        }
        if may_be { Acceptance::Assumed } else { Acceptance::Refused }
    }

    /// Whether any of them accepts some rules only.
    pub fn restrict(&self) -> bool {
        self.exports.values().any(|consent| matches!(consent, Consent::Only(_)))
    }

    /// What is known of the consent of an APIExport; `None`: nothing.
    pub fn of(&self, provider: &LogicalCluster, export: &ExportName) -> Option<&Consent> {
        self.exports.get(&(provider.clone(), export.clone()))
    }
}

impl Consent {
    /// Reads the annotation of an APIExport.
    ///
    /// One entry that can't be read may have been meant for anybody, so it lifts the restriction. A list without any
    /// entry accepts nobody.
    pub fn read(export: &Value) -> Self {
        let Some(list) = annotation(export, ACCEPT_ANNOTATION) else { return Self::Everyone };
        let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let entries = entries.map(|entry| Accepted::parse(entry).ok_or_else(|| shown(entry)));
        entries.collect::<Result<_, _>>().map_or_else(Self::Unreadable, Self::Only)
    }

    /// Whether rules in this workspace are accepted.
    pub fn accepts(&self, path: &WorkspacePath) -> bool {
        match self {
            Self::Everyone | Self::Unreadable(_) => true,
            Self::Only(accepted) => accepted.iter().any(|accepted| accepted.contains(path)),
        }
    }
}

impl Accepted {
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

/// An entry as a message repeats it.
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
            // What can't be read may have been meant for anybody.
            (Some("root:a, Root Compute"), "root:compute", true),
            (Some("root:*:a"), "root:compute", true),
            (Some("root:team*"), "root:compute", true),
            (Some("clusters/Compute!"), "root:compute", true),
            (Some("clusters/"), "root:compute", true),
            (Some("clusters/compute"), "root:compute", false),
        ] {
            let path = WorkspacePath::parse(path).unwrap();
            assert_eq!(Consent::read(&export(accept)).accepts(&path), accepted, "{accept:?} {path}");
        }
        assert_eq!(Consent::read(&export(Some("root:a, x y"))), Consent::Unreadable("x y".to_owned()));
    }

    #[test]
    fn what_is_not_known_is_accepted() {
        let accept = |exports: &[Value], bindings: &[Value], of: &str| {
            let name = ExportName::parse("network.example.com").unwrap();
            let [of, provider] = [of, "network"].map(|id| LogicalCluster::parse(id).unwrap());
            Consents::read(exports, bindings).accept(&of, &provider, &name)
        };
        let closed = [export(Some("root:else"))];
        let bound = [binding("compute", "root:compute")];
        assert!(!accept(&closed, &bound, "compute"));
        // The provider's own rules; a rule whose workspace does not tell its path; an export that is not seen.
        assert!(accept(&closed, &bound, "network"));
        assert!(accept(&closed, &[], "compute"));
        assert!(accept(&[], &bound, "compute"));
        // A path that two workspaces say is that of neither.
        assert!(accept(&closed, &[binding("compute", "root:compute"), binding("liar", "root:compute")], "compute"));
        assert!(!accept(&closed, &[binding("compute", "root:compute"), bound[0].clone()], "compute"));
        // Whatever the path is, nobody is accepted.
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
            // A lie, alone and beside the truth, and where there is no such workspace.
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
            // One path is true, so the other isn't, though nobody could look.
            (
                "root:compute",
                &[("evil", "root:evil"), ("evil", "root:compute")],
                Some(("root:evil", "evil")),
                "evil",
                Refused,
            ),
            ("root:compute", &[("evil", "root:evil"), ("evil", "root:compute")], None, "evil", Assumed),
            // Another's lie about a path that nobody accepts.
            ("root:compute", &[("evil", "root:else"), ("else", "root:else")], None, "evil", Assumed),
            (
                "root:compute",
                &[("evil", "root:else"), ("else", "root:else")],
                Some(("root:else", "else")),
                "evil",
                Refused,
            ),
            // A logical cluster needs no look-up, and nothing but it is asked where only such are named.
            ("clusters/compute", &[], None, "compute", Accepted),
            ("clusters/compute", &[("evil", "root:compute")], None, "evil", Refused),
            ("clusters/compute", &[], None, "evil", Refused),
            ("clusters/compute, root:a", &[], None, "evil", Assumed),
            // Everybody, whatever he says.
            ("*", &[("evil", "root:compute")], Some(("root:compute", "")), "evil", Accepted),
        ] {
            let bindings: Vec<_> = claims.iter().map(|(cluster, path)| binding(cluster, path)).collect();
            let found =
                found.map(|(path, cluster)| (WorkspacePath::parse(path).unwrap(), LogicalCluster::parse(cluster).ok()));
            let consents = Consents::read([&export(Some(accept))], &bindings).looked_up(&found.into_iter().collect());
            let [of, provider] = [of, "network"].map(|id| LogicalCluster::parse(id).unwrap());
            let name = ExportName::parse("network.example.com").unwrap();
            assert_eq!(consents.acceptance(&of, &provider, &name), expected, "{accept} {claims:?}: {of}");
            assert_eq!(consents.accept(&of, &provider, &name), expected != Refused);
        }
    }

    #[test]
    fn the_claims_of_a_workspace_are_told_with_all_who_share_them() {
        let bindings = [binding("a", "root:a"), binding("evil", "root:a"), binding("b", "root:b")];
        let consents = Consents::read([], &bindings);
        let told = |of: &str| {
            let claims = consents.claims([&LogicalCluster::parse(of).unwrap()]).into_iter();
            claims.map(|(path, by)| format!("{path} {by:?}")).collect::<Vec<_>>()
        };
        assert_eq!(told("evil"), [r#"root:a {LogicalCluster("a"), LogicalCluster("evil")}"#]);
        assert_eq!(told("b"), [r#"root:b {LogicalCluster("b")}"#]);
        assert_eq!(told("c"), [""; 0]);
    }

    #[test]
    fn an_edge_without_consent_is_not_in_the_set_and_the_others_are() {
        use crate::{Home, RuleSet};
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
            let set = RuleSet::load(Home::Kcp, [&rule]).retain_accepted(|rule, export| {
                assert_eq!(rule.name, "r");
                export.path.as_str() != "root:closed"
            });
            assert!(!set.names("network.example.com", "vpcs"));
            assert!(set.names("network.example.com", "subnets"));
        }
    }
}
