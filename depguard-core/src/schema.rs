//! Fit of a rule to the kinds that it names. The controller reports it in a rule's status; these functions tell it
//! before the rule is applied.
//!
//! A kind is read from its definition, or from what an API server publishes ([`KindFacts`]). [`paths`] then tells where
//! a rule's paths lead in the kind, [`kind`] checks the kind against the rule, and [`lookup`] tells how dependents will
//! be found:
//!
//! [`KindFacts`]: crate::schema::KindFacts
//! [`paths`]: crate::schema::paths
//! [`kind`]: crate::schema::kind()
//! [`lookup`]: crate::schema::lookup()
//!
//! ```
//! use depguard_core::schema::{SchemaFit, KindFacts, paths};
//! use depguard_core::{ControlPlane, Rule};
//! use serde_json::json;
//!
//! let definition = json!({"spec": {"scope": "Namespaced", "names": {"kind": "VM"}, "versions": [
//!     {"name": "v1", "served": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
//!         "spec": {"type": "object", "properties": {"vpc": {"type": "string"}}},
//!     }}}},
//! ]}});
//! let rule = json!({"metadata": {"name": "vms"}, "spec": {
//!     "dependent": {"group": "example.com", "version": "v1", "kind": "VM", "resource": "vms"},
//!     "dependencies": [
//!         {"group": "example.com", "version": "v1", "resource": "vpcs", "fieldRef": {"path": ".spec.vpc"}},
//!         {"group": "example.com", "version": "v1", "resource": "vpcs", "fieldRef": {"path": ".spec.vcp"}},
//!     ],
//! }});
//!
//! let facts = KindFacts::from_definition(&definition, "v1").unwrap();
//! let rule = Rule::parse(ControlPlane::Kubernetes, &rule)?;
//! let found = paths(&rule, facts.schema.as_ref().unwrap());
//! assert_eq!(found[0].fit, SchemaFit::Fits);
//! assert_eq!(
//!     found[1].to_string(),
//!     "spec.dependencies[1].fieldRef.path does not fit vms.example.com v1: `.spec` has no field `vcp`: it has `vpc`"
//! );
//! # Ok::<(), depguard_core::RuleError>(())
//! ```

use std::fmt;

use crate::model::api::Strategy;
use crate::model::field_path::FieldPath;
use crate::model::names::{GroupResource, GroupVersionResource, Kind};
use crate::protocol::Unreviewed;
use crate::rule::checked_rule::Rule;
use crate::rule::{Edge, Reference};

mod built_in_fields;
mod default_kind;
mod kind_facts;
mod left_out;
mod local_target;
mod openapi;
mod selector_fields;
mod target_namespace;

pub use crate::schema::built_in_fields::built_in_fields;
pub use crate::schema::default_kind::{OtherDefault, other_default};
pub use crate::schema::kind_facts::{KindFacts, KindState};
pub use crate::schema::left_out::left_out;
pub use crate::schema::local_target::{LocalTarget, left_out_export, local_targets};
pub use crate::schema::openapi::{ExpectedType, ScalarTypes, Schema, SchemaFit};
pub use crate::schema::selector_fields::unclear_selector;
pub use crate::schema::target_namespace::{NamespaceMismatch, NamespaceProblem, namespace};

/// Maximum number of selectable fields that a version may have.
pub const MAX_SELECTABLE: usize = 8;

/// Fit of one path of a rule to the schema of its dependents. Prints the problem, if there is one.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PathFit<'r> {
    /// Kind of the dependents.
    pub dependents: &'r GroupVersionResource,
    /// Field of the rule that holds the path: `spec.dependencies[0].fieldRef.path`.
    pub field: String,
    /// Path in the dependents.
    pub path: &'r FieldPath,
    /// Value that must be at the path.
    pub expected: ExpectedType,
    /// Value that the schema allows at the path.
    pub fit: SchemaFit,
}

/// Returns the fit of each path of a rule to the schema of its dependents.
pub fn paths<'r>(rule: &'r Rule, schema: &Schema) -> Vec<PathFit<'r>> {
    let paths = rule.edges().iter().flat_map(|edge| edge.paths().map(move |(field, path)| (edge, field, path)));
    let fit = |(edge, field, path): (&Edge, &str, &'r FieldPath)| {
        let expected = expected_type(edge, field);
        let field = format!("spec.dependencies[{}].{field}", edge.index);
        PathFit { dependents: &rule.dependent().gvr, field, path, expected, fit: schema.fit(path, expected) }
    };
    paths.map(fit).collect()
}

/// Returns the fields of a rule that name kinds about which API servers ask no webhook, each with the reason.
pub fn unreviewed(parsed: &Rule) -> Vec<(String, String)> {
    let dependent = parsed.dependent().gvr.group_resource();
    let stored = |kind: &GroupResource| Unreviewed::from_kind(kind) != Some(Unreviewed::Answers);
    let dependent = (!stored(&dependent)).then(|| ("spec.dependent".to_owned(), dependent));
    let targets = parsed.edges().iter().map(|edge| {
        let field = format!("spec.dependencies[{}]", edge.index);
        (field, edge.target.gvr.group_resource())
    });
    let named = dependent.into_iter().chain(targets);
    named.filter_map(|(field, kind)| Some((field, format!("{kind} {}", Unreviewed::from_kind(&kind)?)))).collect()
}

/// Returns true if dependents refer to targets and the edge does not find them: at a path that it needs, no dependent has a
/// value of the right type. Each other path only narrows a reference down, so without a value the reference counts all
/// the more.
pub fn is_blind(edge: &Edge, schema: &Schema) -> bool {
    let needs = |field| match edge.condition(field) {
        // Where a field is absent, no value of it excludes the reference.
        Some(condition) => !condition.excludes,
        None if field == "fieldRef.kindPath" => default_kind::is_another(edge),
        None => OWN_PATHS.contains(&field) || field == "fieldRef.namespacePath",
    };
    edge.paths().any(|(field, path)| needs(field) && is_missing(edge, field, path, schema))
}

/// Returns true if not the dependents but the targets can hold such a reference: the rule most probably exchanges them.
pub fn is_exchanged(edge: &Edge, dependents: &Schema, targets: &Schema) -> bool {
    let fits = |field, path| targets.fit(path, expected_type(edge, field)) == SchemaFit::Fits;
    let mut own = edge.paths().filter(|(field, _)| OWN_PATHS.contains(field));
    own.any(|(field, path)| is_missing(edge, field, path, dependents) && fits(field, path))
}

/// Fields of a rule that hold the path of a reference.
const OWN_PATHS: [&str; 2] = ["fieldRef.path", "selectorRef.path"];

fn is_missing(edge: &Edge, field: &str, path: &FieldPath, schema: &Schema) -> bool {
    matches!(schema.fit(path, expected_type(edge, field)), SchemaFit::Missing(_) | SchemaFit::Other(_))
}

/// Difference between a kind and a rule's words about it. Prints what to correct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindProblem {
    /// Class of the problem.
    pub what: Mismatch,
    message: String,
}

/// Class of a difference between a kind and a rule's words about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Mismatch {
    /// The kind could not be read.
    Unknown,
    /// There is no kind of this group, version and resource.
    NotServed,
    /// There is no kind of this group at all.
    NotInstalled,
    /// The kind is served, but not in this version.
    Version,
    /// The kind has another name.
    Kind,
}

/// Checks that a kind is served as a rule says. `seen` holds the facts about the kind, if it was read; `kind` is its
/// name in the rule; `field` is the rule's field that names it: `spec.dependent`, `spec.dependencies[0]`.
pub fn kind(
    seen: Option<&KindState>,
    gvr: &GroupVersionResource,
    kind: Option<&Kind>,
    field: &str,
) -> Result<(), KindProblem> {
    let problem = |what, message| Err(KindProblem { what, message });
    match seen {
        None => problem(Mismatch::Unknown, format!("depguard has not read {gvr} yet")),
        Some(KindState::Unknown(why)) => {
            problem(Mismatch::Unknown, format!("could not find out whether the API server serves {gvr}: {why}"))
        }
        Some(KindState::NotServed) => problem(
            Mismatch::NotServed,
            format!("there is no {gvr}: correct the group, version and resource of {field}"),
        ),
        Some(KindState::NotInstalled) => problem(
            Mismatch::NotInstalled,
            format!(
                "no kind of the group {} is served: install {}, or correct {field}.group",
                gvr.group,
                gvr.group_resource()
            ),
        ),
        Some(KindState::Facts(facts)) if !facts.served.iter().any(|served| served == gvr.version.as_str()) => {
            let (served, kind) = (facts.served.join(", "), gvr.group_resource());
            let until =
                if field == "spec.dependent" { "; until then, deletions of its targets are refused" } else { "" };
            let version = &gvr.version;
            problem(
                Mismatch::Version,
                format!("{kind} is not served in version {version}, but in {served}: correct {field}.version{until}"),
            )
        }
        Some(KindState::Facts(facts)) if kind.is_some_and(|kind| kind.as_str() != facts.kind) => {
            problem(Mismatch::Kind, format!("the kind of {gvr} is {}: correct {field}.kind", facts.kind))
        }
        Some(KindState::Facts(_)) => Ok(()),
    }
}

/// Lookup of the dependents of an edge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lookup {
    /// Cheapest way that the dependents' schema allows; `None` if it is not known.
    pub strategy: Option<Strategy>,
    /// Field to add to the dependents' `selectableFields`, to allow the cheapest way of all.
    pub add: Option<FieldPath>,
}

/// Returns the lookup of the dependents of an edge, with the field that would make it cheaper.
pub fn lookup(edge: &Edge, dependents: &KindFacts, targets: Option<&KindFacts>) -> Lookup {
    let plain = edge.selected_by().map(|_| edge.reference.path());
    if plain.is_some_and(|path| dependents.selectable.contains(path)) {
        return Lookup { strategy: Some(Strategy::FieldSelector), add: None };
    }
    if edge.reads_metadata() {
        return Lookup { strategy: Some(Strategy::Metadata), add: None };
    }
    let may_be_selectable = |path: &&FieldPath| {
        let is_text = |schema: &Schema| schema.fit(path, ExpectedType::Text) == SchemaFit::Fits;
        dependents.is_custom
            && dependents.selectable.len() < MAX_SELECTABLE
            && dependents.schema.as_ref().is_some_and(is_text)
    };
    let add = plain.filter(may_be_selectable).cloned();
    let Some(targets) = targets else { return Lookup { strategy: None, add } };
    let one_namespace = dependents.namespaced && targets.namespaced && edge.reference.stays_in_namespace();
    let strategy = match (one_namespace, plain.is_some_and(|path| dependents.printed.contains(path))) {
        (true, true) => Strategy::Table,
        (true, false) => Strategy::NamespaceScan,
        (false, _) => Strategy::ClusterScan,
    };
    Lookup { strategy: Some(strategy), add }
}

/// Returns the advice by which a kind's objects can be selected by a field.
pub fn selectable_hint(gvr: &GroupVersionResource, path: &FieldPath) -> String {
    format!("add `jsonPath: {path}` to selectableFields of version {} of {}", gvr.version, gvr.group_resource())
}

/// Returns the type of the value at the path that this field of an edge holds.
fn expected_type(edge: &Edge, field: &str) -> ExpectedType {
    if let Some(condition) = edge.condition(field) {
        return ExpectedType::Scalar(condition.values.iter().collect());
    }
    match (field, &edge.reference) {
        ("selectorRef.path", _) => ExpectedType::Map,
        ("fieldRef.path", Reference::Field(reference)) if reference.keys => ExpectedType::Map,
        ("fieldRef.path", _) => ExpectedType::Names,
        _ => ExpectedType::Text,
    }
}

impl fmt::Display for PathFit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (field, path, dependents) = (&self.field, self.path, self.dependents);
        match &self.fit {
            SchemaFit::Fits => write!(f, "{field} fits {dependents}"),
            SchemaFit::Open => {
                write!(f, "{field} could not be checked: the schema of {dependents} allows anything at `{path}`")
            }
            SchemaFit::Missing(why) | SchemaFit::Other(why) => {
                write!(f, "{field} does not fit {dependents}: {why}")
            }
        }
    }
}

impl fmt::Display for KindProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::control_plane::ControlPlane;

    /// Returns the schema that a kube-apiserver publishes of Deployments, cut down.
    fn deployments() -> Schema {
        let published = json!({"components": {"schemas": {
            "apps.Deployment": {
                "type": "object",
                "x-kubernetes-group-version-kind": [{"group": "apps", "kind": "Deployment", "version": "v1"}],
                "properties": {"spec": {"allOf": [{"$ref": "#/components/schemas/apps.Spec"}], "default": {}}},
            },
            "apps.Spec": {"type": "object", "properties": {
                "account": {"type": "string"}, "tier": {"type": "string"}, "paused": {"type": "boolean"},
                "accounts": {"type": "array", "items": {"type": "string"}},
                "port": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
                "volumes": {"type": "array", "items": {"$ref": "#/components/schemas/apps.Volume"}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "any": {"type": "object"},
            }},
            "apps.Volume": {"type": "object", "properties": {
                "secret": {"type": "string"}, "optional": {"type": "boolean"}, "tier": {"type": "string"},
            }},
        }}});
        let rule = rule(&json!({"fieldRef": {"path": ".spec.account"}}));
        let gvr = &rule.dependent().gvr;
        let list = json!({"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": true}]});
        KindFacts::from_discovery(&list, gvr).unwrap().with_published(&published, gvr).schema.unwrap()
    }

    fn rule(reference: &serde_json::Value) -> Rule {
        let mut dependency = json!({"group": "", "version": "v1", "kind": "Secret", "resource": "secrets"});
        dependency.as_object_mut().unwrap().extend(reference.as_object().unwrap().clone());
        let dependent = json!({"group": "apps", "version": "v1", "kind": "Deployment", "resource": "deployments"});
        let rule = json!({"metadata": {"name": "a"}, "spec": {"dependent": dependent, "dependencies": [dependency]}});
        Rule::parse(ControlPlane::Kubernetes, &rule).unwrap()
    }

    #[test]
    fn an_edge_is_blind_if_no_dependent_can_have_what_it_needs() {
        let schema = deployments();
        let by_field = |field, path| {
            let mut reference = json!({"fieldRef": {"path": ".spec.account"}});
            reference["fieldRef"][field] = json!(path);
            reference
        };
        let listed = |mut reference: serde_json::Value, path, list: &str, value: serde_json::Value| {
            reference["when"] = json!({"path": path, list: [value]});
            reference
        };
        let when = |reference, path| listed(reference, path, "in", json!("true"));
        let also = |path, list: &str| {
            let mut reference = when(json!({"fieldRef": {"path": ".spec.account"}}), ".spec.tier");
            reference["when"]["and"] = json!([{"path": path, list: ["a"]}]);
            reference
        };
        let (field, volume) = (by_field("path", ".spec.account"), by_field("path", ".spec.volumes[*].secret"));
        let of_kind = |path, default| json!({"kind": "Secret", "fieldRef": {"path": ".spec.account", "kindPath": path, "defaultKind": default}});
        let fixed = || json!({"fieldRef": {"value": "shared"}});
        let selector = |path| json!({"selectorRef": {"path": path}});
        for (reference, blind) in [
            (field.clone(), false),
            (by_field("path", ".spec.acount"), true),
            (by_field("path", ".spec.paused"), true),
            (by_field("path", ".spec.any.account"), false),
            (by_field("namespacePath", ".spec.tier"), false),
            (by_field("namespacePath", ".spec.teir"), true),
            // An absent kind, group or UID is that of any target.
            (by_field("kindPath", ".spec.teir"), false),
            (by_field("groupPath", ".spec.teir"), false),
            (by_field("apiVersionPath", ".spec.teir"), false),
            (by_field("uidPath", ".spec.paused"), false),
            (selector(".spec.labels"), false),
            (selector(".spec.label"), true),
            (when(field.clone(), ".spec.tier"), false),
            (when(field.clone(), ".spec.teir"), true),
            (when(field.clone(), ".spec.paused"), true),
            (when(field.clone(), ".spec.port"), false),
            (when(field.clone(), ".spec.any.tier"), false),
            (when(field.clone(), ".spec.labels.tier"), false),
            (of_kind(".spec.tier", "Other"), false),
            (of_kind(".spec.teir", "Other"), true),
            (of_kind(".spec.teir", "Secret"), false),
            // A boolean is no string, and a string no boolean.
            (listed(field.clone(), ".spec.paused", "in", json!(true)), false),
            (listed(field.clone(), ".spec.tier", "in", json!(true)), true),
            (listed(field.clone(), ".spec.port", "in", json!(80)), false),
            // An absent value is none of the listed ones.
            (listed(field.clone(), ".spec.teir", "notIn", json!("true")), false),
            (listed(field, ".spec.paused", "notIn", json!("true")), false),
            (listed(volume.clone(), ".spec.volumes[*].optional", "in", json!(true)), false),
            (also(".spec.tier", "in"), false),
            (also(".spec.teir", "in"), true),
            (also(".spec.teir", "notIn"), false),
            (when(volume.clone(), ".spec.volumes[*].tier"), false),
            (when(volume, ".spec.volumes[*].optional"), true),
            // The names of a list are references, but a list is no string to compare.
            (when(by_field("path", ".spec.accounts"), ".spec.accounts"), true),
            (when(fixed(), ".spec.tier"), false),
            (when(fixed(), ".spec.paused"), true),
            (when(selector(".spec.labels"), ".spec.labels"), true),
        ] {
            assert_eq!(is_blind(&rule(&reference).edges()[0], &schema), blind, "{reference}");
        }
    }
}
