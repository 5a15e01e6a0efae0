//! Objects that go with a definition, a namespace or a workspace, and those that refer to them.

use kubectl_depguard::ExitStatus;
use serde_json::Value;

use crate::references::scene::Scene;
use crate::tool::{Ran, depguard, write};

const ALL: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: vaults.keys.example.com}
spec:
  group: keys.example.com
  scope: Namespaced
  names: {kind: Vault, plural: vaults}
  versions: [{name: v1, served: true, storage: true}]
---
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: apps}
spec:
  dependent: {group: apps.example.com, version: v1, kind: App, resource: apps}
  dependencies:
  - {group: keys.example.com, version: v1, resource: vaults, fieldRef: {path: .spec.vault, namespacePath: .spec.vaultNamespace}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: a}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: b}}
---
{apiVersion: keys.example.com/v1, kind: Vault, metadata: {name: main, namespace: a}}
---
{apiVersion: keys.example.com/v1, kind: Vault, metadata: {name: spare, namespace: a}}
---
{apiVersion: apps.example.com/v1, kind: App, metadata: {name: far, namespace: b}, spec: {vault: main, vaultNamespace: a}}
---
{apiVersion: apps.example.com/v1, kind: App, metadata: {name: near, namespace: a}, spec: {vault: spare, vaultNamespace: a}}
";

async fn ran(files: &str, command: &str) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.yaml", files);
    depguard(&[&command.split(' ').collect::<Vec<_>>()[..], &["-f", file.to_str().unwrap()]].concat()).await
}

#[tokio::test]
async fn a_definition_goes_with_its_objects_to_which_others_refer() {
    let told = ran(ALL, "impact crd vaults.keys.example.com").await;
    assert_eq!(
        told.well(),
        "\
CustomResourceDefinition/vaults.keys.example.com
├── Vault/a/main   goes with it
│   └── App/b/far   spec.vault (rule apps)
└── Vault/a/spare   goes with it
    └── App/a/near   spec.vault (rule apps)

4 objects depend on CustomResourceDefinition/vaults.keys.example.com: 2 App, 2 Vault
"
    );
    let told = ran(ALL, "why crd vaults.keys.example.com").await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    assert!(
        told.out.starts_with("breaks: nothing refuses the deletion of customresourcedefinitions/vaults."),
        "{told:?}"
    );
    let said = "breaks: Vault/a/main goes with it, and App/b/far still refers to that (rule apps, spec.vault)\n  \
                next: delete App/b/far, or change .spec.vault; kubectl depguard why vaults.keys.example.com/main -n a\n";
    assert!(told.out.contains(said), "{told:?}");
    let json: Value = serde_json::from_str(&ran(ALL, "why crd vaults.keys.example.com -o json").await.out).unwrap();
    assert_eq!(json["objects"][0]["state"], "breaking", "{json}");

    // Without those who refer, both say that all is well.
    let alone = ALL.replace("{vault: main, ", "{vault: none, ").replace("{vault: spare, ", "{vault: none, ");
    let told = ran(&alone, "why crd vaults.keys.example.com").await;
    assert_eq!(told.status, ExitStatus::Well, "{told:?}");
    let told = ran(&alone, "impact crd vaults.keys.example.com").await.well();
    assert!(told.ends_with("nothing depends on CustomResourceDefinition/vaults.keys.example.com\n"), "{told}");
    // A rule that can't tell leaves both unknown.
    let broken = ALL.replace(".spec.vault,", "'.spec.vault[',");
    for command in ["why crd vaults.keys.example.com", "impact crd vaults.keys.example.com", "impact ns a", "why ns a"]
    {
        let told = ran(&broken, command).await;
        assert_eq!(told.status, ExitStatus::Failure, "{command} {told:?}");
    }
}

#[tokio::test]
async fn a_namespace_goes_with_what_is_in_it() {
    let told = ran(ALL, "impact ns a").await.well();
    assert_eq!(
        told,
        "\
Namespace/a
└── Vault/a/main   goes with it
    └── App/b/far   spec.vault (rule apps)

2 objects depend on Namespace/a: 1 App, 1 Vault
"
    );
    let told = ran(ALL, "why ns a").await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    assert!(told.out.contains("Vault/a/main is still referenced by App/b/far"), "{told:?}");
    assert!(told.out.contains("next: delete App/b/far, or change .spec.vault\n"), "{told:?}");
    let wide = ran(ALL, "impact ns a -o wide").await.well();
    assert!(wide.contains("Vault/a/main"), "{wide}");
    for command in ["impact ns b", "why ns b"] {
        let told = ran(ALL, command).await;
        assert_eq!(told.status, ExitStatus::Well, "{command} {told:?}");
    }
}

#[tokio::test]
async fn objects_without_a_namespace_go_with_their_definition() {
    let all = ALL.replace("scope: Namespaced", "scope: Cluster").replace(", namespacePath: .spec.vaultNamespace", "");
    let all = all
        .replace("{name: main, namespace: a}", "{name: main}")
        .replace("{name: spare, namespace: a}", "{name: spare}");
    let told = ran(&all, "impact crd vaults.keys.example.com").await.well();
    assert!(told.contains("├── Vault/main   goes with it\n│   └── App/b/far"), "{told}");
    let told = ran(&all, "why crd vaults.keys.example.com").await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    assert!(told.out.contains("breaks: Vault/main goes with it, and App/b/far still refers to that"), "{told:?}");
}

#[tokio::test]
async fn what_goes_with_a_workspace_is_never_nothing() {
    let scene = Scene::kcp().await;
    scene.vpc("red", "a").await;
    scene.vm("red", "m", &["a"]).await;
    for command in ["why workspace tenant", "impact workspace tenant"] {
        for format in ["", " -o json", " -o name"] {
            let told = scene.run_as_admin(&format!("{command}{format}").split(' ').collect::<Vec<_>>()).await;
            assert_eq!(told.status, ExitStatus::Failure, "{command}{format} {told:?}");
            let said = format!("{}{}", told.out, told.err);
            assert!(!said.contains("free") && !said.contains("nothing depends"), "{command}{format} {told:?}");
            assert!(
                format == " -o name" || said.contains("who refers to what is in Workspace tenant"),
                "{command}{format} {told:?}"
            );
        }
    }
    // Nothing goes with a VPC.
    scene.vpc("red", "spare").await;
    for command in ["why", "impact"] {
        let told = scene.run(&[command, "vpc", "spare", "-n", "red"]).await;
        assert_eq!(told.status, ExitStatus::Well, "{told:?}");
    }
}

#[tokio::test]
async fn a_workspace_whose_export_is_bound_here_breaks_what_comes_from_it() {
    let scene = Scene::kcp().await;
    scene.bind_in_root("network.example.com").await;
    let told = scene.run_as_admin(&["why", "workspace", "provider"]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    let said = "breaks: APIExport network.example.com goes with it, and vpcs.network.example.com of this workspace come \
                from that\n";
    assert!(told.out.starts_with("breaks: nothing refuses") && told.out.contains(said), "{told:?}");
    let told = scene.run_as_admin(&["impact", "workspace", "provider"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(told.err.contains("so do the APIExports of vpcs.network.example.com of this workspace"), "{told:?}");
    let told = scene.run_as_admin(&["impact", "workspace", "tenant"]).await;
    assert!(told.status == ExitStatus::Failure && !told.err.contains("so do the APIExports"), "{told:?}");
    assert!(told.out.ends_with("found no object that depends on Workspace/tenant\n"), "{told:?}");
    let told = scene.run_as_admin(&["why", "workspace", "tenant"]).await;
    assert!(told.status == ExitStatus::Failure && !told.out.contains("breaks"), "{told:?}");
}
