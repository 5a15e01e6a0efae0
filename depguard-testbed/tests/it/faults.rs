//! Tests of faults on demand, each with its end.

use std::time::{Duration, Instant};

use depguard_testbed::{Fault, When};
use serde_json::json;

use crate::bed::Bed;
use crate::fixtures::{NETWORK, Network, VPCS, vpc};

const NAMESPACES: &str = "/api/v1/namespaces";

#[tokio::test]
async fn refusals_hit_what_they_are_aimed_at_as_often_as_they_should() {
    let bed = Bed::kubernetes().await;
    let faults = bed.testbed.faults();
    let busy = faults
        .inject(Fault::TooManyRequests { retry_after: 2 }, When::always().method("GET").path(NAMESPACES).times(1));
    let refused = bed.admin.get(NAMESPACES).await;
    assert_eq!((refused.code, refused.headers["retry-after"].to_str().unwrap()), (429, "2"));
    bed.admin.get(NAMESPACES).await.ok();
    assert_eq!(faults.hits(busy), Some(1));

    let broken = faults.inject(Fault::InternalError, When::always().after(1));
    bed.admin.get(NAMESPACES).await.ok();
    assert_eq!(bed.admin.get(NAMESPACES).await.code, 500);
    assert_eq!(bed.admin.get("/version").await.code, 500);
    faults.clear(broken);
    bed.admin.get(NAMESPACES).await.ok();

    faults.inject(Fault::Latency(Duration::from_millis(200)), When::always());
    let start = Instant::now();
    bed.admin.get(NAMESPACES).await.ok();
    assert!(start.elapsed() >= Duration::from_millis(200));
    faults.clear_all();
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_cut_connection_breaks_in_the_body() {
    let bed = Bed::kubernetes().await;
    let cut = bed.testbed.faults().inject(Fault::Cut, When::always());
    assert!(bed.admin.try_send("GET", NAMESPACES, None, None).await.is_err());
    bed.testbed.faults().clear(cut);
    bed.admin.get(NAMESPACES).await.ok();
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_continue_token_expires_on_demand() {
    let bed = Bed::kubernetes().await;
    bed.testbed.faults().inject(Fault::ExpiredContinue, When::always().times(1));
    let page = bed.admin.get(&format!("{NAMESPACES}?limit=1")).await.ok();
    let next = format!("{NAMESPACES}?limit=1&continue={}", page["metadata"]["continue"].as_str().unwrap());
    let expired = bed.admin.get(&next).await;
    assert_eq!((expired.code, &expired.body["reason"]), (410, &json!("Expired")));
    assert_eq!(bed.admin.get(&next).await.names(), ["kube-system"]);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_virtual_workspaces_list_can_be_empty_without_a_revision() {
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    network.tenant.create(VPCS, &vpc("a")).await.ok();
    bed.testbed.faults().inject(Fault::EmptyList, When::always());
    let view = bed.admin.below(&format!("/services/apiexport/{}/{NETWORK}/clusters/*", network.provider_cluster));
    let path = "/apis/network.example.com/v1alpha1/vpcs";
    let empty = view.get(path).await;
    assert_eq!((empty.code, empty.names()), (200, vec![""; 0]));
    assert_eq!(empty.body["metadata"].get("resourceVersion"), None);
    assert_eq!(network.tenant.get(VPCS).await.names(), ["a"], "only virtual workspaces are hit");
    bed.testbed.faults().clear_all();
    assert_eq!(view.get(path).await.names(), ["a"]);
    bed.testbed.stop().await;
}
