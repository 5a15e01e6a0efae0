//! Tests of which CustomResourceDefinitions `lint` says that no rule protects.

use depguard_core::ControlPlane;
use depguard_testbed::{Options, Testbed};
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use super::{Bed, CRDS, RULES, crd, rule};

/// Builds the rule by which the definition of a kind such as `VPC` stays while objects of the kind exist.
fn definition_rule(kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let mut rule = rule(&format!("definition-{plural}"), "");
    rule["spec"]["dependent"] = json!({"group": "example.com", "version": "v1", "kind": kind, "resource": plural});
    rule["spec"]["dependencies"] = json!([{
        "group": "apiextensions.k8s.io", "version": "v1", "resource": "customresourcedefinitions",
        "fieldRef": {"value": format!("{plural}.example.com")},
    }]);
    rule
}

/// Returns the message of each finding that a definition is without a rule.
async fn without_rule(bed: &Bed, args: &[&str]) -> Vec<String> {
    let (status, out, err) = bed.lint(&[args, &["-o", "json"]].concat()).await;
    assert_eq!(status, ExitStatus::Well, "{out}{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let findings = report["findings"].as_array().unwrap().iter().filter(|finding| finding["code"] == "DG302");
    findings.map(|finding| finding["message"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn one_note_names_all_definitions_without_a_rule() {
    let bed = Bed::new();
    let kinds = ["Disk", "Image", "Subnet", "VM", "VPC"];
    let schemas = bed.file("crds.yaml", &kinds.map(crd));
    let mut rules = rule("vms", ".spec.vpcRef.name");
    let targets = ["vpcs", "disks", "vpcs", "images", "subnets"].map(|resource| {
        json!({"group": "example.com", "version": "v1", "resource": resource, "fieldRef": {"path": ".spec.vpcRef.name"}})
    });
    rules["spec"]["dependencies"] = json!(targets);
    let file = bed.file("rules.yaml", &[rules.clone()]);
    let found = without_rule(&bed, &["-f", &file, "--schemas", &schemas]).await;
    let [message] = &found[..] else { panic!("{found:?}") };
    // Nothing refers to the VMs.
    let named = "definitions disks.example.com, images.example.com, subnets.example.com and 1 more: ";
    assert!(message.starts_with(&format!("no rule protects the {named}")), "{message}");
    assert!(message.contains("`kubectl depguard suggest --definitions`"), "{message}");
    let file =
        bed.file("rules.yaml", &[rules, definition_rule("Disk"), definition_rule("Image"), definition_rule("VPC")]);
    let found = without_rule(&bed, &["-f", &file, "--schemas", &schemas]).await;
    assert!(found[0].starts_with("no rule protects the definition subnets.example.com: "), "{found:?}");
}

#[tokio::test]
async fn a_definition_needs_a_rule_only_if_it_is_given_and_a_rule_protects_its_objects() {
    let bed = Bed::new();
    let schemas = bed.file("crds.yaml", &[crd("VM"), crd("VPC")]);
    let with = |kind: &str, change: fn(&mut Value)| {
        let mut rule = definition_rule(kind);
        change(&mut rule["spec"]["dependencies"][0]);
        rule
    };
    let mut warning = rule("vms", ".spec.vpcRef.name");
    warning["spec"]["dependencies"][0]["onDelete"] = json!("Warn");
    let denying = rule("vms", ".spec.vpcRef.name");
    for (case, rules, expected) in [
        ("no rule", vec![denying.clone()], 1),
        ("its rule", vec![denying.clone(), definition_rule("VPC")], 0),
        ("the rule of another definition", vec![denying.clone(), definition_rule("VM")], 1),
        ("a warning", vec![denying.clone(), with("VPC", |edge| edge["onDelete"] = json!("Warn"))], 1),
        ("another kind", vec![denying.clone(), with("VPC", |edge| edge["resource"] = json!("others"))], 1),
        ("another group", vec![denying.clone(), with("VPC", |edge| edge["group"] = json!("example.com"))], 1),
        ("a target that is free to go", vec![warning], 0),
    ] {
        let rules = bed.file("rules.yaml", &rules);
        let args = ["-f", &rules, "--schemas", &schemas, "--control-plane", "kubernetes"];
        // A wrong target is a mistake of its own.
        let codes = bed.codes(&args).await;
        assert_eq!(codes.iter().filter(|code| code.starts_with("DG302")).count(), expected, "{case}: {codes:?}");
    }
    let rules = bed.file("rules.yaml", std::slice::from_ref(&denying));
    assert!(without_rule(&bed, &["-f", &rules]).await.is_empty(), "no definition is given");
    let both = bed.file("both.yaml", &[denying, crd("VM"), crd("VPC")]);
    assert_eq!(without_rule(&bed, &["-f", &both]).await.len(), 1, "the definition is among the files of -f");
    let codes = bed.codes(&["-f", &rules, "--schemas", &schemas, "--control-plane", "kcp"]).await;
    assert!(!codes.iter().any(|code| code.starts_with("DG302")), "in kcp: {codes:?}");
}

#[tokio::test]
async fn a_rule_on_the_api_server_protects_a_definition_and_a_definition_there_is_not_given() {
    let bed = Bed::new();
    let testbed = Testbed::start(Options::kubernetes()).await.unwrap();
    let endpoint = bed.connect(&testbed, "", ControlPlane::Kubernetes).await.own_endpoint();
    for object in [crd("VM"), crd("VPC"), depguard_controller::manifests::crd()] {
        endpoint.post_json(CRDS, &object).await.unwrap();
    }
    let schemas = bed.file("crds.yaml", &[crd("VM"), crd("VPC")]);
    let rules = bed.file("rules.yaml", &[rule("vms", ".spec.vpcRef.name")]);
    let given = ["-f", &rules, "--schemas", &schemas, "--live"];
    assert!(without_rule(&bed, &["-f", &rules, "--live"]).await.is_empty());
    assert_eq!(without_rule(&bed, &given).await.len(), 1);
    endpoint.post_json(RULES, &definition_rule("VPC")).await.unwrap();
    assert!(without_rule(&bed, &given).await.is_empty());
    testbed.stop().await;
}

#[tokio::test]
async fn a_kind_that_the_definitions_of_its_group_lack_is_no_error_unless_another_has_nearly_its_name() {
    let bed = Bed::new();
    let schemas = bed.file("crds.yaml", &["VM", "VPC"].map(crd));
    let lint = async |resource: &str| {
        let mut rules = rule("vms", ".spec.vpcRef.name");
        rules["spec"]["dependencies"][0]["resource"] = resource.into();
        let file = bed.file("rules.yaml", &[rules]);
        bed.lint(&["-f", &file, "--schemas", &schemas]).await
    };
    let (status, out, err) = lint("gateways").await;
    assert_eq!(status, ExitStatus::Well, "{out}{err}");
    assert!(out.contains("DG104") && out.contains("gateways.example.com was not checked"), "{out}");
    let (status, out, err) = lint("vpc").await;
    assert_eq!(status, ExitStatus::Finding, "{out}{err}");
    assert!(out.contains("DG111") && out.contains("write `vpcs` if you mean that"), "{out}");
}
