//! Checks a removal by the journal of the API server, without any of depguard's code.
//!
//! - **Order.** When an object begins to be deleted, or is gone at once, no object of a group that goes before its own
//!   may exist. An object of several groups goes with any of them.
//! - **Objects that stay.** No object of a released GlobalOwner is deleted, no object before the GlobalOwner is being
//!   deleted, and no object that is marked to stay out or that somebody else owns. No object has depguard's finalizer.
//! - **Leftovers.** In the end there is no GlobalOwner, no GroupOwner, no ClusterRole of theirs, and no reference to a
//!   GroupOwner. All objects that were selected when the GlobalOwner began to be deleted are gone, owned or not. Later
//!   objects are gone as well if they came before a group was done that goes before their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use depguard_testbed::Event;
use serde_json::Value;

use super::stage::is_of_world;
use super::world::{OWNER, Thing, World, label};

/// Label of ClusterRoles that were made for groups.
const OF_OWNER: &str = "dependencies.opendefense.cloud/global-owner";
const TEARDOWN: &str = "dependencies.opendefense.cloud/teardown";

/// Findings of the checker.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) violations: Vec<String>,
    /// Number of the GlobalOwner's statuses that reported stuck objects.
    pub(super) stuck: usize,
}

type Key = (String, String, String, String);

/// State at a moment of the journal.
#[derive(Default)]
struct State {
    objects: BTreeMap<Key, Arc<Value>>,
    /// Group of each GroupOwner that ever existed, by its UID.
    groups: BTreeMap<String, usize>,
    /// Groups that were marked as done.
    done: BTreeSet<usize>,
    /// True if a controller that has seen the GlobalOwner before is removing it.
    is_removed: bool,
    /// Objects that must be gone in the end.
    promised: BTreeSet<String>,
}

pub(super) fn check(world: &World, journal: &[Event]) -> Verdict {
    let (mut state, mut verdict) = (State::default(), Verdict::default());
    for event in journal {
        let key = (event.group.clone(), event.resource.clone(), event.namespace.clone(), event.name.clone());
        let before = state.objects.get(&key).cloned();
        if let Some(object) = &event.object {
            state.learn(world, event, object, before.as_deref(), &mut verdict);
        }
        let is_new = before.is_none();
        let was_there = before.filter(|before| !is_going(before));
        let begins = event.object.as_ref().is_none_or(|now| is_going(now));
        if let (true, true, Some(before)) = (is_of_world(event), begins, &was_there) {
            verdict.violations.extend(state.deleted(world, &event.name, before));
        }
        if event.resource == "globalowners" && begins && was_there.is_some_and(|owner| has_finalizer(&owner, TEARDOWN))
        {
            state.is_removed = !world.is_released();
            let there: Vec<_> = state.objects.keys().filter(|key| key.0 == super::world::GROUP).cloned().collect();
            there.iter().for_each(|key| state.promise(world, &key.3));
        }
        if is_of_world(event) && event.object.is_some() && is_new {
            state.comes(world, &event.name);
        }
        match &event.object {
            Some(object) => _ = state.objects.insert(key, Arc::clone(object)),
            None => _ = state.objects.remove(&key),
        }
    }
    verdict.violations.extend(state.left_over());
    verdict
}

impl State {
    fn learn(&mut self, world: &World, event: &Event, object: &Value, before: Option<&Value>, verdict: &mut Verdict) {
        if event.resource == "groupowners" {
            let selects = |group: &usize| object["spec"]["selector"]["matchLabels"].get(label(*group)).is_some();
            if let Some(group) = (0..world.groups.len()).find(selects) {
                self.groups.insert(text(object, "uid"), group);
                if object["status"]["phase"] == "Empty" {
                    self.done.insert(group);
                }
            }
        }
        if event.resource == "globalowners" {
            let told = |object: &Value| object["status"]["stuckCount"].as_u64().unwrap_or_default();
            verdict.stuck += usize::from(told(object) > 0 && before.is_none_or(|before| told(before) != told(object)));
        }
        if is_of_world(event) && has_finalizer(object, TEARDOWN) {
            verdict.violations.push(format!("{} has depguard's finalizer", event.name));
        }
    }

    /// Notes a new object. If a group that goes before its own is not done, its own group will still be looked at, so
    /// the object must go.
    fn comes(&mut self, world: &World, name: &str) {
        let groups = thing(world, name).map(|thing| thing.groups.clone()).unwrap_or_default();
        let is_before_its_look = |group: &usize| {
            (0..world.groups.len()).any(|other| world.goes_before(other, *group) && !self.done.contains(&other))
        };
        if groups.iter().any(is_before_its_look) {
            self.promise(world, name);
        }
    }

    fn promise(&mut self, world: &World, name: &str) {
        if self.is_removed && thing(world, name).is_some_and(|thing| !thing.stays()) {
            self.promised.insert(name.to_owned());
        }
    }

    /// Returns the violation of an object's deletion, if there is one. `object` is its last state before.
    fn deleted(&self, world: &World, name: &str, object: &Value) -> Option<String> {
        let groups = self.of(world, name, object);
        let stays = object["metadata"]["annotations"].get("dependencies.opendefense.cloud/adopt").is_some()
            || object["metadata"]["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|owner| owner["kind"] == "ConfigMap");
        if stays {
            return Some(format!("{name} was deleted although it should have stayed"));
        }
        if !super::stage::is_owned(object) {
            return None;
        }
        if world.is_released() {
            return Some(format!("{name} was deleted although the GlobalOwner was released"));
        }
        if !self.owner().is_none_or(|owner| is_going(owner)) {
            return Some(format!("{name} was deleted although the GlobalOwner was not"));
        }
        let too_early = |group: &usize| {
            let mut others = self.objects.iter().filter(|(key, _)| key.0 == super::world::GROUP);
            others.find_map(|(key, other)| {
                let before =
                    self.of(world, &key.3, other).into_iter().find(|other| world.goes_before(*other, *group))?;
                Some(format!("{name} of group {group} was deleted while {} of group {before} still existed", key.3))
            })
        };
        let early: Vec<_> = groups.iter().map(too_early).collect();
        early.into_iter().collect::<Option<Vec<_>>>()?.into_iter().next()
    }

    /// Returns the groups of an object: those that own it, and once it must go, those that select it. A controller that
    /// was killed may have written only some of the references.
    fn of(&self, world: &World, name: &str, object: &Value) -> Vec<usize> {
        let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let owning = owners.filter_map(|owner| self.groups.get(owner["uid"].as_str()?));
        let selecting = thing(world, name).filter(|_| self.promised.contains(name)).into_iter();
        owning.chain(selecting.flat_map(|thing| &thing.groups)).copied().collect()
    }

    fn owner(&self) -> Option<&Arc<Value>> {
        self.objects.iter().find(|(key, _)| key.1 == "globalowners" && key.3 == OWNER).map(|(_, owner)| owner)
    }

    fn left_over(&self) -> Vec<String> {
        let mut left = Vec::new();
        for ((group, resource, _, name), object) in &self.objects {
            let is_role = resource == "clusterroles" && object["metadata"]["labels"].get(OF_OWNER).is_some();
            if matches!(resource.as_str(), "globalowners" | "groupowners") || is_role {
                left.push(format!("{resource}/{name} still exists"));
            }
            if group != super::world::GROUP {
                continue;
            }
            if super::stage::is_owned(object) {
                left.push(format!("{name} still has a reference to a GroupOwner"));
            }
            if self.promised.contains(name) {
                left.push(format!("{name} was selected, but still exists"));
            }
        }
        left
    }
}

/// Returns the object of the world with this name.
fn thing<'w>(world: &'w World, name: &str) -> Option<&'w Thing> {
    world.objects.get(name.strip_prefix('x')?.parse::<usize>().ok()?)
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().any(|found| found == finalizer)
}

fn is_going(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}
