//! Tests of a kcp of several shards.

use depguard_testbed::Options;
use serde_json::{Value, json};

use crate::bed::{Bed, becomes, eventually};
use crate::client::Client;
use crate::fixtures::{NETWORK, SLICES, VPCS, WORKSPACES, bind, provide, schema, vpc};

const REGIONS: &str = "/apis/network.example.com/v1alpha1/regions";

/// Returns a kcp with a provider on shard `one` whose export nobody has bound.
async fn sharded() -> (Bed, String) {
    let bed = Bed::start(Options::kcp().shards(["one", "two"])).await;
    let provider = workspace(&bed, "network", "one").await;
    let schemas = [schema(NETWORK, "VPC", "vpcs", "Namespaced"), schema(NETWORK, "Region", "regions", "Cluster")];
    provide(&bed.admin.cluster("root:network"), NETWORK, &schemas, &json!([])).await;
    (bed, provider)
}

/// Creates a workspace on a shard, and returns its logical cluster.
async fn workspace(bed: &Bed, name: &str, shard: &str) -> String {
    let root = bed.admin.cluster("root");
    let object = json!({
        "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
        "spec": {"location": {"selector": {"matchLabels": {"name": shard}}}},
    });
    root.create(WORKSPACES, &object).await.ok();
    let ready = becomes(&root, &format!("{WORKSPACES}/{name}"), |found| found["status"]["phase"] == "Ready").await;
    ready["spec"]["cluster"].as_str().unwrap().to_owned()
}

async fn consumer(bed: &Bed, name: &str, shard: &str) -> String {
    let cluster = workspace(bed, name, shard).await;
    let api = bed.admin.cluster(&cluster);
    bind(&api, "network", "root:network", NETWORK, &json!([])).await;
    let mut object = vpc(name);
    object["metadata"]["namespace"] = json!("default");
    api.create(VPCS, &object).await.ok();
    cluster
}

fn urls(slice: &Value) -> Vec<String> {
    let endpoints = slice["status"]["endpoints"].as_array().into_iter().flatten();
    endpoints.map(|endpoint| endpoint["url"].as_str().unwrap().to_owned()).collect()
}

async fn listed(bed: &Bed, many: usize) -> Vec<String> {
    let provider = bed.admin.cluster("root:network");
    urls(&becomes(&provider, &format!("{SLICES}/{NETWORK}"), |slice| urls(slice).len() == many).await)
}

/// Returns a client of one of the URLs.
fn at(bed: &Bed, url: &str, suffix: &str) -> Client {
    let (host, path) = url.trim_start_matches("https://").split_once('/').unwrap();
    Client::new(&format!("https://{host}"), bed.testbed.ca_pem(), "admin").below(&format!("/{path}{suffix}"))
}

#[tokio::test]
async fn a_slice_lists_a_shard_a_little_later_than_its_first_binding_and_no_longer_than_its_last() {
    let (bed, _) = sharded().await;
    assert!(listed(&bed, 0).await.is_empty());
    let two = workspace(&bed, "b", "two").await;
    let api = bed.admin.cluster(&two);
    bind(&api, "network", "root:network", NETWORK, &json!([])).await;
    let slice = bed.admin.cluster("root:network").get(&format!("{SLICES}/{NETWORK}")).await.ok();
    assert!(urls(&slice).is_empty(), "not at once");
    let second = listed(&bed, 1).await.remove(0);
    consumer(&bed, "a", "one").await;
    let both = listed(&bed, 2).await;
    assert!(both.contains(&second) && both[0] != both[1]);
    api.delete("/apis/apis.kcp.io/v1alpha2/apibindings/network").await.ok();
    let first = listed(&bed, 1).await.remove(0);
    assert_ne!(first, second);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn each_shard_shows_its_own_and_forbids_the_others() {
    let (bed, provider) = sharded().await;
    let (a, b) = (consumer(&bed, "a", "one").await, consumer(&bed, "b", "two").await);
    let both = listed(&bed, 2).await;
    let (one, two) = (&both[0], &both[1]);
    for (url, own, name, other) in [(one, &a, "a", &b), (two, &b, "b", &a)] {
        assert_eq!(at(&bed, url, &format!("/clusters/{own}")).get(VPCS).await.names(), [name]);
        assert_eq!(at(&bed, url, &format!("/clusters/{other}")).get(VPCS).await.code, 403);
        let everywhere = at(&bed, url, "/clusters/*").get("/apis/network.example.com/v1alpha1/vpcs").await;
        assert_eq!(everywhere.names(), [name]);
        // The front-proxy leads to all shards.
        assert_eq!(bed.admin.cluster(own).get(VPCS).await.names(), [name]);
    }
    let through = format!("/services/apiexport/{provider}/{NETWORK}/clusters");
    assert_eq!(bed.admin.below(&format!("{through}/{a}")).get(VPCS).await.names(), ["a"], "the first shard's");
    assert_eq!(bed.admin.below(&format!("{through}/{b}")).get(VPCS).await.code, 403);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_virtual_workspace_passes_over_the_namespace_of_a_kind_that_has_none() {
    let (bed, _) = sharded().await;
    let a = consumer(&bed, "a", "one").await;
    let region = json!({"apiVersion": "network.example.com/v1alpha1", "kind": "Region", "metadata": {"name": "r"}});
    let tenant = bed.admin.cluster(&a);
    tenant.create(REGIONS, &region).await.ok();
    let path = "/apis/network.example.com/v1alpha1/namespaces/default/regions";
    assert_eq!(tenant.get(path).await.code, 404);
    let url = listed(&bed, 1).await.remove(0);
    let view = at(&bed, &url, &format!("/clusters/{a}"));
    assert_eq!(view.get(path).await.names(), ["r"]);
    assert_eq!(view.get(&format!("{path}/r")).await.ok()["metadata"]["name"], "r");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_shard_that_is_down_refuses_connections_and_comes_back() {
    let (bed, _) = sharded().await;
    let b = consumer(&bed, "b", "two").await;
    let url = listed(&bed, 1).await.remove(0);
    let address = url.trim_start_matches("https://").split('/').next().unwrap().to_owned();
    assert!(bed.testbed.take_down_shard("two").await);
    assert!(tokio::net::TcpStream::connect(&address).await.is_err());
    assert_eq!(bed.admin.cluster(&b).get(VPCS).await.names(), ["b"], "through the front-proxy");
    assert!(bed.testbed.bring_up_shard("two").await);
    eventually("it listens again", || async { tokio::net::TcpStream::connect(&address).await.ok() }).await;
    assert_eq!(at(&bed, &url, &format!("/clusters/{b}")).get(VPCS).await.names(), ["b"]);
    assert!(!bed.testbed.take_down_shard("three").await);
    bed.testbed.stop().await;
}
