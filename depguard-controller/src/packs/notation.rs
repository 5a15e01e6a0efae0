//! Notation in which the packs write their rules.

use depguard_core::api;
use serde_json::{Map, Value, json};

use super::LeftOut;

/// Kind of API objects, in the version in which rules read it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    resource: &'static str,
}

/// Entry of a rule's `dependencies`: a target, and where the dependent refers to it.
#[derive(Debug, Clone)]
pub(super) struct Dependency {
    target: Kind,
    /// The fields of `fieldRef`.
    reference: Map<String, Value>,
    /// The fields beside `fieldRef`.
    terms: Map<String, Value>,
}

pub(super) const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap", "configmaps");
pub(super) const SECRET: Kind = Kind::new("", "v1", "Secret", "secrets");
pub(super) const SERVICE: Kind = Kind::new("", "v1", "Service", "services");
pub(super) const SERVICE_ACCOUNT: Kind = Kind::new("", "v1", "ServiceAccount", "serviceaccounts");

impl Kind {
    pub(super) const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        resource: &'static str,
    ) -> Self {
        Self { group, version, kind, resource }
    }

    /// Returns a reference to this kind by the name at a path: `fieldRef.path`.
    pub(super) fn at(&self, path: impl Into<String>) -> Dependency {
        Dependency { target: *self, reference: Map::new(), terms: Map::new() }.field("path", json!(path.into()))
    }

    fn to_json(self) -> Map<String, Value> {
        let Self { group, version, kind, resource } = self;
        let fields = [("group", group), ("version", version), ("kind", kind), ("resource", resource)];
        fields.into_iter().map(|(field, value)| (field.to_owned(), json!(value))).collect()
    }
}

impl Dependency {
    /// Sets where the target's namespace stands; without a value there, the dependent's own namespace is meant.
    pub(super) fn namespace_at(self, path: impl Into<String>) -> Self {
        self.field("namespacePath", json!(path.into()))
    }

    /// Sets the target's namespace.
    pub(super) fn in_namespace(self, namespace: &str) -> Self {
        self.field("namespace", json!(namespace))
    }

    /// Sets the path of the field that holds the target's kind. An empty field matches every kind. If the product has a
    /// default kind for an empty field, use [`when`](Self::when) instead.
    pub(super) fn kind_at(self, path: impl Into<String>) -> Self {
        self.field("kindPath", json!(path.into()))
    }

    /// Sets where the target's group stands. Without a value there, the reference counts.
    pub(super) fn group_at(self, path: impl Into<String>) -> Self {
        self.field("groupPath", json!(path.into()))
    }

    /// Sets where the target's `apiVersion` stands. Without a value there, the reference counts.
    pub(super) fn api_version_at(self, path: impl Into<String>) -> Self {
        self.field("apiVersionPath", json!(path.into()))
    }

    /// Reads the keys of the map at the path.
    pub(super) fn keys(self) -> Self {
        self.field("keys", json!(true))
    }

    /// Takes the name from the string at the path: the first group of the expression.
    pub(super) fn pattern(self, expression: &str) -> Self {
        self.field("pattern", json!(expression))
    }

    /// Takes the namespace from the string at the path: the first group of the expression.
    pub(super) fn namespace_pattern(self, expression: &str) -> Self {
        self.field("namespacePattern", json!(expression))
    }

    /// Takes the kind from the string at the path: the first group of the expression.
    pub(super) fn kind_pattern(self, expression: &str) -> Self {
        self.field("kindPattern", json!(expression))
    }

    /// Counts the reference only while the string at a path is one of these.
    pub(super) fn when(mut self, path: impl Into<String>, values: &[&str]) -> Self {
        self.terms.insert("when".to_owned(), json!({"path": path.into(), "in": values}));
        self
    }

    /// Does not count dependents that the target owns.
    pub(super) fn ignoring_owned(mut self) -> Self {
        self.terms.insert("ownedDependents".to_owned(), json!("Ignore"));
        self
    }

    fn field(mut self, field: &str, value: Value) -> Self {
        self.reference.insert(field.to_owned(), value);
        self
    }

    fn into_json(self) -> Value {
        let Self { target, reference, terms } = self;
        let mut dependency = target.to_json();
        dependency.insert("fieldRef".to_owned(), Value::Object(reference));
        dependency.extend(terms);
        Value::Object(dependency)
    }
}

/// Returns the rule with these dependencies of a kind.
pub(super) fn rule(name: &str, dependent: Kind, dependencies: impl IntoIterator<Item = Dependency>) -> Value {
    let dependencies: Vec<_> = dependencies.into_iter().map(Dependency::into_json).collect();
    json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
        "kind": api::KIND,
        "metadata": {"name": name},
        "spec": {"dependent": dependent.to_json(), "dependencies": dependencies},
    })
}

/// Returns the rule for those dependents only that lack a label.
pub(super) fn without_label(mut rule: Value, label: &str) -> Value {
    let selector = json!({"matchExpressions": [{"key": label, "operator": "DoesNotExist"}]});
    if let Some(dependent) = rule.pointer_mut("/spec/dependent").and_then(Value::as_object_mut) {
        dependent.insert("selector".to_owned(), selector);
    }
    rule
}

/// Returns the rule with the fields of its dependents that the pack leaves out, in its annotation. For rules whose
/// dependents have such a field beside a similar one that the rule follows, which `lint` would report.
pub(super) fn saying_left_out(mut rule: Value, all: &[LeftOut]) -> Value {
    let resource = rule.pointer("/spec/dependent/resource").and_then(Value::as_str).unwrap_or_default();
    let of_rule = all.iter().filter(|left| left.resource == resource && !left.path.starts_with(".status"));
    let lines: Vec<_> = of_rule.map(|left| format!("{}: {}", left.path, left.reason)).collect();
    if let Some(metadata) = rule.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("annotations".to_owned(), json!({api::LEFT_OUT_ANNOTATION: lines.join("\n")}));
    }
    rule
}

/// Returns a field that names an object and that no rule follows, with the reason.
pub(super) const fn out(resource: &'static str, path: &'static str, reason: &'static str) -> LeftOut {
    LeftOut { resource, path, reason }
}
