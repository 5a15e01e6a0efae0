//! `version`: a version that can't be known is never taken for equal.

use depguard_controller::manifests::VERSION_ANNOTATION;
use depguard_testbed::{Fault, When};
use k8s_openapi::jiff::Timestamp;
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::bed::Bed;
use crate::tool::depguard;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/depguard-system/deployments";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/depguard-system/leases";

/// Plays the cluster's own controller: all pods of the Deployments are of their present version.
async fn roll_out(bed: &Bed) {
    for name in ["depguard-controller", "depguard-webhook"] {
        let path = format!("{DEPLOYMENTS}/{name}");
        let mut deployment = bed.endpoint().get_json(&path).await.unwrap();
        let (generation, replicas) = (&deployment["metadata"]["generation"], &deployment["spec"]["replicas"]);
        deployment["status"] = json!({"observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": 1});
        bed.endpoint().put_json(&format!("{path}/status"), &deployment).await.unwrap();
    }
}

#[tokio::test]
async fn the_client_alone_needs_no_server() {
    let told = depguard(&["version", "--client", "--kubeconfig", "/nope"]).await.well();
    assert_eq!(told, format!("client: {VERSION}\n"));
    let json: Value = serde_json::from_str(&depguard(&["version", "--client", "-ojson"]).await.well()).unwrap();
    assert_eq!((&json["kind"], &json["client"]), (&"VersionReport".into(), &VERSION.into()), "{json}");
}

#[tokio::test]
async fn without_a_cluster_only_the_version_of_the_client_is_known() {
    let told = depguard(&["version", "--kubeconfig", "/nope"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    let first = format!("client: {VERSION}\ncontroller: unknown: cannot use the kubeconfig `/nope`");
    assert!(told.out.starts_with(&first) && told.out.ends_with("skew: unknown\n"), "{told:?}");
    assert!(told.err.contains("--client asks no cluster") && !told.err.contains("-f"), "{told:?}");
}

#[tokio::test]
async fn in_kcp_the_processes_are_unknown_without_their_cluster() {
    let bed = Bed::kcp().await;
    let told = bed.depguard(&["version"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    let why = "unknown: the processes run in a Kubernetes cluster: name it with --pods-kubeconfig";
    assert_eq!(told.out, format!("client: {VERSION}\ncontroller: {why}\nwebhook: {why}\nskew: unknown\n"));
}

#[tokio::test]
async fn versions_are_compared_only_if_both_programs_state_them() {
    let bed = Bed::kubernetes().await;
    let none = bed.depguard(&["version"]).await;
    assert_eq!(none.status, ExitStatus::Failure, "{none:?}");
    assert!(none.out.contains("webhook: unknown: there is no deployment depguard-webhook"), "{none:?}");
    assert!(none.out.ends_with("skew: unknown\n"), "{none:?}");

    let image = format!("registry.example.com/depguard:{VERSION}");
    bed.depguard(&["install", "--image", &image]).await.well();
    let rolling = bed.depguard(&["version"]).await;
    assert_eq!(rolling.status, ExitStatus::Failure, "{rolling:?}");
    roll_out(&bed).await;
    let told = bed.depguard(&["version"]).await.well();
    assert_eq!(
        told,
        format!(
            "client: {VERSION}\ncontroller: {VERSION} (deployment/depguard-controller)\n\
             webhook: {VERSION} (deployment/depguard-webhook)\nskew: none\n"
        )
    );

    // The controller that acts says its version itself.
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "depguard-controller", "annotations": {VERSION_ANNOTATION: "7.0.0"}},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 36_000, "renewTime": Timestamp::now().to_string()},
    });
    lease = bed.endpoint().post_json(LEASES, &lease).await.unwrap();
    let apart = bed.depguard(&["version"]).await;
    assert_eq!(apart.status, ExitStatus::Finding, "{apart:?}");
    assert!(apart.out.contains("controller: 7.0.0 (lease/depguard-controller)\n"), "{apart:?}");
    assert!(apart.out.contains(&format!("skew: not supported: client {VERSION} and controller 7.0.0")), "{apart:?}");

    // A controller that is gone runs in no version.
    lease["spec"]["renewTime"] = "2026-01-01T00:00:00.000000Z".into();
    bed.endpoint().put_json(&format!("{LEASES}/depguard-controller"), &lease).await.unwrap();
    let stopped = bed.depguard(&["version"]).await;
    assert_eq!(stopped.status, ExitStatus::Failure, "{stopped:?}");
    assert!(stopped.out.contains("controller: unknown: no controller has renewed its Lease"), "{stopped:?}");

    bed.endpoint().delete(&format!("{LEASES}/depguard-controller"), Default::default()).await.unwrap();
    bed.testbed.faults().inject(Fault::Forbidden, When::always().method("GET").path("/deployments/depguard-webhook"));
    let forbidden = bed.depguard(&["version", "-o", "json"]).await;
    assert_eq!(forbidden.status, ExitStatus::Failure, "{forbidden:?}");
    let report: Value = serde_json::from_str(&forbidden.out).unwrap();
    crate::reports::assert_fits(&report);
    assert_eq!(report["skew"]["state"], "unknown", "{report}");
    assert_eq!(
        report["webhook"]["unknown"], "you need the right to get deployments.apps in namespace depguard-system",
        "{report}"
    );
}
