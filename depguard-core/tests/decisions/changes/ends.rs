//! Tests of the places in which a rule is about a new reference, in kcp.

use depguard_core::decision::AllowReason::*;
use serde_json::json;

use super::*;

#[test]
fn the_end_of_the_dependent_alone_makes_a_rule_apply() {
    let world = denying_in_kcp();
    let made = vm("ns", "m1", "a");
    world.creates(&made).asked(&[BINDINGS, VPC_A]).missing(&["vpcs/a"]);
    // Without a binding of the target, its kind is not served.
    let unbound = world.but(|world| {
        world.bindings.remove(2);
        world.kinds.retain(|kind| *kind != VPC);
    });
    unbound.creates(&made).asked(&[BINDINGS, VPC_A, ANY_VPC_A]).missing(&["vpcs/a"]);
    assert!(unbound.creates(&made).decision.message().unwrap().contains("is not served here"));
    // A name that no object can have doesn't hide that.
    let any = "/apis/network.example.com/v1alpha1/vpcs?limit=1";
    unbound.creates(&vm("ns", "m1", "..")).asked(&[BINDINGS, any]).missing(&["vpcs/.."]);
    // Without a binding of the dependent, the rule says nothing.
    for (pointer, value) in [
        ("/status/apiExportClusterName", json!("an0ther")),
        ("/status/boundResources", json!([])),
        ("/spec/reference/export/name", json!("other.example.com")),
    ] {
        let elsewhere = unbound.but(|world| set(&mut world.bindings[0], pointer, value));
        elsewhere.creates(&made).asked(&[BINDINGS]).is_fine(NotBound);
    }
}

#[test]
fn a_kind_of_another_provider_is_nobodys_business() {
    let made = vm("ns", "m1", "a");
    for (pointer, value) in [
        ("/status/apiExportClusterName", json!("an0ther")),
        ("/spec/reference/export/name", json!("other.example.com")),
    ] {
        let world = denying_in_kcp().but(|world| set(&mut world.bindings[2], pointer, value));
        world.creates(&made).asked(&[BINDINGS]).is_fine(TargetsExist);
    }
    // A local definition serves the kind.
    let local = denying_in_kcp().but(|world| drop(world.bindings.remove(2)));
    local.creates(&made).asked(&[BINDINGS, VPC_A]).is_fine(TargetsExist);
    local.creates(&vm("ns", "m1", "..")).is_fine(TargetsExist);
}

#[test]
fn an_unknown_provider_counts() {
    let world = denying_in_kcp().but(|world| world.workspaces = depguard_core::Workspaces::new());
    world.creates(&vm("ns", "m1", "a")).missing(&["vpcs/a"]);
    let by_id = world.but(|world| set(&mut world.bindings[2], "/spec/reference/export/path", NETWORK.into()));
    by_id.creates(&vm("ns", "m1", "a")).missing(&["vpcs/a"]);
    let other = world.but(|world| set(&mut world.bindings[2], "/spec/reference/export/path", "root:other".into()));
    other.creates(&vm("ns", "m1", "a")).is_fine(TargetsExist);
}

#[test]
fn a_target_of_an_export_is_read_through_it() {
    let outcome = denying_in_kcp().creates(&vm("ns", "m1", "a"));
    let export = outcome.asked[1].export.as_ref().map(|(cluster, name)| (cluster.as_str(), name.as_str()));
    assert_eq!(export, Some((NETWORK, NETWORK_GROUP)));
    assert!(
        outcome.asked.iter().all(|query| query.cluster.as_ref().is_some_and(|cluster| cluster.as_str() == CONSUMER))
    );
    // A local kind has no export.
    let outcome = checking(&local(CONSUMER), OnMissing::Deny).creates(&pod("ns", "p1", "a"));
    assert!(outcome.missing(&["configmaps/a"]).asked.iter().all(|query| query.export.is_none()));
}

#[test]
fn a_local_rule_is_about_its_own_logical_cluster() {
    let world = checking(&local(CONSUMER), OnMissing::Deny);
    world.creates(&pod("ns", "p1", "a")).asked(&["/api/v1/namespaces/ns/configmaps/a"]).missing(&["configmaps/a"]);
    checking(&local("0ther"), OnMissing::Deny).creates(&pod("ns", "p1", "a")).asked(&[]).is_fine(NoNewReference);
    // The target is local to the rule's workspace, the dependent is not.
    let half = denying_in_kcp().but(|world| {
        world.rules[0]["spec"]["dependencies"][0].as_object_mut().unwrap().remove("apiExportRef");
    });
    half.creates(&vm("ns", "m1", "a")).asked(&[BINDINGS]).is_fine(TargetsExist);
    let own = half.but(|world| {
        set(&mut world.rules[0], "/metadata/annotations/kcp.io~1cluster", CONSUMER.into());
        set(&mut world.bindings[0], "/status/apiExportClusterName", CONSUMER.into());
    });
    own.creates(&vm("ns", "m1", "a")).asked(&[BINDINGS, VPC_A]).missing(&["vpcs/a"]);
}

#[test]
fn two_rules_about_one_target_decide_each_by_itself() {
    // For one rule the kind is its own, for the other it may be a stranger's: in either order, the first one refuses.
    let local = |world: &mut World| {
        let mut own = local_rule(CONSUMER, VM, ".spec.vpcRef.name", VPC);
        own["metadata"]["name"] = "own".into();
        own["spec"]["dependencies"][0]["onMissing"] = "Deny".into();
        world.rules.push(own);
        world.bindings.remove(2);
    };
    let world = denying_in_kcp().but(local);
    world.creates(&vm("ns", "m1", "a")).missing(&["vpcs/a"]);
    world.but(|world| world.rules.reverse()).creates(&vm("ns", "m1", "a")).missing(&["vpcs/a"]);
    world.but(|world| drop(world.rules.pop())).creates(&vm("ns", "m1", "a")).is_fine(TargetsExist);
}

#[test]
fn an_edge_that_the_provider_does_not_accept_says_nothing() {
    use depguard_core::protocol::ObjectReview;
    use depguard_core::{Context, RuleSet};
    let world = denying_in_kcp();
    let review = vm("ns", "m1", "a").creation().to_string();
    let review = ObjectReview::parse(review.as_bytes()).unwrap();
    for accepted in [true, false] {
        let rules = RuleSet::load(world.control_plane, &world.rules).retain_accepted(|_, _| accepted);
        assert_eq!(rules.constrains(VM.group, VM.resource), accepted);
        let context = Context::default().with_workspaces(&world.workspaces);
        let decision = rules.evaluate_references(&review, &context).decide_with(|query| {
            let Reply::Http(status, body) = world.reply(&query.path) else { unreachable!() };
            Ok::<_, String>((status, body))
        });
        assert_eq!(decision.label(), if accepted { "missing-targets" } else { "no-rule" });
    }
}

#[test]
fn only_the_rules_of_the_asking_workspace_count() {
    let world = denying_in_kcp();
    let scoped = |cluster: &str| world.but(|world| world.scope = Some(Some(cluster.parse().unwrap())));
    scoped(COMPUTE).creates(&vm("ns", "m1", "a")).missing(&["vpcs/a"]);
    scoped(NETWORK).creates(&vm("ns", "m1", "a")).asked(&[]).is_fine(NoRule);
    let plain = denying().but(|world| world.scope = Some(None));
    plain.creates(&vm("ns", "m1", "a")).missing(&["vpcs/a"]);
}

// === Cycles ===

/// Returns a world in which VMs must not refer to missing VPCs, nor VPCs to missing VMs, each by its provider's rule.
fn circular() -> World {
    denying_in_kcp().but(|world| {
        let mut back = rule(NETWORK, VPC, ".spec.gateway", "root:providers:compute", VM);
        back["spec"]["dependencies"][0]["onMissing"] = "Deny".into();
        world.rules.push(back);
        world.knows("root:providers:compute", COMPUTE);
    })
}

#[test]
fn an_edge_of_a_cycle_only_warns() {
    let made = vm("ns", "m1", "a");
    circular().creates(&made).tells(&["vpcs/a"], &[]);
    circular().creates(&vpc("ns", "a").set("/spec/gateway", "m1")).tells(&["virtualmachines/m1"], &[]);
    let acyclic = circular().but(|world| set(&mut world.rules[1], "/spec/dependencies/0/onMissing", "Warn".into()));
    acyclic.creates(&made).missing(&["vpcs/a"]);
    // A failure leads no longer to a refusal either.
    let outcome = circular().change_with(&made.creation(), |query| {
        let is_target = query.path.contains("/vpcs/");
        if is_target { Some(Reply::Cut) } else { Some(circular().reply(&query.path)) }
    });
    outcome.tells(&[], &[]);
}

#[test]
fn a_stranger_can_not_weaken_the_edge_of_another_provider() {
    let made = vm("ns", "m1", "a");
    // The stranger's rule names the dependents and the targets of the others, but an edge begins at a kind of its own.
    let strangers = [
        rule("str4nger", VPC, ".spec.gateway", "root:providers:compute", VM),
        local_rule("str4nger", VPC, ".spec.gateway", VM),
        local_rule(CONSUMER, VPC, ".spec.gateway", VM),
    ];
    for mut stranger in strangers {
        stranger["spec"]["dependencies"][0]["onMissing"] = "Deny".into();
        let world = denying_in_kcp().but(|world| {
            world.knows("root:providers:compute", COMPUTE);
            world.rules.push(stranger);
        });
        world.creates(&made).missing(&["vpcs/a"]);
    }
    // If the back edge's target is another's VM here, there is no cycle here.
    let elsewhere = circular().but(|world| world.knows("root:providers:compute", "an0ther"));
    elsewhere.creates(&made).missing(&["vpcs/a"]);
}

#[test]
fn a_cycle_of_local_and_bound_kinds_is_found() {
    // Pods refer to config maps, config maps to VPCs of this workspace's own export, and VPCs to pods.
    let edge = |name: &str, mut rule: serde_json::Value| {
        rule["metadata"]["name"] = name.into();
        rule["spec"]["dependencies"][0]["onMissing"] = "Deny".into();
        rule
    };
    let world = local(CONSUMER).but(|world| {
        world.knows("root:own", CONSUMER);
        let mut to_vpc = local_rule(CONSUMER, CONFIG, ".data.vpc", VPC);
        to_vpc["spec"]["dependencies"][0]["apiExportRef"] = json!({"path": "root:own", "name": NETWORK_GROUP});
        let mut to_pod = local_rule(CONSUMER, VPC, ".spec.pod", POD);
        to_pod["spec"]["dependent"]["apiExportName"] = NETWORK_GROUP.into();
        let to_config = local_rule(CONSUMER, POD, ".spec.configRef", CONFIG);
        world.rules = vec![edge("a", to_config), edge("b", to_vpc), edge("c", to_pod)];
        world.bindings = vec![binding(CONSUMER, "root:own", VPC)];
    });
    world.creates(&pod("ns", "p1", "a")).tells(&["configmaps/a"], &[]);
    world.creates(&config("ns", "a").set("/data/vpc", "v")).tells(&["vpcs/v"], &[]);
    world.creates(&vpc("ns", "v").set("/spec/pod", "p1")).tells(&["pods/p1"], &[]);
    let open = world.but(|world| drop(world.rules.pop()));
    open.creates(&pod("ns", "p1", "a")).missing(&["configmaps/a"]);
}
