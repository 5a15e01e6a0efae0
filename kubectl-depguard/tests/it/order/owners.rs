//! Order in which a GlobalOwner would remove its groups, from files and from an API server.

use depguard_controller::manifests;
use depguard_core::ControlPlane;
use depguard_kcp::{ConnectOptions, Connection};
use depguard_testbed::{Options, Testbed};
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::tool::depguard;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn owner(order: &str) -> Value {
    let child = |resource: &str| json!({"apiVersion": "v1", "resource": resource});
    json!({
        "apiVersion": "globalowner.metacontroller.io/v1alpha1", "kind": "GlobalOwner", "metadata": {"name": "all"},
        "spec": {
            "selector": {"matchLabels": {"adopt": "true"}}, "order": order,
            "childResources": [child("secrets"), child("configmaps"), child("serviceaccounts")],
        },
    })
}

/// Builds a rule by which ConfigMaps refer to Secrets.
fn rule() -> Value {
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "r"},
        "spec": {
            "dependent": {"group": "", "version": "v1", "kind": "ConfigMap", "resource": "configmaps"},
            "dependencies": [{"group": "", "version": "v1", "resource": "secrets", "fieldRef": {"path": ".data.secret"}}],
        },
    })
}

fn object(kind: &str, name: &str, labels: &Value, annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": kind,
        "metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": annotations},
    })
}

fn objects() -> [Value; 5] {
    let adopt = json!({"adopt": "true"});
    [
        object("Secret", "a", &adopt, &json!({})),
        object("Secret", "b", &adopt, &json!({"dependencies.opendefense.cloud/adopt": "false"})),
        object("ConfigMap", "a", &adopt, &json!({})),
        object("ConfigMap", "b", &adopt, &json!({})),
        object("ConfigMap", "c", &json!({}), &json!({})),
    ]
}

const LISTED: &str = "WAVE   RESOURCE          OBJECTS
1      secrets           1
2      configmaps        2
3      serviceaccounts   0
";
const BY_RULES: &str = "WAVE   RESOURCE          OBJECTS
1      configmaps        2
1      serviceaccounts   0
2      secrets           1
";

#[tokio::test(flavor = "multi_thread")]
async fn a_global_owners_groups_are_told_in_their_waves_of_files_and_live() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.json");
    for (order, told) in [("Listed", LISTED), ("ByRules", BY_RULES)] {
        let mut all = vec![owner(order), rule()];
        all.extend(objects());
        let list = json!({"apiVersion": "v1", "kind": "List", "items": all});
        std::fs::write(&file, list.to_string()).unwrap();
        let out = depguard(&["order", "GlobalOwner", "all", "-f", file.to_str().unwrap()]).await;
        assert_eq!((out.out.as_str(), out.status), (told, ExitStatus::Well), "{}", out.err);
    }

    let testbed = Testbed::start(Options::kubernetes()).await.unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, testbed.kubeconfig("", "admin")).unwrap();
    let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(kubeconfig.clone());
    let client = Connection::open(&options).await.unwrap().own_endpoint();
    for definition in manifests::owner_crds().into_iter().chain([manifests::crd()]) {
        client.post_json(CRDS, &definition).await.unwrap();
    }
    client.post_json("/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules", &rule()).await.unwrap();
    let owners = "/apis/globalowner.metacontroller.io/v1alpha1/globalowners";
    client.post_json(owners, &owner("ByRules")).await.unwrap();
    for object in objects() {
        let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
        client.post_json(&format!("/api/v1/namespaces/default/{plural}"), &object).await.unwrap();
    }
    let live = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let out = depguard(&[&["order", "globalowner/all"], &live[..]].concat()).await;
    assert_eq!((out.out.as_str(), out.status), (BY_RULES, ExitStatus::Well), "{}", out.err);
    let out = depguard(&[&["order", "globalowner", "none"], &live[..]].concat()).await;
    assert_eq!(out.status, ExitStatus::Failure);
    assert!(out.err.contains("there is no GlobalOwner `none`"), "{}", out.err);
    let out = depguard(&[&["order", "globalowner"], &live[..]].concat()).await;
    assert!(out.err.contains("write GlobalOwner NAME"), "{}", out.err);
}
