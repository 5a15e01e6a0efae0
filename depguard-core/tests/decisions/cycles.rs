//! Tests of which edges lie on a cycle, and whose rules can put an edge there.

use depguard_core::Workspaces;
use depguard_core::decision::AllowReason::*;
use serde_json::json;

use crate::cast::*;
use crate::world::*;

const COMPUTE_PATH: &str = "root:providers:compute";

/// Deletes VPC `a` while its namespace is being deleted; `closed` says if the VPC's edge must count as part of a cycle.
#[track_caller]
fn judged(world: &World, closed: bool) {
    let outcome = world.deletes(&vpc("ns", "a"));
    if closed {
        outcome.allowed(TornDown);
    } else {
        outcome.blocked_by(&["VirtualMachine/m1"]);
        let asked: Vec<_> = outcome.asked.iter().map(|query| query.path.as_str()).collect();
        assert!(!asked.contains(&NAMESPACE) && !asked.contains(&CLUSTER), "{asked:?}");
    }
}

#[test]
fn only_edges_of_a_cycle_let_go() {
    judged(&torn_down(), true);
    // Without the rule that leads back, the VM must go first.
    judged(&torn_down().but(|world| drop(world.rules.pop())), false);
    // The rule that leads back names another target.
    let to = |target: Kind| {
        torn_down().but(|world| world.rules[1] = rule(NETWORK, VPC, ".spec.gateway", COMPUTE_PATH, target))
    };
    judged(&to(VM), true);
    judged(&to(RACK), false);
}

#[test]
fn a_kind_that_refers_to_itself_is_a_cycle_and_one_that_does_not_is_none() {
    let peers = bound().but(|world| {
        world.rules = vec![rule(NETWORK, VPC, ".spec.peer", PROVIDER, VPC)];
        world.objects = vec![vpc("ns", "a"), vpc("ns", "b").set("/spec/peer", "a")];
        world.going.insert("ns".to_owned());
    });
    peers.deletes(&vpc("ns", "a")).asked(&[BINDINGS, VPCS, CLUSTER, NAMESPACE]).allowed(TornDown);
    peers.but(|world| world.going.clear()).deletes(&vpc("ns", "a")).blocked_by(&["VPC/b"]);
    // VMs hold the same references, and no rule leads back to VMs.
    let vms = peers.but(|world| {
        world.rules = vec![rule(COMPUTE, VM, ".spec.vpcRef.name", PROVIDER, VPC)];
        world.objects = vec![vm("ns", "b", "a")];
    });
    vms.deletes(&vpc("ns", "a")).asked(&[BINDINGS, VMS]).blocked_by(&["VirtualMachine/b"]);
}

#[test]
fn a_cycle_may_go_through_several_providers_and_each_must_be_bound() {
    let closed = bound().but(|world| {
        world.knows(COMPUTE_PATH, COMPUTE);
        world.rules = vec![
            rule(COMPUTE, VM, ".spec.vpcRef.name", PROVIDER, VPC),
            rule(NETWORK, VPC, ".spec.zone", PROVIDER, ZONE),
            rule(NETWORK, ZONE, ".spec.rack", COMPUTE_PATH, RACK),
            rule(COMPUTE, RACK, ".spec.vm", COMPUTE_PATH, VM),
        ];
        world.objects = vec![vm("ns", "m1", "a")];
        world.going.insert("ns".to_owned());
    });
    judged(&closed, true);
    for broken in 1..4 {
        judged(&closed.but(|world| drop(world.rules.remove(broken))), false);
    }
    // `bindings[1]` binds the racks, `bindings[3]` the zones.
    for unbound in [1, 3] {
        judged(&closed.but(|world| drop(world.bindings.remove(unbound))), false);
        let elsewhere =
            |world: &mut World| world.bindings[unbound]["status"]["apiExportClusterName"] = "an0ther".into();
        judged(&closed.but(elsewhere), false);
        let renamed = |world: &mut World| world.bindings[unbound]["spec"]["reference"]["export"]["name"] = "x".into();
        judged(&closed.but(renamed), false);
    }
}

/// Gives a stranger, who exports kinds of the same names, a rule that would close the cycle.
#[test]
fn a_strangers_rule_closes_no_cycle() {
    let stranger = rule("strang3r", VPC, ".spec.gateway", COMPUTE_PATH, VM);
    let world = torn_down().but(|world| world.rules[1] = stranger);
    judged(&world, false);
    // The stranger's rule closes no cycle either if the stranger's export is bound with other kinds.
    let bound = binding("strang3r", "root:strange", ZONE);
    judged(&world.but(|world| world.bindings.push(bound)), false);
    // The same rule of the provider closes the cycle.
    judged(&world.but(|world| set(&mut world.rules[1], "/metadata/annotations/kcp.io~1cluster", NETWORK.into())), true);
}

#[test]
fn a_bound_provider_closes_no_cycle_through_kinds_that_are_not_its_own() {
    // The provider of VMs writes a rule about VPCs, as if its own export or another one of that name served them.
    for export in [NETWORK_GROUP, COMPUTE_GROUP] {
        let world = torn_down().but(|world| {
            world.rules[1] = rule(COMPUTE, VPC, ".spec.gateway", COMPUTE_PATH, VM);
            world.rules[1]["spec"]["dependent"]["apiExportName"] = export.into();
        });
        judged(&world, false);
    }
}

#[test]
fn a_tenants_local_rule_about_bound_kinds_closes_no_cycle() {
    for cluster in [CONSUMER, NETWORK] {
        let mut local = rule(cluster, VPC, ".spec.gateway", COMPUTE_PATH, VM);
        local["spec"]["dependent"].as_object_mut().unwrap().remove("apiExportName");
        judged(&torn_down().but(|world| world.rules[1] = local.clone()), false);
    }
}

/// Gives the provider of VPCs a rule that they refer to config maps. The rule means the config maps of the provider's
/// own workspace only.
#[test]
fn a_providers_local_kinds_are_not_the_tenants() {
    let world = |cluster: &str| {
        torn_down().but(|world| {
            let mut to_local = local_rule(cluster, VPC, ".spec.config", CONFIG);
            to_local["spec"]["dependent"]["apiExportName"] = NETWORK_GROUP.into();
            let mut from_local = rule(CONSUMER, CONFIG, ".spec.vm", COMPUTE_PATH, VM);
            from_local["spec"]["dependent"].as_object_mut().unwrap().remove("apiExportName");
            world.rules.truncate(1);
            world.rules.extend([to_local, from_local]);
        })
    };
    judged(&world(NETWORK), false);
    // If the tenant is the provider, the rule means the tenant's config maps.
    let own = world(CONSUMER).but(|world| {
        world.bindings[2]["status"]["apiExportClusterName"] = CONSUMER.into();
        world.knows(PROVIDER, CONSUMER);
    });
    judged(&own, true);
}

#[test]
fn a_kind_bound_twice_is_nobodys() {
    let twice = binding("an0ther", "root:another", VPC);
    judged(&torn_down().but(|world| world.bindings.push(twice)), false);
}

#[test]
fn a_broken_rule_closes_no_cycle() {
    judged(&ruled(&torn_down(), "/spec/dependent/version", "v1"), true);
    let broken =
        torn_down().but(|world| set(&mut world.rules[1], "/spec/dependencies/0/fieldRef/path", "spec..".into()));
    judged(&broken, false);
}

#[test]
fn a_rule_that_only_warns_closes_no_cycle_and_one_that_is_ignored_when_it_fails_does() {
    let back = |pointer: &str, value: &str| {
        torn_down().but(|world| set(&mut world.rules[1], &format!("/spec/{pointer}"), value.into()))
    };
    judged(&back("dependencies/0/onDelete", "Deny"), true);
    judged(&back("dependencies/0/onDelete", "Warn"), false);
    judged(&back("dependencies/0/onDelete", "Audit"), false);
    judged(&back("failurePolicy", "Ignore"), true);
}

#[test]
fn a_path_that_nobody_knows_is_what_the_binding_names() {
    let forgotten = torn_down().but(|world| world.workspaces = Workspaces::new());
    judged(&forgotten, true);
    // The rule applies if the binding names no path. But then the binding's export may be another than the rule's
    // target.
    for path in [NETWORK, ""] {
        let unclear = |world: &mut World| world.bindings[2]["spec"]["reference"]["export"]["path"] = path.into();
        judged(&forgotten.but(unclear), false);
    }
}

/// Lets VPCs refer to VPCs by a rule of their own provider, at a path that can't be looked up.
#[test]
fn a_providers_edge_between_its_own_kinds_needs_no_path() {
    let peers = |path: &str| {
        bound().but(|world| {
            world.workspaces = Workspaces::new();
            world.rules = vec![rule(NETWORK, VPC, ".spec.peer", PROVIDER, VPC)];
            world.objects = vec![vpc("ns", "a"), vpc("ns", "b").set("/spec/peer", "a")];
            world.going.insert("ns".to_owned());
            world.bindings[2]["spec"]["reference"]["export"]["path"] = path.into();
        })
    };
    for path in [NETWORK, "", PROVIDER] {
        peers(path).deletes(&vpc("ns", "a")).allowed(TornDown);
        // Without the teardown the same edge refuses.
        peers(path).but(|world| world.going.clear()).deletes(&vpc("ns", "a")).blocked_by(&["VPC/b"]);
    }
    // The rule is about another export of its provider.
    let renamed = |world: &mut World| {
        world.rules[0]["spec"]["dependencies"][0]["apiExportRef"]["name"] = "other.example.com".into();
    };
    peers(NETWORK).but(renamed).deletes(&vpc("ns", "a")).allowed(NotBound);
    // The provider of VMs is not that of VPCs, so a rule of either about the other's kinds needs the path.
    let forgotten = torn_down().but(|world| {
        world.workspaces = Workspaces::new();
        world.bindings[2]["spec"]["reference"]["export"]["path"] = NETWORK.into();
    });
    judged(&forgotten, false);
}

#[test]
fn an_edge_outside_the_cycle_blocks_beside_one_of_it() {
    // The pod refers to the VPC too, and no rule leads back to pods.
    let world = torn_down().but(|world| {
        let mut pods = rule(CONSUMER, POD, ".spec.vpc", PROVIDER, VPC);
        pods["spec"]["dependent"].as_object_mut().unwrap().remove("apiExportName");
        world.rules.push(pods);
        world.objects.push(Object::new(POD, "ns", "p").set("/spec/vpc", "a"));
    });
    let outcome = world.deletes(&vpc("ns", "a"));
    outcome.blocked_by(&["Pod/p", "VirtualMachine/m1"]);
    assert!(outcome.asked.iter().all(|query| query.path != NAMESPACE && query.path != CLUSTER));
    world.but(|world| drop(world.objects.pop())).deletes(&vpc("ns", "a")).allowed(TornDown);
}

/// Lets one dependent refer to the target by an edge of a cycle and by another edge.
#[test]
fn the_stricter_of_two_edges_from_one_dependent_counts() {
    let as_local = local_rule(CONSUMER, VM, ".spec.vpcRef.name", VPC);
    judged(&torn_down().but(|world| world.rules.push(as_local)), false);
}

#[test]
fn a_cycle_in_a_plain_cluster_needs_no_bindings() {
    let plain = torn_down().but(|world| {
        world.control_plane = depguard_core::ControlPlane::Kubernetes;
        world.rules = vec![local_rule("x", VM, ".spec.vpcRef.name", VPC), local_rule("y", VPC, ".spec.gateway", VM)];
        world.bindings.clear();
    });
    plain.deletes(&vpc("ns", "a")).asked(&[VMS, NAMESPACE]).allowed(TornDown);
    judged(&plain.but(|world| drop(world.rules.pop())), false);
}

#[test]
fn a_local_cycle_needs_no_bindings_unless_it_leads_through_exported_kinds() {
    let pods = local(CONSUMER).but(|world| {
        world.rules.push(local_rule(CONSUMER, CONFIG, ".spec.pod", POD));
        world.objects = vec![pod("ns", "p", "a")];
        world.going.insert("ns".to_owned());
    });
    pods.deletes(&config("ns", "a")).asked(&[PODS, CLUSTER, NAMESPACE]).allowed(TornDown);
    // Both rules must belong to this workspace.
    pods.but(|world| set(&mut world.rules[1], "/metadata/annotations/kcp.io~1cluster", json!("an0ther")))
        .deletes(&config("ns", "a"))
        .asked(&[PODS])
        .blocked_by(&["Pod/p"]);

    // The workspace exports zones and binds them itself. Its rules lead from config maps to zones, and from zones to
    // pods.
    let mixed = pods.but(|world| {
        let mut to_zones = local_rule(CONSUMER, CONFIG, ".spec.zone", ZONE);
        to_zones["spec"]["dependencies"][0]["apiExportRef"] = json!({"path": "root:own", "name": NETWORK_GROUP});
        let mut from_zones = local_rule(CONSUMER, ZONE, ".spec.pod", POD);
        from_zones["spec"]["dependent"]["apiExportName"] = NETWORK_GROUP.into();
        world.rules.truncate(1);
        world.rules.extend([to_zones, from_zones]);
        world.knows("root:own", CONSUMER);
        world.bindings = vec![binding(CONSUMER, "root:own", ZONE)];
    });
    mixed.deletes(&config("ns", "a")).asked(&[BINDINGS, PODS, CLUSTER, NAMESPACE]).allowed(TornDown);
    mixed.but(|world| world.bindings.clear()).deletes(&config("ns", "a")).blocked_by(&["Pod/p"]);
}
