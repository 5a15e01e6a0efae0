//! How a rule fits the kinds that it names: what the controller says on a rule's status, for whoever wants to hear it
//! before the rule is applied. Pure.
//!
//! A kind is read from its definition, or from what an API server publishes ([`KindFacts`]). [`paths`] then tells where
//! a rule's paths lead in it, [`kind`] whether it is what the rule says, and [`lookup`] how dependents will be found:
//!
//! ```
//! use depguard_controller::fitting::{Fit, KindFacts, paths};
//! use depguard_core::{Home, Rule};
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
//! let facts = KindFacts::of_definition(&definition, "v1").unwrap();
//! let rule = Rule::parse(Home::Kubernetes, &rule)?;
//! let found = paths(&rule, facts.schema.as_ref().unwrap());
//! assert_eq!(found[0].fit, Fit::Fits);
//! assert_eq!(
//!     found[1].to_string(),
//!     "spec.dependencies[1].fieldRef.path leads nowhere in vms.example.com v1: `.spec` has no field `vcp`: it has `vpc`"
//! );
//! # Ok::<(), depguard_core::RuleError>(())
//! ```

use std::fmt;

use depguard_core::api::Strategy;
use depguard_core::{Edge, FieldPath, GroupVersionResource, Kind, Reference, Rule};

pub use crate::fields::{Fit, Schema, Wanted};
pub use crate::kinds::{KindFacts, Seen};

/// The selectable fields that a version may have.
pub const MOST_SELECTABLE: usize = 8;

/// Where one path of a rule leads in its dependents. Prints as what is wrong with it, where something is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PathFit<'r> {
    /// The kind of the dependents.
    pub dependents: &'r GroupVersionResource,
    /// The field of the rule that holds the path: `spec.dependencies[0].fieldRef.path`.
    pub field: String,
    /// The path.
    pub path: &'r FieldPath,
    /// What must stand there.
    pub wanted: Wanted,
    /// What does.
    pub fit: Fit,
}

/// Where each path of a rule leads in the schema of its dependents.
pub fn paths<'r>(rule: &'r Rule, schema: &Schema) -> Vec<PathFit<'r>> {
    let paths = rule.edges().iter().flat_map(|edge| edge.paths().map(move |(field, path)| (edge, field, path)));
    let fit = |(edge, field, path): (&Edge, &str, &'r FieldPath)| {
        let wanted = wanted(edge, path);
        let field = format!("spec.dependencies[{}].{field}", edge.index);
        PathFit { dependents: &rule.dependent().gvr, field, path, wanted, fit: schema.fit(path, wanted) }
    };
    paths.map(fit).collect()
}

/// Whether no dependent can hold such a reference.
pub(crate) fn is_blind(edge: &Edge, schema: &Schema) -> bool {
    let is_missing = |path| matches!(schema.fit(path, wanted(edge, path)), Fit::Missing(_) | Fit::Other(_));
    match &edge.reference {
        Reference::Selected(_) => false,
        Reference::Field(_) | Reference::Selector(_) => is_missing(edge.reference.path()),
    }
}

/// Why a kind is not what a rule says. Prints as what to correct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindProblem {
    /// What is the matter.
    pub what: Mismatch,
    message: String,
}

/// In what a kind differs from what a rule says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Mismatch {
    /// It is not known whether it does.
    Unknown,
    /// There is none of that group, version and resource.
    NotServed,
    /// It is served, but not in that version.
    Version,
    /// It is called otherwise.
    Kind,
}

/// Whether a kind is served as a rule says. `seen` is what was read of it, if it was read; `kind` what the rule calls
/// it; `field` where the rule names it: `spec.dependent`, `spec.dependencies[0]`.
pub fn kind(
    seen: Option<&Seen>,
    gvr: &GroupVersionResource,
    kind: Option<&Kind>,
    field: &str,
) -> Result<(), KindProblem> {
    let shown = name(gvr);
    let problem = |what, message| Err(KindProblem { what, message });
    match seen {
        None => problem(Mismatch::Unknown, format!("{shown} was not looked at yet")),
        Some(Seen::Unknown(why)) => {
            problem(Mismatch::Unknown, format!("it is not known whether {shown} is served: {why}"))
        }
        Some(Seen::NotServed) => problem(
            Mismatch::NotServed,
            format!("there is no {shown}: correct the group, version and resource of {field}"),
        ),
        Some(Seen::Facts(facts)) if !facts.served.iter().any(|served| served == gvr.version.as_str()) => {
            let (served, kind) = (facts.served.join(", "), gvr.group_resource());
            let until =
                if field == "spec.dependent" { "; until then, deletions of its targets are refused" } else { "" };
            let version = &gvr.version;
            problem(
                Mismatch::Version,
                format!("{kind} is not served in version {version}, but in {served}: correct {field}.version{until}"),
            )
        }
        Some(Seen::Facts(facts)) if kind.is_some_and(|kind| kind.as_str() != facts.kind) => {
            problem(Mismatch::Kind, format!("the kind of {shown} is {}: correct {field}.kind", facts.kind))
        }
        Some(Seen::Facts(_)) => Ok(()),
    }
}

/// How the dependents of an edge will be looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lookup {
    /// The cheapest way that their schema allows; `None`: not known.
    pub strategy: Option<Strategy>,
    /// The field to add to their `selectableFields`, so that the cheapest way of all is allowed.
    pub add: Option<FieldPath>,
}

/// How the dependents of an edge will be looked for, and what would make that cheaper.
pub fn lookup(edge: &Edge, dependents: &KindFacts, targets: Option<&KindFacts>) -> Lookup {
    let plain = edge.selected_by().map(|_| edge.reference.path());
    if plain.is_some_and(|path| dependents.selectable.contains(path)) {
        return Lookup { strategy: Some(Strategy::FieldSelector), add: None };
    }
    if edge.reads_metadata() {
        return Lookup { strategy: Some(Strategy::Metadata), add: None };
    }
    let may_be_selectable = |path: &&FieldPath| {
        let is_text = |schema: &Schema| schema.fit(path, Wanted::Text) == Fit::Fits;
        dependents.is_custom
            && dependents.selectable.len() < MOST_SELECTABLE
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

/// What to do so that a kind's objects can be asked for by a field.
pub fn selectable_hint(gvr: &GroupVersionResource, path: &FieldPath) -> String {
    format!("add `jsonPath: {path}` to selectableFields of version {} of {}", gvr.version, gvr.group_resource())
}

/// `virtualmachines.compute.example.com v1alpha1`
pub(crate) fn name(gvr: &GroupVersionResource) -> String {
    format!("{} {}", gvr.group_resource(), gvr.version)
}

fn wanted(edge: &Edge, path: &FieldPath) -> Wanted {
    match &edge.reference {
        Reference::Selector(own) if own == path => Wanted::Map,
        Reference::Field(field) if field.path == *path && field.keys => Wanted::Map,
        Reference::Field(field) if field.path == *path => Wanted::Names,
        _ => Wanted::Text,
    }
}

impl fmt::Display for PathFit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (field, path, dependents) = (&self.field, self.path, name(self.dependents));
        match &self.fit {
            Fit::Fits => write!(f, "{field} fits {dependents}"),
            Fit::Open => {
                write!(f, "{field} could not be checked: `{path}` is where the schema of {dependents} allows anything")
            }
            Fit::Missing(why) | Fit::Other(why) => write!(f, "{field} leads nowhere in {dependents}: {why}"),
        }
    }
}

impl fmt::Display for KindProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
