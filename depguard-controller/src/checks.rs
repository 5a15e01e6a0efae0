//! What the kinds that a rule names say of it: whether they are served, whether its paths lead anywhere, and what its
//! lookups cost. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use depguard_core::api::Strategy;
use depguard_core::{
    Edge, ExportName, FieldPath, GroupVersionResource, Home, Kind, Place as Namespaces, Reference, Rule,
};

use crate::bindings::{Claim, SCHEMAS};
use crate::fields::{Fit, Wanted};
use crate::findings::{Finding, Findings};
use crate::kinds::KindFacts;
use crate::plan::{Place, RulePlan, TargetPlan, World};

/// A kind, and where what it is can be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KindKey {
    pub(crate) place: Place,
    /// The name of its APIResourceSchema; `None`: it is a kind of the cluster itself.
    pub(crate) schema: Option<String>,
    pub(crate) gvr: GroupVersionResource,
    /// Whether its fields matter: those of dependents do. A published schema is large.
    pub(crate) with_schema: bool,
}

/// What was read of a kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    Facts(Arc<KindFacts>),
    /// There is no such kind in that version.
    NotServed,
    /// It could not be found out, and why.
    Unknown(String),
}

/// What was read of the kinds.
pub(crate) type Kinds = BTreeMap<KindKey, Seen>;

/// The selectable fields that a version may have.
const MOST_SELECTABLE: usize = 8;

/// The kinds that a rule names and that can be looked at, the dependent's first. In kcp a workspace's own kinds can't.
pub(crate) fn keys(world: &World<'_>, rule: &RulePlan<'_>) -> Vec<KindKey> {
    let Ok(parsed) = &rule.rule else { return Vec::new() };
    let targets = parsed.edges().iter().zip(&rule.targets);
    let targets = targets.filter_map(|(edge, target)| of_target(world, edge, target));
    of_dependent(world, rule, parsed).into_iter().chain(targets).collect()
}

/// Whether the rule's paths lead anywhere in its dependents.
pub(crate) fn accepted(world: &World<'_>, kinds: &Kinds, rule: &RulePlan<'_>, parsed: &Rule) -> Finding {
    let mut findings = Findings::default();
    let gvr = &parsed.dependent().gvr;
    let facts = of_dependent(world, rule, parsed).and_then(|key| facts(kinds, &key));
    match facts.and_then(|facts| facts.schema.as_ref()) {
        None => findings.note(format!("its paths were not checked: the schema of {} was not seen", name(gvr))),
        Some(schema) => {
            for edge in parsed.edges() {
                for (field, path) in edge.paths() {
                    let field = format!("spec.dependencies[{}].{field}", edge.index);
                    match schema.fit(path, wanted(edge, path)) {
                        Fit::Fits => {}
                        Fit::Open => findings.note(format!(
                            "{field} could not be checked: `{path}` is where the schema of {} allows anything",
                            name(gvr)
                        )),
                        Fit::Never(why) => findings.push(Finding::no(
                            "FieldNotFound",
                            format!("{field} leads nowhere in {}: {why}", name(gvr)),
                        )),
                    }
                }
            }
        }
    }
    findings.sum_up(&[], "Accepted", "the rule is well formed")
}

/// The dependencies of which it is known that no dependent can hold such a reference.
pub(crate) fn blind(world: &World<'_>, kinds: &Kinds, rule: &RulePlan<'_>, parsed: &Rule) -> Vec<usize> {
    let facts = of_dependent(world, rule, parsed).and_then(|key| facts(kinds, &key));
    let Some(schema) = facts.and_then(|facts| facts.schema.as_ref()) else { return Vec::new() };
    let is_blind = |edge: &&Edge| {
        let path = edge.reference.path();
        matches!(schema.fit(path, wanted(edge, path)), Fit::Never(_))
    };
    parsed.edges().iter().filter(is_blind).map(|edge| edge.index).collect()
}

/// Whether the kinds are served as the rule says.
pub(crate) fn served(world: &World<'_>, kinds: &Kinds, rule: &RulePlan<'_>, parsed: &Rule, findings: &mut Findings) {
    let dependent = parsed.dependent();
    if let Some(key) = of_dependent(world, rule, parsed) {
        findings.extend(check(kinds, &key, Some(&dependent.kind), "spec.dependent"));
    }
    for (edge, target) in parsed.edges().iter().zip(&rule.targets) {
        if let Some(key) = of_target(world, edge, target) {
            let field = format!("spec.dependencies[{}]", edge.index);
            findings.extend(check(kinds, &key, edge.target.kind.as_ref(), &field));
        }
    }
}

/// How the dependents of an edge can be found, and what to add to their schema to make that cheaper.
pub(crate) fn lookup(
    world: &World<'_>,
    kinds: &Kinds,
    rule: &RulePlan<'_>,
    parsed: &Rule,
    index: usize,
) -> (Option<Strategy>, Option<String>) {
    let (Some(edge), Some(target)) = (parsed.edges().get(index), rule.targets.get(index)) else { return (None, None) };
    let facts_of = |key: Option<KindKey>| key.and_then(|key| facts(kinds, &key));
    let Some(dependents) = facts_of(of_dependent(world, rule, parsed)) else { return (None, None) };
    let plain = edge.selected_by().map(|_| edge.reference.path());
    if plain.is_some_and(|path| dependents.selectable.contains(path)) {
        return (Some(Strategy::FieldSelector), None);
    }
    if edge.reads_metadata() {
        return (Some(Strategy::Metadata), None);
    }
    let hint = plain.filter(|path| {
        let is_text = |schema: &crate::fields::Schema| schema.fit(path, Wanted::Text) == Fit::Fits;
        dependents.is_custom
            && dependents.selectable.len() < MOST_SELECTABLE
            && dependents.schema.as_ref().is_some_and(is_text)
    });
    let hint = hint.map(|path| {
        let gvr = &parsed.dependent().gvr;
        format!("add `jsonPath: {path}` to selectableFields of version {} of {}", gvr.version, gvr.group_resource())
    });
    let Some(targets) = facts_of(of_target(world, edge, target)) else { return (None, hint) };
    let own_namespace = match &edge.reference {
        Reference::Selector(_) => true,
        Reference::Field(field) => field.place == Namespaces::Own,
    };
    let one_namespace = dependents.namespaced && targets.namespaced && own_namespace;
    let lookup = match (one_namespace, plain.is_some_and(|path| dependents.printed.contains(path))) {
        (true, true) => Strategy::Table,
        (true, false) => Strategy::NamespaceScan,
        (false, _) => Strategy::ClusterScan,
    };
    (Some(lookup), hint)
}

fn wanted(edge: &Edge, path: &FieldPath) -> Wanted {
    match &edge.reference {
        Reference::Selector(own) if own == path => Wanted::Map,
        Reference::Field(field) if field.path == *path && field.keys => Wanted::Map,
        Reference::Field(field) if field.path == *path => Wanted::Names,
        _ => Wanted::Text,
    }
}

fn check(kinds: &Kinds, key: &KindKey, kind: Option<&Kind>, field: &str) -> Option<Finding> {
    let (gvr, version) = (name(&key.gvr), &key.gvr.version);
    let is_dependent = field == "spec.dependent";
    let not_found = |why: String| Some(Finding::no("KindNotFound", why));
    match kinds.get(key) {
        None => Some(Finding::unknown("Unknown", format!("{gvr} was not looked at yet"))),
        Some(Seen::Unknown(why)) => {
            Some(Finding::unknown("Unknown", format!("it is not known whether {gvr} is served: {why}")))
        }
        Some(Seen::NotServed) => {
            not_found(format!("there is no {gvr}: correct the group, version and resource of {field}"))
        }
        Some(Seen::Facts(facts)) if !facts.served.iter().any(|served| served == version.as_str()) => {
            let (served, kind) = (facts.served.join(", "), key.gvr.group_resource());
            let until = if is_dependent { "; until then, deletions of its targets are refused" } else { "" };
            not_found(format!(
                "{kind} is not served in version {version}, but in {served}: correct {field}.version{until}"
            ))
        }
        Some(Seen::Facts(facts)) if kind.is_some_and(|kind| kind.as_str() != facts.kind) => {
            not_found(format!("the kind of {gvr} is {}: correct {field}.kind", facts.kind))
        }
        Some(Seen::Facts(_)) => None,
    }
}

fn facts<'k>(kinds: &'k Kinds, key: &KindKey) -> Option<&'k KindFacts> {
    match kinds.get(key)? {
        Seen::Facts(facts) => Some(facts),
        Seen::NotServed | Seen::Unknown(_) => None,
    }
}

fn of_dependent(world: &World<'_>, rule: &RulePlan<'_>, parsed: &Rule) -> Option<KindKey> {
    let dependent = parsed.dependent();
    of_kind(world, &rule.key.cluster, dependent.export.as_ref(), &dependent.gvr, true)
}

fn of_target(world: &World<'_>, edge: &Edge, target: &TargetPlan) -> Option<KindKey> {
    let export = target.export.as_ref();
    let place = match export {
        None => target.places.first()?.clone(),
        Some(export) => {
            let mut clusters = world.clusters(&export.path);
            let (Some(cluster), None) = (clusters.next(), clusters.next()) else { return None };
            Some(cluster.clone())
        }
    };
    of_kind(world, &place, export.map(|export| &export.name), &edge.target.gvr, false)
}

fn of_kind(
    world: &World<'_>,
    place: &Place,
    export: Option<&ExportName>,
    gvr: &GroupVersionResource,
    with_schema: bool,
) -> Option<KindKey> {
    let schema = match (world.home, place, export) {
        (Home::Kubernetes, ..) => None,
        (Home::Kcp, Some(cluster), Some(export)) => {
            let claim = world.bindings.of(cluster)?.claim(SCHEMAS);
            if claim != Claim::Applied {
                return None;
            }
            Some(world.exports.schema(cluster, export, &gvr.group_resource())?.to_owned())
        }
        (Home::Kcp, ..) => return None,
    };
    Some(KindKey { place: place.clone(), schema, gvr: gvr.clone(), with_schema })
}

/// `virtualmachines.compute.example.com v1alpha1`
fn name(gvr: &GroupVersionResource) -> String {
    format!("{} {}", gvr.group_resource(), gvr.version)
}
