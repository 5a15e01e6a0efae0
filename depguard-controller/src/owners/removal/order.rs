//! Order in which groups are removed: the plan that a status shows and that `kubectl depguard order` prints.

use std::collections::BTreeSet;

use depguard_core::Rule;
use depguard_core::model::GroupResource;
use depguard_core::owners::{Entry, Order};
use depguard_core::rule::KindOrder;
use schemars::JsonSchema;
use serde::Serialize;

use crate::owners::group::group_name;

/// Groups of a GlobalOwner in the order of their removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Plan {
    /// Waves, one after the other.
    pub waves: Vec<PlannedWave>,
    /// Kinds that refer to each other in a cycle, so that no order of theirs is right. They share a wave.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cycles: Vec<BTreeSet<String>>,
}

/// Groups that are removed at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct PlannedWave {
    /// Number of the wave, from 1 on.
    #[schemars(with = "i32")]
    pub wave: usize,
    /// Groups of the wave.
    #[schemars(default)]
    pub groups: Vec<PlannedGroup>,
}

/// Group in a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PlannedGroup {
    /// Name of the group's GroupOwner; left out if the GlobalOwner has no UID yet, which is part of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_owner: Option<String>,
    /// Resource of the group, with its API group.
    #[schemars(default)]
    pub resource: String,
    /// Number of objects that the group owns; left out if it is not known.
    #[schemars(with = "Option<i64>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<usize>,
}

/// Puts groups of these kinds in waves.
pub(crate) fn waves<'r>(order: Order, kinds: &[GroupResource], rules: impl IntoIterator<Item = &'r Rule>) -> KindOrder {
    match order {
        Order::Listed => KindOrder { waves: (0..kinds.len()).map(|group| vec![group]).collect(), cycles: Vec::new() },
        Order::ByRules => KindOrder::from_rules(rules, kinds),
    }
}

/// Returns the plan for a GlobalOwner with this name and, if it has one, this UID; `objects` gives the number of
/// objects of the group at an index.
pub(crate) fn plan<'r>(
    (owner, uid): (&str, Option<&str>),
    order: Order,
    entries: &[Entry],
    rules: impl IntoIterator<Item = &'r Rule>,
    objects: impl Fn(usize) -> Option<usize>,
) -> Plan {
    let kinds: Vec<_> = entries.iter().map(|entry| entry.resource.group_resource()).collect();
    let KindOrder { waves, cycles } = waves(order, &kinds, rules);
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
