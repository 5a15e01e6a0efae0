//! Facts about the kinds that rules name, from definitions in files and from an API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use depguard_core::model::GroupResource;
use depguard_core::rule::Edge;
use depguard_core::schema::{KindFacts, KindState};
use depguard_core::{ExportName, GroupVersionResource, Rule, WorkspacePath};
use serde_json::Value;

use super::code::Code;
use super::finding::Report;
use super::nearest;
use super::subject::Subject;
use crate::cluster::built_in_kinds;

/// Kind as a rule names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KindReference {
    /// APIExport that serves the kind, and its workspace; without a path, the rule's own workspace.
    pub(super) export: Option<(Option<WorkspacePath>, ExportName)>,
    pub(super) gvr: GroupVersionResource,
}

/// Facts about a kind, as far as they are known.
#[derive(Debug, Clone)]
pub(super) struct KindFindings {
    pub(super) seen: KindState,
    /// CustomResourceDefinition or APIResourceSchema of the kind.
    pub(super) definition: Option<Arc<Subject>>,
}

/// Reason why nothing is known of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KindProblem {
    pub(super) code: Code,
    pub(super) message: String,
}

/// Facts about all kinds.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    definitions: BTreeMap<GroupResource, Arc<Subject>>,
    /// Facts from the definitions, as far as these were read.
    read: BTreeMap<GroupVersionResource, KindFindings>,
    /// True if of Kubernetes' own kinds only those count that have a definition.
    pub(super) are_own_only: bool,
    /// Facts about Kubernetes' own kinds.
    built_in: BTreeMap<GroupVersionResource, Arc<KindFacts>>,
    /// Facts from an API server.
    pub(super) live: BTreeMap<KindReference, Result<KindFindings, KindProblem>>,
    /// Kinds that the API server serves.
    pub(super) served: BTreeSet<GroupResource>,
}

impl KindReference {
    pub(super) fn dependent(rule: &Rule) -> Self {
        let dependent = rule.dependent();
        Self { export: dependent.export.clone().map(|export| (None, export)), gvr: dependent.gvr.clone() }
    }

    pub(super) fn target(edge: &Edge) -> Self {
        let export = edge.target.export.clone().map(|export| (Some(export.path), export.name));
        Self { export, gvr: edge.target.gvr.clone() }
    }
}

impl Kinds {
    /// Reads definitions. If a kind has several, the last one counts that an APIExport among the documents names,
    /// otherwise the last one, which is reported of the kinds that rules have `named`.
    pub(super) fn read(documents: Vec<Subject>, named: &BTreeSet<GroupResource>, report: &mut Report) -> Self {
        let (definitions, others): (Vec<_>, Vec<_>) =
            documents.into_iter().partition(|subject| crate::cluster::documents::is_definition(&subject.value));
        let used: BTreeSet<_> = others.iter().flat_map(|other| schemas_of(&other.value)).collect();
        let mut kinds = Self::default();
        for definition in definitions {
            let Some(kind) = kind_of(&definition.value) else {
                let message =
                    "the definition defines no kind: correct spec.group, spec.names, spec.scope and spec.versions";
                report.push(Code::DefinitionUnreadable, &definition, "spec", message.to_owned());
                continue;
            };
            let definition = Arc::new(definition);
            let Some(other) = kinds.definitions.get(&kind).cloned() else {
                kinds.definitions.insert(kind, definition);
                continue;
            };
            let (is_used, was_used) = (used.contains(definition.name()), used.contains(other.name()));
            if is_used == was_used && named.contains(&kind) {
                let message = format!(
                    "{} defines {kind}, too; this definition counts: give only one, or the APIExport that names the \
                     right one",
                    other.place()
                );
                report.push(Code::DefinitionTwice, &definition, "metadata.name", message);
            }
            if is_used || !was_used {
                kinds.definitions.insert(kind, definition);
            }
        }
        kinds
    }

    /// Returns true if the kind has a definition in the files.
    pub(super) fn is_defined(&self, named: &KindReference) -> bool {
        self.definitions.contains_key(&named.gvr.group_resource())
    }

    /// Returns true if the kind has a CustomResourceDefinition in the files.
    pub(super) fn has_custom_resource_definition(&self, kind: &GroupResource) -> bool {
        self.definitions.get(kind).is_some_and(|definition| definition.kind() == "CustomResourceDefinition")
    }

    /// Returns the facts about a kind.
    pub(super) fn get(&mut self, named: &KindReference) -> Result<KindFindings, KindProblem> {
        if let Some(known) = self.read.get(&named.gvr) {
            return Ok(known.clone());
        }
        let kind = named.gvr.group_resource();
        if let Some(definition) = self.definitions.get(&kind) {
            let seen = KindState::from_definition(&definition.value, named.gvr.version.as_str());
            let known = KindFindings { seen, definition: Some(Arc::clone(definition)) };
            self.read.insert(named.gvr.clone(), known.clone());
            return Ok(known);
        }
        if let Some(known) = self.live.get(named) {
            return known.clone();
        }
        if !self.are_own_only
            && let Some(known) = self.built_in(named)
        {
            return known;
        }
        let others: Vec<_> = self.of_group(&kind).collect();
        let is_defined = !others.is_empty();
        Err(match (self.nearest(&kind), self.group_meant(&kind)) {
            (Some(nearest), _) if is_defined => KindProblem {
                code: Code::KindNotServed,
                message: format!(
                    "{} has {}, but no {}: write `{nearest}` if you mean that, or give its definition with --schemas",
                    kind.group,
                    others.join(", "),
                    kind.resource
                ),
            },
            (_, Some(group)) if !is_defined => KindProblem {
                code: Code::GroupNotDefined,
                message: format!(
                    "no definition has the group {}: write `{group}`, which has {}, if you mean that, or give its \
                     definition with --schemas",
                    kind.group, kind.resource
                ),
            },
            // The files need not define all kinds of a group.
            _ => KindProblem {
                code: Code::KindUnchecked,
                message: format!("{kind} was not checked: give its definition with --schemas, or read it with --live"),
            },
        })
    }
}

impl Kinds {
    /// Returns the facts about one of Kubernetes' own kinds; `None` if the group is not Kubernetes' own, or if an
    /// APIExport serves the kind. A kind that the built-in version does not have may be of another version.
    fn built_in(&mut self, named: &KindReference) -> Option<Result<KindFindings, KindProblem>> {
        let gvr = &named.gvr;
        let of_group =
            built_in_kinds::all().iter().filter(|kind| named.export.is_none() && kind.gvr.group == gvr.group);
        let of_group: Vec<_> = of_group.collect();
        let facts = self.built_in.get(gvr).cloned();
        if let Some(facts) = facts.or_else(|| built_in_kinds::facts(gvr).filter(|_| !of_group.is_empty()).map(Arc::new))
        {
            self.built_in.insert(gvr.clone(), Arc::clone(&facts));
            return Some(Ok(KindFindings { seen: KindState::Facts(facts), definition: None }));
        }
        let versions = of_group.iter().filter(|kind| kind.gvr.resource == gvr.resource);
        let versions: Vec<_> = versions.map(|kind| kind.gvr.version.as_str()).collect();
        let kubernetes = built_in_kinds::kubernetes_version();
        let lacks = match versions.is_empty() {
            true => format!("Kubernetes {kubernetes}, which depguard knows, has no {}", gvr.group_resource()),
            false => format!(
                "Kubernetes {kubernetes}, which depguard knows, serves {} in {}, and not in {}",
                gvr.group_resource(),
                versions.join(", "),
                gvr.version
            ),
        };
        let resources = of_group.iter().map(|kind| kind.gvr.resource.as_str());
        let nearest = nearest::name(gvr.resource.as_str(), resources).filter(|_| versions.is_empty());
        let meant = nearest.map(|nearest| format!("write `{nearest}` if you mean that, or ")).unwrap_or_default();
        let message = format!("{lacks}, so it was not checked: {meant}read it with --live");
        (!of_group.is_empty()).then_some(Err(KindProblem { code: Code::KindUnchecked, message }))
    }

    /// Returns the resource of the same group with the nearest name.
    pub(super) fn nearest(&self, kind: &GroupResource) -> Option<&str> {
        let served = self.served.iter().filter(|served| served.group == kind.group);
        let served = served.map(|served| served.resource.as_str());
        nearest::name(kind.resource.as_str(), self.of_group(kind).chain(served))
    }

    /// Returns the group of nearly that name that has the resource, as a rule writes it.
    pub(super) fn group_meant(&self, kind: &GroupResource) -> Option<String> {
        let built_in = built_in_kinds::all().iter().map(|known| known.gvr.group_resource());
        let known = self.definitions.keys().chain(&self.served).cloned().chain(built_in);
        let groups: BTreeSet<_> = known
            .filter(|known| known.resource == kind.resource && known.group != kind.group)
            .map(|known| known.group.to_string())
            .collect();
        let written = kind.group.as_str();
        // A group of somebody else has a dot. People write `core` or `v1` for the group without a name.
        let is_core = !written.contains('.') && groups.contains("");
        let meant = nearest::name(written, groups.iter().map(String::as_str)).or(is_core.then_some(""))?;
        Some(format!("group: {}", if meant.is_empty() { "''" } else { meant }))
    }

    /// Returns the resource of a kind that has a definition.
    pub(super) fn resource_of(&self, group: &str, kind: &str) -> Option<&str> {
        let is_kind =
            |definition: &Subject| definition.value.pointer("/spec/names/kind").and_then(Value::as_str) == Some(kind);
        let mut defined = self.definitions.iter().filter(|(defined, _)| defined.group.as_str() == group);
        defined.find(|(_, definition)| is_kind(definition)).map(|(defined, _)| defined.resource.as_str())
    }

    /// Returns the resources of the same group that have definitions.
    fn of_group(&self, kind: &GroupResource) -> impl Iterator<Item = &str> {
        let same = self.definitions.keys().filter(|defined| defined.group == kind.group);
        same.map(|defined| defined.resource.as_str())
    }
}

/// Returns the kind that a CustomResourceDefinition or an APIResourceSchema defines.
pub(super) fn kind_of(definition: &Value) -> Option<GroupResource> {
    KindFacts::from_definition(definition, "")?;
    let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str);
    Some(GroupResource {
        group: text("/spec/group")?.parse().ok()?,
        resource: text("/spec/names/plural")?.parse().ok()?,
    })
}

/// Returns the APIResourceSchemas that an APIExport names.
fn schemas_of(object: &Value) -> Vec<String> {
    let is_export = object.get("kind").and_then(Value::as_str) == Some("APIExport");
    let resources = object.pointer("/spec/resources").and_then(Value::as_array).filter(|_| is_export);
    let schemas = resources.into_iter().flatten().filter_map(|resource| resource.get("schema")?.as_str());
    let latest = object.pointer("/spec/latestResourceSchemas").and_then(Value::as_array).filter(|_| is_export);
    let latest = latest.into_iter().flatten().filter_map(Value::as_str);
    schemas.chain(latest).map(str::to_owned).collect()
}
