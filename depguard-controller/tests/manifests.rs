//! The generated files under `config/` are what the manifests module makes.

use std::fs;
use std::path::PathBuf;

use depguard_controller::manifests;
use depguard_core::{Home, Rule};
use serde_json::{Value, json};

#[test]
fn the_files_under_config_are_generated() {
    let of = |home| manifests::files(home, manifests::DEP_CTRL_PATH).unwrap();
    let rules = [Home::Kcp, Home::Kubernetes].into_iter().flat_map(|home| manifests::rule_files(home).unwrap());
    for (folder, files) in [("kcp", of(Home::Kcp)), ("kubernetes", of(Home::Kubernetes)), ("rules", rules.collect())] {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../config").join(folder);
        for file in &files {
            let path = folder.join(file.name);
            let found = fs::read_to_string(&path).unwrap_or_default();
            assert!(found == file.text, "{} is out of date: run `depguard-controller manifests`", path.display());
        }
        let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        let mut expected: Vec<_> = files.iter().map(|file| file.name).collect();
        expected.sort_unstable();
        assert_eq!(names, expected, "{} holds what is not generated", folder.display());
    }
}

#[test]
fn the_rules_are_right() {
    for home in [Home::Kcp, Home::Kubernetes] {
        for mut rule in manifests::rules(home) {
            rule["metadata"]["annotations"] = json!({"kcp.io/cluster": "any"});
            let rule = Rule::parse(home, &rule).unwrap();
            assert!(!rule.edges().is_empty());
            assert_eq!(rule.dependent().export, None);
        }
    }
}

#[test]
fn the_yaml_reads_back_as_the_same_objects() {
    let objects =
        [vec![manifests::crd(), manifests::api_resource_schema(), manifests::api_export()], manifests::rbac(Home::Kcp)]
            .concat();
    for object in objects {
        let text = manifests::yaml(std::slice::from_ref(&object)).unwrap();
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), object);
    }
}
