//! Condition `Interlocked`: of a new reference by the rule and the deletion of its target, at most one is allowed.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::time::Duration;

use depguard_core::api::{OnMissing, OwnedDependents};
use depguard_core::graph::strongly_connected_components;
use depguard_core::interlock::Buckets;
use depguard_core::model::GroupResource;
use depguard_core::probe::LoadedRule;
use depguard_core::rule::{Dependent, Edge, InterlockObstacle, RuleKey};
use depguard_core::{ExportName, Rule};
use depguard_kcp::latest;
use tokio::time::Instant;

use crate::interlock::{InterlockState, RegisterReadiness};
use crate::model::condition::Finding;
use crate::model::install_place::InstallPlace;
use crate::model::names::INTERLOCKED;
use crate::probe::result::{NOT_ASKED, ProbeResults};
use crate::rules::named_kinds::NamedKinds;
use crate::rules::plan::{Plan, RulePlan, TargetPlan};

/// Reason while all parts are in order, but have not been for long enough.
pub(super) const WAITING: &str = "Waiting";

/// The interlock at the moment of a round.
#[derive(Debug, Clone)]
pub(crate) struct InterlockView {
    pub(super) buckets: Buckets,
    pub(super) settling: Duration,
    pub(super) readiness: RegisterReadiness,
    /// True if locks may refuse deletions of objects of any kind.
    pub(super) has_locks: bool,
    pub(super) now: Instant,
    /// Earliest time at which the promise begins to hold for a rule.
    pub(super) due: Cell<Option<Instant>>,
}

/// Kind of the objects of one provider: the logical cluster of its APIExport, or of a local kind, and the APIExport.
type Node = (InstallPlace, Option<ExportName>, GroupResource);

/// Kinds that all rules together relate to each other.
#[derive(Debug, Default)]
pub(crate) struct ReferenceGraph {
    /// Numbers of the cycles of edges with `onMissing: Deny`, by the kinds on them. The webhook only warns there.
    cycles: BTreeMap<Node, usize>,
    /// Kinds to which rules protect references: a deletion may be refused.
    targets: BTreeSet<Node>,
}

/// Facts that keep the edges of a rule from being interlocked.
pub(crate) struct Obstacles<'a> {
    pub(crate) plan: &'a RulePlan,
    pub(crate) rule: &'a Rule,
    pub(crate) kinds: &'a NamedKinds<'a>,
    pub(crate) graph: &'a ReferenceGraph,
    /// Namespace of depguard itself, in which nothing is reviewed; `None`: there is none.
    pub(crate) own_namespace: Option<&'a str>,
}

impl InterlockView {
    /// Looks at the interlock now.
    pub(crate) fn now(state: &mut InterlockState) -> Self {
        let InterlockState { buckets, begun: _, settling, has_locks, readiness } = state;
        let (now, due) = (Instant::now(), Cell::new(None));
        let readiness = latest(readiness);
        Self { buckets: latest(buckets), settling: *settling, readiness, has_locks: *has_locks, now, due }
    }

    /// Returns the earliest time at which the promise begins to hold for a rule, if nothing breaks until then.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.get()
    }
}

impl ReferenceGraph {
    /// Makes the graph of all rules. Only an edge between kinds of the same providers closes a cycle.
    pub(crate) fn of_rules(plan: &Plan) -> Self {
        let targets = plan.rules.iter().flat_map(|rule| &rule.targets).flat_map(nodes).collect();
        let mut numbers = BTreeMap::new();
        let mut leaving: Vec<Vec<usize>> = Vec::new();
        for (plan, rule) in plan.rules.iter().filter_map(|plan| Some((plan, plan.rule().ok()?))) {
            let edges = rule.edges().iter().zip(&plan.targets).filter(|(edge, _)| edge.on_missing == OnMissing::Deny);
            let dependent = dependent(&plan.key, rule);
            // An object may name itself, or nothing.
            for target in edges.flat_map(|(_, target)| nodes(target)).filter(|target| *target != dependent) {
                let [from, to] = [dependent.clone(), target].map(|kind| {
                    let next = numbers.len();
                    *numbers.entry(kind).or_insert(next)
                });
                leaving.resize_with(numbers.len(), Vec::new);
                if let Some(leaving) = leaving.get_mut(from) {
                    leaving.push(to);
                }
            }
        }
        let components = strongly_connected_components(&leaving);
        let component = |number: usize| components.get(number).copied();
        let cycles = numbers.into_iter().filter_map(|(kind, number)| Some((kind, component(number)?))).collect();
        Self { cycles, targets }
    }

    /// Returns all that the graph says about a rule: if its dependents are targets, and of each target if it closes a cycle.
    pub(crate) fn about(&self, plan: &RulePlan, rule: &Rule) -> Vec<bool> {
        let dependent = dependent(&plan.key, rule);
        let cycles = plan.targets.iter().flat_map(nodes).map(|target| self.has_cycle(&dependent, &target));
        iter::once(self.targets.contains(&dependent)).chain(cycles).collect()
    }

    fn has_cycle(&self, from: &Node, to: &Node) -> bool {
        from != to && self.cycles.get(from).is_some_and(|cycle| self.cycles.get(to) == Some(cycle))
    }
}

fn dependent(key: &RuleKey, rule: &Rule) -> Node {
    let Dependent { export, gvr, .. } = rule.dependent();
    (key.cluster.clone(), export.clone(), gvr.group_resource())
}

fn nodes(target: &TargetPlan) -> impl Iterator<Item = Node> {
    let export = target.export.as_ref().map(|export| &export.name);
    target.places.iter().map(move |place| (place.clone(), export.cloned(), target.kind.clone()))
}

impl Obstacles<'_> {
    /// Returns the reason why an edge with `onMissing: Deny` can't be interlocked; `None` if it can.
    fn of_edge(&self, edge: &Edge, target: &TargetPlan, view: &InterlockView) -> Option<Finding> {
        let no = |reason, why: &str| Some(Finding::no(reason, format!("spec.dependencies[{}]: {why}", edge.index)));
        if let Some(obstacle) = edge.interlock_obstacle(self.rule.dependent(), self.rule.failure_policy()) {
            let (reason, why) = told(obstacle);
            return no(reason, why);
        }
        let dependent = dependent(&self.plan.key, self.rule);
        if nodes(target).any(|target| self.graph.has_cycle(&dependent, &target)) {
            return no("Cycle", "these kinds refer to each other in a cycle, in which the webhook only warns");
        }
        let (.., kind) = &dependent;
        if edge.owned_dependents == OwnedDependents::Ignore
            && (view.has_locks || self.graph.targets.contains(&dependent))
        {
            let by = if view.has_locks { "a lock" } else { "a rule" };
            let why = format!("with ownedDependents: Ignore, {by} may keep {kind} after the owner is gone");
            return no("OwnedDependents", &why);
        }
        let target = &target.kind;
        if edge.reference.may_mean_each_namespace() && !self.kinds.are_cluster_scoped(&target.to_string()) {
            match self.kinds.has_namespaced_dependents() {
                Some(true) => {}
                Some(false) => {
                    return no("NoSingleTarget", &format!("{kind} without a namespace refer to {target} in each one"));
                }
                None => {
                    let why =
                        format!("spec.dependencies[{}]: depguard does not know if {kind} have namespaces", edge.index);
                    return Some(Finding::unknown("KindUnknown", why));
                }
            }
        }
        None
    }

    /// Returns the cases for which nothing is promised, although the rule is interlocked.
    fn exceptions(&self) -> String {
        let denying = || self.rule.edges().iter().filter(|edge| edge.on_missing == OnMissing::Deny);
        let is_secret = |edge: &Edge| edge.target.gvr.group.is_core() && edge.target.gvr.resource.as_str() == "secrets";
        let mut cases = vec!["deletions by override".to_owned(), "dependents that are being deleted".to_owned()];
        if let Some(namespace) = self.own_namespace {
            cases.push(format!("objects in namespace {namespace}"));
            cases.extend(denying().any(is_secret).then(|| "the Secrets of Helm's releases".to_owned()));
        }
        if denying().any(|edge| edge.owned_dependents == OwnedDependents::Ignore) {
            cases.push("owned dependents that a finalizer or another webhook keeps".to_owned());
        }
        cases.join(", ")
    }
}

/// Returns the reason of the condition and the text for an obstacle in the rule itself.
fn told(obstacle: InterlockObstacle) -> (&'static str, &'static str) {
    match obstacle {
        InterlockObstacle::MissingAllowed => ("MissingAllowed", "only onMissing: Deny refuses references"),
        InterlockObstacle::FailurePolicyIgnore => {
            ("FailurePolicyIgnore", "with failurePolicy: Ignore both are allowed in doubt")
        }
        InterlockObstacle::DeletionAllowed => ("DeletionAllowed", "only onDelete: Deny refuses deletions"),
        InterlockObstacle::NoSingleTarget => ("NoSingleTarget", "a reference by labels names no target"),
        InterlockObstacle::Evictions => ("Pods", "evictions delete Pods too, and leave no mark"),
        InterlockObstacle::Bindings => {
            ("Pods", "a Pod's subresource binding changes fields that the rule reads, and leaves no mark")
        }
        InterlockObstacle::Status => {
            ("Status", "the rule reads a status that API servers change themselves, too, without asking a webhook")
        }
    }
}

/// Returns the condition; `None` if no edge of the rule looks for targets that must be there.
pub(crate) fn interlocked(
    obstacles: &Obstacles<'_>,
    hindrance: Option<&Finding>,
    probe_results: &ProbeResults,
    view: &InterlockView,
) -> Option<Finding> {
    let Obstacles { plan, rule, .. } = obstacles;
    let edges = rule.edges().iter().zip(&plan.targets);
    let denying: Vec<_> = edges.filter(|(edge, _)| edge.on_missing == OnMissing::Deny).collect();
    let hindered: Vec<_> = denying.iter().filter_map(|(edge, target)| obstacles.of_edge(edge, target, view)).collect();
    if hindered.len() == denying.len() {
        return hindered.into_iter().next();
    }
    if let Some(why) = hindrance {
        return Some(not_enforced(why));
    }
    let mut since = match &view.readiness {
        RegisterReadiness::Open { since, .. } => *since,
        RegisterReadiness::NotOpen { why } => return Some(Finding::no("RegistersNotOpen", why)),
    };
    for key in plan.configurations() {
        let result = probe_results.get(&key);
        // For a short time it may be that nobody answers, so the last answers count.
        let Some((loaded, steady)) = result.and_then(|result| result.steady.get(&plan.key)) else {
            let problem = result.and_then(|result| result.of_rule(&plan.key, &plan.expected()));
            let not_asked =
                || Finding::unknown(NOT_ASKED, "depguard has not asked the webhook yet if it records marks");
            return Some(problem.map_or_else(not_asked, |why| not_enforced(&why)));
        };
        for LoadedRule { registers, authenticated, .. } in loaded {
            match (*registers == view.buckets.number(), authenticated) {
                (true, true) => continue,
                (true, false) => {
                    let why = "a webhook records marks for whoever reaches it: update it, or start it with --client-ca";
                    return Some(Finding::no("ReviewsNotAuthenticated", why));
                }
                (false, _) => {}
            }
            let expected = view.buckets.number();
            let why = match registers {
                0 => format!("a webhook interlocks nothing: start it with --reference-registers {expected}"),
                _ => format!(
                    "a webhook interlocks by {registers} registers: start it with --reference-registers {expected}, as the \
                     controller"
                ),
            };
            return Some(Finding::no("OtherRegisters", why));
        }
        since = since.max(*steady);
    }
    let due = since + view.settling;
    if view.now < due {
        view.due.set(Some(view.due.get().map_or(due, |other| other.min(due))));
        let seconds = view.settling.as_secs();
        let why = format!(
            "all webhooks that answer record marks; the promise holds once they have done so for {seconds} s, because \
             requests that began before have left none"
        );
        return Some(Finding::no(WAITING, why));
    }
    let exceptions = obstacles.exceptions();
    let mut message =
        format!("of a new reference and the deletion of its target, at most one is allowed; excepted: {exceptions}");
    if let RegisterReadiness::Open { full: Some(name), .. } = &view.readiness {
        message.push_str(&format!("; ReferenceRegister {name} is full, so requests about its targets are put off"));
    }
    for finding in hindered {
        message.push_str(&format!("; not so {}", finding.message));
    }
    Some(Finding::yes(INTERLOCKED, message))
}

/// Returns the condition of a rule that is not in force for this reason.
fn not_enforced(why: &Finding) -> Finding {
    let message = format!("the rule is not enforced: {}", why.message);
    match why.status {
        "Unknown" => Finding::unknown("EnforcementUnknown", message),
        _ => Finding::no("NotEnforced", message),
    }
}
