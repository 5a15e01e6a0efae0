//! Objects that `install` creates.

use depguard_core::ControlPlane;
use depguard_kcp::Preconditions;
use kubectl_depguard::ExitStatus;
use serde_json::json;

use crate::bed::{Bed, connect, exists};
use crate::tool::depguard;

const INSTALL: [&str; 3] = ["install", "--image", "registry.example.com/depguard:0.1.0"];
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/depguard-system/deployments/depguard-webhook";
const TLS: &str = "/api/v1/namespaces/depguard-system/secrets/depguard-webhook-tls";
const CA: &str = "/api/v1/namespaces/depguard-system/secrets/depguard-ca";

#[tokio::test]
async fn everything_is_made_once_and_then_left_as_it_is() {
    let bed = Bed::kubernetes().await;
    let first = bed.depguard(&INSTALL).await;
    assert!(first.err.contains("depguard refuses nothing until you create a DependencyRule"), "{}", first.err);
    let first = first.well();
    assert!(
        first.starts_with("namespace/depguard-system created\ncustomresourcedefinition.apiextensions.k8s.io/"),
        "{first}"
    );
    assert!(first.lines().all(|line| line.ends_with(" created")), "{first}");
    for made in [
        "secret/depguard-ca",
        "secret/depguard-webhook-tls",
        "deployment.apps/depguard-webhook",
        "deployment.apps/depguard-controller",
        "service/depguard-webhook",
    ] {
        assert!(first.contains(&format!("{made} created\n")), "{made}: {first}");
    }
    let tls = exists(&bed.endpoint(), TLS).await;

    let rule = json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "r"},
        "spec": {
            "dependent": {"group": "", "version": "v1", "kind": "Pod", "resource": "pods"},
            "dependencies": [{"group": "", "version": "v1", "resource": "secrets", "fieldRef": {"path": ".spec.a"}}],
        },
    });
    bed.endpoint().post_json("/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules", &rule).await.unwrap();
    let again = bed.depguard(&INSTALL).await;
    assert!(!again.err.contains("nothing is refused until"), "there is a rule: {}", again.err);
    let again = again.well();
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    assert_eq!(exists(&bed.endpoint(), TLS).await, tls);

    let other = bed.depguard(&["install", "--image", "registry.example.com/depguard:0.2.0"]).await.well();
    let changed: Vec<_> = other.lines().filter(|line| !line.ends_with(" unchanged")).collect();
    assert_eq!(
        changed,
        ["deployment.apps/depguard-controller configured", "deployment.apps/depguard-webhook configured"]
    );
}

#[tokio::test]
async fn a_certificate_is_renewed_by_the_same_ca() {
    let bed = Bed::kubernetes().await;
    bed.depguard(&INSTALL).await.well();
    let (endpoint, first) = (bed.endpoint(), exists(&bed.endpoint(), TLS).await.unwrap());
    // The Secret looks as if its certificate were for other names, or about to end.
    let mut secret = first.clone();
    secret["metadata"]["annotations"] = json!({});
    endpoint.put_json(TLS, &secret).await.unwrap();
    let again = bed.depguard(&INSTALL).await.well();
    assert!(again.contains("secret/depguard-webhook-tls configured\n"), "{again}");
    let second = exists(&endpoint, TLS).await.unwrap();
    assert_ne!(first["data"]["tls.crt"], second["data"]["tls.crt"]);
    assert_eq!(first["data"]["ca.crt"], second["data"]["ca.crt"]);

    // Without the CA's key no such certificate can be issued, and `install` makes no other CA.
    endpoint
        .put_json(TLS, &{
            let mut of = second.clone();
            of["metadata"]["annotations"] = json!({});
            of
        })
        .await
        .unwrap();
    endpoint.delete(CA, Preconditions::default()).await.unwrap();
    let refused = bed.depguard(&INSTALL).await;
    assert_eq!(refused.status, ExitStatus::Failure);
    assert!(refused.err.contains("--tls-secret"), "{}", refused.err);
    assert_eq!(exists(&endpoint, TLS).await.unwrap()["data"], second["data"]);
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let bed = Bed::kubernetes().await;
    let client = depguard(&[&INSTALL[..], &["--control-plane=kubernetes", "--dry-run=client"]].concat()).await.well();
    assert!(client.lines().all(|line| line.ends_with(" created (dry run)")), "{client}");
    let server = bed.depguard(&[&INSTALL[..], &["--dry-run=server"]].concat()).await.well();
    assert!(server.contains("namespace/depguard-system created (server dry run)\n"), "{server}");
    assert!(
        server.contains("deployment.apps/depguard-webhook not tried: its namespace does not exist yet"),
        "{server}"
    );
    assert_eq!(exists(&bed.endpoint(), "/api/v1/namespaces/depguard-system").await, None);
    assert_eq!(exists(&bed.endpoint(), "/apis/rbac.authorization.k8s.io/v1/clusterroles/depguard-webhook").await, None);
}

#[tokio::test]
async fn what_somebody_else_made_is_not_taken() {
    let bed = Bed::kubernetes().await;
    let endpoint = bed.endpoint();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "depguard-system"}});
    endpoint.post_json("/api/v1/namespaces", &namespace).await.unwrap();
    let missing = bed.depguard(&[&INSTALL[..], &["--tls-secret=pair"]].concat()).await;
    assert!(missing.err.contains("there is no Secret pair in namespace depguard-system"), "{}", missing.err);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pair"},
        "data": {"tls.crt": "YQ==", "tls.key": "YQ==", "ca.crt": "YQ=="}});
    endpoint.post_json("/api/v1/namespaces/depguard-system/secrets", &secret).await.unwrap();
    let done = bed.depguard(&[&INSTALL[..], &["--tls-secret=pair"]].concat()).await.well();
    assert!(done.starts_with("namespace/depguard-system unchanged\n"), "{done}");
    let deployment = exists(&endpoint, DEPLOYMENT).await.unwrap();
    assert_eq!(deployment["spec"]["template"]["spec"]["volumes"][0]["secret"]["secretName"], "pair");

    // A release of the chart stays unchanged.
    let mut of_helm = deployment;
    of_helm["metadata"]["annotations"] = json!({"meta.helm.sh/release-name": "guard"});
    endpoint.put_json(DEPLOYMENT, &of_helm).await.unwrap();
    let refused = bed.depguard(&[&INSTALL[..], &["--tls-secret=pair"]].concat()).await;
    assert_eq!(refused.status, ExitStatus::Failure);
    assert!(refused.err.contains("belongs to the Helm release `guard`"), "{}", refused.err);
}

#[tokio::test]
async fn in_kcp_the_workspace_the_export_and_the_bindings_are_made() {
    let bed = Bed::kcp().await;
    let workspace =
        |name: &str| json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
    bed.endpoint().post_json("/apis/tenancy.kcp.io/v1alpha1/workspaces", &workspace("network")).await.unwrap();
    let shard = bed.kubeconfig("shard", "system:admin", "masters");
    let install = ["install", "--provider=root:network", "--shard-kubeconfig", &shard];
    let done = bed.depguard(&install).await;
    assert!(done.err.contains("note: not done: the processes; "), "{}", done.err);
    let out = done.well();
    assert!(out.starts_with("workspace.tenancy.kcp.io/dep-ctrl created in workspace root\n"), "{out}");
    for made in [
        "apiexport.apis.kcp.io/dependencies.opendefense.cloud created in workspace root:dep-ctrl",
        "apibinding.apis.kcp.io/dependencies.opendefense.cloud created in workspace root:network",
        "clusterrole.rbac.authorization.k8s.io/depguard-webhook created in workspace system:admin of shard 1",
    ] {
        assert!(out.contains(&format!("{made}\n")), "{made}: {out}");
    }
    let rules = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
    assert_eq!(bed.workspace("root:network").list_json(rules).await.unwrap().items, Vec::<serde_json::Value>::new());
    // Only the account of depguard's own workspace may read.
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/depguard-webhook";
    let binding = connect(&shard, ControlPlane::Kcp).await.own_endpoint().get_json(path).await;
    let itself =
        bed.workspace("root:dep-ctrl").get_json("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster").await.unwrap();
    let cluster = itself["metadata"]["annotations"]["kcp.io/cluster"].as_str().unwrap();
    let user = &binding.unwrap()["subjects"][0]["name"];
    assert_eq!(*user, format!("system:kcp:serviceaccount:{cluster}:depguard-system:depguard-webhook"));

    // kcp's own kubeconfigs of shards name no workspace.
    let base = bed.kubeconfig("base", "", "masters");
    for shard in [&shard, &base] {
        let install = ["install", "--provider=root:network", "--shard-kubeconfig", shard];
        let again = bed.depguard(&install).await.well();
        assert!(again.lines().all(|line| line.contains(" unchanged in workspace ")), "{again}");
    }
}

#[tokio::test]
async fn in_kcp_the_processes_go_to_the_cluster_that_is_named() {
    let (bed, pods) = (Bed::kcp().await, Bed::kubernetes().await);
    let kubeconfig = pods.kubeconfig("pods", "", "admin");
    let install = [&INSTALL[..], &["--pods-kubeconfig", &kubeconfig]].concat();
    let refused = bed.depguard(&install).await;
    assert!(refused.err.contains("--webhook-url"), "{}", refused.err);
    let out =
        bed.depguard(&[&install[..], &["--webhook-url=https://guard.example.com/validate"]].concat()).await.well();
    assert!(out.contains("deployment.apps/depguard-webhook created\n"), "{out}");
    let tls = exists(&pods.endpoint(), TLS).await.unwrap();
    let names = tls["metadata"]["annotations"]["depguard.opendefense.cloud/names"].as_str().unwrap();
    assert!(names.ends_with(",guard.example.com"), "{names}");
}

#[tokio::test]
async fn wrong_flags_are_told() {
    for (flags, said) in [
        (&["--control-plane=kubernetes"][..], "no image is named"),
        (
            &["--control-plane=kubernetes", "--image=a", "--webhook-url=https://a/validate"],
            "--webhook-url is for kcp only",
        ),
        (&["--control-plane=kubernetes", "--image="], "registry.example.com/depguard"),
        (&["--image=a", "--cert-manager=Secret/a"], "ClusterIssuer/name"),
        (&["--image=a", "--tls-secret=A/b"], "a Secret's name"),
        (&["--control-plane=kcp", "--workspace=Root"], "workspace path"),
    ] {
        let done = depguard(&[&["install", "--dry-run=client"], flags].concat()).await;
        assert_eq!(done.status, ExitStatus::Failure, "{flags:?}");
        assert!(done.err.contains(said), "{flags:?}: {}", done.err);
    }
}

#[tokio::test]
async fn what_could_not_be_looked_at_is_told() {
    let bed = Bed::kubernetes().await;
    let faults = bed.testbed.faults();
    let when = |path: &str| depguard_testbed::When::always().method("GET").path(path);
    // The owner of the namespace decides whether it may be deleted one day.
    let fault = faults.inject(depguard_testbed::Fault::InternalError, when("/namespaces/depguard-system"));
    let refused = bed.depguard(&INSTALL).await;
    assert_eq!((refused.status, refused.out.as_str()), (ExitStatus::Failure, ""), "{}", refused.err);
    assert!(refused.err.contains("could not find out who owns namespace/depguard-system"), "{}", refused.err);
    faults.clear(fault);

    faults.inject(depguard_testbed::Fault::Forbidden, when("/secrets/pair"));
    faults.inject(depguard_testbed::Fault::Forbidden, when("/v1alpha1/dependencyrules"));
    let done = bed.depguard(&[&INSTALL[..], &["--tls-secret=pair"]].concat()).await;
    for said in ["no right to read Secret pair in namespace", "could not read the DependencyRules"] {
        assert!(done.err.contains(said), "{said}: {}", done.err);
    }
    done.well();
}
