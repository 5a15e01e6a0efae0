//! The generated files under `config/` are what the manifests module makes.

use std::fs;
use std::path::PathBuf;

use depguard_controller::manifests::{self, Identity, Place, ReadThrough, Setup};
use depguard_core::{Home, LogicalCluster, Rule};
use serde_json::{Value, json};

#[test]
fn the_files_under_config_are_generated() {
    let of = |home, way| manifests::files(&Setup::new(home, way)).unwrap();
    let mut kcp = of(Home::Kcp, ReadThrough::FrontProxy);
    kcp.extend(of(Home::Kcp, ReadThrough::Export));
    kcp.sort_by_key(|file| file.name);
    kcp.dedup();
    let kubernetes = of(Home::Kubernetes, ReadThrough::FrontProxy);
    let rules = [Home::Kcp, Home::Kubernetes].into_iter().flat_map(|home| manifests::rule_files(home).unwrap());
    for (folder, files) in [("kcp", kcp), ("kubernetes", kubernetes), ("rules", rules.collect())] {
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

/// Every way to run depguard.
fn setups() -> Vec<Setup> {
    let cluster = Some(LogicalCluster::parse("2x3").unwrap());
    let known =
        Setup { identity: Identity::ServiceAccounts { cluster }, ..Setup::new(Home::Kcp, ReadThrough::FrontProxy) };
    let mut setups = vec![Setup::new(Home::Kubernetes, ReadThrough::FrontProxy)];
    for read_through in [ReadThrough::FrontProxy, ReadThrough::Export] {
        setups.push(Setup { read_through, ..known.clone() });
        setups.push(Setup { read_through, identity: Identity::Certificates, ..known.clone() });
    }
    setups
}

#[test]
fn only_the_front_proxy_way_may_list_everything_and_nothing_may_do_more() {
    for setup in setups() {
        let wide = setup.home == Home::Kcp && setup.read_through == ReadThrough::FrontProxy;
        let mut everything = 0;
        for (place, objects) in manifests::rbac(&setup) {
            for rule in objects.iter().flat_map(|object| object["rules"].as_array().into_iter().flatten()) {
                let has_star = ["apiGroups", "resources", "verbs", "nonResourceURLs"].map(|field| {
                    rule[field].as_array().into_iter().flatten().any(|value| value.as_str().unwrap().contains('*'))
                });
                if has_star.contains(&true) {
                    assert!(wide && place == Place::Shards, "{setup:?}: {rule}");
                    assert_eq!(rule["verbs"], json!(["get", "list"]));
                    everything += 1;
                }
                assert!(!rule["resources"].to_string().contains("secrets"), "{rule}");
            }
        }
        assert_eq!(everything, usize::from(wide), "{setup:?}");
    }
}

#[test]
fn outside_of_its_workspace_no_service_account_is_named_without_that_workspace() {
    for setup in setups() {
        for (place, objects) in manifests::rbac(&setup) {
            let subjects = objects.iter().flat_map(|object| object["subjects"].as_array().into_iter().flatten());
            for subject in subjects {
                let name = subject["name"].as_str().unwrap();
                let is_local = subject["kind"] == "ServiceAccount" || name.starts_with("system:serviceaccount:");
                assert!(!is_local || matches!(place, Place::Cluster | Place::DepCtrl), "{place:?}: {subject}");
            }
        }
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
    let mut objects = vec![manifests::crd(), manifests::api_resource_schema(), manifests::api_export()];
    objects.extend(setups().iter().flat_map(manifests::rbac).flat_map(|(_, objects)| objects));
    for object in objects {
        let text = manifests::yaml(std::slice::from_ref(&object)).unwrap();
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), object);
    }
}
