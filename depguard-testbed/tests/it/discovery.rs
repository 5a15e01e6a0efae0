//! Tests of discovery, and of answers for missing paths.

use serde_json::json;

use crate::bed::Bed;
use crate::fixtures::{BINDINGS, NETWORK, Network};

#[tokio::test]
async fn a_cluster_shows_the_kinds_it_serves() {
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    let groups = network.tenant.get("/apis").await.ok();
    let has = |name: &str| groups["groups"].as_array().unwrap().iter().any(|group| group["name"] == name);
    assert!(has(NETWORK) && has("apis.kcp.io") && !has(""));
    let resources = network.tenant.get("/apis/network.example.com/v1alpha1").await.ok();
    let vpcs = &resources["resources"][0];
    assert_eq!((&vpcs["name"], &vpcs["kind"], &vpcs["namespaced"]), (&json!("vpcs"), &json!("VPC"), &json!(true)));
    assert_eq!(resources["resources"][1]["name"], "vpcs/status");
    let versions = network.tenant.get("/apis/apis.kcp.io").await.ok();
    assert_eq!(versions["preferredVersion"]["version"], "v1alpha2");
    assert_eq!(versions["versions"].as_array().unwrap().len(), 2);
    assert!(network.tenant.get("/api/v1").await.ok()["resources"].as_array().unwrap().len() > 4);

    network.tenant.delete(&format!("{BINDINGS}/network")).await.ok();
    crate::bed::gone(&network.tenant, &format!("{BINDINGS}/network")).await;
    assert_eq!(network.tenant.get("/apis/network.example.com").await.code, 404);
    let empty = network.tenant.get("/apis/network.example.com/v1alpha1").await.ok();
    assert_eq!(empty["resources"], json!([]), "a kcp workspace knows every version, and nothing in it");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn what_is_not_served_is_not_found() {
    let bed = Bed::with_gadgets().await;
    for path in [
        "/apis/nope.example.com",
        "/apis/nope.example.com/v1",
        "/apis/example.com/v2",
        "/apis/example.com/v1/things",
        "/nope",
    ] {
        let missing = bed.admin.get(path).await;
        assert_eq!((missing.code, missing.text.as_str()), (404, "404 page not found\n"), "{path}");
    }
    // Groups that are compiled in answer with a status.
    let missing = bed.admin.get("/api/v1/things").await;
    assert_eq!((missing.code, missing.message()), (404, "the server could not find the requested resource"));
    let namespaced = "/apis/admissionregistration.k8s.io/v1/namespaces/default/validatingwebhookconfigurations";
    assert_eq!(bed.admin.get(namespaced).await.code, 404, "a cluster-scoped kind has no namespaces");
    assert_eq!(bed.admin.get("/apis/example.com/v1/gadgets/a").await.code, 404, "a namespaced one needs one");
    assert_eq!(bed.admin.delete("/api/v1/namespaces").await.code, 405);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn health_needs_nobody_and_everything_else_a_token() {
    let bed = Bed::kubernetes().await;
    let nobody = bed.admin.as_user("");
    assert_eq!(nobody.get("/readyz").await.text, "ok");
    assert_eq!(nobody.get("/healthz").await.code, 200);
    assert_eq!(nobody.get("/version").await.ok()["major"], "1");
    assert_eq!(nobody.get("/api/v1/namespaces").await.code, 401);
    bed.testbed.stop().await;
}
