//! A user who may read one namespace and nothing else: what can be answered is answered, and one line tells the rest.

use kubectl_depguard::ExitStatus::{Failure, Finding, Well};
use serde_json::{Value, json};

use crate::references::scene::{RULES, Scene, define, post};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Sets the scene: `m1` in namespace red is on VPC red/a and disk `d`, which only machines of its own namespace name.
async fn scene() -> Scene {
    let scene = Scene::kubernetes_with_rights().await;
    let cluster = scene.objects();
    define(cluster, "disk.example.com", "v1", "disks", "Disk", "Namespaced").await;
    let rule = json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "disks"},
        "spec": {
            "dependent": {"group": "compute.example.com", "version": "v1", "kind": "VirtualMachine", "resource": "virtualmachines"},
            "dependencies": [{"group": "disk.example.com", "version": "v1", "resource": "disks", "fieldRef": {"path": ".spec.disk"}}],
        },
    });
    post(cluster, RULES, &rule).await;
    scene.vpc("red", "a").await;
    scene.vpc("red", "spare").await;
    for name in ["d", "free"] {
        let disk = json!({"apiVersion": "disk.example.com/v1", "kind": "Disk", "metadata": {"name": name, "namespace": "red"}});
        post(cluster, "/apis/disk.example.com/v1/namespaces/red/disks", &disk).await;
    }
    scene.vm("blue", "m2", &["red/a"]).await;
    let machine = json!({
        "apiVersion": "compute.example.com/v1", "kind": "VirtualMachine", "metadata": {"name": "m1", "namespace": "red"},
        "spec": {"networks": [{"vpc": "a"}], "disk": "d"},
    });
    post(cluster, "/apis/compute.example.com/v1/namespaces/red/virtualmachines", &machine).await;
    scene
}

/// Grants alice these resources in namespace red, or in the whole cluster.
async fn grant(scene: &Scene, namespace: Option<&str>, name: &str, resources: &[&str]) {
    let (prefix, place) = match namespace {
        Some(namespace) => ("", format!("{RBAC}/namespaces/{namespace}")),
        None => ("Cluster", RBAC.to_owned()),
    };
    let api = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{api}/v1"), "kind": format!("{prefix}Role"), "metadata": {"name": name},
        "rules": [{"apiGroups": ["*"], "resources": resources, "verbs": ["get", "list", "delete"]}],
    });
    let prefix = prefix.to_lowercase();
    post(scene.objects(), &format!("{place}/{prefix}roles"), &role).await;
    let binding = json!({
        "apiVersion": format!("{api}/v1"), "kind": role["kind"].as_str().map(|kind| format!("{kind}Binding")),
        "metadata": {"name": name}, "roleRef": {"apiGroup": api, "kind": role["kind"], "name": name},
        "subjects": [{"apiGroup": api, "kind": "User", "name": "alice"}],
    });
    post(scene.objects(), &format!("{place}/{prefix}rolebindings"), &binding).await;
}

fn words(command: &str) -> Vec<&str> {
    command.split(' ').collect()
}

#[tokio::test]
async fn what_the_namespace_tells_is_answered() {
    let scene = scene().await;
    grant(&scene, Some("red"), "all", &["*"]).await;
    grant(&scene, None, "rules", &["dependencyrules"]).await;
    for (command, status, of_admin, says) in [
        ("why disk free -n red", Well, Well, "free: nothing refers to disks/free"),
        ("why disk d -n red", Finding, Finding, "VirtualMachine/m1"),
        ("impact disk d -n red", Well, Well, "1 object depends on Disk/red/d"),
        ("impact disk free -n red", Well, Well, "nothing depends on Disk/red/free"),
        ("impact disk d -n red -o name", Well, Well, "virtualmachines.compute.example.com/m1"),
        ("impact vpc a -n red", Failure, Well, "VirtualMachine/red/m1"),
        ("impact vpc a -n red -o json", Failure, Well, "\"count\""),
        ("dangling -n red", Well, Well, ""),
        ("unused -n red", Failure, Finding, "Disk/red/free   unused"),
        ("unused -n red -o name", Failure, Finding, "disks.disk.example.com/free\n"),
        ("order disk d -n red", Well, Well, "disks.disk.example.com/d"),
        ("order red", Failure, Finding, "virtualmachines.compute.example.com/m1"),
        ("graph", Well, Well, "VirtualMachine"),
        ("graph --objects -n red", Well, Well, "VPC/red/a"),
        ("trace virtualmachine m1 -n red", Well, Well, "Disk/red/d"),
    ] {
        let told = scene.run(&words(command)).await;
        assert_eq!(told.status, status, "{command} {told:?}");
        assert!(told.out.contains(says), "{command} {told:?}");
        let unread = told.err.lines().filter(|line| line.starts_with("note: could not read")).count();
        assert_eq!(unread, usize::from(status == Failure), "{command} {told:?}");
        let told = scene.run_as_admin(&words(command)).await;
        assert_eq!(told.status, of_admin, "{command} {told:?}");
        assert!(told.out.contains(says) && !told.err.contains("could not read"), "{command} {told:?}");
        for format in ["json", "name"].into_iter().filter(|_| !command.contains(" -o") && !command.starts_with("graph"))
        {
            let command = format!("{command} -o {format}");
            let (own, of_all) = (scene.run(&words(&command)).await, scene.run_as_admin(&words(&command)).await);
            assert_eq!((own.status, of_all.status), (status, of_admin), "{command} {own:?} {of_all:?}");
        }
    }
    // Machines of other namespaces may be on the VPC.
    let told = scene.run(&["unused", "-n", "red"]).await;
    assert!(told.out.contains("VPC/red/spare   unknown"), "{told:?}");
}

#[tokio::test]
async fn one_line_tells_all_that_was_not_read() {
    let scene = scene().await;
    grant(&scene, Some("red"), "machines", &["virtualmachines"]).await;
    grant(&scene, None, "rules", &["dependencyrules"]).await;
    let line = "note: could not read 2 parts (no right to read): disks.disk.example.com in namespace red, \
                vpcs.network.example.com in namespace red; ask for the right to get and list them\n";
    for command in ["dangling -n red", "dangling -n red -o name", "graph --objects -n red"] {
        let told = scene.run(&words(command)).await;
        assert_eq!(told.status, Failure, "{command} {told:?}");
        assert!(told.err.starts_with(line) && told.err.matches("note: ").count() == 1, "{command} {told:?}");
    }
    let told = scene.run(&words("dangling -n red -o json")).await;
    let report: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((told.status, report["unread"].as_array().unwrap().len()), (Failure, 2), "{report}");
    assert_eq!((&report["dangling"], &report["notLookedAt"]), (&json!([]), &2.into()), "{report}");
    let told = scene.run(&words("trace virtualmachine m1 -n red")).await;
    assert!(told.status == Failure && told.err.contains("could not read 2 parts (no right to read): "), "{told:?}");
}

#[tokio::test]
async fn without_the_rules_nothing_is_called_well_but_what_the_api_server_answers() {
    let scene = scene().await;
    grant(&scene, Some("red"), "all", &["*"]).await;
    for command in [
        "impact disk free -n red",
        "dangling -n red",
        "unused -n red",
        "order red",
        "graph",
        "graph --objects -n red",
        "trace virtualmachine m1 -n red",
        "status",
    ] {
        for format in ["", " -o json", " -o name"] {
            if command.starts_with("graph") && !format.is_empty() {
                continue;
            }
            let told = scene.run(&words(&format!("{command}{format}"))).await;
            assert_eq!(told.status, Failure, "{command}{format} {told:?}");
            let lines = told.err.lines().filter(|line| line.contains("could not read the rules"));
            assert!(lines.count() >= usize::from(format.is_empty()), "{command}{format} {told:?}");
        }
    }
    let status = scene.run(&["status"]).await;
    assert_eq!(status.err.matches("could not read ").count(), 1, "{status:?}");
    assert!(status.err.contains("to list dependencyrules.dependencies.opendefense.cloud"), "{status:?}");
    assert!(!status.err.contains("there are no rules") && !status.err.contains("is not installed"), "{status:?}");
    // A dry run asks the webhook, which may read the rules.
    let told = scene.run(&words("why disk free -n red")).await;
    assert_eq!(told.status, Well, "{told:?}");
    assert!(told.out.starts_with("free: the API server would delete disks/free"), "{told:?}");
    assert!(told.out.contains("could not be read: ") && told.out.contains("the rules (no right to read)"), "{told:?}");
}
