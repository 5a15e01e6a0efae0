//! Namespace of an edge's targets: where the dependents name it, and the rule doesn't look there.

use std::fmt;

use crate::model::field_path::{FieldPath, Segment};
use crate::rule::checked_rule::Rule;
use crate::rule::{Edge, Place, Reference, ValueSource};
use crate::schema::kind_facts::KindFacts;
use crate::schema::openapi::{ExpectedType, Schema, SchemaFit};

/// Doubt about the namespace in which a rule looks for the targets of an edge. Prints the consequence, and the advice.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamespaceProblem {
    /// Field of the rule: `spec.dependencies[0].fieldRef.namespacePath`.
    pub field: String,
    /// Class of the doubt.
    pub what: NamespaceMismatch,
    message: String,
}

/// Class of a doubt about the namespace of targets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum NamespaceMismatch {
    /// The dependents have this field for the namespace, and the rule doesn't name it.
    LeftOut(FieldPath),
    /// The targets are in no namespace, so that the field has no effect.
    WithoutEffect,
}

/// Checks the namespace in which a rule looks for the targets of one of its edges. `targets` holds the facts about the
/// targets, if they are known; `left_out` holds the fields that the rule leaves out, by their path or by their name alone.
pub fn namespace(
    rule: &Rule,
    edge: &Edge,
    dependents: &KindFacts,
    targets: Option<&KindFacts>,
    left_out: &[FieldPath],
) -> Result<(), NamespaceProblem> {
    let problem = |field: &str, what, message| {
        let field = format!("spec.dependencies[{}].fieldRef.{field}", edge.index);
        Err(NamespaceProblem { message: format!("{field} {message}"), field, what })
    };
    let are_namespaced = targets.map(|targets| targets.namespaced);
    let written = match edge.reference.place() {
        Place::Own => None,
        Place::Fixed(_) => Some("namespace"),
        Place::Said(ValueSource { path: Some(_), pattern: _ }) => Some("namespacePath"),
        Place::Said(ValueSource { path: None, pattern: _ }) => Some("namespacePattern"),
    };
    match (written, are_namespaced) {
        (Some(written), Some(false)) => {
            let message = format!("has no effect: {} are in no namespace; remove it", edge.target.gvr.group_resource());
            problem(written, NamespaceMismatch::WithoutEffect, message)
        }
        (None, None | Some(true)) => {
            let beside = dependents.schema.as_ref().and_then(|schema| namespace_beside(edge, schema));
            let is_settled = |beside: &FieldPath| {
                is_read_elsewhere(rule, edge, beside) || left_out.iter().any(|whole| is_named_by(beside, whole))
            };
            let Some(beside) = beside.filter(|beside| !is_settled(beside)) else { return Ok(()) };
            let message = format!(
                "is missing: {} have `{beside}` beside the name, and where it names another namespace than their own, the \
                 rule protects nothing; write `namespacePath: {beside}`",
                rule.dependent().gvr
            );
            problem("namespacePath", NamespaceMismatch::LeftOut(beside), message)
        }
        (Some(_), _) | (None, Some(false)) => Ok(()),
    }
}

/// Returns the field beside an edge's name that holds a namespace: `secretNamespace` beside `secretName`, or `namespace`
/// unless a `name` stands beside it, to which it would belong.
fn namespace_beside(edge: &Edge, schema: &Schema) -> Option<FieldPath> {
    let Reference::Field(field) = &edge.reference else { return None };
    // The namespace beside an object's own name is its own.
    if field.keys || field.path == FieldPath::name() {
        return None;
    }
    let Some(Segment::Name(last)) = field.path.segments().last() else { return None };
    let beside = |name: &str| {
        let path = field.path.beside(name);
        (schema.fit(&path, ExpectedType::Text) == SchemaFit::Fits).then_some(path)
    };
    let stem = last.strip_suffix("Name").unwrap_or(last);
    let own = beside(&format!("{stem}Namespace"));
    own.or_else(|| beside("namespace").filter(|_| last == "name" || beside("name").is_none()))
}

/// Returns true if another edge follows the same references, and reads the namespace there.
fn is_read_elsewhere(rule: &Rule, edge: &Edge, beside: &FieldPath) -> bool {
    let reads_it =
        |other: &&Edge| matches!(other.reference.place(), Place::Said(said) if said.path.as_ref() == Some(beside));
    let same = |other: &&Edge| other.target == edge.target && other.reference.path() == edge.reference.path();
    rule.edges().iter().filter(reads_it).any(|other| same(&other))
}

/// Returns true if a path that is left out names a field: by its path or a part of that, or by its last names.
fn is_named_by(path: &FieldPath, whole: &FieldPath) -> bool {
    path.segments().starts_with(whole.segments()) || path.segments().ends_with(whole.segments())
}

impl fmt::Display for NamespaceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::control_plane::ControlPlane;

    fn facts(scope: &str, spec: &Value) -> KindFacts {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
        let definition = json!({"spec": {"scope": scope, "names": {"kind": "Train"}, "versions": [
            {"name": "v1", "served": true, "schema": {"openAPIV3Schema": schema}},
        ]}});
        KindFacts::from_definition(&definition, "v1").unwrap()
    }

    fn texts(names: &[&str]) -> Value {
        let texts = names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"})));
        json!({"type": "object", "properties": Value::Object(texts.collect())})
    }

    /// Returns what is said of each dependency, without the name of the rule's field.
    fn said(references: &[Value], targets: Option<&KindFacts>) -> Vec<String> {
        let target = |field: &Value| json!({"group": "rail.example.com", "version": "v1", "resource": "depots", "fieldRef": field});
        let dependencies: Vec<_> = references.iter().map(target).collect();
        let rule = json!({"metadata": {"name": "r"}, "spec": {
            "dependent": {"group": "rail.example.com", "version": "v1", "kind": "Train", "resource": "trains"},
            "dependencies": dependencies,
        }});
        let rule = Rule::parse(ControlPlane::Kubernetes, &rule).unwrap();
        let dependents = facts(
            "Namespaced",
            &json!({
                "depotRef": texts(&["name", "namespace"]),
                "stops": {"type": "array", "items": texts(&["name", "namespace", "depotName"])},
                "yardName": {"type": "string"}, "yardNamespace": {"type": "string"},
                "plain": texts(&["name"]),
                "either": texts(&["depot", "namespace"]),
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"name": {"type": "string"}}},
                "number": {"type": "object", "properties": {"name": {"type": "string"}, "namespace": {"type": "integer"}}},
            }),
        );
        let problems = rule.edges().iter().map(|edge| namespace(&rule, edge, &dependents, targets, &[]));
        let said = |problem: NamespaceProblem| {
            let (field, what) = problem.message.split_once(' ').unwrap();
            assert_eq!(field, problem.field);
            format!("{} {what}", field.rsplit('.').next().unwrap())
        };
        problems.map(|problem| problem.map_or_else(said, |()| String::new())).collect()
    }

    #[test]
    fn a_namespace_that_the_rule_leaves_out_is_told_with_its_path_and_the_twin_that_names_it_is_not() {
        let depots = facts("Namespaced", &json!({}));
        for (path, beside) in [
            (".spec.depotRef.name", Some(".spec.depotRef.namespace")),
            (".spec.stops[*].name", Some(".spec.stops[*].namespace")),
            (".spec.yardName", Some(".spec.yardNamespace")),
            (".spec.either.depot", Some(".spec.either.namespace")),
            // The namespace belongs to the `name`.
            (".spec.stops[*].depotName", None),
            (".spec.plain.name", None),
            (".spec.free.name", None),
            (".spec.number.name", None),
            (".metadata.name", None),
        ] {
            for targets in [Some(&depots), None] {
                let found = said(&[json!({"path": path})], targets);
                let advice = beside.map(|beside| format!("; write `namespacePath: {beside}`"));
                match &advice {
                    Some(advice) => {
                        assert!(
                            found[0].starts_with("namespacePath is missing: ") && found[0].ends_with(advice),
                            "{found:?}"
                        );
                    }
                    None => assert_eq!(found, [""], "{path}"),
                }
                if let Some(beside) = beside {
                    let right = json!({"path": path, "namespacePath": beside});
                    assert_eq!(said(std::slice::from_ref(&right), targets), [""], "{path}");
                    assert_eq!(said(&[json!({"path": path}), right], targets), ["", ""], "another edge reads it");
                }
            }
        }
        assert_eq!(said(&[json!({"path": ".spec.depotRef.name", "namespace": "depots"})], Some(&depots)), [""]);
        let keys = json!({"path": ".spec.depotRef", "keys": true});
        assert_eq!(said(&[keys], Some(&depots)), [""]);
    }

    #[test]
    fn a_namespace_of_targets_without_one_has_no_effect() {
        let (cluster, namespaced) = (facts("Cluster", &json!({})), facts("Namespaced", &json!({})));
        for (reference, field) in [
            (json!({"path": ".spec.depotRef.name", "namespacePath": ".spec.depotRef.namespace"}), "namespacePath"),
            (json!({"path": ".spec.plain.name", "namespace": "depots"}), "namespace"),
            (json!({"path": ".spec.plain.name", "namespacePattern": "^(.*)/"}), "namespacePattern"),
            (json!({"value": "main", "namespace": "depots"}), "namespace"),
        ] {
            let found = said(std::slice::from_ref(&reference), Some(&cluster));
            assert_eq!(
                found,
                [format!("{field} has no effect: depots.rail.example.com are in no namespace; remove it")]
            );
            for targets in [Some(&namespaced), None] {
                assert_eq!(said(std::slice::from_ref(&reference), targets), [""], "{reference}");
            }
        }
        assert_eq!(said(&[json!({"path": ".spec.depotRef.name"})], Some(&cluster)), [""]);
    }
}
