//! `impact` and `trace` of several objects.

use kubectl_depguard::ExitStatus;
use serde_json::Value;

use crate::references::files::{OBJECTS, ran};

async fn json(args: &[&str]) -> Value {
    let told = ran(OBJECTS, &[args, &["-o", "json"]].concat()).await;
    serde_json::from_str(&told.out).unwrap_or_else(|why| panic!("{why}: {told:?}"))
}

#[tokio::test]
async fn several_objects_get_a_tree_each() {
    let told = ran(OBJECTS, &["impact", "vpc/a", "zone/z", "-n", "x"]).await;
    assert_eq!(told.status, ExitStatus::Well, "{told:?}");
    let alone = async |name| ran(OBJECTS, &["impact", name, "-n", "x"]).await.out;
    assert_eq!(told.out, format!("{}\n{}", alone("vpc/a").await, alone("zone/z").await));

    let told = ran(OBJECTS, &["trace", "backup", "b1", "b2", "-n", "x"]).await;
    assert_eq!(told.status, ExitStatus::Well, "{told:?}");
    let alone = async |name| ran(OBJECTS, &["trace", name, "-n", "x"]).await.out;
    assert_eq!(told.out, format!("{}\n{}", alone("backup/b1").await, alone("backup/b2").await));
}

#[tokio::test]
async fn a_list_of_reports_has_the_report_of_each_object_as_it_is_alone() {
    for (command, several, kind) in [
        ("impact", ["vpc/a", "zone/z"], "ImpactReportList"),
        ("trace", ["virtualmachine/m1", "backup/b1"], "TraceReportList"),
    ] {
        let [first, second] = several;
        let alone = [json(&[command, first, "-n", "x"]).await, json(&[command, second, "-n", "x"]).await];
        let list = json(&[command, first, second, "-n", "x"]).await;
        assert_eq!((&list["kind"], &list["items"]), (&kind.into(), &Value::from(alone.to_vec())), "{list}");
        let missing = json(&[command, first, "zone/none", "-n", "x"]).await;
        assert_eq!((&missing["kind"], missing["items"].as_array().map(Vec::len)), (&kind.into(), Some(1)), "{missing}");
        // The same object twice is one object.
        assert_eq!(json(&[command, first, first, "-n", "x"]).await, alone[0]);
    }
}

#[tokio::test]
async fn each_object_of_several_is_named_once_and_drawn_once() {
    let names = ran(OBJECTS, &["impact", "vpc,virtualmachine", "a", "m1", "-n", "x", "-o", "name"]).await;
    // There is no VPC `m1` and no machine `a`, and the two others are told all the same.
    assert_eq!(names.status, ExitStatus::Failure, "{names:?}");
    let mut listed: Vec<_> = names.out.lines().collect();
    listed.sort_unstable();
    let vms = ["virtualmachines.compute.example.com/m1", "virtualmachines.compute.example.com/m2"];
    assert_eq!(listed, [&["backups.backup.example.com/b1", "backups.backup.example.com/b2"][..], &vms].concat());
    let absent = "error: there is no vpcs.network.example.com/m1 in namespace x; \
                  there is no virtualmachines.compute.example.com/a in namespace x\n";
    assert!(names.err.contains(absent), "{names:?}");

    let wide = ran(OBJECTS, &["impact", "vpc/a", "zone/z", "-n", "x", "-o", "wide"]).await;
    assert!(wide.out.starts_with("TARGET    DEPENDENT"), "{wide:?}");
    assert!(wide.out.contains("\nZone/z    VirtualMachine/x/m1    Zone/z"), "{wide:?}");
    let drawn = ran(OBJECTS, &["impact", "vpc/a", "zone/z", "-n", "x", "-o", "mermaid"]).await;
    let arrows: Vec<_> = drawn.out.lines().filter(|line| line.contains('>')).collect();
    assert_eq!(arrows.len(), 7, "the arrows of the backups belong to both trees: {drawn:?}");
    let (_, focus) = drawn.out.split_once("  class n").unwrap();
    assert!(focus.starts_with("0,n1 focus"), "{drawn:?}");
    let svg = ran(OBJECTS, &["impact", "vpc/a", "zone/z", "-n", "x", "-o", "svg"]).await;
    assert!(svg.out.contains("<title>Objects that depend on VPC/x/a, Zone/z</title>"), "{svg:?}");

    let names = ran(OBJECTS, &["trace", "backup", "b1", "b2", "-n", "x", "-o", "name"]).await;
    assert_eq!(names.out.lines().count(), 5, "{names:?}");
    let wide = ran(OBJECTS, &["trace", "backup", "b1", "b2", "-n", "x", "-o", "wide"]).await;
    assert!(wide.out.starts_with("OBJECT        TARGET"), "{wide:?}");
}

/// One object of several that can't be told of makes the command fail, and the others are told of.
#[tokio::test]
async fn one_of_several_is_never_passed_over_in_silence() {
    for (command, objects, said) in [
        ("impact", ["vpc/a", "vpc/none"], "there is no vpcs.network.example.com/none in namespace x"),
        ("trace", ["virtualmachine/m1", "zone/none"], "there is no zones.compute.example.com/none"),
        ("trace", ["virtualmachine/m1", "vpc/a"], "no rule says what vpcs.network.example.com refer to"),
    ] {
        for objects in [objects, [objects[1], objects[0]]] {
            let told = ran(OBJECTS, &[command, objects[0], objects[1], "-n", "x"]).await;
            assert_eq!(told.status, ExitStatus::Failure, "{objects:?}: {told:?}");
            assert!(told.out.contains("VirtualMachine/x/m1") && told.err.contains(said), "{objects:?}: {told:?}");
        }
    }
    let broken = OBJECTS.to_owned()
        + "---\n{apiVersion: dependencies.opendefense.cloud/v1alpha1, kind: DependencyRule, metadata: {name: bad}, spec: {}}\n";
    let told = ran(&broken, &["impact", "vpc/a", "zone/z", "-n", "x"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(told.err.contains("so dependents of VPC/x/a, Zone/z may be missing"), "{told:?}");
    let told = ran(&broken, &["trace", "virtualmachine/m1", "backup/b1", "-n", "x"]).await;
    assert_eq!((told.status, told.err.matches("note: could not read rule bad").count()), (ExitStatus::Failure, 1));
    // The missing target of one is a finding beside another that has none.
    let gone = OBJECTS.replace("metadata: {name: z}}", "metadata: {name: other}}");
    let told = ran(&gone, &["trace", "virtualmachine/m1", "backup/b1", "-n", "x"]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
}
