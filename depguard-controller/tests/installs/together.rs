//! Several controllers at once, elected or not.

use std::time::{Duration, Instant};

use depguard_controller::{Config, Controller};
use depguard_testbed::{Fault, When};
use serde_json::Value;

use crate::bed::{Bed, COMPUTE, NETWORK, until, until_ready};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/depguard-system/leases/depguard-controller";

fn elected(bed: &Bed, seconds: u64) -> Config {
    bed.config().leader_elect(true).lease_duration(Duration::from_secs(seconds))
}

async fn lease(bed: &Bed) -> Value {
    bed.at("root:dep-ctrl").get_json(LEASE).await.unwrap()
}

async fn holder(bed: &Bed) -> String {
    lease(bed).await["spec"]["holderIdentity"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn two_that_both_write_end_right_and_rest() {
    let bed = Bed::kcp_bound().await;
    let (one, two) = (bed.controller().await, bed.controller().await);
    until_ready(&one).await;
    until_ready(&two).await;
    for step in 0..12 {
        bed.rule(&format!("rule{step}"), &[&format!("kind{step}s")]).await;
        if step % 3 == 2 {
            bed.delete_rule(COMPUTE, &format!("rule{}", step - 1)).await;
            bed.delete_configuration(NETWORK).await;
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    let kinds: Vec<_> = (0..12).filter(|step| step % 3 != 1).map(|step| format!("kind{step}s")).collect();
    let mut kinds: Vec<_> = kinds.iter().map(String::as_str).collect();
    kinds.sort_unstable();
    bed.until_installed(NETWORK, &kinds).await;
    bed.until_condition(COMPUTE, "rule11", "Programmed", "True Programmed").await;
    // Neither controller writes again what both have agreed on.
    let written = async || {
        let configuration = bed.configuration(NETWORK).await.unwrap();
        configuration["metadata"]["resourceVersion"].clone()
    };
    until("they rest", async || {
        let before = written().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        if written().await == before { Ok(()) } else { Err("written again".to_owned()) }
    })
    .await;
    let before = written().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(written().await, before);
    assert_eq!(bed.installed(NETWORK).await, kinds);
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn one_is_elected_and_the_other_takes_over_when_it_dies() {
    let bed = Bed::kcp_bound().await;
    bed.own_namespace("root:dep-ctrl").await;
    bed.rule("vm", &["vpcs"]).await;
    let one = Controller::start(elected(&bed, 8)).await.unwrap();
    bed.until_installed(NETWORK, &["vpcs"]).await;
    let first = holder(&bed).await;
    let two = Controller::start(elected(&bed, 8)).await.unwrap();
    until_ready(&two).await;
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(holder(&bed).await, first);

    one.kill();
    let killed = Instant::now();
    bed.rule("lan", &["lans"]).await;
    bed.until_installed(NETWORK, &["lans", "vpcs"]).await;
    assert!(killed.elapsed() > Duration::from_secs(2), "taken after {:?}", killed.elapsed());
    let lease = lease(&bed).await;
    assert_ne!(lease["spec"]["holderIdentity"], first.as_str());
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    let version = &lease["metadata"]["annotations"][depguard_controller::manifests::VERSION_ANNOTATION];
    assert_eq!(*version, env!("CARGO_PKG_VERSION"));
    two.stop().await;
}

#[tokio::test]
async fn one_that_stops_leaves_it_to_the_other_at_once() {
    let bed = Bed::kcp_bound().await;
    bed.own_namespace("root:dep-ctrl").await;
    bed.rule("vm", &["vpcs"]).await;
    let one = Controller::start(elected(&bed, 60)).await.unwrap();
    bed.until_installed(NETWORK, &["vpcs"]).await;
    one.stop().await;
    assert_eq!(holder(&bed).await, "");
    let two = Controller::start(elected(&bed, 60)).await.unwrap();
    bed.rule("lan", &["lans"]).await;
    bed.until_installed(NETWORK, &["lans", "vpcs"]).await;
    two.stop().await;
}

#[tokio::test]
async fn one_that_cannot_renew_writes_no_more() {
    let bed = Bed::kcp_bound().await;
    bed.own_namespace("root:dep-ctrl").await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = Controller::start(elected(&bed, 3)).await.unwrap();
    bed.until_installed(NETWORK, &["vpcs"]).await;
    let fault = bed.testbed.faults().inject(Fault::InternalError, When::always().method("PUT").path("/leases/"));
    tokio::time::sleep(Duration::from_millis(2500)).await;
    bed.delete_configuration(NETWORK).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bed.configuration(NETWORK).await, None);
    bed.testbed.faults().clear(fault);
    bed.until_installed(NETWORK, &["vpcs"]).await;
    controller.stop().await;
}
