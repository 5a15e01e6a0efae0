//! Deletion order of objects that refer to each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::strongly_connected::strongly_connected_components;

/// Deletion order: waves, cycles, and objects that cannot be deleted. Objects are numbered from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct DeletionOrder {
    /// Objects of each wave: no object refers to them once all earlier waves are gone.
    pub waves: Vec<Vec<usize>>,
    /// Objects that refer to each other, cycle by cycle. No object of a cycle can go alone.
    pub cycles: Vec<Vec<usize>>,
    /// Objects to which a cycle or a staying object refers, directly or through other objects.
    pub held: Vec<usize>,
}

impl DeletionOrder {
    /// Builds the order. `refers` lists for each object the objects to which it refers; a reference of an object to
    /// itself has no effect.
    /// An object that `stays` is in no wave, and the objects to which it refers stay as well.
    pub fn new(refers: &[Vec<usize>], stays: impl Fn(usize) -> bool) -> Self {
        let components = strongly_connected_components(refers);
        let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (object, component) in components.iter().enumerate() {
            members.entry(*component).or_default().push(object);
        }
        // The wave of each object as far as it is known; `None` if the object has no wave.
        let mut waves: Vec<Option<usize>> = vec![Some(0); refers.len()];
        let mut turns = Self { waves: Vec::new(), cycles: Vec::new(), held: Vec::new() };
        // A component leads only to components with a lower number. In reverse order, each component therefore comes
        // after all components that refer to it.
        for (_, members) in members.into_iter().rev() {
            let circular = members.len() > 1;
            for &object in &members {
                let wave = waves.get(object).copied().flatten();
                let wave = wave.filter(|_| !circular && !stays(object));
                match wave {
                    Some(wave) => turns.push(wave, object),
                    None if circular || stays(object) => {}
                    None => turns.held.push(object),
                }
                let next = wave.map(|wave| wave.saturating_add(1));
                for &to in refers.get(object).into_iter().flatten().filter(|&&to| to != object) {
                    if let Some(known) = waves.get_mut(to) {
                        *known = known.zip(next).map(|(known, next)| known.max(next));
                    }
                }
            }
            if circular {
                turns.cycles.push(members);
            }
        }
        turns.waves.iter_mut().for_each(|wave| wave.sort_unstable());
        turns.held.sort_unstable();
        turns.cycles.sort_unstable();
        turns
    }

    fn push(&mut self, wave: usize, object: usize) {
        // A wave is at most one later than that of an earlier object, so no wave in between stays empty.
        self.waves.resize_with(self.waves.len().max(wave.saturating_add(1)), Vec::new);
        if let Some(wave) = self.waves.get_mut(wave) {
            wave.push(object);
        }
    }
}

/// Returns the references to remove, as pairs of from and to, so that the members of a cycle have an order. Each of
/// them is needed: if one is put back, there is a cycle again. The set is not always the smallest one.
pub fn feedback_edges(members: &[usize], refers: &[Vec<usize>]) -> Vec<(usize, usize)> {
    let inside: BTreeSet<usize> = members.iter().copied().collect();
    let mut seen = BTreeSet::new();
    // The path from the start of the walk, with the index of the next reference of each object on it.
    let mut way: Vec<(usize, usize)> = Vec::new();
    let mut on_the_way = BTreeSet::new();
    let mut clear = BTreeSet::new();
    for &begin in members {
        if seen.insert(begin) {
            way.push((begin, 0));
            on_the_way.insert(begin);
        }
        while let Some((from, turn)) = way.last_mut() {
            let from = *from;
            let Some(&to) = refers.get(from).and_then(|to| to.get(*turn)) else {
                on_the_way.remove(&from);
                way.pop();
                continue;
            };
            *turn = turn.saturating_add(1);
            if to == from || !inside.contains(&to) {
                continue;
            }
            // A reference back to the path closes a cycle; all other references of that cycle lie on the path.
            if on_the_way.contains(&to) {
                clear.insert((from, to));
            } else if seen.insert(to) {
                way.push((to, 0));
                on_the_way.insert(to);
            }
        }
    }
    clear.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX_OBJECTS: usize = 9;

    fn graph() -> impl Strategy<Value = Vec<Vec<usize>>> {
        prop::collection::vec((0..MAX_OBJECTS, 0..MAX_OBJECTS), 0..22).prop_map(|edges| {
            let mut refers = vec![Vec::new(); MAX_OBJECTS];
            edges.into_iter().for_each(|(from, to)| refers[from].push(to));
            refers
        })
    }

    /// Deletes all objects to which no other object refers, again and again, without any knowledge of graphs.
    fn played(refers: &[Vec<usize>], stays: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
        let mut left: BTreeSet<usize> = (0..refers.len()).collect();
        let mut waves = Vec::new();
        loop {
            let is_held = |object: usize| left.iter().any(|from| *from != object && refers[*from].contains(&object));
            let wave: Vec<_> = left.iter().copied().filter(|object| !stays(*object) && !is_held(*object)).collect();
            if wave.is_empty() {
                return waves;
            }
            left.retain(|object| !wave.contains(object));
            waves.push(wave);
        }
    }

    fn leads_back(refers: &[Vec<usize>], object: usize) -> bool {
        let mut ahead: Vec<_> = refers[object].iter().copied().filter(|to| *to != object).collect();
        let mut seen = BTreeSet::new();
        while let Some(next) = ahead.pop() {
            if next == object {
                return true;
            }
            if seen.insert(next) {
                ahead.extend(&refers[next]);
            }
        }
        false
    }

    proptest! {
        #[test]
        fn each_wave_is_what_can_go_after_those_before_it(
            refers in graph(), staying in prop::collection::btree_set(0..MAX_OBJECTS, 0..3),
        ) {
            let stays = |object| staying.contains(&object);
            let turns = DeletionOrder::new(&refers, stays);
            prop_assert_eq!(&turns.waves, &played(&refers, stays));
            let waves: BTreeSet<_> = turns.waves.iter().flatten().collect();
            for object in 0..MAX_OBJECTS {
                let circular = turns.cycles.iter().flatten().any(|member| *member == object);
                prop_assert_eq!(circular, leads_back(&refers, object));
                let rest = !circular && !stays(object) && !waves.contains(&object);
                prop_assert_eq!(turns.held.contains(&object), rest);
            }
        }

        #[test]
        fn a_cycle_has_an_order_without_what_is_to_clear_and_none_with_any_of_it(refers in graph()) {
            for cycle in DeletionOrder::new(&refers, |_| false).cycles {
                let clear = feedback_edges(&cycle, &refers);
                prop_assert!(!clear.is_empty());
                let without = |kept: Option<&(usize, usize)>| {
                    let mut refers = refers.clone();
                    for cleared in clear.iter().filter(|cleared| Some(*cleared) != kept) {
                        refers[cleared.0].retain(|to| *to != cleared.1);
                    }
                    let cycles = DeletionOrder::new(&refers, |_| false).cycles;
                    cycles.iter().flatten().any(|member| cycle.contains(member))
                };
                prop_assert!(!without(None));
                for kept in &clear {
                    prop_assert!(without(Some(kept)));
                }
            }
        }
    }

    #[test]
    fn a_long_chain_and_a_long_cycle_need_no_stack() {
        let length = 100_000;
        let chain: Vec<_> = (0..length).map(|object| vec![object + 1]).collect();
        assert_eq!(DeletionOrder::new(&chain, |_| false).waves.len(), length);
        let cycle: Vec<_> = (0..length).map(|object| vec![(object + 1) % length]).collect();
        let turns = DeletionOrder::new(&cycle, |_| false);
        assert_eq!(feedback_edges(&turns.cycles[0], &cycle), [(length - 1, 0)]);
    }
}
