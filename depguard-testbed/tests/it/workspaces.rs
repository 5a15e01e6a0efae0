//! Tests of workspaces: created, found by path and by id, deleted.

use serde_json::json;

use crate::bed::{Bed, becomes, condition, eventually, gone};
use crate::fixtures::{Network, VPCS, WORKSPACES, vpc, workspace};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn a_nested_workspace_is_served_by_path_and_by_id() {
    let bed = Bed::kcp().await;
    workspace(&bed, "root", "providers").await;
    let id = workspace(&bed, "root:providers", "network").await;

    let found = bed.admin.cluster("root:providers").get(&format!("{WORKSPACES}/network")).await.ok();
    assert_eq!((&found["spec"]["cluster"], &found["status"]["phase"]), (&json!(id), &json!("Ready")));

    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    bed.admin.cluster("root:providers:network").create(CONFIGMAPS, &map).await.ok();
    let by_id = bed.admin.cluster(&id).get(&format!("{CONFIGMAPS}/a")).await.ok();
    assert_eq!(by_id["metadata"]["annotations"]["kcp.io/cluster"], json!(id));
    assert_eq!(bed.admin.cluster("root:providers").get(&format!("{CONFIGMAPS}/a")).await.code, 404, "not elsewhere");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_workspace_may_lie_about_its_path_and_is_not_found_there() {
    let bed = Bed::kcp().await;
    let id = workspace(&bed, "root", "liar").await;
    let liar = bed.admin.cluster("root:liar");
    let forged = json!({"metadata": {"annotations": {"kcp.io/path": "root:network"}}});
    liar.merge("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster", &forged).await.ok();
    assert_eq!(bed.admin.cluster("root:network").get("/api/v1/namespaces").await.code, 404);
    let network = workspace(&bed, "root", "network").await;
    let found = bed.admin.cluster("root:network").get("/api/v1/namespaces/default").await.ok();
    assert_eq!(found["metadata"]["annotations"]["kcp.io/cluster"], json!(network));
    let export =
        json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "a"}, "spec": {}});
    let made = liar.create("/apis/apis.kcp.io/v1alpha2/apiexports", &export).await.ok();
    let annotations = &made["metadata"]["annotations"];
    assert_eq!((&annotations["kcp.io/path"], &annotations["kcp.io/cluster"]), (&json!("root:network"), &json!(id)));
    bed.testbed.stop().await;
}

#[tokio::test]
async fn an_unknown_path_is_not_found_and_an_unknown_id_forbidden_but_for_masters_empty() {
    let bed = Bed::kcp().await;
    let missing = bed.admin.cluster("root:nowhere").get("/api/v1/namespaces").await;
    assert_eq!((missing.code, missing.message()), (404, "workspaces.tenancy.kcp.io \"root:nowhere\" not found"));
    let nobody = bed.admin.cluster("0123456789abcdef");
    assert_eq!(nobody.get("/api/v1/namespaces").await.code, 403);
    let empty = nobody.as_user("masters").get("/api/v1/namespaces").await;
    assert_eq!(empty.names(), [""; 0]);
    assert!(empty.body["metadata"]["resourceVersion"].is_string());
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_deleted_workspace_goes_when_its_contents_have_gone() {
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    let mut held = vpc("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    network.tenant.create(VPCS, &held).await.ok();
    network.tenant.create(VPCS, &vpc("free")).await.ok();

    let root = bed.admin.cluster("root");
    root.delete(&format!("{WORKSPACES}/tenant")).await.ok();
    gone(&network.tenant, &format!("{VPCS}/free")).await;
    let cluster = becomes(&network.tenant, "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster", |found| {
        condition(found, "WorkspaceContentDeleted").is_some_and(|condition| condition["status"] == "False")
    })
    .await;
    assert!(cluster["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(root.get(&format!("{WORKSPACES}/tenant")).await.ok()["status"]["phase"], "Deleting");

    network.tenant.merge(&format!("{VPCS}/held"), &json!({"metadata": {"finalizers": null}})).await.ok();
    gone(&root, &format!("{WORKSPACES}/tenant")).await;
    eventually("the path serves nothing", || async {
        (network.tenant.get("/api/v1/namespaces").await.code == 404).then_some(())
    })
    .await;
    bed.testbed.stop().await;
}
