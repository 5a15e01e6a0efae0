//! Order in which kinds can be emptied by the rules: dependents first.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::deletion_order::DeletionOrder;
use crate::graph::strongly_connected::strongly_connected_components;
use crate::model::api::OnDelete;
use crate::model::names::GroupResource;
use crate::rule::Rule;

/// Waves of kinds. A kind is named by its index in the list that was ordered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct KindOrder {
    /// Waves of kinds: no object of a later wave refers to an object of an earlier wave. No wave is empty; without
    /// rules, one wave holds all kinds.
    pub waves: Vec<Vec<usize>>,
    /// Cycles of kinds that refer to each other. Each lists only the kinds that were ordered, and only if these are
    /// several. They share a wave.
    pub cycles: Vec<BTreeSet<GroupResource>>,
}

impl KindOrder {
    /// Orders kinds by the rules of one control plane, on which every rule is local. Only a rule that refuses
    /// (`onDelete: Deny`) has an influence on the order. It has one even through kinds that are not to be ordered,
    /// and whatever its other conditions are.
    pub fn from_rules<'r>(rules: impl IntoIterator<Item = &'r Rule>, kinds: &[GroupResource]) -> Self {
        let mut numbers = BTreeMap::new();
        let mut refers: Vec<Vec<usize>> = Vec::new();
        let mut number = |kind: GroupResource, refers: &mut Vec<Vec<usize>>| {
            let next = refers.len();
            let number = *numbers.entry(kind).or_insert(next);
            if number == next {
                refers.push(Vec::new());
            }
            number
        };
        let ordered: Vec<usize> = kinds.iter().map(|kind| number(kind.clone(), &mut refers)).collect();
        for rule in rules {
            let dependent = number(rule.dependent().gvr.group_resource(), &mut refers);
            for edge in rule.edges().iter().filter(|edge| edge.on_delete == OnDelete::Deny) {
                let target = number(edge.target.gvr.group_resource(), &mut refers);
                if let Some(refers) = refers.get_mut(dependent) {
                    refers.push(target);
                }
            }
        }
        let components = strongly_connected_components(&refers);
        let of_component = |node: usize| components.get(node).copied().unwrap_or_default();
        let mut condensed = vec![Vec::new(); components.iter().max().map_or(0, |last| last.saturating_add(1))];
        for (from, to) in refers.iter().enumerate() {
            if let Some(leaving) = condensed.get_mut(of_component(from)) {
                leaving.extend(to.iter().map(|to| of_component(*to)));
            }
        }
        let turns = DeletionOrder::new(&condensed, |_| false);
        let is_in = |wave: &Vec<usize>, place: usize| {
            ordered.get(place).is_some_and(|node| wave.contains(&of_component(*node)))
        };
        let waves = turns.waves.iter().map(|wave| (0..kinds.len()).filter(|place| is_in(wave, *place)).collect());
        let mut members: BTreeMap<usize, BTreeSet<GroupResource>> = BTreeMap::new();
        for (kind, node) in kinds.iter().zip(&ordered) {
            members.entry(of_component(*node)).or_default().insert(kind.clone());
        }
        Self {
            waves: waves.filter(|wave: &Vec<usize>| !wave.is_empty()).collect(),
            cycles: members.into_values().filter(|members| members.len() > 1).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::model::control_plane::ControlPlane;
    use crate::model::names::{Group, Resource};

    const KINDS: usize = 7;

    fn kind(number: usize) -> GroupResource {
        let resource = Resource::parse(&format!("kind{number}s")).unwrap();
        GroupResource { group: Group::parse("example.com").unwrap(), resource }
    }

    fn rule(from: usize, to: usize, on_delete: &str) -> Rule {
        let object = json!({"metadata": {"name": "r"}, "spec": {
            "dependent": {"group": "example.com", "version": "v1", "kind": "Kind", "resource": format!("kind{from}s")},
            "dependencies": [{
                "group": "example.com", "version": "v1", "resource": format!("kind{to}s"),
                "fieldRef": {"path": ".spec.ref"}, "onDelete": on_delete,
            }],
        }});
        Rule::parse(ControlPlane::Kubernetes, &object).unwrap()
    }

    fn waves(edges: &[(usize, usize)], kinds: &[usize]) -> KindOrder {
        let rules: Vec<_> = edges.iter().map(|(from, to)| rule(*from, *to, "Deny")).collect();
        KindOrder::from_rules(&rules, &kinds.iter().map(|number| kind(*number)).collect::<Vec<_>>())
    }

    #[test]
    fn dependents_go_first_also_through_a_kind_that_is_not_ordered() {
        assert_eq!(waves(&[(2, 6), (6, 0), (1, 0)], &[0, 1, 2]).waves, [vec![1, 2], vec![0]]);
        // No rule between them: one wave.
        assert_eq!(waves(&[], &[0, 1, 0]).waves, [[0, 1, 2]]);
        assert_eq!(waves(&[], &[]).waves, [[0_usize; 0]; 0]);
    }

    #[test]
    fn kinds_of_a_cycle_share_a_wave_and_are_told() {
        let found = waves(&[(0, 1), (1, 0), (1, 2), (3, 3)], &[2, 1, 0, 3]);
        assert_eq!(found.waves, [vec![1, 2, 3], vec![0]]);
        assert_eq!(found.cycles, [BTreeSet::from([kind(0), kind(1)])]);
    }

    #[test]
    fn a_rule_that_refuses_nothing_orders_nothing() {
        let kinds = [kind(0), kind(1)];
        for (on_delete, count) in [("Warn", 1), ("Audit", 1), ("Deny", 2)] {
            assert_eq!(KindOrder::from_rules(&[rule(1, 0, on_delete)], &kinds).waves.len(), count, "{on_delete}");
        }
    }

    fn leads(edges: &[(usize, usize)], from: usize, to: usize) -> bool {
        let mut seen = BTreeSet::new();
        let mut ahead = vec![from];
        while let Some(node) = ahead.pop() {
            for (_, next) in edges.iter().filter(|(from, _)| *from == node) {
                if seen.insert(*next) {
                    ahead.push(*next);
                }
            }
        }
        seen.contains(&to)
    }

    proptest! {
        #[test]
        fn whoever_leads_to_another_goes_before_it_unless_that_leads_back(
            edges in prop::collection::vec((0..KINDS, 0..KINDS), 0..12),
            kinds in prop::collection::vec(0..KINDS, 0..6),
        ) {
            let found = waves(&edges, &kinds);
            let wave = |place: usize| found.waves.iter().position(|wave| wave.contains(&place)).unwrap();
            prop_assert_eq!(found.waves.iter().map(Vec::len).sum::<usize>(), kinds.len());
            prop_assert!(found.waves.iter().all(|wave| !wave.is_empty()));
            for (a, from) in kinds.iter().enumerate() {
                for (b, to) in kinds.iter().enumerate() {
                    let (there, back) = (leads(&edges, *from, *to), leads(&edges, *to, *from));
                    match (there, back) {
                        (true, true) => prop_assert_eq!(wave(a), wave(b)),
                        (true, false) => prop_assert!(wave(a) < wave(b), "{} before {}", from, to),
                        (false, _) => {}
                    }
                    let together = found.cycles.iter().any(|cycle| cycle.contains(&kind(*from)) && cycle.contains(&kind(*to)));
                    prop_assert_eq!(together && from != to, there && back && from != to);
                }
            }
        }
    }
}
