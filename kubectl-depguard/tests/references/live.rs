//! API servers, in both homes.

use kubectl_depguard::ExitStatus;
use serde_json::Value;

use crate::scene::Scene;

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
        "RULE       DEPENDENT                FIELD                  MISSING TARGET\n\
         machines   VirtualMachine/blue/m2   spec.networks[*].vpc   VPC/blue/b\n"
    );
    // What a namespace's objects refer to is looked for in whichever namespace it would be.
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
async fn where_a_provider_writes_its_rules_nothing_is_found_to_look_at() {
    let scene = Scene::kcp().await;
    scene.vpc("red", "a").await;
    for command in [&["dangling", "-A"][..], &["graph"], &["graph", "--objects", "-A"]] {
        let told = scene.run_as_provider(command).await;
        assert_eq!((told.status, told.out.as_str()), (ExitStatus::Failure, ""), "{}", told.err);
        assert!(told.err.contains("none of the 1 rules that were read applies"), "{}", told.err);
    }
    let nowhere = scene.run(&["dangling", "-n", "nope"]).await;
    assert_eq!(nowhere.status, ExitStatus::Failure, "{}", nowhere.out);
    assert!(nowhere.err.contains("there is no namespace nope"), "{}", nowhere.err);

    // A tenant's status says what protects there.
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
    let note = "note: could not look at vpcs.network.example.com in namespace blue (no right to read them)\n";
    assert!(told.err.starts_with(note) && told.err.contains("one reference could not be looked at"), "{}", told.err);

    // Only the dependents of one's own namespace can be listed: those are shown, and what is missing is said.
    scene.forbid("/v1/virtualmachines?");
    let tree = scene.run(&["impact", "vpc", "a", "-n", "red"]).await;
    assert_eq!(tree.status, ExitStatus::Well, "{}{}", tree.out, tree.err);
    assert!(tree.out.contains("VirtualMachine/red/m1") && tree.out.contains("at least 1 object"), "{}", tree.out);
    assert!(tree.err.contains("virtualmachines.compute.example.com in other namespaces"), "{}", tree.err);

    // Where nothing at all can be listed, nobody can say that nothing depends on it.
    scene.forbid("/namespaces/red/virtualmachines?");
    let nothing = scene.run(&["impact", "vpc", "a", "-n", "red"]).await;
    assert_eq!(nothing.status, ExitStatus::Failure, "{}{}", nothing.out, nothing.err);
    assert!(nothing.err.contains("nothing that could be looked at depends on VPC/red/a"), "{}", nothing.err);
}
