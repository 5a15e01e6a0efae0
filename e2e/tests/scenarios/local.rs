//! Ready-made rules, about kinds that every cluster or workspace serves.

use std::sync::Arc;

use depguard_controller::manifests;
use depguard_e2e::rules::pack;
use depguard_e2e::{Api, Depguard, Outcome, Stop, World, eventually};
use serde_json::{Value, json};

pub(crate) async fn config_map_of_pod(world: Arc<World>) -> Outcome {
    // On a plain cluster, these rules apply to every world; they are removed with this provider.
    let place = world.compute().await?;
    let objects = manifests::pack_objects(pack("kubernetes-workloads")?);
    let (role, rules) = objects.split_first().ok_or_else(|| Stop::failed("an empty pack"))?;
    world.grant_reading(role).await?;
    for rule in rules {
        world.add_rule(&place, rule).await?;
    }
    let consumer = world.consumer("consumer", &[]).await?;
    let of = |resource: &str| format!("/api/v1/namespaces/{}/{resource}", consumer.namespace);
    let named = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    for account in ["default", "app"] {
        consumer.api.post(&of("serviceaccounts"), &named("ServiceAccount", account)).await?.ok_or_there()?;
    }
    for name in ["used", "mounted", "free"] {
        consumer.api.post(&of("configmaps"), &named("ConfigMap", name)).await?.ok()?;
    }
    let mut pod = named("Pod", "p1");
    pod["spec"] = json!({
        "serviceAccountName": "app",
        "containers": [
            {"name": "one", "image": "a"},
            {"name": "two", "image": "a", "envFrom": [{"configMapRef": {"name": "used"}}]},
        ],
        "volumes": [{"name": "m", "projected": {"sources": [{"configMap": {"name": "mounted"}}]}}],
    });
    consumer.api.post(&of("pods"), &pod).await?.ok()?;
    let _depguard = Depguard::start(&world).await?;

    for rule in rules {
        let name = rule["metadata"]["name"].as_str().unwrap_or_default();
        world.condition_says(&place, name, "Accepted", "True", |said| said == "the rule is well formed").await?;
        world.condition(&place, name, "ResolvedRefs", "True").await?;
    }
    let used = format!("{}/used", of("configmaps"));
    refused(&world, &consumer.api, &used, "cannot delete configmaps/used: still referenced by Pod/p1").await?;
    let mounted = format!("{}/mounted", of("configmaps"));
    refused(&world, &consumer.api, &mounted, "still referenced by Pod/p1").await?;
    let account = format!("{}/app", of("serviceaccounts"));
    refused(&world, &consumer.api, &account, "still referenced by Pod/p1").await?;
    consumer.api.delete(&format!("{}/free", of("configmaps"))).await?.ok()?;
    consumer.api.delete(&format!("{}/p1", of("pods"))).await?.ok()?;
    consumer.gone(&world, &format!("{}/p1", of("pods"))).await?;
    consumer.api.delete(&used).await?.ok().map(drop)
}

/// Checks that the API server serves all kinds and fields that the ready-made rules about Kubernetes' own kinds name.
pub(crate) async fn fits_kubernetes(world: Arc<World>) -> Outcome {
    let place = world.compute().await?;
    let _depguard = Depguard::start(&world).await?;
    let mut names = vec!["kubernetes-workloads", "kubernetes-cluster"];
    if world.minor_version().await? >= 34 {
        names.push("kubernetes-1.34");
    }
    for name in names {
        let rules = pack(name)?.rules();
        for mut rule in rules.clone() {
            // Nothing that other scenarios left is kept.
            for dependency in rule["spec"]["dependencies"].as_array_mut().into_iter().flatten() {
                dependency["onDelete"] = json!("Warn");
            }
            world.add_rule(&place, &rule).await?;
        }
        for rule in rules {
            let name = rule["metadata"]["name"].as_str().unwrap_or_default();
            world.condition_says(&place, name, "Accepted", "True", |said| said == "the rule is well formed").await?;
            world.condition(&place, name, "ResolvedRefs", "True").await?;
            world.remove_rule(&place, name).await?;
        }
    }
    Ok(())
}

pub(crate) async fn schema_of_export(world: Arc<World>) -> Outcome {
    let network = world.network("providers:network").await?;
    world.bind_depguard(&network).await?;
    let rules = pack("kcp")?.rules();
    let rule = rules.iter().find(|rule| rule["metadata"]["name"] == "kcp-apiresourceschemas");
    world.add_rule(&network, rule.ok_or_else(|| Stop::failed("the pack lacks the rule"))?).await?;
    let _depguard = Depguard::start(&world).await?;
    let schemas = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";
    let all = network.api.get(schemas).await?.ok()?;
    let all: Vec<Value> = all["items"].as_array().cloned().unwrap_or_default();
    let used = all.iter().filter_map(|schema| schema["metadata"]["name"].as_str()).find(|name| name.contains("vpcs"));
    let used = used.ok_or_else(|| Stop::failed("no schema of vpcs"))?.to_owned();
    let mut free = all.first().cloned().unwrap_or_default();
    let group = free["spec"]["group"].as_str().unwrap_or_default().to_owned();
    let plural = free["spec"]["names"]["plural"].as_str().unwrap_or_default().to_owned();
    let name = format!("v0.{plural}.{group}");
    free["metadata"] = json!({"name": name});
    network.api.post(schemas, &free).await?.ok()?;

    if world.ring().kind().reads_through_exports() {
        // No export serves these kinds, and the webhook has no right to read them yet.
        let message = "give the webhook's user the right to get and list it there";
        for name in [&used, &name] {
            let path = format!("{schemas}/{name}");
            eventually("what can't be read is refused", world.patience(), async || {
                let reply = network.api.dry_run_delete(&path).await?;
                if reply.message().contains(message) { Ok(()) } else { Err(reply.unexpected(message)) }
            })
            .await?;
        }
        world
            .condition_says(&network, "kcp-apiresourceschemas", "Enforced", "Unknown", |said| {
                said.contains("no APIExport serves")
            })
            .await?;
        world.grant_local(&network, "apis.kcp.io", "apiexports").await?;
    }
    let message = format!("cannot delete apiresourceschemas/{used}: still referenced by APIExport/{}", network.export);
    refused(&world, &network.api, &format!("{schemas}/{used}"), &message).await?;
    eventually("a free one goes", world.patience(), async || {
        network.api.delete(&format!("{schemas}/{name}")).await?.ok().map(drop)
    })
    .await
}

/// A kcp serves one name of a kind, and the pack has rules about both: all of them are enforced, and no rule about a kind
/// that is not served keeps anything.
pub(crate) async fn kinds_of_either_name(world: Arc<World>) -> Outcome {
    let network = world.network("providers:network").await?;
    world.bind_depguard(&network).await?;
    let rules = pack("kcp")?.rules();
    for rule in &rules {
        world.add_rule(&network, rule).await?;
    }
    let named = |kind: &str, version: &str, name: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    network.api.post("/api/v1/namespaces", &named("Namespace", "v1", "identities")).await?.ok()?;
    let secrets = "/api/v1/namespaces/identities/secrets";
    for name in ["used", "free"] {
        let mut secret = named("Secret", "v1", name);
        secret["stringData"] = json!({"key": "secret"});
        network.api.post(secrets, &secret).await?.ok()?;
    }
    let mut export = named("APIExport", "apis.kcp.io/v1alpha2", "identified");
    export["spec"] = json!({"identity": {"secretRef": {"name": "used", "namespace": "identities"}}});
    network.api.post("/apis/apis.kcp.io/v1alpha2/apiexports", &export).await?.ok()?;
    let _depguard = Depguard::start(&world).await?;
    for rule in &rules {
        let text = |pointer| rule.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if world.ring().kind().reads_through_exports() {
            world.grant_local(&network, text("/spec/dependent/group"), text("/spec/dependent/resource")).await?;
        } else {
            world.condition(&network, text("/metadata/name"), "Enforced", "True").await?;
        }
    }
    let message = "cannot delete secrets/used: still referenced by APIExport/identified";
    refused(&world, &network.api, &format!("{secrets}/used"), message).await?;
    eventually("a Secret that is no identity goes", world.patience(), async || {
        network.api.delete(&format!("{secrets}/free")).await?.ok().map(drop)
    })
    .await
}

/// Waits until the deletion would be refused with this message, and then expects the refusal. A control expects the
/// deletion to go through.
pub(crate) async fn refused(world: &World, api: &Api, path: &str, message: &str) -> Outcome {
    if world.is_control() {
        api.delete(path).await?.ok()?;
        return Err(Stop::ControlSeen);
    }
    until_refused(world, api, path, message).await?;
    let reply = api.delete(path).await?;
    if reply.status == 403 { Ok(()) } else { Err(reply.unexpected("403")) }
}

/// Waits until the deletion would be refused with this message.
pub(crate) async fn until_refused(world: &World, api: &Api, path: &str, message: &str) -> Outcome {
    eventually("the deletion is refused", world.patience(), async || {
        let reply = api.dry_run_delete(path).await?;
        let refused = reply.status == 403 && reply.message().contains(message);
        if refused { Ok(()) } else { Err(reply.unexpected(message)) }
    })
    .await
}
