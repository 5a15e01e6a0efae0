//! Tests of exports, bindings, endpoint slices and virtual workspaces.

use serde_json::json;

use crate::bed::{Bed, becomes};
use crate::fixtures::{BINDINGS, NETWORK, Network, SLICES, VPCS, binding, provide, schema, vpc, workspace};

#[tokio::test]
async fn a_bound_kind_is_served_and_seen_through_the_virtual_workspace() {
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    network.tenant.create(VPCS, &vpc("a")).await.ok();

    let slice = becomes(&network.provider, &format!("{SLICES}/{NETWORK}"), |found| {
        found["status"]["endpoints"].as_array().is_some_and(|all| all.len() == 1)
    })
    .await;
    let url = slice["status"]["endpoints"][0]["url"].as_str().unwrap();
    assert_eq!(url, format!("{}/services/apiexport/{}/{NETWORK}", bed.testbed.url(), network.provider_cluster));

    let prefix = url.trim_start_matches(bed.testbed.url());
    let everywhere = bed.admin.below(&format!("{prefix}/clusters/*"));
    let list = everywhere.get("/apis/network.example.com/v1alpha1/vpcs").await;
    assert_eq!(list.names(), ["a"]);
    assert_eq!(list.body["items"][0]["metadata"]["annotations"]["kcp.io/cluster"], json!(network.tenant_cluster));
    let there = bed.admin.below(&format!("{prefix}/clusters/{}", network.tenant_cluster));
    assert_eq!(there.get("/apis/network.example.com/v1alpha1/vpcs").await.names(), ["a"]);
    let elsewhere = bed.admin.below(&format!("{prefix}/clusters/{}", network.provider_cluster));
    assert_eq!(elsewhere.get("/apis/network.example.com/v1alpha1/vpcs").await.code, 403);
    let nowhere = bed.admin.below(&format!("{prefix}/clusters/unknown"));
    assert_eq!(nowhere.get("/apis/network.example.com/v1alpha1/vpcs").await.code, 403);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn an_export_nobody_has_bound_has_a_slice_without_endpoints() {
    let bed = Bed::kcp().await;
    workspace(&bed, "root", "network").await;
    let provider = bed.admin.cluster("root:network");
    provide(&provider, NETWORK, &[schema(NETWORK, "VPC", "vpcs", "Namespaced")], &json!([])).await;
    let slice = becomes(&provider, &format!("{SLICES}/{NETWORK}"), |found| found["status"].is_object()).await;
    assert_eq!(slice["spec"]["export"], json!({"path": "root:network", "name": NETWORK}));
    assert_eq!(slice["status"]["endpoints"], json!([]));
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_binding_to_an_export_missing_elsewhere_is_refused() {
    let bed = Bed::kcp().await;
    workspace(&bed, "root", "tenant").await;
    let tenant = bed.admin.cluster("root:tenant");
    let refused = tenant.create(BINDINGS, &binding("network", "root:network", NETWORK, &json!([]))).await;
    assert_eq!(refused.code, 403);
    assert!(refused.message().contains("no permission to bind to export root:network:network.example.com"));
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_binding_to_a_missing_export_of_its_own_workspace_waits_for_it() {
    let bed = Bed::kcp().await;
    workspace(&bed, "root", "tenant").await;
    let tenant = bed.admin.cluster("root:tenant");
    let mut own = binding("network", "", NETWORK, &json!([]));
    own["spec"]["reference"]["export"] = json!({"name": NETWORK});
    tenant.create(BINDINGS, &own).await.ok();
    let path = format!("{BINDINGS}/network");
    becomes(&tenant, &path, |found| found["status"]["conditions"][0]["reason"] == "APIExportNotFound").await;
    assert_eq!(tenant.get(&path).await.body["status"]["phase"], "Binding");
    assert_eq!(tenant.get(VPCS).await.code, 404);

    provide(&tenant, NETWORK, &[schema(NETWORK, "VPC", "vpcs", "Namespaced")], &json!([])).await;
    let bound = becomes(&tenant, &path, |found| found["status"]["phase"] == "Bound").await;
    let resource = &bound["status"]["boundResources"][0];
    assert_eq!((&resource["group"], &resource["resource"]), (&json!(NETWORK), &json!("vpcs")));
    assert_eq!(resource["storageVersions"], json!(["v1alpha1"]));
    assert!(resource["schema"]["identityHash"].is_string() && resource["schema"]["UID"].is_string());
    assert_eq!(bound["metadata"]["annotations"]["kcp.io/path"], "root:tenant");
    assert_eq!(tenant.get(VPCS).await.names(), [""; 0]);
    bed.testbed.stop().await;
}
