//! Tests of access reviews, and that nobody grants rights that they lack.

use depguard_testbed::Kind;
use serde_json::{Value, json};

use crate::bed::{Bed, becomes};
use crate::client::Client;
use crate::fixtures::workspace;
use crate::rbac::{ROLE_BINDINGS, ROLES, bed, bound, grant, let_in, role};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const OF_ONESELF: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

fn review(kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec})
}

/// Returns true if that user may `verb` the lock `name` in `namespace`.
async fn may(client: &Client, user: &Value, verb: &str, namespace: &str, name: &str) -> bool {
    let mut spec = user.clone();
    spec["resourceAttributes"] = json!({
        "group": "dependencies.opendefense.cloud", "version": "v1alpha1", "resource": "objectlocks",
        "verb": verb, "namespace": namespace, "name": name,
    });
    let answer = client.create(REVIEWS, &review("SubjectAccessReview", &spec)).await;
    assert_eq!((answer.code, &answer.body["kind"]), (201, &json!("SubjectAccessReview")));
    answer.ok()["status"]["allowed"].as_bool().unwrap()
}

#[tokio::test]
async fn a_review_says_what_rbac_allows_somebody() {
    let bed = bed(Kind::Kubernetes).await;
    let rules = json!([
        {"apiGroups": ["dependencies.opendefense.cloud"], "resources": ["objectlocks"], "verbs": ["unlock"], "resourceNames": ["a"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]);
    grant(&bed.admin, "unlocker", "alice", &rules).await;
    let mut of_group = bound("of-group", "unlocker", "nobody");
    of_group["subjects"][0] = json!({"kind": "Group", "name": "operators", "apiGroup": "rbac.authorization.k8s.io"});
    bed.admin.create(ROLE_BINDINGS, &of_group).await.ok();
    let alice = json!({"user": "alice", "groups": ["system:authenticated"]});
    assert!(may(&bed.admin, &alice, "unlock", "default", "a").await);
    assert!(may(&bed.admin, &json!({"user": "bob", "groups": ["operators"]}), "unlock", "default", "a").await);
    assert!(!may(&bed.admin, &alice, "unlock", "default", "b").await, "another name");
    assert!(!may(&bed.admin, &alice, "get", "default", "a").await, "another verb");
    assert!(!may(&bed.admin, &json!({"user": "bob"}), "unlock", "default", "a").await, "another user");
    assert!(may(&bed.admin, &json!({"user": "root", "groups": ["system:masters"]}), "get", "default", "b").await);

    for (path, allowed) in [("/metrics", true), ("/secrets", false)] {
        let spec = json!({"user": "alice", "nonResourceAttributes": {"verb": "get", "path": path}});
        let answer = bed.admin.create(REVIEWS, &review("SubjectAccessReview", &spec)).await.ok();
        assert_eq!(answer["status"]["allowed"], json!(allowed), "{path}");
    }
    for spec in [json!({"user": "alice"}), json!({"nonResourceAttributes": {"verb": "get", "path": "/"}})] {
        assert_eq!(bed.admin.create(REVIEWS, &review("SubjectAccessReview", &spec)).await.code, 422, "{spec}");
    }
    bed.testbed.stop().await;
}

#[tokio::test]
async fn everybody_may_ask_about_himself_and_only_who_may_about_others() {
    let bed = bed(Kind::Kubernetes).await;
    let alice = bed.admin.as_user("alice");
    grant(&bed.admin, "reader", "alice", &json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]))
        .await;
    for (verb, allowed) in [("get", true), ("delete", false)] {
        let spec = json!({"resourceAttributes": {"resource": "configmaps", "verb": verb, "namespace": "default"}});
        let answer = alice.create(OF_ONESELF, &review("SelfSubjectAccessReview", &spec)).await.ok();
        assert_eq!(answer["status"]["allowed"], json!(allowed), "{verb}");
    }
    let who = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let told = alice.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", &who).await.ok();
    assert_eq!(told["status"]["userInfo"], json!({"username": "alice", "groups": ["system:authenticated"]}));
    let about_bob = review("SubjectAccessReview", &json!({"user": "bob", "resourceAttributes": {"verb": "get"}}));
    assert_eq!(alice.create(REVIEWS, &about_bob).await.code, 403);
    assert_eq!(bed.admin.get(REVIEWS).await.code, 405, "nothing is kept");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn in_kcp_a_review_counts_in_its_workspace_and_knows_whose_account_is_meant() {
    let bed = bed(Kind::Kcp).await;
    let home = workspace(&bed, "root", "tenant").await;
    let other = workspace(&bed, "root", "other").await;
    let tenant = bed.admin.cluster("root:tenant");
    let rules =
        json!([{"apiGroups": ["dependencies.opendefense.cloud"], "resources": ["objectlocks"], "verbs": ["unlock"]}]);
    grant(&tenant, "unlocker", "alice", &rules).await;
    let alice = json!({"user": "alice", "groups": ["system:authenticated"]});
    assert!(!may(&tenant, &alice, "unlock", "default", "a").await, "she may not come in");
    let_in(&tenant, "alice").await;
    assert!(may(&tenant, &alice, "unlock", "default", "a").await);
    assert!(!may(&bed.admin.cluster("root:other"), &alice, "unlock", "default", "a").await);

    let mut of_account = bound("of-account", "unlocker", "nobody");
    of_account["subjects"][0] = json!({"kind": "ServiceAccount", "namespace": "backup", "name": "snapshotter"});
    tenant.create(ROLE_BINDINGS, &of_account).await.ok();
    for (cluster, allowed) in [(&home, true), (&other, false)] {
        let account = json!({
            "user": "system:serviceaccount:backup:snapshotter", "groups": ["system:authenticated"],
            "extra": {"authentication.kcp.io/cluster-name": [cluster]},
        });
        assert_eq!(may(&tenant, &account, "unlock", "default", "a").await, allowed);
    }
    bed.testbed.stop().await;
}

/// Returns a testbed with a user who may write roles and bindings, and read ConfigMaps.
async fn with_clerk() -> (Bed, Client) {
    let bed = bed(Kind::Kubernetes).await;
    let rules = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "clusterrolebindings"], "verbs": ["create", "get", "patch", "update"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"], "resourceNames": ["a"]},
    ]);
    grant(&bed.admin, "clerk", "clerk", &rules).await;
    let clerk = bed.admin.as_user("clerk");
    (bed, clerk)
}

#[tokio::test]
async fn nobody_grants_more_than_he_has_but_who_may_escalate() {
    let (bed, clerk) = with_clerk().await;
    let rule = |group: &str, resource: &str, verb: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]});
    let mut of_a = rule("apps", "deployments", "delete");
    of_a["resourceNames"] = json!(["a"]);
    for (name, rules, code) in [
        ("less", json!([rule("", "configmaps", "get")]), 201),
        ("named", json!([of_a]), 201),
        ("unnamed", json!([rule("apps", "deployments", "delete")]), 403),
        ("more", json!([rule("", "configmaps", "delete")]), 403),
        ("both", json!([rule("", "configmaps", "get"), rule("", "secrets", "get")]), 403),
        ("any", json!([rule("*", "configmaps", "get")]), 403),
        ("paths", json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]), 403),
    ] {
        let made = clerk.create(ROLES, &role(name, &rules)).await;
        assert_eq!(made.code, code, "{name}: {}", made.body);
    }
    let more = json!({"rules": [rule("", "secrets", "get")]});
    let refused = clerk.merge(&format!("{ROLES}/less"), &more).await;
    assert_eq!((refused.code, refused.message().contains("not currently held")), (403, true), "{}", refused.body);
    clerk.merge(&format!("{ROLES}/cluster-admin"), &json!({"metadata": {"finalizers": ["a.b/c"]}})).await.ok();
    let mut aggregate = role("sum", &json!([]));
    aggregate["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]});
    assert_eq!(clerk.create(ROLES, &aggregate).await.code, 403);

    let rules =
        json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["escalate"]}]);
    grant(&bed.admin, "escalates", "clerk", &rules).await;
    clerk.create(ROLES, &role("more", &json!([rule("", "configmaps", "delete")]))).await.ok();
    clerk.create(ROLES, &aggregate).await.ok();
    // The aggregated role gets the rules of a part at once, whoever made the part.
    let mut part = role("part", &json!([rule("", "secrets", "get")]));
    part["metadata"]["labels"] = json!({"part": "yes"});
    clerk.create(ROLES, &part).await.ok();
    becomes(&bed.admin, &format!("{ROLES}/sum"), |found| found["rules"] == part["rules"]).await;
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_binding_takes_the_rights_of_the_role_or_the_right_to_bind_it() {
    let (bed, clerk) = with_clerk().await;
    bed.admin
        .create(ROLES, &role("less", &json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}])))
        .await
        .ok();
    bed.admin
        .create(ROLES, &role("more", &json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}])))
        .await
        .ok();
    clerk.create(ROLE_BINDINGS, &bound("less", "less", "bob")).await.ok();
    assert_eq!(clerk.create(ROLE_BINDINGS, &bound("more", "more", "bob")).await.code, 403);
    assert_eq!(clerk.create(ROLE_BINDINGS, &bound("none", "none", "bob")).await.code, 404);
    let rules = json!([{
        "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["more"],
    }]);
    grant(&bed.admin, "binds", "clerk", &rules).await;
    clerk.create(ROLE_BINDINGS, &bound("more", "more", "bob")).await.ok();
    bed.testbed.stop().await;
}
