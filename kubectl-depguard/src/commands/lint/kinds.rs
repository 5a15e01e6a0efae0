//! What is known of the kinds that rules name: from the definitions that were given, and from an API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use depguard_controller::fitting::{KindFacts, Seen};
use depguard_core::{Edge, ExportName, GroupResource, GroupVersionResource, Rule, WorkspacePath};
use serde_json::Value;

use super::code::Code;
use super::finding::Report;
use super::nearest;
use super::subject::Subject;

/// A kind as a rule names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    /// The APIExport that serves it, and its workspace; without a path, the rule's own.
    pub(super) export: Option<(Option<WorkspacePath>, ExportName)>,
    pub(super) gvr: GroupVersionResource,
}

/// What was found out about a kind.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) seen: Seen,
    /// Its CustomResourceDefinition or APIResourceSchema.
    pub(super) definition: Option<Arc<Subject>>,
}

/// Why nothing is known of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unknown {
    pub(super) code: Code,
    pub(super) message: String,
}

/// What is known of kinds.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    definitions: BTreeMap<GroupResource, Arc<Subject>>,
    /// What the definitions say, once it was read.
    read: BTreeMap<GroupVersionResource, Known>,
    /// What an API server said of them.
    pub(super) live: BTreeMap<Named, Result<Known, Unknown>>,
    /// The kinds that it serves.
    pub(super) served: BTreeSet<GroupResource>,
}

impl Named {
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
    /// Reads definitions: of one kind the last of those that an APIExport among the documents names, else the last.
    pub(super) fn read(documents: Vec<Subject>, report: &mut Report) -> Self {
        let (definitions, others): (Vec<_>, Vec<_>) =
            documents.into_iter().partition(|subject| crate::disk::is_definition(&subject.value));
        let used: BTreeSet<_> = others.iter().flat_map(|other| schemas_of(&other.value)).collect();
        let mut kinds = Self::default();
        for definition in definitions {
            let Some(kind) = kind_of(&definition.value) else {
                let message = "it can't be told which kind this defines: correct spec.group, spec.names, spec.scope and \
                               spec.versions";
                report.push(Code::DefinitionUnreadable, &definition, "spec", message.to_owned());
                continue;
            };
            let definition = Arc::new(definition);
            let Some(other) = kinds.definitions.get(&kind).cloned() else {
                kinds.definitions.insert(kind, definition);
                continue;
            };
            let (is_used, was_used) = (used.contains(definition.name()), used.contains(other.name()));
            if is_used == was_used {
                let message = format!(
                    "{} defines {kind} as well, and this one is taken: give one of them, or the APIExport that names \
                     the one which counts",
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

    /// Whether a definition of it was given.
    pub(super) fn is_defined(&self, named: &Named) -> bool {
        self.definitions.contains_key(&named.gvr.group_resource())
    }

    /// What is known of a kind.
    pub(super) fn get(&mut self, named: &Named) -> Result<Known, Unknown> {
        if let Some(known) = self.read.get(&named.gvr) {
            return Ok(known.clone());
        }
        let kind = named.gvr.group_resource();
        if let Some(definition) = self.definitions.get(&kind) {
            let facts = KindFacts::of_definition(&definition.value, named.gvr.version.as_str());
            let seen = match facts {
                Some(facts) => Seen::Facts(Arc::new(facts)),
                None => Seen::Unknown("its definition can't be read".to_owned()),
            };
            let known = Known { seen, definition: Some(Arc::clone(definition)) };
            self.read.insert(named.gvr.clone(), known.clone());
            return Ok(known);
        }
        if let Some(known) = self.live.get(named) {
            return known.clone();
        }
        let others: Vec<_> = self.of_group(&kind).collect();
        if others.is_empty() {
            let message = format!("{kind} was not looked at: give its definition with --schemas, or ask with --live");
            return Err(Unknown { code: Code::KindUnchecked, message });
        }
        let todo = match self.nearest(&kind) {
            Some(nearest) => format!("write `{nearest}` if that is meant, or give its definition with --schemas"),
            None => "correct the group and resource, or give its definition with --schemas".to_owned(),
        };
        let message = format!("{} has {}, but no {}: {todo}", kind.group, others.join(", "), kind.resource);
        Err(Unknown { code: Code::KindNotServed, message })
    }
}

impl Kinds {
    /// The resource of the same group whose name is nearest.
    pub(super) fn nearest(&self, kind: &GroupResource) -> Option<&str> {
        let served = self.served.iter().filter(|served| served.group == kind.group);
        let served = served.map(|served| served.resource.as_str());
        nearest::of(kind.resource.as_str(), self.of_group(kind).chain(served))
    }

    /// The resources of the same group that were defined.
    fn of_group(&self, kind: &GroupResource) -> impl Iterator<Item = &str> {
        let same = self.definitions.keys().filter(|defined| defined.group == kind.group);
        same.map(|defined| defined.resource.as_str())
    }
}

/// The kind that a CustomResourceDefinition or an APIResourceSchema defines.
pub(super) fn kind_of(definition: &Value) -> Option<GroupResource> {
    KindFacts::of_definition(definition, "")?;
    let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str);
    Some(GroupResource {
        group: text("/spec/group")?.parse().ok()?,
        resource: text("/spec/names/plural")?.parse().ok()?,
    })
}

/// The APIResourceSchemas that an APIExport names.
fn schemas_of(object: &Value) -> Vec<String> {
    let is_export = object.get("kind").and_then(Value::as_str) == Some("APIExport");
    let resources = object.pointer("/spec/resources").and_then(Value::as_array).filter(|_| is_export);
    let schemas = resources.into_iter().flatten().filter_map(|resource| resource.get("schema")?.as_str());
    let latest = object.pointer("/spec/latestResourceSchemas").and_then(Value::as_array).filter(|_| is_export);
    let latest = latest.into_iter().flatten().filter_map(Value::as_str);
    schemas.chain(latest).map(str::to_owned).collect()
}
