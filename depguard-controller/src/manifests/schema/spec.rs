//! What users write.
//!
//! What the reference API accepts is accepted; what is beyond it is optional. There are no defaults here: a field that an
//! API server fills in makes a stored rule unreadable for a webhook from before that field.

use depguard_core::Home;
use serde_json::{Value, json};

use super::super::with;

/// `[*]`, `[0]`, `['quoted']` or `["quoted"]`.
macro_rules! bracket {
    () => {
        r#"\[(\*|0|[1-9][0-9]*|'([^'\\\p{Cc}]|\\['"\\])+'|"([^"\\\p{Cc}]|\\['"\\])+")\]"#
    };
}

const NAME: &str = r"^[a-z]([-a-z0-9]*[a-z0-9])?(\.[a-z]([-a-z0-9]*[a-z0-9])?)*$";
pub(in crate::manifests) const NAME_OR_CORE: &str = r"^([a-z]([-a-z0-9]*[a-z0-9])?(\.[a-z]([-a-z0-9]*[a-z0-9])?)*)?$";
pub(in crate::manifests) const NAMESPACE: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const WORKSPACE_PATH: &str = r"^[a-z0-9][a-z0-9-]*(:[a-z0-9][a-z0-9-]*)*$";
pub(in crate::manifests) const VERSION: &str = r"^v[1-9][0-9]*([a-z]+[1-9][0-9]*)?$";
const KIND: &str = r"^[A-Z][A-Za-z0-9]*$";
pub(super) const RESOURCE: &str = r"^[a-z][a-z0-9]*$";
/// A name, or a bracket; then brackets, and names behind dots.
pub(in crate::manifests) const FIELD_PATH: &str = concat!(
    r"^(\.?([a-zA-Z_][a-zA-Z0-9_]*|\*)|",
    bracket!(),
    r")",
    r"(\.([a-zA-Z_][a-zA-Z0-9_]*|\*)|",
    bracket!(),
    r")*$",
);
const LABEL_KEY: &str = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
const LABEL_VALUE: &str = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
/// One line, its braces doubled or around a placeholder.
const MESSAGE: &str = r"^([^{\p{Cc}]|\{\{|\{(target|blockers|rule)\})+$";

pub(super) fn spec(home: Home) -> Value {
    let spec = json!({
        "type": "object",
        "description": "One kind of dependent and what it refers to.",
        "required": ["dependent", "dependencies"],
        "properties": {
            "failurePolicy": choice(&["Fail", "Ignore"],
                "What happens to a deletion where this rule can't be evaluated, or depguard can't be reached: it is \
                refused (Fail, also if left out), or goes on (Ignore)."),
            "dependent": dependent(),
            "dependencies": {
                "type": "array",
                "description": "What the dependent refers to, one entry a reference.",
                "items": dependency(),
            },
        },
    });
    match home {
        Home::Kcp => spec,
        // Found here, it harms nobody. A rule that is stored and can't be used refuses deletions.
        Home::Kubernetes => with(
            spec,
            "x-kubernetes-validations",
            json!([{
                "rule": "!has(self.dependent.apiExportName) && self.dependencies.all(d, !has(d.apiExportRef))",
                "message": "a plain Kubernetes cluster has no APIExports: leave apiExportName and apiExportRef out",
            }]),
        ),
    }
}

fn dependent() -> Value {
    json!({
        "type": "object",
        "description": "The kind that holds the references.",
        "required": ["group", "version", "kind", "resource"],
        "properties": {
            "apiExportName": string(1, 253, NAME,
                "The APIExport, in this rule's own workspace, that serves the kind. Left out: a kind of this \
                workspace or cluster itself."),
            // Not pruned, so that a rule of the older form is refused and never taken for a local one.
            "apiExportRef": {
                "type": "object",
                "description": "What older rules held instead of apiExportName; no longer accepted.",
                "properties": {"path": {"type": "string"}, "name": {"type": "string"}},
            },
            "group": string(0, 253, NAME_OR_CORE, "The API group; empty for the core group."),
            "version": string(1, 63, VERSION, "The version in which dependents are read."),
            "kind": string(1, 63, KIND, "The kind, for messages."),
            "resource": string(1, 63, RESOURCE, "The resource, plural."),
            "selector": selector("Only dependents with these labels count. Left out, or empty: all."),
        },
        "x-kubernetes-validations": [
            {
                "rule": "!has(self.apiExportRef)",
                "message": "apiExportRef was replaced: write the export's name in apiExportName (it stands in the \
                    rule's own workspace, so it has no path)",
            },
            {
                "rule": "!has(self.apiExportName) || self.group != ''",
                "message": "the core group is always local: name a group or leave apiExportName out",
            },
        ],
    })
}

fn dependency() -> Value {
    json!({
        "type": "object",
        "description": "One reference that the dependent holds, and the kind that it refers to.",
        "required": ["group", "version", "resource"],
        "properties": {
            "apiExportRef": {
                "type": "object",
                "description": "The APIExport that serves the target. Left out: a kind of this workspace or cluster \
                    itself.",
                "required": ["path", "name"],
                "properties": {
                    "path": string(1, 253, WORKSPACE_PATH, "The provider's workspace path."),
                    "name": string(1, 253, NAME, "The APIExport's name."),
                },
            },
            "group": string(0, 253, NAME_OR_CORE, "The API group; empty for the core group."),
            "version": string(1, 63, VERSION, "A served version; the target is protected in all of them."),
            "resource": string(1, 63, RESOURCE, "The resource, plural."),
            "kind": string(1, 63, KIND, "The kind: needed with fieldRef.kindPath."),
            "fieldRef": field_ref(),
            "selectorRef": {
                "type": "object",
                "description": "A label selector that the dependent holds, or the rule for all of them: it refers to \
                    every target with these labels, in its own namespace.",
                "properties": {
                    "path": path("The path of a LabelSelector, or of a plain map of labels, such as .spec.selector."),
                    "selector": unchecked_selector("The selector itself, the same for every dependent."),
                },
                "x-kubernetes-validations": [{
                    "rule": "has(self.path) != has(self.selector)",
                    "message": "write exactly one of path and selector",
                }],
            },
            "when": {
                "type": "object",
                "description": "The reference counts only where a field of the dependent has one of these values. \
                    Where it is absent, it has none.",
                "required": ["path", "in"],
                "properties": {
                    "path": path("The path of the field, such as .spec.state."),
                    "in": {
                        "type": "array",
                        "description": "The values.",
                        "minItems": 1,
                        "maxItems": 64,
                        "items": {"type": "string", "maxLength": 253},
                    },
                },
            },
            "onDelete": choice(&["Deny", "Warn", "Audit"],
                "What happens to the deletion of a target that is referred to: it is refused (Deny, also if left \
                out), goes on with a warning (Warn), or is only recorded (Audit)."),
            "ownedDependents": choice(&["Block", "Ignore"],
                "Whether a dependent counts that the target itself owns, by its ownerReferences: it does (Block, also \
                if left out), or not (Ignore)."),
            "message": string(1, 512, MESSAGE,
                "Added to the answer, for whoever wanted to delete. {target}, {blockers} and {rule} stand for what it \
                is about; {{ is a brace."),
        },
        "x-kubernetes-validations": [
            {
                "rule": "has(self.fieldRef) != has(self.selectorRef)",
                "message": "write exactly one of fieldRef and selectorRef",
            },
            {
                "rule": "!has(self.fieldRef) || !has(self.fieldRef.kindPath) || has(self.kind)",
                "message": "fieldRef.kindPath needs kind: which value of that field means this target",
            },
            {
                "rule": "!has(self.apiExportRef) || self.group != ''",
                "message": "the core group is always local: name a group or leave apiExportRef out",
            },
        ],
    })
}

fn field_ref() -> Value {
    json!({
        "type": "object",
        "description": "The field of the dependent that names the target.",
        "required": ["path"],
        "properties": {
            "path": path("The path of the field: a string, or a list of strings. Such as .spec.vpcRef.name or \
                .spec.networks[*].vpcRef.name."),
            "namespacePath": path("The path of the target's namespace. Where it is absent, the dependent's own."),
            "namespace": string(1, 63, NAMESPACE, "The namespace that all targets are in."),
            "namespacePattern": text("An RE2 expression, whose first group is the namespace: in the value at \
                namespacePath, or at path where that is left out."),
            "groupPath": path("The path of the target's API group; the reference counts only if it is this target's, \
                or absent."),
            "kindPath": path("The path of the target's kind, likewise."),
            "apiVersionPath": path("The path of the target's apiVersion, likewise; only its group is compared."),
            "uidPath": path("The path of the target's UID, likewise."),
            "keys": {"type": "boolean", "description": "The keys of the map at path are the names."},
            "pattern": text("An RE2 expression. A value that it does not match is no reference."),
            "replacement": text("The name, made of the pattern's groups: $1, or ${name}. Left out: the first group, \
                or the whole match."),
        },
        "x-kubernetes-validations": [
            {
                "rule": "!has(self.namespace) || (!has(self.namespacePath) && !has(self.namespacePattern))",
                "message": "write namespace, or namespacePath and namespacePattern",
            },
            {"rule": "!has(self.replacement) || has(self.pattern)", "message": "replacement needs a pattern"},
        ],
    })
}

/// `metav1.LabelSelector`, with what API servers check of it.
pub(in crate::manifests) fn selector(description: &str) -> Value {
    let mut selector = unchecked_selector(description);
    let checks = [
        (
            "/properties/matchLabels",
            format!("self.all(key, size(key) <= 317 && key.matches('{LABEL_KEY}'))"),
            "not a label's key, such as tier or example.com/tier",
        ),
        (
            "/properties/matchExpressions/items",
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)".to_owned(),
            "In and NotIn need values, Exists and DoesNotExist take none",
        ),
    ];
    for (part, rule, message) in checks {
        if let Some(part) = selector.pointer_mut(part).and_then(Value::as_object_mut) {
            part.insert("x-kubernetes-validations".to_owned(), json!([{"rule": rule, "message": message}]));
        }
    }
    selector
}

/// The same, where an API server would find the checks too dear: in a list without bound.
fn unchecked_selector(description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "type": "object",
                "description": "Labels, all of which must be there.",
                "maxProperties": 64,
                "additionalProperties": label_value(),
            },
            "matchExpressions": {
                "type": "array",
                "description": "Requirements, all of which must hold.",
                "maxItems": 64,
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": string(1, 317, LABEL_KEY, "The label."),
                        "operator": choice(&["In", "NotIn", "Exists", "DoesNotExist"], "What must hold of it."),
                        "values": {
                            "type": "array",
                            "description": "For In and NotIn only.",
                            "maxItems": 64,
                            "items": label_value(),
                        },
                    },
                },
            },
        },
    })
}

fn path(description: &str) -> Value {
    // The first dot does not count.
    string(1, 254, FIELD_PATH, description)
}

fn label_value() -> Value {
    json!({"type": "string", "maxLength": 63, "pattern": LABEL_VALUE})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "maxLength": 512, "description": description})
}

pub(in crate::manifests) fn choice(values: &[&str], description: &str) -> Value {
    json!({"type": "string", "enum": values, "description": description})
}

pub(in crate::manifests) fn string(min: u32, max: u32, pattern: &str, description: &str) -> Value {
    let schema = json!({"type": "string", "maxLength": max, "pattern": pattern, "description": description});
    if min == 0 { schema } else { with(schema, "minLength", json!(min)) }
}
