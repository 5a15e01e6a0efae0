//! Deletions at the same time through one service, which share their reads over a port in the test's hand.

pub(crate) mod port;

use std::time::Duration;

use bytes::Bytes;
use depguard_core::{ControlPlane, OverridePolicy, RuleSet, Workspaces};
use depguard_webhook::{ReviewService, Rules};
use futures::future::join_all;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use port::{Hand, Reply};

type Service = ReviewService<Hand>;

/// Returns a service over a hand. The field of its rule is one by which an API server may select, or one that must be
/// read.
fn service(hand: &Hand, path: &str) -> Service {
    let rule = json!({"metadata": {"name": "vms"}, "spec": {
        "dependent": {"group": "compute.example.com", "version": "v1", "kind": "VM", "resource": "vms"},
        "dependencies": [
            {"group": "network.example.com", "version": "v1", "resource": "vpcs", "fieldRef": {"path": path}},
        ],
    }});
    let rules = Rules::not_loaded_yet("starting");
    rules.load(RuleSet::load(ControlPlane::Kubernetes, [&rule]), Workspaces::new());
    ReviewService::new(hand.clone(), rules, OverridePolicy::default())
}

/// Field that every lookup scans for.
const SCANNED: &str = ".spec.vpcs[*].name";
const SELECTED: &str = ".spec.vpc.name";

/// Reviews the deletion of a VPC. Returns the message of a refusal, or nothing.
fn delete(service: &Service, vpc: &str, timeout: &str) -> tokio::task::JoinHandle<Option<String>> {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": "DELETE", "name": vpc, "namespace": "default",
        "resource": {"group": "network.example.com", "version": "v1", "resource": "vpcs"},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "oldObject": {"metadata": {"name": vpc, "namespace": "default", "uid": vpc}},
    }});
    let uri = format!("/validate?timeout={timeout}");
    let request = Request::post(uri).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(review.to_string()))).unwrap();
    let service = service.clone();
    tokio::spawn(async move {
        let body = service.oneshot(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        let message = answer["response"]["status"]["message"].as_str().map(str::to_owned);
        assert_eq!(answer["response"]["allowed"], message.is_none());
        message
    })
}

fn list(vms: &[(&str, &str)]) -> Reply {
    page(vms, None)
}

fn page(vms: &[(&str, &str)], next: Option<&str>) -> Reply {
    let items = vms.iter().map(|(name, vpc)| {
        json!({"metadata": {"name": name, "namespace": "default"},
            "spec": {"vpc": {"name": vpc}, "vpcs": [{"name": vpc}]}})
    });
    let mut list = json!({"metadata": {"resourceVersion": "7"}, "items": items.collect::<Vec<_>>()});
    if let Some(next) = next {
        list["metadata"]["continue"] = json!(next);
    }
    Reply::Json(200, list)
}

fn refused_selector() -> Reply {
    Reply::Json(400, json!({"message": "field label not supported: spec.vpc.name"}))
}

/// Lets all tasks go on as far as they can.
async fn settled() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

async fn results(deletions: Vec<tokio::task::JoinHandle<Option<String>>>) -> Vec<Option<String>> {
    join_all(deletions).await.into_iter().map(Result::unwrap).collect()
}

#[tokio::test(start_paused = true)]
async fn a_thousand_deletions_at_once_cost_two_lists() {
    let hand = Hand::default();
    let service = service(&hand, SCANNED);
    let first = delete(&service, "vpc-0", "10s");
    settled().await;
    let rest: Vec<_> = (1..1_000).map(|n| delete(&service, &format!("vpc-{n}"), "10s")).collect();
    settled().await;
    assert_eq!(hand.open(), ["/vms?limit=500"], "who comes later waits for a list that begins later");
    hand.reply(0, list(&[("m1", "vpc-7")]));
    assert_eq!(first.await.unwrap(), None);
    settled().await;
    hand.reply(1, list(&[("m1", "vpc-7"), ("m2", "vpc-8")]));
    for (message, n) in results(rest).await.into_iter().zip(1..) {
        let expected = match n {
            7 => Some("cannot delete vpcs/vpc-7: still referenced by VM/m1"),
            8 => Some("cannot delete vpcs/vpc-8: still referenced by VM/m2"),
            _ => None,
        };
        assert_eq!(message.as_deref(), expected);
    }
    assert_eq!(hand.asked(), 2);
}

/// Tests the essential case: `m1` was written after the first list was sent, and before the deletion of its VPC came.
#[tokio::test(start_paused = true)]
async fn nobody_is_answered_by_a_list_that_began_before() {
    for restarts in [false, true] {
        let hand = Hand::default();
        let service = service(&hand, SCANNED);
        let early = delete(&service, "early", "10s");
        settled().await;
        let mut running = 0;
        if restarts {
            hand.reply(0, page(&[("m0", "other")], Some("t")));
            settled().await;
        }
        let late = delete(&service, "late", "10s");
        settled().await;
        if restarts {
            // The list expires: the retry begins after `late` arrived, and still belongs to the first list.
            hand.reply(1, Reply::Json(410, json!({})));
            settled().await;
            running = 2;
        }
        assert_eq!(hand.open(), ["/vms?limit=500"]);
        hand.reply(running, list(&[]));
        assert_eq!(early.await.unwrap(), None);
        settled().await;
        assert!(!late.is_finished());
        hand.reply(running + 1, list(&[("m1", "late")]));
        assert!(late.await.unwrap().unwrap().contains("still referenced by VM/m1"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_waits_for_is_not_ended_by_another_s_time_limit() {
    let hand = Hand::default();
    let service = service(&hand, SCANNED);
    let deletions = [delete(&service, "a", "1s"), delete(&service, "b", "10s")];
    settled().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(hand.open(), ["/vms?limit=500"]);
    hand.reply(0, list(&[("m1", "b")]));
    let [a, b] = results(deletions.into()).await.try_into().unwrap();
    assert!(a.unwrap().contains("not answered in time"));
    assert!(b.unwrap().contains("VM/m1"));
    assert_eq!(hand.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_nobody_waits_for_is_given_up() {
    let hand = Hand::default();
    let service = service(&hand, SCANNED);
    let deletions = [delete(&service, "a", "1s"), delete(&service, "b", "2s")];
    settled().await;
    let late = delete(&service, "c", "10s");
    results(deletions.into()).await;
    settled().await;
    // The first list was dropped, and the next one sent.
    assert_eq!((hand.open().len(), hand.asked(), hand.dropped()), (1, 2, 1));
    hand.reply(1, list(&[]));
    assert_eq!(late.await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_refuses_all_who_wait_for_it() {
    for reply in [
        Reply::Json(500, json!({"message": "etcd is away"})),
        Reply::Failed("connection refused"),
        Reply::Panic,
        Reply::Json(200, json!({"metadata": {}, "items": []})),
    ] {
        let hand = Hand::default();
        let service = service(&hand, SCANNED);
        let deletions: Vec<_> = (0..20).map(|n| delete(&service, &format!("vpc-{n}"), "10s")).collect();
        settled().await;
        hand.reply(0, reply);
        for message in results(deletions).await {
            let message = message.expect("what failed is never allowed");
            assert!(message.contains("could not find out"), "{message}");
        }
        assert_eq!(hand.asked(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_deletion_asks_by_its_field_and_many_by_one_list() {
    let hand = Hand::default();
    let service = service(&hand, SELECTED);
    let one = delete(&service, "a", "10s");
    settled().await;
    assert_eq!(hand.open(), ["/vms?fieldSelector=spec.vpc.name%3Da&limit=500"]);
    hand.reply(0, list(&[("m1", "a")]));
    assert!(one.await.unwrap().is_some());

    let deletions: Vec<_> = (0..200).map(|n| delete(&service, &format!("vpc-{n}"), "10s")).collect();
    settled().await;
    let open = hand.open();
    assert_eq!(open.len(), 4, "{open:?}");
    assert_eq!(open.iter().filter(|path| path.contains("fieldSelector")).count(), 3);
    hand.reply_all(&list(&[]));
    settled().await;
    hand.reply_all(&list(&[]));
    assert!(results(deletions).await.iter().all(Option::is_none));
    assert!(hand.asked() <= 1 + 5, "{}", hand.asked());
}

/// Many deletions would wait for a list that comes too late, again and again.
#[tokio::test(start_paused = true)]
async fn where_a_list_takes_too_long_many_ask_one_by_one() {
    let hand = Hand::default();
    let service = service(&hand, SELECTED);
    let many = || (0..100).map(|n| delete(&service, &format!("vpc-{n}"), "10s")).collect::<Vec<_>>();
    let scans = || hand.open().iter().filter(|path| !path.contains("fieldSelector")).count();
    let deletions = many();
    settled().await;
    assert_eq!((hand.open().len(), scans()), (4, 1));
    // No list is answered in time.
    let late = results(deletions).await;
    assert!(late.iter().flatten().all(|message| message.contains("not answered in time")), "{late:?}");
    assert_eq!(late.len(), 100);
    let deletions = many();
    for _ in 0..34 {
        settled().await;
        assert!(hand.open().len() <= 3 && scans() == 0, "{:?}", hand.open());
        hand.reply_all(&list(&[]));
    }
    assert!(results(deletions).await.iter().all(Option::is_none));
    // A list is tried again after a while.
    tokio::time::advance(Duration::from_secs(300)).await;
    let deletions = many();
    settled().await;
    assert_eq!(scans(), 1);
    hand.reply_all(&list(&[]));
    settled().await;
    hand.reply_all(&list(&[]));
    assert!(results(deletions).await.iter().all(Option::is_none));
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_refused_is_remembered_a_while_and_so_is_a_table_without_it() {
    let hand = Hand::default();
    let service = service(&hand, SELECTED);
    let ask = async |expected: &[&str]| {
        let deletion = delete(&service, "a", "10s");
        for path in expected {
            settled().await;
            assert_eq!(hand.open(), [*path]);
            let refused = path.contains("fieldSelector");
            hand.reply_all(&if refused { refused_selector() } else { list(&[("m1", "a")]) });
        }
        assert!(deletion.await.unwrap().unwrap().contains("VM/m1"));
    };
    let (selected, scanned) = ("/vms?fieldSelector=spec.vpc.name%3Da&limit=500", "/vms?limit=500");
    // An answer that is no table shows no column.
    let tabled = "/vms?includeObject=None&limit=500";
    ask(&[selected, tabled, scanned]).await;
    ask(&[scanned]).await;
    tokio::time::advance(Duration::from_secs(300)).await;
    ask(&[selected, tabled, scanned]).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_table_shows_is_looked_at_and_nothing_else() {
    let hand = Hand::default();
    let service = service(&hand, SELECTED);
    let deletion = delete(&service, "a", "10s");
    settled().await;
    hand.reply_all(&refused_selector());
    settled().await;
    let described = "Custom resource definition column (in JSONPath format): .spec.vpc.name";
    let table = json!({
        "kind": "Table", "metadata": {"resourceVersion": "1"},
        "columnDefinitions": [
            {"name": "Name", "type": "string", "format": "name"},
            {"name": "VPC", "type": "string", "format": "", "description": described},
        ],
        "rows": [{"cells": ["m1", "a"]}, {"cells": ["m2", "b"]}],
    });
    hand.reply_all(&Reply::Json(200, table));
    settled().await;
    assert_eq!(hand.open(), ["/vms/m1"]);
    let vm = json!({"metadata": {"name": "m1", "namespace": "default"}, "spec": {"vpc": {"name": "a"}}});
    hand.reply_all(&Reply::Json(200, vm));
    assert!(deletion.await.unwrap().unwrap().contains("VM/m1"));
    assert_eq!(hand.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn one_page_of_a_list_is_asked_for_at_a_time() {
    let hand = Hand::default();
    let service = service(&hand, SCANNED);
    let deletion = delete(&service, "a", "10s");
    for n in 0..10 {
        settled().await;
        let expected = if n == 0 { "/vms?limit=500".to_owned() } else { format!("/vms?limit=500&continue=t{n}") };
        assert_eq!(hand.open(), [expected]);
        hand.reply(n, page(&[("m0", "other")], (n < 9).then(|| format!("t{}", n + 1)).as_deref()));
    }
    assert_eq!(deletion.await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn the_next_page_is_asked_for_before_one_is_searched_and_given_up_where_nobody_needs_it() {
    let hand = Hand::default();
    let service = service(&hand, SCANNED);
    let deletion = delete(&service, "a", "10s");
    settled().await;
    let names: Vec<_> = (0..500).map(|n| format!("m{n}")).collect();
    let vms: Vec<_> = names.iter().map(|name| (name.as_str(), "a")).collect();
    hand.reply(0, page(&vms, Some("t")));
    assert!(deletion.await.unwrap().unwrap().contains("still referenced by VM/m0"));
    settled().await;
    assert_eq!((hand.asked(), hand.dropped()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_page_too_large_is_asked_for_in_smaller_ones_for_all_who_wait() {
    let hand = Hand::default();
    let service = service(&hand, SCANNED);
    let deletions = ["a", "b"].map(|vpc| delete(&service, vpc, "10s"));
    settled().await;
    hand.reply(0, Reply::TooLarge);
    settled().await;
    assert_eq!(hand.open(), ["/vms?limit=62"]);
    hand.reply(1, list(&[("m1", "b")]));
    let [a, b] = results(deletions.into()).await.try_into().unwrap();
    assert!(a.is_none() && b.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_dropped_leaves_nothing_running() {
    let hand = Hand::default();
    let service = service(&hand, SCANNED);
    let deletions: Vec<_> = (0..20).map(|n| delete(&service, &format!("vpc-{n}"), "10s")).collect();
    settled().await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(before > 20, "the list has a task of its own");
    for deletion in deletions {
        deletion.abort();
    }
    drop(service);
    settled().await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    assert_eq!(hand.dropped(), 1);
}
