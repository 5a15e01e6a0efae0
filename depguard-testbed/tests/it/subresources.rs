//! Tests of reviews of scales, evictions and namespaces, and of their requester.

use serde_json::{Value, json};

use crate::bed::{Bed, gone};
use crate::fixtures::{BINDINGS, CONFIGURATIONS, CRDS, NETWORK, Network, VPCS, names, version, vpc};
use crate::hook::Hook;

const MACHINES: &str = "/apis/example.com/v1/namespaces/default/machines";
const PODS: &str = "/api/v1/namespaces/default/pods";

pub(crate) fn rule(group: &str, resources: &[&str]) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["*"], "resources": resources, "operations": ["*"]})
}

/// Returns a testbed with `machines.example.com`, which can be scaled.
async fn with_machines() -> Bed {
    let bed = Bed::kubernetes().await;
    let mut served = version("v1", true);
    served["schema"] = json!({"openAPIV3Schema": served["schema"]});
    served["subresources"]["scale"] = json!({"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "machines.example.com"},
        "spec": {
            "group": "example.com", "names": names("Machine", "machines"), "scope": "Namespaced", "versions": [served],
        },
    });
    bed.admin.create(CRDS, &definition).await.ok();
    let machine = json!({
        "apiVersion": "example.com/v1", "kind": "Machine",
        "metadata": {"name": "a", "labels": {"tier": "prod"}}, "spec": {"count": 1, "disk": "d"},
    });
    bed.admin.create(MACHINES, &machine).await.ok();
    bed
}

#[tokio::test]
async fn a_scale_is_read_and_written_apart_and_reviewed_as_what_it_is() {
    let bed = with_machines().await;
    let hook = Hook::start(|request| json!({"allowed": request["object"]["spec"]["replicas"] != 9})).await;
    bed.admin.create(CONFIGURATIONS, &hook.configuration(&rule("example.com", &["machines/scale"]))).await.ok();
    let path = format!("{MACHINES}/a/scale");
    let mut scale = bed.admin.get(&path).await.ok();
    assert_eq!((&scale["kind"], &scale["spec"]), (&json!("Scale"), &json!({"replicas": 1})));
    scale["spec"]["replicas"] = json!(3);
    assert_eq!(bed.admin.replace(&path, &scale).await.ok()["spec"], json!({"replicas": 3}));
    let stale = bed.admin.replace(&path, &scale).await;
    assert_eq!(stale.code, 409, "its resourceVersion is a condition");
    bed.admin.merge(&path, &json!({"spec": {"replicas": 4}})).await.ok();
    assert_eq!(bed.admin.merge(&path, &json!({"spec": {"replicas": 9}})).await.code, 400);
    bed.admin.patch(&path, &json!([{"op": "replace", "path": "/spec/replicas", "value": 5}])).await.ok();
    let machine = bed.admin.get(&format!("{MACHINES}/a")).await.ok();
    assert_eq!(machine["spec"], json!({"count": 5, "disk": "d"}));

    let request = &hook.calls()[0].request;
    assert_eq!((&request["operation"], &request["subResource"]), (&json!("UPDATE"), &json!("scale")));
    assert_eq!(request["kind"], json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
    assert_eq!(request["resource"], json!({"group": "example.com", "version": "v1", "resource": "machines"}));
    let shown = |object: &Value| (object["kind"].clone(), object["spec"].clone(), object["metadata"]["labels"].clone());
    let of = |replicas: u64| (json!("Scale"), json!({"replicas": replicas}), json!(null));
    assert_eq!((shown(&request["oldObject"]), shown(&request["object"])), (of(1), of(3)));

    bed.admin.merge(&format!("{MACHINES}/a"), &json!({"spec": {"disk": "e"}})).await.ok();
    assert_eq!(hook.calls().len(), 4, "the rest is no scale");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_rule_names_resources_their_subresources_or_both() {
    let bed = with_machines().await;
    let hook = Hook::allowing().await;
    // Each entry has the expected calls for a change of the object, its status and its scale.
    for (resources, expected) in [
        ("machines", [1, 0, 0]),
        ("*", [1, 0, 0]),
        ("machines/status", [0, 1, 0]),
        ("*/scale", [0, 0, 1]),
        ("machines/*", [1, 1, 1]),
        ("*/*", [1, 1, 1]),
        ("others/*", [0, 0, 0]),
    ] {
        bed.admin.delete(&format!("{CONFIGURATIONS}/guard")).await;
        bed.admin.create(CONFIGURATIONS, &hook.configuration(&rule("example.com", &[resources]))).await.ok();
        let mut counted = [0; 3];
        let patches = [
            ("", json!({"spec": {"disk": "e"}})),
            ("/status", json!({"status": {"ready": true}})),
            ("/scale", json!({"spec": {"replicas": 2}})),
        ];
        for (count, (below, patch)) in counted.iter_mut().zip(patches) {
            let before = hook.calls().len();
            bed.admin.merge(&format!("{MACHINES}/a{below}?dryRun=All"), &patch).await.ok();
            *count = hook.calls().len() - before;
        }
        assert_eq!(counted, expected, "{resources}");
    }
    bed.testbed.stop().await;
}

#[tokio::test]
async fn an_eviction_is_reviewed_as_a_creation_and_deletes_without_another_review() {
    let bed = Bed::kubernetes().await;
    let hook = Hook::start(|request| json!({"allowed": request["object"]["metadata"]["name"] != "locked"})).await;
    bed.admin.create(CONFIGURATIONS, &hook.configuration(&rule("", &["pods/eviction", "pods"]))).await.ok();
    let eviction = |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let pod = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}});
    bed.admin.create(PODS, &pod("free")).await.ok();
    bed.admin.create(PODS, &pod("other")).await.ok();
    let path = |name: &str| format!("{PODS}/{name}/eviction");
    assert_eq!(bed.admin.create(&path("locked"), &eviction("locked")).await.code, 400, "refused");
    assert_eq!(bed.admin.create(&path("other"), &eviction("free")).await.code, 400, "another name");
    assert_eq!(bed.admin.create(&path("none"), &eviction("none")).await.code, 404);
    let done = bed.admin.create(&path("free"), &eviction("free")).await;
    assert_eq!((done.code, &done.body["status"]), (201, &json!("Success")));
    gone(&bed.admin, &format!("{PODS}/free")).await;
    assert_eq!(bed.admin.get(PODS).await.names(), ["other"]);

    let calls = hook.calls();
    let last = &calls.last().unwrap().request;
    assert_eq!(
        (&last["operation"], &last["subResource"], &last["name"]),
        (&json!("CREATE"), &json!("eviction"), &json!("free"))
    );
    assert_eq!(last["kind"], json!({"group": "policy", "version": "v1", "kind": "Eviction"}));
    assert_eq!((&last["object"]["kind"], &last["oldObject"]), (&json!("Eviction"), &json!(null)));
    assert!(calls.iter().all(|call| call.request["operation"] != "DELETE"));
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_binding_is_reviewed_as_what_it_is_and_copied_onto_the_pod() {
    let bed = Bed::kubernetes().await;
    let hook = Hook::start(|request| json!({"allowed": request["object"]["target"]["name"] != "bad"})).await;
    bed.admin.create(CONFIGURATIONS, &hook.configuration(&rule("", &["pods/binding"]))).await.ok();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"tier": "prod"}}});
    bed.admin.create(PODS, &pod).await.ok();
    let binding = |node: &str| {
        json!({
            "apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": node},
            "metadata": {"name": "a", "annotations": {"note": "x"}, "labels": {"zone": "z"}},
        })
    };
    let path = format!("{PODS}/a/binding");
    assert_eq!(bed.admin.create(&path, &binding("bad")).await.code, 400);
    assert_eq!(bed.admin.create(&format!("{path}?dryRun=All"), &binding("n")).await.code, 201);
    assert_eq!(bed.admin.create(&path, &binding("n")).await.code, 201);
    assert_eq!(bed.admin.create(&path, &binding("o")).await.code, 409, "it is bound already");
    let pod = bed.admin.get(&format!("{PODS}/a")).await.ok();
    let metadata = &pod["metadata"];
    assert_eq!((&pod["spec"]["nodeName"], &metadata["annotations"]["note"]), (&json!("n"), &json!("x")));
    assert_eq!(metadata["labels"], json!({"tier": "prod", "zone": "z"}));
    let request = &hook.calls()[0].request;
    assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "Binding"}));
    assert_eq!((&request["operation"], &request["subResource"]), (&json!("CREATE"), &json!("binding")));
    assert_eq!((&request["name"], &request["namespace"]), (&json!("a"), &json!("default")));
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_namespace_is_finalized_apart_and_reviewed_so() {
    let bed = Bed::kubernetes().await;
    let hook = Hook::allowing().await;
    bed.admin.create(CONFIGURATIONS, &hook.configuration(&rule("", &["namespaces/finalize"]))).await.ok();
    let mut namespace = bed.admin.get("/api/v1/namespaces/default").await.ok();
    namespace["metadata"]["annotations"] = json!({"note": "x"});
    bed.admin.replace("/api/v1/namespaces/default/finalize", &namespace).await.ok();
    let stored = bed.admin.get("/api/v1/namespaces/default").await.ok();
    assert_eq!(stored["metadata"]["annotations"]["note"], "x");
    let request = &hook.calls()[0].request;
    assert_eq!((&request["operation"], &request["subResource"]), (&json!("UPDATE"), &json!("finalize")));
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_namespace_is_selected_by_its_own_labels() {
    let bed = Bed::kubernetes().await;
    let hook = Hook::allowing().await;
    let mut configuration = hook.configuration(&rule("", &["namespaces"]));
    configuration["webhooks"][0]["namespaceSelector"] = json!({"matchLabels": {"lockable": "true"}});
    bed.admin.create(CONFIGURATIONS, &configuration).await.ok();
    let namespace = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    bed.admin.create("/api/v1/namespaces", &namespace("plain", json!({}))).await.ok();
    bed.admin.create("/api/v1/namespaces", &namespace("labelled", json!({"lockable": "true"}))).await.ok();
    bed.admin.delete("/api/v1/namespaces/plain").await.ok();
    bed.admin.delete("/api/v1/namespaces/labelled").await.ok();
    let asked: Vec<_> = hook.calls().into_iter().map(|call| call.request["name"].clone()).collect();
    assert_eq!(asked, ["labelled", "labelled"]);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn match_conditions_are_not_evaluated_so_that_the_webhook_is_asked_rather_than_skipped() {
    let bed = Bed::kubernetes().await;
    let hook = Hook::denying().await;
    let mut configuration = hook.configuration(&rule("", &["configmaps"]));
    configuration["webhooks"][0]["matchConditions"] = json!([{"name": "never", "expression": "false"}]);
    bed.admin.create(CONFIGURATIONS, &configuration).await.ok();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(bed.admin.create("/api/v1/namespaces/default/configmaps", &map).await.code, 403);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn in_kcp_a_review_shows_whose_account_asks_and_what_of_the_place_the_client_sent() {
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    let hook = Hook::start(|_| json!({"allowed": true, "auditAnnotations": {"lock": "ObjectLock a/b"}})).await;
    network.provider.create(CONFIGURATIONS, &hook.configuration(&rule(NETWORK, &["vpcs"]))).await.ok();
    let home = &network.tenant_cluster;
    let account = network.tenant.as_user(&format!("system:kcp:serviceaccount:{home}:backup:snapshotter"));
    let made = account.create(VPCS, &vpc("a")).await.ok();
    let mut bare = vpc("a");
    bare["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    let stored = account.replace(&format!("{VPCS}/a"), &bare).await.ok();
    account.merge(&format!("{VPCS}/a"), &json!({"spec": {"cidr": "10.0.0.0/9"}})).await.ok();
    account.delete(&format!("{VPCS}/a")).await.ok();
    network.tenant.get(BINDINGS).await.ok();

    let calls = hook.calls();
    let user = &calls[0].request["userInfo"];
    assert_eq!(user["username"], "system:serviceaccount:backup:snapshotter");
    assert_eq!(
        user["extra"],
        json!({
            "authentication.kcp.io/cluster-name": [home], "authentication.kcp.io/scopes": [format!("cluster:{home}")],
        })
    );
    let told: Vec<_> = calls
        .iter()
        .map(|call| {
            let is_told =
                |object: &str| call.request[object]["metadata"]["annotations"]["kcp.io/cluster"] == json!(home);
            (call.request["operation"].as_str().unwrap(), is_told("object"), is_told("oldObject"))
        })
        .collect();
    let put = ("UPDATE", false, true);
    assert_eq!(told, [("CREATE", true, false), put, ("UPDATE", true, true), ("DELETE", false, true)]);
    assert_eq!(stored["metadata"]["annotations"]["kcp.io/cluster"], json!(home), "it is written in all the same");

    let audits = bed.testbed.audits();
    let noted = &audits[0].annotations["guard.example.com/lock"];
    assert_eq!((audits.len(), noted.as_str(), audits[3].operation.as_str()), (4, "ObjectLock a/b", "DELETE"));
    bed.testbed.stop().await;
}
