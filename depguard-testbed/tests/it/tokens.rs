//! Tests of tokens of ServiceAccounts: their audiences and their life.

use std::time::Duration;

use depguard_testbed::{Kind, Options};
use serde_json::{Value, json};

use crate::bed::{Bed, eventually};
use crate::client::{Answer, Client};
use crate::fixtures::{CONFIGURATIONS, workspace};
use crate::hook::Hook;
use crate::rbac::{ROLE_BINDINGS, ROLES, bed, bound, grant, let_in, role};
use crate::subresources::rule;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

async fn account(place: &Client, name: &str) -> Value {
    let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    place.create(ACCOUNTS, &object).await.ok()
}

async fn ask(place: &Client, name: &str, spec: &Value) -> Answer {
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    place.create(&format!("{ACCOUNTS}/{name}/token"), &request).await
}

async fn token(place: &Client, name: &str, spec: &Value) -> String {
    ask(place, name, spec).await.ok()["status"]["token"].as_str().unwrap().to_owned()
}

async fn who(client: &Client) -> Value {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    client.create(WHO, &review).await.ok()["status"]["userInfo"].clone()
}

#[tokio::test]
async fn a_token_is_its_accounts_and_ends_with_it() {
    let bed = bed(Kind::Kubernetes).await;
    let made = account(&bed.admin, "robot").await;
    let answer = ask(&bed.admin, "robot", &json!({"expirationSeconds": 600})).await;
    assert_eq!(answer.code, 201);
    let request = answer.ok();
    let audiences = json!(["https://kubernetes.default.svc"]);
    assert_eq!(request["spec"], json!({"audiences": audiences, "expirationSeconds": 600, "boundObjectRef": null}));
    assert_eq!((&request["kind"], &request["metadata"]["uid"]), (&json!("TokenRequest"), &made["metadata"]["uid"]));
    let robot = bed.admin.as_user(request["status"]["token"].as_str().unwrap());
    let user = who(&robot).await;
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    assert_eq!(user["uid"], made["metadata"]["uid"]);
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    assert_eq!(user["groups"], groups);
    assert!(user["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap().starts_with("JTI="));

    assert_eq!(robot.get(CONFIGMAPS).await.code, 403, "nothing is bound to it");
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    grant(&bed.admin, "robot", "system:serviceaccount:default:robot", &rules).await;
    robot.get(CONFIGMAPS).await.ok();

    assert_eq!(bed.admin.delete(&format!("{ACCOUNTS}/robot")).await.ok()["kind"], "ServiceAccount");
    assert_eq!(robot.get(CONFIGMAPS).await.code, 401);
    account(&bed.admin, "robot").await;
    assert_eq!(robot.get(CONFIGMAPS).await.code, 401, "that is another one");
    let robot = bed.admin.as_user(&token(&bed.admin, "robot", &json!({})).await);
    robot.get(CONFIGMAPS).await.ok();
    bed.admin.merge(&format!("{ACCOUNTS}/robot"), &json!({"metadata": {"finalizers": ["a.b/c"]}})).await.ok();
    bed.admin.delete(&format!("{ACCOUNTS}/robot")).await.ok();
    assert_eq!(robot.get(CONFIGMAPS).await.code, 401, "it is on its way out");
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_token_ends_at_the_time_that_its_request_names() {
    let bed = Bed::start(Options::kubernetes().shortest_token(Duration::from_secs(1))).await;
    account(&bed.admin, "robot").await;
    let brief = bed.admin.as_user(&token(&bed.admin, "robot", &json!({"expirationSeconds": 2})).await);
    let lasting = bed.admin.as_user(&token(&bed.admin, "robot", &json!({})).await);
    let ended = eventually("the token ends", || async { Some(brief.get("/api").await).filter(|it| it.code != 200) });
    let refused = ended.await;
    assert_eq!((refused.code, refused.body["reason"].as_str()), (401, Some("Unauthorized")));
    lasting.get("/api").await.ok();
    assert_eq!(ask(&bed.admin, "robot", &json!({"expirationSeconds": 0})).await.code, 422);
    bed.testbed.stop().await;
}

#[tokio::test]
async fn nobody_makes_a_token_of_his_own() {
    let bed = Bed::kubernetes().await;
    account(&bed.admin, "robot").await;
    account(&bed.admin, "other").await;
    let (robot, other) = (token(&bed.admin, "robot", &json!({})).await, token(&bed.admin, "other", &json!({})).await);
    let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
    let (robot_parts, other_parts) = (parts(&robot), parts(&other));
    for forged in [
        format!("{}.{}.{}", robot_parts[0], other_parts[1], robot_parts[2]),
        format!("{}.{}.", robot_parts[0], robot_parts[1]),
        format!("{robot}.{}", robot_parts[2]),
        "ey..".to_owned(),
        "ey%.&.=".to_owned(),
    ] {
        let code = bed.admin.as_user(&forged).get(&format!("{CONFIGMAPS}/none")).await.code;
        // A text with a dot too many is no such token, but a user's name. In this testbed every user has all rights.
        assert_eq!(code, if forged.matches('.').count() == 2 { 401 } else { 404 }, "{forged}");
    }
    let elsewhere = bed.admin.as_user(&token(&bed.admin, "robot", &json!({"audiences": ["vault"]})).await);
    assert_eq!(elsewhere.get("/api").await.code, 401, "it is for somebody else");
    let both = json!({"audiences": ["vault", "https://kubernetes.default.svc"]});
    bed.admin.as_user(&token(&bed.admin, "robot", &both).await).get("/api").await.ok();
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_request_that_does_not_fit_says_why() {
    let bed = Bed::kubernetes().await;
    account(&bed.admin, "robot").await;
    let path = format!("{ACCOUNTS}/robot/token");
    for (request, code, why) in [
        (json!({"spec": {"expirationSeconds": 599}}), 422, "may not specify a duration less than 10 minutes"),
        (json!({"spec": {"expirationSeconds": -1}}), 422, "Invalid value: -1"),
        (json!({"spec": {"expirationSeconds": 4_294_967_297_u64}}), 422, "larger than 2^32 seconds"),
        (json!({"spec": {"expirationSeconds": "600"}}), 400, "not a whole number"),
        (json!({"spec": {"audiences": "vault"}}), 400, "not a list of strings"),
        (json!({"spec": {"boundObjectRef": {"kind": "Secret"}}}), 400, "binds tokens to no object"),
        (json!({"metadata": {"name": "other"}}), 422, "must match the service account name"),
        (json!({"metadata": {"namespace": "other"}}), 400, "does not match the namespace"),
        (json!({"metadata": {"uid": "other"}}), 409, "does not match the UID of the service account"),
        (json!({"kind": "Eviction", "apiVersion": "policy/v1"}), 400, "cannot be handled as a TokenRequest"),
    ] {
        let refused = bed.admin.create(&path, &request).await;
        assert_eq!(refused.code, code, "{request}");
        assert!(refused.message().contains(why), "{request}: {}", refused.message());
    }
    assert_eq!(ask(&bed.admin, "nobody", &json!({})).await.code, 404);
    assert_eq!(bed.admin.get(&path).await.code, 405);
    let resources = bed.admin.get("/api/v1").await.ok();
    let listed = resources["resources"].as_array().unwrap().iter().find(|it| it["name"] == "serviceaccounts/token");
    assert_eq!(listed.unwrap()["kind"], "TokenRequest");

    let hook = Hook::denying().await;
    bed.admin.create(CONFIGURATIONS, &hook.configuration(&rule("", &["serviceaccounts/token"]))).await.ok();
    assert_eq!(ask(&bed.admin, "robot", &json!({})).await.code, 403);
    let asked = hook.calls().remove(0).request;
    assert_eq!(asked["kind"], json!({"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}));
    assert_eq!((&asked["subResource"], &asked["object"]["status"]), (&json!("token"), &json!(null)));
    bed.testbed.stop().await;
}

#[tokio::test]
async fn in_kcp_a_token_is_good_in_its_own_workspace() {
    let bed = bed(Kind::Kcp).await;
    let home = workspace(&bed, "root", "home").await;
    workspace(&bed, "root", "other").await;
    let (place, other) = (bed.admin.cluster("root:home"), bed.admin.cluster("root:other"));
    account(&place, "robot").await;
    account(&other, "robot").await;
    let token = token(&place, "robot", &json!({})).await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    for place in [&place, &other] {
        place.create(ROLES, &role("read", &rules)).await.ok();
        let mut binding = bound("robot", "read", "");
        binding["subjects"] = json!([{"kind": "ServiceAccount", "namespace": "default", "name": "robot"}]);
        place.create(ROLE_BINDINGS, &binding).await.ok();
    }
    let (inside, outside) = (place.as_user(&token), other.as_user(&token));
    inside.get(CONFIGMAPS).await.ok();
    let extra = &who(&inside).await["extra"];
    assert_eq!(extra["authentication.kcp.io/cluster-name"], json!([home]));
    assert_eq!(extra["authentication.kcp.io/scopes"], json!([format!("cluster:{home}")]));
    assert_eq!(outside.get(CONFIGMAPS).await.code, 403);
    let name = format!("system:kcp:serviceaccount:{home}:default:robot");
    let_in(&other, &name).await;
    assert_eq!(outside.get(CONFIGMAPS).await.code, 403, "the robot there is another one");
    grant(&other, "of-the-other", &name, &rules).await;
    outside.get(CONFIGMAPS).await.ok();

    // The account's rights in other workspaces end, too.
    place.delete(&format!("{ACCOUNTS}/robot")).await.ok();
    assert_eq!((inside.get(CONFIGMAPS).await.code, outside.get(CONFIGMAPS).await.code), (401, 401));
    bed.testbed.stop().await;
}
