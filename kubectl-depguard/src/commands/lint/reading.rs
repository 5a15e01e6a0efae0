//! From documents to rules, with all that is wrong with their text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use depguard_core::{Home, Rule, RuleError, api};
use serde_json::{Value, json};

use super::code::Code;
use super::finding::Report;
use super::shape;
use super::subject::Subject;

/// The mistakes of one rule that are looked for one after the other.
const MOST_MISTAKES: usize = 50;

/// A rule, and where it was written.
pub(super) struct Written<'s> {
    pub(super) subject: &'s Subject,
    pub(super) rule: Rule,
    /// The dependencies that can't be used. The rule holds something else in their places.
    unusable: BTreeSet<usize>,
}

impl Written<'_> {
    /// The dependencies that can be used.
    pub(super) fn edges(&self) -> impl Iterator<Item = &depguard_core::Edge> {
        self.rule.edges().iter().filter(|edge| !self.unusable.contains(&edge.index))
    }
}

/// The schema that an API server holds rules against.
pub(super) fn schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        let mut crd = depguard_controller::manifests::crd();
        crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema").map(Value::take).unwrap_or_default()
    });
    &SCHEMA
}

/// Whether somebody meant a document to be a rule.
pub(super) fn is_meant_as_rule(object: &Value) -> bool {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    text("kind") == api::KIND || text("apiVersion").split_once('/').is_some_and(|(group, _)| group == api::GROUP)
}

/// Whether a rule names an APIExport.
pub(super) fn names_exports(object: &Value) -> bool {
    let has = |object: &Value, field: &str| object.get(field).is_some_and(|value| !value.is_null());
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let dependencies = spec.get("dependencies").and_then(Value::as_array).into_iter().flatten();
    spec.get("dependent").is_some_and(|dependent| has(dependent, "apiExportName") || has(dependent, "apiExportRef"))
        || dependencies.into_iter().any(|dependency| has(dependency, "apiExportRef"))
}

/// Reads rules, and reports what is wrong with them.
pub(super) fn rules<'s>(home: Home, subjects: &'s [Subject], report: &mut Report) -> Vec<Written<'s>> {
    let rules: Vec<_> = subjects.iter().filter_map(|subject| rule(home, subject, report)).collect();
    let mut first: BTreeMap<(String, Option<&str>), &Subject> = BTreeMap::new();
    for subject in subjects.iter().filter(|subject| !subject.name().is_empty()) {
        // Rules of different exports are probably of different workspaces.
        let export = subject.value.pointer("/spec/dependent/apiExportName").and_then(Value::as_str);
        match first.entry((subject.name().to_owned(), export)) {
            std::collections::btree_map::Entry::Vacant(entry) => _ = entry.insert(subject),
            std::collections::btree_map::Entry::Occupied(entry) => {
                let (name, other) = (subject.name(), entry.get().place());
                let message = format!(
                    "{other} has a rule {name} as well, and whichever is applied last replaces the other: name one of \
                     them otherwise"
                );
                report.push(Code::DuplicateName, subject, "metadata.name", message);
            }
        }
    }
    rules
}

fn rule<'s>(home: Home, subject: &'s Subject, report: &mut Report) -> Option<Written<'s>> {
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
        report.push(code, subject, flaw.field, flaw.message);
    }
    check_head(subject, report);
    if is_lost {
        return None;
    }
    let dependencies = object.pointer("/spec/dependencies").and_then(Value::as_array).map_or(0, Vec::len);
    if dependencies == 0 {
        let message = "spec.dependencies is empty, so the rule protects nothing: add what the dependent refers to, or \
                       delete the rule";
        report.push(Code::NoDependency, subject, "spec.dependencies", message.to_owned());
    }
    unusable.iter().for_each(|index| replace(&mut object, *index));
    if home == Home::Kcp {
        placed(&mut object);
    }
    for _ in 0..MOST_MISTAKES {
        let error = match Rule::parse(home, &object) {
            Ok(rule) => return Some(Written { subject, rule, unusable }),
            Err(error) => error,
        };
        let field = error.field().unwrap_or("spec").to_owned();
        report.push(Code::InvalidRule, subject, &field, with_advice(&error));
        // What is wrong with the others is told too.
        let index = dependency_of(&field).filter(|index| unusable.insert(*index))?;
        replace(&mut object, index);
    }
    None
}

fn check_head(subject: &Subject, report: &mut Report) {
    let text = |pointer: &str| subject.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let api_version = format!("{}/{}", api::GROUP, api::VERSION);
    for (field, pointer, wanted) in [("apiVersion", "/apiVersion", api_version.as_str()), ("kind", "/kind", api::KIND)]
    {
        let is_text = subject.value.pointer(pointer).is_none_or(Value::is_string);
        if is_text && text(pointer) != wanted {
            let message = format!("{field} is `{}`: write `{wanted}`", text(pointer));
            report.push(Code::WrongShape, subject, field, message);
        }
    }
    if text("/metadata/name").is_empty() && text("/metadata/generateName").is_empty() {
        report.push(Code::WrongShape, subject, "metadata.name", "metadata.name is missing: write it".to_owned());
    }
}

/// The index in `spec.dependencies` of a field there.
pub(super) fn dependency_of(field: &str) -> Option<usize> {
    field.strip_prefix("spec.dependencies[")?.split_once(']')?.0.parse().ok()
}

/// Puts something that can be used in the place of a dependency.
fn replace(object: &mut Value, index: usize) {
    let dependency = object.pointer_mut(&format!("/spec/dependencies/{index}"));
    if let Some(dependency) = dependency {
        *dependency = json!({"group": "", "version": "v1", "resource": "none", "fieldRef": {"path": ".none"}});
    }
}

/// A file doesn't say in which workspace its rules will be.
fn placed(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("annotations".to_owned(), json!({api::CLUSTER_ANNOTATION: "here"}));
    }
}

fn with_advice(error: &RuleError) -> String {
    let said = error.to_string();
    if said.contains(": ") { said } else { format!("{said}: correct it, as docs/rules.md says") }
}
