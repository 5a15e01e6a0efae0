//! Inputs of the status of one rule.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use depguard_core::Rule;
use depguard_core::applicability::RuleGrant;
use depguard_core::schema::KindState;

use crate::rules::interlocked::{InterlockView, ReferenceGraph};
use crate::rules::named_kinds::{DORMANT, kind_keys};
use crate::rules::plan::{PlanInput, RulePlan};
use crate::rules::status::RoundOutcomes;

/// Returns a hash of all that the status of a rule is made from, besides its object and the time. Facts about kinds count
/// by their addresses, so two hashes can be compared only while the facts of both exist.
pub(super) fn inputs(input: &PlanInput<'_>, rule: &RulePlan, found: &RoundOutcomes, graph: &ReferenceGraph) -> u64 {
    let hash = &mut DefaultHasher::new();
    input.clients.own_namespace.hash(hash);
    rule.targets.hash(hash);
    for key in rule.configurations() {
        let bears = found.outstanding.get(&key).map(|not_in_force| not_in_force.contains(&rule.key));
        let result = found.probe_results.get(&key);
        let problem = result.map(|result| (result.is_outstanding(), result.of_rule(&rule.key, &rule.expected())));
        let steady = result.and_then(|result| result.steady.get(&rule.key));
        let arriving = result.map(|result| &result.arriving);
        (found.outcomes.get(&key), bears, problem, steady, arriving).hash(hash);
        key.hash(hash);
    }
    of_workspaces(input, rule, hash);
    found.counts.get(&rule.key).hash(hash);
    let Ok(parsed) = rule.rule() else { return hash.finish() };
    of_exports(input, rule, parsed, hash);
    for key in kind_keys(input, rule) {
        match found.kinds.get(&key) {
            Some(KindState::Facts(facts)) => Arc::as_ptr(facts).addr().hash(hash),
            Some(KindState::Unknown(why)) => why.hash(hash),
            Some(KindState::NotInstalled) => DORMANT.hash(hash),
            Some(KindState::NotServed) | None => found.kinds.contains_key(&key).hash(hash),
        }
        key.hash(hash);
    }
    if let Some(InterlockView { buckets, settling, readiness, has_locks, now: _, due: _ }) = &found.interlock {
        (buckets.number(), settling, readiness, has_locks, graph.about(rule, parsed)).hash(hash);
    }
    hash.finish()
}

/// Hashes what is known of the workspaces that the rule is in, names, or would be installed in.
fn of_workspaces(input: &PlanInput<'_>, rule: &RulePlan, hash: &mut impl Hasher) {
    let paths: BTreeSet<_> = rule.targets.iter().filter_map(|target| Some(&target.export.as_ref()?.path)).collect();
    let places = rule.targets.iter().flat_map(|target| target.places.iter().flatten().chain(&target.refused));
    let references = rule.references.iter().filter_map(|key| key.place.as_ref());
    let claimants = paths.iter().flat_map(|path| input.bindings.at(path));
    let all: BTreeSet<_> = places.chain(references).chain(claimants).chain(&rule.key.cluster).collect();
    for path in paths {
        input.lookups.get(path).hash(hash);
    }
    for cluster in all {
        (cluster, input.bindings.of(cluster), input.believed_path(cluster)).hash(hash);
    }
}

/// Hashes what is known of the APIExports that the rule names, and whether their providers accept the rule.
fn of_exports(input: &PlanInput<'_>, rule: &RulePlan, parsed: &Rule, hash: &mut impl Hasher) {
    let Some(own) = &rule.key.cluster else { return };
    let dependent = parsed.dependent();
    let kind = dependent.gvr.group_resource();
    match &dependent.export {
        Some(export) => input.exports.serves(own, export, &kind).hash(hash),
        None => input.exports.serving(own, &kind).hash(hash),
    }
    for target in &rule.targets {
        let Some(export) = &target.export else {
            input.exports.serving(own, &target.kind).hash(hash);
            continue;
        };
        for provider in input.bindings.at(&export.path) {
            let unreadable = match input.rule_grants.get(provider, &export.name) {
                Some(RuleGrant::Unreadable(entry)) => Some(entry),
                _ => None,
            };
            let acceptance = input.rule_grants.acceptance(own, provider, &export.name);
            (acceptance, unreadable, input.exports.serves(provider, &export.name, &target.kind)).hash(hash);
        }
    }
}
