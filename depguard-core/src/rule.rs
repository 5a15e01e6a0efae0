//! A rule that was checked: whoever holds a [`Rule`] knows that all its names and paths are right.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::api;
use crate::home::Home;
use crate::names::{
    ExportName, Group, GroupVersionResource, Kind, LogicalCluster, NameError, Resource, Version, WorkspacePath,
};
use crate::path::{FieldPath, PathError};

/// A checked DependencyRule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    key: RuleKey,
    generation: Option<i64>,
    dependent: Dependent,
    edges: Vec<Edge>,
}

/// Which rule: its name, and in kcp its logical cluster, which is also that of the dependents' APIExport.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleKey {
    /// The rule's own logical cluster; `None` in home kubernetes.
    pub cluster: Option<LogicalCluster>,
    /// The rule's name.
    pub name: String,
}

/// The kind that holds the references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependent {
    /// The APIExport of the rule's own workspace that serves it; `None` for a local kind.
    pub export: Option<ExportName>,
    /// The resource, and the version in which it is read.
    pub gvr: GroupVersionResource,
    /// The kind, for messages.
    pub kind: Kind,
}

/// One dependency of a rule: dependent kind → target kind, through a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The index in `spec.dependencies`.
    pub index: usize,
    /// The kind that is referred to.
    pub target: Target,
    /// Where the dependent names it.
    pub path: FieldPath,
}

/// The kind that is referred to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The APIExport that serves it; `None` for a local kind.
    pub export: Option<ExportRef>,
    /// The resource; its version is one of those served, and all of them are protected.
    pub gvr: GroupVersionResource,
}

/// An APIExport, by its workspace's path and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExportRef {
    /// The provider's workspace path.
    pub path: WorkspacePath,
    /// The APIExport's name.
    pub name: ExportName,
}

/// Why a rule can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Not of the shape of a DependencyRule.
    #[error("not a DependencyRule that this version knows: {0}")]
    Shape(String),
    /// The form that older rules had.
    #[error(
        "spec.dependent.apiExportRef was replaced: write `apiExportName: {name}` instead (the export stands in the rule's own workspace, so it has no path)"
    )]
    OldExportRef {
        /// The export that the rule named.
        name: String,
    },
    /// A name outside its grammar or limits.
    #[error("{field} {error}")]
    Name {
        /// The field, as in `spec.dependencies[0].group`.
        field: String,
        /// What is wrong with it.
        error: NameError,
    },
    /// A field path that can't be read.
    #[error("{field}: {error}")]
    Path {
        /// The field, as in `spec.dependencies[0].fieldRef.path`.
        field: String,
        /// What is wrong with it, and where.
        error: PathError,
    },
    /// An export that serves the core group.
    #[error("{field} is empty: the core group is always local, so name a group or leave {export} out")]
    CoreGroupExported {
        /// The field with the empty group.
        field: String,
        /// The field that makes it an exported kind.
        export: &'static str,
    },
    /// Export fields where there are no exports.
    #[error("{field} is set, but a plain Kubernetes cluster has no APIExports: leave it out")]
    ExportInKubernetes {
        /// The field that names an export.
        field: String,
    },
    /// Nothing says which workspace the rule belongs to.
    #[error(
        "the rule does not say its logical cluster: read it from a kcp, or set its annotation `{annotation}`",
        annotation = api::CLUSTER_ANNOTATION
    )]
    NoCluster,
}

impl Rule {
    /// Checks a DependencyRule as an API server returns it.
    ///
    /// In home kcp the rule's logical cluster comes from its annotation `kcp.io/cluster`; in home kubernetes, where
    /// whoever writes the rule could set it, the annotation is ignored.
    pub fn parse(home: Home, object: &Value) -> Result<Self, RuleError> {
        let wire = api::DependencyRule::deserialize(object).map_err(|error| RuleError::Shape(error.to_string()))?;
        let key = RuleKey::of(home, &wire.metadata);
        if home == Home::Kcp && key.cluster.is_none() {
            return Err(RuleError::NoCluster);
        }
        let dependent = parse_dependent(home, &wire.spec.dependent)?;
        let edges = (wire.spec.dependencies.iter().enumerate())
            .map(|(index, dependency)| parse_edge(home, index, dependency))
            .collect::<Result<_, _>>()?;
        Ok(Self { key, generation: wire.metadata.generation, dependent, edges })
    }

    /// Which rule this is.
    pub fn key(&self) -> &RuleKey {
        &self.key
    }

    /// The generation of `spec` that was parsed, where the API server counts them.
    pub fn generation(&self) -> Option<i64> {
        self.generation
    }

    /// The kind that holds the references.
    pub fn dependent(&self) -> &Dependent {
        &self.dependent
    }

    /// The kinds that it refers to, one edge a dependency.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }
}

impl RuleKey {
    pub(crate) fn of(home: Home, metadata: &api::ObjectMeta) -> Self {
        let annotation = metadata.annotations.get(api::CLUSTER_ANNOTATION);
        let cluster = match home {
            Home::Kcp => annotation.and_then(|cluster| LogicalCluster::parse(cluster).ok()),
            Home::Kubernetes => None,
        };
        Self { cluster, name: metadata.name.clone() }
    }
}

impl fmt::Display for RuleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cluster {
            Some(cluster) => write!(f, "{cluster}|{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

pub(crate) fn parse_dependent(home: Home, dependent: &api::Dependent) -> Result<Dependent, RuleError> {
    const EXPORT: &str = "spec.dependent.apiExportName";
    if let Some(old) = &dependent.api_export_ref {
        return Err(RuleError::OldExportRef { name: old.name.clone() });
    }
    let export =
        (dependent.api_export_name.as_deref()).map(|name| named(EXPORT, ExportName::parse(name))).transpose()?;
    if export.is_some() && home == Home::Kubernetes {
        return Err(RuleError::ExportInKubernetes { field: EXPORT.to_owned() });
    }
    let at = |field: &str| format!("spec.dependent.{field}");
    let gvr = parse_gvr(&at, &dependent.group, &dependent.version, &dependent.resource)?;
    if export.is_some() && gvr.group.is_core() {
        return Err(RuleError::CoreGroupExported { field: at("group"), export: EXPORT });
    }
    Ok(Dependent { export, gvr, kind: named(&at("kind"), Kind::parse(&dependent.kind))? })
}

pub(crate) fn parse_target(home: Home, index: usize, dependency: &api::Dependency) -> Result<Target, RuleError> {
    let at = |field: &str| format!("spec.dependencies[{index}].{field}");
    let export = match &dependency.api_export_ref {
        None => None,
        Some(_) if home == Home::Kubernetes => {
            return Err(RuleError::ExportInKubernetes { field: at("apiExportRef") });
        }
        Some(export) => Some(ExportRef {
            path: named(&at("apiExportRef.path"), WorkspacePath::parse(&export.path))?,
            name: named(&at("apiExportRef.name"), ExportName::parse(&export.name))?,
        }),
    };
    let gvr = parse_gvr(&at, &dependency.group, &dependency.version, &dependency.resource)?;
    if export.is_some() && gvr.group.is_core() {
        return Err(RuleError::CoreGroupExported { field: at("group"), export: "apiExportRef" });
    }
    Ok(Target { export, gvr })
}

fn parse_edge(home: Home, index: usize, dependency: &api::Dependency) -> Result<Edge, RuleError> {
    let target = parse_target(home, index, dependency)?;
    let path = FieldPath::parse(&dependency.field_ref.path)
        .map_err(|error| RuleError::Path { field: format!("spec.dependencies[{index}].fieldRef.path"), error })?;
    Ok(Edge { index, target, path })
}

fn parse_gvr(
    at: &dyn Fn(&str) -> String,
    group: &str,
    version: &str,
    resource: &str,
) -> Result<GroupVersionResource, RuleError> {
    Ok(GroupVersionResource {
        group: named(&at("group"), Group::parse(group))?,
        version: named(&at("version"), Version::parse(version))?,
        resource: named(&at("resource"), Resource::parse(resource))?,
    })
}

fn named<T>(field: &str, parsed: Result<T, NameError>) -> Result<T, RuleError> {
    parsed.map_err(|error| RuleError::Name { field: field.to_owned(), error })
}
