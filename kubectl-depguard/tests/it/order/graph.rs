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
  - {group: storage.example.com, version: v1, resource: disks, onDelete: Warn, onMissing: Deny, fieldRef: {path: '.spec.disks[*].name'}}
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
  n0 -> n2 [label="vms: .spec.disks[*].name (Warn) (missing: Deny)", style=dashed];
}
"#
    );
    // The command reports the rules that it can't draw.
    assert!(drawn.err.contains("note: could not read rule broken") && drawn.err.contains(".spec.b-c"), "{drawn:?}");

    let drawn = depguard(&["graph", "-o", "mermaid", "-f", file.to_str().unwrap()]).await;
    assert!(drawn.out.starts_with("flowchart LR\n"), "{drawn:?}");
    assert!(
        drawn.out.contains(r#"n0 -.->|"vms: .spec.disks[#42;].name #40;Warn#41; #40;missing: Deny#41;"| n2"#),
        "{drawn:?}"
    );
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
async fn objects_are_drawn_with_what_is_missing() {
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
        r#"-.->|"vms: .spec.disks[#42;].name #40;Warn#41; #40;missing: Deny#41;"|"#,
    ] {
        assert!(drawn.out.contains(line), "{line} is not in {}", drawn.out);
    }
    assert!(!drawn.out.contains("elsewhere"), "{drawn:?}");
    let (_, classes) = drawn.out.split_once("classDef missing").unwrap();
    assert_eq!(names(&drawn.out, classes), ["Disk/x/lost"], "{}", drawn.out);
    // All objects that refer to any other would be red, which tells nobody anything.
    assert!(!drawn.out.contains("blocker"), "{}", drawn.out);
}

/// Returns the names of the boxes that the first `class` line gives a class.
fn names(drawing: &str, classes: &str) -> Vec<String> {
    let line = classes.lines().find_map(|line| line.trim_start().strip_prefix("class ")).unwrap();
    let numbers = line.split_whitespace().next().unwrap().split(',');
    let named = numbers.map(|number| {
        let shape = drawing.lines().find(|line| line.trim_start().starts_with(&format!("{number}["))).unwrap();
        shape.split('"').nth(1).unwrap().to_owned()
    });
    named.collect()
}

/// Machines `m0` to `m9` in two namespaces refer to the cluster-scoped network `net`, which refers to a zone; `other` is
/// in a graph of its own.
fn surroundings() -> String {
    let mut text = r#"
{apiVersion: dependencies.opendefense.cloud/v1alpha1, kind: DependencyRule, metadata: {name: vms}, spec: {
  dependent: {group: c.example.com, version: v1, kind: VM, resource: vms},
  dependencies: [{group: n.example.com, version: v1, kind: Net, resource: nets, fieldRef: {path: .spec.net}}]}}
---
{apiVersion: dependencies.opendefense.cloud/v1alpha1, kind: DependencyRule, metadata: {name: nets}, spec: {
  dependent: {group: n.example.com, version: v1, kind: Net, resource: nets},
  dependencies: [{group: n.example.com, version: v1, kind: Zone, resource: zones, onDelete: Warn, fieldRef: {path: .spec.zone}}]}}
"#
    .to_owned();
    let mut object = |group: &str, kind: &str, metadata: &str, spec: &str| {
        text += &format!(
            "---\n{{apiVersion: {group}.example.com/v1, kind: {kind}, metadata: {{{metadata}}}, spec: {{{spec}}}}}\n"
        );
    };
    for index in 0..10 {
        let namespace = if index % 2 == 0 { "even" } else { "odd" };
        object("c", "VM", &format!("name: m{index}, namespace: {namespace}"), "net: net");
    }
    object("n", "Net", "name: net", "zone: z");
    object("n", "Net", "name: other", "zone: far");
    object("n", "Zone", "name: z", "");
    object("n", "Zone", "name: far", "");
    text
}

#[tokio::test]
async fn a_focus_is_drawn_with_its_surroundings_and_what_blocks_it_is_red() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.yaml", &surroundings());
    let file = file.to_str().unwrap();
    let drawn = depguard(&["graph", "--focus", "net/net", "-o", "mermaid", "-f", file]).await.well();
    for (name, is_drawn) in [("VM/even/m0", true), ("VM/odd/m9", true), ("Zone/z", true), ("Net/other", false)] {
        assert_eq!(drawn.contains(&format!("[\"{name}\"]")), is_drawn, "{name} in {drawn}");
    }
    let (_, blockers) = drawn.split_once("classDef blocker").unwrap();
    assert_eq!(names(&drawn, blockers).len(), 10, "{drawn}");

    // A rule that only warns blocks nothing.
    let drawn = depguard(&["graph", "--focus", "zone/z", "--depth", "1", "-o", "mermaid", "-f", file]).await.well();
    assert!(drawn.contains("[\"Net/net<br/>#43;10 more\"]") && !drawn.contains("blocker"), "{drawn}");

    for (focus, said) in [("net/gone", "found no Net gone"), ("vm", "names no object"), ("zones/", "names no object")] {
        let refused = depguard(&["graph", "--focus", focus, "-f", file]).await;
        assert!(refused.status == ExitStatus::Failure && refused.err.contains(said), "{refused:?}");
    }
}

#[tokio::test]
async fn a_picture_needs_no_other_program() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.yaml", &surroundings());
    let drawn = depguard(&["graph", "-o", "svg", "-f", file.to_str().unwrap()]).await.well();
    assert!(drawn.starts_with("<svg xmlns=") && drawn.ends_with("</svg>\n"), "{drawn}");
    assert!(drawn.contains(">vms: .spec.net<") && drawn.contains("VM refers to Net (vms: .spec.net)."), "{drawn}");
    assert!(drawn.contains("prefers-color-scheme:dark") && drawn.contains(">only warns or audits<"), "{drawn}");
    assert!(!drawn.contains("blocks its deletion"), "{drawn}");
}

#[tokio::test]
async fn the_dependents_of_an_object_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.yaml", &surroundings());
    let file = file.to_str().unwrap();
    let drawn = depguard(&["impact", "net", "net", "-o", "mermaid", "-f", file]).await.well();
    let (_, blockers) = drawn.split_once("classDef blocker").unwrap();
    assert_eq!(names(&drawn, blockers).len(), 10, "{drawn}");
    assert!(drawn.contains("[\"Net/net\"]") && !drawn.contains("Zone"), "{drawn}");

    let drawn = depguard(&["impact", "zone", "z", "-o", "svg", "-f", file]).await.well();
    assert!(drawn.contains("<title>Objects that depend on Zone/z</title>"), "{drawn}");
    assert!(drawn.contains("VM/odd/m9 refers to Net/net (vms: spec.net)."), "{drawn}");
    assert!(!drawn.contains("blocks its deletion"), "a rule that only warns blocks nothing: {drawn}");
}
