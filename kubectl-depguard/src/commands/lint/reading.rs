//! Reads rules from documents, and reports all mistakes in their text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use depguard_core::{ControlPlane, Rule, RuleError, api};
use serde_json::{Value, json};

use super::code::Code;
use super::finding::Report;
use super::kinds::Kinds;
use super::shape::{self, Flaw};
use super::subject::Subject;
use crate::cluster::documents::{is_definition, text};
use crate::cluster::kinds::guess_resource;

/// Limit on the mistakes of one rule that are found one after the other.
const MAX_MISTAKES: usize = 50;

/// Rule, and the object that it was read from.
pub(super) struct ParsedRule<'s> {
    pub(super) subject: &'s Subject,
    pub(super) rule: Rule,
    /// Indexes of the dependencies that can't be used. The rule has a placeholder instead of each.
    unusable: BTreeSet<usize>,
}

impl ParsedRule<'_> {
    /// Returns the dependencies that can be used.
    pub(super) fn edges(&self) -> impl Iterator<Item = &depguard_core::rule::Edge> {
        self.rule.edges().iter().filter(|edge| !self.unusable.contains(&edge.index))
    }
}

/// Returns the schema against which an API server validates rules.
pub(super) fn schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        let mut crd = depguard_controller::manifests::crd();
        crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema").map(Value::take).unwrap_or_default()
    });
    &SCHEMA
}

/// Returns true for a document that is meant as a rule, or that tells of the kinds of rules.
pub(super) fn is_input(object: &Value) -> bool {
    is_meant_as_rule(object) || is_definition(object) || text(object, "kind") == Some("APIExport")
}

/// Returns true if a document is meant as a rule, even if its kind is missing.
pub(super) fn is_meant_as_rule(object: &Value) -> bool {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let has = |field: &str| object.pointer(&format!("/spec/{field}")).is_some();
    let is_nameless = object.get("kind").is_none() && has("dependent") && has("dependencies");
    is_nameless
        || text("kind") == api::KIND
        || text("apiVersion").split_once('/').is_some_and(|(group, _)| group == api::GROUP)
}

/// Returns true if a rule names an APIExport.
pub(super) fn names_exports(object: &Value) -> bool {
    let has = |object: &Value, field: &str| object.get(field).is_some_and(|value| !value.is_null());
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let dependencies = spec.get("dependencies").and_then(Value::as_array).into_iter().flatten();
    spec.get("dependent").is_some_and(|dependent| has(dependent, "apiExportName") || has(dependent, "apiExportRef"))
        || dependencies.into_iter().any(|dependency| has(dependency, "apiExportRef"))
}

/// Reads rules, and reports their mistakes.
pub(super) fn rules<'s>(
    control_plane: ControlPlane,
    subjects: &'s [Subject],
    kinds: &Kinds,
    report: &mut Report,
) -> Vec<ParsedRule<'s>> {
    let rules: Vec<_> = subjects.iter().filter_map(|subject| rule(control_plane, subject, kinds, report)).collect();
    let mut first: BTreeMap<(String, Option<&str>), &Subject> = BTreeMap::new();
    for subject in subjects.iter().filter(|subject| !subject.name().is_empty()) {
        // Rules of different exports are probably in different workspaces.
        let export = subject.value.pointer("/spec/dependent/apiExportName").and_then(Value::as_str);
        match first.entry((subject.name().to_owned(), export)) {
            std::collections::btree_map::Entry::Vacant(entry) => _ = entry.insert(subject),
            std::collections::btree_map::Entry::Occupied(entry) => {
                let (name, other) = (subject.name(), entry.get().place());
                let message = format!(
                    "{other} has a rule {name}, too; the one that is applied last replaces the other: rename one of them"
                );
                report.push(Code::DuplicateName, subject, "metadata.name", message);
            }
        }
    }
    rules
}

fn rule<'s>(
    control_plane: ControlPlane,
    subject: &'s Subject,
    kinds: &Kinds,
    report: &mut Report,
) -> Option<ParsedRule<'s>> {
    let (mut object, flaws) = shape::check(&subject.value, schema());
    let mut unusable = BTreeSet::new();
    let mut is_lost = false;
    for flaw in flaws.into_iter().filter(|flaw| !flaw.field.starts_with("status")) {
        if !flaw.is_unknown {
            match dependency_of(&flaw.field) {
                Some(index) => _ = unusable.insert(index),
                None => is_lost = true,
            }
        }
        let code = if flaw.is_unknown { Code::UnknownField } else { Code::WrongShape };
        let message = missing_resource(&subject.value, &flaw, kinds).unwrap_or(flaw.message);
        report.push(code, subject, flaw.field, message);
    }
    check_head(subject, report);
    if is_lost {
        return None;
    }
    let dependencies = object.pointer("/spec/dependencies").and_then(Value::as_array).map_or(0, Vec::len);
    if dependencies == 0 {
        let message = "spec.dependencies is empty, so the rule protects nothing: add a dependency, or delete the rule";
        report.push(Code::NoDependency, subject, "spec.dependencies", message.to_owned());
    }
    unusable.iter().for_each(|index| replace(&mut object, *index));
    if control_plane == ControlPlane::Kcp {
        placed(&mut object);
    }
    for _ in 0..MAX_MISTAKES {
        let error = match Rule::parse(control_plane, &object) {
            Ok(rule) => return Some(ParsedRule { subject, rule, unusable }),
            Err(error) => error,
        };
        let field = error.field().unwrap_or("spec").to_owned();
        report.push(Code::InvalidRule, subject, &field, with_advice(&error));
        // The next round reports the mistakes of the other dependencies.
        let index = dependency_of(&field).filter(|index| unusable.insert(*index))?;
        replace(&mut object, index);
    }
    None
}

/// Returns the message about a missing `resource`, with the text to write if the rule names the kind.
fn missing_resource(object: &Value, flaw: &Flaw, kinds: &Kinds) -> Option<String> {
    let part = flaw.field.strip_suffix(".resource").filter(|_| flaw.is_missing)?;
    let part = match dependency_of(part) {
        Some(index) => object.pointer(&format!("/spec/dependencies/{index}"))?,
        None => object.pointer("/spec/dependent")?,
    };
    let text = |field: &str| part.get(field).and_then(Value::as_str);
    let kind = text("kind")?;
    let todo = match text("group").and_then(|group| kinds.resource_of(group, kind)) {
        Some(resource) => format!("write `{resource}`"),
        None => format!("write the plural name of {kind}, which is probably `{}`", guess_resource(kind)?),
    };
    Some(format!("{} is missing: {todo}", flaw.field))
}

fn check_head(subject: &Subject, report: &mut Report) {
    let text = |pointer: &str| subject.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let api_version = format!("{}/{}", api::GROUP, api::VERSION);
    for (field, pointer, required) in
        [("apiVersion", "/apiVersion", api_version.as_str()), ("kind", "/kind", api::KIND)]
    {
        let is_text = subject.value.pointer(pointer).is_none_or(Value::is_string);
        if is_text && text(pointer) != required {
            let message = format!("{field} is `{}`: write `{required}`", text(pointer));
            report.push(Code::WrongShape, subject, field, message);
        }
    }
    if text("/metadata/name").is_empty() && text("/metadata/generateName").is_empty() {
        report.push(Code::WrongShape, subject, "metadata.name", "metadata.name is missing: write it".to_owned());
    }
}

/// Returns the index in `spec.dependencies` from the path of a field there.
pub(super) fn dependency_of(field: &str) -> Option<usize> {
    field.strip_prefix("spec.dependencies[")?.split_once(']')?.0.parse().ok()
}

/// Replaces a dependency with one that can be used.
fn replace(object: &mut Value, index: usize) {
    let dependency = object.pointer_mut(&format!("/spec/dependencies/{index}"));
    if let Some(dependency) = dependency {
        *dependency = json!({"group": "", "version": "v1", "resource": "none", "fieldRef": {"path": ".none"}});
    }
}

/// Adds the annotation of a workspace: a file doesn't say in which workspace its rules will be.
fn placed(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("annotations".to_owned(), json!({api::CLUSTER_ANNOTATION: "here"}));
    }
}

fn with_advice(error: &RuleError) -> String {
    let message = error.to_string();
    if message.contains(": ") { message } else { format!("{message}: correct it, as docs/rules.md says") }
}
