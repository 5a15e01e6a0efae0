//! Drafts of rules that a command writes for the user to apply.

use depguard_core::api::{
    self, CLUSTER_ANNOTATION, Dependency, DependencyRule, DependencyRuleSpec, Dependent, ObjectMeta,
};
use depguard_core::model::Segment;
use depguard_core::{ControlPlane, ExportName, Rule, WorkspacePath, schema};

/// APIExport and the path of its workspace.
#[derive(Debug, Clone)]
pub(crate) struct ExportAt {
    pub(crate) name: ExportName,
    pub(crate) path: WorkspacePath,
}

/// Parses an export as flags take it: `network.example.com=root:providers:network`.
pub(crate) fn export_at(text: &str) -> Result<ExportAt, String> {
    let (name, path) = text.split_once('=').ok_or("write NAME=PATH, as in certs.example.com=root:providers:certs")?;
    Ok(ExportAt {
        name: ExportName::parse(name).map_err(|why| why.to_string())?,
        path: WorkspacePath::parse(path).map_err(|why| why.to_string())?,
    })
}

/// Builds a rule without dependencies.
pub(crate) fn rule(name: String, dependent: Dependent) -> DependencyRule {
    DependencyRule {
        api_version: format!("{}/{}", api::GROUP, api::VERSION),
        kind: api::KIND.to_owned(),
        metadata: ObjectMeta { name, ..ObjectMeta::default() },
        spec: DependencyRuleSpec { failure_policy: None, dependent, dependencies: Vec::new() },
        status: None,
    }
}

/// Checks that the core accepts a rule with this dependency alone, and that API servers ask about its targets.
pub(crate) fn can_be_used(
    rule: &DependencyRule,
    dependency: &Dependency,
    control_plane: ControlPlane,
) -> Result<(), String> {
    let mut rule = rule.clone();
    rule.spec.dependencies = vec![dependency.clone()];
    if control_plane == ControlPlane::Kcp {
        // kcp adds this annotation to each object that it stores.
        rule.metadata.annotations.insert(CLUSTER_ANNOTATION.to_owned(), "unknown".to_owned());
    }
    let rule = serde_json::to_value(&rule).map_err(|why| why.to_string())?;
    let rule = Rule::parse(control_plane, &rule).map_err(|why| why.to_string())?;
    schema::unreviewed(&rule).into_iter().next().map_or(Ok(()), |(_, why)| Err(why))
}

/// Returns a property's name as the next segment of a field path.
pub(crate) fn segment(name: &str) -> String {
    Segment::Name(name.to_owned()).to_string()
}
