//! Shards that are away for longer than rules are believed: deletions that are still decided, and those that are
//! refused.

use std::net::Ipv4Addr;
use std::time::Duration;

use depguard_kcp::Endpoint;
use depguard_testbed::Testbed;
use depguard_webhook::{ReadThrough, Webhook};

use crate::scene::{Scene, create_vm, delete_dry, eventually, probe};

const WAYS: [ReadThrough; 2] = [ReadThrough::FrontProxy, ReadThrough::Export];
/// Patience that is longer than any silence of the testbed.
const PATIENCE: Duration = Duration::from_secs(3);

/// Way in which a shard is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outage {
    Killed,
    Hung,
    /// depguard does not reach the shard, and the front-proxy does.
    CutOff,
}

impl Outage {
    async fn begin(self, testbed: &Testbed, shard: &str) {
        let is_there = match self {
            Self::Killed => testbed.kill_shard(shard).await,
            Self::Hung => testbed.hang_shard(shard).await,
            Self::CutOff => testbed.take_down_shard(shard).await,
        };
        assert!(is_there);
    }
}

/// A kcp with two tenants and one more provider: `b` has bound this provider's API, and the first tenant hasn't.
struct Outages {
    scene: Scene,
    b: Endpoint,
    other: Endpoint,
    webhook: Webhook,
}

impl Outages {
    async fn prepare(way: ReadThrough) -> Self {
        let mut scene = Scene::on_shards(way).await;
        scene.config.patience = PATIENCE;
        scene.config.metrics_addr = Some((Ipv4Addr::LOCALHOST, 0).into());
        scene.write_rule(".spec.vpcRef.name").await;
        scene.create_vm("m1", "a").await;
        let other = scene.add_provider().await;
        let b = scene.add_tenant("b").await;
        scene.bind_things(&b).await;
        create_vm(&b, "m2", "a").await;
        let webhook = scene.start().await;
        scene.configure(webhook.review_addr()).await;
        let outages = Self { scene, b, other, webhook };
        for (tenant, machine) in [(&outages.scene.tenant, "m1"), (&outages.b, "m2")] {
            eventually("all is well", async || blocked_by(tenant, machine).await).await;
        }
        // A shard without any contact so far is no shard that is away: until its rules are loaded, everything is refused.
        eventually("the other provider's rule is loaded", async || outages.has_loaded(2).await).await;
        outages
    }

    /// Returns true if the first tenant's deletions are decided as before.
    async fn first_tenant_is_served(&self) -> bool {
        let tenant = &self.scene.tenant;
        blocked_by(tenant, "m1").await && delete_dry(tenant, "b").await.is_none()
    }

    async fn is_in_doubt(&self) -> bool {
        self.shows("depguard_rules_in_doubt 1").await
    }

    async fn has_loaded(&self, rules: usize) -> bool {
        self.shows(&format!("depguard_rules{{state=\"usable\"}} {rules}")).await
    }

    async fn shows(&self, metric: &str) -> bool {
        let (_, metrics) = probe(self.webhook.metrics_addr().unwrap(), "/metrics").await;
        metrics.contains(metric)
    }

    async fn is_ready(&self) -> bool {
        probe(self.webhook.probe_addr().unwrap(), "/readyz").await.0 == 200
    }
}

async fn blocked_by(tenant: &Endpoint, machine: &str) -> bool {
    said(tenant).await.contains(&format!("still referenced by VirtualMachine/{machine}"))
}

async fn said(tenant: &Endpoint) -> String {
    delete_dry(tenant, "a").await.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_with_rules_that_is_killed_stops_only_those_who_bound_an_api_from_there() {
    futures::future::join_all(WAYS.map(|way| stops_only_those_who_bound(way, Outage::Killed))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_with_rules_that_hangs_stops_only_those_who_bound_an_api_from_there() {
    futures::future::join_all(WAYS.map(|way| stops_only_those_who_bound(way, Outage::Hung))).await;
}

async fn stops_only_those_who_bound(way: ReadThrough, outage: Outage) {
    let outages = Outages::prepare(way).await;
    let cluster = outages.scene.cluster_of(&outages.other).await.unwrap();
    outage.begin(outages.scene.testbed(), "other").await;
    let mut message = String::new();
    eventually("its rules are no longer believed", async || {
        message = said(&outages.b).await;
        message.contains("the webhook can't follow all rules")
    })
    .await;
    assert!(message.contains(&format!("logical cluster {cluster}")), "{way:?}: {message}");
    assert!(message.contains("/services/apiexport/"), "the endpoint is named: {message}");
    let others = async || outages.first_tenant_is_served().await && outages.is_ready().await;
    eventually("the others are served", others).await;
    assert!(outages.scene.testbed().bring_up_shard("other").await);
    eventually("it is back", async || blocked_by(&outages.b, "m2").await && !outages.is_in_doubt().await).await;
    outages.webhook.stop().await;
}

/// A crash stops everything on a shard. A partition does not: rules may be written behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_is_written_behind_a_partition_is_never_passed_over() {
    let runs = WAYS.map(|way| async move {
        let outages = Outages::prepare(way).await;
        Outage::CutOff.begin(outages.scene.testbed(), "other").await;
        outages.scene.write_rule_about_things(&outages.other, ".spec.other.name").await;
        let mut message = String::new();
        eventually("its rules are no longer believed", async || {
            message = said(&outages.b).await;
            message.contains("the webhook can't follow all rules")
        })
        .await;
        let expected = match way {
            // The front-proxy shows that the rules have changed.
            ReadThrough::FrontProxy => "differ from the loaded rules",
            ReadThrough::Export => "the list of rules of logical cluster",
        };
        assert!(message.contains(expected), "{way:?}: {message}");
        eventually("the others are served", async || outages.first_tenant_is_served().await).await;
        assert!(outages.scene.testbed().bring_up_shard("other").await);
        eventually("it is back", async || blocked_by(&outages.b, "m2").await).await;
        outages.webhook.stop().await;
    });
    futures::future::join_all(runs).await;
}

/// The provider of the targets may accept other rules by now, and depguard's own workspace lists the shards.
#[tokio::test(flavor = "multi_thread")]
async fn the_shard_of_the_targets_stops_all_and_depguard_s_own_none_where_the_front_proxy_leads_to_rules() {
    let outages = Outages::prepare(ReadThrough::FrontProxy).await;
    let testbed = outages.scene.testbed();
    assert!(testbed.kill_shard("network").await);
    for tenant in [&outages.scene.tenant, &outages.b] {
        // In kcp, their API servers could not look up the configuration on that shard; the testbed's can.
        eventually("it is refused", async || said(tenant).await.contains("the webhook can't follow all rules")).await;
    }
    assert!(testbed.bring_up_shard("network").await);
    eventually("it is back", async || outages.first_tenant_is_served().await).await;

    assert!(testbed.kill_shard("dep-ctrl").await);
    eventually("the slices can't be followed", async || outages.is_in_doubt().await).await;
    let served = async || outages.first_tenant_is_served().await && blocked_by(&outages.b, "m2").await;
    // On a busy machine nothing may be heard for a moment, and then nobody is served.
    eventually("all are served while in doubt", async || served().await && outages.is_in_doubt().await).await;
    outages.webhook.stop().await;
}
