//! What rules say together: kinds that refer to each other in a cycle, and references that are said twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use depguard_core::api::{FailurePolicy, OnDelete, OwnedDependents};
use depguard_core::{Edge, ExportName, GroupResource, Reference, components};

use super::code::Code;
use super::finding::Report;
use super::reading::Written;

/// The references to which one that is alike is compared.
const MOST_COMPARED: usize = 64;
/// The kinds that are named of a cycle.
const MOST_NAMED: usize = 12;

/// A kind: its export's name, and its resource.
type Node<'r> = (Option<&'r ExportName>, GroupResource);

/// A reference, and the rule that has it.
#[derive(Clone, Copy)]
struct Said<'r> {
    rule: &'r Written<'r>,
    edge: &'r Edge,
    /// Whether something is to be said about it.
    is_asked: bool,
}

/// Reports cycles, and references that are said twice, where one of `rules` has a part in them.
pub(super) fn check(rules: &[Written<'_>], others: &[Written<'_>], report: &mut Report) {
    let said = |is_asked| move |rule| edges_of(rule, is_asked);
    let edges: Vec<_> = others.iter().flat_map(said(false)).chain(rules.iter().flat_map(said(true))).collect();
    report_cycles(&edges, report);
    report_overlaps(&edges, report);
}

fn edges_of<'r>(rule: &'r Written<'r>, is_asked: bool) -> impl Iterator<Item = Said<'r>> {
    rule.edges().map(move |edge| Said { rule, edge, is_asked })
}

// === Cycles ===

fn report_cycles(edges: &[Said<'_>], report: &mut Report) {
    // Only those who refuse wait for each other.
    let refusing: Vec<_> = edges.iter().filter(|said| said.edge.on_delete == OnDelete::Deny).copied().collect();
    let mut numbers: BTreeMap<Node<'_>, usize> = BTreeMap::new();
    for node in refusing.iter().flat_map(|said| [said.dependent(), said.target()]) {
        let next = numbers.len();
        numbers.entry(node).or_insert(next);
    }
    let number = |node: Node<'_>| numbers.get(&node).copied().unwrap_or_default();
    let ends: Vec<_> = refusing.iter().map(|said| (number(said.dependent()), number(said.target()))).collect();
    let mut leaving = vec![Vec::new(); numbers.len()];
    for (dependent, target) in &ends {
        if let Some(leaving) = leaving.get_mut(*dependent) {
            leaving.push(*target);
        }
    }
    let component = components(&leaving);
    let kinds: BTreeMap<usize, &GroupResource> = numbers.iter().map(|((_, kind), number)| (*number, kind)).collect();
    let mut cycles: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    let on_cycle = |dependent: usize, target: usize| {
        let own = component.get(dependent).copied();
        own.filter(|own| component.get(target) == Some(own) && dependent != target)
    };
    for (said, (dependent, target)) in refusing.iter().zip(&ends) {
        if let Some(cycle) = on_cycle(*dependent, *target) {
            cycles.entry(cycle).or_default().insert(said.rule.subject.name());
        }
    }
    for (said, (dependent, target)) in refusing.iter().zip(&ends).filter(|(said, _)| said.is_asked) {
        if dependent == target {
            let kind = said.dependent().1;
            let message = format!(
                "{kind} refer to {kind}: one can't be deleted before those that refer to it; only where all of them are \
                 torn down together (a namespace, a workspace, a binding) they go in any order; correct the target if \
                 that is not meant"
            );
            report.push(Code::SelfReference, said.rule.subject, said.field(), message);
        } else if let Some(rules) = on_cycle(*dependent, *target).and_then(|cycle| cycles.remove(&cycle)) {
            let way = [*dependent].into_iter().chain(way(&leaving, *target, *dependent));
            let mut shown: Vec<_> = way.filter_map(|number| kinds.get(&number)).map(ToString::to_string).collect();
            if shown.len() > MOST_NAMED {
                shown.truncate(MOST_NAMED);
                shown.push("…".to_owned());
            }
            report.push(Code::Cycle, said.rule.subject, said.field(), cycle_message(&shown, &rules));
        }
    }
}

fn cycle_message(kinds: &[String], rules: &BTreeSet<&str>) -> String {
    let more = if rules.len() > MOST_NAMED { ", …" } else { "" };
    let by = if rules.len() == 1 { "rule" } else { "rules" };
    let rules = rules.iter().take(MOST_NAMED).copied().collect::<Vec<_>>().join(", ");
    format!(
        "a cycle of {by} {rules}{more}: {}. Objects that refer to each other so can't be deleted one by one: somebody has \
         to detach one first. Where all of them are torn down together (a namespace, a workspace, a binding), they don't \
         hold each other up; take out the reference that is none, or give one of them `onDelete: Warn`",
        kinds.join(" → ")
    )
}

/// The nodes of a shortest way, both ends with it.
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

// === References that are said twice ===

fn report_overlaps(edges: &[Said<'_>], report: &mut Report) {
    let mut alike: BTreeMap<(Node<'_>, Node<'_>, String), Vec<Said<'_>>> = BTreeMap::new();
    for said in edges {
        let key = (said.dependent(), said.target(), said.edge.reference.to_string());
        let others = alike.entry(key).or_default();
        // What is asked about comes last.
        let covering = others.iter().find(|other| other.covers(*said));
        let covered = others.iter().find(|other| said.covers(**other));
        if let Some(other) = covering.or(covered).filter(|_| said.is_asked) {
            let message = overlap_message(*other, *said, covering.is_some());
            report.push(Code::SameReference, said.rule.subject, said.field(), message);
        }
        if others.len() < MOST_COMPARED {
            others.push(*said);
        }
    }
}

fn overlap_message(other: Said<'_>, own: Said<'_>, other_covers: bool) -> String {
    let reference = &own.edge.reference;
    let place = match other.rule.subject.name() == own.rule.subject.name() {
        true => format!("spec.dependencies[{}]", other.edge.index),
        false => format!("spec.dependencies[{}] of rule {}", other.edge.index, other.rule.subject.name()),
    };
    let (winner, loser) = if other_covers { (other, own) } else { (own, other) };
    let whose = if other_covers { "this one does nothing more" } else { "that one does nothing more" };
    let which = if other_covers { "this one" } else { "that one" };
    match winner.edge.on_delete == loser.edge.on_delete {
        true => format!(
            "{place} says the same of `{reference}` and {}, and {whose}: leave {which} out",
            own.edge.target.gvr.resource
        ),
        false => format!(
            "{place} speaks of `{reference}` and {} too, and {:?} wins over {:?}, so {whose}: leave {which} out, or narrow one \
             of them by `when` or a selector",
            own.edge.target.gvr.resource, winner.edge.on_delete, loser.edge.on_delete
        ),
    }
}

impl<'r> Said<'r> {
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
            Reference::Selector(_) => "selectorRef.path",
            Reference::Selected(_) => "selectorRef.selector",
        };
        format!("spec.dependencies[{}].{field}", self.edge.index)
    }

    /// Whether it does all that the other does: the same reference, at least as often, at least as strictly.
    fn covers(self, other: Said<'_>) -> bool {
        let (own_selector, selector) = (&self.rule.rule.dependent().selector, &other.rule.rule.dependent().selector);
        let strictness = |said: Said<'_>| match said.edge.on_delete {
            OnDelete::Audit => 0,
            OnDelete::Warn => 1,
            OnDelete::Deny => 2,
        };
        let holds_out = |said: Said<'_>| said.rule.rule.failure_policy() == FailurePolicy::Fail;
        let counts_owned = |said: Said<'_>| said.edge.owned_dependents == OwnedDependents::Block;
        self.edge.reference == other.edge.reference
            && (self.edge.when.is_none() || self.edge.when == other.edge.when)
            && (own_selector.is_none() || own_selector == selector)
            && strictness(self) >= strictness(other)
            && holds_out(self) >= holds_out(other)
            && counts_owned(self) >= counts_owned(other)
    }
}
