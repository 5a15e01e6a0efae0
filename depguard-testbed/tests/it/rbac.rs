//! Tests of rights that RBAC decides.

use depguard_testbed::{Kind, Options};
use serde_json::{Value, json};

use crate::bed::{Bed, becomes, eventually};
use crate::client::Client;
use crate::fixtures::{
    BINDINGS, CONFIGURATIONS, NETWORK, Network, SLICES, VPCS, WORKSPACES, accepted, bind, claim, provide, vpc,
    workspace,
};

pub(crate) const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
pub(crate) const ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(crate) async fn bed(kind: Kind) -> Bed {
    Bed::start(Options::new(kind).rbac()).await
}

pub(crate) fn role(name: &str, rules: &Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

pub(crate) fn bound(name: &str, role: &str, user: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}

/// Gives `user` these rules, by a role and a binding of the name `name`.
pub(crate) async fn grant(place: &Client, name: &str, user: &str, rules: &Value) {
    place.create(ROLES, &role(name, rules)).await.ok();
    place.create(ROLE_BINDINGS, &bound(name, name, user)).await.ok();
}

pub(crate) async fn let_in(place: &Client, user: &str) {
    place.create(ROLE_BINDINGS, &bound("access", "system:kcp:workspace:access", user)).await.ok();
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[tokio::test]
async fn without_a_binding_nothing_is_allowed_but_discovery() {
    let bed = bed(Kind::Kubernetes).await;
    let alice = bed.admin.as_user("alice");
    let refused = alice.get(CONFIGMAPS).await;
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message(),
        "configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \"\" in the namespace \
         \"default\""
    );
    assert_eq!(refused.body["details"], json!({"kind": "configmaps"}));
    let refused = alice.delete(&format!("{CONFIGURATIONS}/a")).await;
    assert_eq!(
        refused.message(),
        "validatingwebhookconfigurations.admissionregistration.k8s.io \"a\" is forbidden: User \"alice\" cannot delete \
         resource \"validatingwebhookconfigurations\" in API group \"admissionregistration.k8s.io\" at the cluster scope"
    );
    for path in ["/api", "/api/v1", "/apis", "/apis/admissionregistration.k8s.io/v1"] {
        alice.get(path).await.ok();
    }
    for master in ["admin", "masters"] {
        bed.admin.as_user(master).get(CONFIGMAPS).await.ok();
    }
}

#[tokio::test]
async fn a_rule_allows_its_verbs_groups_and_resources_and_nothing_else() {
    let bed = bed(Kind::Kubernetes).await;
    let alice = bed.admin.as_user("alice");
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create"]},
        {"apiGroups": [""], "resources": ["namespaces/status"], "verbs": ["get"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["*"], "verbs": ["*"]},
    ]);
    grant(&bed.admin, "some", "alice", &rules).await;
    alice.create(CONFIGMAPS, &config_map("a")).await.ok();
    alice.get(&format!("{CONFIGMAPS}/a")).await.ok();
    assert_eq!(alice.get(CONFIGMAPS).await.code, 403, "list is another verb");
    assert_eq!(alice.get(&format!("{CONFIGMAPS}?watch=true")).await.code, 403);
    assert_eq!(alice.get("/api/v1/namespaces/default/secrets").await.code, 403);
    assert_eq!(alice.get("/api/v1/namespaces/default").await.code, 403, "its status is something else");
    alice.get("/api/v1/namespaces/default/status").await.ok();
    alice.get("/apis/coordination.k8s.io/v1/leases").await.ok();
    assert_eq!(bed.admin.as_user("bob").get(&format!("{CONFIGMAPS}/a")).await.code, 403);
}

#[tokio::test]
async fn a_named_rule_allows_what_bears_the_name_or_selects_it() {
    let bed = bed(Kind::Kubernetes).await;
    let alice = bed.admin.as_user("alice");
    let verbs = ["get", "list", "patch", "create"];
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": verbs}]);
    grant(&bed.admin, "mine", "alice", &rules).await;
    assert_eq!(alice.create(CONFIGMAPS, &config_map("mine")).await.code, 403, "a POST names nothing");
    let made = alice.apply(&format!("{CONFIGMAPS}/mine"), "alice", &config_map("mine")).await;
    assert_eq!(made.code, 201, "{}", made.body);
    alice.get(&format!("{CONFIGMAPS}/mine")).await.ok();
    assert_eq!(alice.get(CONFIGMAPS).await.code, 403);
    alice.get(&format!("{CONFIGMAPS}?fieldSelector=metadata.name%3Dmine")).await.ok();
    assert_eq!(alice.get(&format!("{CONFIGMAPS}?fieldSelector=metadata.name%3Dother")).await.code, 403);
    assert_eq!(alice.get(&format!("{CONFIGMAPS}/other")).await.code, 403);
}

#[tokio::test]
async fn an_apply_of_what_is_not_there_needs_create() {
    let bed = bed(Kind::Kubernetes).await;
    let alice = bed.admin.as_user("alice");
    grant(&bed.admin, "patch", "alice", &json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}]))
        .await;
    let path = format!("{CONFIGMAPS}/a");
    let refused = alice.apply(&path, "alice", &config_map("a")).await;
    assert_eq!(refused.code, 403);
    assert!(refused.message().contains("cannot create resource"), "{}", refused.message());
    bed.admin.create(CONFIGMAPS, &config_map("a")).await.ok();
    alice.apply(&path, "alice", &config_map("a")).await.ok();
}

#[tokio::test]
async fn a_role_binding_counts_in_its_namespace() {
    let bed = bed(Kind::Kubernetes).await;
    let token = "system:serviceaccount:default:robot";
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps", "namespaces"], "verbs": ["get", "list"]}]);
    let mut own = role("reader", &rules);
    own["kind"] = json!("Role");
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    bed.admin.create(&format!("{rbac}/roles"), &own).await.ok();
    let mut binding = bound("robot", "reader", "");
    binding["kind"] = json!("RoleBinding");
    binding["roleRef"]["kind"] = json!("Role");
    binding["subjects"] = json!([{"kind": "ServiceAccount", "namespace": "default", "name": "robot"}]);
    bed.admin.create(&format!("{rbac}/rolebindings"), &binding).await.ok();
    let robot = bed.admin.as_user(token);
    robot.get(CONFIGMAPS).await.ok();
    robot.get("/api/v1/namespaces/default").await.ok();
    assert_eq!(robot.get("/api/v1/namespaces/kube-system/configmaps").await.code, 403);
    assert_eq!(robot.get("/api/v1/namespaces/kube-system").await.code, 403);
    assert_eq!(robot.get("/api/v1/configmaps").await.code, 403, "all namespaces are more than one");
}

#[tokio::test]
async fn an_aggregated_role_follows_the_roles_that_it_selects() {
    let bed = bed(Kind::Kubernetes).await;
    let alice = bed.admin.as_user("alice");
    let mut sum = role("sum", &json!([]));
    sum["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"example.com/sum": "true"}}]});
    bed.admin.create(ROLES, &sum).await.ok();
    bed.admin.create(ROLE_BINDINGS, &bound("sum", "sum", "alice")).await.ok();
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    let mut part = role("part", &rules);
    bed.admin.create(ROLES, &part).await.ok();
    assert_eq!(alice.get(CONFIGMAPS).await.code, 403, "it lacks the label");
    part["metadata"]["labels"] = json!({"example.com/sum": "true"});
    bed.admin.merge(&format!("{ROLES}/part"), &part).await.ok();
    becomes(&bed.admin, &format!("{ROLES}/sum"), |sum| sum["rules"] == rules).await;
    alice.get(CONFIGMAPS).await.ok();
    bed.admin.delete(&format!("{ROLES}/part")).await.ok();
    eventually("the sum loses it", || async { (alice.get(CONFIGMAPS).await.code == 403).then_some(()) }).await;
}

#[tokio::test]
async fn a_right_in_a_workspace_needs_access_to_it() {
    let bed = bed(Kind::Kcp).await;
    let cluster = workspace(&bed, "root", "a").await;
    let place = bed.admin.cluster("root:a");
    let alice = place.as_user("alice");
    grant(&place, "read", "alice", &json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}])).await;
    let refused = alice.get(CONFIGMAPS).await;
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message(),
        "configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \"\" in the namespace \
         \"default\": access denied"
    );
    let refused = alice.get("/apis").await;
    assert_eq!(refused.message(), "forbidden: User \"alice\" cannot get path \"/apis\": access denied");
    let_in(&place, "alice").await;
    alice.get(CONFIGMAPS).await.ok();
    alice.get("/apis").await.ok();
    assert_eq!(bed.admin.cluster("root").as_user("alice").get("/apis").await.code, 403, "nor anywhere else");
    // A workspace's own ServiceAccounts always have access.
    let user = format!("system:kcp:serviceaccount:{cluster}:default:robot");
    let binding = bound("robot", "read", "system:serviceaccount:default:robot");
    place.create(ROLE_BINDINGS, &binding).await.ok();
    place.as_user(&user).get(CONFIGMAPS).await.ok();
}

#[tokio::test]
async fn a_service_account_has_another_name_outside() {
    let bed = bed(Kind::Kcp).await;
    let home = workspace(&bed, "root", "home").await;
    workspace(&bed, "root", "other").await;
    let (outside, inside) = (format!("system:kcp:serviceaccount:{home}:ns:robot"), "system:serviceaccount:ns:robot");
    let place = bed.admin.cluster("root:other");
    let robot = place.as_user(&outside);
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]},
        {"apiGroups": ["tenancy.kcp.io"], "resources": ["workspaces"], "verbs": ["list"]},
    ]);
    grant(&place, "inside", inside, &rules).await;
    let_in(&place, &outside).await;
    assert_eq!(robot.get(CONFIGMAPS).await.code, 403, "here that is somebody else's name");
    grant(&place, "outside", &outside, &rules).await;
    robot.get(CONFIGMAPS).await.ok();
    assert_eq!(robot.get(WORKSPACES).await.code, 403, "workspaces are kept from accounts of another one");
    // An account that no name ties to a workspace counts as every workspace's own, and needs no access.
    place.as_user(inside).get(CONFIGMAPS).await.ok();
}

#[tokio::test]
async fn what_is_bound_for_the_shard_counts_everywhere() {
    let bed = bed(Kind::Kcp).await;
    workspace(&bed, "root", "a").await;
    let shard = bed.admin.as_user("masters").cluster("system:admin");
    assert_eq!(bed.admin.cluster("system:admin").get(ROLES).await.code, 403, "that takes a master");
    let alice = bed.admin.cluster("root:a").as_user("alice");
    grant(&shard, "read", "alice", &json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}])).await;
    assert_eq!(alice.get(CONFIGMAPS).await.code, 403);
    let_in(&shard, "alice").await;
    for cluster in ["root", "root:a"] {
        let alice = bed.admin.cluster(cluster).as_user("alice");
        alice.get(CONFIGMAPS).await.ok();
        assert_eq!(alice.create(CONFIGMAPS, &config_map("a")).await.code, 403);
    }
}

#[tokio::test]
async fn a_virtual_workspace_takes_the_same_verb_of_the_exports_content() {
    let bed = bed(Kind::Kcp).await;
    let network = Network::set_up(&bed).await;
    network.tenant.create(VPCS, &vpc("a")).await.ok();
    let prefix =
        format!("/services/apiexport/{}/{NETWORK}/clusters/{}", network.provider_cluster, network.tenant_cluster);
    let through = bed.admin.below(&prefix).as_user("alice");
    assert_eq!(through.get(VPCS).await.code, 403);
    let content = |name: &str| {
        json!([{
            "apiGroups": ["apis.kcp.io"], "resources": ["apiexports/content"], "resourceNames": [name],
            "verbs": ["get", "list"],
        }])
    };
    let_in(&network.provider, "alice").await;
    grant(&network.provider, "another", "alice", &content("another")).await;
    assert_eq!(through.get(VPCS).await.code, 403, "of another export");
    grant(&network.provider, "content", "alice", &content(NETWORK)).await;
    assert_eq!(through.get(VPCS).await.names(), ["a"]);
    through.get("/apis").await.ok();
    let everywhere = format!("/services/apiexport/{}/{NETWORK}/clusters/*", network.provider_cluster);
    bed.admin.below(&everywhere).as_user("alice").get("/apis/network.example.com/v1alpha1/vpcs").await.ok();
    assert_eq!(through.delete(&format!("{VPCS}/a")).await.code, 403);
    assert_eq!(network.tenant.as_user("alice").get(VPCS).await.code, 403, "no other door opens by that");
    assert_eq!(network.provider.as_user("alice").get(SLICES).await.code, 403);
    network.provider.delete(&format!("{ROLE_BINDINGS}/access")).await.ok();
    assert_eq!(through.get(VPCS).await.code, 403, "nobody acts where he may not come");
}

#[tokio::test]
async fn a_claim_gives_no_more_than_the_right_to_the_content() {
    let bed = bed(Kind::Kcp).await;
    let guard = workspace(&bed, "root", "guard").await;
    let tenant = workspace(&bed, "root", "tenant").await;
    let (provider, consumer) = (bed.admin.cluster("root:guard"), bed.admin.cluster("root:tenant"));
    let all = ["get", "list", "create", "patch"];
    let (group, resource) = ("admissionregistration.k8s.io", "validatingwebhookconfigurations");
    provide(&provider, "guard", &[], &json!([claim(group, resource, &all)])).await;
    bind(&consumer, "guard", "root:guard", "guard", &json!([accepted(group, resource, &all)])).await;
    let_in(&provider, "alice").await;
    let content =
        |verbs: &[&str]| json!([{"apiGroups": ["apis.kcp.io"], "resources": ["apiexports/content"], "verbs": verbs}]);
    grant(&provider, "content", "alice", &content(&["get", "list", "patch"])).await;
    let through = bed.admin.below(&format!("/services/apiexport/{guard}/guard/clusters/{tenant}")).as_user("alice");
    through.get(CONFIGURATIONS).await.ok();
    through.get(BINDINGS).await.ok();
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "a"}, "webhooks": [],
    });
    let path = format!("{CONFIGURATIONS}/a");
    assert_eq!(through.apply(&path, "alice", &configuration).await.code, 403, "an apply creates");
    provider.merge(&format!("{ROLES}/content"), &json!({"rules": content(&all)})).await.ok();
    through.apply(&path, "alice", &configuration).await.ok();
}
