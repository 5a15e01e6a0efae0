//! Memory of the program, which runs as a process of its own.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::tool::write;

/// Objects in the file: enough that their trees alone would take four times the limit.
const OBJECTS: usize = 20_000;
/// Limit on the peak. The program itself takes some 15 MiB, the file 4 MiB, and each object less than 1 KiB; a tree of
/// one takes 6 to 9 KiB.
const MAX_PEAK: u64 = 48 << 20;

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

/// Draws the objects of these files, and returns the drawing and the program's peak memory in bytes.
fn draw(files: &[&Path]) -> (String, u64) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-depguard"));
    program.args(["graph", "--objects"]).stdout(Stdio::piped());
    for file in files {
        program.arg("-f").arg(file);
    }
    let mut program = program.spawn().unwrap();
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
        let (drawing, peak) = draw(&[&rule, &write(folder.path(), name, &text)]);
        assert_eq!(drawing.matches(" -> ").count(), OBJECTS / 2, "{name}");
        assert!(peak < MAX_PEAK, "{name}: {} KiB", peak >> 10);
    }
}
