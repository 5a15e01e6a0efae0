//! Whose rules may protect what an APIExport serves: the consent of whoever exports it.
//!
//! A rule holds up other people's deletions, so the provider of the targets may say whose rules it accepts: by the
//! annotation [`ACCEPT_ANNOTATION`](crate::api::ACCEPT_ANNOTATION) on its APIExport, a list of workspace paths such as
//! `root:compute, root:team:*`. Without it everybody's are accepted, and so are they wherever consent can't be told:
//! better one refusal too many than one deletion.

use std::collections::HashMap;

use serde_json::Value;

use crate::api::{ACCEPT_ANNOTATION, CLUSTER_ANNOTATION, PATH_ANNOTATION};
use crate::names::{ExportName, LogicalCluster, WorkspacePath};

/// What is known of the consents of all APIExports, and of the paths of the workspaces that rules lie in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consents {
    exports: HashMap<(LogicalCluster, ExportName), Consent>,
    /// The workspaces that say their path, and share it with no other.
    paths: HashMap<LogicalCluster, WorkspacePath>,
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
    /// `*`: all.
    All,
}

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
        let mut paths = HashMap::new();
        let mut owners: HashMap<WorkspacePath, Vec<LogicalCluster>> = HashMap::new();
        for (cluster, path) in workspaces {
            let owners = owners.entry(path.clone()).or_default();
            if !owners.contains(&cluster) {
                owners.push(cluster.clone());
            }
            paths.insert(cluster, path);
        }
        paths.retain(|_, path| owners.get(path).is_some_and(|owners| owners.len() == 1));
        Self { exports: exports.collect(), paths }
    }

    /// Whether the provider accepts rules of the workspace `of` about what its export serves. Where that is not known,
    /// it does; a provider always accepts its own.
    pub fn accept(&self, of: &LogicalCluster, provider: &LogicalCluster, export: &ExportName) -> bool {
        match (self.paths.get(of), self.of(provider, export)) {
            _ if of == provider => true,
            (Some(path), Some(consent)) => consent.accepts(path),
            _ => true,
        }
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
        match entry.strip_suffix(":*") {
            Some(parent) => WorkspacePath::parse(parent).ok().map(Self::Below),
            None => WorkspacePath::parse(entry).ok().map(Self::One),
        }
    }

    fn contains(&self, path: &WorkspacePath) -> bool {
        match self {
            Self::All => true,
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
