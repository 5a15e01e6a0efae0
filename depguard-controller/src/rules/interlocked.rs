//! Condition `Interlocked`: of a new reference by the rule and the deletion of its target, at most one is allowed.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use depguard_core::api::{FailurePolicy, OnDelete, OnMissing};
use depguard_core::graph::strongly_connected_components;
use depguard_core::interlock::Buckets;
use depguard_core::model::GroupResource;
use depguard_core::probe::LoadedRule;
use depguard_core::rule::Edge;
use depguard_core::{GroupVersionResource, Rule};
use depguard_kcp::latest;
use tokio::time::Instant;

use crate::interlock::{InterlockState, RegisterReadiness};
use crate::model::condition::Finding;
use crate::model::input_fields::InputFields;
use crate::probe::result::{NOT_ASKED, ProbeResults};
use crate::rules::named_kinds::NamedKinds;
use crate::rules::plan::{Plan, RulePlan};

pub(crate) const INTERLOCKED: &str = "Interlocked";
/// Reason while all parts are in order, but have not been for long enough.
const WAITING: &str = "Waiting";

/// The interlock at the moment of a round.
#[derive(Debug, Clone)]
pub(crate) struct InterlockView {
    pub(super) buckets: Buckets,
    pub(super) settling: Duration,
    pub(super) readiness: RegisterReadiness,
    pub(super) now: Instant,
    /// Earliest time at which the promise begins to hold for a rule.
    pub(super) due: Cell<Option<Instant>>,
}

/// Kinds that refer to each other in a cycle by edges with `onMissing: Deny`. The webhook only warns there.
#[derive(Debug, Default)]
pub(crate) struct Cycles(BTreeMap<GroupResource, usize>);

/// Facts that keep the edges of a rule from being interlocked.
pub(crate) struct Obstacles<'a> {
    pub(crate) rule: &'a Rule,
    pub(crate) kinds: &'a NamedKinds<'a>,
    pub(crate) cycles: &'a Cycles,
}

impl InterlockView {
    /// Looks at the interlock now.
    pub(crate) fn now(state: &mut InterlockState) -> Self {
        let InterlockState { buckets, settling, readiness } = state;
        let (now, due) = (Instant::now(), Cell::new(None));
        Self { buckets: *buckets, settling: *settling, readiness: latest(readiness), now, due }
    }

    /// Returns the earliest time at which the promise begins to hold for a rule, if nothing breaks until then.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.get()
    }
}

impl Cycles {
    /// Finds the cycles of the rules' edges. The providers of kinds don't count: a cycle too many makes a condition say
    /// less.
    pub(crate) fn of_references(plan: &Plan<'_>) -> Self {
        let mut numbers = BTreeMap::new();
        let mut leaving: Vec<Vec<usize>> = Vec::new();
        for rule in plan.rules.iter().filter_map(|rule| rule.rule().ok()) {
            let dependent = rule.dependent().gvr.group_resource();
            for edge in rule.edges().iter().filter(|edge| edge.on_missing == OnMissing::Deny) {
                let target = edge.target.gvr.group_resource();
                // An object may name itself, or nothing.
                if target == dependent {
                    continue;
                }
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
        Self(numbers.into_iter().filter_map(|(kind, number)| Some((kind, component(number)?))).collect())
    }

    fn contain(&self, from: &GroupResource, to: &GroupResource) -> bool {
        from != to && self.0.get(from).is_some_and(|component| self.0.get(to) == Some(component))
    }
}

impl Obstacles<'_> {
    /// Returns the reason why an edge with `onMissing: Deny` can't be interlocked; `None` if it can.
    fn of_edge(&self, edge: &Edge) -> Option<Finding> {
        let (dependent, reference) = (self.rule.dependent(), &edge.reference);
        let [kind, target] = [&dependent.gvr, &edge.target.gvr].map(GroupVersionResource::group_resource);
        let no = |reason, why: &str| Some(Finding::no(reason, format!("spec.dependencies[{}]: {why}", edge.index)));
        if self.rule.failure_policy() == FailurePolicy::Ignore {
            return no("FailurePolicyIgnore", "with failurePolicy: Ignore both are allowed in doubt");
        }
        if edge.on_delete != OnDelete::Deny {
            return no("DeletionAllowed", "only onDelete: Deny refuses deletions");
        }
        if reference.selects() {
            return no("NoSingleTarget", "a reference by labels names no target");
        }
        if self.cycles.contain(&kind, &target) {
            return no("Cycle", "these kinds refer to each other in a cycle, in which the webhook only warns");
        }
        if is_pods(&target) {
            return no("Pods", "evictions delete Pods too, and leave no mark");
        }
        let inputs = edge.inputs(dependent).map(|path| InputFields::from_path(&path));
        let inputs = inputs.fold(InputFields::none(), InputFields::and);
        if is_pods(&kind) && (inputs.reach("metadata") || inputs.reach("spec")) {
            return no("Pods", "a Pod's subresource binding changes fields that the rule reads, and is not reviewed");
        }
        if reference.may_mean_each_namespace() && !self.kinds.are_cluster_scoped(&target.to_string()) {
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
        // Whatever else the core may ask for.
        let is_interlocked = edge.is_interlocked(self.rule.failure_policy());
        if is_interlocked { None } else { no("NotInterlocked", "the webhook records no marks about it") }
    }
}

/// Returns the condition; `None` if no edge of the rule looks for targets that must be there.
pub(crate) fn interlocked(
    plan: &RulePlan<'_>,
    obstacles: &Obstacles<'_>,
    enforced: &Finding,
    probe_results: &ProbeResults,
    view: &InterlockView,
) -> Option<Finding> {
    let rule = obstacles.rule;
    let denying: Vec<_> = rule.edges().iter().filter(|edge| edge.on_missing == OnMissing::Deny).collect();
    let hindered: Vec<_> = denying.iter().filter_map(|edge| obstacles.of_edge(edge)).collect();
    if hindered.len() == denying.len() {
        return hindered.into_iter().next();
    }
    if enforced.status != "True" {
        let why = format!("the rule is not enforced: {}", enforced.message);
        return Some(match enforced.status {
            "Unknown" => Finding::unknown("EnforcementUnknown", why),
            _ => Finding::no("NotEnforced", why),
        });
    }
    let mut since = match &view.readiness {
        RegisterReadiness::Open { since } => *since,
        RegisterReadiness::NotOpen { why } => return Some(Finding::no("RegistersNotOpen", why)),
    };
    for key in plan.configurations() {
        let Some((loaded, steady)) = probe_results.get(&key).and_then(|result| result.steady.get(&plan.key)) else {
            return Some(Finding::unknown(NOT_ASKED, "depguard has not asked the webhook yet if it records marks"));
        };
        let LoadedRule { registers, .. } = loaded;
        if *registers != view.buckets.number() {
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
    let mut message = "of a new reference and the deletion of its target, at most one is allowed".to_owned();
    for finding in hindered {
        message.push_str(&format!("; not so {}", finding.message));
    }
    Some(Finding::yes(INTERLOCKED, message))
}

fn is_pods(kind: &GroupResource) -> bool {
    kind.group.is_core() && kind.resource.as_str() == "pods"
}
