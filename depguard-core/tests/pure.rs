//! The core does no I/O: no crate that could is among its dependencies.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// Runs cargo on the core's manifest without the network. The core's dependencies are present, or this test would not
/// be built.
fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(args)
        .args(["--offline", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "cargo {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}

#[test]
fn the_core_depends_on_nothing_but_these() {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&metadata).expect("cargo metadata writes JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let core = packages.iter().find(|package| package["name"] == "depguard-core").expect("depguard-core");
    // Dependencies for tests are of kind `dev`; a normal dependency has no kind.
    let needed: BTreeSet<_> = (core["dependencies"].as_array().expect("dependencies").iter())
        .filter(|dependency| dependency["kind"] != "dev")
        .filter_map(|dependency| dependency["name"].as_str())
        .collect();
    let allowed = [
        "hmac",
        "jiff",
        "memchr",
        "regex-automata",
        "regex-syntax",
        "schemars",
        "serde",
        "serde_json",
        "sha2",
        "thiserror",
    ];
    assert_eq!(needed, BTreeSet::from(allowed));
}

#[test]
fn nothing_that_does_io_is_in_its_tree() {
    // `cargo metadata` would need every package of the workspace, even if only the core is tested.
    let tree = cargo(&[
        "tree",
        "-p",
        "depguard-core",
        "--all-features",
        "-e",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    let tree: BTreeSet<_> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    for name in ["depguard-core", "jiff", "serde_core", "serde_json", "thiserror-impl"] {
        assert!(tree.contains(name), "{name} is missing, so the tree was not read: {tree:?}");
    }
    for name in ["tokio", "mio", "hyper", "rustls", "tower", "futures", "kube-client", "k8s-openapi", "tracing"] {
        assert!(!tree.contains(name), "{name} is in {tree:?}");
    }
}
