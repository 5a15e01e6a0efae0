//! `unused`, in files and on API servers: an object is called unused only if everything that may refer to it was read.

use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::references::files::{MISSING, OBJECTS, RULES, ran};
use crate::references::scene::{RULES as RULE_LIST, Scene, define, post};
use crate::tool::{depguard, write};

fn names(objects: &Value) -> Vec<String> {
    let text = |object: &Value, field: &str| object[field].as_str().unwrap_or("-").to_owned();
    let objects = objects.as_array().unwrap().iter();
    objects.map(|object| [text(object, "kind"), text(object, "namespace"), text(object, "name")].join("/")).collect()
}

#[tokio::test]
async fn an_object_is_unused_if_and_only_if_no_other_refers_to_it() {
    // The VPC `c` is selected by its labels only, and `d` refers to nothing but itself.
    let more = r"
---
{apiVersion: network.example.com/v1, kind: VPC, metadata: {name: c, namespace: yy, labels: {tier: none}}}
---
{apiVersion: backup.example.com/v1, kind: Backup, metadata: {name: d, namespace: x}, spec: {vms: [m1], previous: d}}
---
{apiVersion: network.example.com/v1, kind: VPC, metadata: {name: going, namespace: x, deletionTimestamp: '2026-01-01T00:00:00Z'}}
";
    let told = ran(&format!("{OBJECTS}{more}"), &["unused"]).await;
    assert_eq!(told.status, ExitStatus::Finding, "{told:?}");
    assert_eq!(
        told.out,
        "OBJECT                 STATE    REASON\n\
         Backup/x/d             unused\n\
         VirtualMachine/yy/m2   unused\n"
    );
    assert!(told.err.contains("note: went by these rules: backups, vms;"), "{told:?}");
    let names = ran(&format!("{OBJECTS}{more}"), &["unused", "-o", "name"]).await;
    assert_eq!(names.out, "backups.backup.example.com/d\nvirtualmachines.compute.example.com/m2\n", "{names:?}");

    let used = r"
---
{apiVersion: backup.example.com/v1, kind: Backup, metadata: {name: b2, namespace: yy}, spec: {vms: [m2], previous: b2}}
---
{apiVersion: backup.example.com/v1, kind: Backup, metadata: {name: e, namespace: yy}, spec: {previous: b2}}
---
{apiVersion: backup.example.com/v1, kind: Backup, metadata: {name: b3, namespace: yy}, spec: {previous: e}}
";
    // Only `b3` is left: no chain of references ends.
    let told = ran(&format!("{OBJECTS}{used}"), &["unused", "-n", "x"]).await;
    assert_eq!((told.status, told.out.as_str()), (ExitStatus::Well, ""), "{told:?}");
    assert!(told.err.contains("no unused object: 4 objects checked"), "{told:?}");
    assert!(told.err.contains("left out kinds without a namespace: zones.compute.example.com"), "{told:?}");
}

#[tokio::test]
async fn a_reference_that_cannot_be_read_leaves_it_unknown() {
    // The backup names more machines than are read of one object.
    let vms = vec!["m1"; 10_001].join(", ");
    let spec = format!("metadata: {{name: b9, namespace: x}}, spec: {{vms: [{vms}]}}");
    let more = format!("---\n{{apiVersion: backup.example.com/v1, kind: Backup, {spec}}}\n");
    let told = ran(&format!("{OBJECTS}{MISSING}{more}"), &["unused", "-o", "json"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    let report: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(report["apiVersion"], "cli.dependencies.opendefense.cloud/v1alpha1");
    assert_eq!(report["kind"], "UnusedReport");
    assert_eq!(names(&report["unknown"]), ["VirtualMachine/x/m4"], "{report}");
    let why = report["unknown"][0]["why"][0].as_str().unwrap();
    assert!(why.starts_with("Backup/x/b9 may refer to it by spec.vms[*]: it has more than 10000"), "{why}");
    let unused = ["Backup/x/b9", "VirtualMachine/yy/m2", "VirtualMachine/yy/m3"];
    assert_eq!(names(&report["unused"]), unused, "{report}");
    // A name that is piped to a deletion is never one that is unknown.
    let listed = ran(&format!("{OBJECTS}{MISSING}{more}"), &["unused", "-o", "name"]).await;
    assert_eq!((listed.status, listed.out.contains("m4")), (ExitStatus::Failure, false), "{listed:?}");
}

#[tokio::test]
async fn a_rule_that_cannot_be_used_leaves_unknown_what_it_may_mean() {
    const CLAIMS: &str = r"---
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: claims}
spec:
  dependent: {group: claim.example.com, version: v1, kind: Claim, resource: claims}
  dependencies: [{group: network.example.com, version: v1, resource: vpcs, fieldRef: {path: .spec.vpc}}]
";
    let free = "---\n{apiVersion: network.example.com/v1, kind: VPC, metadata: {name: free, namespace: x}}\n";
    // Backups refer to backups and machines, claims to VPCs.
    for (right, broken, rule, unknown) in [
        ("'.spec.vms[*]'", "'.spec.vms['", "backups", &[][..]),
        (
            "resource: vpcs, fieldRef: {path: .spec.vpc}}",
            "resource: vpcs, fieldRef: {path: '.spec['}}",
            "claims",
            &["VPC/x/free"],
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let rules = format!("{RULES}{CLAIMS}").replace(right, broken);
        write(folder.path(), "all.yaml", &format!("{rules}---{OBJECTS}{free}"));
        let told = depguard(&["unused", "-f", folder.path().to_str().unwrap(), "-o", "json"]).await;
        assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
        let report: Value = serde_json::from_str(&told.out).unwrap();
        assert_eq!(names(&report["unknown"]), unknown, "{report}");
        assert_eq!(names(&report["unused"]).contains(&"VPC/x/free".to_owned()), unknown.is_empty(), "{report}");
        assert!(told.err.contains(&format!("could not read rule {rule}")), "{told:?}");
    }
}

/// The rule doesn't let an owned dependent keep its owner, but the owner is used.
#[tokio::test]
async fn an_owner_to_which_its_own_dependent_refers_is_used() {
    const OWNED: &str = r"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: disks}
spec:
  dependent: {group: e.example.com, version: v1, kind: Disk, resource: disks}
  dependencies:
  - {group: e.example.com, version: v1, resource: vms, kind: VM, fieldRef: {path: .spec.vm}, ownedDependents: Ignore}
---
{apiVersion: e.example.com/v1, kind: VM, metadata: {name: m, namespace: x, uid: u1}}
---
{apiVersion: e.example.com/v1, kind: VM, metadata: {name: free, namespace: x, uid: u2}}
---
apiVersion: e.example.com/v1
kind: Disk
metadata: {name: d, namespace: x, uid: u3, ownerReferences: [{apiVersion: e.example.com/v1, kind: VM, name: m, uid: u1}]}
spec: {vm: m}
";
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.yaml", OWNED);
    let told = depguard(&["unused", "-f", file.to_str().unwrap(), "-o", "name"]).await;
    assert_eq!((told.status, told.out.as_str()), (ExitStatus::Finding, "vms.e.example.com/free\n"), "{told:?}");
}

#[tokio::test]
async fn where_there_is_no_object_to_check_it_says_so() {
    let none = ran("{apiVersion: network.example.com/v1, kind: VPC, metadata: {name: a, namespace: x}}", &["unused"]);
    assert_eq!(none.await.status, ExitStatus::Finding);
    let only_dependents =
        "{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {name: a, namespace: x}}";
    let told = ran(only_dependents, &["unused", "-n", "yy"]).await;
    assert_eq!((told.status, told.out.as_str()), (ExitStatus::Failure, ""), "{told:?}");
    assert!(told.err.contains("there is no namespace yy"), "{told:?}");
}

#[tokio::test]
async fn unused_objects_are_found_in_kubernetes() {
    are_found(&Scene::kubernetes().await).await;
}

#[tokio::test]
async fn unused_objects_are_found_in_a_workspace_of_kcp() {
    are_found(&Scene::kcp().await).await;
}

async fn are_found(scene: &Scene) {
    for (namespace, name) in [("red", "a"), ("red", "b"), ("blue", "c")] {
        scene.vpc(namespace, name).await;
    }
    scene.vm("blue", "m", &["red/a"]).await;
    let all = scene.run(&["unused", "-A", "-o", "name"]).await;
    assert_eq!(all.status, ExitStatus::Finding, "{all:?}");
    assert_eq!(all.out, "vpcs.network.example.com/c\nvpcs.network.example.com/b\n", "{all:?}");
    // The machine of another namespace is looked at, too.
    let one = scene.run(&["unused", "-n", "red", "-o", "name"]).await;
    assert_eq!((one.status, one.out.as_str()), (ExitStatus::Finding, "vpcs.network.example.com/b\n"), "{one:?}");
    scene.vm("blue", "m2", &["red/b", "c"]).await;
    let none = scene.run(&["unused", "-A"]).await;
    assert_eq!((none.status, none.out.as_str()), (ExitStatus::Well, ""), "{none:?}");
}

#[tokio::test]
async fn where_dependents_must_not_be_read_nothing_is_called_unused() {
    let scene = Scene::kubernetes().await;
    scene.vpc("red", "a").await;
    scene.vpc("red", "b").await;
    scene.vm("red", "m", &["a"]).await;
    // Machines of other namespaces may refer to `b`.
    scene.forbid("/v1/virtualmachines?");
    let told = scene.run(&["unused", "-n", "red"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    let row = "VPC/red/b   unknown   virtualmachines.compute.example.com could not be read everywhere\n";
    assert_eq!(told.out, format!("OBJECT      STATE     REASON\n{row}"), "{told:?}");
    assert!(
        told.err.contains("virtualmachines.compute.example.com in other namespaces (no right to read)"),
        "{told:?}"
    );

    scene.forbid("/namespaces/red/virtualmachines?");
    let told = scene.run(&["unused", "-n", "red", "-o", "json"]).await;
    let report: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((told.status, report["unused"].clone()), (ExitStatus::Failure, json!([])), "{report}");
    assert_eq!(names(&report["unknown"]), ["VPC/red/a", "VPC/red/b"], "{report}");

    // Without the targets there is nothing to call unused, and that is no good news.
    scene.forbid("/vpcs?");
    let told = scene.run(&["unused", "-n", "red"]).await;
    assert_eq!((told.status, told.out.as_str()), (ExitStatus::Failure, ""), "{told:?}");
    assert!(told.err.contains("so unused objects may be missing"), "{told:?}");
}

/// Secrets that a Pod and an Ingress use, one that nobody uses, and what each namespace has.
const PACKED: &str = r"---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: x}
spec: {containers: [{name: c, envFrom: [{secretRef: {name: env}}]}]}
status: {phase: Running}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: x}
spec: {tls: [{secretName: tls}]}
---
{apiVersion: v1, kind: Secret, metadata: {name: env, namespace: x}}
---
{apiVersion: v1, kind: Secret, metadata: {name: tls, namespace: x}}
---
{apiVersion: v1, kind: Secret, metadata: {name: left, namespace: x}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: x}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: left, namespace: x}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: kube-root-ca.crt, namespace: x}}
";

#[tokio::test]
async fn what_a_pack_knows_to_be_used_is_not_offered_while_its_rules_are_not_applied() {
    let unused = async |packs: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let rules = depguard(&[&["rules", "show"], packs].concat()).await.well();
        let file = write(folder.path(), "all.yaml", &format!("{rules}{PACKED}"));
        let told = depguard(&["unused", "-n", "x", "-o", "json", "-f", file.to_str().unwrap()]).await;
        let report: Value = serde_json::from_str(&told.out).unwrap();
        (told.status, report)
    };
    let (status, report) = unused(&["kubernetes-workloads"]).await;
    assert_eq!(status, ExitStatus::Failure, "{report}");
    assert_eq!(names(&report["unknown"]), ["Secret/x/left", "Secret/x/tls"], "{report}");
    let why = report["unknown"][1]["why"][0].as_str().unwrap();
    assert!(
        why.starts_with("Ingress, ServiceAccount may refer to it") && why.ends_with("rules show kubernetes-cluster`"),
        "{why}"
    );
    // No kind in the files refers to accounts by a rule that is not here, and what each namespace has is left out.
    assert_eq!(names(&report["unused"]), ["ServiceAccount/x/left"], "{report}");

    let (status, report) = unused(&["kubernetes-workloads", "kubernetes-cluster"]).await;
    assert_eq!(status, ExitStatus::Finding, "{report}");
    assert_eq!(names(&report["unused"]), ["Secret/x/left", "ServiceAccount/x/left"], "{report}");
    assert_eq!(report["unknown"], json!([]), "{report}");
}

/// The template of a former revision, or admission, may have given the Pod what no template names now.
#[tokio::test]
async fn what_only_a_running_pod_of_a_replica_set_mounts_is_used() {
    let config_map = "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: sidecar, namespace: x}}\n";
    let pod = |phase: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: web, namespace: x, ownerReferences: [\
             {{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u1, controller: true}}]}}, \
             spec: {{containers: [], volumes: [{{name: v, configMap: {{name: sidecar}}}}]}}, status: {{phase: {phase}}}}}\n"
        )
    };
    let default = depguard(&["rules", "show", "kubernetes-workloads", "kubernetes-cluster"]).await.well();
    let strict = depguard(&["rules", "show", "--strict", "kubernetes-workloads", "kubernetes-cluster"]).await.well();
    for (rules, pod, is_used) in [
        (&default, pod("Running"), true),
        (&default, pod("Succeeded"), false),
        (&default, String::new(), false),
        (&strict, pod("Running"), true),
        (&strict, String::new(), false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = write(folder.path(), "all.yaml", &format!("{rules}{config_map}{pod}"));
        let told = depguard(&["unused", "-n", "x", "-o", "json", "-f", file.to_str().unwrap()]).await;
        let report: Value = serde_json::from_str(&told.out).unwrap();
        let (status, unused) =
            if is_used { (ExitStatus::Well, &[][..]) } else { (ExitStatus::Finding, &["ConfigMap/x/sidecar"][..]) };
        assert_eq!((told.status, names(&report["unused"])), (status, owned(unused)), "{pod}: {report}");
        assert_eq!((&report["unknown"], &report["unread"]), (&json!([]), &json!([])), "{pod}: {report}");
    }
}

#[tokio::test]
async fn a_name_that_a_rule_excludes_is_unknown() {
    const EXCLUDING: &str = r"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: apps}
spec:
  dependent: {group: a.example.com, version: v1, kind: App, resource: apps}
  dependencies:
  - {group: a.example.com, version: v1, resource: jars, kind: Jar, excludeNames: [main], fieldRef: {path: .spec.jar}}
---
{apiVersion: a.example.com/v1, kind: Jar, metadata: {name: main, namespace: x}}
---
{apiVersion: a.example.com/v1, kind: Jar, metadata: {name: other, namespace: x}}
---
{apiVersion: a.example.com/v1, kind: App, metadata: {name: app, namespace: x}, spec: {jar: main}}
";
    for (rule, unknown) in
        [(EXCLUDING.to_owned(), &["Jar/x/main"][..]), (EXCLUDING.replace("excludeNames: [main], ", ""), &[])]
    {
        let folder = tempfile::tempdir().unwrap();
        let file = write(folder.path(), "all.yaml", &rule);
        let told = depguard(&["unused", "-o", "json", "-f", file.to_str().unwrap()]).await;
        let report: Value = serde_json::from_str(&told.out).unwrap();
        assert_eq!(names(&report["unknown"]), unknown, "{report}");
        assert_eq!(names(&report["unused"]), ["Jar/x/other"], "{report}");
        let why = "rule apps excludes the name main, so that nobody looks who uses it";
        assert_eq!(told.out.contains(why), !unknown.is_empty(), "{report}");
    }
}

#[tokio::test]
async fn a_cluster_role_that_another_one_aggregates_is_used() {
    let role = |name: &str, labels: &str, more: &str| {
        format!(
            "---\n{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {{name: {name}, labels: {labels}}}{more}}}\n"
        )
    };
    let binding = "---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: b}, \
                   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: whole}}\n";
    let rules = depguard(&["rules", "show", "kubernetes-cluster"]).await.well();
    let by_labels = "{matchLabels: {part: one}}";
    let by_expressions = "{matchExpressions: [{key: part, operator: In, values: [two]}]}";
    for (selectors, unused) in [
        (vec![by_labels, by_expressions], &[][..]),
        (vec![by_expressions, by_labels], &[]),
        (vec![by_labels], &["ClusterRole/-/two"]),
        (vec![by_expressions], &["ClusterRole/-/one"]),
        (vec![], &["ClusterRole/-/one", "ClusterRole/-/two"]),
    ] {
        let rule = format!(", aggregationRule: {{clusterRoleSelectors: [{}]}}", selectors.join(", "));
        let roles = [role("whole", "{}", &rule), role("one", "{part: one}", ""), role("two", "{part: two}", "")];
        let folder = tempfile::tempdir().unwrap();
        let file = write(folder.path(), "all.yaml", &format!("{rules}{}{binding}", roles.concat()));
        let told = depguard(&["unused", "-A", "-o", "json", "-f", file.to_str().unwrap()]).await;
        let report: Value = serde_json::from_str(&told.out).unwrap();
        assert_eq!(names(&report["unused"]), unused, "{rule}: {report}");
        // The ClusterRole of the pack is looked at no more than what each namespace has.
        assert_eq!(report["unknown"], json!([]), "{report}");
        let expected = if unused.is_empty() { ExitStatus::Well } else { ExitStatus::Finding };
        assert_eq!(told.status, expected, "{report}");
    }
}

/// Rule about machines, whose selectors may ask for networks of their own owner.
const NARROWED: &str = r"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: machines}
spec:
  dependent: {group: example.com, version: v1, kind: Machine, resource: machines}
  dependencies:
  - {group: example.com, version: v1, resource: nets, selectorRef: {path: .spec.nets, narrowedBy: [sameOwner, policy]}}
---
{apiVersion: example.com/v1, kind: Net, metadata: {name: one, namespace: x, labels: {zone: a}}}
---
{apiVersion: example.com/v1, kind: Net, metadata: {name: two, namespace: x, labels: {zone: b}}}
";

#[tokio::test]
async fn fields_that_only_narrow_a_selector_leave_nothing_unknown() {
    for (selector, unused, unknown) in [
        ("{matchLabels: {zone: a}, sameOwner: true, policy: {resolve: Always}}", &["Net/x/two"][..], &[][..]),
        ("{matchLabels: {zone: b}, sameOwner: false}", &["Net/x/one"], &[]),
        // It selects any net of the same owner.
        ("{sameOwner: true}", &[], &[]),
        ("{matchLabels: {zone: a}, sameOwners: true}", &[], &["Net/x/one", "Net/x/two"]),
    ] {
        let machine = format!(
            "---\n{{apiVersion: example.com/v1, kind: Machine, metadata: {{name: m, namespace: x}}, spec: {{nets: {selector}}}}}\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let file = write(folder.path(), "all.yaml", &format!("{NARROWED}{machine}"));
        let told = depguard(&["unused", "-n", "x", "-o", "json", "-f", file.to_str().unwrap()]).await;
        let report: Value = serde_json::from_str(&told.out).unwrap();
        assert_eq!(
            (names(&report["unused"]), names(&report["unknown"])),
            (owned(unused), owned(unknown)),
            "{selector}"
        );
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn a_served_kind_of_a_pack_that_is_not_applied_leaves_it_unknown() {
    let bed = crate::bed::Bed::kubernetes().await;
    let cluster = bed.endpoint();
    define(&cluster, "dependencies.opendefense.cloud", "v1alpha1", "dependencyrules", "DependencyRule", "Cluster")
        .await;
    define(&cluster, "a.example.com", "v1", "jars", "Jar", "Namespaced").await;
    let rule = json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "jars"},
        "spec": {
            "dependent": {"group": "a.example.com", "version": "v1", "kind": "Jar", "resource": "jars"},
            "dependencies": [
                {"group": "cert-manager.io", "version": "v1", "resource": "issuers", "kind": "Issuer", "fieldRef": {"path": ".spec.issuer"}},
            ],
        },
    });
    define(&cluster, "cert-manager.io", "v1", "issuers", "Issuer", "Namespaced").await;
    post(&cluster, RULE_LIST, &rule).await;
    let issuer = json!({"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": {"name": "i", "namespace": "default"}});
    post(&cluster, "/apis/cert-manager.io/v1/namespaces/default/issuers", &issuer).await;
    let told = bed.depguard(&["unused", "-n", "default", "-o", "name"]).await;
    // Nothing serves the kinds that may refer to an issuer.
    assert_eq!((told.status, told.out.as_str()), (ExitStatus::Finding, "issuers.cert-manager.io/i\n"), "{told:?}");
    define(&cluster, "cert-manager.io", "v1", "certificates", "Certificate", "Namespaced").await;
    let told = bed.depguard(&["unused", "-n", "default"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(
        told.out.contains("Certificate may refer to it") && told.out.contains("rules apply cert-manager"),
        "{told:?}"
    );
}
