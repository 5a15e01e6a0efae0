//! `why` on files.

use kubectl_depguard::ExitStatus;
use serde_json::Value;

use crate::tool::depguard_reading;

const API_VERSION: &str = "cli.dependencies.opendefense.cloud/v1alpha1";

pub(crate) const MANIFESTS: &str = r#"
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

pub(crate) async fn why(files: &str, args: &[&str]) -> (ExitStatus, String, String) {
    depguard_reading(&[&["why", "-f", "-"], args].concat(), files).await
}

#[tokio::test]
async fn who_blocks_is_told_with_the_rule_the_field_and_the_way_out() {
    let (status, out, err) = why(MANIFESTS, &["vpc", "a"]).await;
    assert_eq!((status, err.as_str()), (ExitStatus::Finding, ""));
    let expected = "\
refused: vpcs/a is blocked by 2 objects (source: the files)

BLOCKER             RULE              FIELD                  RELEASED BY
VirtualMachine/m1   virtualmachines   spec.networks[*].vpc   delete it, or remove .spec.networks[1] from the list
VirtualMachine/m2   virtualmachines   spec.networks[*].vpc   wait until it is gone, or remove .spec.networks[0] from the list \
(it has been terminating since 2026-01-01T00:00:00Z, and waits for example.com/disk)
";
    assert_eq!(out, expected);
}

#[tokio::test]
async fn nothing_blocks_what_nobody_refers_to() {
    for (args, said) in [
        (
            ["VPC/a", "-n", "other"].as_slice(),
            "free: nothing refers to vpcs/a; nothing blocks the deletion of a (source: ",
        ),
        (
            &["virtualmachines.compute.example.com", "m1"],
            "free: no rule protects virtualmachines; nothing blocks the deletion of m1 (source: ",
        ),
    ] {
        let (status, out, err) = why(MANIFESTS, args).await;
        assert_eq!((status, err.as_str()), (ExitStatus::Well, ""), "{out}");
        assert!(out.starts_with(said), "{out}");
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
    assert_eq!(out, "virtualmachines.compute.example.com/m1\n");
    let (_, out, _) = why(MANIFESTS, &["vpc/b", "-o", "json"]).await;
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&json["apiVersion"], &json["kind"]), (&API_VERSION.into(), &"WhyReport".into()));
    let json = &json["objects"][0];
    assert_eq!(json["state"], "refused");
    assert_eq!(json["source"], "files");
    assert_eq!(json["blockers"][0]["rule"], "virtualmachines");
    assert_eq!(json["blockers"][0]["releasedBy"][1], "remove .spec.networks[0] from the list");
}

#[tokio::test]
async fn a_rule_that_cannot_be_used_leaves_it_untold() {
    let broken = MANIFESTS.replace("'.spec.networks[*].vpc'", "'.spec.networks[?].vpc'");
    let (status, out, err) = why(&broken, &["vpc", "a"]).await;
    assert_eq!(status, ExitStatus::Failure);
    assert!(
        out.starts_with("unknown: could not find out what blocks the deletion of vpcs/a (source: the files)\n"),
        "{out}"
    );
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
    assert!(out.starts_with("refused: vpcs/a is blocked by at least "), "{out}");
    assert_eq!(out.matches("VirtualMachine/").count(), 20, "{out}");
    assert!(out.ends_with("there are more blockers: --all lists them\n"), "{out}");
    let (status, out, _) = why(&files, &["vpc", "a", "--all", "-o", "name"]).await;
    assert_eq!((status, out.lines().count()), (ExitStatus::Finding, 602));
    let (_, out, _) = why(&files, &["vpc", "a", "--all"]).await;
    assert!(
        out.starts_with("refused: vpcs/a is blocked by 602 objects (source: the files)\n") && !out.contains("--all"),
        "{out}"
    );
}

#[tokio::test]
async fn a_lock_blocks_and_one_that_ended_does_not() {
    let lock = |more: &str| {
        format!(
            "{MANIFESTS}---\napiVersion: dependencies.opendefense.cloud/v1alpha1\nkind: ObjectLock\n\
             metadata: {{name: freeze, namespace: default}}\nspec:\n  reason: change freeze\n{more}\n"
        )
    };
    let by_name = "targets: [{group: compute.example.com, resource: virtualmachines, name: m1}]";
    let by_labels = "targets: [{group: compute.example.com, resource: virtualmachines, selector: {matchExpressions: \
                     [{key: keep, operator: DoesNotExist}]}}]";
    for (more, locked) in [
        (format!("  {by_name}"), true),
        (format!("  {by_labels}"), true),
        (format!("  operations: [Update]\n  {by_name}"), false),
        (format!("  expiresAt: \"2020-01-01T00:00:00Z\"\n  {by_name}"), false),
        // A lock that can't be read protects what it names.
        (format!("  expiresAt: soon\n  {by_name}"), true),
        (format!("  {}", by_name.replace("m1", "m3")), false),
    ] {
        let (status, out, err) = why(&lock(&more), &["virtualmachine", "m1"]).await;
        let expected = if locked { ExitStatus::Finding } else { ExitStatus::Well };
        assert_eq!((status, err.as_str()), (expected, ""), "{more}: {out}");
        let head = if locked {
            "refused: virtualmachines/m1 is locked by 1 lock (source: the files)\n"
        } else {
            "free: no rule protects virtualmachines; nothing blocks the deletion of m1"
        };
        assert!(out.starts_with(head) && out.contains("ObjectLock default/freeze") == locked, "{more}: {out}");
    }
    let compat = format!(
        "{MANIFESTS}---\n{{apiVersion: kotas.tech/v1, kind: Lock, metadata: {{name: m1, namespace: default}}}}\n"
    );
    let (status, out, _) = why(&compat, &["virtualmachine", "m1"]).await;
    assert_eq!(status, ExitStatus::Failure, "the files don't tell which kinds it locks: {out}");
    assert!(out.contains("Lock default/m1"), "{out}");
}

#[tokio::test]
async fn files_without_a_rule_say_nothing() {
    let objects = MANIFESTS.split_once("---\n").unwrap().1;
    let (status, out, err) = why(objects, &["vpc", "b"]).await;
    assert_eq!((status, out.as_str()), (ExitStatus::Failure, ""), "{err}");
    assert!(err.contains("the files contain no DependencyRule"), "{err}");
}

/// A Deployment that names a ConfigMap, a PriorityClass, and the rule about both.
const KUBERNETES: &str = r#"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: deployments}
spec:
  dependent: {group: apps, version: v1, kind: Deployment, resource: deployments}
  dependencies:
  - {group: "", version: v1, resource: configmaps, fieldRef: {path: '.spec.template.spec.volumes[*].configMap.name'}}
  - {group: scheduling.k8s.io, version: v1, resource: priorityclasses, fieldRef: {path: .spec.template.spec.priorityClassName}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
---
apiVersion: v1
kind: Secret
metadata: {name: other}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {priorityClassName: high, volumes: [{configMap: {name: settings}}]}}}
"#;

#[tokio::test]
async fn kinds_of_kubernetes_have_their_short_names_and_scopes_in_files() {
    for (named, blocker) in [
        ("cm/settings", "Deployment/web "),
        ("configmap/settings", "Deployment/web "),
        ("pc/high", "Deployment/default/web "),
        ("PriorityClass/high", "Deployment/default/web "),
    ] {
        let (status, out, err) = why(KUBERNETES, &[named]).await;
        assert_eq!(status, ExitStatus::Finding, "{named}: {out}{err}");
        assert!(out.contains(blocker), "{named}: {out}");
    }
    // No rule names the kind.
    let (status, out, err) = why(KUBERNETES, &["secret/other"]).await;
    assert_eq!(status, ExitStatus::Well, "{out}{err}");
    // The files have no object of the kind, which has its names all the same.
    let (_, out, err) = why(KUBERNETES, &["sts/db"]).await;
    assert!(!format!("{out}{err}").contains("there is no kind"), "{out}{err}");
}
