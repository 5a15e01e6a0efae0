//! `bench`: each request is a dry run, and nothing is deleted.

use std::time::Duration;

use depguard_testbed::{Fault, When};
use kubectl_depguard::ExitStatus;

use crate::references::scene::Scene;

const VPCS: &str = "/apis/network.example.com/v1/namespaces/default/vpcs";

#[tokio::test]
async fn each_request_is_a_dry_run_and_nothing_is_deleted() {
    let scene = Scene::kubernetes().await;
    for name in ["a", "b", "c"] {
        scene.vpc("default", name).await;
    }
    let count = |path: &str| {
        let when = When::always().method("DELETE").path(path);
        scene.inject(Fault::Latency(Duration::ZERO), when)
    };
    let (dry_runs, all) = (count("dryRun=All"), count("/"));
    for args in [&["bench", "--requests=60", "--at-once=8"][..], &["bench", "vpc", "a", "b", "--requests=20"]] {
        let told = scene.run(args).await;
        assert_eq!(told.status, ExitStatus::Well, "{told:?}");
        assert!(told.out.contains("allowed"), "{told:?}");
    }
    assert_eq!((scene.hits(dry_runs), scene.hits(all)), (80, 80));
    for name in ["a", "b", "c"] {
        assert!(scene.objects().get_json(&format!("{VPCS}/{name}")).await.is_ok(), "{name} was deleted");
    }
}

#[tokio::test]
async fn what_was_not_decided_is_a_finding() {
    let scene = Scene::kubernetes().await;
    scene.vpc("default", "a").await;
    scene.inject(Fault::Forbidden, When::always().method("DELETE"));
    let told = scene.run(&["bench", "--requests=5"]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    assert!(told.out.contains("forbidden (no right to delete)   5"), "{told:?}");
    assert!(told.out.contains("5 requests about 1 objects, 16 at once"), "{told:?}");
}

#[tokio::test]
async fn without_objects_it_says_what_to_do() {
    let scene = Scene::kubernetes().await;
    let told = scene.run(&["bench"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(told.err.contains("there is no object of a kind that is a target in a rule: vpcs.network"), "{told:?}");
}
