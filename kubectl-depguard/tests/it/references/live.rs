//! `dangling` and `impact` on API servers, on both control planes.

use depguard_testbed::When;
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::references::scene::{RULES, Scene, post};

#[tokio::test]
async fn references_are_followed_in_kubernetes() {
    are_followed(&Scene::kubernetes().await).await;
}

#[tokio::test]
async fn references_are_followed_in_a_workspace_of_kcp() {
    are_followed(&Scene::kcp().await).await;
}

async fn are_followed(scene: &Scene) {
    scene.vpc("red", "a").await;
    scene.vm("red", "m1", &["a"]).await;
    scene.vm("blue", "m2", &["red/a", "b"]).await;

    let all = scene.run(&["dangling", "-A"]).await;
    assert_eq!(all.status, ExitStatus::Finding, "{}{}", all.out, all.err);
    assert_eq!(
        all.out,
        "MISSING TARGET   REFERENCES   DEPENDENT                FIELD                  RULE\n\
         VPC/blue/b       1            VirtualMachine/blue/m2   spec.networks[*].vpc   machines\n"
    );
    // The target of a namespace's object is looked up in the target's own namespace, whichever that is.
    let (one, other) = (scene.run(&["dangling", "-n", "blue"]).await, scene.run(&["dangling", "-n", "red"]).await);
    assert_eq!((one.status, one.out), (ExitStatus::Finding, all.out));
    assert_eq!((other.status, other.out.as_str()), (ExitStatus::Well, ""), "{}", other.err);

    let tree = scene.run(&["impact", "vpc/a", "-n", "red"]).await;
    assert_eq!(tree.status, ExitStatus::Well, "{}{}", tree.out, tree.err);
    assert_eq!(
        tree.out,
        "\
VPC/red/a
├── VirtualMachine/blue/m2   spec.networks[*].vpc (rule machines)
└── VirtualMachine/red/m1   spec.networks[*].vpc (rule machines)

2 objects depend on VPC/red/a: 2 VirtualMachine
"
    );
    scene.vpc("blue", "b").await;
    let listed = scene.lists("compute.example.com", "virtualmachines");
    let none = scene.run(&["dangling", "-A"]).await;
    assert_eq!((none.status, none.out.as_str()), (ExitStatus::Well, ""), "{}", none.err);
    assert_eq!(scene.lists("compute.example.com", "virtualmachines") - listed, 1, "each kind is listed once");
}

#[tokio::test]
async fn kinds_that_are_not_installed_leave_nothing_unknown_until_something_refers_to_one() {
    let scene = Scene::kubernetes().await;
    scene.vpc("red", "a").await;
    scene.vm("red", "m1", &["a"]).await;
    // Tapes are dependents and targets, as kinds of many packs are.
    let rule = |name: &str, group: &str, field: &str| {
        json!({
            "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": name},
            "spec": {
                "dependent": {"group": group, "version": "v1", "kind": "Tape", "resource": "tapes"},
                "dependencies": [{"group": group, "version": "v1", "resource": "tapes", "fieldRef": {"path": field}}],
            },
        })
    };
    let commands =
        [&["dangling", "-A"][..], &["unused", "-A"], &["order", "-n", "red"], &["why", "vpc/a", "-n", "red"]];
    let statuses = async || {
        let mut statuses = Vec::new();
        for command in commands {
            statuses.push(scene.run(command).await.status);
        }
        statuses
    };
    let before = statuses().await;
    assert!(!before.contains(&ExitStatus::Failure), "{before:?}");
    post(scene.objects(), RULES, &rule("tapes", "backup.example.org", ".spec.previous")).await;
    assert_eq!(statuses().await, before);
    // An API server refuses whoever has no right to tapes before it looks for them.
    scene.forbid("backup.example.org");
    assert_eq!(statuses().await, before);
    scene.clear_faults();

    // A machine that refers to a tape: nobody knows if there is another word for tapes.
    let mut machines = rule("machines-of-tapes", "backup.example.org", ".spec.networks[*].vpc");
    machines["spec"]["dependent"] = json!({"group": "compute.example.com", "version": "v1", "kind": "VirtualMachine", "resource": "virtualmachines"});
    post(scene.objects(), RULES, &machines).await;
    let told = scene.run(&["dangling", "-A"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(told.err.contains("tapes.backup.example.org (not served here)"), "{told:?}");
}

#[tokio::test]
async fn a_group_that_is_nearly_served_is_misspelt_and_not_missing() {
    let scene = Scene::kubernetes().await;
    scene.vpc("red", "a").await;
    let rule = json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "peers"},
        "spec": {
            "dependent": {"group": "network.exmaple.com", "version": "v1", "kind": "VPC", "resource": "vpcs"},
            "dependencies": [
                {"group": "network.exmaple.com", "version": "v1", "resource": "vpcs", "fieldRef": {"path": ".spec.peer"}},
            ],
        },
    });
    assert_ne!(scene.run(&["unused", "-A"]).await.status, ExitStatus::Failure);
    post(scene.objects(), RULES, &rule).await;
    let told = scene.run(&["unused", "-A"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(told.err.contains("vpcs.network.exmaple.com"), "{told:?}");
}

#[tokio::test]
async fn where_a_provider_writes_its_rules_nothing_is_found_to_look_at() {
    let scene = Scene::kcp().await;
    scene.vpc("red", "a").await;
    for command in [&["dangling", "-A"][..], &["graph"], &["graph", "--objects", "-A"]] {
        let told = scene.run_as_provider(command).await;
        assert_eq!((told.status, told.out.as_str()), (ExitStatus::Failure, ""), "{}", told.err);
        assert!(told.err.contains("no rule applies to the objects of this workspace; rules read: 1"), "{}", told.err);
    }
    let nowhere = scene.run(&["dangling", "-n", "nope"]).await;
    assert_eq!(nowhere.status, ExitStatus::Failure, "{}", nowhere.out);
    assert!(nowhere.err.contains("there is no namespace nope"), "{}", nowhere.err);

    // A tenant's status shows the rules that protect objects in the tenant's workspace.
    let status = scene.run(&["status"]).await;
    assert!(
        status.out.contains("WORKSPACE       RULE") && status.out.contains("root:provider   machines"),
        "{}",
        status.out
    );
    assert!(!status.err.contains("not installed"), "{}", status.err);
}

#[tokio::test]
async fn what_must_not_be_read_is_counted_and_never_called_dangling() {
    let scene = Scene::kubernetes().await;
    scene.vpc("red", "a").await;
    scene.vm("red", "m1", &["a", "blue/b"]).await;

    scene.forbid("/namespaces/blue/vpcs?");
    let told = scene.run(&["dangling", "-n", "red", "-o", "json"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{}{}", told.out, told.err);
    let report: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&report["dangling"], &report["notLookedAt"]), (&serde_json::json!([]), &1.into()), "{report}");
    let note = "note: could not read vpcs.network.example.com in namespace blue (no right to read)\n";
    assert!(told.err.starts_with(note) && told.err.contains("1 reference could not be checked"), "{}", told.err);

    // Only the dependents in the user's own namespace can be listed: the command shows these, and reports that others
    // are missing.
    scene.forbid("/v1/virtualmachines?");
    let tree = scene.run(&["impact", "vpc", "a", "-n", "red"]).await;
    assert_eq!(tree.status, ExitStatus::Failure, "{}{}", tree.out, tree.err);
    assert!(tree.out.contains("VirtualMachine/red/m1") && tree.out.contains("at least 1 object"), "{}", tree.out);
    assert!(tree.err.contains("incomplete: 1 rule or kind could not be read"), "{}", tree.err);
    assert!(tree.err.contains("virtualmachines.compute.example.com in other namespaces"), "{}", tree.err);

    // If nothing can be listed, the command can't say that nothing depends on the object.
    scene.forbid("/namespaces/red/virtualmachines?");
    let nothing = scene.run(&["impact", "vpc", "a", "-n", "red"]).await;
    assert_eq!(nothing.status, ExitStatus::Failure, "{}{}", nothing.out, nothing.err);
    assert!(nothing.err.contains("dependents of VPC/red/a may be missing"), "{}", nothing.err);
}

/// Locks are kinds like others: if it is unknown whether the kinds exist, it is unknown whether an object is locked.
#[tokio::test]
async fn a_group_that_does_not_say_its_kinds_leaves_it_untold() {
    let scene = Scene::kubernetes().await;
    scene.vpc("red", "a").await;
    assert_eq!(scene.run(&["order", "red"]).await.status, ExitStatus::Well);
    // The command lists the rules before it asks for the kinds.
    scene.fail(When::always().method("GET").path("/apis/dependencies.opendefense.cloud/v1alpha1").after(1));
    let told = scene.run(&["order", "red"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{}{}", told.out, told.err);
    let said = "the plan is incomplete: could not read the kinds of dependencies.opendefense.cloud/v1alpha1";
    assert!(told.err.contains(said), "{}", told.err);

    let told = scene.run(&["why", "machine", "a", "-n", "red"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{}", told.out);
    let said = "found no kind `machine`, but could not read the kinds of dependencies.";
    assert!(told.err.contains(said), "{}", told.err);
}

#[tokio::test]
async fn definitions_that_must_not_be_read_leave_a_suggestion_incomplete() {
    let scene = Scene::kubernetes().await;
    let all = scene.run(&["suggest"]).await;
    assert_eq!(all.status, ExitStatus::Well, "{}", all.err);
    scene.forbid("/customresourcedefinitions");
    let told = scene.run(&["suggest"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{}", told.out);
    assert!(told.err.contains("could not read the CustomResourceDefinitions (no right to read)"), "{}", told.err);
}

#[tokio::test]
async fn a_tenant_who_must_not_read_the_providers_rules_is_not_told_that_nothing_is_installed() {
    let scene = Scene::kcp().await;
    scene.forbid("/dependencyrules");
    let told = scene.run(&["status"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{}{}", told.out, told.err);
    assert!(told.err.contains("could not find out whether depguard is installed here"), "{}", told.err);
    assert!(told.err.contains("could not read the rules of root:provider"), "{}", told.err);
}
