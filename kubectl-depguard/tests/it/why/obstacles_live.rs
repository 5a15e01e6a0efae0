//! Obstacles besides rules and locks, on an API server, for users with different rights.

use depguard_controller::manifests;
use depguard_kcp::Preconditions;
use depguard_testbed::{Fault, When};
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::bed::{Bed, eventually};
use crate::tool::{Ran, depguard};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Starts a cluster that serves DependencyRules and has a claim `data`, which a Pod uses.
async fn cluster() -> Bed {
    let bed = Bed::kubernetes_with_rights().await;
    post(&bed, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &manifests::crd()).await;
    let rules = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
    eventually("the rules are served", async || bed.endpoint().list_json(rules).await).await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {
        "name": "data", "finalizers": ["kubernetes.io/pvc-protection"]}});
    post(&bed, CLAIMS, &claim).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
        "nodeName": "n1", "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}});
    post(&bed, "/api/v1/namespaces/default/pods", &pod).await;
    bed
}

async fn post(bed: &Bed, path: &str, object: &Value) {
    bed.endpoint().post_json(path, object).await.unwrap();
}

/// Grants a user these rights: group, resource and verbs.
async fn grant(bed: &Bed, user: &str, rights: &[[&str; 3]]) {
    let rules: Vec<_> = rights
        .iter()
        .map(|[group, resource, verbs]| {
            json!({"apiGroups": [group], "resources": [resource], "verbs": verbs.split(',').collect::<Vec<_>>()})
        })
        .collect();
    let api = "rbac.authorization.k8s.io";
    let role =
        json!({"apiVersion": format!("{api}/v1"), "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules});
    post(bed, &format!("{RBAC}/clusterroles"), &role).await;
    let binding = json!({
        "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": user},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
    });
    post(bed, &format!("{RBAC}/clusterrolebindings"), &binding).await;
}

async fn why(bed: &Bed, user: &str, args: &[&str]) -> Ran {
    let kubeconfig = bed.kubeconfig(user, "", user);
    depguard(&[&["why", "--kubeconfig", &kubeconfig], args].concat()).await
}

const RULES: [&str; 3] = ["dependencies.opendefense.cloud", "*", "list"];
const READ_CLAIM: [&str; 3] = ["", "persistentvolumeclaims", "get"];
const DELETE_CLAIM: [&str; 3] = ["", "persistentvolumeclaims", "get,delete"];
const PODS: [&str; 3] = ["", "pods", "list"];
const CONFIGURATIONS: [&str; 3] = ["admissionregistration.k8s.io", "*", "list"];

#[tokio::test]
async fn what_cannot_be_read_is_never_nothing() {
    let bed = cluster().await;
    let claim = format!("{CLAIMS}/free");
    let free = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {
        "name": "free", "finalizers": ["kubernetes.io/pvc-protection"]}});
    post(&bed, CLAIMS, &free).await;

    grant(&bed, "reader", &[RULES, DELETE_CLAIM, PODS, CONFIGURATIONS]).await;
    let told = why(&bed, "reader", &["pvc", "data"]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    assert!(told.out.starts_with("hangs: persistentvolumeclaims/data would stay after its deletion"), "{told:?}");
    assert!(told.out.contains("holds: Pod/web uses the claim\n  next: delete Pod/web\n"), "{told:?}");
    let told = why(&bed, "reader", &["pvc", "free"]).await;
    assert_eq!(told.status, ExitStatus::Well, "{told:?}");

    // Without the right to list Pods, nobody knows that the claim is free.
    grant(&bed, "blind", &[RULES, DELETE_CLAIM, CONFIGURATIONS]).await;
    let told = why(&bed, "blind", &["pvc", "free", "-o", "wide"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(told.out.contains("1 part could not be read: pods (no right to read)"), "{told:?}");

    // Without the right to delete, the deletion is refused, whatever else is true.
    grant(&bed, "guest", &[RULES, READ_CLAIM, PODS, CONFIGURATIONS]).await;
    let told = why(&bed, "guest", &["pvc", "free"]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    let head = "refused: persistentvolumeclaims/free can't be deleted with your rights (source: ";
    assert!(told.out.starts_with(head), "{told:?}");
    assert!(told.out.contains("refuses: you have no right to delete persistentvolumeclaims in namespace default"));
    // The dry runs have deleted nothing.
    bed.endpoint().get_json(&claim).await.unwrap();
}

#[tokio::test]
async fn a_pod_that_is_late_is_explained_by_its_node() {
    let bed = cluster().await;
    let pods = "/api/v1/namespaces/default/pods";
    let stuck = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stuck", "finalizers": ["example.com/a"]},
        "spec": {"nodeName": "n2"}});
    post(&bed, pods, &stuck).await;
    bed.endpoint().delete(&format!("{pods}/stuck"), Preconditions::default()).await.unwrap();
    let pod = ["", "pods", "get"];
    grant(&bed, "reader", &[RULES, pod, CONFIGURATIONS, ["", "nodes", "get"]]).await;
    grant(&bed, "blind", &[RULES, pod, CONFIGURATIONS]).await;

    let told = why(&bed, "blind", &["pod", "stuck", "-o", "wide"]).await;
    assert!(told.out.contains("could not be read: nodes/n2 ("), "{told:?}");
    assert!(!told.out.contains("holds: Node"), "{told:?}");
    let told = why(&bed, "reader", &["pod", "stuck"]).await;
    assert!(
        told.out.contains("holds: Node/n2 is gone, so no kubelet confirms that the Pod has ended (for "),
        "{told:?}"
    );
    assert!(told.out.contains("next: check that kube-controller-manager runs"), "{told:?}");

    let ready = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    post(&bed, "/api/v1/nodes", &ready).await;
    let told = why(&bed, "reader", &["pod", "stuck"]).await;
    assert!(told.out.contains("holds: the kubelet of Node/n2 has not ended the Pod (for "), "{told:?}");
    assert!(told.out.contains("next: look at the Pod's events, and at the kubelet's log on n2"), "{told:?}");
}

/// Configuration of a webhook that nobody answers.
fn webhook(name: &str, failure_policy: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{"name": format!("{name}.example.com"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": failure_policy, "clientConfig": {"service": {"namespace": "gone", "name": "policy"}},
            "rules": [{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["persistentvolumeclaims"]}]}],
    })
}

#[tokio::test]
async fn a_webhook_counts_as_far_as_the_dry_run_says() {
    let bed = cluster().await;
    bed.endpoint().delete("/api/v1/namespaces/default/pods/web", Default::default()).await.unwrap();
    // This webhook can't be called, and lets the deletion pass.
    post(&bed, WEBHOOKS, &webhook("lenient", "Ignore")).await;
    let told = bed.depguard(&["why", "pvc", "data"]).await;
    assert_eq!(told.status, ExitStatus::Well, "{told:?}");
    assert!(!told.out.contains("lenient"), "{told:?}");

    post(&bed, WEBHOOKS, &webhook("strict", "Fail")).await;
    let path = format!("{CLAIMS}/data");
    eventually("the API server goes by it", async || match bed.endpoint().delete_dry_run(&path).await {
        Ok(_) => Err("it is not refused"),
        Err(_) => Ok(()),
    })
    .await;
    let told = bed.depguard(&["why", "pvc", "data"]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    assert!(told.out.starts_with("refused: persistentvolumeclaims/data is refused by strict.example.com"), "{told:?}");
    assert!(told.out.contains("refuses: the API server can't call webhook strict.example.com"), "{told:?}");
    let lenient = "may refuse: validating webhook lenient.example.com (ValidatingWebhookConfiguration lenient, failurePolicy \
                   Ignore, Service gone/policy) reviews the deletion; the Service does not exist\n";
    assert!(told.out.contains(lenient), "{told:?}");

    // Whoever may not read the configurations learns it from the API server.
    grant(&bed, "tenant", &[RULES, DELETE_CLAIM, PODS]).await;
    let told = why(&bed, "tenant", &["pvc", "data"]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    assert!(told.out.starts_with("refused: persistentvolumeclaims/data is refused by strict.example.com"), "{told:?}");
}

#[tokio::test]
async fn a_namespace_that_hangs_says_what_holds_it() {
    let bed = cluster().await;
    let namespaces = "/api/v1/namespaces";
    post(&bed, namespaces, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})).await;
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/x"]}});
    post(&bed, &format!("{namespaces}/shop/configmaps"), &map).await;
    let told = bed.depguard(&["why", "ns/shop"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(told.out.contains("may hold: finalizer example.com/x of ConfigMap/shop/held: "), "{told:?}");

    bed.endpoint().delete(&format!("{namespaces}/shop"), Default::default()).await.unwrap();
    let told = eventually("the namespace hangs", async || {
        let told = bed.depguard(&["why", "ns/shop"]).await;
        if told.out.contains("condition NamespaceFinalizersRemaining") { Ok(told) } else { Err(told.out) }
    })
    .await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    assert!(told.out.starts_with("hangs: namespaces/shop has been terminating since "), "{told:?}");
    assert!(told.out.contains("holds: finalizer kubernetes (for "), "{told:?}");
    assert!(told.out.contains("holds: finalizer example.com/x of ConfigMap/shop/held (for "), "{told:?}");

    // To whoever may not read what is inside, a namespace is never free.
    post(&bed, namespaces, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})).await;
    let told = bed.depguard(&["why", "ns", "other"]).await;
    assert_eq!(told.status, ExitStatus::Well, "{told:?}");
    grant(&bed, "tenant", &[RULES, ["", "namespaces", "get,delete"], CONFIGURATIONS]).await;
    let told = why(&bed, "tenant", &["ns", "other"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(told.err.contains("could not find out what blocks namespaces/other"), "{told:?}");

    // The API server itself refuses some deletions, to users with every right.
    let told = bed.depguard(&["why", "ns", "default"]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    assert!(told.out.starts_with("refused: namespaces/default is refused by the API server"), "{told:?}");
}

#[tokio::test]
async fn a_cluster_without_depguard_is_answered_too() {
    let bed = Bed::kubernetes_with_rights().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for name in ["free", "held"] {
        let finalizers: &[&str] = if name == "held" { &["example.com/x"] } else { &[] };
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "finalizers": finalizers}});
        post(&bed, maps, &map).await;
    }
    bed.endpoint().delete(&format!("{maps}/held"), Default::default()).await.unwrap();
    for (name, status, head) in [("free", ExitStatus::Well, "free: "), ("held", ExitStatus::Finding, "hangs: ")] {
        let told = bed.depguard(&["why", "configmap", name]).await;
        assert_eq!(told.status, status, "{told:?}");
        assert!(told.out.starts_with(head), "{told:?}");
        assert!(told.err.contains("depguard is not installed here"), "{told:?}");
    }
    // A kind that could not be discovered is no kind that does not exist.
    let faults = bed.testbed.faults();
    post(&bed, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &manifests::crd()).await;
    let rules = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
    eventually("the rules are served", async || bed.endpoint().list_json(rules).await).await;
    faults.inject(Fault::InternalError, When::always().path("/apis/dependencies.opendefense.cloud/v1alpha1"));
    let told = bed.depguard(&["why", "configmap", "free"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
}
