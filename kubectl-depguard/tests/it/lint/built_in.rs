//! Rules about Kubernetes' own kinds, without an API server.

use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use super::{Bed, crd, rule};
use crate::tool::depguard_reading;

/// Returns a rule about Deployments that refer to a ConfigMap at this path.
fn deployments(path: &str) -> Value {
    let mut rule = rule("configured", path);
    rule["spec"]["dependent"] =
        json!({"group": "apps", "version": "v1", "kind": "Deployment", "resource": "deployments"});
    rule["spec"]["dependencies"][0]["group"] = json!("");
    rule["spec"]["dependencies"][0]["resource"] = json!("configmaps");
    rule
}

#[tokio::test]
async fn a_wrong_path_of_a_kind_of_kubernetes_is_found_without_a_cluster() {
    let bed = Bed::new();
    let typo = bed.file("typo.yaml", &[deployments(".spec.template.spec.volumes[*].configmap.name")]);
    let (status, out, err) = bed.lint(&["-f", &typo]).await;
    assert_eq!(status, ExitStatus::Finding, "{out}{err}");
    assert!(out.contains("DG101") && !out.contains("DG104"), "{out}");
    assert!(out.contains("write `.spec.template.spec.volumes[*].configMap.name` if you mean that"), "{out}");

    let right = bed.file("right.yaml", &[deployments(".spec.template.spec.volumes[*].configMap.name")]);
    // Other volumes can hold ConfigMaps, too, and no rule follows them.
    assert_eq!(bed.codes(&["-f", &right]).await, ["DG105 spec.dependencies[0].fieldRef.path"]);
    assert_eq!(bed.lint(&["-f", &right]).await.0, ExitStatus::Well);
    let mut other = deployments(".spec.template.spec.priorityClassName");
    other["spec"]["dependencies"][0]["group"] = json!("scheduling.k8s.io");
    other["spec"]["dependencies"][0]["resource"] = json!("priorityclasses");
    let other = bed.file("other.yaml", &[other]);
    assert_eq!(bed.codes(&["-f", &other]).await, [""; 0]);
}

#[tokio::test]
async fn a_kind_that_this_version_of_kubernetes_lacks_is_no_error() {
    let bed = Bed::new();
    for (field, value) in [("resource", "deployment"), ("resource", "kindsofalaterversion"), ("version", "v9")] {
        let mut rule = deployments(".spec.configMap");
        rule["spec"]["dependent"][field] = json!(value);
        let rules = bed.file("rules.yaml", &[rule]);
        assert_eq!(bed.codes(&["-f", &rules]).await, ["DG104 spec.dependent"], "{value}");
        assert_eq!(bed.lint(&["-f", &rules]).await.0, ExitStatus::Well, "{value}");
    }
}

#[tokio::test]
async fn a_field_that_may_hold_any_object_is_no_wrong_path() {
    let bed = Bed::new();
    let mut rule = deployments(".spec.devices.config[*].opaque.parameters.configMap");
    rule["spec"]["dependent"] =
        json!({"group": "resource.k8s.io", "version": "v1", "kind": "ResourceClaim", "resource": "resourceclaims"});
    let rules = bed.file("rules.yaml", &[rule]);
    assert_eq!(bed.codes(&["-f", &rules]).await, ["DG103 spec.dependencies[0].fieldRef.path"]);
}

#[tokio::test]
async fn a_given_schema_of_a_kind_of_kubernetes_takes_precedence() {
    let bed = Bed::new();
    let mut own = crd("Deployment");
    own["metadata"]["name"] = json!("deployments.apps");
    own["spec"]["group"] = json!("apps");
    own["spec"]["names"] = json!({"kind": "Deployment", "plural": "deployments"});
    let schemas = bed.file("schemas.yaml", &[own]);
    let rules = bed.file("rules.yaml", &[deployments(".spec.template.spec.volumes[*].configMap.name")]);
    let codes = bed.codes(&["-f", &rules, "--schemas", &schemas]).await;
    assert!(codes.contains(&"DG101 spec.dependencies[0].fieldRef.path".to_owned()), "{codes:?}");
}

#[tokio::test]
async fn the_help_and_the_page_name_the_version_of_kubernetes() {
    let catalog = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/src/cluster/built_in_kinds.gz")).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&*catalog), &mut text).unwrap();
    let catalog: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let version = catalog["version"].as_str().unwrap().rsplit_once('.').unwrap().0.to_owned();
    let (_, help, _) = depguard_reading(&["lint", "--help"], "").await;
    for said in
        [help.split_whitespace().collect::<Vec<_>>().join(" "), include_str!("../../../../docs/lint.md").to_owned()]
    {
        assert!(said.contains(&format!("Kubernetes {version}")), "{version}: {said}");
    }
}
