//! Rights and lifetime of a ServiceAccount's token, on real servers and on the testbed, which others use for their
//! tests.

use std::sync::Arc;

use depguard_e2e::{Api, Outcome, Stop, World, ensure, eventually};
use serde_json::{Value, json};

pub(crate) async fn of_accounts(world: Arc<World>) -> Outcome {
    world.needs_minor_version(34, "its answer to a TokenRequest does not say whose token it is").await?;
    let consumer = world.consumer("consumer", &[]).await?;
    let accounts = format!("/api/v1/namespaces/{}/serviceaccounts", consumer.namespace);
    let path = format!("{accounts}/robot");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let made = consumer.api.post(&accounts, &account).await?.ok()?;
    let ask = async |spec: &Value| {
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        consumer.api.post(&format!("{path}/token"), &request).await
    };
    for (spec, status, why) in [
        (json!({"expirationSeconds": 599}), 422, "may not specify a duration less than 10 minutes"),
        (json!({"expirationSeconds": -1}), 422, "may not specify a duration less than 10 minutes"),
        (json!({"expirationSeconds": 4_294_967_297_u64}), 422, "may not specify a duration larger than 2^32 seconds"),
        (json!({"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}}), 400, "token"),
    ] {
        let refused = ask(&spec).await?;
        ensure(refused.status == status && refused.message().contains(why), || {
            format!("{spec}: {} {}", refused.status, refused.message())
        })?;
    }
    let request = ask(&json!({"expirationSeconds": 600})).await?.ok()?;
    ensure(request["spec"]["expirationSeconds"] == 600, || format!("granted otherwise: {}", request["spec"]))?;
    ensure(request["metadata"]["uid"] == made["metadata"]["uid"], || "it is another account's".to_owned())?;
    let enter = async |request: &Value| -> Outcome<Api> {
        let token = request["status"]["token"].as_str().unwrap_or_default();
        Ok(world.ring().api_of(token).await?.at(world.ring().prefix(&consumer.path)))
    };
    let robot = enter(&request).await?;
    is_the_account(&world, &robot, &consumer.namespace, &made).await?;
    let elsewhere = enter(&ask(&json!({"audiences": ["vault"]})).await?.ok()?).await?;
    refused(&elsewhere, "/api", 401).await?;
    refused(&robot, &format!("/api/v1/namespaces/{}/configmaps", consumer.namespace), 403).await?;
    if world.is_kcp() {
        let home = world.own_path();
        let abroad = world.ring().api_of(request["status"]["token"].as_str().unwrap_or_default()).await?;
        refused(&abroad.at(world.ring().prefix(&home)), "/apis", 403).await?;
    }

    consumer.api.delete(&path).await?.ok()?;
    // Real servers keep accepting the token for some seconds.
    let ended = async || refused(&robot, "/api", 401).await;
    eventually("the token ends with its account", world.patience(), ended).await?;
    consumer.api.post(&accounts, &account).await?.ok()?;
    refused(&robot, "/api", 401).await
}

async fn is_the_account(world: &World, robot: &Api, namespace: &str, account: &Value) -> Outcome {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let told = robot.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await?.ok()?;
    let user = &told["status"]["userInfo"];
    let groups =
        json!(["system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated"]);
    let mut expected = json!({
        "username": format!("system:serviceaccount:{namespace}:robot"), "uid": account["metadata"]["uid"],
        "groups": groups, "extra": {},
    });
    if world.is_kcp() {
        let home = &account["metadata"]["annotations"]["kcp.io/cluster"];
        let home = home.as_str().ok_or_else(|| Stop::failed("the account doesn't say where it is"))?;
        expected["extra"] = json!({
            "authentication.kcp.io/cluster-name": [home], "authentication.kcp.io/scopes": [format!("cluster:{home}")],
        });
    }
    let mut found = user.clone();
    // Each token has an id of its own.
    let credential =
        found["extra"].as_object_mut().and_then(|all| all.remove("authentication.kubernetes.io/credential-id"));
    let credential = credential.and_then(|ids| ids[0].as_str().map(str::to_owned)).unwrap_or_default();
    ensure(credential.starts_with("JTI="), || format!("which token it was, is not said: {user}"))?;
    ensure(found == expected, || format!("awaited {expected}, got {found}"))
}

async fn refused(api: &Api, path: &str, status: u16) -> Outcome {
    let reply = api.get(path).await?;
    if reply.status == status { Ok(()) } else { Err(reply.unexpected(&status.to_string())) }
}
