//! `-l` and `--field-selector`: they choose what is reported, and never what is there.

use kubectl_depguard::ExitStatus;

use crate::references::scene::Scene;
use crate::tool::depguard_reading;

/// Three web servers and a job refer to configurations; one configuration is missing.
const FILES: &str = r"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: configs}
spec:
  dependent: {group: example.com, version: v1, kind: Server, resource: servers}
  dependencies:
  - {group: example.com, version: v1, resource: configs, fieldRef: {path: .spec.config}}
---
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: bases}
spec:
  dependent: {group: example.com, version: v1, kind: Config, resource: configs}
  dependencies:
  - {group: example.com, version: v1, resource: configs, fieldRef: {path: .spec.base}}
---
{apiVersion: example.com/v1, kind: Config, metadata: {name: base, namespace: shop}}
---
{apiVersion: example.com/v1, kind: Config, metadata: {name: web, namespace: shop}, spec: {base: base}}
---
{apiVersion: example.com/v1, kind: Config, metadata: {name: job, namespace: shop}, spec: {base: base}}
---
{apiVersion: example.com/v1, kind: Server, metadata: {name: a, namespace: shop, labels: {app: web, tier: front}}, spec: {config: web}}
---
{apiVersion: example.com/v1, kind: Server, metadata: {name: b, namespace: shop, labels: {app: web}}, spec: {config: gone}}
---
{apiVersion: example.com/v1, kind: Server, metadata: {name: c, namespace: shop, labels: {app: job}}, spec: {config: job}}
";

async fn files(args: &[&str]) -> (ExitStatus, String, String) {
    depguard_reading(&[args, &["-f", "-"]].concat(), FILES).await
}

#[tokio::test]
async fn dangling_reports_the_selected_dependents_and_knows_every_target() {
    // The target `web` has no label, and is there all the same.
    let (status, out, err) = files(&["dangling", "-l", "tier=front"]).await;
    assert_eq!((status, out.as_str()), (ExitStatus::Well, ""), "{err}");
    assert!(err.contains("1 reference checked"), "{err}");
    let (status, out, _) = files(&["dangling", "-l", "app in (web,job)", "--field-selector", "metadata.name!=a"]).await;
    assert_eq!(status, ExitStatus::Finding);
    assert!(out.contains("Server/shop/b") && out.lines().count() == 2, "{out}");

    for command in [
        &["dangling"][..],
        &["order"],
        &["unused"],
        &["graph", "--objects"],
        &["impact", "config", "base", "-n", "shop"],
    ] {
        let (status, _, err) = files(&[command, &["-l", "app=nope"]].concat()).await;
        assert!(status == ExitStatus::Failure && err.contains("no object matches `app=nope`"), "{command:?}: {err}");
    }
    let (status, _, err) = files(&["dangling", "-l", "app like (web)"]).await;
    assert!(status == ExitStatus::Failure && err.contains("KEY in (A,B)"), "{err}");
}

#[tokio::test]
async fn order_leaves_what_is_not_selected_and_what_that_refers_to() {
    let (status, out, err) = files(&["order", "-l", "app=web", "-o", "name"]).await;
    assert_eq!((status, out.as_str()), (ExitStatus::Well, "servers.example.com/a\nservers.example.com/b\n"), "{err}");
    let (status, out, err) = files(&["order", "--field-selector", "metadata.name=web"]).await;
    assert_eq!(status, ExitStatus::Finding, "{out}");
    assert!(err.contains("Config/shop/web can't be deleted while it is blocked by Server/shop/a"), "{err}");
    let (status, _, err) = files(&["order", "GlobalOwner", "x", "-l", "app=web"]).await;
    assert!(status == ExitStatus::Failure && err.contains("have no effect on a GlobalOwner"), "{err}");
}

#[tokio::test]
async fn impact_shows_the_selected_dependents_and_what_is_between() {
    let (status, out, err) = files(&["impact", "config", "base", "-n", "shop", "-l", "app=web"]).await;
    assert_eq!(status, ExitStatus::Well, "{err}");
    assert_eq!(
        out,
        "\
Config/shop/base
└── Config/shop/web (not selected)   spec.base (rule bases)
    └── Server/shop/a   spec.config (rule configs)

1 object depends on Config/shop/base: 1 Server
"
    );
    let (_, out, _) = files(&["impact", "config", "base", "-n", "shop", "-l", "app", "-o", "name"]).await;
    assert_eq!(out, "servers.example.com/c\nservers.example.com/a\n");
}

/// A dependent counts whether it is selected or not: otherwise an object in use would be called unused.
#[tokio::test]
async fn unused_reports_the_selected_objects_and_counts_every_use() {
    let more = "---\n{apiVersion: example.com/v1, kind: Config, metadata: {name: free, namespace: shop, labels: {app: web}}}\n";
    let labelled = FILES.replace("{name: web, namespace: shop}", "{name: web, namespace: shop, labels: {app: web}}");
    let all = format!("{labelled}{more}");
    let unused = async |args: &[&str]| depguard_reading(&[&["unused", "-f", "-"], args].concat(), all.as_str()).await;
    // `web` is in use by `a`, which has the label `tier`, and `base` by `web` and `job`.
    for (args, found) in [
        (&["-l", "app=web"][..], &["free"][..]),
        (&["-l", "!app"], &[]),
        (&["--field-selector", "metadata.name=web"], &[]),
        (&["--field-selector", "metadata.name=free"], &["free"]),
    ] {
        let (status, out, err) = unused(&[args, &["-o", "name"]].concat()).await;
        let status = (status, out.lines().map(|name| name.trim_start_matches("configs.example.com/")).collect());
        let expected = if found.is_empty() { ExitStatus::Well } else { ExitStatus::Finding };
        assert_eq!(status, (expected, found.to_vec()), "{args:?}: {err}");
    }
    let (_, _, err) = unused(&["-l", "!app"]).await;
    assert!(err.contains("no unused object: 2 objects checked"), "{err}");
    // Only dependents have the label.
    let (status, out, err) = unused(&["-l", "tier=front"]).await;
    assert_eq!((status, out.as_str()), (ExitStatus::Failure, ""), "{err}");
    let said =
        "there is no object that matches `tier=front`, of a kind that is a target in a rule: configs.example.com";
    assert!(err.contains(said), "{err}");
}

#[tokio::test]
async fn graph_draws_the_selected_objects_and_their_neighbours() {
    let (status, out, err) = files(&["graph", "--objects", "-l", "tier=front"]).await;
    assert_eq!(status, ExitStatus::Well, "{err}");
    assert!(out.contains("Server/shop/a") && out.contains("Config/shop/web"), "{out}");
    assert!(!out.contains("Config/shop/base") && !out.contains("gone") && !out.contains("Server/shop/c"), "{out}");
    let (status, _, err) = files(&["graph", "-l", "app=web"]).await;
    assert!(status == ExitStatus::Failure && err.contains("add --objects"), "{err}");
}

#[tokio::test]
async fn an_api_server_selects_by_itself() {
    let scene = Scene::kubernetes().await;
    scene.vpc("red", "a").await;
    for (name, vpc) in [("m1", "a"), ("m2", "b"), ("m3", "c")] {
        scene.vm("red", name, &[vpc]).await;
    }
    let named = async |name: &str| {
        scene.run(&["dangling", "-n", "red", "--field-selector", &format!("metadata.name={name}")]).await
    };
    let (well, one) = (named("m1").await, named("m2").await);
    assert_eq!(well.status, ExitStatus::Well, "{}{}", well.out, well.err);
    assert_eq!(one.status, ExitStatus::Finding, "{}", one.err);
    assert!(one.out.contains("VirtualMachine/red/m2") && one.out.lines().count() == 2, "{}", one.out);
    let none = named("nope").await;
    assert!(none.status == ExitStatus::Failure && none.err.contains("no object matches"), "{}", none.err);
    // The API server knows which fields it selects by.
    let unknown = scene.run(&["dangling", "-n", "red", "--field-selector", "spec.size=1"]).await;
    assert!(unknown.status == ExitStatus::Failure && unknown.out.is_empty(), "{}{}", unknown.out, unknown.err);

    // If the selected objects can't be listed, nothing is known about them.
    scene.forbid("fieldSelector=");
    let told = named("m1").await;
    assert_eq!(told.status, ExitStatus::Failure, "{}{}", told.out, told.err);
    assert!(told.err.contains("(no right to read): virtualmachines.compute.example.com, "), "{}", told.err);
    let told = scene.run(&["unused", "-n", "red", "--field-selector", "metadata.name=a"]).await;
    assert_eq!((told.status, told.out.as_str()), (ExitStatus::Failure, ""), "{told:?}");
}

/// The list of all objects has their labels, so that nothing is listed twice.
#[tokio::test]
async fn labels_are_compared_without_another_list() {
    let scene = Scene::kubernetes().await;
    for name in ["a", "b"] {
        scene.vpc("red", name).await;
    }
    scene.vm("red", "m1", &["a"]).await;
    scene.forbid("labelSelector=");
    let found = scene.run(&["unused", "-n", "red", "-l", "app!=web"]).await;
    assert_eq!(found.status, ExitStatus::Finding, "{found:?}");
    assert!(found.out.contains("VPC/red/b") && !found.out.contains("VPC/red/a"), "{found:?}");
    let lists = || {
        ["vpcs.network.example.com", "virtualmachines.compute.example.com"].map(|kind| {
            let (resource, group) = kind.split_once('.').unwrap();
            scene.lists(group, resource)
        })
    };
    let before = lists();
    scene.run(&["dangling", "-n", "red", "-l", "app!=web"]).await.well();
    let after = lists();
    assert_eq!([after[0] - before[0], after[1] - before[1]], [1, 1]);
    // What the API server would not select is not selected here either.
    let none = scene.run(&["dangling", "-n", "red", "-l", "app=web"]).await;
    assert!(none.status == ExitStatus::Failure && none.err.contains("no object matches `app=web`"), "{none:?}");
}
