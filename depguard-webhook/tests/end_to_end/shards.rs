//! A kcp of several shards, with each workspace on a shard of its own.

use std::time::Duration;

use depguard_kcp::Endpoint;
use depguard_testbed::{Fault, When};
use depguard_webhook::{ReadThrough, Webhook};

use crate::scene::{Scene, create_vm, delete_dry, eventually, probe};

const WAYS: [ReadThrough; 2] = [ReadThrough::FrontProxy, ReadThrough::Export];

#[tokio::test(flavor = "multi_thread")]
async fn dependents_are_found_on_whichever_shard_they_are() {
    for way in WAYS {
        let scene = Scene::on_shards(way).await;
        scene.write_rule(".spec.vpcRef.name").await;
        scene.create_vm("m1", "a").await;
        let b = scene.add_tenant("b").await;
        create_vm(&b, "m2", "a").await;
        let webhook = scene.start().await;
        scene.configure(webhook.review_addr()).await;
        for (tenant, machine) in [(&scene.tenant, "m1"), (&b, "m2"), (&scene.tenant, "m1")] {
            let message = refusal_at_last(tenant).await;
            assert!(message.contains(&format!("still referenced by VirtualMachine/{machine}")), "{way:?}: {message}");
        }
        assert_eq!(scene.delete("b").await, None);
        webhook.stop().await;
    }
}

/// The endpoint of a shard is listed later than its first binding: until then nobody can tell the references there.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_consumer_on_a_shard_is_refused_until_the_shard_is_listed() {
    let scene = Scene::on_shards_listed(Duration::from_secs(3), ReadThrough::Export).await;
    scene.write_rule(".spec.vpcRef.name").await;
    let webhook = scene.start().await;
    scene.configure(webhook.review_addr()).await;
    create_vm(&scene.tenant, "m1", "a").await;
    refusal_at_last(&scene.tenant).await;

    let b = scene.add_tenant("b").await;
    let message = delete_dry(&b, "a").await.expect("nothing is known of it yet");
    assert!(message.contains("HTTP 403 at each endpoint of APIExport compute.example.com"), "{message}");
    assert!(message.contains("retry later"), "{message}");
    eventually("the shard is listed", async || delete_dry(&b, "a").await.is_none()).await;
    create_vm(&b, "m1", "a").await;
    assert!(delete_dry(&b, "a").await.unwrap().contains("still referenced by VirtualMachine/m1"));
    webhook.stop().await;
}

/// kcp lists a new shard for all consumers of an export as soon as the first consumer there binds it.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_shard_at_a_host_that_is_not_trusted_refuses_only_its_own_deletions() {
    let mut scene = Scene::on_shards_with_b_at("localhost", ReadThrough::Export).await;
    scene.write_rule(".spec.vpcRef.name").await;
    scene.create_vm("m1", "a").await;
    let b = scene.add_tenant("b").await;
    let webhook = scene.start().await;
    scene.configure(webhook.review_addr()).await;
    let mut message = String::new();
    eventually("the shard is listed", async || {
        message = delete_dry(&b, "a").await.unwrap_or_default();
        message.contains("localhost")
    })
    .await;
    assert!(message.contains("if it is a shard, name it in --shard-hosts; retry later"), "{message}");
    assert!(refusal_at_last(&scene.tenant).await.contains("still referenced by VirtualMachine/m1"));
    assert_eq!(scene.delete_dry("b").await, None);
    scene.config.review_addr = webhook.review_addr();
    webhook.stop().await;

    scene.config.shard_hosts = vec!["localhost".to_owned()];
    let webhook = scene.start().await;
    eventually("the operator has named it", async || delete_dry(&b, "a").await.is_none()).await;
    webhook.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_down_refuses_only_what_needs_it() {
    for way in WAYS {
        let scene = Scene::on_shards(way).await;
        scene.write_rule(".spec.vpcRef.name").await;
        scene.create_vm("m1", "a").await;
        let b = scene.add_tenant("b").await;
        let webhook = scene.start().await;
        let probes = webhook.probe_addr().unwrap();
        scene.configure(webhook.review_addr()).await;
        refusal_at_last(&scene.tenant).await;
        eventually("its shard is listed", async || delete_dry(&b, "a").await.is_none()).await;

        assert!(scene.testbed().take_down_shard("b").await);
        for _ in 0..10 {
            let message = scene.delete_dry("a").await.unwrap();
            assert!(message.contains("still referenced by VirtualMachine/m1"), "{way:?}: {message}");
            assert_eq!(scene.delete_dry("b").await, None);
            let beyond = delete_dry(&b, "a").await;
            match way {
                // The shard itself is well, and only its virtual workspaces are away.
                ReadThrough::FrontProxy => assert_eq!(beyond, None),
                ReadThrough::Export => {
                    let message = beyond.expect("its dependents can't be read");
                    assert!(
                        message.contains("an endpoint of APIExport compute.example.com that may serve "),
                        "{message}"
                    );
                    assert!(message.contains("Connection refused") && message.contains("retry later"), "{message}");
                }
            }
            assert_eq!(probe(probes, "/readyz").await.0, 200, "no rule lies there");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(scene.testbed().bring_up_shard("b").await);
        eventually("it is asked again", async || delete_dry(&b, "a").await.is_none()).await;
        webhook.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_with_rules_that_is_down_at_the_start_keeps_it_from_deciding() {
    for way in WAYS {
        let mut scene = Scene::on_shards(way).await;
        scene.write_rule(".spec.vpcRef.name").await;
        scene.create_vm("m1", "a").await;
        // The first webhook runs until the shard is listed.
        let mut webhook = scene.start().await;
        scene.configure(webhook.review_addr()).await;
        refusal_at_last(&scene.tenant).await;
        scene.config.review_addr = webhook.review_addr();
        webhook.stop().await;
        assert!(scene.testbed().take_down_shard("compute").await);
        webhook = Webhook::start(scene.config.clone()).await.unwrap();
        let probes = webhook.probe_addr().unwrap();
        eventually("it says what is missing", async || {
            let (status, why) = probe(probes, "/readyz").await;
            assert_eq!(status, 503, "{way:?}");
            why.contains("/services/apiexport/") && why.contains("failed")
        })
        .await;
        for vpc in ["a", "b"] {
            let message = scene.delete_dry(vpc).await.expect("a rule may forbid it");
            assert!(message.contains("dependency webhook not yet initialized, retry later"), "{message}");
        }
        assert!(scene.testbed().bring_up_shard("compute").await);
        eventually("all is loaded", async || scene.delete_dry("b").await.is_none()).await;
        assert!(refusal_at_last(&scene.tenant).await.contains("still referenced by VirtualMachine/m1"));
        webhook.stop().await;
    }
}

/// The provider of the dependents is the first on its shard to bind depguard, after the webhook was started.
#[tokio::test(flavor = "multi_thread")]
async fn endpoints_that_come_and_go_are_followed() {
    for way in WAYS {
        let scene = Scene::on_shards(way).await;
        scene.create_vm("m1", "a").await;
        scene.unbind_rules().await;
        let webhook = scene.start().await;
        scene.configure(webhook.review_addr()).await;
        eventually("no rule is in force", async || scene.delete_dry("a").await.is_none()).await;
        scene.bind_rules().await;
        scene.write_rule(".spec.vpcRef.name").await;
        eventually("the rule on the new shard is in force", async || {
            scene.delete_dry("a").await.is_some_and(|message| message.contains("VirtualMachine/m1"))
        })
        .await;
        scene.unbind_rules().await;
        eventually("its rules have gone with the shard", async || scene.delete_dry("a").await.is_none()).await;
        webhook.stop().await;
    }
}

/// kcp turns a shard's 404 into an empty list, and every other shard answers 403: neither is an answer.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_virtual_workspace_says_of_what_is_elsewhere_is_never_taken_for_none() {
    let scene = Scene::on_shards(ReadThrough::Export).await;
    scene.write_rule(".spec.vpcRef.name").await;
    scene.create_vm("m1", "a").await;
    let webhook = scene.start().await;
    scene.configure(webhook.review_addr()).await;
    refusal_at_last(&scene.tenant).await;
    for (fault, expected) in [
        (Fault::EmptyList, "without metadata.resourceVersion"),
        (Fault::Forbidden, "HTTP 403"),
        (Fault::InternalError, "HTTP 500"),
        (Fault::Cut, "failed"),
    ] {
        let lists = When::always().method("GET").under("/services/").path("/virtualmachines");
        let id = scene.testbed().faults().inject(fault, lists);
        for vpc in ["a", "b"] {
            let message = scene.delete_dry(vpc).await.expect("nobody knows");
            assert!(message.contains("could not find out") && message.contains(expected), "{fault:?}: {message}");
        }
        scene.testbed().faults().clear(id);
        assert_eq!(scene.delete_dry("b").await, None, "{fault:?} is over");
    }
    webhook.stop().await;
}

/// Waits until the shards of the rule and of the tenant are listed, and returns the message of the refusal. Once the
/// rule is known, every deletion must be refused; before that, a deletion may pass, or be refused while a listed shard
/// is being loaded.
async fn refusal_at_last(tenant: &Endpoint) -> String {
    eventually("the rule is in force", async || {
        delete_dry(tenant, "a").await.is_some_and(|message| !message.contains("not yet initialized"))
    })
    .await;
    let mut last = String::new();
    eventually("the dependents are found", async || {
        last = delete_dry(tenant, "a").await.expect("it is referenced");
        last.contains("still referenced")
    })
    .await;
    last
}
