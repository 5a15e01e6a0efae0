//! Checks across rules: cycles of kinds that refer to each other, `onMissing: Deny` that refuses less than it says, and
//! references that two rules state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use depguard_core::ExportName;
use depguard_core::api::{FailurePolicy, OnDelete, OnMissing};
use depguard_core::graph::strongly_connected_components;
use depguard_core::model::GroupResource;
use depguard_core::rule::{Edge, Reference};

use super::code::Code;
use super::finding::Report;
use super::reading::ParsedRule;

/// Limit on the similar references with which one is compared.
const MAX_COMPARED: usize = 64;
/// Limit on the kinds that the message about a cycle names.
const MAX_NAMED: usize = 12;

/// Kind: the name of its export, and its resource.
type Node<'r> = (Option<&'r ExportName>, GroupResource);

/// Reference, and the rule that states it.
#[derive(Clone, Copy)]
struct RuleEdge<'r> {
    rule: &'r ParsedRule<'r>,
    edge: &'r Edge,
    /// True if findings about this reference are reported.
    is_reported: bool,
}

/// Reports cycles and repeated references that involve one of `rules`.
pub(super) fn check(rules: &[ParsedRule<'_>], others: &[ParsedRule<'_>], report: &mut Report) {
    let rule_edge = |is_reported| move |rule| edges_of(rule, is_reported);
    let edges: Vec<_> =
        others.iter().flat_map(rule_edge(false)).chain(rules.iter().flat_map(rule_edge(true))).collect();
    report_cycles(&edges, report);
    report_lenient_denials(&edges, report);
    report_overlaps(&edges, report);
}

fn edges_of<'r>(rule: &'r ParsedRule<'r>, is_reported: bool) -> impl Iterator<Item = RuleEdge<'r>> {
    rule.edges().map(move |edge| RuleEdge { rule, edge, is_reported })
}

// === Cycles ===

/// Graph of kinds, with an arrow for each reference.
struct KindGraph<'r> {
    numbers: BTreeMap<Node<'r>, usize>,
    /// References, each with the numbers of its dependent and its target.
    arrows: Vec<(RuleEdge<'r>, usize, usize)>,
    leaving: Vec<Vec<usize>>,
    component: Vec<usize>,
}

impl<'r> KindGraph<'r> {
    fn new(edges: impl Iterator<Item = RuleEdge<'r>>) -> Self {
        let mut numbers: BTreeMap<Node<'r>, usize> = BTreeMap::new();
        let mut number = |node| {
            let next = numbers.len();
            *numbers.entry(node).or_insert(next)
        };
        let arrows: Vec<_> = edges.map(|edge| (edge, number(edge.dependent()), number(edge.target()))).collect();
        let mut leaving = vec![Vec::new(); numbers.len()];
        for (_, dependent, target) in &arrows {
            if let Some(leaving) = leaving.get_mut(*dependent) {
                leaving.push(*target);
            }
        }
        let component = strongly_connected_components(&leaving);
        Self { numbers, arrows, leaving, component }
    }

    /// Returns the number of the cycle on which an arrow between two different kinds lies.
    fn cycle(&self, dependent: usize, target: usize) -> Option<usize> {
        let own = self.component.get(dependent).copied();
        own.filter(|own| self.component.get(target) == Some(own) && dependent != target)
    }

    /// Returns the kinds of a shortest cycle with this arrow, the first one also at the end.
    fn kinds(&self, dependent: usize, target: usize) -> Vec<String> {
        let kinds: BTreeMap<usize, &GroupResource> =
            self.numbers.iter().map(|((_, kind), number)| (*number, kind)).collect();
        let way = [dependent].into_iter().chain(way(&self.leaving, target, dependent));
        let mut shown: Vec<_> = way.filter_map(|number| kinds.get(&number)).map(ToString::to_string).collect();
        if shown.len() > MAX_NAMED {
            shown.truncate(MAX_NAMED);
            shown.push("…".to_owned());
        }
        shown
    }
}

fn report_cycles(edges: &[RuleEdge<'_>], report: &mut Report) {
    // Only rules that refuse deletions can wait for each other.
    let graph = KindGraph::new(edges.iter().filter(|rule_edge| rule_edge.edge.on_delete == OnDelete::Deny).copied());
    let mut cycles: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for (rule_edge, dependent, target) in &graph.arrows {
        if let Some(cycle) = graph.cycle(*dependent, *target) {
            cycles.entry(cycle).or_default().insert(rule_edge.rule.subject.name());
        }
    }
    for (rule_edge, dependent, target) in graph.arrows.iter().filter(|(rule_edge, ..)| rule_edge.is_reported) {
        if dependent == target {
            let kind = rule_edge.dependent().1;
            let message = format!(
                "{kind} refer to {kind}: an object can't be deleted before the objects that refer to it, except in a \
                 teardown of their namespace, workspace or binding; correct the target if you don't intend this"
            );
            report.push(Code::SelfReference, rule_edge.rule.subject, rule_edge.field(), message);
        } else if let Some(rules) = graph.cycle(*dependent, *target).and_then(|cycle| cycles.remove(&cycle)) {
            let message = cycle_message(&graph.kinds(*dependent, *target), &rules);
            report.push(Code::Cycle, rule_edge.rule.subject, rule_edge.field(), message);
        }
    }
}

fn cycle_message(kinds: &[String], rules: &BTreeSet<&str>) -> String {
    let more = if rules.len() > MAX_NAMED { ", …" } else { "" };
    let by = if rules.len() == 1 { "rule" } else { "rules" };
    let rules = rules.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
    format!(
        "a cycle of {by} {rules}{more}: {}. Objects in such a cycle can't be deleted one by one: somebody must detach \
         one first. In a teardown of their namespace, workspace or binding they don't block each other. If you don't \
         intend this, remove a reference, or give one of them `onDelete: Warn`",
        kinds.join(" → ")
    )
}

/// Returns the nodes of a shortest path, including both ends.
fn way(leaving: &[Vec<usize>], from: usize, to: usize) -> Vec<usize> {
    let mut before: BTreeMap<usize, usize> = BTreeMap::new();
    let mut ahead = VecDeque::from([from]);
    while let Some(node) = ahead.pop_front() {
        for next in leaving.get(node).into_iter().flatten() {
            if *next != from && !before.contains_key(next) {
                before.insert(*next, node);
                ahead.push_back(*next);
            }
        }
        if before.contains_key(&to) {
            break;
        }
    }
    let mut way = vec![to];
    let mut last = to;
    while let Some(node) = before.get(&last) {
        way.push(*node);
        last = *node;
    }
    way.reverse();
    way
}

// === Missing targets ===

/// Reports references whose `onMissing: Deny` refuses less than it says.
fn report_lenient_denials(edges: &[RuleEdge<'_>], report: &mut Report) {
    let denies = |rule_edge: &&RuleEdge<'_>| rule_edge.edge.on_missing == OnMissing::Deny;
    // An object may name itself, or nothing, so a kind that refers to itself needs no other object first.
    let needs_another = |rule_edge: &&RuleEdge<'_>| rule_edge.dependent() != rule_edge.target();
    let graph = KindGraph::new(edges.iter().filter(denies).filter(needs_another).copied());
    for (rule_edge, dependent, target) in graph.arrows.iter().filter(|(rule_edge, ..)| rule_edge.is_reported) {
        if graph.cycle(*dependent, *target).is_some() {
            let message = format!(
                "`Deny` counts as `Warn` here, since nothing could be created first: {} is a cycle of references that \
                 refuse; write `Warn`, or give another reference of the cycle `Warn` or `Audit`",
                graph.kinds(*dependent, *target).join(" → ")
            );
            report.push(Code::LenientCycle, rule_edge.rule.subject, rule_edge.on_missing_field(), message);
        }
    }
    for rule_edge in edges.iter().filter(denies).filter(|rule_edge| rule_edge.is_reported) {
        if rule_edge.rule.rule.failure_policy() == FailurePolicy::Ignore {
            let message = "by `failurePolicy: Ignore` a reference is allowed if depguard can't find out whether its \
                           target is there: remove `failurePolicy` if such a reference must be refused";
            report.push(Code::LenientFailure, rule_edge.rule.subject, rule_edge.on_missing_field(), message.to_owned());
        }
    }
}

// === Repeated references ===

fn report_overlaps(edges: &[RuleEdge<'_>], report: &mut Report) {
    let mut alike: BTreeMap<(Node<'_>, Node<'_>, String), Vec<RuleEdge<'_>>> = BTreeMap::new();
    for rule_edge in edges {
        let key = (rule_edge.dependent(), rule_edge.target(), rule_edge.edge.reference.to_string());
        let others = alike.entry(key).or_default();
        // References to report about come last in `edges`.
        let covering = others.iter().find(|other| other.covers(*rule_edge));
        let covered = others.iter().find(|other| rule_edge.covers(**other));
        if let Some(other) = covering.or(covered).filter(|_| rule_edge.is_reported) {
            let message = overlap_message(*other, *rule_edge, covering.is_some());
            report.push(Code::SameReference, rule_edge.rule.subject, rule_edge.field(), message);
        }
        if others.len() < MAX_COMPARED {
            others.push(*rule_edge);
        }
    }
}

fn overlap_message(other: RuleEdge<'_>, own: RuleEdge<'_>, other_covers: bool) -> String {
    let reference = &own.edge.reference;
    let place = match other.rule.subject.name() == own.rule.subject.name() {
        true => format!("spec.dependencies[{}]", other.edge.index),
        false => format!("spec.dependencies[{}] of rule {}", other.edge.index, other.rule.subject.name()),
    };
    let (winner, loser) = if other_covers { (other, own) } else { (own, other) };
    let whose = if other_covers { "this one adds nothing" } else { "that one adds nothing" };
    let which = if other_covers { "this one" } else { "that one" };
    match winner.edge.on_delete == loser.edge.on_delete {
        true => format!(
            "{place} states the same reference by `{reference}` to {}, so {whose}: remove {which}",
            own.edge.target.gvr.resource
        ),
        false => format!(
            "{place} states a reference by `{reference}` to {}, too, and {:?} wins over {:?}, so {whose}: remove \
             {which}, or narrow one of them by `when` or a selector",
            own.edge.target.gvr.resource, winner.edge.on_delete, loser.edge.on_delete
        ),
    }
}

impl<'r> RuleEdge<'r> {
    fn dependent(self) -> Node<'r> {
        let dependent = self.rule.rule.dependent();
        (dependent.export.as_ref(), dependent.gvr.group_resource())
    }

    fn target(self) -> Node<'r> {
        let target = &self.edge.target;
        (target.export.as_ref().map(|export| &export.name), target.gvr.group_resource())
    }

    fn field(self) -> String {
        let field = match self.edge.reference {
            Reference::Field(_) => "fieldRef.path",
            Reference::Fixed(_) => "fieldRef.value",
            Reference::Selector(_) => "selectorRef.path",
            Reference::Selected(_) => "selectorRef.selector",
        };
        format!("spec.dependencies[{}].{field}", self.edge.index)
    }

    fn on_missing_field(self) -> String {
        format!("spec.dependencies[{}].onMissing", self.edge.index)
    }

    /// Returns true if the other reference has no effect beside this one. Both must be between the same kinds.
    fn covers(self, other: RuleEdge<'_>) -> bool {
        self.rule.rule.covers(self.edge, &other.rule.rule, other.edge)
    }
}
