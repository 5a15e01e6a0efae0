//! Kinds that a rule names: where they are read, and what follows for the rule. Pure.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::api::Strategy;
use depguard_core::model::{GroupResource, Kind};
use depguard_core::probe::dispatch_canary;
use depguard_core::rule::{Edge, Reference};
use depguard_core::schema::{self, KindFacts, KindProblem, Mismatch, Schema};
use depguard_core::{ControlPlane, ExportName, GroupVersionResource, Rule};

use crate::model::api_bindings::{Claim, SCHEMAS};
use crate::model::condition::{Finding, Findings};
use crate::model::install_place::InstallPlace;
use crate::rules::plan::{PlanInput, RulePlan, TargetPlan};
use crate::schema::kind_reader::{KindKey, Kinds};

/// Reason of a rule about kinds that are not installed: it sleeps, and wakes once they are.
pub(crate) const DORMANT: &str = "Dormant";

/// Reason of a rule about kinds of aggregated API servers, of which nobody knows if they ask webhooks.
const AGGREGATED_SERVER: &str = "AggregatedServer";

/// Namespace of the canaries of such kinds: nothing in depguard's own is reviewed.
const CANARIES: &str = "default";

/// Kinds that a rule names, with the results of reading them.
pub(crate) struct NamedKinds<'a> {
    input: &'a PlanInput<'a>,
    kinds: &'a Kinds,
    plan: &'a RulePlan,
    rule: &'a Rule,
}

impl<'a> NamedKinds<'a> {
    /// Makes the kinds of a usable rule; `kinds` has those of all rules.
    pub(crate) fn new(input: &'a PlanInput<'a>, kinds: &'a Kinds, plan: &'a RulePlan, rule: &'a Rule) -> Self {
        Self { input, kinds, plan, rule }
    }

    /// Returns the finding about kinds that are known to be missing, so that the rule can't do what it says: a target's
    /// kind, or the dependents' kind in the version in which they are read. (Of a target, every served version is
    /// protected.) A kind's name matters only where dependents say of which kind their target is.
    pub(crate) fn missing_kinds(&self) -> Option<Finding> {
        let dependent = self.problem(self.dependent_key(), None, "spec.dependent");
        let dependent = dependent.filter(|problem| problem.what != Mismatch::Unknown);
        let targets = self.targets().filter_map(|(edge, key)| {
            let reads_kind = matches!(&edge.reference, Reference::Field(field) if field.kind.is_some());
            let problem = self.problem(key, edge.target.kind.as_ref().filter(|_| reads_kind), &field_of(edge))?;
            (!matches!(problem.what, Mismatch::Unknown | Mismatch::Version)).then_some(problem)
        });
        let missing: Vec<_> = dependent.into_iter().chain(targets).map(|problem| problem.to_string()).collect();
        (!missing.is_empty()).then(|| Finding::no(self.missing_reason(), missing.join("; ")))
    }

    /// Returns the reason for kinds that are missing. A rule is dormant if no object can refer to another by it, since the
    /// dependents' kind or all targets' kinds are not installed, and if nothing else is wrong with its kinds.
    fn missing_reason(&self) -> &'static str {
        let dependent = self.problem(self.dependent_key(), Some(&self.rule.dependent().kind), "spec.dependent");
        let targets = self.targets().map(|(edge, key)| self.problem(key, edge.target.kind.as_ref(), &field_of(edge)));
        let targets: Vec<_> = targets.collect();
        let is_absent = |problem: &KindProblem| problem.what == Mismatch::NotInstalled;
        let sleeps = |problem: &Option<KindProblem>| problem.as_ref().is_some_and(is_absent);
        let refers = !sleeps(&dependent) && !targets.iter().all(sleeps);
        let is_wrong = !dependent.iter().chain(targets.iter().flatten()).all(is_absent);
        if refers || is_wrong { "KindNotFound" } else { DORMANT }
    }

    fn problem(&self, key: Option<KindKey>, kind: Option<&Kind>, field: &str) -> Option<KindProblem> {
        let key = key?;
        schema::kind(self.kinds.get(&key), &key.gvr, kind, field).err()
    }

    /// Returns the dependencies for which it is known that dependents refer to targets without being found.
    pub(crate) fn unmatchable_dependencies(&self) -> Vec<usize> {
        let Some(schema) = self.schema() else { return Vec::new() };
        let unmatchable = self.rule.edges().iter().filter(|edge| schema::is_blind(edge, schema));
        unmatchable.map(|edge| edge.index).collect()
    }

    /// Returns the finding about kinds that matter and that an aggregated API server serves: targets about whose deletions no
    /// canary showed that webhooks are asked, and the dependents if their references are looked for.
    pub(crate) fn aggregated_kinds(&self, is_arriving: impl Fn(&GroupResource) -> bool) -> Option<Finding> {
        let unreviewed = |key: &KindKey, is_target| {
            self.kinds.get(key)?.facts()?.may_go_unreviewed(&key.gvr.group_resource(), is_target)
        };
        let dependent = self.dependent_key().filter(|_| self.plan.checked_references().is_some());
        let dependent = dependent.and_then(|key| unreviewed(&key, false));
        let targets = self.targets().filter_map(|(_, key)| key);
        let targets = targets.filter(|key| !is_arriving(&key.gvr.group_resource())).filter_map(|key| {
            let why = unreviewed(&key, true)?;
            let (kind, name, label) = (key.gvr.group_resource(), dispatch_canary::NAME, dispatch_canary::LABEL);
            let namespace = self.facts(Some(key.clone()))?.namespaced.then(|| format!(" in namespace {CANARIES}"));
            let canary = format!(
                "for the controller to see it, create one of {kind} named {name}{} with the label {label}: \"true\", \
                 and let the controller delete it (it only tries)",
                namespace.unwrap_or_default()
            );
            Some(format!("{why}; {canary}"))
        });
        let why: BTreeSet<_> = dependent.into_iter().chain(targets).collect();
        (!why.is_empty()).then(|| Finding::unknown(AGGREGATED_SERVER, why.into_iter().collect::<Vec<_>>().join("; ")))
    }

    /// Returns the targets' kinds that an aggregated API server may serve, each with the path of its canary.
    pub(crate) fn canaries(&self) -> BTreeMap<GroupResource, String> {
        let canaries = self.targets().filter_map(|(_, key)| {
            let key = key?;
            let facts = self.kinds.get(&key)?.facts().filter(|facts| facts.is_aggregated != Some(false))?;
            let namespace = facts.namespaced.then_some(CANARIES);
            Some((key.gvr.group_resource(), key.gvr.path(namespace, Some(dispatch_canary::NAME))))
        });
        canaries.collect()
    }

    /// Adds a finding for each kind that is not served as the rule says.
    pub(crate) fn check_served(&self, findings: &mut Findings) {
        let mut check = |key: Option<KindKey>, kind: Option<&Kind>, field: &str| {
            let Some(problem) = self.problem(key, kind, field) else { return };
            findings.push(match problem.what {
                Mismatch::Unknown => Finding::unknown("Unknown", problem.to_string()),
                Mismatch::NotInstalled => Finding::no(self.missing_reason(), problem.to_string()),
                Mismatch::NotServed | Mismatch::Version | Mismatch::Kind => {
                    Finding::no("KindNotFound", problem.to_string())
                }
            });
        };
        check(self.dependent_key(), Some(&self.rule.dependent().kind), "spec.dependent");
        for (edge, key) in self.targets() {
            check(key, edge.target.kind.as_ref(), &field_of(edge));
        }
    }

    /// Returns the way in which the dependents of an edge are found, and a field to add to their schema if that makes
    /// it cheaper.
    pub(crate) fn lookup(&self, index: usize) -> (Option<Strategy>, Option<String>) {
        let (edge, target) = (self.rule.edges().get(index), self.plan.targets.get(index));
        let (Some(edge), Some(target)) = (edge, target) else { return (None, None) };
        let Some(dependents) = self.facts(self.dependent_key()) else { return (None, None) };
        let lookup = schema::lookup(edge, dependents, self.facts(target_key(self.input, edge, target)));
        (lookup.strategy, lookup.add.map(|path| schema::selectable_hint(&self.rule.dependent().gvr, &path)))
    }

    /// Returns true if it is known that the targets of this resource, written with its group, are in no namespace.
    pub(crate) fn are_cluster_scoped(&self, resource: &str) -> bool {
        let mut of_resource =
            self.targets().filter(|(edge, _)| edge.target.gvr.group_resource().to_string() == resource);
        of_resource.any(|(_, key)| self.facts(key).is_some_and(|facts| !facts.namespaced))
    }

    /// Returns true if the dependents are in namespaces; `None` if that is unknown.
    pub(crate) fn has_namespaced_dependents(&self) -> Option<bool> {
        Some(self.facts(self.dependent_key())?.namespaced)
    }

    /// Returns the schema of the dependents, if it is known.
    pub(crate) fn schema(&self) -> Option<&'a Schema> {
        self.facts(self.dependent_key())?.schema.as_ref()
    }

    fn facts(&self, key: Option<KindKey>) -> Option<&'a KindFacts> {
        self.kinds.get(&key?)?.facts()
    }

    fn dependent_key(&self) -> Option<KindKey> {
        dependent_key(self.input, self.plan, self.rule)
    }

    /// Returns the edges, each with the kind of its target if that can be looked at.
    fn targets(&self) -> impl Iterator<Item = (&'a Edge, Option<KindKey>)> {
        let targets = self.rule.edges().iter().zip(&self.plan.targets);
        targets.map(|(edge, target)| (edge, target_key(self.input, edge, target)))
    }
}

/// Returns the kinds that a rule names and that can be looked at, the dependent's first. In kcp a workspace's own
/// kinds can't be looked at.
pub(crate) fn kind_keys(input: &PlanInput<'_>, plan: &RulePlan) -> Vec<KindKey> {
    let Ok(rule) = plan.rule() else { return Vec::new() };
    let targets = rule.edges().iter().zip(&plan.targets);
    let targets = targets.filter_map(|(edge, target)| target_key(input, edge, target));
    dependent_key(input, plan, rule).into_iter().chain(targets).collect()
}

fn dependent_key(input: &PlanInput<'_>, plan: &RulePlan, rule: &Rule) -> Option<KindKey> {
    let dependent = rule.dependent();
    kind_key(input, &plan.key.cluster, dependent.export.as_ref(), &dependent.gvr, true)
}

fn target_key(input: &PlanInput<'_>, edge: &Edge, target: &TargetPlan) -> Option<KindKey> {
    let export = target.export.as_ref();
    let place = match export {
        None => target.places.first()?.clone(),
        Some(export) => {
            let mut clusters = input.clusters(&export.path);
            let (Some(cluster), None) = (clusters.next(), clusters.next()) else { return None };
            Some(cluster.clone())
        }
    };
    kind_key(input, &place, export.map(|export| &export.name), &edge.target.gvr, false)
}

fn kind_key(
    input: &PlanInput<'_>,
    place: &InstallPlace,
    export: Option<&ExportName>,
    gvr: &GroupVersionResource,
    with_schema: bool,
) -> Option<KindKey> {
    let schema = match (input.control_plane, place, export) {
        (ControlPlane::Kubernetes, ..) => None,
        (ControlPlane::Kcp, Some(cluster), Some(export)) => {
            let claim = input.bindings.of(cluster)?.claim(SCHEMAS);
            if claim != Claim::Applied {
                return None;
            }
            Some(input.exports.schema(cluster, export, &gvr.group_resource())?.to_owned())
        }
        (ControlPlane::Kcp, ..) => return None,
    };
    Some(KindKey { place: place.clone(), schema, gvr: gvr.clone(), with_schema })
}

fn field_of(edge: &Edge) -> String {
    format!("spec.dependencies[{}]", edge.index)
}
