//! Crates as a registry shows them, and the promises of docs/embedding.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const PUBLISHED: [&str; 6] = [
    "depguard-controller",
    "depguard-core",
    "depguard-kcp",
    "depguard-testbed",
    "depguard-webhook",
    "kubectl-depguard",
];

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let Value::Array(packages) = metadata["packages"].take() else { panic!("no packages") };
    // An empty list of registries means that the package is not published.
    packages.into_iter().filter(|package| package["publish"] != Value::Array(Vec::new())).collect()
}

/// Without the flags in the README, both processes would serve probes and metrics on the same ports.
#[test]
fn the_two_processes_of_the_readme_can_run_on_one_host() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).unwrap();
    let ports = |binary: &str| {
        let line = readme.lines().find(|line| line.starts_with(&format!("$ {binary} --kubeconfig"))).unwrap();
        let mut words = line.split_whitespace();
        let mut value = |flag: &str| words.find(|word| *word == flag).and_then(|_| words.next());
        let probes = value("--health-probe-bind-address").unwrap_or(":8081").to_owned();
        [probes, value("--metrics-bind-address").unwrap_or(":8080").to_owned()]
    };
    let all: BTreeSet<_> = ["depguard-controller", "depguard-webhook"].into_iter().flat_map(ports).collect();
    assert_eq!(all.len(), 4, "{all:?}");
}

#[test]
fn each_published_crate_has_a_page_that_stands_alone() {
    let names: BTreeSet<_> = packages().iter().map(|package| package["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, PUBLISHED.map(str::to_owned).into());
    for package in packages() {
        let (name, folder) =
            (&package["name"], Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap());
        for field in ["description", "license", "readme"] {
            assert!(package[field].as_str().is_some_and(|value| !value.is_empty()), "{name}: {field}");
        }
        assert!(package["keywords"].as_array().is_some_and(|words| (1..=5).contains(&words.len())), "{name}");
        let readme = fs::read_to_string(folder.join(package["readme"].as_str().unwrap())).unwrap();
        assert!(readme.starts_with(&format!("# {}\n", name.as_str().unwrap())), "{name}");
        // A registry shows the README without the repository's other files.
        let links = readme.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
        let relative: Vec<_> = links.filter(|link| !link.starts_with("https://") && !link.starts_with('#')).collect();
        assert!(relative.is_empty(), "{name}: {relative:?}");
    }
}

#[test]
fn the_rust_that_is_promised_is_the_one_that_is_declared() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/embedding.md")).unwrap();
    for package in packages() {
        let declared = package["rust_version"].as_str().unwrap().trim_end_matches(".0");
        assert!(page.contains(&format!("Rust {declared}, declared")), "{}: {declared}", package["name"]);
    }
}
