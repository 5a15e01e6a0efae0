//! Memory of the program, which runs as a process of its own.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::references::scene::Scene;
use crate::tool::write;

/// Objects in the file: enough that their trees alone would take twice the limit.
const OBJECTS: usize = 20_000;
/// Objects on the API server, and the bytes of each: together twice the limit.
const LARGE_OBJECTS: usize = 16_000;
const BYTES: usize = 8_000;
/// Limit on the peak beside an API server: a page of 4 MB, its trees and the names of the objects.
const MAX_LIVE_PEAK: u64 = 64 << 20;
/// Limit on the peak. The program itself takes some 20 MiB, the file 4 MiB, and each object less than 1 KiB; a tree of
/// one takes 6 to 9 KiB.
const MAX_PEAK: u64 = 64 << 20;

/// Returns a VPC, and a machine in it, by turns.
fn object(index: usize) -> Value {
    let (name, group) = (|of: usize| format!("o{of}"), "n.example.com/v1");
    let metadata = json!({"name": name(index), "namespace": "ns", "labels": {"app": "shop", "tier": "back"}});
    match index % 2 {
        0 => json!({"apiVersion": group, "kind": "VPC", "metadata": metadata, "spec": {"cidr": "10.0.0.0/8"}}),
        _ => json!({
            "apiVersion": group, "kind": "VirtualMachine", "metadata": metadata,
            "spec": {"vpc": name(index - 1), "cpus": 4, "disks": [{"size": "8Gi", "class": "fast"}]},
        }),
    }
}

fn rule() -> Value {
    let kind = |kind: &str, resource: &str| json!({"group": "n.example.com", "version": "v1", "kind": kind, "resource": resource});
    let mut target = kind("VPC", "vpcs");
    target["fieldRef"] = json!({"path": ".spec.vpc"});
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "vms"},
        "spec": {"dependent": kind("VirtualMachine", "virtualmachines"), "dependencies": [target]},
    })
}

/// Draws objects, and returns the drawing and the program's peak memory in bytes.
fn draw(args: &[&str]) -> (String, u64) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-depguard"));
    let mut program = program.args(["graph", "--objects"]).args(args).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = program.stdout.take().unwrap();
    // The drawing is larger than a pipe: the program has read everything when its first byte comes, and lives until the
    // last one is taken.
    let mut drawing = vec![0];
    out.read_exact(&mut drawing).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap();
    out.read_to_end(&mut drawing).unwrap();
    assert!(program.wait().unwrap().success());
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    (String::from_utf8(drawing).unwrap(), kilobytes << 10)
}

#[test]
fn the_objects_of_a_file_are_never_all_kept_as_trees() {
    let folder = tempfile::tempdir().unwrap();
    let rule = write(folder.path(), "rule.json", &rule().to_string());
    let objects: Vec<_> = (0..OBJECTS).map(object).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let documents: String = objects.iter().map(|object| format!("---\n{object}\n")).collect();
    for (name, text) in [("list.json", list), ("documents.yaml", documents)] {
        let file = write(folder.path(), name, &text);
        let (drawing, peak) = draw(&["-f", rule.to_str().unwrap(), "-f", file.to_str().unwrap()]);
        assert_eq!(drawing.matches(" -> ").count(), OBJECTS / 2, "{name}");
        assert!(peak < MAX_PEAK, "{name}: {} KiB", peak >> 10);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_objects_of_an_api_server_are_read_page_by_page() {
    let scene = Scene::kubernetes().await;
    let text = "x".repeat(BYTES);
    let machines = (0..LARGE_OBJECTS).map(|index| {
        json!({
            "apiVersion": "compute.example.com/v1", "kind": "VirtualMachine", "metadata": {"name": format!("m{index}")},
            "spec": {"networks": [{"vpc": "a"}], "text": text},
        })
    });
    scene.fill(("compute.example.com", "virtualmachines"), "shop", machines);
    let args = ["-A".to_owned(), "--kubeconfig".to_owned(), scene.kubeconfig().to_owned()];
    let drawn = tokio::task::spawn_blocking(move || draw(&args.each_ref().map(String::as_str)));
    let (drawing, peak) = drawn.await.unwrap();
    assert_eq!(drawing.matches(" -> ").count(), LARGE_OBJECTS);
    assert!(peak < MAX_LIVE_PEAK, "{} KiB", peak >> 10);
}
