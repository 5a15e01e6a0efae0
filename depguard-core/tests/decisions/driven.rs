//! Tests of evaluations whose queries a function answers.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::future::{pending, poll_fn, ready};
use std::pin::pin;
use std::task::{Context as Waking, Poll, Waker};

use depguard_core::decision::AllowReason::*;
use depguard_core::decision::{Reason, Verdict};
use depguard_core::model::PathError;
use depguard_core::{Context, ControlPlane, Decision, Fetched, Group, GroupVersionResource, Query, RuleSet};
use serde_json::{Value, json};

use crate::cast::*;
use crate::world::*;

/// Converts a reply to the form that an HTTP client returns.
fn fetched(reply: &Reply) -> Fetched<Vec<u8>> {
    match reply {
        Reply::Http(status, body) => Ok::<_, String>((*status, body.clone())).into(),
        Reply::TooLarge => Fetched::TooLarge,
        Reply::Cut => Fetched::Failed("the connection was cut".to_owned()),
    }
}

/// Polls a future until it is done, some thousand times at most.
fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut waking = Waking::from_waker(Waker::noop());
    let mut polls = (0..5_000).filter_map(|_| match future.as_mut().poll(&mut waking) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    });
    polls.next().expect("it ends")
}

/// Becomes ready after `times` polls.
async fn after(times: usize) {
    let mut left = times;
    poll_fn(|_| match left.checked_sub(1) {
        Some(less) => {
            left = less;
            Poll::Pending
        }
        None => Poll::Ready(()),
    })
    .await;
}

fn undecided(decision: &Decision, why: &str) {
    let denial = decision.denial().expect("a refusal");
    assert!(matches!(denial.reason(), Reason::Undecided { .. }), "{decision:?}");
    assert!(denial.message().contains(why), "{}", denial.message());
}

#[test]
fn what_a_function_answers_decides_one_by_one_or_side_by_side() {
    // The queries are the bindings, then the VMs by field, by table or page by page.
    for selects in [true, false] {
        let world = bound().with(vm("ns", "m1", "a")).with(vm("ns", "m2", "b")).with(vm("ns", "m3", "b"));
        let world = world.but(|world| {
            world.selects = if selects { |_| true } else { |_| false };
            world.page = 1;
        });
        for (name, blockers) in [("a", 1), ("b", 2), ("c", 0)] {
            let target = vpc("ns", name);
            let one_by_one = world.evaluate(&target).decide_with(|query| fetched(&world.reply(&query.path)));
            let get = async |query: Query| {
                after(query.path.len() % 3).await;
                fetched(&world.reply(&query.path))
            };
            let side_by_side = wait_for(world.evaluate(&target).decide_until(pending(), get));
            assert_eq!(one_by_one.message(), side_by_side.message());
            match one_by_one.verdict() {
                Verdict::Allowed(because) => assert_eq!((*because, blockers), (Unreferenced, 0)),
                Verdict::Denied(denial) => match denial.reason() {
                    Reason::Referenced { by, .. } => assert_eq!(by.blockers.len(), blockers),
                    other => panic!("{other:?}"),
                },
            }
        }
    }
}

#[test]
fn whoever_fails_refuses() {
    let world = bound();
    let failed = world.evaluate(&vpc("ns", "a")).decide_with(|_| Err::<(u16, Vec<u8>), _>("no route to host"));
    undecided(&failed, "no route to host");
    let get = |_| ready(Err::<(u16, Vec<u8>), _>("no route to host"));
    undecided(&wait_for(world.evaluate(&vpc("ns", "a")).decide_until(pending(), get)), "no route to host");
    let answered = world.evaluate(&vpc("ns", "a")).decide_with(|query| fetched(&world.reply(&query.path)));
    assert!(answered.allowed());
}

#[test]
fn what_is_not_answered_by_the_deadline_is_refused() {
    let world = bound();
    let hangs = |query: Query| {
        let bindings = query.path.contains("apibindings");
        let reply = fetched(&world.reply(&query.path));
        async move {
            match bindings {
                true => reply,
                false => pending().await,
            }
        }
    };
    undecided(&wait_for(world.evaluate(&vpc("ns", "a")).decide_until(after(3), hangs)), "was not answered");
    // A function that is always ready at once cannot outrun the deadline.
    let endless = RefCell::new(0);
    let list = json!({"metadata": {"resourceVersion": "1", "continue": "t"}, "items": []}).to_string();
    let get = |_: Query| {
        *endless.borrow_mut() += 1;
        ready(Ok::<_, String>((200, list.clone())))
    };
    let evaluation = plain().evaluate(&vpc("ns", "a"));
    let decision = wait_for(evaluation.decide_until(poll_fn(|_| deadline(*endless.borrow() > 100)), get));
    assert!(!decision.allowed() && *endless.borrow() <= 110, "{decision:?}");
}

fn deadline(is_there: bool) -> Poll<()> {
    if is_there { Poll::Ready(()) } else { Poll::Pending }
}

/// Returns `kinds` rules, each for another kind.
fn many(kinds: usize) -> Vec<Value> {
    let rule = |n: usize| {
        json!({
            "metadata": {"name": format!("r{n}")},
            "spec": {
                "dependent": {"group": "g.example.com", "version": "v1", "kind": "Thing", "resource": format!("things{n}")},
                "dependencies": [{"group": "", "version": "v1", "resource": "nodes", "fieldRef": {"path": ".spec.node"}}],
            },
        })
    };
    (0..kinds).map(rule).collect()
}

#[test]
fn no_more_than_eight_are_under_way_at_once() {
    let rules = RuleSet::try_load(ControlPlane::Kubernetes, &many(20)).unwrap();
    let nodes =
        GroupVersionResource { group: Group::CORE, version: "v1".parse().unwrap(), resource: "nodes".parse().unwrap() };
    let node = json!({"metadata": {"name": "a"}});
    let (running, most, all) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let get = async |_: Query| {
        running.set(running.get() + 1);
        most.set(most.get().max(running.get()));
        after(2).await;
        running.set(running.get() - 1);
        all.set(all.get() + 1);
        Ok::<_, String>((200, br#"{"metadata": {"resourceVersion": "1"}, "items": []}"#))
    };
    let evaluation = rules.evaluate_deletion(&nodes, &node, &Context::default()).unwrap();
    assert!(wait_for(evaluation.decide_until(pending(), get)).allowed());
    assert_eq!((most.get(), all.get()), (8, 20));
}

#[test]
fn a_rule_that_is_wrong_is_told_before_anything_is_decided() {
    let mut rules = many(3);
    assert_eq!(RuleSet::try_load(ControlPlane::Kubernetes, &rules).unwrap().rules(), 3);
    rules[1]["spec"]["dependencies"][0]["fieldRef"]["path"] = json!("not a path");
    let why = RuleSet::try_load(ControlPlane::Kubernetes, &rules).unwrap_err();
    assert_eq!(why.rule, "r1");
    assert!(why.to_string().starts_with("the rule `r1` can't be used: spec.dependencies[0].fieldRef.path"), "{why}");
    // Code reads each cause by its type.
    let path = why.source().and_then(Error::source).and_then(|why| why.downcast_ref::<PathError>());
    assert_eq!(path.map(|why| &*why.path), Some("not a path"), "{why:?}");
}
