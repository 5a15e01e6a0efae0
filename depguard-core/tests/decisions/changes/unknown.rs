//! Tests that a change is refused if depguard cannot find out if a target is there.

use depguard_core::api::FailurePolicy;
use depguard_core::decision::AllowReason::*;
use depguard_core::scan::Extractor;
use serde_json::json;

use super::*;

fn status(code: u16) -> Reply {
    Reply::Http(code, br#"{"message":"said so"}"#.to_vec())
}

/// Returns answers to a GET of a VPC that don't say if the VPC is there.
fn failures() -> Vec<(Option<Reply>, &'static str)> {
    let object = |json: serde_json::Value| Some(Reply::ok(&json));
    vec![
        (Some(status(400)), "HTTP 400 (said so)"),
        (Some(status(401)), "renew the webhook's credentials"),
        (Some(status(403)), "give the webhook's user the right to get it there"),
        (Some(status(429)), "HTTP 429"),
        (Some(status(500)), "HTTP 500 (said so); retry later"),
        (Some(status(503)), "HTTP 503"),
        (Some(status(204)), "HTTP 204"),
        (Some(status(410)), "HTTP 410"),
        (Some(Reply::Http(301, Vec::new())), "HTTP 301"),
        (Some(Reply::Cut), "the connection was cut"),
        (Some(Reply::TooLarge), "too large"),
        (Some(Reply::Http(200, Vec::new())), "with another object"),
        (Some(Reply::Http(200, br#"{"metadata":{"name":"a","#.to_vec())), "with another object"),
        (object(json!(null)), "with another object"),
        (object(json!({"metadata": {}})), "with another object"),
        (object(json!({"metadata": {"name": "b", "namespace": "ns"}})), "with another object"),
        (object(json!({"metadata": {"name": "a", "namespace": "other"}})), "with another object"),
        (object(json!({"metadata": {"name": "a", "deletionTimestamp": 7}})), "with another object"),
        (object(json!({"metadata": {"resourceVersion": "7"}, "items": []})), "with another object"),
        (None, "was not answered in time"),
    ]
}

#[test]
fn a_read_that_fails_refuses() {
    for world in [denying(), denying_in_kcp()] {
        let world = world.with(vpc("ns", "a"));
        let made = vm("ns", "m1", "a");
        world.creates(&made).is_fine(TargetsExist);
        for (reply, part) in failures() {
            let failing = |world: &World| {
                world.change_with(&made.creation(), |query| {
                    if query.path == VPC_A { reply.clone() } else { Some(world.reply(&query.path)) }
                })
            };
            failing(&world).undecided(part);
            // A rule that only warns or records allows, and says what it does not know.
            for (on_missing, warnings, records) in [(OnMissing::Warn, 1, 0), (OnMissing::Audit, 0, 1)] {
                let outcome = failing(&checking(&world, on_missing));
                let notes = outcome.tells(&[], &[]).decision.diagnostics();
                assert_eq!((notes.warnings().len(), notes.audit_annotations().len()), (warnings, records), "{part}");
                assert_eq!(outcome.decision.label(), "tolerated");
            }
            let ignoring = ruled(&world, "/spec/failurePolicy", "Ignore");
            let outcome = failing(&ignoring.but(|world| world.failure_policy = FailurePolicy::Ignore));
            assert_eq!(outcome.tells(&[], &[]).decision.diagnostics().warnings().len(), 1, "{part}");
        }
    }
}

#[test]
fn a_404_of_neither_form_is_no_missing_object() {
    // The details must name this object, else the kind itself is asked for; a proxy's 404 for each path is no kind.
    let world = denying().with(vpc("ns", "a"));
    for body in [
        &b"404 page not found\n"[..],
        b"{}",
        br#"{"details":{"kind":"vpcs","name":"b"}}"#,
        br#"{"details":{"kind":"subnets","name":"a"}}"#,
        br#"{"details":{"kind":"namespaces","name":"ns"}}"#,
    ] {
        let outcome = world.change_with(&vm("ns", "m1", "a").creation(), |_| Some(Reply::Http(404, body.to_vec())));
        outcome.asked(&[VPC_A, ANY_VPC_A]).missing(&["vpcs/a"]);
        assert!(outcome.decision.message().unwrap().contains("is not served here"));
    }
}

#[test]
fn a_list_of_a_name_that_lies_refuses() {
    let world = denying().but(|world| world.rules = vec![local_rule("anything", RACK, ".spec.vpcRef.name", VPC)]);
    let world = checking(&world, OnMissing::Deny).with(vpc("ns", "a"));
    let made = rack("r1", "a");
    world.creates(&made).is_fine(TargetsExist);
    let named = |name: &str| json!([{"metadata": {"name": name, "namespace": "ns"}}]);
    for (body, part) in [
        (json!({"metadata": {}, "items": []}), "with another object"),
        (json!({"metadata": {"resourceVersion": ""}, "items": named("a")}), "with another object"),
        (json!({"metadata": {"resourceVersion": "1"}, "items": named("b")}), "with another object"),
        (json!({"metadata": {"resourceVersion": "1"}}), "with another object"),
        (json!({"metadata": {"resourceVersion": "1", "continue": "x"}, "items": []}), "found too many objects"),
        (json!({"metadata": {"name": "a"}}), "with another object"),
    ] {
        let outcome = world.change_with(&made.creation(), |query| {
            if query.path.contains('?') { Some(Reply::ok(&body)) } else { Some(world.reply(&query.path)) }
        });
        outcome.undecided(part);
    }
    for reply in [Some(status(403)), Some(status(500)), Some(Reply::Cut), Some(Reply::TooLarge), None] {
        let outcome = world.change_with(&made.creation(), |query| {
            if query.path.contains('?') { reply.clone() } else { Some(world.reply(&query.path)) }
        });
        assert!(!outcome.decision.allowed(), "{reply:?}");
    }
}

#[test]
fn bindings_that_can_not_be_read_refuse() {
    let world = denying_in_kcp().with(vpc("ns", "a"));
    for reply in [Some(status(403)), Some(status(404)), Some(status(500)), Some(Reply::Cut), None] {
        let failing = |world: &World, made: &Object| {
            world.change_with(&made.creation(), |query| {
                if query.path == BINDINGS { reply.clone() } else { Some(world.reply(&query.path)) }
            })
        };
        failing(&world, &vm("ns", "m1", "a")).undecided("the list of apibindings");
        // Without a new reference nobody asks for them.
        failing(&world, &Object::new(VM, "ns", "m1")).asked(&[]).is_fine(NoNewReference);
        failing(&checking(&world, OnMissing::Audit), &vm("ns", "m1", "a")).tells(&[], &[]);
    }
}

#[test]
fn what_is_missing_is_named_beside_what_is_unknown() {
    let world = ruled(&denying(), "/spec/dependencies/0/fieldRef/path", ".spec.vpcs");
    let made = Object::new(VM, "ns", "m1").set("/spec/vpcs", json!(["a", "b"]));
    let outcome = world.change_with(&made.creation(), |query| {
        if query.path == VPC_A { Some(status(500)) } else { Some(world.reply(&query.path)) }
    });
    let message = outcome.decision.message().unwrap();
    assert!(message.contains("vpcs/b not found") && message.contains("HTTP 500"), "{message}");
}

#[test]
fn no_more_than_five_hundred_targets_are_read() {
    let world = ruled(&denying(), "/spec/dependencies/0/fieldRef/path", ".spec.vpcs");
    let names = |many: usize| (0..many).map(|number| format!("v{number}")).collect::<Vec<_>>();
    let world = world.but(|world| world.objects = names(501).iter().map(|name| vpc("ns", name)).collect());
    let made = |many: usize| Object::new(VM, "ns", "m1").set("/spec/vpcs", names(many));
    let outcome = world.creates(&made(500));
    assert_eq!(outcome.is_fine(TargetsExist).asked.len(), 500);
    let outcome = world.creates(&made(501));
    assert_eq!(outcome.asked.len(), 500);
    outcome.undecided("more than 500 objects");
    // The advice helps: what was there before is not read again.
    assert_eq!(world.updates(&made(500), &made(501)).is_fine(TargetsExist).asked.len(), 1);
}

#[test]
fn more_references_than_can_be_read_refuse_only_a_change() {
    let many = |extra: &str| {
        let mut names = vec!["a"; Extractor::MAX_VALUES];
        names.push(extra);
        Object::new(VM, "ns", "m1").set("/spec/vpcs", names).set("/metadata/labels", json!({"tier": "prod"}))
    };
    let part = "more than 10000 references";
    for world in [denying(), denying_in_kcp()] {
        let world = ruled(&world, "/spec/dependencies/0/fieldRef/path", ".spec.vpcs").with(vpc("ns", "a"));
        let world = ruled(&world, "/spec/dependencies/0/when", json!({"path": ".spec.state", "in": ["on"]}));
        let world = ruled(&world, "/spec/dependent/selector", json!({"matchLabels": {"tier": "prod"}}));
        let old = many("a").set("/spec/state", "on");
        world.creates(&old).undecided(part);
        world.updates(&Object::new(VM, "ns", "m1"), &old).undecided(part);
        // A change that no rule reads is allowed, however many references there are.
        let unread = old.clone().set("/spec/cpus", 2).set("/metadata/annotations", json!({"a": "b"}));
        world.updates(&old, &unread).asked(&[]).is_fine(NoNewReference);
        // A change of any input is not.
        for changed in [many("b").set("/spec/state", "on"), old.clone().set("/spec/vpcs/0", "b")] {
            world.updates(&old, &changed).undecided(part);
        }
        world.updates(&old.clone().set("/spec/state", "off"), &old).undecided(part);
        world.updates(&old.clone().set("/metadata/labels", json!({})), &old).undecided(part);
        let ten = old.clone().set("/spec/vpcs", json!(["a"]));
        world.updates(&old, &ten).is_fine(TargetsExist);
        checking(&world, OnMissing::Warn).creates(&old).tells(&[], &[]);
    }
}

#[test]
fn the_order_of_answers_does_not_matter() {
    let world = ruled(&denying(), "/spec/dependencies/0/fieldRef/path", ".spec.vpcs").with(vpc("ns", "b"));
    let made = Object::new(VM, "ns", "m1").set("/spec/vpcs", json!(["d", "a", "b", "c"]));
    let answer = |query: &depguard_core::Query| {
        if query.path == VPC_A { Some(status(500)) } else { Some(world.reply(&query.path)) }
    };
    let first = world.change_in_order(&made.creation(), |_| 0, answer).decision;
    for pick in [|open: usize| open - 1, |open| open / 2] {
        assert_eq!(world.change_in_order(&made.creation(), pick, answer).decision, first);
    }
    assert!(first.message().unwrap().contains("vpcs/c not found (.spec.vpcs), vpcs/d not found"), "{first:?}");
}
