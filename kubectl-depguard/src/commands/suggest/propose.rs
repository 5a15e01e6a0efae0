//! From references to rules: one a kind of dependent, each of whose dependencies can be used as it stands.

use std::collections::BTreeSet;

use depguard_core::Home;
use depguard_core::api::{Dependency, DependencyRule, Dependent, ExportRef, FieldRef};
use serde::Serialize;

use super::definition::Definition;
use super::fields;
use super::reference::{Confidence, Found, GroupPath, judge};
use super::targets::{Kinds, Target};
use crate::draft;
use crate::kinds::resource_name;

/// What is proposed for a kind of dependent.
#[derive(Debug, Serialize)]
pub(super) struct Proposal {
    /// The dependents' kind, in the words of `kubectl`: `virtualmachines.compute.example.com`.
    pub(super) dependent: String,
    /// Without dependencies where none was found that can be used.
    #[serde(skip_serializing_if = "has_no_dependencies")]
    pub(super) rule: DependencyRule,
    /// Beside each dependency of the rule, why it is one.
    pub(super) references: Vec<Reason>,
    /// References for which there is no dependency.
    pub(super) unresolved: Vec<Reason>,
}

/// Why a field is taken for a reference.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Reason {
    pub(super) path: String,
    /// `vpcs.network.example.com`; none where the kind isn't known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<String>,
    pub(super) confidence: Confidence,
    pub(super) reason: String,
}

fn has_no_dependencies(rule: &DependencyRule) -> bool {
    rule.spec.dependencies.is_empty()
}

/// Proposes rules for the kinds that seem to refer to others, at least as surely as `least`.
pub(super) fn proposals(definitions: &[Definition], home: Home, least: Confidence) -> Vec<Proposal> {
    let kinds = Kinds::new(definitions);
    let mut names = BTreeSet::new();
    let proposals = definitions.iter().map(|definition| {
        let mut proposal = Proposal::of(definition, home);
        for found in references(definition, &kinds).into_iter().filter(|found| found.confidence >= least) {
            proposal.add(&found, definition, home);
        }
        let metadata = &mut proposal.rule.metadata;
        if !names.insert(metadata.name.clone()) {
            metadata.name.clone_from(&proposal.dependent);
        }
        proposal
    });
    proposals.filter(|proposal| !proposal.references.is_empty() || !proposal.unresolved.is_empty()).collect()
}

/// The likely references of a kind, by their paths.
pub(super) fn references(definition: &Definition, kinds: &Kinds) -> Vec<Found> {
    let mut found = Vec::new();
    fields::each(&definition.schema, &mut |field| found.extend(judge(field, kinds, &definition.name)));
    found.sort_by(|one: &Found, other| one.path.cmp(&other.path));
    found
}

impl Proposal {
    fn of(definition: &Definition, home: Home) -> Self {
        let name = &definition.name;
        let export = definition.export.as_ref().filter(|_| home == Home::Kcp);
        let dependent = Dependent {
            api_export_name: export.map(|export| export.name.clone()),
            api_export_ref: None,
            group: name.group.clone(),
            version: name.version.clone(),
            kind: name.kind.clone(),
            resource: name.resource.clone(),
            selector: None,
        };
        let rule = draft::rule(name.resource.clone(), dependent);
        let dependent = resource_name(&name.resource, &name.group);
        Self { dependent, rule, references: Vec::new(), unresolved: Vec::new() }
    }

    fn add(&mut self, found: &Found, definition: &Definition, home: Home) {
        let reason = |target: Option<&Target>, reason: String| Reason {
            path: found.path.clone(),
            target: target.map(|target| resource_name(&target.name.resource, &target.name.group)),
            confidence: found.confidence,
            reason,
        };
        if found.targets.is_empty() {
            self.unresolved.push(reason(None, format!("{}: name the kind in a rule of your own", found.why)));
        }
        for target in &found.targets {
            let dependency = export_of(target, definition, home).map(|export| dependency(found, target, export));
            match dependency.and_then(|dependency| self.checked(dependency, home)) {
                Ok(dependency) => {
                    self.rule.spec.dependencies.push(dependency);
                    self.references.push(reason(Some(target), found.why.clone()));
                }
                Err(why) => self.unresolved.push(reason(Some(target), format!("{}; {why}", found.why))),
            }
        }
    }

    /// The dependency, if a rule of it alone can be used.
    fn checked(&self, dependency: Dependency, home: Home) -> Result<Dependency, String> {
        draft::can_be_used(&self.rule, &dependency, home).map_err(|why| format!("no rule can say so: {why}"))?;
        Ok(dependency)
    }
}

/// By which export a rule names a target; an error where it can't.
fn export_of(target: &Target, dependent: &Definition, home: Home) -> Result<Option<ExportRef>, String> {
    if home == Home::Kubernetes {
        return Ok(None);
    }
    let kind = &target.name.kind;
    match (&dependent.export, &target.export) {
        (None, None) => Ok(None),
        (Some(own), None) => Err(format!(
            "`{kind}` is served by no APIExport that is given, and a rule of the APIExport `{}` bears on no local kind",
            own.name
        )),
        (_, Some(export)) => match &export.workspace {
            Some(path) => Ok(Some(ExportRef { path: path.clone(), name: export.name.clone() })),
            None => Err(format!(
                "where the APIExport `{0}` is isn't known: say it, as in `--export {0}=root:providers:network`",
                export.name
            )),
        },
    }
}

fn dependency(found: &Found, target: &Target, export: Option<ExportRef>) -> Dependency {
    let (group_path, api_version_path) = match &found.group {
        Some(GroupPath::Group(path)) => (Some(path.clone()), None),
        Some(GroupPath::ApiVersion(path)) => (None, Some(path.clone())),
        None => (None, None),
    };
    Dependency {
        api_export_ref: export,
        group: target.name.group.clone(),
        version: target.name.version.clone(),
        resource: target.name.resource.clone(),
        kind: Some(target.name.kind.clone()),
        field_ref: Some(FieldRef {
            path: found.path.clone(),
            namespace_path: found.namespace.clone().filter(|_| target.name.namespaced),
            kind_path: found.kind.clone(),
            group_path,
            api_version_path,
            ..FieldRef::default()
        }),
        selector_ref: None,
        when: None,
        on_delete: None,
        owned_dependents: None,
        message: None,
    }
}
