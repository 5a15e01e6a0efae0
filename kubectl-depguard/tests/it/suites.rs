//! `test`: suites of rules.

use std::path::{Path, PathBuf};

use kubectl_depguard::ExitStatus;
use serde_json::Value;

use crate::tool::depguard_reading;

mod definitions;
mod writes;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/suites");

async fn test(args: &[&str], stdin: &str) -> (ExitStatus, String, String) {
    depguard_reading(&[&["test"], args].concat(), stdin).await
}

/// Copies the example suite and its rules, with one edit in the suite.
fn edited(folder: &Path, from: &str, to: &str) -> PathBuf {
    let read = |name: &str| std::fs::read_to_string(Path::new(EXAMPLES).join(name)).unwrap();
    std::fs::write(folder.join("virtualmachines.yaml"), read("virtualmachines.yaml")).unwrap();
    let suite = read("virtualmachines.test.yaml");
    assert!(suite.contains(from), "{from}");
    let file = folder.join("vm.test.yaml");
    std::fs::write(&file, suite.replacen(from, to, 1)).unwrap();
    file
}

#[tokio::test]
async fn the_example_passes_and_is_what_the_page_shows() {
    let (status, out, err) = test(&["-f", EXAMPLES], "").await;
    assert_eq!((status, err.as_str()), (ExitStatus::Well, ""), "{out}");
    let page = std::fs::read_to_string(Path::new(EXAMPLES).join("../../docs/test-suites.md")).unwrap();
    for file in ["virtualmachines.yaml", "virtualmachines.test.yaml"] {
        let text = std::fs::read_to_string(Path::new(EXAMPLES).join(file)).unwrap();
        assert!(page.contains(&format!("```yaml\n{text}```\n")), "the page shows another {file}");
    }
    assert!(page.contains(&format!("```console\n$ kubectl depguard test -f examples/suites\n{out}```\n")), "{out}");
}

#[tokio::test]
async fn a_failing_test_tells_what_was_expected_and_what_came() {
    let folder = tempfile::tempdir().unwrap();
    let file = edited(folder.path(), "blockers: [VirtualMachine/web]", "blockers: [VirtualMachine/db]");
    let file = file.display().to_string();
    let (status, out, _) = test(&["-f", &file], "").await;
    assert_eq!(status, ExitStatus::Finding);
    let told = format!(
        "failed: a VPC in use stays ({file}:22)\n  blockers\n    expected: VirtualMachine/db\n    got:      VirtualMachine/web\n"
    );
    assert!(out.contains(&told) && out.ends_with("7 passed, 1 failed\n"), "{out}");

    let (_, out, _) = test(&["-f", &file, "-o", "json"], "").await;
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&json["tests"], &json["failed"]), (&8.into(), &1.into()));
    assert_eq!(json["suites"][0]["tests"][0]["differences"][0]["got"], "VirtualMachine/web");
}

#[tokio::test]
async fn each_expectation_can_fail() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, what, got) in [
        ("expect: denied", "expect: allowed", "decision", "denied: cannot delete vpcs/front"),
        ("expect: unreferenced", "expect: denied", "decision", "allowed (unreferenced)"),
        ("expect: allowed", "expect: undecided", "decision", "allowed (unreferenced)"),
        ("expect: no-rule", "expect: unreferenced", "decision", "allowed (no-rule)"),
        ("warned: [VirtualMachine/web]", "warned: []", "warned", "VirtualMachine/web"),
        ("warned: [VirtualMachine/web]", "audited: [VirtualMachine/web]", "audited", "none"),
        ("message: \"cannot", "message: \"can", "message", "cannot delete vpcs/front"),
        ("warned: [VirtualMachine/web]", "warnings: []", "warnings", "configmaps/boot is still referenced by"),
        ("without: [virtualmachine/web]", "without: []", "decision", "denied: cannot delete"),
        ("delete: vpc/front", "delete: vpc/none", "test", "there is no vpcs.network.example.com/none"),
        ("delete: vpc/front", "delete: front", "test", "`front` names no object"),
        ("delete: vpc/front", "delete: disk/front", "test", "there is no kind `disk`"),
        ("missing: [vpcs/side]", "missing: [vpcs/front]", "missing", "vpcs/side"),
        ("warned: [configmaps/later]", "warned: []", "warned", "configmaps/later"),
        ("warned: [configmaps/later]", "audited: [configmaps/later]", "audited", "none"),
        ("expect: no-new-reference", "expect: targets-exist", "decision", "allowed (no-new-reference)"),
        ("patch: {metadata: {labels", "patch: {metadata: {name", "test", "an update changes neither the name"),
        ("name: db, namespace", "name: web, namespace", "test", "the object to create is among the suite's objects"),
        ("update: virtualmachine/web", "update: virtualmachine/db", "test", "there is no virtualmachines"),
    ] {
        let file = edited(folder.path(), from, to).display().to_string();
        let (status, out, _) = test(&["-f", &file], "").await;
        assert_eq!(status, ExitStatus::Finding, "{to}: {out}");
        assert!(out.contains(&format!("  {what}\n")) && out.contains(&format!("got:      {got}")), "{to}: {out}");
    }
}

#[tokio::test]
async fn a_suite_that_cannot_be_read_is_told_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, line, told) in [
        ("  expect: denied", "  expcet: denied", 24, "unknown field `expcet`"),
        ("namespace: team-a\nrules", "operation: CREATE\nrules", 2, "unknown field `operation`"),
        ("expect: denied", "expect: perhaps", 24, "perhaps"),
        ("- apiVersion: v1\n  kind: ConfigMap\n", "- kind: ConfigMap\n", 12, "the object has no apiVersion"),
        ("- apiVersion: v1\n  kind: ConfigMap", "- apiVersion: a/b/c\n  kind: ConfigMap", 12, "is not a valid kind"),
        ("name: front, namespace: team-b", "name: front", 9, "duplicate object, first at "),
        ("- virtualmachines.yaml", "- 7", 4, "neither an object nor a file"),
        ("  delete: vpc/front\n", "", 22, "a test has exactly one of `delete`, `create`, and `update` with `patch`"),
        ("  expect: denied", "  create: vpc/new\n  expect: denied", 22, "a test has exactly one of"),
        ("  patch: {spec: {cloudInit: later}}\n", "", 51, "the update changes nothing"),
        ("  missing: [vpcs/side]", "  blockers: []", 42, "only a deletion has `blockers`"),
        ("  blockers: [VirtualMachine/web]", "  missing: []", 22, "a deletion has no `missing` targets"),
        ("    kind: VirtualMachine\n    metadata: {name: db", "    metadata: {name: db", 42, "the object has no kind"),
    ] {
        let file = edited(folder.path(), from, to).display().to_string();
        let (status, out, err) = test(&["-f", &file], "").await;
        assert_eq!((status, out.as_str()), (ExitStatus::Failure, ""), "{to}");
        assert!(err.starts_with(&format!("error: {file}:{line}: ")) && err.contains(told), "{to}: {err}");
    }
    let file = edited(folder.path(), "- virtualmachines.yaml", "- gone.yaml").display().to_string();
    let (status, _, err) = test(&["-f", &file], "").await;
    assert!(status == ExitStatus::Failure && err.contains("gone.yaml"), "{err}");
    let (status, _, err) = test(&["-f", &folder.path().join("virtualmachines.yaml").display().to_string()], "").await;
    assert!(status == ExitStatus::Failure && err.contains("not a suite"), "{err}");
}

#[tokio::test]
async fn ci_reads_junit() {
    let folder = tempfile::tempdir().unwrap();
    let file = edited(
        folder.path(),
        "a VPC in use stays\n  delete: vpc/front\n  expect: denied",
        "'\"<&>\"'\n  delete: vpc/front\n  expect: allowed",
    );
    let (status, out, _) = test(&["-f", &file.display().to_string(), "-o", "junit"], "").await;
    assert_eq!(status, ExitStatus::Finding);
    assert!(
        out.starts_with(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"8\" failures=\"1\" errors=\"0\">\n"
        ),
        "{out}"
    );
    assert!(out.contains("<testcase name=\"&quot;&lt;&amp;&gt;&quot;\" classname=\"virtual machines\""), "{out}");
    assert!(
        out.contains("<failure message=\"not as expected: decision\">\ndecision: expected allowed, got denied: cannot"),
        "{out}"
    );
    assert_eq!(out.matches("<testcase ").count(), 8, "{out}");
}

#[tokio::test]
async fn who_may_override_is_the_suites_to_say() {
    let suite = |by: &str| {
        format!(
            "overrides: {{users: [bob]}}
rules:
- apiVersion: dependencies.opendefense.cloud/v1alpha1
  kind: DependencyRule
  metadata: {{name: pods}}
  spec:
    dependent: {{group: '', version: v1, kind: Pod, resource: pods}}
    dependencies: [{{group: '', version: v1, resource: configmaps, fieldRef: {{path: .spec.config}}}}]
objects:
- {{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{config: c}}}}
- apiVersion: v1
  kind: ConfigMap
  metadata: {{name: c, annotations: {{dependencies.opendefense.cloud/skip-protection: 'true'}}}}
tests: [{{delete: cm/c, by: {{user: {by}}}, expect: overridden}}]
"
        )
        .replace("cm/c", "configmap/c")
    };
    assert_eq!(test(&["-f", "-"], &suite("bob")).await.0, ExitStatus::Well);
    let (status, out, _) = test(&["-f", "-"], &suite("alice")).await;
    assert!(status == ExitStatus::Finding && out.contains("got:      denied"), "{out}");
}

/// Rule of one reference: its name, the kinds of dependent and target, and further fields of the dependency.
fn rule(name: &str, dependent: &str, target: &str, more: &str) -> String {
    let resource = |kind: &str| format!("{}s", kind.to_lowercase());
    format!(
        "- apiVersion: dependencies.opendefense.cloud/v1alpha1
  kind: DependencyRule
  metadata: {{name: {name}}}
  spec:
    dependent: {{group: g.example.com, version: v1, kind: {dependent}, resource: {}}}
    dependencies: [{{group: g.example.com, version: v1, resource: {}, kind: {target}, {more}}}]
",
        resource(dependent),
        resource(target)
    )
}

/// A suite can expect every possible decision.
#[tokio::test]
async fn every_decision_can_be_expected() {
    let by_name = "fieldRef: {path: .spec.ref}";
    let rules = [
        rule("net", "Vm", "Net", by_name),
        rule("warn", "Vm", "Disk", &format!("{by_name}, onDelete: Warn")),
        rule("audit", "Vm", "Log", &format!("{by_name}, onDelete: Audit")),
        rule("selector", "Vm", "Pool", "selectorRef: {path: .spec.sel}"),
        rule("tolerant", "Vm", "Zone", "selectorRef: {path: .spec.sel}, onDelete: Warn"),
        rule("one", "Left", "Right", by_name),
        rule("other", "Right", "Left", by_name),
    ];
    let object = |kind: &str, name: &str, more: &str| {
        format!("- {{apiVersion: g.example.com/v1, kind: {kind}, metadata: {{name: {name}, namespace: ns{more}}}}}\n")
    };
    let held = |kind: &str, name: &str, spec: &str| {
        format!(
            "- {{apiVersion: g.example.com/v1, kind: {kind}, metadata: {{name: {name}, namespace: going}}, spec: {spec}}}\n"
        )
    };
    let gone = ", deletionTimestamp: '2026-01-01T00:00:00Z'";
    let objects = [
        "- {apiVersion: v1, kind: Namespace, metadata: {name: going, deletionTimestamp: '2026-01-01T00:00:00Z'}}\n"
            .to_owned(),
        "- {apiVersion: g.example.com/v1, kind: Vm, metadata: {name: m, namespace: ns}, spec: {ref: a, sel: {matchLabels: 7}}}\n"
            .to_owned(),
        object("Net", "a", ""),
        object("Net", "b", ""),
        object("Net", "old", gone),
        object("Net", "free", ", annotations: {dependencies.opendefense.cloud/skip-protection: 'true'}"),
        object("Disk", "a", ""),
        object("Log", "a", ""),
        object("Pool", "a", ""),
        object("Zone", "a", ""),
        held("Left", "l", "{ref: r}"),
        held("Right", "r", "{ref: l}"),
    ];
    let tests = [
        ("net/a", "denied"),
        ("net/b", "unreferenced"),
        ("net/b", "allowed"),
        ("net/old", "terminating"),
        ("net/free, by: {groups: [system:masters]}", "overridden"),
        ("disk/a", "warned"),
        ("log/a", "audited"),
        ("pool/a", "undecided"),
        ("zone/a", "tolerated"),
        ("left/l, namespace: going", "torn-down"),
        ("vm/m", "no-rule"),
    ]
    .map(|(delete, expect)| format!("- {{delete: {delete}, expect: {expect}}}\n"));
    let suite =
        format!("namespace: ns\nrules:\n{}objects:\n{}tests:\n{}", rules.concat(), objects.concat(), tests.concat());
    let (status, out, err) = test(&["-f", "-"], &suite).await;
    assert_eq!((status, err.as_str()), (ExitStatus::Well, ""), "{out}");
    assert!(out.ends_with("11 passed\n"), "{out}");
}

const SUITE: &str =
    "tests:\n- {delete: secret/a, expect: no-rule}\nobjects:\n- {apiVersion: v1, kind: Secret, metadata: {name: a}}\n";

#[tokio::test]
async fn what_looks_like_a_suite_or_a_rule_is_not_passed_over() {
    let rule = |api: &str| {
        format!(
            "- apiVersion: {api}\n  kind: DependencyRule\n  metadata: {{name: r}}\n  spec: {{dependent: {{group: '', version: v1, kind: \
             Pod, resource: pods}}, dependencies: [{{group: '', version: v1, resource: secrets, fieldRef: {{path: .spec.secret}}}}]}}\n"
        )
    };
    let known = rule("dependencies.opendefense.cloud/v1alpha1");
    for (rules, said) in [
        (format!("{known}{known}"), "there are two rules `r`"),
        (rule("dependencies.opendefense.cloud/v2"), "`dependencies.opendefense.cloud/v2` has no such kind"),
    ] {
        let (status, out, err) = test(&["-f", "-"], &format!("{SUITE}rules:\n{rules}")).await;
        assert_eq!((status, out.as_str()), (ExitStatus::Failure, ""), "{err}");
        assert!(err.contains(said), "{err}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    std::fs::write(folder.path().join("a.yaml"), SUITE).unwrap();
    assert_eq!(test(&["-f", path], "").await.0, ExitStatus::Well);
    // The objects that a suite reads may be beside it, and may be many.
    let dump = format!("apiVersion: v1\nkind: List\nitems: []\nmore: [{}]\n", "0, ".repeat(260_000));
    std::fs::write(folder.path().join("dump.yaml"), dump).unwrap();
    let (status, _, err) = test(&["-f", path], "").await;
    assert_eq!(status, ExitStatus::Well, "{err}");
    std::fs::write(folder.path().join("b.yaml"), SUITE.replace("tests:", "test:")).unwrap();
    let (status, _, err) = test(&["-f", path], "").await;
    assert_eq!(status, ExitStatus::Failure, "{err}");
    assert!(err.contains("b.yaml"), "{err}");
}

/// The plural of Mesh is `meshs` here, which nobody would guess. The rule is about the meshes all the same.
#[tokio::test]
async fn a_guessed_plural_lets_no_deletion_pass() {
    const SUITE: &str = r"
rules:
- apiVersion: dependencies.opendefense.cloud/v1alpha1
  kind: DependencyRule
  metadata: {name: gateways}
  spec:
    dependent: {group: net.example.com, version: v1, kind: Gateway, resource: gateways}
    dependencies:
    - {group: net.example.com, version: v1, resource: meshs, fieldRef: {path: .spec.mesh}}
objects:
- {apiVersion: net.example.com/v1, kind: Gateway, metadata: {name: g}, spec: {mesh: m}}
- {apiVersion: net.example.com/v1, kind: Mesh, metadata: {name: m}}
tests:
- {delete: mesh/m, expect: allowed}
";
    let (status, out, err) = test(&["-f", "-"], SUITE).await;
    assert_eq!((status, out.as_str()), (ExitStatus::Failure, ""), "{err}");
    assert!(err.contains("could not read the objects of kind Mesh of net.example.com (they may be meshs.net"), "{err}");

    let objects = SUITE.split_once("rules:\n").unwrap().1;
    let (rules, objects) = objects.split_once("objects:\n").unwrap();
    let objects = objects.split_once("tests:").unwrap().0.replace("- {", "---\n{");
    let manifests = format!("{}---\n{objects}", rules.replacen("- ", "  ", 1));
    let (status, out, err) = depguard_reading(&["why", "mesh", "m", "-f", "-"], manifests).await;
    assert!(status == ExitStatus::Failure && !out.contains("free"), "{out}{err}");

    // The rule gives the kind, or a definition gives the plural: then nothing is a guess.
    let named = SUITE.replace("resource: meshs,", "resource: meshs, kind: Mesh,").replace("allowed", "denied");
    let definition = "objects:\n- {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, \
                      metadata: {name: meshs.net.example.com}, spec: {group: net.example.com, scope: Namespaced, \
                      names: {kind: Mesh, plural: meshs}, versions: [{name: v1, served: true, storage: true}]}}\n";
    let defined = SUITE.replace("objects:\n", definition).replace("allowed", "denied");
    for suite in [named, defined] {
        let (status, out, err) = test(&["-f", "-"], &suite).await;
        assert_eq!(status, ExitStatus::Well, "{out}{err}");
    }
}
