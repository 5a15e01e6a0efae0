//! Judges a removal by what the API server has written down, and by none of depguard's code.
//!
//! - **Order.** When an object begins to be deleted, or is gone at once, no object of a group that goes before its own may
//!   be there. An object of several groups goes with any of them.
//! - **What stays.** Nothing of a GlobalOwner that was released is deleted, nothing before the GlobalOwner is being deleted,
//!   and nothing that is marked to stay out or that somebody else owns. depguard's finalizer is on no object.
//! - **Nothing is left over.** In the end there is no GlobalOwner, no GroupOwner, no ClusterRole of theirs, no reference to
//!   a GroupOwner, and nothing that was owned when the GlobalOwner began to be deleted and should have gone with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use depguard_testbed::Event;
use serde_json::Value;

use super::stage::is_of_world;
use super::world::{OWNER, World, label};

/// The label of ClusterRoles that were made for groups.
const OF_OWNER: &str = "dependencies.opendefense.cloud/global-owner";
const TEARDOWN: &str = "dependencies.opendefense.cloud/teardown";

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) violations: Vec<String>,
    /// How many statuses of the GlobalOwner told of what was stuck.
    pub(super) stuck: usize,
}

type Key = (String, String, String, String);

/// What there is at a moment of the journal.
#[derive(Default)]
struct State {
    objects: BTreeMap<Key, Arc<Value>>,
    /// The group of each GroupOwner there ever was, by its UID.
    groups: BTreeMap<String, usize>,
    /// What was owned when the GlobalOwner began to be deleted.
    owned: BTreeSet<String>,
}

pub(super) fn judge(world: &World, journal: &[Event]) -> Verdict {
    let (mut state, mut verdict) = (State::default(), Verdict::default());
    for event in journal {
        let key = (event.group.clone(), event.resource.clone(), event.namespace.clone(), event.name.clone());
        let before = state.objects.get(&key).cloned();
        if let Some(object) = &event.object {
            state.learn(world, event, object, before.as_deref(), &mut verdict);
        }
        let was_there = before.filter(|before| !is_going(before));
        let begins = event.object.as_ref().is_none_or(|now| is_going(now));
        if let (true, true, Some(before)) = (is_of_world(event), begins, &was_there) {
            verdict.violations.extend(state.deleted(world, &event.name, before));
        }
        if event.resource == "globalowners" && begins && was_there.is_some() {
            let owned = state
                .objects
                .iter()
                .filter(|(key, object)| key.0 == super::world::GROUP && !state.of(object).is_empty());
            state.owned = owned.map(|(key, _)| key.3.clone()).collect();
        }
        match &event.object {
            Some(object) => _ = state.objects.insert(key, Arc::clone(object)),
            None => _ = state.objects.remove(&key),
        }
    }
    verdict.violations.extend(state.left_over(world));
    verdict
}

impl State {
    fn learn(&mut self, world: &World, event: &Event, object: &Value, before: Option<&Value>, verdict: &mut Verdict) {
        if event.resource == "groupowners" {
            let selects = |group: &usize| object["spec"]["selector"]["matchLabels"].get(label(*group)).is_some();
            if let Some(group) = (0..world.groups.len()).find(selects) {
                self.groups.insert(text(object, "uid"), group);
            }
        }
        if event.resource == "globalowners" {
            let told = |object: &Value| object["status"]["stuckCount"].as_u64().unwrap_or_default();
            verdict.stuck += usize::from(told(object) > 0 && before.is_none_or(|before| told(before) != told(object)));
        }
        let finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten();
        if is_of_world(event) && finalizers.into_iter().any(|finalizer| finalizer == TEARDOWN) {
            verdict.violations.push(format!("{} has depguard's finalizer", event.name));
        }
    }

    /// What is wrong with an object's deletion, as it was until now.
    fn deleted(&self, world: &World, name: &str, object: &Value) -> Option<String> {
        let groups = self.of(object);
        let stays = object["metadata"]["annotations"].get("dependencies.opendefense.cloud/adopt").is_some()
            || object["metadata"]["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|owner| owner["kind"] == "ConfigMap");
        if stays {
            return Some(format!("{name} was to stay, and is deleted"));
        }
        if groups.is_empty() {
            return None;
        }
        if world.is_released() {
            return Some(format!("{name} is deleted, though the GlobalOwner was released"));
        }
        if !self.owner().is_none_or(|owner| is_going(owner)) {
            return Some(format!("{name} is deleted, though the GlobalOwner is not"));
        }
        let too_early = |group: &usize| {
            let mut others = self.objects.iter().filter(|(key, _)| key.0 == super::world::GROUP);
            others.find_map(|(key, other)| {
                let before = self.of(other).into_iter().find(|other| world.goes_before(*other, *group))?;
                Some(format!("{name} of group {group} is deleted while {} of group {before} is there", key.3))
            })
        };
        let early: Vec<_> = groups.iter().map(too_early).collect();
        early.into_iter().collect::<Option<Vec<_>>>()?.into_iter().next()
    }

    /// The groups that own an object.
    fn of(&self, object: &Value) -> Vec<usize> {
        let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        owners.filter_map(|owner| self.groups.get(owner["uid"].as_str()?).copied()).collect()
    }

    fn owner(&self) -> Option<&Arc<Value>> {
        self.objects.iter().find(|(key, _)| key.1 == "globalowners" && key.3 == OWNER).map(|(_, owner)| owner)
    }

    fn left_over(&self, world: &World) -> Vec<String> {
        let mut left = Vec::new();
        for ((group, resource, _, name), object) in &self.objects {
            let is_role = resource == "clusterroles" && object["metadata"]["labels"].get(OF_OWNER).is_some();
            if matches!(resource.as_str(), "globalowners" | "groupowners") || is_role {
                left.push(format!("{resource}/{name} is left over"));
            }
            if group != super::world::GROUP {
                continue;
            }
            if super::stage::is_owned(object) {
                left.push(format!("{name} has a reference to a GroupOwner yet"));
            }
            let place: Option<usize> = name.strip_prefix('x').and_then(|place| place.parse().ok());
            let stays = place
                .and_then(|place| world.objects.get(place))
                .is_none_or(|thing| thing.opted_out || thing.is_anothers);
            if !world.is_released() && self.owned.contains(name) && !stays {
                left.push(format!("{name} was owned, and is not gone"));
            }
        }
        left
    }
}

fn is_going(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}
