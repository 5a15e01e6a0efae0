//! Obstacles besides rules and locks, on files.

use kubectl_depguard::ExitStatus;
use serde_json::Value;

use super::files::{MANIFESTS, why};

/// Adds objects to a rule about other kinds.
fn with(objects: &str) -> String {
    format!("{MANIFESTS}---\n{objects}")
}

fn answer(out: &str) -> Value {
    let report: Value = serde_json::from_str(out).unwrap();
    report["objects"][0].clone()
}

#[tokio::test]
async fn an_object_that_is_held_by_a_finalizer_hangs() {
    let (status, out, err) = why(MANIFESTS, &["virtualmachine", "m2"]).await;
    assert_eq!((status, err.as_str()), (ExitStatus::Finding, ""), "{out}");
    let head = "hangs: virtualmachines/m2 has been terminating since 2026-01-01T00:00:00Z (for ";
    assert!(out.starts_with(head) && out.contains(", and waits for its finalizers: example.com/disk"), "{out}");
    assert!(out.contains("\nholds: finalizer example.com/disk (for "), "{out}");
    assert!(out.contains("\n  next: find the controller that belongs to example.com"), "{out}");
    let (_, out, _) = why(MANIFESTS, &["virtualmachine", "m2", "-o", "json"]).await;
    let json = answer(&out);
    assert_eq!((&json["state"], &json["finalizers"][0]), (&"hanging".into(), &"example.com/disk".into()), "{json}");
    let obstacle = &json["obstacles"][0];
    assert_eq!((&obstacle["source"], &obstacle["effect"]), (&"finalizer".into(), &"holds".into()), "{json}");

    // Before the deletion, nobody knows whether a controller will do its work. Of a known one, depguard does.
    let waiting = MANIFESTS.replace("deletionTimestamp: \"2026-01-01T00:00:00Z\", ", "");
    let known = waiting.replace("example.com/disk", "foregroundDeletion");
    let (status, out, _) = why(&known, &["virtualmachine", "m2"]).await;
    assert_eq!(status, ExitStatus::Well, "{out}");
    let (status, out, _) = why(&waiting, &["virtualmachine", "m2"]).await;
    assert_eq!(status, ExitStatus::Failure, "{out}");
    assert!(out.starts_with("unknown: ") && out.contains("\nmay hold: finalizer example.com/disk: "), "{out}");
}

const CLAIM: &str = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: default, finalizers: [kubernetes.io/pvc-protection]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: default, ownerReferences: [{kind: StatefulSet, name: web, uid: u, controller: true}]}
spec: {nodeName: n1, volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]}
"#;

#[tokio::test]
async fn a_claim_that_a_pod_uses_would_hang() {
    let (status, out, err) = why(&with(CLAIM), &["persistentvolumeclaims/data"]).await;
    assert_eq!((status, err.as_str()), (ExitStatus::Finding, ""), "{out}");
    assert!(out.starts_with("hangs: persistentvolumeclaims/data would stay after its deletion"), "{out}");
    assert!(out.contains("\nholds: Pod/web-0 uses the claim\n  next: scale down or delete StatefulSet/web"), "{out}");
    let free = CLAIM.replace("claimName: data", "claimName: other");
    let (status, out, _) = why(&with(&free), &["persistentvolumeclaims/data"]).await;
    assert_eq!(status, ExitStatus::Well, "{out}");
    assert!(out.contains("delays: finalizer kubernetes.io/pvc-protection: kube-controller-manager"), "{out}");
}

#[tokio::test]
async fn an_owner_that_creates_the_object_again_is_named() {
    let objects = r#"
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, namespace: default, uid: u}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-0
  namespace: default
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]
"#;
    let (status, out, _) = why(&with(objects), &["pods/web-0"]).await;
    assert_eq!(status, ExitStatus::Well, "{out}");
    assert!(out.contains("recreates: its owner ReplicaSet/web controls it, and creates it again\n"), "{out}");
    // An owner that is being deleted, or another one of that name, creates nothing.
    for changed in [
        objects.replace("uid: u}\n---", "uid: u, deletionTimestamp: \"2026-01-01T00:00:00Z\"}\n---"),
        objects.replace("uid: u}\n---", "uid: v}\n---"),
    ] {
        let (_, out, _) = why(&with(&changed), &["pods/web-0"]).await;
        assert!(out.starts_with("free: ") && !out.contains("recreates"), "{out}");
    }
}

#[tokio::test]
async fn owned_objects_hold_a_deletion_in_the_foreground() {
    let objects = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, uid: u, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [foregroundDeletion]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-1
  namespace: default
  deletionTimestamp: "2026-01-01T00:00:00Z"
  finalizers: [example.com/x]
  ownerReferences: [{kind: Deployment, name: web, uid: u, blockOwnerDeletion: true}]
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-2, namespace: default, ownerReferences: [{kind: Deployment, name: web, uid: u}]}
"#;
    let (status, out, _) = why(&with(objects), &["deployments/web"]).await;
    assert_eq!(status, ExitStatus::Finding, "{out}");
    assert!(out.contains("holds: it owns ReplicaSet/default/web-1, which is being deleted (for "), "{out}");
    assert!(out.contains("`kubectl depguard why replicasets.apps/web-1 -n default`"), "{out}");
    assert!(!out.contains("web-2"), "{out}");
}

const NAMESPACE: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: default}
spec: {finalizers: [kubernetes]}
"#;

#[tokio::test]
async fn a_namespace_is_held_by_what_is_inside_it() {
    // One machine hangs already, and would hold up the namespace.
    let (status, out, err) = why(&with(NAMESPACE), &["namespaces/default"]).await;
    assert_eq!((status, err.as_str()), (ExitStatus::Finding, ""), "{out}");
    assert!(out.contains("holds: finalizer example.com/disk of VirtualMachine/default/m2 (for "), "{out}");
    let free =
        with(NAMESPACE).replace(", deletionTimestamp: \"2026-01-01T00:00:00Z\", finalizers: [example.com/disk]", "");
    let (status, out, _) = why(&free, &["namespaces/default"]).await;
    assert_eq!(status, ExitStatus::Well, "{out}");

    // In the first seconds of its deletion, what nobody has reached yet is no holder, and an unknown finalizer is one.
    let begun = with(NAMESPACE)
        .replace(
            "metadata: {name: default}\n",
            "metadata: {name: default, deletionTimestamp: \"2026-01-01T00:00:00Z\"}\n",
        )
        .replace(
            ", deletionTimestamp: \"2026-01-01T00:00:00Z\", finalizers: [example.com/disk]",
            ", finalizers: [example.com/disk]",
        );
    let (status, out, _) = why(&begun, &["namespaces/default"]).await;
    assert_eq!(status, ExitStatus::Finding, "{out}");
    assert!(out.contains("holds: finalizer example.com/disk of VirtualMachine/default/m2: "), "{out}");
    assert!(out.contains("delays: not deleted yet: "), "{out}");

    // Its conditions say what has been tried.
    let going = free.replace(
        "metadata: {name: default}\nspec: {finalizers: [kubernetes]}",
        "metadata: {name: default, deletionTimestamp: \"2026-01-01T00:00:00Z\"}\nspec: {finalizers: [kubernetes]}\n\
         status: {conditions: [{type: NamespaceContentRemaining, status: \"True\", message: some vms remain}]}",
    );
    let (status, out, _) = why(&going, &["namespaces/default"]).await;
    assert_eq!(status, ExitStatus::Finding, "{out}");
    assert!(out.starts_with("hangs: namespaces/default has been terminating since"), "{out}");
    assert!(out.contains("holds: condition NamespaceContentRemaining: some vms remain\n"), "{out}");
    assert!(out.contains("holds: not deleted yet: "), "{out}");
}

#[tokio::test]
async fn a_namespace_is_held_by_references_from_elsewhere() {
    let objects = r#"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: fleets}
spec:
  dependent: {group: compute.example.com, version: v1, kind: Fleet, resource: fleets}
  dependencies:
  - group: network.example.com
    version: v1
    resource: vpcs
    fieldRef: {path: .spec.vpc.name, namespacePath: .spec.vpc.namespace}
---
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: compute.example.com/v1
kind: Fleet
metadata: {name: f, namespace: default}
spec: {vpc: {name: a, namespace: other}}
"#;
    let (status, out, err) = why(&with(objects), &["namespaces/other"]).await;
    assert_eq!((status, err.as_str()), (ExitStatus::Finding, ""), "{out}");
    let held = "holds: VPC/other/a is still referenced by Fleet/default/f (rule fleets, spec.vpc.name), which stays";
    assert!(out.contains(held), "{out}");
    // A dependent in the same namespace goes with it.
    let inside = objects.replace("name: f, namespace: default", "name: f, namespace: other");
    let (status, out, _) = why(&with(&inside), &["namespaces/other"]).await;
    assert_eq!(status, ExitStatus::Well, "{out}");
}

const REVIEWERS: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: others}
webhooks:
- name: keep.example.com
  clientConfig: {service: {namespace: policy, name: webhook}}
  rules: [{operations: ["*"], apiGroups: [network.example.com], apiVersions: [v1beta1], resources: [vpcs/*], scope: Namespaced}]
- name: dependency-controller.dependencies.opendefense.cloud
  rules: [{operations: [DELETE], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: frozen}
spec:
  matchConstraints:
    resourceRules: [{operations: [DELETE], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: frozen}
spec: {policyName: frozen, validationActions: [Deny]}
"#;

#[tokio::test]
async fn webhooks_and_policies_that_review_the_deletion_are_named() {
    let (status, out, _) = why(&with(REVIEWERS), &["vpc/a", "-n", "other"]).await;
    assert_eq!(status, ExitStatus::Failure, "files don't tell whether they refuse: {out}");
    let webhook = "may refuse: validating webhook keep.example.com (ValidatingWebhookConfiguration others, failurePolicy \
                   Fail, Service policy/webhook) reviews the deletion\n";
    assert!(out.starts_with("unknown: ") && out.contains(webhook), "{out}");
    assert!(out.contains("may refuse: ValidatingAdmissionPolicy frozen (failurePolicy Fail) reviews"), "{out}");
    assert!(!out.contains("dependency-controller"), "{out}");
}

#[tokio::test]
async fn reviewers_of_other_deletions_are_left_out() {
    let only_webhook = REVIEWERS.split("---").next().unwrap();
    let policy = REVIEWERS.split_once("---").unwrap().1;
    for reviewers in [
        only_webhook.replace("[\"*\"], apiGroups: [network", "[CREATE], apiGroups: [network"),
        only_webhook.replace("[vpcs/*]", "[vpcs/status]"),
        only_webhook.replace("[vpcs/*]", "[subnets]"),
        only_webhook.replace("[network.example.com]", "[other.example.com]"),
        only_webhook.replace("scope: Namespaced", "scope: Cluster"),
        only_webhook.replace("- name: keep.example.com", "- name: keep.example.com\n  matchPolicy: Exact"),
        only_webhook.replace(
            "- name: keep.example.com",
            "- name: keep.example.com\n  objectSelector: {matchLabels: {tier: prod}}",
        ),
        policy.replace("[Deny]", "[Warn]"),
        policy.replace("[DELETE]", "[UPDATE]"),
        policy.replace("resources: [\"*\"]}]", "resources: [\"*\"], resourceNames: [other]}]"),
        policy.replace("policyName: frozen", "policyName: thawed"),
    ] {
        let (status, out, _) = why(&with(&reviewers), &["vpc/a", "-n", "other"]).await;
        assert_eq!(status, ExitStatus::Well, "{reviewers}\n{out}");
    }
}

#[tokio::test]
async fn several_objects_are_answered_one_by_one() {
    let (status, out, err) = why(MANIFESTS, &["vpc/a", "virtualmachine/m1"]).await;
    assert_eq!((status, err.as_str()), (ExitStatus::Finding, ""), "{out}");
    assert!(out.starts_with("refused: vpcs/a ") && out.contains("\n\nfree: no rule protects virtualmachines"), "{out}");
    let (_, out, _) = why(MANIFESTS, &["vpc", "b", "a", "-o", "json"]).await;
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["objects"].as_array().unwrap().len(), 2, "{report}");
    // One that is missing does not keep the others from being answered, and is no good end.
    let (status, out, err) = why(MANIFESTS, &["virtualmachine", "m1", "m9"]).await;
    assert_eq!(status, ExitStatus::Failure, "{out}");
    assert!(out.starts_with("free: "), "{out}");
    assert!(err.contains("there is no virtualmachines.compute.example.com/m9 in namespace default"), "{err}");
}

#[tokio::test]
async fn long_answers_are_cut_unless_all_is_asked_for() {
    let finalizers: Vec<_> = (0..30).map(|index| format!("example.com/f{index}")).collect();
    let objects = format!(
        "apiVersion: network.example.com/v1\nkind: VPC\nmetadata: {{name: many, namespace: default, finalizers: [{}]}}\n",
        finalizers.join(", ")
    );
    let (_, out, _) = why(&with(&objects), &["vpc/many"]).await;
    assert_eq!(out.matches("\nmay hold: ").count(), 20, "{out}");
    assert!(out.contains("\nand 10 obstacles more: --all lists them\n"), "{out}");
    let (_, out, _) = why(&with(&objects), &["vpc/many", "--all"]).await;
    assert_eq!(out.matches("\nmay hold: ").count(), 30, "{out}");
    assert!(!out.contains("--all"), "{out}");
}

#[tokio::test]
async fn a_pod_hangs_while_its_node_confirms_nothing() {
    let objects = r#"
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {conditions: [{type: Ready, status: Unknown}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default, deletionTimestamp: "2026-01-01T00:00:00Z"}
spec: {nodeName: n1}
"#;
    let (status, out, _) = why(&with(objects), &["pods/web"]).await;
    assert_eq!(status, ExitStatus::Finding, "{out}");
    assert!(out.starts_with("hangs: pods/web has been terminating since 2026-01-01T00:00:00Z (for "), "{out}");
    assert!(out.contains("holds: Node/n1 is not ready, so its kubelet can't confirm"), "{out}");
    // The deletion timestamp of a Pod is the end of its grace period.
    let (status, out, _) = why(&with(&objects.replace("2026-01-01", "2999-01-01")), &["pods/web"]).await;
    assert_eq!(status, ExitStatus::Well, "{out}");
    // Files hold only some objects of a cluster.
    let (_, out, _) = why(&with(&objects.replace("name: n1", "name: n2")), &["pods/web"]).await;
    assert!(!out.contains("Node/n1"), "{out}");
}

#[tokio::test]
async fn a_global_owner_names_the_objects_that_hold_it() {
    let objects = r#"
apiVersion: globalowner.metacontroller.io/v1alpha1
kind: GlobalOwner
metadata: {name: shop, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [dependencies.opendefense.cloud/teardown]}
status: {stuck: [{apiVersion: compute.example.com/v1, kind: VirtualMachine, namespace: default, name: m2,
  message: finalizer example.com/disk}]}
"#;
    let (status, out, _) = why(&with(objects), &["globalowners/shop"]).await;
    assert_eq!(status, ExitStatus::Finding, "{out}");
    assert!(
        out.contains("holds: its removal waits for VirtualMachine/default/m2: finalizer example.com/disk"),
        "{out}"
    );
    assert!(out.contains("teardown (for ") && out.contains("depguard-controller removes it once"), "{out}");
}
