//! A rule that was checked: whoever holds a [`Rule`] knows that all its names, paths and patterns are right.

use std::fmt;

use serde_json::Value;

use crate::api;
use crate::api::{FailurePolicy, OnDelete, OwnedDependents};
use crate::home::Home;
use crate::message::Message;
use crate::names::{ExportName, GroupVersionResource, Kind, LogicalCluster, WorkspacePath};
use crate::path::FieldPath;
use crate::selector::Selector;

mod error;
mod parse;
mod reference;

pub use error::RuleError;
pub use reference::{FieldReference, Place, Reference, When};

/// A checked DependencyRule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    key: RuleKey,
    generation: Option<i64>,
    failure_policy: FailurePolicy,
    dependent: Dependent,
    edges: Vec<Edge>,
}

/// Which rule: its name, and in kcp its logical cluster, which is also that of the dependents' APIExport.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a name has no more parts")]
pub struct RuleKey {
    /// The rule's own logical cluster; `None` in home kubernetes.
    pub cluster: Option<LogicalCluster>,
    /// The rule's name.
    pub name: String,
}

/// The kind that holds the references.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dependent {
    /// The APIExport of the rule's own workspace that serves it; `None` for a local kind.
    pub export: Option<ExportName>,
    /// The resource, and the version in which it is read.
    pub gvr: GroupVersionResource,
    /// The kind, for messages.
    pub kind: Kind,
    /// Only dependents that it selects count; `None`: all of them.
    pub selector: Option<Selector>,
}

/// One dependency of a rule: dependent kind → target kind, through a field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Edge {
    /// The index in `spec.dependencies`.
    pub index: usize,
    /// The kind that is referred to.
    pub target: Target,
    /// How the dependent says which target.
    pub reference: Reference,
    /// The reference counts only then; `None`: always.
    pub when: Option<When>,
    /// What happens to the deletion of a target that is still referenced.
    pub on_delete: OnDelete,
    /// Whether a dependent counts that the target owns.
    pub owned_dependents: OwnedDependents,
    /// What is said besides.
    pub message: Option<Message>,
}

/// The kind that is referred to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target {
    /// The APIExport that serves it; `None` for a local kind.
    pub export: Option<ExportRef>,
    /// The resource; its version is one of those served, and all of them are protected.
    pub gvr: GroupVersionResource,
    /// The kind, where the rule says it.
    pub kind: Option<Kind>,
}

/// An APIExport, by its workspace's path and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a name has no more parts")]
pub struct ExportRef {
    /// The provider's workspace path.
    pub path: WorkspacePath,
    /// The APIExport's name.
    pub name: ExportName,
}

impl Rule {
    /// Checks a DependencyRule as an API server returns it.
    ///
    /// In home kcp the rule's logical cluster comes from its annotation `kcp.io/cluster`; in home kubernetes, where
    /// whoever writes the rule could set it, the annotation is ignored.
    pub fn parse(home: Home, object: &Value) -> Result<Self, RuleError> {
        parse::rule(home, object)
    }

    /// Which rule this is.
    pub fn key(&self) -> &RuleKey {
        &self.key
    }

    /// The generation of `spec` that was parsed, where the API server counts them.
    pub fn generation(&self) -> Option<i64> {
        self.generation
    }

    /// What happens when it can't be evaluated.
    pub fn failure_policy(&self) -> FailurePolicy {
        self.failure_policy
    }

    /// The kind that holds the references.
    pub fn dependent(&self) -> &Dependent {
        &self.dependent
    }

    /// The kinds that it refers to, one edge a dependency.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Its edges, which it then has no more.
    pub(crate) fn take_edges(&mut self) -> Vec<Edge> {
        std::mem::take(&mut self.edges)
    }
}

impl Edge {
    /// The field that refers, as refusals name it: `spec.vpcRef.name`. Empty where no field does, but the rule itself.
    pub fn field(&self) -> String {
        match self.reference {
            Reference::Selected(_) => String::new(),
            Reference::Field(_) | Reference::Selector(_) => self.reference.path().as_field(),
        }
    }

    /// Every path that is read in a dependent, and the field of the dependency that says it: `fieldRef.path`, …
    pub fn paths(&self) -> impl Iterator<Item = (&'static str, &FieldPath)> {
        let when = self.when.iter().map(|when| ("when.path", &when.path));
        self.reference.paths().chain(when)
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
