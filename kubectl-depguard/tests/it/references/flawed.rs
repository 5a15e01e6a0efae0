//! Rules that can't find their dependents: no command may then say that all is well.

use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::bed::Bed;
use crate::references::scene::{RULES, define, post};
use crate::tool::{Ran, depguard, write};

const KINDS: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: stores.data.example.com}
spec:
  group: data.example.com
  scope: Namespaced
  names: {kind: Store, plural: stores}
  versions: [{name: v1, served: true, storage: true}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: copies.data.example.com}
spec:
  group: data.example.com
  scope: Namespaced
  names: {kind: Copy, plural: copies}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {storeRef: {type: object, properties: {name: {type: string}}}}}}
";
const RULE: &str = r"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: copies}
spec:
  dependent: {group: data.example.com, version: v1, kind: Copy, resource: copies}
  dependencies:
  - {group: data.example.com, version: v1, resource: stores, fieldRef: {path: .spec.storeRef.name}}
";
/// Rule about other kinds, of which there is one object.
const OTHER: &str = r"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: maps}
spec:
  dependent: {group: '', version: v1, kind: ConfigMap, resource: configmaps}
  dependencies: [{group: '', version: v1, resource: secrets, fieldRef: {path: .data.secret}}]
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: a}, data: {secret: s}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: a}}
---
{apiVersion: v1, kind: Secret, metadata: {name: unused, namespace: a}}
";
const OBJECTS: &str = r"
{apiVersion: data.example.com/v1, kind: Store, metadata: {name: main, namespace: a}}
---
{apiVersion: data.example.com/v1, kind: Copy, metadata: {name: nightly, namespace: a}, spec: {storeRef: {name: main}}}
";
/// Commands about the store, and about all objects.
const COMMANDS: &[&str] = &[
    "why store main -n a",
    "impact store main -n a",
    "order store main -n a",
    "order -n a",
    "unused -n a",
    "dangling",
    "trace copy nightly -n a",
    "graph",
    "graph --objects",
    "graph --focus store/main -n a",
];

async fn ran(files: &str, command: &str) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.yaml", files);
    depguard(&[&command.split(' ').collect::<Vec<_>>()[..], &["-f", file.to_str().unwrap()]].concat()).await
}

#[tokio::test]
async fn a_rule_with_a_slip_is_told_by_every_command() {
    let all = |rule: &str| [KINDS, rule, OTHER, OBJECTS].join("---");
    for (right, slip) in [
        (".spec.storeRef.name", ".spec.storeref.name"),
        (".spec.storeRef.name", ".spec.storeRef"),
        ("resource: stores", "resource: store"),
        ("resource: copies", "resource: copis"),
        ("resource: stores", "resource: stores, when: {path: .spec.stat, in: [a]}"),
    ] {
        let wrong = all(&RULE.replace(right, slip));
        for command in COMMANDS {
            for format in ["", " -o json", " -o name", " -o svg"] {
                if command.starts_with("graph") != (format == " -o svg") && !format.is_empty() {
                    continue;
                }
                let told = ran(&wrong, &format!("{command}{format}")).await;
                assert_eq!(told.status, ExitStatus::Failure, "{slip}: {command}{format} {told:?}");
                let named = format!("{}{}", told.out, told.err).contains("rule copies");
                assert!(named, "{slip}: {command}{format} {told:?}");
                assert!(!told.out.contains("free") && !told.out.contains("nothing depends"), "{told:?}");
            }
        }
        // Nobody knows what is missing, where the rule names a kind of nearly that name.
        if slip == "resource: store" {
            let told = ran(&wrong, "dangling").await;
            assert!(told.out.is_empty() && told.err.contains("1 reference could not be checked"), "{told:?}");
            let drawn = ran(&wrong, "graph --objects").await;
            assert!(!drawn.out.contains("store/a/main"), "{drawn:?}");
            let traced = ran(&wrong, "trace copy nightly -n a").await;
            assert!(traced.out.contains("unknown: the rule") && !traced.out.contains("missing"), "{traced:?}");
            // The rule's other kinds are known.
            let more =
                ", {group: data.example.com, version: v1, resource: copies, fieldRef: {path: .spec.storeRef.name}}";
            let two = wrong
                .replace("dependencies:\n  - ", "dependencies: [")
                .replace("storeRef.name}}\n", &format!("storeRef.name}}}}{more}]\n"));
            let told = ran(&two, "dangling").await;
            assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
            assert!(told.out.contains("Copy/a/main ") && !told.out.contains("tore/"), "{told:?}");
        }
        // Another rule finds what refers to other kinds.
        let other = ran(&wrong, "why secret unused -n a").await;
        assert_eq!(other.status, ExitStatus::Well, "{slip}: {other:?}");
        let other = ran(&wrong, "impact secret s -n a").await;
        assert_eq!(other.status, ExitStatus::Well, "{slip}: {other:?}");
        let unused = ran(&wrong, "unused -n a -o name").await;
        assert_eq!(
            (unused.status, unused.out.as_str()),
            (ExitStatus::Failure, "secrets/unused\n"),
            "{slip}: {unused:?}"
        );
    }
}

#[tokio::test]
async fn the_mended_rule_lets_them_answer() {
    let mended = [KINDS, RULE, OTHER, OBJECTS].join("---");
    for command in COMMANDS {
        let told = ran(&mended, command).await;
        let expected = if command.starts_with("why") || command.starts_with("unused") {
            ExitStatus::Finding
        } else {
            ExitStatus::Well
        };
        assert_eq!(told.status, expected, "{command} {told:?}");
        assert!(!told.err.contains("could not read"), "{command} {told:?}");
    }
    let gone = mended.replace("{name: main, namespace: a}}", "{name: main, namespace: b}}");
    let told = ran(&gone, "dangling").await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    assert!(told.out.contains("Store/a/main") && told.err.is_empty(), "{told:?}");
    // A kind that nothing defines is nobody's slip.
    let undefined = [RULE, OBJECTS].join("---");
    assert_eq!(ran(&undefined, "why store main -n a").await.status, ExitStatus::Finding);
}

#[tokio::test]
async fn the_page_names_it() {
    let wrong = [KINDS, &RULE.replace("storeRef.name", "storeref.name"), OTHER, OBJECTS].join("---");
    let told = ran(&wrong, "graph -o html").await;
    assert_eq!(told.status, ExitStatus::Failure, "{}", told.err);
    assert!(told.out.contains("the references of rule copies"), "{}", told.err);
}

#[tokio::test]
async fn a_rule_that_its_conditions_call_useless_is_not_believed() {
    let bed = Bed::kubernetes().await;
    let cluster = bed.endpoint();
    for (resource, kind) in [("stores", "Store"), ("copies", "Copy")] {
        define(&cluster, "data.example.com", "v1", resource, kind, "Namespaced").await;
    }
    define(&cluster, "dependencies.opendefense.cloud", "v1alpha1", "dependencyrules", "DependencyRule", "Cluster")
        .await;
    post(&cluster, "/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}))
        .await;
    for document in OBJECTS.split("---") {
        let object: Value = serde_saphyr::from_str(document).unwrap();
        let resource = if object["kind"] == "Store" { "stores" } else { "copies" };
        post(&cluster, &format!("/apis/data.example.com/v1/namespaces/a/{resource}"), &object).await;
    }
    let untrue = |type_: &str, reason: &str, of: i64| json!([{"type": type_, "status": "False", "reason": reason, "message": "look here", "observedGeneration": of}]);
    let rule: Value = serde_saphyr::from_str(RULE).unwrap();
    let mut asleep = rule.clone();
    asleep["metadata"]["name"] = "asleep".into();
    asleep["spec"]["dependent"]["group"] = "elsewhere.test".into();
    asleep["status"]["conditions"] = untrue("ResolvedRefs", "KindNotFound", 1);
    post(&cluster, RULES, &asleep).await;
    post(&cluster, RULES, &rule).await;
    let live = COMMANDS.iter().filter(|command| !command.starts_with("order -n"));
    for (conditions, is_believed) in [
        (json!([]), true),
        (untrue("Accepted", "FieldNotFound", 1), false),
        (untrue("ResolvedRefs", "ExportNotFound", 1), false),
        (untrue("Enforced", "NotEnforceable", 1), false),
        // The webhook's state and a provider's refusal are no flaws of the rule, and an earlier version is another one.
        (untrue("Enforced", "WebhookUnreachable", 1), true),
        (untrue("ResolvedRefs", "RefNotPermitted", 1), true),
        (untrue("Accepted", "FieldNotFound", 7), true),
    ] {
        let mut told = rule.clone();
        told["status"]["conditions"] = conditions.clone();
        cluster.delete_with(&format!("{RULES}/copies"), &json!({})).await.unwrap();
        post(&cluster, RULES, &told).await;
        for command in live.clone() {
            let told = bed.depguard(&command.split(' ').collect::<Vec<_>>()).await;
            let is_unread = told.status == ExitStatus::Failure
                && format!("{}{}", told.out, told.err).contains("the references of rule copies (look here)");
            assert_eq!(is_unread, !is_believed, "{conditions} {command} {told:?}");
        }
    }
}

#[tokio::test]
async fn where_dependents_refer_to_nothing_nothing_was_checked() {
    let rule = RULE.replace("name}}", "name}, when: {path: .spec.phase, in: [Up]}}");
    let all = [&rule, OBJECTS].join("---");
    let told = ran(&all, "dangling").await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(told.err.contains("nothing was checked: no rule finds a reference in 1 object"), "{told:?}");
    assert!(told.err.contains("references of 1 object were left out by the `when` of their rules"), "{told:?}");
    for command in ["impact store main -n a", "unused", "trace copy nightly -n a"] {
        let told = ran(&all, command).await;
        assert!(command.starts_with("trace") || told.err.contains("references of 1 object were left out"), "{told:?}");
    }
    let up = ran(&all.replace("spec: {storeRef", "spec: {phase: Up, storeRef"), "dangling").await;
    assert_eq!(
        (up.status, up.err.as_str()),
        (ExitStatus::Well, "no dangling reference: 1 reference checked\n"),
        "{up:?}"
    );
}

#[tokio::test]
async fn a_subfolder_that_was_not_read_may_hold_what_refers() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("below");
    std::fs::create_dir(&below).unwrap();
    write(folder.path(), "all.yaml", &[RULE, OBJECTS.split("---").next().unwrap()].join("---"));
    let path = folder.path().to_str().unwrap();
    let why = async |more: &[&str]| {
        depguard(&[&["why", "store", "main", "-n", "a", "-o", "wide", "-f", path], more].concat()).await
    };
    write(&below, "notes.txt", "none");
    assert_eq!(why(&[]).await.status, ExitStatus::Well);
    write(&below, "copy.yaml", OBJECTS.split("---").nth(1).unwrap());
    let told = why(&[]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(told.out.contains("below`") && told.out.contains("-R"), "{told:?}");
    assert_eq!(why(&["-R"]).await.status, ExitStatus::Finding);
    let unused = depguard(&["unused", "-f", path, "-o", "name"]).await;
    assert_eq!((unused.status, unused.out.as_str()), (ExitStatus::Failure, ""), "{unused:?}");
    assert_eq!(depguard(&["unused", "-f", path, "-R"]).await.status, ExitStatus::Well);
}
