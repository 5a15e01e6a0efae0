//! `dangling -f --live`: targets of objects in files, which may be in the files or on the API server.

use depguard_testbed::{Fault, When};
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::references::scene::Scene;
use crate::tool::{Ran, depguard, write};

/// Objects of a folder that is not applied yet: two of them name no namespace.
const MACHINES: &str = "
{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {name: m1}, spec: {networks: [{vpc: own}, {vpc: red/there}]}}
---
{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {name: m2, namespace: red},
 spec: {networks: [{vpc: there}, {vpc: default/own}, {vpc: nowhere}]}}
---
{apiVersion: network.example.com/v1, kind: VPC, metadata: {name: own}}
";
const TABLE: &str = "MISSING TARGET    REFERENCES   DEPENDENT               FIELD                  RULE\n\
                     VPC/red/nowhere   1            VirtualMachine/red/m2   spec.networks[*].vpc   machines\n";
const VPCS: &str = "/namespaces/red/vpcs/";

async fn ran(scene: &Scene, manifests: &str, args: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "machines.yaml", manifests);
    let folder = folder.path().to_str().unwrap();
    scene.run(&[&["dangling", "-f", folder, "--live"], args].concat()).await
}

#[tokio::test]
async fn a_target_may_be_in_the_files_or_on_the_api_server_of_kubernetes() {
    may_be_in_either(&Scene::kubernetes().await).await;
}

#[tokio::test]
async fn a_target_may_be_in_the_files_or_in_the_workspace_of_kcp() {
    may_be_in_either(&Scene::kcp().await).await;
}

async fn may_be_in_either(scene: &Scene) {
    scene.vpc("red", "there").await;
    scene.vpc("blue", "unrelated").await;
    let reads = scene.inject(Fault::Latency(std::time::Duration::ZERO), When::always().method("GET").path("/vpcs"));
    let told = ran(scene, MACHINES, &[]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{}{}", told.out, told.err);
    let columns = |table: &str| table.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(columns(&told.out), columns(TABLE), "{}", told.out);
    assert_eq!(scene.hits(reads), 2, "each target that the files lack is read once, and no list");

    // In another namespace, `own` is there, too, and `m2` is of no interest.
    let told = ran(scene, MACHINES, &["-n", "blue"]).await;
    assert_eq!((told.status, told.out.as_str()), (ExitStatus::Well, ""), "{}", told.err);
    assert!(told.err.contains("2 references checked"), "{}", told.err);

    scene.vpc("red", "nowhere").await;
    let told = ran(scene, MACHINES, &[]).await;
    assert_eq!((told.status, told.out.as_str()), (ExitStatus::Well, ""), "{}", told.err);
    // The files alone don't say that.
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "machines.yaml", MACHINES);
    let told = depguard(&["dangling", "-f", folder.path().to_str().unwrap()]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{}", told.err);
}

#[tokio::test]
async fn the_rules_of_the_files_count_before_those_of_the_api_server() {
    let scene = Scene::kubernetes().await;
    let rule = "---
{apiVersion: dependencies.opendefense.cloud/v1alpha1, kind: DependencyRule, metadata: {name: new}, spec: {
  dependent: {group: compute.example.com, version: v1, kind: VirtualMachine, resource: virtualmachines},
  dependencies: [{group: network.example.com, version: v1, resource: vpcs, fieldRef: {path: .spec.other}}]}}
---
{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {name: m3}, spec: {other: gone}}
";
    let told = ran(&scene, &format!("{MACHINES}{rule}"), &["-o", "json"]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{}{}", told.out, told.err);
    let report: Value = serde_json::from_str(&told.out).unwrap();
    let dangling = report["dangling"].as_array().unwrap();
    assert_eq!(dangling.len(), 1, "{report}");
    assert_eq!(
        (&dangling[0]["rule"], &dangling[0]["target"]["namespace"]),
        (&json!("new"), &json!("default")),
        "{report}"
    );
}

#[tokio::test]
async fn a_target_that_can_not_be_read_is_neither_there_nor_missing() {
    let scene = Scene::kubernetes().await;
    scene.vpc("red", "there").await;
    let refused: [(Fault, &str); 3] = [
        (Fault::Forbidden, "no right to read"),
        (Fault::InternalError, "500"),
        // The kind's own 404 says nothing about the object.
        (Fault::NotFound, "not served here"),
    ];
    for (fault, why) in refused {
        let when = When::always().method("GET").path(VPCS);
        let fault = scene.inject(fault, when);
        let told = ran(&scene, MACHINES, &["-o", "json"]).await;
        assert!(scene.hits(fault) > 0);
        scene.clear_faults();
        assert_eq!(told.status, ExitStatus::Failure, "{}{}", told.out, told.err);
        let report: Value = serde_json::from_str(&told.out).unwrap();
        assert_eq!((&report["dangling"], &report["notLookedAt"]), (&json!([]), &3.into()), "{report}");
        for name in ["there", "nowhere"] {
            let note = format!("vpcs.network.example.com {name} in namespace red");
            assert!(told.err.contains(&note) && told.err.contains(why), "{why}: {}", told.err);
        }
    }
}

#[tokio::test]
async fn an_api_server_that_says_nothing_is_no_answer() {
    let scene = Scene::kubernetes().await;
    for path in ["/dependencyrules", "/apis"] {
        let fault = scene.inject(Fault::InternalError, When::always().method("GET").path(path));
        let told = ran(&scene, MACHINES, &[]).await;
        assert!(scene.hits(fault) > 0, "{path}");
        scene.clear_faults();
        assert_eq!((told.status, told.out.as_str()), (ExitStatus::Failure, ""), "{path}: {}", told.err);
    }
}

#[tokio::test]
async fn live_needs_files() {
    let scene = Scene::kubernetes().await;
    let told = scene.run(&["dangling", "--live"]).await;
    assert_eq!((told.status, told.out.as_str()), (ExitStatus::Failure, ""), "{}", told.err);
    assert!(told.err.contains("no file is named") && told.err.contains("name files with -f"), "{}", told.err);
}

#[tokio::test]
async fn only_what_each_namespace_has_is_taken_for_there_before_the_api_server_says_so() {
    let scene = Scene::kubernetes().await;
    let files = |account: &str| {
        format!(
            "{{apiVersion: dependencies.opendefense.cloud/v1alpha1, kind: DependencyRule, metadata: {{name: new}}, spec: {{
  dependent: {{group: compute.example.com, version: v1, kind: VirtualMachine, resource: virtualmachines}},
  dependencies: [{{group: '', version: v1, resource: serviceaccounts, fieldRef: {{path: .spec.account}}}},
    {{group: '', version: v1, resource: services, fieldRef: {{path: .spec.service, namespace: default}}}}]}}}}
---
{{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {{name: m, namespace: new}}, spec: {{{account}}}}}
"
        )
    };
    // The namespace `new` is nowhere yet, and the API server has no Service.
    for (spec, missing) in
        [("account: default", ""), ("account: other", "other"), ("service: kubernetes", "kubernetes")]
    {
        let told = ran(&scene, &files(spec), &["-A"]).await;
        let expected = if missing.is_empty() { ExitStatus::Well } else { ExitStatus::Finding };
        assert!(told.status == expected && told.out.contains(missing), "{spec}: {told:?}");
    }
}
