//! Crates as a registry shows them, and the promises of docs/embedding.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Published crates, each after those that it uses. The release publishes them in this order.
const CRATES: &str = include_str!("../../../.ci/crates");

/// The categories of crates.io that a crate here may name; crates.io drops a category that it doesn't know.
const CATEGORIES: [&str; 8] = [
    "api-bindings",
    "command-line-utilities",
    "config",
    "data-structures",
    "development-tools",
    "development-tools::testing",
    "network-programming",
    "web-programming::http-server",
];

/// Returns what Cargo knows of each member of the workspace.
pub(crate) fn members() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let Value::Array(packages) = metadata["packages"].take() else { panic!("no packages") };
    packages
}

fn packages() -> Vec<Value> {
    // An empty list of registries means that the package is not published.
    members().into_iter().filter(|package| package["publish"] != Value::Array(Vec::new())).collect()
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

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns what a registry would refuse or miss in a crate's metadata.
fn faults(package: &Value, repository: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = name(package);
    for field in ["description", "license", "readme"] {
        if package[field].as_str().is_none_or(str::is_empty) {
            faults.push(format!("no {field}"));
        }
    }
    if package["repository"] != repository
        || !package["homepage"].as_str().is_some_and(|url| url.starts_with(repository))
    {
        faults.push("not the workspace's repository and homepage".to_owned());
    }
    if package["documentation"] != format!("https://docs.rs/{name}") {
        faults.push("documentation".to_owned());
    }
    let (keywords, categories) = (texts(&package["keywords"]), texts(&package["categories"]));
    let is_keyword = |word: &&str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '+'].contains(&c);
        word.len() <= 20 && word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.chars().all(allowed)
    };
    if !(1..=5).contains(&keywords.len()) || !keywords.iter().all(is_keyword) {
        faults.push(format!("keywords {keywords:?}"));
    }
    if !(1..=5).contains(&categories.len()) || !categories.iter().all(|slug| CATEGORIES.contains(slug)) {
        faults.push(format!("categories {categories:?}"));
    }
    faults
}

#[test]
fn each_published_crate_has_what_a_registry_shows() {
    let packages = packages();
    let repository = packages[0]["repository"].as_str().unwrap();
    for package in &packages {
        assert_eq!(faults(package, repository), [""; 0], "{}", name(package));
    }
    // Each of these is seen.
    for (field, value) in [
        ("description", json!("")),
        ("license", json!(null)),
        ("readme", json!(null)),
        ("repository", json!("https://example.com/depguard")),
        ("homepage", json!(null)),
        ("documentation", json!(null)),
        ("keywords", json!(["referential-integrity"])),
        ("keywords", json!(["a", "b", "c", "d", "e", "f"])),
        ("keywords", json!(["foreign key"])),
        ("categories", json!([])),
        ("categories", json!(["kubernetes"])),
    ] {
        let mut package = packages[0].clone();
        package[field] = value.clone();
        assert_eq!(faults(&package, repository).len(), 1, "{field}: {value}");
    }
}

#[test]
fn each_published_crate_has_a_page_that_stands_alone() {
    for package in packages() {
        let (name, folder) = (name(&package), Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap());
        let readme = fs::read_to_string(folder.join(package["readme"].as_str().unwrap())).unwrap();
        assert!(readme.starts_with(&format!("# {name}\n")), "{name}");
        assert!(readme.contains("\n```"), "{name}: no example");
        // A registry shows the README without the repository's other files.
        let links = readme.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
        let relative: Vec<_> = links.filter(|link| !link.starts_with("https://") && !link.starts_with('#')).collect();
        assert!(relative.is_empty(), "{name}: {relative:?}");
    }
}

/// Returns the crates that are published before a crate that they use, each with the used one.
fn out_of_order(order: &[&str], packages: &[Value]) -> Vec<String> {
    let place = |name: &str| order.iter().position(|published| *published == name);
    let mut early = Vec::new();
    for package in packages {
        for used in package["dependencies"].as_array().unwrap() {
            // What is published leaves out a path without a version.
            let stays = used["path"].is_string() && used["req"] != "*" && name(used) != name(package);
            if stays && place(name(used)) >= place(name(package)) {
                early.push(format!("{} before {}", name(package), name(used)));
            }
        }
    }
    early
}

#[test]
fn crates_are_published_after_those_that_they_use() {
    let (order, packages): (Vec<_>, _) = (CRATES.lines().collect(), packages());
    let names: BTreeSet<_> = packages.iter().map(name).collect();
    assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), names, ".ci/crates, and the published crates");
    assert_eq!(order.len(), names.len(), "a crate stands twice in .ci/crates");
    assert_eq!(out_of_order(&order, &packages), [""; 0]);
    let reversed: Vec<_> = order.iter().rev().copied().collect();
    assert!(out_of_order(&reversed, &packages).len() > 5);
    assert!(
        include_str!("../../../.github/workflows/release.yml").contains(".ci/crates | xargs cargo publish --dry-run")
    );
}

#[test]
fn the_pages_for_newcomers_name_the_version() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for page in ["README.md", "docs/comparison.md"] {
        let text = fs::read_to_string(root.join(page)).unwrap();
        assert!(text.contains(concat!("version ", env!("CARGO_PKG_VERSION"), ",")), "{page}");
    }
}

#[test]
fn the_rust_that_is_promised_is_the_one_that_is_declared_and_tested() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/embedding.md")).unwrap();
    let tested = include_str!("../../../rust-toolchain.toml");
    for package in packages() {
        let declared = package["rust_version"].as_str().unwrap().trim_end_matches(".0");
        assert!(page.contains(&format!("Rust {declared}, declared")), "{}: {declared}", package["name"]);
        assert!(tested.contains(&format!("channel = \"{declared}.")), "{}: {declared}", package["name"]);
    }
}

/// Without the tables of Unicode the testbed would refuse every rule: the patterns of depguard's kinds name classes of
/// characters. In the whole workspace, other crates switch the tables on.
#[test]
fn the_testbed_by_itself_compiles_the_patterns_of_schemas() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--edges=normal",
            "--prefix=none",
            "--format={p} {f}",
            "--package=depguard-testbed",
        ])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    let line = tree.lines().find(|line| line.starts_with("regex v")).unwrap();
    let features: BTreeSet<_> = line.split_whitespace().nth(2).unwrap_or_default().split(',').collect();
    assert!(features.contains("unicode-gencat"), "{line}");
}
