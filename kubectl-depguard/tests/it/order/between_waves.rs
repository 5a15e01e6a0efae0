//! `order --delete` looks again between waves: at rules, at dependents, and at what it can't read any more.

use kubectl_depguard::ExitStatus;
use serde_json::json;

use crate::order::unguarded::{Unguarded, VMS, VPCS, backup_rule, vm, vpc};
use crate::tool::Ran;

/// Deletes `base`, and lets `change` happen while the first wave waits for the finalizer of `m1`.
async fn meanwhile(stage: &Unguarded, change: impl Future<Output = ()>) -> Ran {
    let (ran, ()) = tokio::join!(stage.delete_base(&["--timeout=10m"]), async {
        stage.until_going().await;
        change.await;
        stage.release().await;
    });
    ran
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_dependent_stops_the_deletion() {
    let stage = Unguarded::set().await;
    let stopped = meanwhile(&stage, async { stage.create(VMS, &vm("m9", "a")).await }).await;
    assert_eq!(stopped.status, ExitStatus::Finding, "{stopped:?}");
    let reference = "VirtualMachine/red/m9 (rule machines, spec.networks[*].vpc) refers to VPC/red/a";
    assert!(stopped.err.contains(&format!("the first plan does not have: {reference}")), "{stopped:?}");
    assert!(stopped.err.contains("run it again to see the new plan"), "{stopped:?}");
    assert!(stopped.out.ends_with("2 objects are gone, 2 are left\n"), "{stopped:?}");
    stage.there_are(&["a", "b1", "base", "free", "m3", "m9"]).await;
    // The next plan has it.
    assert_eq!(stage.delete_base(&[]).await.status, ExitStatus::Well);
    stage.there_are(&["b1", "free", "m3"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_under_a_new_rule_stops_the_deletion() {
    let stage = Unguarded::set().await;
    let stopped = meanwhile(&stage, async { stage.add_rule("backups", &backup_rule("Deny")).await }).await;
    assert_eq!(stopped.status, ExitStatus::Finding, "{stopped:?}");
    let reference = "Backup/red/b1 (rule backups, spec.vpc) refers to VPC/red/a";
    assert!(stopped.err.contains(&format!("the first plan does not have: {reference}")), "{stopped:?}");
    stage.there_are(&["a", "b1", "base", "free", "m3"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_longer_depends_on_the_named_object_stays() {
    let stage = Unguarded::set().await;
    let detach = json!([{"op": "replace", "path": "/spec/base", "value": "free"}]);
    let deleted = meanwhile(&stage, async { stage.patch(&format!("{VPCS}/a"), &detach).await }).await;
    assert_eq!(deleted.status, ExitStatus::Finding, "{deleted:?}");
    assert!(deleted.err.contains("vpcs.network.example.com/a in namespace red no longer depends on"), "{deleted:?}");
    assert!(deleted.out.ends_with("3 objects are gone, 1 is left\n"), "{deleted:?}");
    stage.there_are(&["a", "b1", "free", "m3"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_no_longer_be_read_stops_the_deletion() {
    let stage = Unguarded::set().await;
    let stopped = meanwhile(&stage, async { stage.scene.forbid("/virtualmachines?limit") }).await;
    assert_eq!(stopped.status, ExitStatus::Failure, "{stopped:?}");
    let why = "could not read virtualmachines.compute.example.com (no right to read)";
    assert!(stopped.err.contains(&format!("error: stopped, as nobody can tell the order: {why}")), "{stopped:?}");
    stage.there_are(&["a", "b1", "base", "free", "m3"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_fails_for_a_moment_is_asked_again() {
    let stage = Unguarded::set().await;
    let fails = depguard_testbed::When::always().path("/dependencyrules?").times(2);
    let deleted = meanwhile(&stage, async { stage.scene.fail(fails) }).await;
    assert_eq!(deleted.status, ExitStatus::Well, "{deleted:?}");
    stage.there_are(&["b1", "free", "m3"]).await;
}

/// Another machine has the name of one that is gone. It refers to nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_was_made_anew_counts_as_gone_and_is_told() {
    let stage = Unguarded::set().await;
    let m2 = VMS.replace("red", "blue");
    let deleted = meanwhile(&stage, async {
        stage.until_gone(&format!("{m2}/m2")).await;
        stage.create(&m2, &vm("m2", "nowhere")).await;
    })
    .await;
    assert_eq!(deleted.status, ExitStatus::Well, "{deleted:?}");
    let note = "deleted and made anew by somebody, and left as they are: VirtualMachine/blue/m2";
    assert!(deleted.err.contains(note), "{deleted:?}");
    assert!(deleted.out.ends_with("4 objects are gone, 0 are left\n"), "{deleted:?}");
    stage.there_are(&["b1", "free", "m2", "m3"]).await;
}

/// Nobody named the new network `base`, so that nobody wants to delete `a` for it.
#[tokio::test(flavor = "multi_thread")]
async fn the_dependents_of_a_named_object_that_was_made_anew_stay() {
    let stage = Unguarded::set().await;
    let ended = meanwhile(&stage, async {
        let base = format!("{VPCS}/base");
        stage.scene.objects().delete(&base, depguard_kcp::Preconditions::default()).await.unwrap();
        stage.create(VPCS, &vpc("base", &json!({}))).await;
    })
    .await;
    assert_eq!(ended.status, ExitStatus::Finding, "{ended:?}");
    assert!(ended.err.contains("made anew by somebody, and left as they are: VPC/red/base"), "{ended:?}");
    assert!(ended.out.ends_with("3 objects are gone, 1 is left\n"), "{ended:?}");
    stage.there_are(&["a", "b1", "base", "free", "m3"]).await;
}

/// A new object in nobody's way does not stop the deletion, but the namespace is not empty.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_object_of_the_namespace_is_told_and_stays() {
    let stage = Unguarded::set().await;
    // The machine in the other namespace would hold the networks.
    stage.patch(&format!("{}/m2", VMS.replace("red", "blue")), &json!([{"op": "remove", "path": "/spec"}])).await;
    let (deleted, ()) = tokio::join!(stage.order(&["red", "--delete", "--yes", "--timeout=10m"]), async {
        stage.until_going().await;
        stage.create(VPCS, &vpc("late", &json!({}))).await;
        stage.release().await;
    });
    assert_eq!(deleted.status, ExitStatus::Finding, "{deleted:?}");
    assert!(deleted.err.contains("new since the first plan, and not deleted: VPC/red/late"), "{deleted:?}");
    stage.there_are(&["b1", "late", "m2"]).await;
}
