use std::process::{Command, Stdio};

use depguard_e2e::RingKind;
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::order::stage::{CONTROL_PLANES, Stage};
use crate::tool::depguard;

/// Returns the wave and the name of each object in the table, wave by wave.
fn waves(table: &str) -> Vec<(String, String)> {
    let rows = table.lines().skip(1).map(|row| {
        let cells: Vec<_> = row.split_whitespace().collect();
        (cells[0].to_owned(), cells[2].split('/').nth(1).unwrap().to_owned())
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

fn expected(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(wave, name)| ((*wave).to_owned(), (*name).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_go_in_the_order_of_their_references_each_wave_after_the_last() {
    for control_plane in CONTROL_PLANES {
        let stage = Stage::set(control_plane).await;
        let told = stage.order(&[]).await;
        assert_eq!(told.status, ExitStatus::Well, "{told:?}");
        let all = [("1", "free"), ("1", "m1"), ("1", "m2"), ("2", "a"), ("3", "base")];
        assert_eq!(waves(&told.out), expected(&all), "{told:?}");

        let refused = stage.order(&["--delete"]).await;
        assert_eq!(refused.status, ExitStatus::Failure, "{refused:?}");
        assert!(refused.err.contains("--yes"), "{refused:?}");
        let dry = stage.order(&["--delete", "--dry-run=client"]).await;
        assert_eq!((dry.status, dry.out.lines().count()), (ExitStatus::Well, 5), "{dry:?}");
        let dry = stage.order(&["--delete", "--dry-run=server"]).await;
        assert_eq!((dry.status, dry.out.lines().count()), (ExitStatus::Well, 3), "{dry:?}");
        assert!(dry.err.contains("2 objects of later waves were not tried"), "{dry:?}");
        stage.networks_are_untouched().await;

        // A finalizer holds the first wave, and so the networks.
        let (deleted, ()) = tokio::join!(stage.order(&["--delete", "--yes", "--timeout=10m"]), async {
            stage.until_going("m1").await;
            stage.until_gone("m2").await;
            stage.networks_are_untouched().await;
            stage.consumer().release(&stage.cast.vm, "m1").await.unwrap();
        });
        assert_eq!(deleted.status, ExitStatus::Well, "{deleted:?}");
        assert!(deleted.out.ends_with("5 objects are gone, 0 are left\n"), "{deleted:?}");
        stage.all_is_gone().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_cluster_is_not_deleted() {
    let stage = Stage::set(RingKind::TestbedKubernetes).await;
    let kubeconfig = stage.kubeconfig("");
    let refused = depguard(&["order", "-A", "--delete", "--yes", "--kubeconfig", kubeconfig.to_str().unwrap()]).await;
    assert_eq!(refused.status, ExitStatus::Failure, "{refused:?}");
    assert!(refused.err.contains("name a namespace"), "{refused:?}");
    stage.consumer().untouched(&stage.cast.vpc, "free").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_in_the_middle_it_goes_on_where_it_was() {
    let stage = Stage::set(RingKind::TestbedKubernetes).await;
    let mut crashing = std::pin::pin!(stage.order(&["--delete", "--yes"]));
    tokio::select! {
        ended = &mut crashing => panic!("it can't end while a finalizer holds m1: {ended:?}"),
        () = async { stage.until_going("m1").await; stage.until_gone("m2").await } => {}
    }
    stage.networks_are_untouched().await;
    let told = stage.order(&["-o", "json"]).await;
    let told: Value = serde_json::from_str(&told.out).unwrap();
    let states: Vec<_> =
        told["waves"][0].as_array().unwrap().iter().map(|o| (&o["name"], &o["beingDeleted"])).collect();
    assert!(states.contains(&(&json!("m1"), &json!(true))), "{told}");
    // The objects that are left are held, and the command says so.
    let late = stage.order(&["--delete", "--yes", "--timeout=1s"]).await;
    assert_eq!(late.status, ExitStatus::Finding, "{late:?}");
    assert!(late.err.contains("waits for its finalizers: example.com/detach"), "{late:?}");
    assert!(late.err.contains("vpcs") && late.err.contains("blocked by objects that are left"), "{late:?}");
    stage.networks_are_untouched().await;
    stage.consumer().release(&stage.cast.vm, "m1").await.unwrap();
    let deleted = stage.order(&["--delete", "--yes"]).await;
    assert_eq!(deleted.status, ExitStatus::Well, "{deleted:?}");
    stage.all_is_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_it_stops_and_says_what_is_left() {
    let stage = Stage::set(RingKind::TestbedKubernetes).await;
    let child = Command::new(env!("CARGO_BIN_EXE_kubectl-depguard"))
        .args(stage.arguments(&["--delete", "--yes"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    stage.until_going("m1").await;
    stage.until_gone("m2").await;
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted: run it again to continue"), "{said}");
    assert!(said.contains("note: 2 vpcs.") && said.contains(" are blocked by objects that are left"), "{said}");
    stage.networks_are_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_decided_now_is_asked_again() {
    let mut stage = Stage::set(RingKind::TestbedKubernetes).await;
    stage.consumer().release(&stage.cast.vm, "m1").await.unwrap();
    // Machines can be deleted without a webhook; networks are refused until there is one.
    stage.depguard.kill_webhook();
    let args = stage.arguments(&["--delete", "--yes"]);
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let (deleted, ()) = tokio::join!(depguard(&args), async {
        stage.until_gone("m1").await;
        stage.until_gone("m2").await;
        stage.networks_are_untouched().await;
        stage.depguard.start_webhook().await.unwrap();
    });
    assert_eq!(deleted.status, ExitStatus::Well, "{deleted:?}");
    stage.all_is_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_shown_with_its_message_and_what_it_holds_stays() {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    let stage = Stage::set(RingKind::TestbedKubernetes).await;
    // This user can see and delete networks, but doesn't know about machines.
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "networks"},
        "rules": [
            {"apiGroups": [stage.cast.vpc.group], "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": ["dependencies.opendefense.cloud"], "resources": ["dependencyrules"], "verbs": ["get", "list"]},
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "networks"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "networks"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}],
    });
    let api = &stage.consumer().api;
    api.post(&format!("{RBAC}/clusterroles"), &role).await.unwrap().ok().unwrap();
    api.post(&format!("{RBAC}/clusterrolebindings"), &binding).await.unwrap().ok().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("tenant");
    std::fs::write(&kubeconfig, stage.world.ring().kubeconfig_of("tenant")).unwrap();

    let args =
        ["order", &stage.consumer().namespace, "--delete", "--yes", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let refused = depguard(&args).await;
    assert_eq!(refused.status, ExitStatus::Finding, "{refused:?}");
    assert!(refused.err.contains("could not read virtualmachines"), "{refused:?}");
    let message = "cannot delete vpcs/a: still referenced by VirtualMachine/m1, VirtualMachine/m2";
    assert!(refused.err.contains(message), "{refused:?}");
    assert!(refused.out.ends_with("1 object is gone, 2 are left\n"), "{refused:?}");
    stage.networks_are_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_is_named_by_its_path() {
    let stage = Stage::set(RingKind::TestbedKcp).await;
    let elsewhere = stage.kubeconfig("root");
    let workspace = stage.consumer().path.clone();
    let told = depguard(&["order", &workspace, "--kubeconfig", elsewhere.to_str().unwrap()]).await;
    assert_eq!(told.status, ExitStatus::Well, "{told:?}");
    let all = [("1", "free"), ("1", "m1"), ("1", "m2"), ("2", "a"), ("3", "base")];
    assert_eq!(waves(&told.out), expected(&all), "{told:?}");
}
