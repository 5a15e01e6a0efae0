//! Tests of the reads: what is asked, and which answers mean that a target is there.

use depguard_core::decision::AllowReason::*;
use serde_json::{Value, json};

use super::*;

#[test]
fn each_distinct_target_is_read_once() {
    let world =
        denying().but(|world| set(&mut world.rules[0], "/spec/dependencies/0/fieldRef/path", ".spec.vpcs".into()));
    let world = world.with(vpc("ns", "a")).with(vpc("ns", "b"));
    let made = Object::new(VM, "ns", "m1").set("/spec/vpcs", json!(["b", "a", "b", "a"]));
    let path = |name: &str| VPC_A.replace("vpcs/a", &format!("vpcs/{name}"));
    world.creates(&made).asked(&[&path("b"), &path("a")]).is_fine(TargetsExist);
    let missing = made.set("/spec/vpcs/2", "c");
    world.creates(&missing).missing(&["vpcs/c"]);
}

#[test]
fn nothing_is_read_if_nothing_begins_to_count() {
    for world in [denying(), denying_in_kcp()] {
        let made = vm("ns", "m1", "a");
        world.updates(&made, &made.clone().set("/spec/cpus", 2)).asked(&[]).is_fine(NoNewReference);
        world.creates(&Object::new(VM, "ns", "m1")).asked(&[]).is_fine(NoNewReference);
        assert!(!world.creates(&made).decision.allowed());
    }
}

#[test]
fn a_kind_without_namespaces_is_found_by_the_answers() {
    let world = denying().but(|world| {
        world.rules = vec![local_rule("anything", VM, ".spec.vpcRef.name", ZONE)];
    });
    let world = checking(&world, OnMissing::Deny);
    let zones =
        ["/apis/network.example.com/v1alpha1/namespaces/ns/zones/a", "/apis/network.example.com/v1alpha1/zones/a"];
    world.creates(&vm("ns", "m1", "a")).asked(&zones).missing(&["zones/a"]);
    world.with(zone("a")).creates(&vm("ns", "m1", "a")).asked(&zones).is_fine(TargetsExist);
}

#[test]
fn any_namespace_will_do_for_a_dependent_without_one() {
    let world = denying().but(|world| world.rules = vec![local_rule("anything", RACK, ".spec.vpcRef.name", VPC)]);
    let world = checking(&world, OnMissing::Deny);
    let list = "/apis/network.example.com/v1alpha1/vpcs?fieldSelector=metadata.name%3Da&limit=500";
    world.creates(&rack("r1", "a")).asked(&[ANY_VPC_A, list]).missing(&["vpcs/a"]);
    let going = world.with(vpc("ns", "a").terminating());
    going.creates(&rack("r1", "a")).missing(&["vpcs/a"]);
    // One of several that will do is enough.
    going.with(vpc("other", "a")).creates(&rack("r1", "a")).asked(&[ANY_VPC_A, list]).is_fine(TargetsExist);
}

#[test]
fn of_too_many_objects_of_a_name_the_first_ones_are_read() {
    let world = denying().but(|world| world.rules = vec![local_rule("anything", RACK, ".spec.vpcRef.name", VPC)]);
    let world = checking(&world, OnMissing::Deny).but(|world| world.page = 1);
    let (going, there) = (vpc("x", "a").terminating(), vpc("y", "a"));
    world.with(there.clone()).with(going.clone()).creates(&rack("r1", "a")).is_fine(TargetsExist);
    world.with(going.clone()).creates(&rack("r1", "a")).missing(&["vpcs/a"]);
    world.with(going).with(there).creates(&rack("r1", "a")).undecided("found too many objects of that name");
}

#[test]
fn a_kind_that_is_not_served_is_told_from_a_missing_object() {
    for (kinds, word) in [(vec![VM, VPC], "RefNotFound"), (vec![VM], "InvalidKind")] {
        for made in [vm("ns", "m1", "a"), vm("ns", "m1", ".."), vm("ns", "m1", "a/b")] {
            let outcome = denying().but(|world| world.kinds = kinds.clone()).creates(&made);
            // On a plain cluster a name that no object can have is not looked for.
            let expected = if made.json["spec"]["vpcRef"]["name"] == "a" { word } else { "RefNotFound" };
            let review: Value = serde_json::from_slice(&outcome.decision.to_review("1")).unwrap();
            let status = &review["response"]["status"];
            let causes = &status["details"]["causes"];
            assert_eq!((&causes[0]["reason"], &causes[0]["field"]), (&json!(expected), &json!("spec.vpcRef.name")));
            assert_eq!((&status["code"], &status["details"]["name"]), (&json!(403), &json!("m1")));
        }
    }
}

#[test]
fn a_rule_with_a_version_that_is_not_served_refuses() {
    let world = ruled(&denying(), "/spec/dependencies/0/version", "v9").with(vpc("ns", "a"));
    world.creates(&vm("ns", "m1", "a")).missing(&["vpcs/a"]);
    ruled(&world, "/spec/dependencies/0/version", "v1").creates(&vm("ns", "m1", "a")).is_fine(TargetsExist);
}

#[test]
fn a_name_of_any_text_is_shown_in_readable_length() {
    let world = denying();
    for name in ["a".repeat(300), "\u{7}a\nb".to_owned(), "é".repeat(100_000), "..".to_owned(), ".".to_owned()] {
        let outcome = world.creates(&vm("ns", "m1", &name));
        let target = format!("vpcs/{name}");
        outcome.missing(&[&target]);
        assert!(outcome.asked.is_empty(), "{:?}", outcome.asked);
        let message = outcome.decision.message().unwrap();
        assert!(message.len() < 2_000 && !message.contains(char::is_control), "{message}");
        let warned = checking(&world, OnMissing::Warn).creates(&vm("ns", "m1", &name));
        let warnings = warned.tells(&[&target], &[]).decision.diagnostics().warnings();
        assert!(warnings.iter().all(|warning| warning.len() < 2_000 && !warning.contains(char::is_control)));
    }
    // The longest name that an object can have is looked for.
    let longest = "a".repeat(253);
    world.with(vpc("ns", &longest)).creates(&vm("ns", "m1", &longest)).is_fine(TargetsExist);
}

#[test]
fn many_missing_targets_are_counted_and_some_are_named() {
    let world = ruled(&denying(), "/spec/dependencies/0/fieldRef/path", ".spec.vpcs");
    let names: Vec<_> = (0..400).map(|number| format!("vpc-{number}")).collect();
    let outcome = world.creates(&Object::new(VM, "ns", "m1").set("/spec/vpcs", names));
    let message = outcome.decision.message().unwrap();
    assert!(message.contains(" more") && message.len() < 2_500, "{message}");
    assert_eq!(outcome.asked.len(), 400);
}

#[test]
fn the_target_of_another_uid_is_missing() {
    let world = ruled(&denying(), "/spec/dependencies/0/fieldRef/uidPath", ".spec.vpcRef.uid").with(vpc("ns", "a"));
    let made = |uid: &str| vm("ns", "m1", "a").set("/spec/vpcRef/uid", uid);
    world.creates(&made("vpcs-ns-a")).is_fine(TargetsExist);
    let outcome = world.creates(&made("before"));
    outcome.missing(&["vpcs/a"]);
    assert!(outcome.decision.message().unwrap().contains("with UID before not found"));
    // Both references cost one read, and only one of them is right.
    let both = json!([{"name": "a", "uid": "vpcs-ns-a"}, {"name": "a", "uid": "before"}]);
    let world = ruled(
        &world,
        "/spec/dependencies/0/fieldRef",
        json!({"path": ".spec.refs[*].name", "uidPath": ".spec.refs[*].uid"}),
    );
    world.creates(&Object::new(VM, "ns", "m1").set("/spec/refs", both)).asked(&[VPC_A]).missing(&["vpcs/a"]);
}
