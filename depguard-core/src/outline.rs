//! What a rule speaks of, read as far as it can be, also from a rule that can't be used.
//!
//! A rule that can't be evaluated must not lift the protection it was meant to give. So it counts where it would have
//! counted, and refuses there. Where not even that can be told, it counts nowhere: a rule whose dependents or export
//! are unreadable would else let a stranger freeze other people's objects.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::{FailurePolicy, OnDelete};
use crate::home::Home;
use crate::names::{ExportName, Group, GroupResource, Resource, WorkspacePath};
use crate::rule::{ExportRef, RuleKey};

/// Which kinds a rule speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outline {
    /// Which rule.
    pub key: RuleKey,
    /// The APIExport of the rule's own workspace that serves the dependents; `None` for a local kind.
    pub dependent_export: Option<ExportName>,
    /// The kind of the dependents.
    pub dependent: GroupResource,
    /// The kinds of the targets that could be read, each with its APIExport, or `None` for a local kind.
    pub targets: Vec<(Option<ExportRef>, GroupResource)>,
    /// What happens to the deletion of each of them: `Deny` unless it clearly says another.
    pub on_delete: Vec<OnDelete>,
    /// What happens when the rule can't be evaluated: `Fail` unless it clearly says another.
    pub failure_policy: FailurePolicy,
}

impl Outline {
    /// Reads what it can; `None` where it can't be told which kind the dependents are.
    pub fn read(home: Home, object: &Value) -> Option<Self> {
        let metadata = object.get("metadata").and_then(|metadata| serde::Deserialize::deserialize(metadata).ok());
        let spec = object.get("spec")?;
        let dependent = spec.get("dependent")?;
        let dependent_export = match home {
            // There are no exports: the kind is the cluster's own, whatever else the rule says of it.
            Home::Kubernetes => None,
            Home::Kcp => match (given(dependent, "apiExportName"), given(dependent, "apiExportRef")) {
                (Some(name), _) => Some(ExportName::parse(name.as_str()?).ok()?),
                (None, Some(old)) => Some(ExportName::parse(old.get("name")?.as_str()?).ok()?),
                (None, None) => None,
            },
        };
        let dependencies = spec.get("dependencies").and_then(Value::as_array).into_iter().flatten();
        let targets = dependencies
            .filter_map(|dependency| Some((target(home, dependency)?, clear::<OnDelete>(dependency, "onDelete"))));
        let (targets, on_delete): (Vec<_>, Vec<_>) = targets.unzip();
        Some(Self {
            key: RuleKey::of(home, &metadata.unwrap_or_default()),
            dependent_export,
            dependent: group_resource(dependent)?,
            targets,
            on_delete,
            failure_policy: clear(spec, "failurePolicy"),
        })
    }
}

fn target(home: Home, dependency: &Value) -> Option<(Option<ExportRef>, GroupResource)> {
    let export = match (home, given(dependency, "apiExportRef")) {
        (Home::Kubernetes, _) | (Home::Kcp, None) => None,
        (Home::Kcp, Some(export)) => Some(ExportRef {
            path: WorkspacePath::parse(export.get("path")?.as_str()?).ok()?,
            name: ExportName::parse(export.get("name")?.as_str()?).ok()?,
        }),
    };
    Some((export, group_resource(dependency)?))
}

/// What a field says, or the default where it doesn't clearly say anything.
fn clear<T: DeserializeOwned + Default>(object: &Value, field: &str) -> T {
    object.get(field).and_then(|value| T::deserialize(value).ok()).unwrap_or_default()
}

/// A field that is there, and not `null`, which is as good as left out.
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
