//! Proposals of rules from references: one rule for each kind of dependent, in which every dependency can be used as it
//! is.

use depguard_controller::manifests::dependents_of;
use depguard_core::ControlPlane;
use depguard_core::api::{Dependency, DependencyRule, Dependent, ExportRef, FieldRef};
use depguard_core::model::Kind;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::definition::Definition;
use super::fields;
use super::reference::{Confidence, GroupPath, ReferenceCandidate, candidate_of};
use super::targets::{Kinds, Target};
use crate::cluster::kinds::resource_name;
use crate::engine::rule_draft;

/// Proposal for one kind of dependent.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Proposal {
    /// Kind of the dependents as kubectl names it: `virtualmachines.compute.example.com`.
    pub(super) dependent: String,
    /// Proposed rule; without dependencies if none can be used.
    #[serde(skip_serializing_if = "has_no_dependencies")]
    #[schemars(with = "Map<String, Value>")]
    pub(super) rule: DependencyRule,
    /// ClusterRole that lets the webhook list the dependents, for rules that are applied as they are printed.
    #[serde(rename = "clusterRole", skip_serializing_if = "Option::is_none")]
    pub(super) cluster_role: Option<Value>,
    /// Reasons, one for each dependency of the rule.
    pub(super) references: Vec<Reason>,
    /// References without a dependency.
    pub(super) unresolved: Vec<Reason>,
}

/// Reason to take a field for a reference.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct Reason {
    pub(super) path: String,
    /// Target such as `vpcs.network.example.com`; `None` if the kind is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<String>,
    pub(super) confidence: Confidence,
    pub(super) reason: String,
}

fn has_no_dependencies(rule: &DependencyRule) -> bool {
    rule.spec.dependencies.is_empty()
}

/// Proposes rules for the kinds that seem to refer to others, with at least the confidence `least`.
pub(super) fn proposals(definitions: &[Definition], control_plane: ControlPlane, least: Confidence) -> Vec<Proposal> {
    let kinds = Kinds::new(definitions);
    let proposals = definitions.iter().map(|definition| {
        let mut proposal = Proposal::from_definition(definition, control_plane);
        for found in references(definition, &kinds).into_iter().filter(|found| found.confidence >= least) {
            proposal.add(&found, definition, control_plane);
        }
        proposal
    });
    proposals.filter(|proposal| !proposal.references.is_empty() || !proposal.unresolved.is_empty()).collect()
}

/// Proposes rules by which each definition, and the object that made it, stays while objects of its kind exist. Each rule
/// comes with a ClusterRole of its own, so that none of them takes the rights of another away.
pub(super) fn proposals_of_definitions(definitions: &[Definition]) -> Result<Vec<Proposal>, serde_json::Error> {
    definitions.iter().map(|definition| Proposal::about_definition(definition, definitions)).collect()
}

/// Returns the likely references of a kind, sorted by path.
pub(super) fn references(definition: &Definition, kinds: &Kinds) -> Vec<ReferenceCandidate> {
    let mut found = Vec::new();
    fields::each(&definition.schema, &mut |field| found.extend(candidate_of(field, kinds, &definition.name)));
    found.sort_by(|one: &ReferenceCandidate, other| one.path.cmp(&other.path));
    found
}

impl Proposal {
    fn from_definition(definition: &Definition, control_plane: ControlPlane) -> Self {
        let name = &definition.name;
        let export = definition.export.as_ref().filter(|_| control_plane == ControlPlane::Kcp);
        let dependent = Dependent {
            api_export_name: export.map(|export| export.name.clone()),
            api_export_ref: None,
            group: name.group.clone(),
            version: name.version.clone(),
            kind: name.kind.clone(),
            resource: name.resource.clone(),
            selector: None,
        };
        // A resource alone may be the name of another rule, which this one would replace.
        let kind = resource_name(&name.resource, &name.group);
        let rule = rule_draft::rule(kind.clone(), dependent);
        Self { dependent: kind, rule, cluster_role: None, references: Vec::new(), unresolved: Vec::new() }
    }

    fn about_definition(definition: &Definition, all: &[Definition]) -> Result<Self, serde_json::Error> {
        const DEFINITIONS: [&str; 3] = ["apiextensions.k8s.io", "v1", "customresourcedefinitions"];
        let control_plane = ControlPlane::Kubernetes;
        let mut proposal = Self::from_definition(definition, control_plane);
        let dependent = proposal.dependent.clone();
        proposal.rule.metadata.name = format!("definition-{dependent}");
        proposal.add_named(DEFINITIONS, &dependent, format!("{dependent} is the definition of the kind"));
        for owner in &definition.owners {
            let reason = format!("{}/{} made the definition", owner.kind, owner.name);
            let kind = all.iter().map(|definition| &definition.name);
            match kind.clone().find(|kind| kind.group == owner.group && kind.kind == owner.kind) {
                Some(kind) => proposal.add_named([&kind.group, &kind.version, &kind.resource], &owner.name, reason),
                None => proposal.unresolved.push(Reason {
                    path: String::new(),
                    target: None,
                    confidence: Confidence::High,
                    reason: format!("{reason}, but the definition of its kind is not given"),
                }),
            }
        }
        if !proposal.references.is_empty() {
            let rule = serde_json::to_value(&proposal.rule)?;
            let name = format!("depguard-webhook-{}", proposal.rule.metadata.name);
            proposal.cluster_role = Some(dependents_of(&name, &[rule]));
        }
        Ok(proposal)
    }

    /// Adds the target of that name, to which each dependent refers.
    fn add_named(&mut self, [group, version, resource]: [&str; 3], name: &str, reason: String) {
        let field = FieldRef { value: Some(name.to_owned()), ..FieldRef::default() };
        let dependency = plain([group, version, resource], field);
        let target = Some(resource_name(resource, group));
        let mut reason = Reason { path: String::new(), target, confidence: Confidence::High, reason };
        match self.checked(dependency, ControlPlane::Kubernetes) {
            Ok(dependency) => {
                self.rule.spec.dependencies.push(dependency);
                self.references.push(reason);
            }
            Err(why) => {
                reason.reason = format!("{}; {why}", reason.reason);
                self.unresolved.push(reason);
            }
        }
    }

    fn add(&mut self, found: &ReferenceCandidate, definition: &Definition, control_plane: ControlPlane) {
        let reason = |target: Option<&Target>, reason: String| Reason {
            path: found.path.clone(),
            target: target.map(|target| resource_name(&target.name.resource, &target.name.group)),
            confidence: found.confidence,
            reason,
        };
        if found.targets.is_empty() {
            self.unresolved.push(reason(None, format!("{}; name the kind in a rule of your own", found.why)));
        }
        for target in &found.targets {
            let dependency =
                export_of(target, definition, control_plane).map(|export| dependency(found, target, export));
            match dependency.and_then(|dependency| self.checked(dependency, control_plane)) {
                Ok(dependency) => {
                    self.rule.spec.dependencies.push(dependency);
                    self.references.push(reason(Some(target), found.why.clone()));
                }
                Err(why) => self.unresolved.push(reason(Some(target), format!("{}; {why}", found.why))),
            }
        }
    }

    /// Returns the dependency if the core accepts a rule with this dependency alone.
    fn checked(&self, dependency: Dependency, control_plane: ControlPlane) -> Result<Dependency, String> {
        rule_draft::can_be_used(&self.rule, &dependency, control_plane)
            .map_err(|why| format!("a rule can't express it: {why}"))?;
        Ok(dependency)
    }
}

/// Returns the export by which a rule names a target; an error if a rule can't name it.
fn export_of(
    target: &Target,
    dependent: &Definition,
    control_plane: ControlPlane,
) -> Result<Option<ExportRef>, String> {
    if control_plane == ControlPlane::Kubernetes {
        return Ok(None);
    }
    let kind = &target.name.kind;
    match (&dependent.export, &target.export) {
        (None, None) => Ok(None),
        (Some(own), None) => Err(format!(
            "no given APIExport serves `{kind}`, and a rule of the APIExport `{}` never applies to local kinds",
            own.name
        )),
        (_, Some(export)) => match &export.workspace {
            Some(path) => Ok(Some(ExportRef { path: path.clone(), name: export.name.clone() })),
            None => Err(format!(
                "the workspace of the APIExport `{0}` is unknown: name it, as in `--export {0}=root:providers:network`",
                export.name
            )),
        },
    }
}

fn dependency(found: &ReferenceCandidate, target: &Target, export: Option<ExportRef>) -> Dependency {
    let (group_path, api_version_path) = match &found.group {
        Some(GroupPath::Group(path)) => (Some(path.clone()), None),
        Some(GroupPath::ApiVersion(path)) => (None, Some(path.clone())),
        None => (None, None),
    };
    let field = FieldRef {
        path: Some(found.path.clone()),
        namespace_path: found.namespace.clone().filter(|_| target.name.namespaced),
        kind_path: found.kind.clone(),
        default_kind: found.default_kind.clone().filter(|kind| found.kind.is_some() && Kind::parse(kind).is_ok()),
        group_path,
        api_version_path,
        ..FieldRef::default()
    };
    let name = &target.name;
    Dependency {
        api_export_ref: export,
        kind: Some(name.kind.clone()),
        ..plain([&name.group, &name.version, &name.resource], field)
    }
}

/// Returns a dependency on a local kind, by this reference alone.
fn plain([group, version, resource]: [&str; 3], field: FieldRef) -> Dependency {
    Dependency {
        api_export_ref: None,
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.to_owned(),
        kind: None,
        field_ref: Some(field),
        selector_ref: None,
        when: None,
        optional: false,
        exclude_names: None,
        on_delete: None,
        owned_dependents: None,
        on_missing: None,
        message: None,
    }
}
