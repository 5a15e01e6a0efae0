//! Rules that have the name of a rule about other dependents.

use depguard_controller::packs::RulePack;
use depguard_core::ControlPlane;
use depguard_testbed::{Options, Testbed};
use kubectl_depguard::ExitStatus;
use serde_json::json;

use super::{Bed, CRDS, RULES, crd, rule};

const FOUND: &str = "DG006 metadata.name";

#[tokio::test]
async fn a_rule_with_the_name_of_a_packs_rule_about_others_is_told_before_it_is_applied() {
    let bed = Bed::new();
    let schemas = bed.file("crds.yaml", &[crd("VM"), crd("VPC")]);
    let of_pack = RulePack::by_name("kubernetes-workloads").unwrap().rules().remove(0);
    let name = of_pack["metadata"]["name"].as_str().unwrap();
    for (rule, is_told) in [
        (rule(name, ".spec.vpcRef.name"), true),
        (rule("vms.example.com", ".spec.vpcRef.name"), false),
        // The pack's own rule, and a changed one about the same dependents.
        (of_pack.clone(), false),
    ] {
        let rules = bed.file("rules.yaml", &[rule]);
        let codes = bed.codes(&["-f", &rules, "--schemas", &schemas]).await;
        assert_eq!(codes.contains(&FOUND.to_owned()), is_told, "{codes:?}");
    }
    let rules = bed.file("rules.yaml", &[rule(name, ".spec.vpcRef.name")]);
    let (status, out, _) = bed.lint(&["-f", &rules, "--schemas", &schemas, "--fail-on", "warning"]).await;
    assert_eq!(status, ExitStatus::Finding, "{out}");
    assert!(out.contains(&format!("the pack kubernetes-workloads has a rule {name}, too, which is about ")), "{out}");
    assert!(out.contains("rename it, for example to `vms.example.com`"), "{out}");
}

#[tokio::test]
async fn a_rule_that_would_replace_one_of_the_cluster_about_others_is_told() {
    let bed = Bed::new();
    let testbed = Testbed::start(Options::kubernetes()).await.unwrap();
    let endpoint = bed.connect(&testbed, "", ControlPlane::Kubernetes).await.own_endpoint();
    for object in [crd("VM"), crd("VPC"), depguard_controller::manifests::crd()] {
        endpoint.post_json(CRDS, &object).await.unwrap();
    }
    endpoint.post_json(RULES, &rule("mine", ".spec.vpcRef.name")).await.unwrap();
    let mut other = rule("mine", ".spec.vpcRef.name");
    other["spec"]["dependent"] = json!({"group": "example.com", "version": "v1", "kind": "VPC", "resource": "vpcs"});
    for (rule, is_told) in [(other, true), (rule("mine", ".spec.vpcRef.name"), false)] {
        let rules = bed.file("rules.yaml", &[rule]);
        let codes = bed.codes(&["-f", &rules, "--live"]).await;
        assert_eq!(codes.contains(&FOUND.to_owned()), is_told, "{codes:?}");
        let (_, out, _) = bed.lint(&["-f", &rules, "--live"]).await;
        let said = "the rule mine on the API server is about vms.example.com, and this one replaces it: rename it";
        assert_eq!(out.contains(said), is_told, "{out}");
    }
    testbed.stop().await;
}
