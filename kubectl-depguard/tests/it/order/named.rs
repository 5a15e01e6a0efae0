//! `order KIND NAME`: named objects, with all that depends on them.

use depguard_testbed::{Fault, When};
use kubectl_depguard::ExitStatus;
use serde_json::json;

use crate::order::stage::{CONTROL_PLANES, Stage};
use crate::order::unguarded::{Unguarded, VMS, VPCS, backup_rule, vm, vpc};
use crate::references::scene::RULES;
use crate::tool::depguard;

const ALL: [&str; 7] = ["a", "b1", "base", "free", "m1", "m2", "m3"];

#[tokio::test(flavor = "multi_thread")]
async fn a_named_object_goes_last_after_all_that_depend_on_it_and_nothing_else_goes() {
    let stage = Unguarded::set().await;
    let told = stage.order(&["vpc", "base", "-n", "red"]).await;
    assert_eq!(told.status, ExitStatus::Well, "{told:?}");
    assert_eq!(
        told.out,
        "WAVE   NAMESPACE   OBJECT                                   STATE\n\
         1      blue        virtualmachines.compute.example.com/m2\n\
         1      red         virtualmachines.compute.example.com/m1\n\
         2      red         vpcs.network.example.com/a\n\
         3      red         vpcs.network.example.com/base\n",
        "{told:?}"
    );
    let asked = stage.order(&["vpc", "base", "-n", "red", "--delete"]).await;
    assert_eq!(asked.status, ExitStatus::Failure, "{asked:?}");
    let dry = stage.order(&["vpc", "base", "-n", "red", "--delete", "--dry-run=client"]).await;
    assert_eq!((dry.status, dry.out.lines().count()), (ExitStatus::Well, 4), "{dry:?}");
    stage.there_are(&ALL).await;

    stage.release().await;
    let deleted = stage.delete_base(&[]).await;
    assert_eq!(deleted.status, ExitStatus::Well, "{deleted:?}");
    assert!(deleted.out.ends_with("4 objects are gone, 0 are left\n"), "{deleted:?}");
    stage.there_are(&["b1", "free", "m3"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_grants_each_wave_and_after_a_crash_the_deletion_goes_on() {
    for control_plane in CONTROL_PLANES {
        let stage = Stage::set(control_plane).await;
        let kubeconfig = stage.kubeconfig(&stage.consumer().path);
        let base = format!("{}.{}/base", stage.cast.vpc.plural, stage.cast.vpc.group);
        let args = ["order", &base, "-n", &stage.consumer().namespace, "--kubeconfig", kubeconfig.to_str().unwrap()];
        let delete = [&args[..], &["--delete", "--yes"]].concat();
        let mut crashing = std::pin::pin!(depguard(&delete));
        tokio::select! {
            ended = &mut crashing => panic!("it can't end while a finalizer holds m1: {ended:?}"),
            () = async { stage.until_going("m1").await; stage.until_gone("m2").await } => {}
        }
        stage.networks_are_untouched().await;
        // A dependent that is left keeps the named object, and the others that depend on it.
        let late = depguard(&[&delete[..], &["--timeout=1s"]].concat()).await;
        assert_eq!(late.status, ExitStatus::Finding, "{late:?}");
        assert!(late.err.contains("waits for its finalizers: example.com/detach"), "{late:?}");
        assert!(late.out.ends_with("0 objects are gone, 3 are left\n"), "{late:?}");
        stage.networks_are_untouched().await;
        stage.consumer().release(&stage.cast.vm, "m1").await.unwrap();
        let deleted = depguard(&delete).await;
        assert_eq!(deleted.status, ExitStatus::Well, "{deleted:?}");
        let path = stage.consumer().object(&stage.cast.vpc, "base");
        stage.consumer().gone(&stage.world, &path).await.unwrap();
        stage.consumer().untouched(&stage.cast.vpc, "free").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_deleted_where_dependents_may_be_missing() {
    let stage = Unguarded::set().await;
    stage.release().await;
    // Machines can be listed in the user's own namespace only, and those of other namespaces may refer to `a`.
    stage.scene.forbid("/v1/virtualmachines?");
    for note in ["virtualmachines.compute.example.com in other namespaces", "virtualmachines.compute.example.com"] {
        let refused = stage.delete_base(&[]).await;
        assert_eq!((refused.status, refused.out.as_str()), (ExitStatus::Failure, ""), "{refused:?}");
        assert!(refused.err.contains("error: nothing was deleted: the plan is incomplete"), "{refused:?}");
        assert!(refused.err.contains(&format!("could not read {note} (no right to read)")), "{refused:?}");
        let shown = stage.order(&["vpc", "base", "-n", "red"]).await;
        assert_eq!(shown.status, ExitStatus::Failure, "{shown:?}");
        stage.there_are(&ALL).await;
        stage.scene.forbid("/namespaces/red/virtualmachines?");
    }
    // A rule that can't be read may be about any object.
    stage.scene.clear_faults();
    stage.scene.forbid("/dependencyrules?");
    let refused = stage.delete_base(&[]).await;
    assert_eq!((refused.status, refused.out.as_str()), (ExitStatus::Failure, ""), "{refused:?}");
    assert!(refused.err.contains("could not read the rules"), "{refused:?}");
    stage.there_are(&ALL).await;
    stage.scene.clear_faults();
    assert_eq!(stage.delete_base(&[]).await.status, ExitStatus::Well);
}

/// The rule about networks leads to no other namespace.
#[tokio::test(flavor = "multi_thread")]
async fn the_rights_of_one_namespace_are_enough_where_no_rule_leads_out_of_it() {
    let stage = Unguarded::set().await;
    stage.scene.objects().delete(&format!("{RULES}/machines"), depguard_kcp::Preconditions::default()).await.unwrap();
    stage.scene.forbid("/v1/vpcs?");
    let deleted = stage.delete_base(&[]).await;
    assert_eq!(deleted.status, ExitStatus::Well, "{deleted:?}");
    stage.there_are(&["b1", "free", "m1", "m2", "m3"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_deleted_unless_all_can_go() {
    let stage = Unguarded::set().await;
    stage.release().await;
    // The backup's reference is unclear: it may be about any network.
    let names: Vec<_> = (0..10_001).map(|name| json!({"vpc": format!("n{name}")})).collect();
    let mut unclear = vm("m9", "");
    unclear["spec"]["networks"] = names.into();
    stage.create(VMS, &unclear).await;
    let refused = stage.delete_base(&[]).await;
    assert_eq!(refused.status, ExitStatus::Finding, "{refused:?}");
    assert!(refused.err.contains("nothing was deleted, as not all of these objects can go"), "{refused:?}");
    assert!(refused.err.contains("it is blocked by VirtualMachine/red/m9 (rule machines"), "{refused:?}");
    stage.there_are(&["a", "b1", "base", "free", "m1", "m2", "m3", "m9"]).await;
    stage.scene.objects().delete(&format!("{VMS}/m9"), depguard_kcp::Preconditions::default()).await.unwrap();

    // `base` is in a cycle with `x`.
    stage.create(VPCS, &vpc("x", &json!({"base": "base"}))).await;
    stage.patch(&format!("{VPCS}/base"), &json!([{"op": "add", "path": "/spec/base", "value": "x"}])).await;
    let refused = stage.delete_base(&[]).await;
    assert_eq!(refused.status, ExitStatus::Finding, "{refused:?}");
    assert!(refused.err.contains("protect each other"), "{refused:?}");
    stage.there_are(&["a", "b1", "base", "free", "m1", "m2", "m3", "x"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_whose_rule_refuses_nothing_stay() {
    let stage = Unguarded::set().await;
    stage.release().await;
    stage.add_rule("backups", &backup_rule("Warn")).await;
    let deleted = stage.delete_base(&[]).await;
    assert_eq!(deleted.status, ExitStatus::Well, "{deleted:?}");
    let note = "objects that refer by rules that only warn or audit stay: Backup/red/b1";
    assert!(deleted.err.contains(note), "{deleted:?}");
    stage.there_are(&["b1", "free", "m3"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_objects_are_named_as_kubectl_takes_them() {
    let stage = Unguarded::set().await;
    stage.release().await;
    let missing = stage.order(&["vpc", "base", "nope", "-n", "red", "--delete", "--yes"]).await;
    assert_eq!(missing.status, ExitStatus::Failure, "{missing:?}");
    assert!(missing.err.contains("there is no vpcs.network.example.com/nope in namespace red"), "{missing:?}");
    let selected = stage.order(&["vpc", "base", "-n", "red", "-l", "a=b"]).await;
    assert!(selected.err.contains("-l and --field-selector have no effect on objects that are named"), "{selected:?}");
    stage.there_are(&ALL).await;
    // No rule is about backups.
    let deleted = stage.order(&["vpc/free", "backup/b1", "-n", "red", "--delete", "--yes", "-o", "name"]).await;
    assert_eq!(deleted.status, ExitStatus::Well, "{deleted:?}");
    let mut names: Vec<_> = deleted.out.lines().collect();
    names.sort_unstable();
    let expected =
        ["backups.backup.example.com/b1", "virtualmachines.compute.example.com/m3", "vpcs.network.example.com/free"];
    assert_eq!(names, expected, "{deleted:?}");
    stage.there_are(&["a", "base", "m1", "m2"]).await;
    let alone = stage.order(&["vm", "m2", "-n", "blue"]).await;
    assert_eq!(alone.status, ExitStatus::Failure, "{alone:?}");
    let alone = stage.order(&["virtualmachine", "m2", "-n", "blue", "--delete", "--yes"]).await;
    assert_eq!(alone.status, ExitStatus::Well, "{alone:?}");
    assert!(alone.err.contains("no rule lets anything depend on objects of these kinds"), "{alone:?}");
    stage.there_are(&["a", "base", "m1"]).await;
}

/// The API server refuses the deletion of `a`: `base` can't go any more.
#[tokio::test(flavor = "multi_thread")]
async fn once_a_named_object_cannot_go_its_other_dependents_stay() {
    let stage = Unguarded::set().await;
    stage.release().await;
    stage.create(VPCS, &vpc("c", &json!({"base": "base"}))).await;
    stage.create(VPCS, &vpc("c2", &json!({"base": "c"}))).await;
    stage.scene.inject(Fault::Forbidden, When::always().method("DELETE").path("/virtualmachines/m2"));
    let left = stage.delete_base(&[]).await;
    assert_eq!(left.status, ExitStatus::Finding, "{left:?}");
    assert!(left.err.contains("m2 in namespace blue was refused"), "{left:?}");
    assert!(left.err.contains("stopped, as the named objects can't go any more"), "{left:?}");
    // The first wave had also m1 and c2; c was in the second.
    stage.there_are(&["a", "b1", "base", "c", "free", "m2", "m3"]).await;
}

/// The files have `base`, `a` and a rule; nothing says so of the machines, which block `a`.
#[tokio::test(flavor = "multi_thread")]
async fn files_name_the_objects_to_delete_and_their_dependents_go_only_if_the_user_says_so() {
    let stage = Unguarded::set().await;
    stage.release().await;
    let folder = tempfile::tempdir().unwrap();
    let mut objects = vec![vpc("base", &json!({})), vpc("a", &json!({})), vpc("nope", &json!({}))];
    objects.iter_mut().for_each(|object| object["metadata"]["namespace"] = json!("red"));
    objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "red"}}));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let file = crate::tool::write(folder.path(), "all.json", &list.to_string());
    let delete = ["-f", file.to_str().unwrap(), "--delete", "--yes"];

    let refused = stage.order(&delete).await;
    assert_eq!(refused.status, ExitStatus::Finding, "{refused:?}");
    assert!(refused.err.contains("VPC/red/a can't be deleted while it is blocked by VirtualMachine/"), "{refused:?}");
    assert!(
        refused.err.contains("no rule names the kinds of these objects, so they stay: Namespace/red"),
        "{refused:?}"
    );
    assert!(refused.err.contains("not on the cluster: VPC/nope"), "{refused:?}");
    assert!(refused.err.contains("--dependents"), "{refused:?}");
    let both = stage.order(&[&["red"][..], &delete].concat()).await;
    assert_eq!(both.status, ExitStatus::Failure, "{both:?}");
    stage.there_are(&ALL).await;
    let deleted = stage.order(&[&delete[..], &["--dependents"]].concat()).await;
    assert_eq!(deleted.status, ExitStatus::Well, "{deleted:?}");
    stage.there_are(&["b1", "free", "m3"]).await;
    let nothing = stage.order(&delete).await;
    assert_eq!(nothing.status, ExitStatus::Failure, "{nothing:?}");
    let none = stage.order(&["vpc", "free", "-n", "red", "--delete", "--yes", "--dependents"]).await;
    assert_eq!(none.status, ExitStatus::Failure, "{none:?}");
    stage.there_are(&["b1", "free", "m3"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_file_stops_no_deletion_and_one_that_can_not_be_read_stops_all() {
    let stage = Unguarded::set().await;
    stage.release().await;
    let folder = tempfile::tempdir().unwrap();
    let mut free = vpc("free", &json!({}));
    free["metadata"]["namespace"] = json!("red");
    let write = |name: &str, content: &str| crate::tool::write(folder.path(), name, content);
    write("free.json", &free.to_string());
    write("values.yaml", "replicas: 1");
    write(
        "kustomization.yaml",
        "{apiVersion: kustomize.config.k8s.io/v1beta1, kind: Kustomization, resources: [free.json]}",
    );
    let template = write("template.yaml", "apiVersion: v1\n{{- if .Values.a }}\nkind: Secret\n{{- end }}\n");
    let delete = ["-f", folder.path().to_str().unwrap(), "--delete", "--dependents", "--yes"];
    let refused = stage.order(&delete).await;
    assert_eq!((refused.status, refused.out.as_str()), (ExitStatus::Failure, ""), "{refused:?}");
    assert!(refused.err.contains("error: nothing was deleted: the plan is incomplete"), "{refused:?}");
    assert!(refused.err.contains("could not read the file `") && refused.err.contains("template.yaml"), "{refused:?}");
    stage.there_are(&ALL).await;
    let dry = stage.order(&[&delete[..], &["--dry-run=client"]].concat()).await;
    assert_eq!(dry.status, ExitStatus::Failure, "{dry:?}");
    assert!(dry.out.contains("vpcs.network.example.com/free"), "{dry:?}");
    std::fs::remove_file(template).unwrap();
    let deleted = stage.order(&delete).await;
    assert_eq!(deleted.status, ExitStatus::Well, "{deleted:?}");
    assert!(deleted.err.contains("values.yaml` that are not manifests"), "{deleted:?}");
    assert!(deleted.err.contains("so they stay: the Kustomization at "), "{deleted:?}");
    stage.there_are(&["a", "b1", "base", "m1", "m2"]).await;
}
