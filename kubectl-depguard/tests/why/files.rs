//! By files.

use kubectl_depguard::ExitStatus;
use serde_json::Value;

use crate::depguard;

const MANIFESTS: &str = r#"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: virtualmachines}
spec:
  dependent:
    apiExportName: compute.example.com
    group: compute.example.com
    version: v1
    kind: VirtualMachine
    resource: virtualmachines
  dependencies:
  - apiExportRef: {path: root:network, name: network.example.com}
    group: network.example.com
    version: v1
    resource: vpcs
    fieldRef: {path: '.spec.networks[*].vpc'}
---
apiVersion: network.example.com/v1
kind: VPC
metadata: {name: a, namespace: default}
---
apiVersion: network.example.com/v1
kind: VPC
metadata: {name: b, namespace: default}
---
apiVersion: network.example.com/v1
kind: VPC
metadata: {name: a, namespace: other}
---
apiVersion: compute.example.com/v1
kind: VirtualMachine
metadata: {name: m1, namespace: default}
spec: {networks: [{vpc: b}, {vpc: a}]}
---
apiVersion: compute.example.com/v1
kind: VirtualMachine
metadata: {name: m2, namespace: default, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [example.com/disk]}
spec: {networks: [{vpc: a}]}
"#;

async fn why(files: &str, args: &[&str]) -> (ExitStatus, String, String) {
    depguard(&[&["why", "-f", "-"], args].concat(), files).await
}

#[tokio::test]
async fn who_blocks_is_told_with_the_rule_the_field_and_the_way_out() {
    let (status, out, err) = why(MANIFESTS, &["vpc", "a"]).await;
    assert_eq!((status, err.as_str()), (ExitStatus::Finding, ""));
    let expected = "\
vpcs/a is blocked by 2 objects, as the files say

BLOCKER             RULE              FIELD                  RELEASED BY
VirtualMachine/m1   virtualmachines   spec.networks[*].vpc   delete it, or take .spec.networks[1] out of the list
VirtualMachine/m2   virtualmachines   spec.networks[*].vpc   wait until it is gone, or take .spec.networks[0] out of the list \
(it is being deleted since 2026-01-01T00:00:00Z, and waits for example.com/disk)
";
    assert_eq!(out, expected);
}

#[tokio::test]
async fn nothing_blocks_what_nobody_refers_to() {
    for args in [["VPC/a", "-n", "other"].as_slice(), &["virtualmachines.compute.example.com", "m1"]] {
        let (status, out, err) = why(MANIFESTS, args).await;
        assert_eq!((status, err.as_str()), (ExitStatus::Well, ""), "{out}");
        assert!(out.starts_with("nothing blocks it: "), "{out}");
    }
    let (status, _, err) = why(MANIFESTS, &["vpc", "c"]).await;
    assert_eq!(status, ExitStatus::Failure);
    assert!(err.starts_with("error: there is no vpcs.network.example.com/c in namespace default\n"), "{err}");
    let (status, _, err) = why(MANIFESTS, &["vpc", "a", "-A"]).await;
    assert!(status == ExitStatus::Failure && err.contains("name its namespace with --namespace"), "{err}");
}

#[tokio::test]
async fn programs_read_it_too() {
    let (_, out, _) = why(MANIFESTS, &["vpc/b", "-o", "name"]).await;
    assert_eq!(out, "virtualmachine.compute.example.com/m1\n");
    let (_, out, _) = why(MANIFESTS, &["vpc/b", "-o", "json"]).await;
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["blocked"], true);
    assert_eq!(json["toldBy"], "files");
    assert_eq!(json["blockers"][0]["rule"], "virtualmachines");
    assert_eq!(json["blockers"][0]["releasedBy"][1], "take .spec.networks[0] out of the list");
}

#[tokio::test]
async fn a_rule_that_cannot_be_used_leaves_it_untold() {
    let broken = MANIFESTS.replace("'.spec.networks[*].vpc'", "'.spec.networks[?].vpc'");
    let (status, out, err) = why(&broken, &["vpc", "a"]).await;
    assert_eq!(status, ExitStatus::Failure);
    assert!(out.starts_with("vpcs/a: it can't be told what blocks it, as the files say\n"), "{out}");
    assert!(out.contains("could not find out: rule virtualmachines can't be evaluated: spec.dependencies[0]"), "{out}");
    assert!(err.starts_with("error: could not find out what blocks vpcs/a\n"), "{err}");
}

#[tokio::test]
async fn all_blockers_are_named_where_that_is_asked_for() {
    let machine = |n: usize| {
        format!(
            "---\napiVersion: compute.example.com/v1\nkind: VirtualMachine\nmetadata: {{name: n{n:03}, namespace: default}}\nspec: {{networks: [{{vpc: a}}]}}\n"
        )
    };
    let files = format!("{MANIFESTS}{}", (0..600).map(machine).collect::<String>());
    let (status, out, _) = why(&files, &["vpc", "a"]).await;
    assert_eq!(status, ExitStatus::Finding);
    assert!(out.starts_with("vpcs/a is blocked by at least "), "{out}");
    assert!(out.ends_with("there are more: name them with --all\n"), "{out}");
    let (status, out, _) = why(&files, &["vpc", "a", "--all", "-o", "name"]).await;
    assert_eq!((status, out.lines().count()), (ExitStatus::Finding, 602));
    let (_, out, _) = why(&files, &["vpc", "a", "--all"]).await;
    assert!(out.starts_with("vpcs/a is blocked by 602 objects, as the files say\n") && !out.contains("--all"), "{out}");
}
