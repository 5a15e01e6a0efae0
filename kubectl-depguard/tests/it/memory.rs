//! Memory of the program, which runs as a process of its own.

use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io, thread};

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
/// Objects that depend on one, and the limit on the peak while they are printed. The program itself takes some 35 MiB as
/// tests build it, and each dependent less than 1 KiB.
const DEPENDENTS: usize = 30_000;
const MAX_IMPACT_PEAK: u64 = 64 << 20;

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

/// Runs a command, and returns its output and the program's peak memory in bytes.
fn run(args: &[&str]) -> (String, u64) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-depguard"));
    let mut program = program.args(args).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = program.stdout.take().unwrap();
    let output = thread::spawn(move || io::read_to_string(&mut out).unwrap());
    let (status, mut peak) = (format!("/proc/{}/status", program.id()), 0);
    // A program that has ended, and isn't waited for yet, has no memory any more. Its peak comes long before.
    while let Some(own) = peak_in(&fs::read_to_string(&status).unwrap()) {
        peak = own;
        thread::sleep(Duration::from_millis(1));
    }
    assert!(matches!(program.wait().unwrap().code(), Some(0 | 1)) && peak > 0);
    (output.join().unwrap(), peak)
}

/// Reads the peak from a process's status: `VmHWM:     123 kB`.
fn peak_in(status: &str) -> Option<u64> {
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    Some(kilobytes << 10)
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
        let (drawing, peak) = run(&["graph", "--objects", "-f", rule.to_str().unwrap(), "-f", file.to_str().unwrap()]);
        assert_eq!(drawing.matches(" -> ").count(), OBJECTS / 2, "{name}");
        assert!(peak < MAX_PEAK, "{name}: {} KiB", peak >> 10);
        let last = format!("o{}", OBJECTS - 2);
        let (answer, peak) =
            run(&["why", "vpc", &last, "-n", "ns", "-f", rule.to_str().unwrap(), "-f", file.to_str().unwrap()]);
        assert!(answer.contains(&format!("VirtualMachine/o{}", OBJECTS - 1)), "{name}: {answer}");
        assert!(peak < MAX_PEAK, "{name}: {} KiB", peak >> 10);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_objects_of_an_api_server_are_read_page_by_page() {
    let scene = Scene::kubernetes().await;
    let text = "x".repeat(BYTES);
    scene.fill(("compute.example.com", "virtualmachines"), "shop", machines(LARGE_OBJECTS, &text));
    let (drawing, peak) = run_on(&scene, &["graph", "--objects", "-A"]).await;
    assert_eq!(drawing.matches(" -> ").count(), LARGE_OBJECTS);
    assert!(peak < MAX_LIVE_PEAK, "{} KiB", peak >> 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dependents_of_an_object_are_printed_one_by_one() {
    let scene = Scene::kubernetes().await;
    scene.vpc("shop", "a").await;
    scene.fill(("compute.example.com", "virtualmachines"), "shop", machines(DEPENDENTS, ""));
    for more in [&[][..], &["-o", "json"]] {
        let (printed, peak) = run_on(&scene, &[&["impact", "vpc", "a", "-n", "shop"], more].concat()).await;
        assert!(printed.matches("VirtualMachine").count() >= DEPENDENTS, "{more:?}");
        assert!(peak < MAX_IMPACT_PEAK, "{more:?}: {} KiB", peak >> 10);
    }
}

/// Builds machines that all refer to one VPC.
fn machines(count: usize, text: &str) -> impl Iterator<Item = Value> {
    (0..count).map(move |index| {
        json!({
            "apiVersion": "compute.example.com/v1", "kind": "VirtualMachine", "metadata": {"name": format!("m{index}")},
            "spec": {"networks": [{"vpc": "a"}], "text": text},
        })
    })
}

async fn run_on(scene: &Scene, args: &[&str]) -> (String, u64) {
    let args: Vec<_> = args.iter().chain(&["--kubeconfig", scene.kubeconfig()]).map(|arg| (*arg).to_owned()).collect();
    let ran = tokio::task::spawn_blocking(move || run(&args.iter().map(String::as_str).collect::<Vec<_>>()));
    ran.await.unwrap()
}
