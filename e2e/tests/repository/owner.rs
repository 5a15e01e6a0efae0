//! The owner of the public repository, which Cargo.toml names, stands in all other places alike.

use std::fs;
use std::path::{Path, PathBuf};

const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
/// Hosts of repositories and of images.
const HOSTS: [&str; 2] = ["github.com/", "ghcr.io/"];
/// Places where documents and manifests are.
const FOLDERS: [&str; 5] = [".", ".ci", ".github/workflows", "docs", "charts/depguard"];

/// Returns the owners to whom a text ascribes depguard.
fn owners(text: &str) -> Vec<&str> {
    let places = HOSTS.iter().flat_map(|host| text.split(host).skip(1));
    let named = places.filter_map(|rest| {
        let (owner, rest) = rest.split_once("/depguard")?;
        let is_owner = owner.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        (is_owner && !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-')).then_some(owner)
    });
    named.collect()
}

fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = FOLDERS.iter().flat_map(|folder| fs::read_dir(root.join(folder)).unwrap());
    folders.map(|file| file.unwrap().path()).filter(|file| file.is_file()).collect()
}

#[test]
fn one_owner_is_named_everywhere() {
    let owner = owners(REPOSITORY)[0];
    let mut places = 0;
    for file in files() {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for named in owners(&text) {
            assert_eq!(named, owner, "{}", file.display());
            places += 1;
        }
    }
    assert!(places > 10, "{places}");
    let text =
        "https://github.com/one/depguard.git, ghcr.io/two-2/depguard:1 github.com/three/depguards, github.com/a/b";
    assert_eq!(owners(text), ["one", "two-2"]);
}
