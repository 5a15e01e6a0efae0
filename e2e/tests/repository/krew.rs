//! The manifest by which krew installs `kubectl depguard`, held to the rules of krew and of its index.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde::Deserialize;

/// Targets of Rust for which the release workflow builds archives, each with its program.
const TARGETS: [(&str, &str); 4] = [
    ("x86_64-unknown-linux-gnu", "kubectl-depguard"),
    ("aarch64-unknown-linux-gnu", "kubectl-depguard"),
    ("aarch64-apple-darwin", "kubectl-depguard"),
    ("x86_64-pc-windows-msvc", "kubectl-depguard.exe"),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Plugin {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    version: String,
    homepage: String,
    short_description: String,
    description: String,
    platforms: Vec<Platform>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Platform {
    selector: Selector,
    uri: String,
    sha256: String,
    files: Vec<FileOperation>,
    bin: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Selector {
    match_labels: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileOperation {
    from: String,
    to: String,
}

/// Returns the rules that a manifest breaks. `hashes` has the SHA-256 of each archive, by the archive's name.
fn faults(manifest: &str, hashes: &BTreeMap<String, String>) -> Vec<String> {
    let plugin: Plugin = match serde_saphyr::from_str(manifest) {
        Ok(plugin) => plugin,
        Err(why) => return vec![why.to_string()],
    };
    let mut faults = Vec::new();
    let mut must = |holds: bool, rule: &str| {
        if !holds {
            faults.push(rule.to_owned());
        }
    };
    must(plugin.api_version == "krew.googlecontainertools.github.com/v1alpha2", "apiVersion");
    must(plugin.kind == "Plugin", "kind");
    // The manifest's file has this name, and `kubectl depguard` calls the program.
    must(plugin.metadata.name == "depguard", "name");
    let spec = &plugin.spec;
    let numbers: Vec<_> = spec.version.strip_prefix('v').unwrap_or_default().splitn(3, '.').collect();
    let is_number = |part: &&str| part.split('-').next().is_some_and(|number| number.parse::<u32>().is_ok());
    must(numbers.len() == 3 && numbers.iter().all(is_number), "a semantic version with a v");
    must(spec.homepage.starts_with("https://"), "homepage");
    let short = &spec.short_description;
    must((1..=50).contains(&short.len()) && !short.ends_with('.'), "a short description of at most 50 characters");
    must(spec.description.lines().count() > 1, "description");
    must(spec.description.lines().all(|line| line.len() <= 80), "lines of at most 80 characters");
    must(!spec.platforms.is_empty(), "a platform");
    let mut seen = BTreeSet::new();
    for platform in &spec.platforms {
        let label = |key: &str| platform.selector.match_labels.get(key).map_or("", String::as_str);
        let known =
            ["linux", "darwin", "windows"].contains(&label("os")) && ["amd64", "arm64"].contains(&label("arch"));
        must(known && platform.selector.match_labels.len() == 2, "a selector by os and arch");
        must(seen.insert((label("os").to_owned(), label("arch").to_owned())), "one archive for a platform");
        let archive = platform.uri.rsplit('/').next().unwrap_or_default();
        must(platform.uri.contains(&format!("/releases/download/{}/", spec.version)), "the version's release");
        must(hashes.get(archive) == Some(&platform.sha256), "the archive's SHA-256");
        must(platform.bin.ends_with(".exe") == (label("os") == "windows"), "bin");
        let folder = archive.strip_suffix(".tar.gz").unwrap_or_default();
        let copied = platform.files.iter().filter(|file| file.to == ".");
        let copied: BTreeSet<_> = copied.filter_map(|file| file.from.strip_prefix(folder)?.strip_prefix('/')).collect();
        must(copied == [platform.bin.as_str(), "LICENSE"].into(), "the program and its licence are copied");
    }
    faults
}

fn script(folder: &Path) -> Output {
    Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.ci/krew")).arg(folder).output().unwrap()
}

fn run(program: &str, arguments: &[&str], folder: &Path) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Writes an archive with these files and returns its name and SHA-256.
fn archive(folder: &Path, target: &str, files: &[&str]) -> (String, String) {
    let name = format!("kubectl-depguard-{}-{target}", env!("CARGO_PKG_VERSION"));
    fs::create_dir_all(folder.join(&name)).unwrap();
    for file in files {
        fs::write(folder.join(&name).join(file), target).unwrap();
    }
    let file = format!("{name}.tar.gz");
    run("tar", &["-czf", &file, &name], folder);
    let sum = run("sha256sum", &[&file], folder);
    (file, sum.split_whitespace().next().unwrap().to_owned())
}

#[test]
fn the_manifest_for_krew_keeps_its_rules() {
    let folder = tempfile::tempdir().unwrap();
    let hashes: BTreeMap<_, _> =
        TARGETS.iter().map(|(target, program)| archive(folder.path(), target, &[program, "LICENSE"])).collect();
    let output = script(folder.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let manifest = String::from_utf8(output.stdout).unwrap();
    assert_eq!(faults(&manifest, &hashes), [""; 0], "{manifest}");
    assert_eq!(manifest.matches("  - selector:").count(), TARGETS.len());

    // Each of these is seen.
    for (from, to) in [
        ("v1alpha2", "v1alpha3"),
        ("kind: Plugin", "kind: Plugins"),
        ("name: depguard", "name: kubectl-depguard"),
        ("version: v0", "version: 0"),
        ("version: v", "version: v1."),
        ("objects\n", "objects.\n"),
        ("objects\n", "objects of a cluster or a workspace\n"),
        ("spec:\n", "spec:\n  licence: Apache-2.0\n"),
        ("  homepage: ", "  home: "),
        ("os: linux", "os: plan9"),
        ("os: darwin", "os: linux"),
        ("arch: arm64", "arch: arm64\n        libc: glibc"),
        ("sha256: ", "sha256: 0"),
        ("    - from: kubectl", "    - from: man/kubectl"),
        ("      to: .\n", "      to: bin\n"),
        ("bin: kubectl-depguard\n", "bin: kubectl-depguard.exe\n"),
        ("bin: kubectl-depguard.exe\n", "bin: kubectl-depguard\n"),
    ] {
        assert!(manifest.contains(from), "{from}");
        assert!(!faults(&manifest.replacen(from, to, 1), &hashes).is_empty(), "{from} → {to}");
    }
    let no_platform = format!("{}  platforms: []\n", manifest.split("  platforms:").next().unwrap());
    assert_eq!(faults(&no_platform, &hashes), ["a platform"]);
}

#[test]
fn no_manifest_is_rendered_from_a_folder_that_lacks_something() {
    let refused = |folder: &Path, why: &str| {
        let output = script(folder);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{said}");
    };
    let folder = tempfile::tempdir().unwrap();
    refused(folder.path(), "no archive of version");
    archive(folder.path(), TARGETS[0].0, &["kubectl-depguard"]);
    refused(folder.path(), "/LICENSE");
    archive(folder.path(), TARGETS[0].0, &["kubectl-depguard", "LICENSE"]);
    assert!(script(folder.path()).status.success());
    archive(folder.path(), "riscv64gc-unknown-linux-gnu", &["kubectl-depguard", "LICENSE"]);
    refused(folder.path(), "is not known here");
}

#[test]
fn the_release_builds_the_archives_that_krew_is_tested_with() {
    let release = include_str!("../../../.github/workflows/release.yml");
    let built: BTreeSet<_> =
        release.lines().filter_map(|line| line.split("target: ").nth(1)?.split('}').next()).collect();
    assert_eq!(built, TARGETS.iter().map(|(target, _)| *target).collect());
    assert!(release.contains(".ci/krew dist >"));
}
