//! The container image: the files from which it is built suffice, and it fits the chart. `.ci/image` builds it, and
//! `.ci/image-test` runs it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::packages;

const DOCKERFILE: &str = include_str!("../../../Dockerfile");
const IGNORED: &str = include_str!("../../../.dockerignore");
const RELEASE: &str = include_str!("../../../.github/workflows/release.yml");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Returns the folders of the workspace's members, by their first part.
fn folders() -> BTreeSet<String> {
    let packages = packages::members();
    let folders = packages.iter().map(|package| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap()).strip_prefix(root()).unwrap();
        manifest.components().next().unwrap().as_os_str().to_string_lossy().into_owned()
    });
    folders.collect()
}

/// Returns what a build misses: of the workspace, and of the files that the Dockerfile names.
fn missing(ignored: &str) -> Vec<String> {
    let sent: BTreeSet<_> = ignored.lines().filter_map(|line| line.strip_prefix('!')).map(str::to_owned).collect();
    let scripts = DOCKERFILE.split_whitespace().filter(|word| word.starts_with(".ci/")).map(str::to_owned);
    let files = ["Cargo.toml", "Cargo.lock", "LICENSE"].map(str::to_owned);
    folders().into_iter().chain(scripts).chain(files).filter(|needed| !sent.contains(needed)).collect()
}

/// Cargo reads the manifests of all members, even to build one of them.
#[test]
fn a_build_gets_each_member_of_the_workspace_and_each_script() {
    assert!(folders().len() > 10);
    assert_eq!(missing(IGNORED), [""; 0]);
    for file in ["faults", ".ci/licences", "LICENSE"] {
        assert_eq!(missing(&IGNORED.replace(&format!("!{file}\n"), "")), [file]);
    }
    assert!(IGNORED.lines().any(|line| line == "*"), "everything else stays here");
}

#[test]
fn the_image_has_the_chart_s_user_and_the_tested_rust() {
    let user = DOCKERFILE.lines().find_map(|line| line.strip_prefix("USER ")).unwrap().split(':').next().unwrap();
    let templates = fs::read_dir(root().join("charts/depguard/templates")).unwrap();
    let templates: String = templates.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    let users: BTreeSet<_> =
        templates.split("runAsUser: ").skip(1).filter_map(|rest| rest.split([',', '}', '\n']).next()).collect();
    assert_eq!(users, [user].into());
    let rust = DOCKERFILE.split("FROM rust:").nth(1).unwrap().split('-').next().unwrap();
    assert!(include_str!("../../../rust-toolchain.toml").contains(&format!("channel = \"{rust}.")), "{rust}");
}

#[test]
fn the_release_runs_the_image_that_it_hands_out() {
    let [build, test, upload] =
        [".ci/image \"$TARGET\" dist", ".ci/image-test dist/", "name: image-"].map(|step| RELEASE.find(step).unwrap());
    assert!(build < test && test < upload);
    assert!(RELEASE.contains("needs: [archive, crates, image]"));
}
