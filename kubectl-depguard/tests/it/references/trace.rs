//! `trace`, in files and on API servers: a target is called missing only if the API server says so.

use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::references::files::{OBJECTS, RULES, ran};
use crate::references::scene::Scene;
use crate::tool::{depguard, write};

#[tokio::test]
async fn targets_are_followed_to_the_end_and_cycles_are_marked() {
    let told = ran(OBJECTS, &["trace", "backup", "b1", "-n", "x"]).await;
    assert_eq!(told.status, ExitStatus::Well, "{told:?}");
    assert_eq!(
        told.out,
        "\
Backup/x/b1   there
├── Backup/x/b2   spec.previous (rule backups)   there
│   ├── Backup/x/b1   spec.previous (rule backups)   there … a cycle
│   └── VirtualMachine/x/m1   spec.vms[*] (rule backups)   there
│       ├── VPC/x/a   spec.vpc (rule vms)   there
│       └── Zone/z   spec.zone (rule vms)   there
└── VirtualMachine/x/m1   spec.vms[*] (rule backups)   there … as above

4 targets: 4 there
"
    );
    let direct = ran(OBJECTS, &["trace", "backup/b1", "-n", "x", "--depth", "1"]).await;
    assert!(direct.out.contains("VirtualMachine/x/m1   spec.vms[*] (rule backups)   there … and deeper"), "{direct:?}");
    assert!(direct.out.ends_with("2 targets: 2 there\n"), "{direct:?}");
    let names = ran(OBJECTS, &["trace", "virtualmachine", "m1", "-n", "x", "-o", "name"]).await;
    assert_eq!(names.out, "vpcs.network.example.com/a\nzones.compute.example.com/z\n", "{names:?}");

    // The selector of `m2` selects nothing, which is no missing target.
    let selects = ran(OBJECTS, &["trace", "virtualmachine", "m2", "-n", "yy"]).await;
    assert_eq!(selects.status, ExitStatus::Well, "{selects:?}");
    assert!(selects.err.contains("VirtualMachine/yy/m2 selects no VPC by spec.peers (rule vms)"), "{selects:?}");
    let labelled =
        OBJECTS.replace("{tier: prod}", "{tier: none}").replace("namespace: x, labels", "namespace: yy, labels");
    let selects = ran(&labelled, &["trace", "virtualmachine", "m2", "-n", "yy", "-o", "wide"]).await;
    assert!(selects.out.contains("VPC/yy/a   there     VirtualMachine/yy/m2"), "{selects:?}");
}

#[tokio::test]
async fn a_target_that_is_missing_or_not_ready_is_a_finding_and_the_object_itself_is_none() {
    let not_ready = "status: {conditions: [{type: Ready, status: 'False', reason: NoIP}]}";
    for (from, to, said) in [
        ("metadata: {name: z}}", "metadata: {name: other}}".to_owned(), "Zone/z   spec.zone (rule vms)   missing"),
        ("metadata: {name: z}}", format!("metadata: {{name: z}}, {not_ready}}}"), "not ready: Ready is False (NoIP)"),
        (
            "metadata: {name: z}}",
            "metadata: {name: z, deletionTimestamp: '2026-01-01T00:00:00Z'}}".to_owned(),
            "being deleted",
        ),
    ] {
        let told = ran(&OBJECTS.replace(from, &to), &["trace", "backup", "b1", "-n", "x"]).await;
        assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
        assert!(told.out.contains(said), "{said}: {told:?}");
    }
    let own = OBJECTS.replace("spec: {vpc: a, zone: z}", &format!("spec: {{vpc: a, zone: z}}, {not_ready}"));
    let told = ran(&own, &["trace", "virtualmachine", "m1", "-n", "x", "-o", "json"]).await;
    assert_eq!(told.status, ExitStatus::Well, "{told:?}");
    let report: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&report["kind"], &report["state"]), (&"TraceReport".into(), &"NotReady".into()), "{report}");
    assert_eq!(report["targets"][0]["referredToBy"]["name"], "m1", "{report}");
}

#[tokio::test]
async fn where_rules_say_nothing_or_cannot_be_read_nothing_is_called_well() {
    let nothing = ran(OBJECTS, &["trace", "vpc", "a", "-n", "x"]).await;
    assert_eq!((nothing.status, nothing.out.as_str()), (ExitStatus::Failure, ""), "{nothing:?}");
    assert!(nothing.err.contains("no rule says what vpcs.network.example.com refer to"), "{nothing:?}");

    let folder = tempfile::tempdir().unwrap();
    let broken = RULES.replace("'.spec.vms[*]'", "'.spec.vms['");
    write(folder.path(), "all.yaml", &format!("{broken}---{OBJECTS}"));
    let path = folder.path().to_str().unwrap();
    let told = depguard(&["trace", "virtualmachine", "m1", "-n", "x", "-f", path]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(told.err.contains("could not read rule backups") && told.err.contains("incomplete"), "{told:?}");
}

/// Beyond its limit, the walk doesn't know what else the object refers to.
#[tokio::test]
async fn a_walk_that_reaches_too_many_objects_says_that_it_is_cut_off() {
    // With the object itself, the first walk reaches as many objects as the limit allows.
    for (targets, status) in [(9_999, ExitStatus::Finding), (10_000, ExitStatus::Failure)] {
        let machines: Vec<_> = (0..targets).map(|index| format!("m{index}")).collect();
        let backup = json!({
            "apiVersion": "backup.example.com/v1", "kind": "Backup", "metadata": {"name": "b", "namespace": "x"},
            "spec": {"vms": machines},
        });
        let told = ran(&backup.to_string(), &["trace", "backup", "b", "-n", "x"]).await;
        assert_eq!(told.status, status, "{targets}: {}", told.err);
        assert!(
            told.out.ends_with("9999 targets: 9999 missing\n"),
            "{targets}: {}",
            told.out.lines().last().unwrap_or_default()
        );
        let is_cut = status == ExitStatus::Failure;
        let cut = told.err.contains("more than 10000 objects (the walk is cut off; limit it with --depth)");
        assert!(cut == is_cut && told.err.contains("incomplete: ") == is_cut, "{targets}: {}", told.err);
    }
}

/// A new object of the same name is not the one that the reference means.
#[tokio::test]
async fn a_target_with_another_uid_is_missing() {
    const BY_UID: &str = r"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: disks}
spec:
  dependent: {group: e.example.com, version: v1, kind: Disk, resource: disks}
  dependencies:
  - {group: e.example.com, version: v1, resource: vms, kind: VM, fieldRef: {path: .spec.vm, uidPath: .spec.uid}}
---
{apiVersion: e.example.com/v1, kind: VM, metadata: {name: m, namespace: x, uid: u1}}
---
{apiVersion: e.example.com/v1, kind: Disk, metadata: {name: d, namespace: x, uid: u3}, spec: {vm: m, uid: UID}}
";
    for (uid, status) in [("u1", ExitStatus::Well), ("u2", ExitStatus::Finding)] {
        let folder = tempfile::tempdir().unwrap();
        let file = write(folder.path(), "all.yaml", &BY_UID.replace("UID", uid));
        let told = depguard(&["trace", "disk", "d", "-n", "x", "-f", file.to_str().unwrap()]).await;
        assert_eq!(told.status, status, "{told:?}");
    }
}

#[tokio::test]
async fn targets_are_traced_in_kubernetes() {
    are_traced(&Scene::kubernetes().await).await;
}

#[tokio::test]
async fn targets_are_traced_in_a_workspace_of_kcp() {
    are_traced(&Scene::kcp().await).await;
}

async fn are_traced(scene: &Scene) {
    scene.vpc("red", "a").await;
    scene.vpc("blue", "b").await;
    scene.vm("red", "m", &["a", "blue/b"]).await;
    let listed = scene.lists("network.example.com", "vpcs");
    let told = scene.run(&["trace", "virtualmachine/m", "-n", "red"]).await;
    assert_eq!(told.status, ExitStatus::Well, "{told:?}");
    assert!(told.out.contains("├── VPC/blue/b   ") && told.out.contains("└── VPC/red/a   "), "{told:?}");
    // Each object is read by its name, so the right to list is not needed.
    assert_eq!(scene.lists("network.example.com", "vpcs"), listed);
    scene.vm("red", "m2", &["blue/a", "bad name", "no/b"]).await;
    let told = scene.run(&["trace", "virtualmachine/m2", "-n", "red"]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    assert!(told.out.ends_with("3 targets: 3 missing\n"), "{told:?}");
}

#[tokio::test]
async fn a_target_that_must_not_be_read_is_unknown_and_not_missing() {
    let scene = Scene::kubernetes().await;
    scene.vpc("red", "a").await;
    scene.vm("red", "m", &["a", "blue/b"]).await;
    scene.forbid("/namespaces/blue/vpcs/");
    let told = scene.run(&["trace", "virtualmachine", "m", "-n", "red"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(
        told.out.contains("VPC/blue/b   spec.networks[*].vpc (rule machines)   unknown: no right to read"),
        "{told:?}"
    );
    assert!(told.err.contains("could not read vpcs.network.example.com b in namespace blue"), "{told:?}");

    // A server that doesn't serve the kind says nothing about the object.
    scene.unserve("/namespaces/red/vpcs/");
    let told = scene.run(&["trace", "virtualmachine", "m", "-n", "red"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(
        told.out.contains("VPC/red/a   spec.networks[*].vpc (rule machines)   unknown: not served here"),
        "{told:?}"
    );
}
