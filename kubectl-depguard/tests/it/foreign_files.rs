//! Folders in which other tools' files lie beside definitions and rules: patches, templates, settings.

use std::path::{Path, PathBuf};

use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::import::{SYNC_AGENT, parcels, published};
use crate::tool::{Ran, depguard, write};

/// Definitions of a kind that refers to another one.
const DEFINITIONS: &str = "
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: boats.sea.example.com}, spec: {
  group: sea.example.com, scope: Namespaced, names: {kind: Boat, plural: boats}, versions: [{name: v1, served: true,
  storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
    harborRef: {type: object, properties: {name: {type: string}}}}}}}}}]}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: harbors.sea.example.com}, spec: {
  group: sea.example.com, scope: Namespaced, names: {kind: Harbor, plural: harbors}, versions: [{name: v1, served: true,
  storage: true, schema: {openAPIV3Schema: {type: object}}}]}}
";

const RULE: &str = "
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: boats}
spec:
  dependent: {group: sea.example.com, version: v1, kind: Boat, resource: boats}
  dependencies: [{group: sea.example.com, version: v1, resource: harbors, fieldRef: {path: .spec.harborRef.name}}]
";

/// Files that hold no manifest, each of a kind that lies in real repositories.
const FOREIGN: [(&str, &[u8]); 9] = [
    ("cainjection.yaml", b"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: boats.sea.example.com, annotations: {a: b}}}"),
    ("conversion.yaml", b"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: boats.sea.example.com}, spec: {conversion: {strategy: None}}}"),
    ("kustomization.yaml", b"resources: [definitions.yaml]"),
    ("operations.json", br#"[{"op": "remove", "path": "/spec/versions/0/schema"}]"#),
    ("text.yaml", b"just a line"),
    ("values.yaml", b"replicas: 2\nimage: {tag: '1'}"),
    // Neither YAML nor UTF-8, and without a word of a rule, a definition or a suite.
    ("helper.yaml", b"{{- define \"name\" }}\na: [\n{{ end }}"),
    ("latin.yml", b"name: caf\xe9"),
    ("patch.yaml", b"spec: {replicas: 3}"),
];

/// Folder with definitions, a rule, and perhaps foreign files.
struct Folder(TempDir);

impl Folder {
    fn new(foreign: &[(&str, &[u8])]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("definitions.yaml", DEFINITIONS.as_bytes());
        folder.write("rule.yaml", RULE.as_bytes());
        foreign.iter().for_each(|(name, content)| _ = folder.write(name, content));
        folder
    }

    fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let file = self.0.path().join(name);
        std::fs::write(&file, content).unwrap();
        file
    }

    async fn run(&self, command: &[&str]) -> Ran {
        ran(command, self.0.path()).await
    }
}

async fn ran(command: &[&str], path: &Path) -> Ran {
    depguard(&[command, &["-f", path.to_str().unwrap()]].concat()).await
}

#[tokio::test]
async fn a_foreign_file_stops_neither_suggest_nor_lint_and_is_told() {
    let (alone, beside) = (Folder::new(&[]), Folder::new(&FOREIGN));
    for command in [&["suggest"][..], &["suggest", "--definitions"], &["lint", "-o", "name"], &["lint", "--patch"]] {
        let (expected, told) = (alone.run(command).await, beside.run(command).await);
        assert_eq!((expected.status, told.status), (ExitStatus::Well, ExitStatus::Well), "{command:?} {told:?}");
        assert!(!expected.out.is_empty() && expected.err.is_empty(), "{command:?} {expected:?}");
        assert_eq!(expected.out, told.out, "{command:?}");
        let mut skipped: Vec<_> = told.err.lines().map(str::to_owned).collect();
        let mut named = FOREIGN.map(|(file, _)| {
            let file = beside.0.path().join(file);
            format!("note: skipped the documents of `{}` that are not manifests", file.display())
        });
        skipped.sort();
        named.sort();
        assert_eq!(skipped, named, "{command:?}");
    }
}

#[tokio::test]
async fn a_patch_of_a_definition_does_not_replace_it() {
    let folder = Folder::new(&FOREIGN[..6]);
    folder.write("boat.yaml", b"{apiVersion: sea.example.com/v1, kind: Boat, metadata: {name: b, namespace: n}, spec: {harborRef: {name: h}}}");
    let harbor = folder
        .write("harbor.yaml", b"{apiVersion: sea.example.com/v1, kind: Harbor, metadata: {name: h, namespace: n}}");
    for command in [&["dangling"][..], &["unused"], &["graph"], &["impact", "harbor", "h", "-n", "n"]] {
        let told = folder.run(command).await;
        assert_eq!(told.status, ExitStatus::Well, "{command:?} {told:?}");
        assert!(told.err.contains("conversion.yaml` that are not manifests"), "{command:?} {told:?}");
        assert!(!told.err.contains("the last one counts"), "{command:?} {told:?}");
    }
    std::fs::remove_file(harbor).unwrap();
    assert_eq!(folder.run(&["dangling"]).await.status, ExitStatus::Finding);
}

/// A file that may hide a rule or a definition is not passed over. The other files are read all the same.
#[tokio::test]
async fn a_file_that_may_hold_a_rule_or_a_definition_leaves_it_incomplete() {
    for (command, content, status) in [
        (&["lint"][..], "kind: DependencyRule\nspec: [", ExitStatus::Failure),
        (&["lint"], "{{ if .Values.crds }}\nkind: CustomResourceDefinition\n{{ end }}", ExitStatus::Failure),
        (&["lint"], "{{ if .Values.on }}\nkind: Deployment\n{{ end }}", ExitStatus::Well),
        (&["suggest"], "{{ if .Values.crds }}\nkind: CustomResourceDefinition\n{{ end }}", ExitStatus::Failure),
        (&["suggest"], "kind: DependencyRule\nspec: [", ExitStatus::Well),
        (&["suggest"], "apiVersion: apiextensions.k8s.io/v1\nmetadata: {name: r}\nspec: {}", ExitStatus::Failure),
        (&["suggest"], "kind: Deployment\nmetadata: {name: r}\nspec: {}", ExitStatus::Well),
    ] {
        let (alone, beside) = (Folder::new(&[]), Folder::new(&[("odd.yaml", content.as_bytes())]));
        let told = beside.run(command).await;
        assert_eq!(told.status, status, "{content} {told:?}");
        let out = alone.run(command).await.out.replace(alone.0.path().to_str().unwrap(), "");
        assert_eq!(told.out.replace(beside.0.path().to_str().unwrap(), ""), out, "{content}");
        let is_told = told.err.contains("could not read the ") && told.err.contains("error: incomplete: ");
        assert_eq!(is_told, status == ExitStatus::Failure, "{content} {told:?}");
        assert!(told.err.contains("odd.yaml"), "{told:?}");
    }
    // A rule that can be read and is wrong is a finding, as it is alone.
    let wrong = Folder::new(&[(
        "wrong.yaml",
        RULE.replace("boats}\nspec", "b}\nspec").replace("harborRef", "port").as_bytes(),
    )]);
    let told = wrong.run(&["lint"]).await;
    assert!(told.status == ExitStatus::Finding && told.out.contains("error[DG101]"), "{told:?}");
    // So is a definition that says its group, and no names.
    let mut wrong = Folder::new(&[]);
    wrong.write(
        "wrong.yaml",
        b"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, spec: {group: x}}",
    );
    let told = wrong.run(&["lint"]).await;
    assert!(told.status == ExitStatus::Finding && told.out.contains("error[DG121]"), "{told:?}");
    wrong = Folder::new(&[("wrong.yaml", b"{kind: CustomResourceDefinition, metadata: {name: x}, spec: {group: x}}")]);
    let told = wrong.run(&["suggest"]).await;
    assert!(told.status == ExitStatus::Failure && told.out.contains("resource: boats"), "{told:?}");
}

#[tokio::test]
async fn a_foreign_file_that_the_user_names_is_an_error() {
    let folder = Folder::new(&FOREIGN);
    let path = |name: &str| folder.0.path().join(name);
    for name in ["operations.json", "text.yaml", "helper.yaml", "latin.yml"] {
        for command in [&["suggest"][..], &["lint"], &["dangling"], &["import", "published-resource"], &["test"]] {
            let told = ran(command, &path(name)).await;
            assert_eq!((told.status, told.out.as_str()), (ExitStatus::Failure, ""), "{command:?} {name} {told:?}");
            assert!(told.err.contains(name), "{command:?} {name} {told:?}");
        }
    }
    let (rule, patch) = (path("rule.yaml"), path("conversion.yaml"));
    let told = depguard(&["lint", "-f", rule.to_str().unwrap(), "--schemas", patch.to_str().unwrap()]).await;
    assert!(told.status == ExitStatus::Finding && told.out.contains("error[DG121]"), "{told:?}");
    let told = ran(&["suggest"], &patch).await;
    assert_eq!((told.status, told.out.as_str()), (ExitStatus::Failure, ""), "{told:?}");
}

#[tokio::test]
async fn a_foreign_file_stops_import_only_if_the_user_names_it() {
    let folder = Folder::new(&FOREIGN);
    let spec = json!({"related": [{"identifier": "label", "origin": "service", "kind": "Secret",
        "object": {"reference": {"path": "spec.label"}}}]});
    let documents = [parcels(), published(SYNC_AGENT, "parcels", &spec)].map(|document| document.to_string());
    folder.write("published.yaml", documents.join("\n---\n").as_bytes());
    let told = folder.run(&["import", "published-resource"]).await;
    assert_eq!(told.status, ExitStatus::Well, "{told:?}");
    assert!(told.out.contains("path: .spec.label") && told.err.contains("values.yaml"), "{told:?}");
    folder.write("broken.yaml", b"kind: PublishedResource\nspec: [");
    let told = folder.run(&["import", "published-resource"]).await;
    assert!(told.status == ExitStatus::Failure && told.out.contains("path: .spec.label"), "{told:?}");
}

#[tokio::test]
async fn a_foreign_file_beside_suites_and_beside_their_rules_stops_no_test() {
    let suites = tempfile::tempdir().unwrap();
    let rules = suites.path().join("rules");
    std::fs::create_dir(&rules).unwrap();
    FOREIGN.iter().for_each(|(name, content)| std::fs::write(suites.path().join(name), content).unwrap());
    let foreign = FOREIGN.iter().filter(|(name, _)| !["helper.yaml", "latin.yml"].contains(name));
    foreign.for_each(|(name, content)| std::fs::write(rules.join(name), content).unwrap());
    write(
        &rules,
        "kustom.yaml",
        "{apiVersion: kustomize.config.k8s.io/v1beta1, kind: Kustomization, resources: [rule.yaml]}",
    );
    write(&rules, "rule.yaml", RULE);
    let suite: Value = json!({
        "rules": ["rules"],
        "objects": [
            {"apiVersion": "sea.example.com/v1", "kind": "Harbor", "metadata": {"name": "h"}},
            {"apiVersion": "sea.example.com/v1", "kind": "Boat", "metadata": {"name": "b"}, "spec": {"harborRef": {"name": "h"}}},
        ],
        "tests": [{"delete": "harbor/h", "expect": "denied", "blockers": ["Boat/b"]}],
    });
    write(suites.path(), "suite.yaml", &suite.to_string());
    let told = ran(&["test"], suites.path()).await;
    assert_eq!(told.status, ExitStatus::Well, "{told:?}");
    assert!(told.err.contains("values.yaml` that are not manifests"), "{told:?}");
    assert!(told.err.contains("skipped the Kustomization at "), "{told:?}");
    // What may hold an object or a suite is not passed over.
    for (folder, content) in [(rules.as_path(), "apiVersion: v1\nkind: ["), (suites.path(), "rules: [\ntests:")] {
        let file = write(folder, "broken.yaml", content);
        let told = ran(&["test"], suites.path()).await;
        assert!(told.status == ExitStatus::Failure && told.err.contains("broken.yaml"), "{told:?}");
        std::fs::remove_file(file).unwrap();
    }
    let nameless = "{apiVersion: sea.example.com/v1, kind: Boat, metadata: {generateName: b-}}";
    write(&rules, "nameless.yaml", nameless);
    let told = ran(&["test"], suites.path()).await;
    assert!(told.status == ExitStatus::Failure && told.err.contains("the object has no metadata.name"), "{told:?}");
}
