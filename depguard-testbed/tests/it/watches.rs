//! Tests of watches.

use serde_json::json;

use crate::bed::Bed;
use crate::fixtures::{BINDINGS, NETWORK, Network, VPCS, vpc};

#[tokio::test]
async fn a_watch_tells_what_happens_after_its_revision() {
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    network.tenant.create(VPCS, &vpc("before")).await.ok();
    let list = network.tenant.get(VPCS).await.ok();
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{VPCS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=3&resourceVersion={revision}");
    let mut watch = network.tenant.watch(&path).await;

    network.tenant.create(VPCS, &vpc("a")).await.ok();
    network.tenant.merge(&format!("{VPCS}/a"), &json!({"spec": {"cidr": "10.1.0.0/16"}})).await.ok();
    network.tenant.delete(&format!("{VPCS}/a")).await.ok();
    for (kind, generation) in [("ADDED", 1), ("MODIFIED", 2), ("DELETED", 2)] {
        let (told, object) = watch.next().await.unwrap();
        assert_eq!((told.as_str(), &object["metadata"]["generation"]), (kind, &json!(generation)));
    }
    let (told, object) = watch.next_any().await.unwrap();
    assert_eq!((told.as_str(), &object["kind"]), ("BOOKMARK", &json!("VPC")));
    assert!(watch.next().await.is_none(), "it ends after its timeoutSeconds");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_wildcard_watch_follows_every_bound_cluster() {
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    let everywhere = bed.admin.below(&format!("/services/apiexport/{}/{NETWORK}/clusters/*", network.provider_cluster));
    let mut watch = everywhere.watch("/apis/network.example.com/v1alpha1/vpcs?watch=true").await;
    network.tenant.create(VPCS, &vpc("a")).await.ok();
    let (kind, object) = watch.next().await.unwrap();
    assert_eq!(kind, "ADDED");
    assert_eq!(object["metadata"]["annotations"]["kcp.io/cluster"], json!(network.tenant_cluster));

    let mut bindings = everywhere.watch(&format!("{BINDINGS}?watch=true")).await;
    let (_, binding) = bindings.next().await.unwrap();
    let name = binding["metadata"]["name"].as_str().unwrap();
    network.tenant.delete(&format!("{BINDINGS}/{name}")).await.ok();
    // The binding's cluster leaves the wildcard, and the binding's deletion is reported all the same.
    while bindings.next().await.unwrap().0 != "DELETED" {}
    while watch.next().await.unwrap().0 != "DELETED" {}
    bed.testbed.stop().await;
}
