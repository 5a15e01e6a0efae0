//! Tests that each teardown ends, and in the order of its references if there is such an order.

mod choices;
mod drawn;
mod simulation;

use depguard_core::ControlPlane;

use crate::cast::*;
use crate::world::*;

use choices::Choices;
use drawn::Drawn;
use simulation::{Grant, Scope, Simulation, is_going, name_of, namespace_of};

/// Tears down the scopes of a drawn world. If outside dependents hold a scope up, the dependents are detached, and the
/// teardown goes on.
fn tear_down(drawn: &Drawn, choices: &mut Choices, blind: bool) -> Simulation {
    let mut simulation = Simulation::new(drawn.world.clone(), &drawn.scopes);
    simulation.blind = blind;
    let mut in_order = |grant: &Grant<'_>| {
        for (dependent, edge) in drawn.referrers(grant.world, grant.object) {
            let both_go = is_going(grant.world, grant.object) && is_going(grant.world, dependent);
            assert!(
                both_go && drawn.is_excused(grant.world, edge, grant.object),
                "{:?} went before {:?}, which refers to it, of {drawn:?}",
                grant.object.json,
                dependent.json
            );
        }
    };
    simulation.run(choices, &mut in_order);
    if !simulation.scopes.is_empty() && !blind {
        let outside = |object: &Object| !simulation.is_going(object);
        let held = simulation.world.objects.iter().filter(|object| simulation.is_going(object));
        let mut holders = held.flat_map(|object| drawn.referrers(&simulation.world, object));
        assert!(holders.any(|(dependent, _)| outside(dependent)), "nobody outside holds up {drawn:?}");
        let detached: Vec<_> = (simulation.world.objects.iter())
            .map(
                |object| {
                    if outside(object) { object.clone().set("/spec", serde_json::json!({})) } else { object.clone() }
                },
            )
            .collect();
        simulation.world.objects = detached;
        simulation.run(choices, &mut in_order);
    }
    simulation
}

#[test]
fn every_teardown_ends_and_nothing_goes_before_its_dependents_but_in_cycles() {
    for seed in 0..400 {
        let mut choices = Choices::new(seed);
        let drawn = Drawn::new(&mut choices);
        let simulation = tear_down(&drawn, &mut choices, false);
        assert!(simulation.scopes.is_empty(), "seed {seed}: {:?} does not end, of {drawn:?}", simulation.scopes);
        let left = simulation.world.objects.iter().filter(|object| simulation.is_going(object));
        assert_eq!(left.count(), 0, "seed {seed}");
    }
}

/// Guards the test above: without reads of scopes, many teardowns must never end.
#[test]
fn without_reading_scopes_many_of_them_would_never_end() {
    let stuck = (0..400).filter(|seed| {
        let mut choices = Choices::new(*seed);
        let drawn = Drawn::new(&mut choices);
        !tear_down(&drawn, &mut choices, true).scopes.is_empty()
    });
    let stuck = stuck.count();
    assert!(stuck > 60, "{stuck} of 400");
}

#[track_caller]
fn ends_only_with_scopes_read(world: &World, scopes: &[Scope]) {
    for blind in [false, true] {
        let mut simulation = Simulation::new(world.clone(), scopes);
        simulation.blind = blind;
        simulation.run(&mut Choices::new(1), &mut |_| ());
        assert_eq!(simulation.scopes.is_empty(), !blind, "blind: {blind}, left: {:?}", simulation.world.objects);
    }
}

fn namespace() -> Scope {
    Scope::Namespace("ns".to_owned())
}

#[test]
fn two_that_refer_to_each_other_would_hold_each_other_for_ever() {
    let world = torn_down().but(|world| world.going.clear());
    ends_only_with_scopes_read(&world, &[namespace()]);
    ends_only_with_scopes_read(&world, &[Scope::LogicalCluster]);
}

/// Builds a cycle of kinds without a cycle of objects. The first VPC waits for the second VM, whose deletion is only
/// requested once the first VM is gone; the first VM waits for the second VPC in the same way.
#[test]
fn a_cycle_of_kinds_suffices_without_one_of_objects() {
    let world = torn_down().but(|world| {
        world.going.clear();
        world.objects = vec![
            vm("ns", "m1", "none"),
            vm("ns", "m2", "a"),
            vpc("ns", "a"),
            vpc("ns", "b").set("/spec/gateway", "m1"),
        ];
    });
    ends_only_with_scopes_read(&world, &[namespace()]);
}

#[test]
fn an_export_with_a_cycle_inside_can_be_unbound() {
    let world = bound().but(|world| {
        world.rules = vec![rule(NETWORK, VPC, ".spec.peer", PROVIDER, VPC)];
        world.objects = vec![vpc("ns", "a").set("/spec/peer", "b"), vpc("ns", "b").set("/spec/peer", "a")];
    });
    ends_only_with_scopes_read(&world, &[Scope::Binding("netw0rk-vpcs".to_owned())]);
}

#[test]
fn a_dependent_outside_holds_a_teardown_up_until_it_is_gone() {
    let world = bound().but(|world| {
        world.knows("root:providers:compute", COMPUTE);
        world.rules = vec![
            rule(COMPUTE, RACK, ".spec.vpcRef.name", PROVIDER, VPC),
            rule(NETWORK, VPC, ".spec.rack", "root:providers:compute", RACK),
        ];
        world.objects = vec![vpc("ns", "a").set("/spec/rack", "r"), rack("r", "a")];
    });
    let mut simulation = Simulation::new(world, &[namespace()]);
    simulation.run(&mut Choices::new(1), &mut |_| panic!("nothing may go"));
    assert_eq!(simulation.scopes, [namespace()]);
    // The VPC that the rack refers to is being deleted, and the rack is not: the rack may not go before the VPC.
    assert!(!simulation.allows(&rack("r", "a")));
    simulation.world.objects[1] = rack("r", "another");
    simulation.run(&mut Choices::new(1), &mut |_| ());
    assert_eq!(simulation.scopes, []);
}

#[test]
fn the_drawn_worlds_are_of_every_sort() {
    let mut sorts = std::collections::BTreeMap::<_, usize>::new();
    for seed in 0..400 {
        let drawn = Drawn::new(&mut Choices::new(seed));
        for (sort, is) in [
            ("kcp", drawn.world.control_plane == ControlPlane::Kcp),
            ("kubernetes", drawn.world.control_plane == ControlPlane::Kubernetes),
            ("a cycle", drawn.edges.iter().any(|edge| drawn.is_cyclic(edge))),
            ("no cycle", !drawn.edges.iter().any(|edge| drawn.is_cyclic(edge))),
            ("several scopes", drawn.scopes.len() > 1),
            ("a logical cluster", drawn.scopes.contains(&Scope::LogicalCluster)),
            ("a binding", drawn.scopes.iter().any(|scope| matches!(scope, Scope::Binding(_)))),
        ] {
            *sorts.entry(sort).or_default() += usize::from(is);
        }
    }
    assert!(sorts.values().all(|count| *count >= 40), "{sorts:?}");
}
