//! In which order groups are removed: the plan that a status shows and that `kubectl depguard order` prints.

use std::collections::BTreeSet;

use depguard_core::{GroupResource, KindWaves, Rule};
use serde::Serialize;

use crate::owners::spec::{Entry, group_name};

/// `spec.order`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// As they are listed, one after the other.
    #[default]
    Listed,
    /// As the rules want it, dependents first; groups that no rule puts in an order go together.
    ByRules,
}

/// The groups of a GlobalOwner in the order of their removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Plan {
    /// One after the other.
    pub waves: Vec<PlannedWave>,
    /// Kinds that refer to each other in a cycle, so that no order of theirs is right. They share a wave.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cycles: Vec<BTreeSet<String>>,
}

/// Groups that are removed at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PlannedWave {
    /// Which one, from 1 on.
    pub wave: usize,
    /// Its groups.
    pub groups: Vec<PlannedGroup>,
}

/// One group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PlannedGroup {
    /// The name of its GroupOwner; left out where the GlobalOwner has no UID yet, of which it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_owner: Option<String>,
    /// Its resource, with its API group.
    pub resource: String,
    /// How many objects would go; left out where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<usize>,
}

/// Groups, whose kinds these are, in waves.
pub(crate) fn waves<'r>(order: Order, kinds: &[GroupResource], rules: impl IntoIterator<Item = &'r Rule>) -> KindWaves {
    match order {
        Order::Listed => KindWaves { waves: (0..kinds.len()).map(|group| vec![group]).collect(), cycles: Vec::new() },
        Order::ByRules => KindWaves::of(rules, kinds),
    }
}

/// The plan for a GlobalOwner of this name and UID, where it has one; `objects` tells how many a group has, by its place.
pub(crate) fn plan<'r>(
    (owner, uid): (&str, Option<&str>),
    order: Order,
    entries: &[Entry],
    rules: impl IntoIterator<Item = &'r Rule>,
    objects: impl Fn(usize) -> Option<usize>,
) -> Plan {
    let kinds: Vec<_> = entries.iter().map(|entry| entry.resource.group_resource()).collect();
    let KindWaves { waves, cycles } = waves(order, &kinds, rules);
    let group = |place: &usize| {
        let entry = entries.get(*place)?;
        let (resource, objects) = (entry.resource.group_resource().to_string(), objects(*place));
        Some(PlannedGroup { group_owner: uid.map(|uid| group_name(owner, uid, entry)), resource, objects })
    };
    let waves = waves
        .iter()
        .zip(1..)
        .map(|(places, wave)| PlannedWave { wave, groups: places.iter().filter_map(group).collect() });
    let named = |cycle: &BTreeSet<GroupResource>| cycle.iter().map(ToString::to_string).collect();
    Plan { waves: waves.collect(), cycles: cycles.iter().map(named).collect() }
}
