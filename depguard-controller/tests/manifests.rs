//! The generated files under `config/` are what the manifests module makes.

use std::fs;
use std::path::PathBuf;

use depguard_controller::manifests::{self, Identity, Place, ReadThrough, Setup};
use depguard_core::{Home, LogicalCluster, Rule};
use depguard_kcp::{Feature, Features};
use serde_json::{Value, json};

const HOMES: [Home; 2] = [Home::Kcp, Home::Kubernetes];
const WAY: ReadThrough = ReadThrough::FrontProxy;

#[test]
fn the_files_under_config_are_generated() {
    let of = |home, way| manifests::files(&Setup::new(home, way)).unwrap();
    let mut kcp = of(Home::Kcp, ReadThrough::FrontProxy);
    kcp.extend(of(Home::Kcp, ReadThrough::Export));
    kcp.sort_by_key(|file| file.name);
    kcp.dedup();
    let kubernetes = of(Home::Kubernetes, WAY);
    let rules = HOMES.into_iter().flat_map(|home| manifests::rule_files(home).unwrap());
    let added = |home, way, enable: Features| {
        let without = of(home, way);
        let files = manifests::files(&Setup { enable, ..Setup::new(home, way) }).unwrap().into_iter();
        files.filter(|file| !without.contains(file)).collect::<Vec<_>>()
    };
    let setups = [(Home::Kubernetes, WAY), (Home::Kcp, ReadThrough::FrontProxy), (Home::Kcp, ReadThrough::Export)];
    let of_locks = |(home, way)| added(home, way, Features::new([Feature::Locks], []));
    let mut locks: Vec<_> = setups.into_iter().flat_map(of_locks).collect();
    locks.sort_by_key(|file| file.name);
    locks.dedup();
    let owners = added(Home::Kubernetes, WAY, Features::new([Feature::Owners], []));
    let compat = added(Home::Kubernetes, WAY, Features::new([], ["pods".parse().unwrap()]));
    for (folder, files) in [
        ("kcp", kcp),
        ("kubernetes", kubernetes),
        ("rules", rules.collect()),
        ("locks", locks),
        ("compat", compat),
        ("owners", owners),
    ] {
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
    let all = Features::new([Feature::Locks, Feature::Owners], ["pods".parse().unwrap()]);
    let kubernetes = Setup::new(Home::Kubernetes, WAY);
    let mut setups = vec![Setup { enable: all, ..kubernetes.clone() }, kubernetes];
    for read_through in [ReadThrough::FrontProxy, ReadThrough::Export] {
        setups.push(Setup { read_through, ..known.clone() });
        setups.push(Setup { read_through, enable: Features::new([Feature::Locks], []), ..known.clone() });
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
    for home in HOMES {
        let rules = manifests::rules(home).into_iter();
        for mut rule in rules.chain(manifests::openmcp_rules()) {
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
    objects.extend(manifests::owner_crds());
    objects.extend([manifests::lock_crds(), manifests::lock_schemas()].concat());
    objects.extend([manifests::lock_export(), manifests::tenant_binding("root:a"), manifests::compat_crd()]);
    objects.extend(setups().iter().flat_map(manifests::rbac).flat_map(|(_, objects)| objects));
    for object in objects {
        let text = manifests::yaml(std::slice::from_ref(&object)).unwrap();
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), object);
    }
}

#[test]
fn with_roles_made_before_the_controller_may_make_none() {
    let may = |precreated_roles| {
        let enable = Features::new([Feature::Owners], []);
        let rights = manifests::rbac(&Setup { enable, precreated_roles, ..Setup::new(Home::Kubernetes, WAY) });
        let mut objects = rights.into_iter().flat_map(|(_, objects)| objects);
        objects.any(|object| object["rules"].to_string().contains("clusterroles"))
    };
    assert!(may(false));
    assert!(!may(true));
}
