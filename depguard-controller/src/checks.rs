//! What the kinds that a rule names say of it: whether they are served, whether its paths lead anywhere, and what its
//! lookups cost. Pure.

use std::collections::BTreeMap;

use depguard_core::api::Strategy;
use depguard_core::{Edge, ExportName, GroupResource, GroupVersionResource, Home, Kind, Rule, Unreviewed};

use crate::bindings::{Claim, SCHEMAS};
use crate::findings::{Finding, Findings};
use crate::fitting::{self, Fit, Mismatch, Schema, Seen};
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

/// What was read of the kinds.
pub(crate) type Kinds = BTreeMap<KindKey, Seen>;

/// The kinds that a rule names and that can be looked at, the dependent's first. In kcp a workspace's own kinds can't.
pub(crate) fn keys(world: &World<'_>, rule: &RulePlan<'_>) -> Vec<KindKey> {
    let Ok(parsed) = rule.rule() else { return Vec::new() };
    let targets = parsed.edges().iter().zip(&rule.targets);
    let targets = targets.filter_map(|(edge, target)| of_target(world, edge, target));
    of_dependent(world, rule, parsed).into_iter().chain(targets).collect()
}

/// Whether the rule's paths lead anywhere in its dependents.
pub(crate) fn accepted(world: &World<'_>, kinds: &Kinds, rule: &RulePlan<'_>, parsed: &Rule) -> Finding {
    let mut findings = Findings::default();
    for (field, why) in unreviewed(parsed) {
        findings.push(Finding::no("NotReviewed", format!("{field} can have no effect: {why}")));
    }
    match of_dependent(world, rule, parsed).and_then(|key| schema(kinds, &key)) {
        None => {
            let dependents = fitting::name(&parsed.dependent().gvr);
            findings.note(format!("its paths were not checked: the schema of {dependents} was not seen"));
        }
        Some(schema) => {
            for path in fitting::paths(parsed, schema) {
                match path.fit {
                    Fit::Fits => {}
                    Fit::Open => findings.note(path.to_string()),
                    Fit::Missing(_) | Fit::Other(_) => findings.push(Finding::no("FieldNotFound", path.to_string())),
                }
            }
        }
    }
    findings.sum_up(&["NotReviewed"], "Accepted", "the rule is well formed")
}

/// The fields of a rule that name kinds about which API servers ask no webhook, and why they ask none.
pub(crate) fn unreviewed(parsed: &Rule) -> Vec<(String, String)> {
    let dependent = parsed.dependent().gvr.group_resource();
    let stored = |kind: &GroupResource| Unreviewed::of(kind) != Some(Unreviewed::Answers);
    let dependent = (!stored(&dependent)).then(|| ("spec.dependent".to_owned(), dependent));
    let targets = parsed.edges().iter().map(|edge| {
        let field = format!("spec.dependencies[{}]", edge.index);
        (field, edge.target.gvr.group_resource())
    });
    let named = dependent.into_iter().chain(targets);
    named.filter_map(|(field, kind)| Some((field, format!("{kind} {}", Unreviewed::of(&kind)?)))).collect()
}

/// What is known to be missing of the kinds that a rule names, so that it can't do what it says: a target's kind, or the
/// dependents' in the version in which they are read. (Of a target, every served version is protected.)
pub(crate) fn missing(world: &World<'_>, kinds: &Kinds, rule: &RulePlan<'_>, parsed: &Rule) -> Vec<String> {
    let problem = |key: Option<KindKey>, field: &str| {
        let key = key?;
        fitting::kind(kinds.get(&key), &key.gvr, None, field).err()
    };
    let dependent = problem(of_dependent(world, rule, parsed), "spec.dependent");
    let dependent = dependent.filter(|problem| matches!(problem.what, Mismatch::NotServed | Mismatch::Version));
    let targets = parsed.edges().iter().zip(&rule.targets).filter_map(|(edge, target)| {
        let problem = problem(of_target(world, edge, target), &format!("spec.dependencies[{}]", edge.index))?;
        (problem.what == Mismatch::NotServed).then_some(problem)
    });
    dependent.into_iter().chain(targets).map(|problem| problem.to_string()).collect()
}

/// The dependencies of which it is known that no dependent can hold such a reference.
pub(crate) fn blind(world: &World<'_>, kinds: &Kinds, rule: &RulePlan<'_>, parsed: &Rule) -> Vec<usize> {
    let schema = of_dependent(world, rule, parsed).and_then(|key| schema(kinds, &key));
    let Some(schema) = schema else { return Vec::new() };
    let blind = parsed.edges().iter().filter(|edge| fitting::is_blind(edge, schema));
    blind.map(|edge| edge.index).collect()
}

/// Whether the kinds are served as the rule says.
pub(crate) fn served(world: &World<'_>, kinds: &Kinds, rule: &RulePlan<'_>, parsed: &Rule, findings: &mut Findings) {
    let mut check = |key: &KindKey, kind: Option<&Kind>, field: &str| {
        let Err(problem) = fitting::kind(kinds.get(key), &key.gvr, kind, field) else { return };
        findings.push(match problem.what {
            Mismatch::Unknown => Finding::unknown("Unknown", problem.to_string()),
            Mismatch::NotServed | Mismatch::Version | Mismatch::Kind => {
                Finding::no("KindNotFound", problem.to_string())
            }
        });
    };
    if let Some(key) = of_dependent(world, rule, parsed) {
        check(&key, Some(&parsed.dependent().kind), "spec.dependent");
    }
    for (edge, target) in parsed.edges().iter().zip(&rule.targets) {
        if let Some(key) = of_target(world, edge, target) {
            check(&key, edge.target.kind.as_ref(), &format!("spec.dependencies[{}]", edge.index));
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
    let facts_of = |key: Option<KindKey>| kinds.get(&key?)?.facts();
    let Some(dependents) = facts_of(of_dependent(world, rule, parsed)) else { return (None, None) };
    let lookup = fitting::lookup(edge, dependents, facts_of(of_target(world, edge, target)));
    (lookup.strategy, lookup.add.map(|path| fitting::selectable_hint(&parsed.dependent().gvr, &path)))
}

fn schema<'k>(kinds: &'k Kinds, key: &KindKey) -> Option<&'k Schema> {
    kinds.get(key)?.facts()?.schema.as_ref()
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
