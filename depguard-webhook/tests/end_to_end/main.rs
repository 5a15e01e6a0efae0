//! The whole webhook against an API server: rules, configurations and objects are written as users write them.

mod corpus;
mod flood;
mod hostile;
mod locks;
mod outages;
mod owners;
mod paths;
mod retries;
mod scene;
mod shards;
mod sharing;
mod stopping;
mod traces;
mod withdrawal;

use std::time::Duration;

use depguard_core::interlock::Buckets;
use depguard_core::{ControlPlane, ExportName};
use depguard_kcp::{ApiError, Preconditions};
use depguard_testbed::{Fault, When};
use depguard_webhook::{ReadThrough, Webhook};
use serde_json::json;

use scene::{Scene, WAYS, Way, eventually, probe};

impl Scene {
    /// Sets up a scene in which VM `m1` refers to VPC `a`, with a rule about that, and a webhook that is asked.
    async fn with_reference(way: Way) -> (Self, Webhook) {
        let scene = Self::reading(way).await;
        scene.write_rule(".spec.vpcRef.name").await;
        scene.create_vm("m1", "a").await;
        let webhook = scene.start().await;
        scene.configure(webhook.review_addr()).await;
        (scene, webhook)
    }

    async fn start(&self) -> Webhook {
        let webhook = Webhook::start(self.config.clone()).await.unwrap();
        let address = webhook.probe_addr().unwrap();
        eventually("the webhook is ready", async || probe(address, "/readyz").await.0 == 200).await;
        webhook
    }

    /// Deletes a VPC. Returns the message of a refusal; `None` if the VPC is gone.
    async fn delete(&self, vpc: &str) -> Option<String> {
        let path = format!("{}/{vpc}", scene::VPCS);
        match self.tenant.delete(&path, Preconditions::default()).await {
            Ok(_) => {
                assert!(self.tenant.get_json(&path).await.is_err_and(|why| why.is_not_found()));
                None
            }
            Err(ApiError::Refused { status, .. }) => {
                self.tenant.get_json(&path).await.expect("what was refused is still there");
                Some(status.message)
            }
            Err(why) => panic!("{why}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_referenced_object_is_refused_by_name_and_a_free_one_goes() {
    for way in WAYS {
        let (scene, webhook) = Scene::with_reference(way).await;

        let message = scene.delete("a").await.unwrap();
        assert!(message.contains("cannot delete vpcs/a: still referenced by VirtualMachine/m1"), "{message}");
        assert_eq!(scene.delete("b").await, None);
        scene.delete_vm("m1").await;
        assert_eq!(scene.delete("a").await, None);
        webhook.stop().await;
    }
}

/// Shows that the webhook refuses in the test above: without its configuration nothing is refused.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_configuration_the_same_object_goes() {
    for way in WAYS {
        let scene = Scene::reading(way).await;
        scene.write_rule(".spec.vpcRef.name").await;
        scene.create_vm("m1", "a").await;
        let webhook = scene.start().await;
        assert_eq!(scene.delete("a").await, None);
        webhook.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_are_written_changed_and_removed_are_in_force_within_seconds() {
    for way in WAYS {
        let scene = Scene::reading(way).await;
        scene.create_vm("m1", "a").await;
        let webhook = scene.start().await;
        scene.configure(webhook.review_addr()).await;
        assert_eq!(scene.delete("b").await, None, "no rule");

        scene.write_rule(".spec.vpcRef.name").await;
        // A dry run is reviewed like any other, and can be repeated.
        let refused = async || scene.delete_dry("a").await.is_some();
        let allowed = async || scene.delete_dry("a").await.is_none();
        eventually("the rule is in force", refused).await;
        scene.write_rule(".spec.otherRef.name").await;
        eventually("the changed rule is in force", allowed).await;
        scene.write_rule(".spec.vpcRef.name").await;
        eventually("the rule is back", refused).await;
        scene.remove_rule().await;
        eventually("the rule is gone", allowed).await;
        webhook.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_it_refuses_and_started_again_it_is_right_from_the_first_answer() {
    for way in WAYS {
        let (mut scene, webhook) = Scene::with_reference(way).await;
        let address = webhook.review_addr();
        webhook.kill();
        for vpc in ["a", "b"] {
            let message = scene.delete(vpc).await.unwrap();
            assert!(message.contains("failed calling webhook"), "{message}");
        }

        scene.config.review_addr = address;
        let webhook = Webhook::start(scene.config.clone()).await.unwrap();
        // This holds whether or not the rules are loaded by now.
        for _ in 0..20 {
            assert!(scene.delete_dry("a").await.is_some());
        }
        eventually("a free object goes", async || scene.delete_dry("b").await.is_none()).await;
        let message = scene.delete("a").await.unwrap();
        assert!(message.contains("still referenced by VirtualMachine/m1"), "{message}");
        webhook.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_all_rules_it_is_not_ready_and_refuses() {
    let mut scene = Scene::set_up(ControlPlane::Kcp).await;
    scene.config.export_name = ExportName::parse("another.example.com").unwrap();
    let webhook = Webhook::start(scene.config.clone()).await.unwrap();
    scene.configure(webhook.review_addr()).await;
    let address = webhook.probe_addr().unwrap();
    eventually("it says what is missing", async || {
        let (status, why) = probe(address, "/readyz").await;
        assert_eq!(status, 503);
        why.contains("another.example.com")
    })
    .await;
    assert_eq!(probe(address, "/healthz").await.0, 200);
    let message = scene.delete("b").await.unwrap();
    assert!(message.contains("dependency webhook not yet initialized, retry later"), "{message}");
    assert!(message.contains("another.example.com"), "{message}");
    webhook.stop().await;
}

/// A webhook that is ready takes reviews from its replicas, and would answer those that need the key with 404.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_is_reading_the_registers_key_is_not_ready() {
    let mut scene = Scene::set_up(ControlPlane::Kubernetes).await;
    scene.config.enable.registers = Buckets::new(1);
    let key = When::always().path("/secrets/depguard-reference-registers");
    let held = scene.testbed().faults().inject(Fault::Latency(Duration::from_secs(600)), key);
    let webhook = Webhook::start(scene.config.clone()).await.unwrap();
    let address = webhook.probe_addr().unwrap();
    eventually("it says what it does", async || {
        let (status, why) = probe(address, "/readyz").await;
        assert_eq!(status, 503);
        why.contains("is reading the key of the reference registers")
    })
    .await;
    scene.testbed().faults().clear(held);
    eventually("the webhook is ready, though no controller has made a key", async || {
        probe(address, "/readyz").await.0 == 200
    })
    .await;
    webhook.stop().await;
}

/// An administrator can have a workspace claim another one's path: nobody else's objects lose their protection.
#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_says_to_be_the_provider_takes_nobody_s_protection_away() {
    for may_look in [true, false] {
        let scene = Scene::set_up(ControlPlane::Kcp).await;
        scene.write_rule(".spec.vpcRef.name").await;
        scene.create_vm("m1", "a").await;
        if !may_look {
            scene.hide_workspaces();
        }
        let mut webhook = scene.start().await;
        scene.configure(webhook.review_addr()).await;
        scene.lie().await;
        let still_refused = async |when: &str| {
            // The loop lasts longer than the webhook takes to learn of the change.
            for _ in 0..30 {
                let message = scene.delete_dry("a").await.unwrap_or_else(|| panic!("{when}, may look: {may_look}"));
                assert!(message.contains("still referenced by VirtualMachine/m1"), "{message}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        still_refused("the liar beside the provider").await;
        // A new webhook does not know that the provider was ever there.
        webhook.stop().await;
        scene.unbind_provider().await;
        webhook = scene.start().await;
        scene.configure(webhook.review_addr()).await;
        still_refused("the liar alone").await;
        assert_eq!(scene.delete("b").await, None);
        webhook.stop().await;
    }
}

/// A provider accepts the rules of one workspace only, and another workspace claims this one's path.
#[tokio::test(flavor = "multi_thread")]
async fn a_lie_about_ones_path_gets_round_no_rule_grant() {
    no_rule_grant_is_got_round_by("root:somebody").await;
}

/// The workspace of the rules has no path that anybody could look up.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_no_path_gets_round_no_rule_grant() {
    no_rule_grant_is_got_round_by("no/path").await;
}

/// Has a provider accept the rules of `root:somebody` only, while the workspace of the rules claims another path.
async fn no_rule_grant_is_got_round_by(claim: &str) {
    let scene = Scene::set_up(ControlPlane::Kcp).await;
    scene.claim_exports().await;
    scene.show_exports().await;
    scene.forge_path_of_rules(claim, "somebody").await;
    scene.write_rule(".spec.vpcRef.name").await;
    scene.create_vm("m1", "a").await;
    scene.accept_rules_from("root:somebody").await;
    let unseen = scene.hide_workspace("somebody");
    let webhook = scene.start().await;
    scene.configure(webhook.review_addr()).await;
    let message = scene.delete_dry("a").await.expect("what can't be looked up is accepted");
    assert!(message.contains("still referenced by VirtualMachine/m1"), "{message}");
    webhook.stop().await;

    scene.show(unseen);
    let webhook = scene.start().await;
    scene.configure(webhook.review_addr()).await;
    eventually("the rule is not accepted", async || scene.delete_dry("a").await.is_none()).await;
    let [_, liar, _] = scene.clusters().await;
    scene.accept_rules_from(&format!("root:somebody, clusters/{}", liar.unwrap())).await;
    eventually("accepted by its logical cluster", async || scene.delete_dry("a").await.is_some()).await;
    webhook.stop().await;
}

/// While the exports can't be watched, a provider that did not accept the rule may have accepted it: the rule counts.
#[tokio::test(flavor = "multi_thread")]
async fn consent_that_can_no_longer_be_watched_restricts_nobody() {
    let mut scene = Scene::set_up(ControlPlane::Kcp).await;
    // Longer than any silence of the testbed.
    scene.config.patience = Duration::from_secs(3);
    scene.claim_exports().await;
    scene.show_exports().await;
    scene.write_rule(".spec.vpcRef.name").await;
    scene.create_vm("m1", "a").await;
    scene.accept_rules_from("root:somebody").await;
    let webhook = scene.start().await;
    scene.configure(webhook.review_addr()).await;
    let is_accepted = async || scene.delete_dry("a").await.is_some();
    eventually("the rule is not accepted", async || !is_accepted().await).await;

    let silent = scene.silence_exports();
    eventually("the rule counts while nobody knows whether it is accepted", is_accepted).await;
    scene.show(silent);
    eventually("it is known again", async || !is_accepted().await).await;
    webhook.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_operator_overrides() {
    let scene = Scene::set_up(ControlPlane::Kcp).await;
    scene.write_rule(".spec.vpcRef.name").await;
    scene.create_vm("m1", "a").await;
    let webhook = scene.start().await;
    scene.configure(webhook.review_addr()).await;
    let path = format!("{}/a", scene::VPCS);
    let mut vpc = scene.tenant.get_json(&path).await.unwrap();
    vpc["metadata"]["annotations"]["dependencies.opendefense.cloud/skip-protection"] = json!("true");
    scene.tenant.put_json(&path, &vpc).await.unwrap();

    let alice = scene.connection("root:tenant", "alice").await.own_endpoint();
    let refused = alice.delete(&path, Preconditions::default()).await.unwrap_err();
    assert!(refused.to_string().contains("still referenced by VirtualMachine/m1"), "{refused}");
    assert_eq!(scene.delete("a").await, None, "the administrator may");
    webhook.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_stops_without_a_task_left_behind() {
    let scene = Scene::set_up(ControlPlane::Kcp).await;
    scene.write_rule(".spec.vpcRef.name").await;
    scene.create_vm("m1", "a").await;
    // The webhook has a runtime of its own, so that no task in it belongs to the test or the API server.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let alive = || runtime.metrics().num_alive_tasks();
    let webhook = runtime.spawn(Webhook::start(scene.config.clone())).await.unwrap().unwrap();
    let address = webhook.probe_addr().unwrap();
    eventually("the webhook is ready", async || probe(address, "/readyz").await.0 == 200).await;
    scene.configure(webhook.review_addr()).await;
    assert!(scene.delete("a").await.is_some());
    assert!(alive() > 0);
    let stopped = tokio::time::timeout(Duration::from_secs(10), runtime.spawn(webhook.stop()));
    stopped.await.expect("it stops within its time").unwrap();
    // The connections to the API server close by themselves, a moment later.
    eventually("no task lives", async || alive() == 0).await;
    runtime.shutdown_background();
}

#[tokio::test]
async fn what_is_wrong_with_the_surroundings_is_said_at_the_start() {
    let scene = Scene::set_up(ControlPlane::Kubernetes).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let missing = scene.config.clone().tls_cert_dir("no-such-folder".into());
    let error = Webhook::start(missing).await.unwrap_err().to_string();
    assert!(error.starts_with("cannot read `no-such-folder/tls.crt`"), "{error}");
    let through = scene.config.clone().read_through(ReadThrough::Export);
    let error = Webhook::start(through).await.unwrap_err().to_string();
    assert!(error.contains("leave it out with --control-plane kubernetes"), "{error}");
    let config = || scene.config.clone();
    let taken = [
        (config().review_addr(address), "--webhook-port"),
        (config().probe_addr(Some(address)), "--health-probe-bind-address"),
        (config().metrics_addr(Some(address)), "--metrics-bind-address"),
    ];
    for (config, flag) in taken {
        let error = Webhook::start(config).await.unwrap_err().to_string();
        let says = error.starts_with(&format!("cannot listen on {address}: ")) && error.ends_with(flag);
        assert!(says, "{error}");
    }
}
