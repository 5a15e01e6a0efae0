//! End of a webhook: reviews are answered, and nothing is left behind.

use std::time::Duration;

use depguard_core::ControlPlane;
use depguard_webhook::Webhook;
use tokio::net::TcpStream;

use crate::scene::{Scene, eventually, probe};

#[tokio::test(flavor = "multi_thread")]
async fn while_it_stops_it_is_not_ready_and_answers_all_the_same() {
    let mut scene = Scene::set_up(ControlPlane::Kubernetes).await;
    scene.config.shutdown_delay = Duration::from_secs(2);
    scene.write_rule(".spec.vpcRef.name").await;
    scene.create_vm("m1", "a").await;
    // The webhook has a runtime of its own, so that no task in it belongs to the test or the API server.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let alive = || runtime.metrics().num_alive_tasks();
    let webhook = runtime.spawn(Webhook::start(scene.config.clone())).await.unwrap().unwrap();
    let (reviews, probes) = (webhook.review_addr(), webhook.probe_addr().unwrap());
    eventually("the webhook is ready", async || probe(probes, "/readyz").await.0 == 200).await;
    scene.configure(reviews).await;
    let slow = scene.slow_lists_of_vms(Duration::from_millis(1_500));

    let (before, during) = tokio::join!(scene.delete_dry("a"), async {
        scene.until_hit(slow).await;
        let stopped = runtime.spawn(webhook.stop());
        eventually("it is not ready", async || probe(probes, "/readyz").await.0 == 503).await;
        assert!(probe(probes, "/readyz").await.1.contains("the webhook is stopping"));
        assert_eq!(probe(probes, "/healthz").await.0, 200);
        // Both use new connections: the API server shares none that is in use.
        let (referenced, free) = tokio::join!(scene.delete_dry("a"), scene.delete_dry("b"));
        (referenced, free, stopped)
    });
    let (referenced, free, stopped) = during;
    for message in [before, referenced] {
        assert!(message.as_ref().is_some_and(|message| message.contains("VirtualMachine/m1")), "{message:?}");
    }
    assert_eq!(free, None);
    tokio::time::timeout(Duration::from_secs(10), stopped).await.expect("it stops within its time").unwrap();
    assert!(TcpStream::connect(reviews).await.is_err() && TcpStream::connect(probes).await.is_err());
    // The connections to the API server close by themselves, a moment later.
    eventually("no task lives", async || alive() == 0).await;
    runtime.shutdown_background();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_longer_than_the_grace_is_broken_off() {
    let mut scene = Scene::set_up(ControlPlane::Kubernetes).await;
    scene.config.shutdown_grace = Duration::from_secs(1);
    scene.write_rule(".spec.vpcRef.name").await;
    let webhook = scene.start().await;
    scene.configure(webhook.review_addr()).await;
    let slow = scene.slow_lists_of_vms(Duration::from_secs(8));
    let (refused, took) = tokio::join!(scene.delete_dry("b"), async {
        scene.until_hit(slow).await;
        let begun = tokio::time::Instant::now();
        webhook.stop().await;
        begun.elapsed()
    });
    // Either the review's connection ended, or its list did and the webhook could still say so.
    let refused = refused.expect("nobody knows what refers to it");
    let said = ["failed calling webhook", "was not answered in time"];
    assert!(said.iter().any(|why| refused.contains(why)), "{refused}");
    // Without a review under way the stop would not wait; with a longer wait the review would have been decided.
    assert!(took >= Duration::from_millis(900), "{took:?}");
}
