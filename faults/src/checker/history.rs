//! History for the checker, made from the store's journal: the references with their beginning and end, and the rules.
//!
//! There is one consumer. Objects outside its workspace are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use depguard_testbed::Event;
use serde_json::Value;

use super::Object;
use crate::kinds::NETWORK;

const OURS: &str = "dependencies.opendefense.cloud";

/// Edge: objects of a kind refer to those of another by the string at a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    group: String,
    dependent: String,
    target: String,
    /// Path of the name, as a JSON pointer.
    pointer: String,
    /// Path of the namespace, likewise. Without a path or a value, the namespace is the dependent's own.
    namespace: Option<String>,
}

/// Edges that were in force from one change of the rules to the next.
#[derive(Debug, Clone)]
pub(crate) struct State {
    revision: u64,
    from: Instant,
    edges: BTreeSet<Edge>,
}

/// Reference of a dependent to an object.
#[derive(Debug, Clone)]
struct Reference {
    dependent: String,
    from: (u64, Instant),
    /// End of the reference; `None` if it still exists.
    to: Option<(u64, Instant)>,
}

/// Object that a DELETE removed.
#[derive(Debug, Clone)]
pub(crate) struct Deletion {
    pub(crate) object: Object,
    pub(crate) reviewed_at: u64,
    /// Time that is not later than the beginning of the review.
    pub(crate) reviewed: Instant,
    pub(crate) revision: u64,
}

#[derive(Debug)]
pub(crate) struct History {
    events: Vec<(u64, Instant)>,
    states: Vec<State>,
    references: BTreeMap<(Edge, Object), Vec<Reference>>,
    deletions: Vec<Deletion>,
}

impl History {
    /// Makes the history from the events, which are in order and go back to before the first rule.
    pub(crate) fn from_events(events: &[Event]) -> Self {
        let times = events.iter().map(|event| (event.revision, event.at)).collect();
        let mut history =
            Self { events: times, states: states(events), references: BTreeMap::new(), deletions: Vec::new() };
        let edges: BTreeSet<Edge> = history.states.iter().flat_map(|state| state.edges.clone()).collect();
        let mut referring = BTreeMap::new();
        for event in events {
            for edge in edges.iter().filter(|edge| edge.group == event.group && edge.dependent == event.resource) {
                history.note(event, edge, &mut referring);
            }
            if let (NETWORK, None, Some(reviewed_at)) = (event.group.as_str(), &event.object, event.reviewed_at) {
                let object = Object::new(&event.resource, &event.namespace, &event.name);
                let reviewed = history.time_of(reviewed_at);
                history.deletions.push(Deletion { object, reviewed_at, reviewed, revision: event.revision });
            }
        }
        history
    }

    /// Notes the object that a dependent refers to by an edge from this change on.
    fn note(&mut self, event: &Event, edge: &Edge, referring: &mut BTreeMap<(Edge, String, String), Object>) {
        let named = event.object.as_ref().and_then(|object| object.pointer(&edge.pointer)?.as_str());
        let said = edge.namespace.as_ref().and_then(|path| event.object.as_ref()?.pointer(path)?.as_str());
        let now = named.map(|name| Object::new(&edge.target, said.unwrap_or(&event.namespace), name));
        let dependent = (edge.clone(), event.namespace.clone(), event.name.clone());
        let before = referring.get(&dependent).cloned();
        if now == before {
            return;
        }
        let moment = (event.revision, event.at);
        if let Some(before) = before
            && let Some(open) = self.references.get_mut(&(edge.clone(), before))
        {
            for reference in open.iter_mut().filter(|one| one.to.is_none() && one.dependent == dependent.2) {
                reference.to = Some(moment);
            }
        }
        match now {
            Some(now) => {
                let reference = Reference { dependent: event.name.clone(), from: moment, to: None };
                self.references.entry((edge.clone(), now.clone())).or_default().push(reference);
                referring.insert(dependent, now);
            }
            None => _ = referring.remove(&dependent),
        }
    }

    pub(crate) fn deletions(&self) -> &[Deletion] {
        &self.deletions
    }

    /// Returns the newest revision at a moment.
    pub(crate) fn revision_at(&self, moment: Instant) -> u64 {
        let next = self.events.partition_point(|(_, at)| *at <= moment);
        next.checked_sub(1).and_then(|last| self.events.get(last)).map_or(0, |(revision, _)| *revision)
    }

    /// Returns the time of a revision.
    fn time_of(&self, revision: u64) -> Instant {
        let next = self.events.partition_point(|(at, _)| *at <= revision);
        self.events[next.saturating_sub(1)].1
    }

    /// Returns all states that were in force at some time between `from` and the revision `to`.
    pub(crate) fn rules_within(&self, from: Instant, to: u64) -> Vec<&State> {
        let first = self.states.partition_point(|state| state.from <= from).saturating_sub(1);
        self.states[first..].iter().take_while(|state| state.revision <= to).collect()
    }

    /// Returns a dependent that referred to the object at every revision from `from` to `to`. There must be one for
    /// each of these states.
    pub(crate) fn refers_throughout(&self, object: &Object, states: &[&State], from: u64, to: u64) -> Option<String> {
        let mut found = None;
        for state in states {
            let throughout =
                |reference: &&Reference| reference.from.0 <= from && reference.to.is_none_or(|(end, _)| end > to);
            found = Some(self.references_to(object, &state.edges).find(throughout)?.dependent.clone());
        }
        found
    }

    /// Returns the time since which nothing has referred to the object. A state counts for `lag` after its end. If
    /// something still refers to the object, returns the time of `to`.
    pub(crate) fn freed(&self, object: &Object, lag: Duration, to: u64) -> Instant {
        let now = self.time_of(to);
        let mut freed = self.events[0].1;
        for (index, state) in self.states.iter().enumerate().filter(|(_, state)| state.revision <= to) {
            let over = self.states.get(index + 1).map_or(now, |next| next.from + lag).min(now);
            for reference in self.references_to(object, &state.edges).filter(|reference| reference.from.0 <= to) {
                let ended = reference.to.map_or(now, |(_, at)| at).min(over);
                freed = freed.max(ended);
            }
        }
        freed
    }

    /// Returns true if a reference to the object began or ended in that time.
    pub(crate) fn changed_within(&self, object: &Object, from: Instant, to: Instant) -> bool {
        let within = |(_, at): (u64, Instant)| from <= at && at <= to;
        let all: BTreeSet<Edge> = self.states.iter().flat_map(|state| state.edges.clone()).collect();
        self.references_to(object, &all).any(|reference| within(reference.from) || reference.to.is_some_and(within))
    }

    fn references_to<'a>(
        &'a self,
        object: &'a Object,
        edges: &'a BTreeSet<Edge>,
    ) -> impl Iterator<Item = &'a Reference> {
        let edges = edges.iter().filter(|edge| edge.target == object.resource);
        edges.filter_map(|edge| self.references.get(&(edge.clone(), object.clone()))).flatten()
    }
}

/// Returns the states of the rules. Without an endpoint, no rules are in force.
fn states(events: &[Event]) -> Vec<State> {
    let mut rules = BTreeMap::new();
    let mut shown = false;
    let mut states = Vec::new();
    for event in events {
        match (event.group.as_str(), event.resource.as_str()) {
            (OURS, "dependencyrules") => {
                let key = (event.cluster.clone(), event.name.clone());
                match &event.object {
                    Some(rule) => _ = rules.insert(key, edges(rule)),
                    None => _ = rules.remove(&key),
                }
            }
            ("apis.kcp.io", "apiexportendpointslices") if event.name == OURS => {
                let endpoints = event.object.as_ref().and_then(|slice| slice.pointer("/status/endpoints")?.as_array());
                shown = endpoints.is_some_and(|endpoints| !endpoints.is_empty());
            }
            _ if states.is_empty() => {}
            _ => continue,
        }
        let edges: BTreeSet<Edge> = rules.values().filter(|_| shown).flatten().cloned().collect();
        if states.last().is_none_or(|last: &State| last.edges != edges) {
            states.push(State { revision: event.revision, from: event.at, edges });
        }
    }
    states
}

fn edges(rule: &Value) -> BTreeSet<Edge> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let dependent = &rule["spec"]["dependent"];
    let dependencies = rule["spec"]["dependencies"].as_array().into_iter().flatten();
    dependencies
        .map(|dependency| Edge {
            group: text(&dependent["group"]),
            dependent: text(&dependent["resource"]),
            target: text(&dependency["resource"]),
            pointer: text(&dependency["fieldRef"]["path"]).replace('.', "/"),
            namespace: dependency["fieldRef"]["namespacePath"].as_str().map(|path| path.replace('.', "/")),
        })
        .collect()
}
