//! Tests of the strategies by which dependents are looked up, and of the lists that each strategy needs.

use depguard_core::api::Strategy;
use depguard_core::decision::AllowReason::*;
use depguard_core::lookup::{ListReader, Lookup};
use depguard_core::protocol::Answer;
use depguard_core::{Decision, Rule};
use serde_json::{Value, json};

use crate::cast::*;
use crate::world::*;

const SELECTED: &str =
    "/apis/compute.example.com/v1alpha1/namespaces/ns/virtualmachines?fieldSelector=spec.vpcRef.name%3Da&limit=500";

fn strategies(outcome: &Outcome) -> Vec<Strategy> {
    outcome.decision.diagnostics().lookups.iter().map(|planned| planned.strategy).collect()
}

/// Adds a copy of the first rule's edge, with `edge` over its fields.
fn also(world: &mut World, edge: &Value) {
    let mut more = world.rules[0]["spec"]["dependencies"][0].clone();
    more.as_object_mut().unwrap().extend(edge.as_object().unwrap().clone());
    world.rules[0]["spec"]["dependencies"].as_array_mut().unwrap().push(more);
}

fn with_edge(edge: &Value) -> World {
    bound().but(|world| {
        world.selects = |_| true;
        also(world, edge);
    })
}

#[test]
fn a_selectable_field_is_asked_for() {
    let world = bound().but(|world| world.selects = |field| field == "spec.vpcRef.name");
    let world = world.with(vm("ns", "m1", "a")).with(vm("ns", "m2", "b"));
    let outcome = world.deletes(&vpc("ns", "a"));
    outcome.asked(&[BINDINGS, SELECTED]).blocked_by(&["VirtualMachine/m1"]);
    assert_eq!(strategies(&outcome), [Strategy::FieldSelector]);
    world.deletes(&vpc("ns", "c")).allowed(Unreferenced);
}

#[test]
fn what_was_selected_is_matched_again() {
    // The server answers with a VM that the selector does not select.
    let world = bound().but(|world| world.selects = |_| true).with(vm("ns", "m1", "b")).with(vm("n2", "m2", "a"));
    world
        .review_with(&vpc("ns", "a").deletion(), |query| Some(world.reply(&query.path.replace("%3Da", "%3Db"))))
        .allowed(Unreferenced);
}

#[test]
fn a_field_that_is_not_selectable_is_found_in_the_whole_list() {
    let world = bound().with(vm("ns", "m1", "a"));
    let mut evaluation = world.evaluate(&vpc("ns", "a"));
    let mut asked = Vec::new();
    while let queries @ [_, ..] = &evaluation.queries()[..] {
        for query in queries {
            let refused = Reply::Http(400, br#"{"message":"field label not supported: spec.vpcRef.name"}"#.to_vec());
            let reply = if query.path == SELECTED { refused } else { world.reply(&query.path) };
            evaluation.answer(query.id, reply.as_answer());
            asked.push(query.path.clone());
        }
    }
    assert_eq!(asked, [BINDINGS, SELECTED, VMS]);
    assert!(!evaluation.decide().allowed());
}

#[test]
fn only_a_field_that_holds_nothing_but_the_name_is_asked_for() {
    for (edge, field) in [
        (json!({"path": ".spec.vpcRef.name"}), Some("spec.vpcRef.name")),
        (json!({"path": ".spec.vpcRef.name", "namespacePath": ".spec.vpcRef.namespace"}), Some("spec.vpcRef.name")),
        (json!({"path": ".spec['vpc-ref']"}), Some("spec.vpc-ref")),
        (json!({"path": ".metadata.name"}), Some("metadata.name")),
        (json!({"path": ".metadata.labels.vpc"}), None),
        (json!({"path": ".spec['vpc.ref']"}), None),
        (json!({"path": ".spec.vpcRefs[*]"}), None),
        (json!({"path": ".spec.vpcRefs[0]"}), None),
        (json!({"path": ".spec.vpcs", "keys": true}), None),
        (json!({"path": ".spec.vpcRef", "pattern": "vpc/(.*)", "replacement": "$1"}), None),
    ] {
        let world = ruled(&bound(), "/spec/dependencies/0/fieldRef", edge.clone());
        let rule = Rule::parse(world.control_plane, &world.rules[0]).unwrap();
        assert_eq!(rule.edges()[0].selected_by().as_deref(), field, "{edge}");
    }
    let selector = bound().but(|world| {
        let edge = &mut world.rules[0]["spec"]["dependencies"][0];
        edge.as_object_mut().unwrap().remove("fieldRef");
        edge["selectorRef"] = json!({"path": ".spec.selector"});
    });
    let rule = Rule::parse(selector.control_plane, &selector.rules[0]).unwrap();
    assert_eq!(rule.edges()[0].selected_by(), None);
}

/// Uses a rule with its own selector. Such a rule needs only the metadata of dependents.
#[test]
fn what_a_rules_own_selector_leaves_out_is_not_looked_for() {
    let world = bound().with(vm("ns", "m1", "b")).but(|world| {
        let edge = &mut world.rules[0]["spec"]["dependencies"][0];
        edge.as_object_mut().unwrap().remove("fieldRef");
        edge["selectorRef"] = json!({"selector": {"matchLabels": {"tier": "prod"}}});
    });
    let rule = Rule::parse(world.control_plane, &world.rules[0]).unwrap();
    assert!(rule.edges()[0].reads_metadata());
    let labelled = |tier: &str| vpc("ns", "a").set("/metadata/labels/tier", tier);
    world.deletes(&labelled("test")).asked(&[BINDINGS]).allowed(Unreferenced);
    world.deletes(&labelled("prod")).asked(&[BINDINGS, VMS]).blocked_by(&["VirtualMachine/m1"]);
}

#[test]
fn a_name_that_means_something_in_a_selector_is_escaped() {
    let world = bound().but(|world| world.selects = |_| true);
    let outcome = world.review_with(&vpc("ns", r"a,b=c\d").deletion(), |query| {
        Some(if query.path == BINDINGS {
            world.reply(BINDINGS)
        } else {
            Reply::ok(&json!({"metadata": {"resourceVersion": "1"}, "items": []}))
        })
    });
    outcome.asked(&[BINDINGS, &SELECTED.replace("%3Da", r"%3Da%5C%2Cb%5C%3Dc%5C%5Cd")]).allowed(Unreferenced);
}

#[test]
fn each_of_a_few_fields_is_asked_for_by_itself() {
    let world =
        with_edge(&json!({"fieldRef": {"path": ".spec.backup"}})).with(vm("ns", "m1", "b").set("/spec/backup", "a"));
    let backup = SELECTED.replace("vpcRef.name", "backup");
    world.deletes(&vpc("ns", "a")).asked(&[BINDINGS, &backup, SELECTED]).blocked_by(&["VirtualMachine/m1"]);
}

#[test]
fn one_list_serves_all_edges_where_one_of_them_must_read_it() {
    let world = with_edge(&json!({"fieldRef": {"path": ".spec.vpcs[*]"}})).with(vm("ns", "m1", "a"));
    world.deletes(&vpc("ns", "a")).asked(&[BINDINGS, VMS]).blocked_by(&["VirtualMachine/m1"]);
    let many = with_edge(&json!({"fieldRef": {"path": ".spec.a"}})).but(|world| {
        for field in ["b", "c", "d", "e"] {
            also(world, &json!({"fieldRef": {"path": format!(".spec.{field}")}}));
        }
    });
    many.deletes(&vpc("ns", "a")).asked(&[BINDINGS, VMS]).allowed(Unreferenced);
}

#[test]
fn a_list_of_all_namespaces_serves_those_who_need_one() {
    let elsewhere = json!({"fieldRef": {"path": ".spec.peers[*].name", "namespacePath": ".spec.peers[*].namespace"}});
    let world = with_edge(&elsewhere).with(vm("ns", "m1", "a")).with(vm("n2", "m2", "a"));
    world.deletes(&vpc("ns", "a")).asked(&[BINDINGS, ALL_VMS]).blocked_by(&["VirtualMachine/m1"]);
}

#[test]
fn what_only_warns_does_not_make_a_refusal_dearer() {
    let world =
        with_edge(&json!({"fieldRef": {"path": ".spec.vpcs[*]"}, "onDelete": "Warn"})).with(vm("ns", "m1", "a"));
    let outcome = world.deletes(&vpc("ns", "a"));
    outcome.asked(&[BINDINGS, SELECTED, VMS]).blocked_by(&["VirtualMachine/m1"]);
    // A failed list of the warning edge does not make the review fail either.
    let outcome = world.review_with(&vpc("ns", "c").deletion(), |query| {
        Some(if query.path == VMS { Reply::Http(500, vec![]) } else { world.reply(&query.path) })
    });
    outcome.allowed(Tolerated);
}

#[test]
fn references_in_the_metadata_need_no_whole_objects() {
    let labelled = |path: &str| bound().but(about(VM, path, VPC));
    for (path, accept) in [
        (".metadata.labels.vpc", "PartialObjectMetadataList"),
        (".metadata.annotations['example.com/vpc']", "PartialObjectMetadataList"),
        (".metadata.ownerReferences[*].name", "PartialObjectMetadataList"),
        (".metadata.managedFields[*].manager", "application/json"),
        (".metadata[*].vpc", "application/json"),
        (".spec.metadata.labels.vpc", "application/json"),
    ] {
        let world = labelled(path);
        let outcome = world.deletes(&vpc("ns", "a"));
        let accepted = outcome.asked[1].accept.as_str();
        assert!(accepted.contains(accept), "{path}: {accepted}");
        assert_eq!(accepted.contains("Partial"), strategies(&outcome)[0] == Strategy::Metadata, "{path}");
    }
    let vm = vm("ns", "m1", "").set("/metadata/labels", json!({"vpc": "a"}));
    labelled(".metadata.labels.vpc").with(vm).deletes(&vpc("ns", "a")).blocked_by(&["VirtualMachine/m1"]);
    // Another edge reads whole objects, so one list serves both edges.
    let both =
        labelled(".spec.vpcs[*]").but(|world| also(world, &json!({"fieldRef": {"path": ".metadata.labels['a.b']"}})));
    let outcome = both.deletes(&vpc("ns", "a"));
    outcome.asked(&[BINDINGS, VMS]);
    assert_eq!(outcome.asked[1].accept.as_str(), "application/json");
}

#[test]
fn the_plan_can_be_read() {
    let outcome = bound().but(|world| world.selects = |_| true).deletes(&vpc("ns", "a"));
    let plan: Vec<_> = outcome.decision.diagnostics().lookups.iter().map(ToString::to_string).collect();
    let expected = "virtualmachines.compute.example.com v1alpha1 in namespace ns of logical cluster c0nsumer by FieldSelector spec.vpcRef.name, for c0mpute|rule";
    assert_eq!(plan, [expected]);
    // The plan is also readable before the first query, if no bindings are needed.
    let plan = plain().evaluate(&vpc("ns", "a")).plan();
    let expected =
        "virtualmachines.compute.example.com v1alpha1 in namespace ns by FieldSelector spec.vpcRef.name, for rule";
    assert_eq!(plan.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}

#[test]
fn deletions_share_a_list() {
    let world = bound().with(vm("ns", "m1", "a")).with(vm("ns", "m2", "b"));
    let outcomes = world.deletes_together(&[vpc("ns", "a"), vpc("ns", "b"), vpc("ns", "c")]);
    outcomes[0].blocked_by(&["VirtualMachine/m1"]);
    outcomes[1].blocked_by(&["VirtualMachine/m2"]);
    outcomes[2].allowed(Unreferenced);
}

#[test]
fn only_what_says_so_is_a_refusal_that_is_worth_remembering() {
    let world = plain();
    let json = |status, body: &str| Reply::Http(status, body.as_bytes().to_vec());
    for (reply, refused, open) in [
        (json(400, r#"{"message":"field label not supported: spec.a"}"#), true, true),
        (json(400, r#"{"message":"field label \"spec.a\" not supported for Job"}"#), true, true),
        (json(400, r#"{"message":"\"spec.a\" is not a known field selector: only \"metadata.name\""}"#), true, true),
        (json(400, r#"{"message":"limit: invalid"}"#), false, true),
        (json(400, ""), false, true),
        (json(200, "field label not supported"), false, false),
        (json(500, "field label not supported"), false, false),
    ] {
        let mut reading = ListReader::by_field(lookups(&world, &[vpc("ns", "a")]).remove(0));
        reading.answer(reply.as_answer());
        assert_eq!((reading.next(), reading.was_refused()), (None, refused), "{reply:?}");
        assert_eq!(!reading.into_lookups().remove(0).has_ended(), open, "{reply:?}");
    }
    let mut reading = ListReader::by_field(lookups(&world, &[vpc("ns", "a")]).remove(0));
    reading.answer(Answer::TooLarge);
    assert!(reading.next().is_some() && !reading.was_refused());
}

#[test]
fn what_the_server_prints_tells_whom_to_look_at() {
    let world = plain().with(vm("ns", "m1", "a")).with(vm("ns", "m2", "b")).but(|world| world.prints = |_| true);
    let mut reading = ListReader::by_table(lookups(&world, &[vpc("ns", "a"), vpc("ns", "c")])).unwrap();
    let mut asked = Vec::new();
    while let Some(request) = reading.next() {
        reading.answer(world.reply(&request.path).as_answer());
        asked.push(request.path);
    }
    let machine = VMS.replace("?limit=500", "/m1");
    assert_eq!(asked, [VMS.replace("limit", "includeObject=None&limit"), machine]);
    assert!(!reading.was_refused());
    let decisions = decided(&world, [vpc("ns", "a"), vpc("ns", "c")], reading);
    assert_eq!(decisions.map(|decision| decision.allowed()), [false, true]);
}

#[test]
fn a_table_that_does_not_show_the_field_leaves_the_lookups_open() {
    let world = plain().with(vm("ns", "m1", "a"));
    for (reply, refused) in [
        (world.reply(&VMS.replace("limit", "includeObject=None&limit")), true),
        (world.reply(VMS), true),
        (Reply::Http(406, vec![]), true),
        (Reply::Http(404, vec![]), true),
    ] {
        let mut reading = ListReader::by_table(lookups(&world, &[vpc("ns", "a")])).unwrap();
        reading.answer(reply.as_answer());
        assert_eq!((reading.next(), reading.was_refused()), (None, refused));
        let lookup = reading.into_lookups().remove(0);
        assert!(!lookup.has_ended() && lookup.strategy() == Strategy::NamespaceScan);
    }
    let busy = world.but(|world| {
        world.prints = |_| true;
        world.objects.extend((2..20).map(|n| vm("ns", &format!("m{n}"), "a")));
    });
    let mut reading = ListReader::by_table(lookups(&busy, &[vpc("ns", "a")])).unwrap();
    reading.answer(busy.reply(&reading.next().unwrap().path).as_answer());
    assert_eq!((reading.next(), reading.was_refused()), (None, false));
}

#[test]
fn an_object_that_a_table_showed_and_that_cannot_be_read_refuses() {
    let world = plain().with(vm("ns", "m1", "a")).but(|world| world.prints = |_| true);
    let gone = |details: Value| Reply::Http(404, json!({"code": 404, "details": details}).to_string().into_bytes());
    for (reply, allowed) in [
        (gone(json!({"name": "m1", "kind": "virtualmachines"})), true),
        (gone(json!({"name": "m2", "kind": "virtualmachines"})), false),
        (gone(json!({"name": "m1", "causes": [{"reason": "UnexpectedServerResponse"}]})), false),
        (Reply::not_found(), false),
        (Reply::Http(404, b"404 page not found".to_vec()), false),
        (Reply::ok(&vm("ns", "m1", "b").json), true),
        (Reply::ok(&vm("ns", "m1", "a").json), false),
        (Reply::Http(500, vec![]), false),
        (Reply::Http(403, vec![]), false),
        (Reply::Cut, false),
        (Reply::TooLarge, false),
        (Reply::Http(200, b"{".to_vec()), false),
        (Reply::Http(200, b"7".to_vec()), false),
        (Reply::Http(200, b"{}".to_vec()), false),
    ] {
        let mut reading = ListReader::by_table(lookups(&world, &[vpc("ns", "a")])).unwrap();
        reading.answer(world.reply(&reading.next().unwrap().path).as_answer());
        reading.answer(reply.as_answer());
        let [decision] = decided(&world, [vpc("ns", "a")], reading);
        assert_eq!(decision.allowed(), allowed, "{reply:?}");
    }
}

#[test]
fn only_plain_names_in_one_namespace_are_looked_for_in_a_table() {
    let fits = |edge: Value| {
        let world = ruled(&plain(), "/spec/dependencies/0/fieldRef", edge);
        lookups(&world, &[vpc("ns", "a")]).iter().all(|lookup| lookup.columns().is_some())
    };
    assert!(fits(json!({"path": ".spec.vpcRef.name"})));
    assert!(!fits(json!({"path": ".spec.vpcRefs[*]"})));
    assert!(!fits(json!({"path": ".spec.vpcRef.name", "pattern": "(.*)"})));
    assert!(!fits(json!({"path": ".spec.vpcRef.name", "namespacePath": ".spec.vpcRef.namespace"})));
    assert!(!fits(json!({"path": ".metadata.labels.vpc"})));
    let world = ruled(&plain(), "/spec/dependencies/0/fieldRef/path", ".spec.vpcRefs[*]");
    let reading = ListReader::by_table(lookups(&world, &[vpc("ns", "a")])).unwrap();
    assert!(!decided(&world, [vpc("ns", "a")], reading)[0].allowed());
}

// === Shared list readers ===

/// Decides the deletions of these targets by one reader that they share.
fn decided<const N: usize>(world: &World, targets: [Object; N], reading: ListReader) -> [Decision; N] {
    let mut lookups = reading.into_lookups().into_iter();
    targets.map(|target| {
        let mut evaluation = world.evaluate(&target);
        for _ in evaluation.lookups() {
            evaluation.finish(lookups.next().expect("one for each"));
        }
        evaluation.decide()
    })
}

/// Returns the lookups of these deletions, before any query.
fn lookups(world: &World, targets: &[Object]) -> Vec<Lookup> {
    targets.iter().flat_map(|target| world.evaluate(target).lookups()).collect()
}

#[test]
fn an_expired_list_begins_anew_for_all_who_wait_for_it() {
    let world = plain().with(vm("ns", "m1", "a")).with(vm("ns", "m2", "b")).but(|world| world.page = 1);
    let mut reading = ListReader::by_scan(lookups(&world, &[vpc("ns", "a"), vpc("ns", "c")])).unwrap();
    let first = reading.next().unwrap();
    reading.answer(world.reply(&first.path).as_answer());
    assert_ne!(reading.next().unwrap(), first);
    reading.answer(Answer::Response { status: 410, body: b"" });
    assert_eq!(reading.next(), Some(first));
    while let Some(request) = reading.next() {
        reading.answer(world.reply(&request.path).as_answer());
    }
    assert!(reading.into_lookups().iter().all(Lookup::has_ended));
}

#[test]
fn a_reading_ends_with_the_last_who_waits() {
    let world = plain();
    let mut reading = ListReader::by_scan(lookups(&world, &[vpc("ns", "a"), vpc("ns", "c")])).unwrap();
    reading.cancel(0);
    assert!(reading.next().is_some());
    reading.cancel(1);
    assert_eq!(reading.next(), None);
    assert!(!reading.into_lookups().iter().any(Lookup::has_ended));
    assert!(ListReader::by_scan(Vec::new()).is_none());
}

#[test]
fn lookups_of_other_dependents_are_not_answered_by_this_list() {
    let world = plain();
    let mut reading = ListReader::by_scan(lookups(&world, &[vpc("ns", "a"), vpc("n2", "a")])).unwrap();
    while let Some(request) = reading.next() {
        reading.answer(world.reply(&request.path).as_answer());
    }
    let decisions = decided(&world, [vpc("ns", "a"), vpc("n2", "a")], reading);
    assert_eq!(decisions.map(|decision| decision.allowed()), [true, false]);
}

#[test]
fn a_lookup_that_is_not_given_back_refuses() {
    let world = plain();
    let mut evaluation = world.evaluate(&vpc("ns", "a"));
    let lookups = evaluation.lookups();
    assert_eq!((lookups.len(), evaluation.queries().len(), evaluation.is_settled()), (1, 0, false));
    let message = evaluation.decide().message().unwrap();
    assert!(message.contains("was not answered in time"), "{message}");
}
