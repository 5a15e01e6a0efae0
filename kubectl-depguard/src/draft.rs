//! Rules that are yet to be applied, as commands write them.

use depguard_core::api::{
    self, CLUSTER_ANNOTATION, Dependency, DependencyRule, DependencyRuleSpec, Dependent, ObjectMeta,
};
use depguard_core::{ExportName, Home, Rule, Segment, WorkspacePath};

/// An APIExport, and the workspace that it is in.
#[derive(Debug, Clone)]
pub(crate) struct ExportAt {
    pub(crate) name: ExportName,
    pub(crate) path: WorkspacePath,
}

/// `network.example.com=root:providers:network`, as flags take it.
pub(crate) fn export_at(text: &str) -> Result<ExportAt, String> {
    let (name, path) = text.split_once('=').ok_or("write NAME=PATH, as in certs.example.com=root:providers:certs")?;
    Ok(ExportAt {
        name: ExportName::parse(name).map_err(|why| why.to_string())?,
        path: WorkspacePath::parse(path).map_err(|why| why.to_string())?,
    })
}

/// A rule without dependencies.
pub(crate) fn rule(name: String, dependent: Dependent) -> DependencyRule {
    DependencyRule {
        api_version: format!("{}/{}", api::GROUP, api::VERSION),
        kind: api::KIND.to_owned(),
        metadata: ObjectMeta { name, ..ObjectMeta::default() },
        spec: DependencyRuleSpec { failure_policy: None, dependent, dependencies: Vec::new() },
        status: None,
    }
}

/// Whether the core can use a rule that has this dependency alone.
pub(crate) fn can_be_used(rule: &DependencyRule, dependency: &Dependency, home: Home) -> Result<(), String> {
    let mut rule = rule.clone();
    rule.spec.dependencies = vec![dependency.clone()];
    if home == Home::Kcp {
        // kcp adds it to what it stores.
        rule.metadata.annotations.insert(CLUSTER_ANNOTATION.to_owned(), "unknown".to_owned());
    }
    let rule = serde_json::to_value(&rule).map_err(|why| why.to_string())?;
    Rule::parse(home, &rule).map(drop).map_err(|why| why.to_string())
}

/// How a path leads on to a property.
pub(crate) fn segment(name: &str) -> String {
    Segment::Name(name.to_owned()).to_string()
}
