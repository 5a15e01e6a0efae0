//! Deletions of owners, against an API server that asks again if the object changed meanwhile.

use depguard_core::ControlPlane;
use depguard_core::owners::{CASCADE_ANNOTATION, ORPHAN};
use serde_json::{Value, json};

use crate::locks::{KEY, configure, manifests, refusal};
use crate::scene::{Scene, eventually};

const OWNERS: &str = "/apis/globalowner.metacontroller.io/v1alpha1/globalowners";

#[tokio::test(flavor = "multi_thread")]
async fn when_a_global_owner_goes_it_says_what_becomes_of_what_it_owns() {
    let mut scene = Scene::set_up(ControlPlane::Kubernetes).await;
    scene.config.enable.owners = true;
    scene.config.path_key = Some(scene.write("path-key", KEY));
    for crd in manifests("owners/owners-crd.yaml") {
        scene.tenant.post_json("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await.unwrap();
    }
    eventually("owners are served", async || scene.tenant.get_json(OWNERS).await.is_ok()).await;
    let webhook = scene.start().await;
    let rules = json!([{"operations": ["DELETE"], "apiGroups": ["globalowner.metacontroller.io"], "apiVersions": ["*"],
        "resources": ["globalowners", "groupowners"]}]);
    let cluster = scene.tenant.clone();
    configure(&scene, &cluster, webhook.review_addr(), ["depguard-owners", "/owner"], &rules).await;

    for (name, noted_before, policy, expected) in [
        ("background", None, None, Value::Null),
        ("orphan", None, Some("Orphan"), json!(ORPHAN)),
        // Another webhook refused an earlier deletion of this owner.
        ("leftover", Some(ORPHAN), Some("Background"), Value::Null),
        ("again", Some(ORPHAN), Some("Orphan"), json!(ORPHAN)),
    ] {
        let owner = json!({
            "apiVersion": "globalowner.metacontroller.io/v1alpha1", "kind": "GlobalOwner",
            "metadata": {"name": name, "finalizers": ["example.com/stay"], "annotations": {"a": "b"}},
            "spec": {"childResources": [{"apiVersion": "v1", "resource": "configmaps", "names": ["a"]}]},
        });
        let mut owner = owner;
        if let Some(noted) = noted_before {
            owner["metadata"]["annotations"][CASCADE_ANNOTATION] = json!(noted);
        }
        scene.tenant.post_json(OWNERS, &owner).await.unwrap();
        let path = format!("{OWNERS}/{name}");
        let options =
            |policy: Option<&str>| json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
        let message = refusal(scene.tenant.delete_with(&path, &options(Some("Foreground"))).await).unwrap();
        assert!(message.contains("use --cascade=background"), "{name}: {message}");
        scene.tenant.delete_with(&path, &options(policy)).await.unwrap();
        let going = scene.tenant.get_json(&path).await.unwrap();
        assert!(going["metadata"]["deletionTimestamp"].is_string(), "{name}: {going}");
        assert_eq!(going["metadata"]["annotations"][CASCADE_ANNOTATION], expected, "{name}: {going}");
        assert_eq!(going["metadata"]["annotations"]["a"], "b", "{name}: {going}");
    }
    webhook.stop().await;
}
