//! Tests of lasting faults (of watches, of endpoints, of the clock), and of the journal by which a run is judged.

use std::time::{Duration, Instant};

use depguard_testbed::{Fault, When};
use serde_json::{Value, json};

use crate::bed::{Bed, becomes};
use crate::fixtures::{NETWORK, Network, SLICES, VPCS, vpc};

const NAMESPACES: &str = "/api/v1/namespaces";

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

#[tokio::test]
async fn open_watches_break_and_so_do_new_ones_until_it_is_over() {
    let bed = Bed::kubernetes().await;
    let path = format!("{NAMESPACES}?watch=true&resourceVersion=1");
    let mut open = bed.admin.watch(&path).await;
    let dropped = bed.testbed.faults().inject(Fault::WatchDropped, When::always().path("watch=true").times(2));
    assert!(open.is_cut().await);
    assert!(bed.admin.try_send("GET", &path, None, None).await.is_err());
    assert_eq!(bed.testbed.faults().hits(dropped), Some(2));
    let mut well = bed.admin.watch(&path).await;
    bed.admin.create(NAMESPACES, &namespace("a")).await.ok();
    while well.next().await.unwrap().1["metadata"]["name"] != "a" {}
    bed.testbed.stop().await;
}

#[tokio::test]
async fn an_open_watch_is_told_that_its_revision_is_too_old() {
    let bed = Bed::kubernetes().await;
    let mut open = bed.admin.watch(&format!("{NAMESPACES}?watch=true&resourceVersion=1")).await;
    bed.testbed.faults().inject(Fault::WatchExpired, When::always().path("/namespaces?watch=true"));
    loop {
        let (kind, object) = open.next().await.unwrap();
        if kind == "ERROR" {
            assert_eq!(object["code"], 410);
            break;
        }
    }
    assert!(open.next().await.is_none());
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_silent_watch_says_nothing_and_afterwards_what_it_has_missed() {
    let bed = Bed::kubernetes().await;
    let list = bed.admin.get(NAMESPACES).await.ok();
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{NAMESPACES}?watch=true&allowWatchBookmarks=true&resourceVersion={revision}");
    let mut open = bed.admin.watch(&path).await;
    let silent = bed.testbed.faults().inject(Fault::WatchSilent, When::always().path("watch=true"));
    bed.admin.create(NAMESPACES, &namespace("a")).await.ok();
    let heard = tokio::time::timeout(Duration::from_millis(1500), open.next_any()).await;
    assert!(heard.is_err(), "bookmarks come each second otherwise");
    bed.testbed.faults().clear(silent);
    assert_eq!(open.next().await.unwrap().1["metadata"]["name"], "a");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn the_endpoints_go_and_come_back() {
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    let slice = format!("{SLICES}/{NETWORK}");
    let count = |slice: &Value| slice["status"]["endpoints"].as_array().map_or(0, Vec::len);
    becomes(&network.provider, &slice, |slice| count(slice) == 1).await;
    let hidden = bed.testbed.faults().inject(Fault::NoEndpoints, When::always());
    becomes(&network.provider, &slice, |slice| count(slice) == 0).await;
    bed.testbed.faults().clear(hidden);
    becomes(&network.provider, &slice, |slice| count(slice) == 1).await;
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_certificate_that_has_run_out_is_shown_to_who_connects_then() {
    let bed = Bed::kubernetes().await;
    let expired = bed.testbed.faults().inject(Fault::ExpiredCertificate, When::always());
    let error = bed.admin.try_send("GET", NAMESPACES, None, None).await.err().unwrap();
    assert!(error.to_string().contains("expired"), "{error}");
    bed.testbed.faults().clear(expired);
    bed.admin.get(NAMESPACES).await.ok();
    bed.testbed.stop().await;
}

#[tokio::test]
async fn pages_can_be_short_and_lists_bare_and_kinds_not_served() {
    let bed = Bed::kubernetes().await;
    let faults = bed.testbed.faults();
    let short = faults.inject(Fault::ShortPages(1), When::always().path(NAMESPACES));
    let page = bed.admin.get(&format!("{NAMESPACES}?limit=500")).await;
    assert_eq!(page.names(), ["default"]);
    assert_ne!(page.body["metadata"]["continue"].as_str().unwrap_or_default(), "");
    faults.clear(short);
    let bare = faults.inject(Fault::BareList, When::always());
    let list = bed.admin.get(NAMESPACES).await;
    assert_eq!((list.code, list.names().len(), list.body["metadata"].get("resourceVersion")), (200, 0, None));
    faults.clear(bare);
    faults.inject(Fault::NotFound, When::always());
    let answer = bed.admin.get(NAMESPACES).await;
    assert_eq!((answer.code, answer.text.trim()), (404, "404 page not found"));
    bed.testbed.stop().await;
}

#[tokio::test]
async fn the_journal_has_every_change_and_from_when_on_a_deletion_was_reviewed() {
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    bed.testbed.keep_journal();
    let begun = Instant::now();
    let created = network.tenant.create(VPCS, &vpc("a")).await.ok();
    let revision: u64 = created["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    network.tenant.delete(&format!("{VPCS}/a")).await.ok();
    let journal = bed.testbed.journal();
    let events: Vec<_> = journal.iter().filter(|event| event.resource == "vpcs").collect();
    let [made, gone] = events[..] else { panic!("{events:?}") };
    assert_eq!((made.revision, made.name.as_str(), made.reviewed_at), (revision, "a", None));
    assert!(made.object.is_some() && gone.object.is_none());
    assert!(gone.reviewed_at >= Some(made.revision) && gone.reviewed_at < Some(gone.revision));
    assert!(begun <= made.at && made.at <= gone.at);
    bed.testbed.stop().await;
}
