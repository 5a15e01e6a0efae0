//! Objects, rules and folders among manifests that a command must not skip silently.

use kubectl_depguard::ExitStatus;

use crate::references::files::{MISSING, OBJECTS, RULES, ran};
use crate::tool::{depguard, write};

/// Each document is an object or a rule to its author, but nothing to depguard.
#[tokio::test]
async fn an_object_or_a_rule_that_is_passed_over_leaves_it_untold() {
    const HEAD: &str = "apiVersion: compute.example.com/v1, kind: VirtualMachine";
    const RULE: &str = "kind: DependencyRule, metadata: {name: r}, spec: {dependent: {group: a.example.com, version: v1, kind: A, \
                        resource: as}, dependencies: []}";
    // Machines and backups refer to machines, but machines don't.
    let objects = format!(
        "{OBJECTS}---\n{{apiVersion: network.example.com/v1, kind: VPC, metadata: {{name: free, namespace: yy}}}}\n"
    );
    for (document, said) in [
        (format!("{HEAD}, metadata: {{labels: {{}}, namespace: x}}"), "it has no name"),
        (format!("{HEAD}, metadata: {{name: 7, namespace: x}}"), "its name is not a string: write it in quotes"),
        ("kind: VirtualMachine, metadata: {name: m9}".to_owned(), "its apiVersion or its kind is missing"),
        (format!("apiVersion: dependencies.opendefense.clod/v1alpha1, {RULE}"), "`dependencies.opendefense.clod"),
        (format!("apiVersion: dependencies.opendefense.cloud/v2, {RULE}"), "`dependencies.opendefense.cloud/v2"),
        (
            "apiVersion: dependencies.opendefense.cloud/v1alpha1, kind: DependencyRul, metadata: {name: r}".to_owned(),
            "the DependencyRul at ",
        ),
        ("apiVersion: v1, kind: List, items: {a: b}".to_owned(), "`items` is not a list"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "all.yaml", &format!("{RULES}---{objects}"));
        let path = folder.path().to_str().unwrap();
        assert_eq!(depguard(&["dangling", "-f", path]).await.status, ExitStatus::Well);
        write(folder.path(), "more.yaml", &format!("{{{document}}}\n"));
        for command in [
            &["dangling"][..],
            &["order", "-n", "yy"],
            &["graph"],
            &["graph", "--objects"],
            &["impact", "vpc", "free", "-n", "yy"],
            &["why", "vpc", "free", "-n", "yy", "-o", "wide"],
        ] {
            let told = depguard(&[command, &["-f", path]].concat()).await;
            assert_eq!(told.status, ExitStatus::Failure, "{document} {told:?}");
            assert!(format!("{}{}", told.out, told.err).contains(said), "{document} {told:?}");
        }
        // What is known of the document's kind leaves other kinds alone.
        let is_machine = document.starts_with(HEAD);
        for command in ["impact", "why"] {
            let told = depguard(&[command, "virtualmachine", "m2", "-n", "yy", "-f", path]).await;
            assert_eq!(told.status == ExitStatus::Well, is_machine, "{document} {told:?}");
        }
    }
}

#[tokio::test]
async fn what_no_rule_names_is_passed_over_with_a_note_where_it_has_no_name() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "all.yaml", &format!("{RULES}---{OBJECTS}"));
    write(folder.path(), "kustomization.yaml", "{apiVersion: kustomize.config.k8s.io/v1beta1, kind: Kustomization}\n");
    let told = depguard(&["dangling", "-f", folder.path().to_str().unwrap()]).await;
    assert_eq!(told.status, ExitStatus::Well, "{told:?}");
    assert!(told.err.contains("kustomization.yaml:1: it has no name"), "{told:?}");
}

/// A patch of kustomize has an object's name and few of its references; an overlay's object has others.
#[tokio::test]
async fn an_object_that_differs_in_two_files_leaves_what_it_refers_to_untold() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "base.yaml", &format!("{RULES}---{OBJECTS}"));
    let path = folder.path().to_str().unwrap();
    let vm = |name: &str, namespace: &str| {
        format!(
            "---\n{{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {{name: {name}, namespace: {namespace}}}, \
             spec: {{size: 4}}}}\n"
        )
    };
    let all = [
        &["unused", "-A"][..],
        &["dangling"],
        &["why", "vpc", "a", "-n", "x", "-o", "wide"],
        &["impact", "vpc", "a", "-n", "x"],
    ];
    let statuses = async || {
        let mut statuses = Vec::new();
        for command in all {
            let told = depguard(&[command, &["-f", path]].concat()).await;
            statuses.push((told.status, format!("{}{}", told.out, told.err)));
        }
        statuses
    };
    let of = |statuses: &[(ExitStatus, String)]| statuses.iter().map(|(status, _)| *status).collect::<Vec<_>>();
    let (found, well, untold) = (ExitStatus::Finding, ExitStatus::Well, ExitStatus::Failure);
    let before = statuses().await;
    // Nothing refers to one of the machines.
    assert_eq!(of(&before), [found, well, found, well], "{before:?}");
    write(folder.path(), "patch.yaml", &format!("{}{}", vm("m1", "x"), vm("m2", "yy")));
    let patched = statuses().await;
    assert_eq!(of(&patched), [untold; 4], "{patched:?}");
    for (_, said) in &patched {
        assert!(said.contains("VirtualMachine/m1") && said.contains("it differs in "), "{said}");
    }
    let of_target = |said: &str| said.lines().find(|line| line.starts_with("VPC/x/a")).map(str::to_owned);
    assert!(of_target(&patched[0].1).is_some_and(|line| line.contains(" unknown ")), "{patched:?}");
    // The object that everybody refers to may differ as it likes.
    write(
        folder.path(),
        "patch.yaml",
        "{apiVersion: network.example.com/v1, kind: VPC, metadata: {name: a, namespace: x}}\n",
    );
    let again = statuses().await;
    assert_eq!(of(&again), [found, well, found, well], "{again:?}");
}

/// The list is as `kubectl get --raw` prints it.
#[tokio::test]
async fn a_list_says_of_which_kind_its_items_are() {
    const LIST: &str = r#"---
{"apiVersion": "compute.example.com/v1", "kind": "VirtualMachineList", "metadata": {}, "items": [
    {"metadata": {"name": "m9", "namespace": "x"}, "spec": {"vpc": "nope"}}]}
---
{"apiVersion": "compute.example.com/v1", "kind": "VirtualMachineList", "items": null}
---
{"apiVersion": "list.example.com/v1", "kind": "AllowList", "metadata": {"name": "l"}, "items": [{"a": "b"}]}
"#;
    let told = ran(&format!("{OBJECTS}{LIST}"), &["dangling"]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    assert!(
        told.out.contains("VPC/x/nope       1            VirtualMachine/x/m9") && !told.err.contains("passed over"),
        "{told:?}"
    );
}

#[tokio::test]
async fn folders_that_are_too_deep_are_told() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "all.yaml", &format!("{RULES}---{OBJECTS}"));
    let deep = (0..33).fold(folder.path().to_owned(), |path, _| path.join("d"));
    std::fs::create_dir_all(&deep).unwrap();
    write(&deep, "more.yaml", MISSING);
    let told = depguard(&["dangling", "-R", "-f", folder.path().to_str().unwrap()]).await;
    assert_eq!((told.status, told.out.as_str()), (ExitStatus::Failure, ""), "{told:?}");
    assert!(told.err.contains("lies more than 32 folders deep"), "{told:?}");
}

/// The command reads no more references of one object than the webhook, which refuses beyond that limit.
#[tokio::test]
async fn references_that_are_cut_off_are_not_called_well() {
    let names = vec!["m1"; 10_001].join(", ");
    let many = format!(
        "---\n{{apiVersion: backup.example.com/v1, kind: Backup, metadata: {{name: b9, namespace: x}}, spec: {{vms: [{names}]}}}}\n"
    );
    let told = ran(&format!("{OBJECTS}{many}"), &["dangling"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    let said = "note: could not read the references of Backup/x/b9 by spec.vms[*] (it has more than 10000 references";
    assert!(
        told.err.contains(said) && told.err.contains("error: incomplete: 1 reference could not be checked"),
        "{told:?}"
    );
}
