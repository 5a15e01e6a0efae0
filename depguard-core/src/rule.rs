use std::fmt;

use crate::model::api;
use crate::model::api::{FailurePolicy, OnDelete, OnMissing, OwnedDependents};
use crate::model::control_plane::ControlPlane;
use crate::model::field_path::FieldPath;
use crate::model::label_selector::Selector;
use crate::model::message_template::Message;
use crate::model::names::{ExportName, GroupVersionResource, Kind, LogicalCluster, ObjectName, WorkspacePath};

pub(crate) mod checked_rule;
pub(crate) mod compiled_edge;
mod compiled_rule;
pub(crate) mod cycles;
pub(crate) mod error;
pub(crate) mod kind_edges;
mod kind_order;
mod missing_field;
mod parse;
mod partial_rule;
mod reference;
pub(crate) mod reference_constraint;
mod rule_version;
pub(crate) mod set;

pub(crate) use checked_rule::Rule;
pub use compiled_rule::CompiledRule;
pub(crate) use error::RuleError;
pub use kind_order::KindOrder;
pub use partial_rule::PartialRule;
pub use reference::{FieldCondition, FieldReference, FixedReference, Place, Reference, SelectorReference, ValueSource};
pub use rule_version::RuleVersion;

/// Key of a rule: its name, and in kcp its logical cluster, which is also the logical cluster of the dependents'
/// APIExport.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a name has no more parts")]
pub struct RuleKey {
    /// The rule's own logical cluster; `None` on plain Kubernetes.
    pub cluster: Option<LogicalCluster>,
    /// The rule's name.
    pub name: String,
}

/// The kind that holds the references.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dependent {
    /// The APIExport in the rule's own workspace that serves the kind; `None` for a local kind.
    pub export: Option<ExportName>,
    /// The resource, and the version in which it is read.
    pub gvr: GroupVersionResource,
    /// The kind, for messages.
    pub kind: Kind,
    /// Selector of the dependents that count; `None`: all of them count.
    pub selector: Option<Selector>,
}

/// One dependency of a rule: dependent kind → target kind, through a field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Edge {
    /// The index in `spec.dependencies`.
    pub index: usize,
    /// The kind to which the dependent refers.
    pub target: Target,
    /// The way in which the dependent names or selects its target.
    pub reference: Reference,
    /// The conditions under which the reference counts: all of them must hold.
    pub when: Vec<FieldCondition>,
    /// True if the reference may point to nothing.
    pub optional: bool,
    /// The names of targets to which no reference counts.
    pub exclude_names: Vec<ObjectName>,
    /// The outcome for the deletion of a target that is still referenced.
    pub on_delete: OnDelete,
    /// Treatment of dependents that the target owns.
    pub owned_dependents: OwnedDependents,
    /// The outcome for a dependent that begins to refer to a target that is not there.
    pub on_missing: OnMissing,
    /// Additional text for the user who deletes.
    pub message: Option<Message>,
}

/// Reason in a rule why a new reference and the deletion of its target may both be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the controller words each reason")]
pub enum InterlockObstacle {
    /// A reference to a missing target is allowed.
    MissingAllowed,
    /// In doubt both are allowed.
    FailurePolicyIgnore,
    /// The deletion of a referenced target is allowed.
    DeletionAllowed,
    /// The reference selects its targets by labels.
    NoSingleTarget,
    /// The targets are Pods, which evictions delete, too.
    Evictions,
    /// The dependents are Pods, and the rule reads fields that a Pod's binding may change.
    Bindings,
    /// The rule reads the status of a kind of Kubernetes, which API servers change themselves, too.
    Status,
}

/// The kind to which a dependent refers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target {
    /// The APIExport that serves the kind; `None` for a local kind.
    pub export: Option<ExportRef>,
    /// The resource. Its version is one of those served; all served versions are protected.
    pub gvr: GroupVersionResource,
    /// The kind, if the rule names it.
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

impl Edge {
    /// Returns true if no reference to a target of this name counts.
    pub fn excludes(&self, name: &str) -> bool {
        self.exclude_names.iter().any(|excluded| excluded.as_str() == name)
    }

    /// Returns the referring field as refusals name it: `spec.vpcRef.name`. Empty if the rule itself names or
    /// selects the targets.
    pub fn field(&self) -> String {
        match self.reference {
            Reference::Fixed(_) | Reference::Selected(_) => String::new(),
            Reference::Field(_) | Reference::Selector(_) => self.reference.path().as_field(),
        }
    }

    /// Returns the reason in the rule itself why a new reference and the deletion of its target may both be allowed, even
    /// if the interlock is on; `None` if there is none. About an edge with a reason the webhook records no marks: they
    /// would hold requests up for nothing.
    pub fn interlock_obstacle(
        &self,
        dependent: &Dependent,
        failure_policy: FailurePolicy,
    ) -> Option<InterlockObstacle> {
        let Self {
            index: _,
            target,
            reference,
            when: _,
            // Such a reference has no `onMissing`.
            optional: _,
            // No reference to such a name counts.
            exclude_names: _,
            on_delete,
            // Other rules and locks decide if an owned dependent goes after its target.
            owned_dependents: _,
            on_missing,
            message: _,
        } = self;
        let reads = |field| self.may_read(dependent, field);
        let kind = &dependent.gvr;
        if *on_missing != OnMissing::Deny {
            Some(InterlockObstacle::MissingAllowed)
        } else if failure_policy != FailurePolicy::Fail {
            Some(InterlockObstacle::FailurePolicyIgnore)
        } else if *on_delete != OnDelete::Deny {
            Some(InterlockObstacle::DeletionAllowed)
        } else if reference.selects() {
            Some(InterlockObstacle::NoSingleTarget)
        } else if target.gvr.is_pods() {
            Some(InterlockObstacle::Evictions)
        } else if kind.is_pods() && (reads("metadata") || reads("spec")) {
            Some(InterlockObstacle::Bindings)
        } else {
            (kind.group.may_be_built_in() && reads("status")).then_some(InterlockObstacle::Status)
        }
    }

    /// Returns true if a path of the edge may lead into this field of a dependent, or the rule selects dependents by
    /// labels there.
    fn may_read(&self, dependent: &Dependent, field: &str) -> bool {
        let mut paths = self.paths();
        paths.any(|(_, path)| path.leading_names().next().is_none_or(|first| first == field))
            || (field == "metadata" && dependent.selector.is_some())
    }

    /// Returns every path that is read in a dependent, with the field of the dependency that holds the path:
    /// `fieldRef.path`, …
    pub fn paths(&self) -> impl Iterator<Item = (&'static str, &FieldPath)> {
        let Self {
            index: _,
            target: _,
            reference,
            when,
            optional: _,
            exclude_names: _,
            on_delete: _,
            owned_dependents: _,
            on_missing: _,
            message: _,
        } = self;
        reference.paths().chain(conditions(when).map(|(field, FieldCondition { path, .. })| (field, path)))
    }

    /// Returns the condition whose path this field of the dependency holds: `when.path`, …
    pub(crate) fn condition(&self, field: &str) -> Option<&FieldCondition> {
        conditions(&self.when).find(|(of, _)| *of == field).map(|(_, condition)| condition)
    }

    /// Returns the path of each field that decides if a reference of a dependent counts, and what it means: a reference
    /// can begin to count only if one of these fields changes.
    pub fn inputs(&self, dependent: &Dependent) -> impl Iterator<Item = FieldPath> {
        let Dependent { export: _, gvr: _, kind: _, selector } = dependent;
        let labels: Vec<_> = selector.iter().flat_map(Selector::keys).map(FieldPath::label).collect();
        self.paths().map(|(_, path)| path.clone()).chain(labels)
    }
}

/// Returns each condition with the field of the dependency that holds its path.
fn conditions(when: &[FieldCondition]) -> impl Iterator<Item = (&'static str, &FieldCondition)> {
    ["when.path"].into_iter().chain(FieldCondition::FURTHER).zip(when)
}

impl RuleKey {
    pub(crate) fn from_metadata(control_plane: ControlPlane, metadata: &api::ObjectMeta) -> Self {
        let annotation = metadata.annotations.get(api::CLUSTER_ANNOTATION);
        let cluster = match control_plane {
            ControlPlane::Kcp => annotation.and_then(|cluster| LogicalCluster::parse(cluster).ok()),
            ControlPlane::Kubernetes => None,
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
