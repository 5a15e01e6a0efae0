use kubectl_depguard::ExitStatus;

use crate::tool::{depguard, write};

const RULES: &str = r#"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: vms}
spec:
  dependent: {apiExportName: compute, group: compute.example.com, version: v1, kind: VirtualMachine, resource: virtualmachines}
  dependencies:
  - {apiExportRef: {path: root:net, name: net}, group: network.example.com, version: v1, resource: vpcs, fieldRef: {path: '.metadata.annotations["a\"b"]'}}
  - {group: storage.example.com, version: v1, resource: disks, onDelete: Warn, fieldRef: {path: '.spec.disks[*].name'}}
---
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: broken}
spec: {dependent: {group: a.example.com, version: v1, kind: A, resource: as}, dependencies: [{group: b.example.com, version: v1, resource: bs, fieldRef: {path: .spec.b-c}}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: disks.storage.example.com}
spec:
  group: storage.example.com
  scope: Namespaced
  names: {kind: Disk, plural: disks}
  versions: [{name: v1, served: true, storage: true}]
"#;

#[tokio::test]
async fn kinds_are_drawn_with_the_rules_between_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "rules.yaml", RULES);
    let drawn = depguard(&["graph", "-f", file.to_str().unwrap()]).await;
    assert_eq!(drawn.status, ExitStatus::Failure, "one rule can't be used: {drawn:?}");
    assert_eq!(
        drawn.out,
        r#"digraph depguard {
  rankdir=LR;
  node [shape=box];
  n0 [label="VirtualMachine\nvirtualmachines.compute.example.com"];
  n1 [label="vpcs.network.example.com"];
  n2 [label="Disk\ndisks.storage.example.com"];
  n0 -> n1 [label="vms: .metadata.annotations['a\"b']"];
  n0 -> n2 [label="vms: .spec.disks[*].name (Warn)", style=dashed];
}
"#
    );
    // The command reports the rules that it can't draw.
    assert!(drawn.err.contains("note: could not read rule broken") && drawn.err.contains(".spec.b-c"), "{drawn:?}");

    let drawn = depguard(&["graph", "-o", "mermaid", "-f", file.to_str().unwrap()]).await;
    assert!(drawn.out.starts_with("flowchart LR\n"), "{drawn:?}");
    assert!(drawn.out.contains(r#"n0 -.->|"vms: .spec.disks[#42;].name #40;Warn#41;"| n2"#), "{drawn:?}");
}

#[tokio::test]
async fn a_drawing_of_all_is_well() {
    let folder = tempfile::tempdir().unwrap();
    let (rules, _) = RULES.split_once("---").unwrap();
    let file = write(folder.path(), "rules.yaml", rules);
    let drawn = depguard(&["graph", "-f", file.to_str().unwrap()]).await;
    assert_eq!((drawn.status, drawn.err.as_str()), (ExitStatus::Well, ""), "{drawn:?}");
}

#[tokio::test]
async fn objects_are_drawn_with_blockers_and_what_is_missing() {
    const OBJECTS: &str = r#"---
{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {name: m, namespace: x, annotations: {'a"b': v}}, spec: {disks: [{name: d}, {name: lost}]}}
---
{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {name: elsewhere, namespace: other}}
---
{apiVersion: network.example.com/v1, kind: Vpc, metadata: {name: v, namespace: x}}
---
{apiVersion: storage.example.com/v1, kind: Disk, metadata: {name: d, namespace: x, deletionTimestamp: 2026-01-01T00:00:00Z}}
"#;
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.yaml", &format!("{RULES}{OBJECTS}"));
    let drawn = depguard(&["graph", "--objects", "-n", "x", "-o", "mermaid", "-f", file.to_str().unwrap()]).await;
    assert_eq!(drawn.status, ExitStatus::Failure, "one rule can't be used: {drawn:?}");
    assert!(drawn.err.contains("error: the drawing is incomplete: could not read"), "{drawn:?}");
    for line in [
        r#"["VirtualMachine/x/m"]"#,
        r#"["Disk/x/d<br/>being deleted"]"#,
        r#"["Vpc/x/v"]"#,
        r#"["Disk/x/lost"]"#,
        r#"-->|"vms: .metadata.annotations[#39;a#34;b#39;]"|"#,
        r#"-.->|"vms: .spec.disks[#42;].name #40;Warn#41;"|"#,
    ] {
        assert!(drawn.out.contains(line), "{line} is not in {}", drawn.out);
    }
    assert!(!drawn.out.contains("elsewhere"), "{drawn:?}");
    let class = |name: &str| {
        let line =
            drawn.out.lines().find(|line| line.trim_start().starts_with("class ") && line.contains(name)).unwrap();
        let number = line.split_whitespace().nth(1).unwrap();
        drawn.out.lines().find(|line| line.trim_start().starts_with(&format!("{number}["))).unwrap().to_owned()
    };
    assert!(class("blocker").contains("VirtualMachine/x/m"), "{}", drawn.out);
    assert!(class("missing").contains("lost"), "{}", drawn.out);
}
