//! Best-effort reading of a rule's kinds, even if the rule can't be used.
//!
//! A rule that can't be evaluated must not lift the protection that it was meant to give. Such a rule therefore
//! applies where it would have applied, and refuses there. If not even that is known, the rule has no effect:
//! otherwise a rule with an unreadable dependent kind or export would let a stranger freeze other people's objects.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::model::api::{FailurePolicy, OnDelete, OnMissing};
use crate::model::control_plane::ControlPlane;
use crate::model::names::{ExportName, Group, GroupResource, Resource, WorkspacePath};
use crate::rule::{ExportRef, RuleKey};

/// The kinds that a rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartialRule {
    /// The rule's key.
    pub key: RuleKey,
    /// The APIExport of the rule's own workspace that serves the dependents; `None` for a local kind.
    pub dependent_export: Option<ExportName>,
    /// The kind of the dependents.
    pub dependent: GroupResource,
    /// The kinds of the targets that could be read, each with its APIExport, or `None` for a local kind.
    pub targets: Vec<(Option<ExportRef>, GroupResource)>,
    /// The outcome for the deletion of each target: `Deny`, unless the rule clearly says otherwise.
    pub on_delete: Vec<OnDelete>,
    /// The strictest outcome for a dependent whose target is not there. One that can't be read counts as `Deny`.
    pub on_missing: OnMissing,
    /// The outcome if the rule can't be evaluated: `Fail`, unless the rule clearly says otherwise.
    pub failure_policy: FailurePolicy,
}

impl PartialRule {
    /// Reads as much as possible; `None` if the kind of the dependents is unknown.
    pub fn read(control_plane: ControlPlane, object: &Value) -> Option<Self> {
        let metadata = object.get("metadata").and_then(|metadata| serde::Deserialize::deserialize(metadata).ok());
        let spec = object.get("spec")?;
        let dependent = spec.get("dependent")?;
        let dependent_export = match control_plane {
            // There are no exports: the kind is the cluster's own, whatever else the rule says about it.
            ControlPlane::Kubernetes => None,
            ControlPlane::Kcp => match (given(dependent, "apiExportName"), given(dependent, "apiExportRef")) {
                (Some(name), _) => Some(ExportName::parse(name.as_str()?).ok()?),
                (None, Some(old)) => Some(ExportName::parse(old.get("name")?.as_str()?).ok()?),
                (None, None) => None,
            },
        };
        let dependencies = spec.get("dependencies").and_then(Value::as_array).into_iter().flatten();
        let on_missing = dependencies.clone().filter_map(|dependency| given(dependency, "onMissing"));
        let on_missing = on_missing.map(|written| OnMissing::deserialize(written).unwrap_or(OnMissing::Deny)).max();
        let targets = dependencies.filter_map(|dependency| {
            Some((target(control_plane, dependency)?, clear::<OnDelete>(dependency, "onDelete")))
        });
        let (targets, on_delete): (Vec<_>, Vec<_>) = targets.unzip();
        Some(Self {
            key: RuleKey::from_metadata(control_plane, &metadata.unwrap_or_default()),
            dependent_export,
            dependent: group_resource(dependent)?,
            targets,
            on_delete,
            on_missing: on_missing.unwrap_or_default(),
            failure_policy: clear(spec, "failurePolicy"),
        })
    }
}

fn target(control_plane: ControlPlane, dependency: &Value) -> Option<(Option<ExportRef>, GroupResource)> {
    let export = match (control_plane, given(dependency, "apiExportRef")) {
        (ControlPlane::Kubernetes, _) | (ControlPlane::Kcp, None) => None,
        (ControlPlane::Kcp, Some(export)) => Some(ExportRef {
            path: WorkspacePath::parse(export.get("path")?.as_str()?).ok()?,
            name: ExportName::parse(export.get("name")?.as_str()?).ok()?,
        }),
    };
    Some((export, group_resource(dependency)?))
}

/// Returns the value of a field, or the default if the value can't be read.
fn clear<T: DeserializeOwned + Default>(object: &Value, field: &str) -> T {
    object.get(field).and_then(|value| T::deserialize(value).ok()).unwrap_or_default()
}

/// Returns a field that is present and not `null`. A `null` counts as left out.
fn given<'v>(object: &'v Value, field: &str) -> Option<&'v Value> {
    object.get(field).filter(|value| !value.is_null())
}

fn group_resource(kind: &Value) -> Option<GroupResource> {
    let text = |field: &str| kind.get(field)?.as_str();
    Some(GroupResource {
        group: Group::parse(text("group")?).ok()?,
        resource: Resource::parse(text("resource")?).ok()?,
    })
}
