//! Tests that depguard refuses if it cannot find out a fact.

use depguard_core::decision::AllowReason::*;
use depguard_core::scan::Extractor;
use serde_json::json;

use crate::cast::*;
use crate::world::*;

fn status(code: u16) -> Reply {
    Reply::Http(code, br#"{"message":"said so"}"#.to_vec())
}

/// Returns answers that hold no knowledge, whatever the query was.
fn failures() -> Vec<(Option<Reply>, &'static str)> {
    let no_version = json!({"metadata": {}, "items": []});
    vec![
        (Some(status(400)), "HTTP 400 (said so)"),
        (Some(status(401)), "renew the webhook's credentials"),
        (Some(status(403)), "give the webhook's user the right"),
        (Some(status(429)), "HTTP 429"),
        (Some(status(500)), "HTTP 500 (said so); retry later"),
        (Some(status(503)), "HTTP 503"),
        (Some(status(204)), "HTTP 204"),
        (Some(Reply::Http(301, Vec::new())), "HTTP 301"),
        (Some(Reply::Cut), "the connection was cut"),
        (Some(Reply::ok(&no_version)), "without metadata.resourceVersion"),
        (
            Some(Reply::ok(&json!({"metadata": {"resourceVersion": ""}, "items": []}))),
            "without metadata.resourceVersion",
        ),
        (Some(Reply::ok(&json!({"metadata": {"resourceVersion": "1"}}))), "holds no `items`"),
        (Some(Reply::ok(&json!({"metadata": {"resourceVersion": "1"}, "items": [7]}))), "not a list"),
        (Some(Reply::ok(&json!(null))), "not a list"),
        (Some(Reply::Http(200, Vec::new())), "not a list"),
        (Some(Reply::Http(200, br#"{"metadata":{"resourceVersion":"1"},"items":["#.to_vec())), "not a list"),
        (Some(Reply::TooLarge), "too large"),
        (Some(status(410)), "expired (HTTP 410) several times"),
        (None, "was not answered in time"),
    ]
}

#[test]
fn a_list_that_fails_refuses() {
    for (reply, part) in failures() {
        for (world, target, list) in [
            (bound(), vpc("ns", "a"), "/apibindings"),
            (bound(), vpc("ns", "a"), "/virtualmachines"),
            (plain(), vpc("ns", "a"), "/virtualmachines"),
            (local(CONSUMER), config("ns", "a"), "/pods"),
        ] {
            world.deletes(&target).allowed(Unreferenced);
            let outcome = world.review_with(&target.deletion(), |query| {
                if query.path.contains(list) { reply.clone() } else { Some(world.reply(&query.path)) }
            });
            outcome.undecided(part);
        }
    }
}

#[test]
fn a_list_that_fails_on_its_second_page_refuses() {
    let world = bound().but(|world| world.page = 1).with(vm("ns", "m1", "b")).with(vm("ns", "m2", "b"));
    world.deletes(&vpc("ns", "a")).allowed(Unreferenced);
    for (reply, _) in failures() {
        for list in ["/apibindings", "/virtualmachines"] {
            let outcome = world.review_with(&vpc("ns", "a").deletion(), |query| {
                let second = query.path.contains(list) && query.path.contains("continue=");
                if second { reply.clone() } else { Some(world.reply(&query.path)) }
            });
            assert!(!outcome.decision.allowed(), "{list} {reply:?}");
        }
    }
}

#[test]
fn what_was_found_before_a_failure_is_named_beside_it() {
    let world = bound().but(|world| world.page = 1).with(vm("ns", "m1", "a")).with(vm("ns", "m2", "a"));
    let outcome = world.review_with(&vpc("ns", "a").deletion(), |query| {
        let second = query.path.contains("virtualmachines") && query.path.contains("continue=");
        if second { Some(status(500)) } else { Some(world.reply(&query.path)) }
    });
    let denial = outcome.decision.denial().expect("denied");
    let expected = "cannot delete vpcs/a: still referenced by VirtualMachine/m1; could not find out what else refers \
                    to it: the list of virtualmachines.compute.example.com v1alpha1 in namespace ns of logical \
                    cluster c0nsumer failed with HTTP 500 (said so); retry later";
    assert_eq!(denial.message(), expected);
}

#[test]
fn a_bound_kind_that_is_not_found_refuses() {
    let missing = bound().but(|world| world.kinds.retain(|kind| *kind != VM));
    bound().deletes(&vpc("ns", "a")).allowed(Unreferenced);
    missing
        .deletes(&vpc("ns", "a"))
        .asked(&[BINDINGS, VMS, ALL_VMS])
        .undecided("although an APIBinding binds the kind");
}

#[test]
fn a_kcp_without_bindings_is_none() {
    let world = bound();
    let outcome = world.review_with(&vpc("ns", "a").deletion(), |query| {
        Some(if query.path == BINDINGS { Reply::not_found() } else { world.reply(&query.path) })
    });
    outcome.undecided("run with --control-plane kubernetes");
}

#[test]
fn an_expired_list_begins_again_and_what_it_showed_before_does_not_count() {
    let before = bound().but(|world| world.page = 1).with(vm("ns", "m1", "a")).with(vm("ns", "m2", "b"));
    for (after, blocks) in [(vm("ns", "m1", "b"), false), (vm("ns", "m3", "a"), true)] {
        let after = bound().with(after);
        let mut expired = false;
        let outcome = before.review_with(&vpc("ns", "a").deletion(), |query| {
            if query.path.contains("virtualmachines") && query.path.contains("continue=") {
                expired = true;
                return Some(status(410));
            }
            Some(if expired { after.reply(&query.path) } else { before.reply(&query.path) })
        });
        assert!(expired);
        if blocks { outcome.blocked_by(&["VirtualMachine/m3"]) } else { outcome.allowed(Unreferenced) }
    }
}

#[test]
fn a_list_that_is_not_found_any_more_begins_again_too() {
    let before = bound().but(|world| world.page = 1).with(vm("ns", "m1", "a")).with(vm("ns", "m2", "b"));
    for (after, blocks) in [(vm("ns", "m1", "b"), false), (vm("ns", "m3", "a"), true)] {
        let after = bound().with(after);
        let outcome = before.review_with(&vpc("ns", "a").deletion(), |query| {
            let second = query.path.contains("virtualmachines") && query.path.contains("continue=");
            let all = query.path == ALL_VMS;
            Some(if second { Reply::not_found() } else { if all { &after } else { &before }.reply(&query.path) })
        });
        if blocks { outcome.blocked_by(&["VirtualMachine/m3"]) } else { outcome.allowed(Unreferenced) }
    }
}

#[test]
fn expired_bindings_begin_again_and_what_they_showed_before_does_not_count() {
    let before = bound().but(|world| world.page = 3).with(vm("ns", "m1", "a"));
    for (after, blocks) in [(bound(), true), (bound().but(|world| drop(world.bindings.remove(0))), false)] {
        let after = after.with(vm("ns", "m1", "a"));
        let mut expired = false;
        let outcome = before.review_with(&vpc("ns", "a").deletion(), |query| {
            if query.path.contains("continue=") {
                expired = true;
                return Some(status(410));
            }
            Some(if expired { after.reply(&query.path) } else { before.reply(&query.path) })
        });
        assert!(expired);
        if blocks { outcome.blocked_by(&["VirtualMachine/m1"]) } else { outcome.allowed(NotBound) }
    }
}

#[test]
fn a_page_too_large_is_read_in_smaller_ones() {
    for (name, blocks) in [("a", true), ("b", false)] {
        let world = bound().but(|world| world.objects.extend((0..100).map(|n| vm("ns", &format!("m{n:02}"), "c"))));
        let world = world.with(vm("ns", "m", "a"));
        let outcome = world.review_with(&vpc("ns", name).deletion(), |query| {
            let too_large = query.path.contains("limit=500") && query.path.contains("virtualmachines");
            Some(if too_large { Reply::TooLarge } else { world.reply(&query.path) })
        });
        assert_eq!(outcome.asked.len(), 4, "bindings, one too large, two of 62");
        if blocks { outcome.blocked_by(&["VirtualMachine/m"]) } else { outcome.allowed(Unreferenced) }
    }
}

#[test]
fn a_local_kind_that_discovery_knows_in_no_version_has_no_objects() {
    let all = "/apis/compute.example.com";
    let only_racks = |mut world: World| {
        world.kinds.retain(|kind| *kind != VM);
        world
    };
    let (v1, v1alpha1) = ("/apis/compute.example.com/v1", "/apis/compute.example.com/v1alpha1");
    let gone = only_racks(plain()).deletes(&vpc("ns", "a"));
    gone.asked(&[VMS, ALL_VMS, all, v1alpha1, v1]).allowed(Unreferenced);

    let no_group = only_racks(plain()).but(|world| world.kinds.retain(|kind| *kind != RACK));
    no_group.deletes(&vpc("ns", "a")).asked(&[VMS, ALL_VMS, all]).allowed(Unreferenced);

    let other_version = Kind { versions: &["v1"], ..VM };
    let moved = only_racks(plain()).but(|world| world.kinds.push(other_version));
    moved.deletes(&vpc("ns", "a")).undecided("but the API server serves v1");

    let in_kcp = local(CONSUMER).but(|world| world.kinds.retain(|kind| *kind != POD));
    in_kcp.deletes(&config("ns", "a")).asked(&[PODS, ALL_PODS, "/api", "/api/v1"]).allowed(Unreferenced);
}

#[test]
fn discovery_that_fails_refuses() {
    let gone = plain().but(|world| world.kinds.retain(|kind| *kind != VM));
    gone.deletes(&vpc("ns", "a")).allowed(Unreferenced);
    let depths = ["/apis/compute.example.com", "/apis/compute.example.com/v1alpha1", "/apis/compute.example.com/v1"];
    for (reply, _) in failures() {
        for at in depths {
            let outcome = gone.review_with(&vpc("ns", "a").deletion(), |query| {
                if query.path == at { reply.clone() } else { Some(gone.reply(&query.path)) }
            });
            assert!(!outcome.decision.allowed(), "{at} {reply:?}");
        }
    }
}

/// Returns a world with a VM in `x` that holds more values at `.a` than are read, the target's name among them, and one
/// reference to `ns/b` at another field. By the first edge, the VM means its own namespace.
fn hoarder() -> World {
    let mut values = vec!["other"; Extractor::MAX_VALUES];
    values.push("a");
    let mut vm = vm("x", "bomb", "").set("/a", json!(values)).set("/spec/far", json!({"name": "b", "namespace": "ns"}));
    vm.json["metadata"]["labels"] = json!({"tier": "gold"});
    let far = json!({"path": ".spec.far.name", "namespacePath": ".spec.far.namespace"});
    plain().but(|world| {
        let rule = &mut world.rules[0];
        rule["spec"]["dependencies"][0]["fieldRef"]["path"] = ".a".into();
        let mut second = rule["spec"]["dependencies"][0].clone();
        second["fieldRef"] = far;
        rule["spec"]["dependencies"].as_array_mut().unwrap().push(second);
        rule["spec"]["dependent"]["selector"] = json!({"matchLabels": {"tier": "gold"}});
        world.objects = vec![vm];
    })
}

#[test]
fn an_object_with_too_many_values_is_in_doubt_where_its_edge_may_mean_and_only_if_it_is_selected() {
    const WHY: &str = "VirtualMachine/x/bomb has more than 10000 references";
    let world = hoarder();
    world.deletes(&vpc("x", "a")).undecided(WHY);
    world.deletes(&vpc("ns", "a")).allowed(Unreferenced);
    // The edge names a namespace.
    let fixed = ruled(&world, "/spec/dependencies/0/fieldRef/namespace", "ns");
    fixed.deletes(&vpc("ns", "a")).undecided(WHY);
    fixed.deletes(&vpc("x", "a")).allowed(Unreferenced);
    // The object names the namespace, so it may be any.
    let said = ruled(&world, "/spec/dependencies/0/fieldRef/namespacePath", ".spec.far.namespace");
    said.deletes(&vpc("ns", "a")).undecided(WHY);
    said.deletes(&vpc("z", "a")).undecided(WHY);
    // An object that the rule does not select refers to nothing, wherever its labels stand.
    for world in [world, fixed, said] {
        let other = world.but(|world| world.objects[0].json["metadata"]["labels"]["tier"] = "lead".into());
        for namespace in ["ns", "x", "z"] {
            other.deletes(&vpc(namespace, "a")).allowed(Unreferenced);
        }
    }
}

#[test]
fn what_is_too_much_at_one_path_takes_nothing_away_from_the_others() {
    let world = hoarder();
    world.deletes(&vpc("ns", "b")).blocked_by(&["VirtualMachine/x/bomb"]);
    world.deletes(&vpc("ns", "c")).allowed(Unreferenced);
    world
        .but(|world| set(&mut world.objects[0].json, "/spec/far", json!(null)))
        .deletes(&vpc("ns", "b"))
        .allowed(Unreferenced);
}
