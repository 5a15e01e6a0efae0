use kubectl_depguard::ExitStatus;
use serde_json::Value;

use crate::tool::{Ran, depguard, write};

const RULES: &str = r#"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: vms}
spec:
  dependent: {group: e.example.com, version: v1, kind: VM, resource: vms}
  dependencies:
  - {group: e.example.com, version: v1, resource: vpcs, kind: VPC, fieldRef: {path: .spec.vpc}}
  - {group: e.example.com, version: v1, resource: disks, kind: Disk, onDelete: Warn, fieldRef: {path: .spec.disk}}
---
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: vpcs}
spec:
  dependent: {group: e.example.com, version: v1, kind: VPC, resource: vpcs}
  dependencies:
  - {group: e.example.com, version: v1, resource: vpcs, kind: VPC, fieldRef: {path: .spec.peer, namespacePath: .spec.peerNamespace}}
---
"#;

fn object(kind: &str, namespace: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: e.example.com/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {spec}\n---\n"
    )
}

async fn order(objects: &[String], more: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.yaml", &format!("{RULES}{}", objects.concat()));
    let args = ["order", "-f", file.to_str().unwrap()];
    depguard(&args.iter().chain(more).copied().collect::<Vec<_>>()).await
}

#[tokio::test]
async fn files_have_an_order_as_well_and_only_refusing_rules_count() {
    let objects = [
        object("VPC", "x", "base", "{}"),
        object("VPC", "x", "a", "{peer: base}"),
        object("VM", "x", "m", "{vpc: a, disk: d}"),
        object("Disk", "x", "d", "{}"),
        object("Other", "x", "o", "{}"),
        // This VPC is being deleted already, so that nothing holds it.
        object("VPC", "x", "going", "{}")
            .replace("name: going", "name: going, deletionTimestamp: 2026-01-01T00:00:00Z"),
        object("VM", "x", "m2", "{vpc: going}"),
    ];
    let told = order(&objects, &["-o", "name"]).await;
    let names: Vec<_> = told.out.lines().collect();
    let (first, later) = names.split_at(4);
    let mut first = first.to_vec();
    first.sort_unstable();
    let expected = ["disks.e.example.com/d", "vms.e.example.com/m", "vms.e.example.com/m2", "vpcs.e.example.com/going"];
    assert_eq!((first.as_slice(), later), (&expected[..], &["vpcs.e.example.com/a", "vpcs.e.example.com/base"][..]));
    assert_eq!(told.status, ExitStatus::Well, "{told:?}");

    let told = order(&objects, &["-o", "wide"]).await;
    assert!(told.out.contains("VM/x/m (rule vms, spec.vpc)"), "{told:?}");
    assert!(told.out.contains("being deleted"), "{told:?}");
    assert!(
        told.err.contains(
            "the order covers only kinds that rules name: disks.e.example.com, vms.e.example.com, vpcs.e.example.com"
        ),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_cycle_is_told_with_its_members_and_what_ends_it() {
    let within = [
        object("VPC", "x", "a", "{peer: b}"),
        object("VPC", "x", "b", "{peer: a}"),
        object("VPC", "x", "c", "{peer: a}"),
        object("VPC", "x", "a2", "{peer: a2}"),
    ];
    let told = order(&within, &[]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    assert!(told.err.contains("VPC/x/a and VPC/x/b protect each other, so none of them can be deleted alone. They end when namespace x is deleted. Or clear first: spec.peer of "), "{told:?}");
    // An object that refers to itself is held by nothing.
    assert!(told.out.lines().any(|row| row.starts_with('1') && row.contains("vpcs.e.example.com/a2")), "{told:?}");

    let across = [
        object("VPC", "x", "a", "{peer: b, peerNamespace: other}"),
        object("VPC", "other", "b", "{peer: a, peerNamespace: x}"),
        object("VPC", "other", "b2", "{}"),
        object("VM", "x", "m", "{vpc: a}"),
    ];
    let told = order(&across, &[]).await;
    assert!(told.err.contains("They end when the namespaces other and x are all being deleted."), "{told:?}");

    let told = order(&across, &["-o", "json"]).await;
    let told: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(told["cycles"][0]["objects"].as_array().unwrap().len(), 2, "{told}");
    assert_eq!(told["waves"][0].as_array().unwrap().len(), 2, "{told}");
}

#[tokio::test]
async fn who_is_elsewhere_holds_too_and_is_not_to_go() {
    let objects = [
        object("VPC", "x", "a", "{peer: below}"),
        object("VPC", "x", "below", "{}"),
        object("VPC", "other", "stranger", "{peer: a, peerNamespace: x}"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.yaml", &format!("{RULES}{}", objects.concat()));
    let told = depguard(&["order", "x", "-f", file.to_str().unwrap(), "-o", "wide"]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    assert!(!told.out.contains("/stranger  "), "{told:?}");
    assert!(
        told.err.contains("VPC/x/a can't be deleted while it is blocked by VPC/other/stranger (rule vpcs, spec.peer)"),
        "{told:?}"
    );
    assert!(told.out.lines().filter(|row| row.starts_with('-') && row.contains("held")).count() == 2, "{told:?}");
}

#[tokio::test]
async fn a_few_of_many_blockers_and_members_are_named_and_the_others_counted() {
    let strangers = (0..30).map(|n| object("VPC", "other", &format!("s{n}"), "{peer: a, peerNamespace: x}"));
    let ring = (0..30).map(|n| object("VPC", "x", &format!("r{n}"), &format!("{{peer: r{}}}", (n + 1) % 30)));
    let objects: Vec<_> = [object("VPC", "x", "a", "{}")].into_iter().chain(strangers).chain(ring).collect();
    let told = order(&objects, &["x", "-o", "wide"]).await;
    assert!(told.err.contains("VPC/x/a can't be deleted while it is blocked by VPC/other/s0 (rule"), "{told:?}");
    assert_eq!(told.err.matches("VPC/other/s").count(), 5, "{told:?}");
    assert_eq!(told.err.matches(", and 25 more (all by -o json)").count(), 2, "{told:?}");
    assert!(told.out.lines().any(|row| row.contains("/a ") && row.contains("and 25 more")), "{told:?}");
    let told: Value = serde_json::from_str(&order(&objects, &["x", "-o", "json"]).await.out).unwrap();
    assert_eq!(told["held"][0]["blockedBy"].as_array().unwrap().len(), 30, "{told}");
    assert!(told["cycles"][0]["meaning"].as_str().unwrap().contains("VPC/x/r29"), "{told}");
}

#[tokio::test]
async fn a_plan_without_a_rule_that_can_not_be_used_is_incomplete() {
    let objects = [object("VPC", "x", "a", "{}")];
    let broken = "apiVersion: dependencies.opendefense.cloud/v1alpha1\nkind: DependencyRule\nmetadata: {name: bad}\n\
                  spec: {dependent: {paht: a}}\n---\n";
    let told = order(&[objects.as_slice(), &[broken.to_owned()]].concat(), &[]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(told.err.contains("error: the plan is incomplete: could not read rule bad"), "{told:?}");
    assert_eq!(order(&objects, &[]).await.status, ExitStatus::Well);
}

#[tokio::test]
async fn what_is_locked_has_no_wave_and_holds_what_it_refers_to() {
    let objects = [
        object("VPC", "x", "base", "{}"),
        object("VPC", "x", "a", "{peer: base}").replace("name: a", "name: a, labels: {keep: 'yes'}"),
        object("VPC", "x", "free", "{}"),
        "apiVersion: dependencies.opendefense.cloud/v1alpha1\nkind: ObjectLock\nmetadata: {name: freeze, namespace: x}\n\
         spec: {targets: [{group: e.example.com, resource: vpcs, selector: {matchLabels: {keep: 'yes'}}}]}\n---\n"
            .to_owned(),
    ];
    let told = order(&objects, &[]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    let row = |name: &str| {
        let row = told.out.lines().find(|row| row.contains(&format!("/{name} ")) || row.ends_with(&format!("/{name}")));
        row.unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        (row("free")[0].as_str(), row("a")[3].as_str(), row("base")[3].as_str()),
        ("1", "locked", "held"),
        "{told:?}"
    );
    assert!(told.err.contains("VPC/x/a is locked by ObjectLock x/freeze: delete the lock first"), "{told:?}");
}

#[tokio::test]
async fn flags_of_a_deletion_are_not_passed_over_where_none_is_asked_for() {
    for flag in [&["--yes"][..], &["--timeout=5s"], &["--dry-run=client"]] {
        let told = order(&[object("VPC", "x", "a", "{}")], flag).await;
        assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    }
}

/// An object without a namespace may refer to a namesake in each namespace. The namesakes in other namespaces are
/// outside the request, and would be too many.
#[tokio::test]
async fn of_one_namespace_no_namesakes_of_others_are_held() {
    const ROUTES: &str = "
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: routes}
spec:
  dependent: {group: r.example.com, version: v1, kind: Route, resource: routes}
  dependencies: [{group: e.example.com, version: v1, resource: vpcs, kind: VPC, fieldRef: {path: .spec.vpc}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: routes.r.example.com}
spec: {group: r.example.com, scope: Cluster, names: {kind: Route, plural: routes}, versions: [{name: v1, served: true, storage: true}]}
---
{apiVersion: r.example.com/v1, kind: Route, metadata: {name: r}, spec: {vpc: a}}
---
";
    let objects = [ROUTES.to_owned(), object("VPC", "x", "a", "{}"), object("VPC", "other", "a", "{}")];
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.yaml", &format!("{RULES}{}", objects.concat()));
    let drawn = async |more: &[&str]| {
        let args = ["graph", "--objects", "-f", file.to_str().unwrap()];
        depguard(&[&args, more].concat()).await.out.lines().filter(|line| line.contains(" -> ")).count()
    };
    assert_eq!((drawn(&[]).await, drawn(&["-n", "x"]).await), (2, 1));
}

#[tokio::test]
async fn a_note_names_a_few_kinds_and_counts_the_others() {
    let targets: String = (0..7)
        .map(|n| {
            format!(
                "  - {{group: e.example.com, version: v1, resource: t{n}s, kind: T{n}, fieldRef: {{path: .spec.t}}}}\n"
            )
        })
        .collect();
    let rule = format!(
        "apiVersion: dependencies.opendefense.cloud/v1alpha1\nkind: DependencyRule\nmetadata: {{name: many}}\nspec:\n  \
         dependent: {{group: e.example.com, version: v1, kind: Many, resource: manies}}\n  dependencies:\n{targets}---\n"
    );
    let told = order(&[object("VPC", "x", "a", "{}"), rule], &[]).await;
    // With the kinds of the other rules there are eleven.
    assert!(told.err.contains(" and 6 more (all by -o json)"), "{told:?}");
}
