//! The generated files under `config/` are what the manifests module makes.

use std::fs;
use std::path::PathBuf;

use depguard_controller::manifests;
use depguard_core::Home;
use serde_json::Value;

#[test]
fn the_files_under_config_are_generated() {
    for (home, folder) in [(Home::Kcp, "kcp"), (Home::Kubernetes, "kubernetes")] {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../config").join(folder);
        let files = manifests::files(home, manifests::DEP_CTRL_PATH).unwrap();
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
fn the_yaml_reads_back_as_the_same_objects() {
    let objects =
        [vec![manifests::crd(), manifests::api_resource_schema(), manifests::api_export()], manifests::rbac(Home::Kcp)]
            .concat();
    for object in objects {
        let text = manifests::yaml(std::slice::from_ref(&object)).unwrap();
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), object);
    }
}
