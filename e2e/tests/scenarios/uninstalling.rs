//! Uninstalling depguard: nothing is refused any more.

use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::{Depguard, Outcome, World, ensure};
use serde_json::json;

use crate::deletion::one_reference;

pub(crate) async fn webhook_dead(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    world.add_rule(&cast.compute, &machines).await?;
    let mut depguard = Depguard::start(&world).await?;
    one_reference(&world, &cast).await?;
    if world.is_control() {
        return cast.consumer.refused(&world, &cast.vpc, "a", &[]).await.map(drop);
    }
    depguard.kill_webhook();
    let reply = cast.consumer.api.delete(&cast.consumer.object(&cast.vpc, "a")).await?;
    ensure(reply.status >= 400, || "it was deleted though nobody could be asked".to_owned())?;
    depguard.uninstall().await?;
    // The controller still runs, and installs nothing again.
    ensure(world.configuration(&cast.network.api).await?.is_none(), || "it is there".to_owned())?;
    cast.consumer.until_free(&world, &cast.vpc, "a").await?;
    cast.consumer.delete(&world, &cast.vpc, "a").await
}

/// Installs rules about all kinds that depguard and Helm use, without a webhook that answers. The one about ConfigMaps
/// excludes a name.
pub(crate) async fn own_namespace(world: Arc<World>) -> Outcome {
    let kinds = ["pods", "secrets", "configmaps", "services", "serviceaccounts"];
    let mut dependencies = kinds
        .map(|kind| json!({"group": "", "version": "v1", "resource": kind, "fieldRef": {"path": ".spec.nodeName"}}));
    dependencies[2]["excludeNames"] = json!(["given"]);
    let all = json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1",
        "kind": "DependencyRule",
        "metadata": {"name": "all"},
        "spec": {
            "dependent": {"group": "", "version": "v1", "kind": "Pod", "resource": "pods"},
            "dependencies": dependencies,
        },
    });
    let own = world.own_cluster();
    own.post("/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules", &all).await?.ok()?;
    let mut depguard = Depguard::prepare(&world).await?;
    depguard.start_controller().await?;
    let object = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    let mut release = object("Secret", "release");
    release["type"] = json!("helm.sh/release.v1");
    for (namespace, plural, object) in [
        ("depguard-system", "secrets", object("Secret", "certificate")),
        ("depguard-system", "configmaps", object("ConfigMap", "settings")),
        ("depguard-system", "serviceaccounts", object("ServiceAccount", "runner")),
        ("default", "secrets", object("Secret", "protected")),
        ("default", "secrets", release),
        ("default", "configmaps", object("ConfigMap", "given")),
        ("default", "configmaps", object("ConfigMap", "protected")),
    ] {
        own.post(&format!("/api/v1/namespaces/{namespace}/{plural}"), &object).await?.ok_or_there()?;
    }
    // The five kinds, and the evictions of Pods.
    let reviewed = |found: &serde_json::Value| depguard_e2e::rules::reviewed_kinds(found).len() == 6;
    world.until_configured(&own, "all of them are reviewed", reviewed).await?;
    let path = |of: &str| format!("/api/v1/namespaces/{of}");
    depguard_e2e::eventually("what is protected can't be deleted", world.patience(), async || {
        let reply = own.delete(&format!("{}?dryRun=All", path("default/secrets/protected"))).await?;
        ensure(reply.status >= 400, || "it can".to_owned())
    })
    .await?;
    // A collection has no name in the request, as when its namespace is deleted.
    let collection = |name: &str| format!("{}?fieldSelector=metadata.name={name}", path("default/configmaps"));
    own.delete(&format!("{}?dryRun=All", path("default/configmaps/given"))).await?.ok()?;
    own.delete(&collection("given")).await?.ok()?;
    for kept in [path("default/configmaps/protected"), collection("protected")] {
        let reply = own.delete(&kept).await?;
        ensure(reply.status >= 400, || format!("{kept} was deleted though nobody could be asked"))?;
    }
    let (given, protected) = (path("default/configmaps/given"), path("default/configmaps/protected"));
    ensure(own.get(&given).await?.status == 404, || "what the rule excludes is still there".to_owned())?;
    own.get(&protected).await?.ok()?;
    for of in [
        "depguard-system/secrets/certificate",
        "depguard-system/configmaps/settings",
        "depguard-system/serviceaccounts/runner",
        "default/secrets/release",
    ] {
        own.delete(&path(of)).await?.ok()?;
    }
    depguard.stop_controller().await;
    depguard.uninstall().await?;
    own.delete("/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules/all").await?.ok()?;
    depguard_e2e::eventually("everything can be deleted", world.patience(), async || {
        own.delete(&path("default/secrets/protected")).await?.ok().map(drop)
    })
    .await?;
    own.delete(&protected).await?.ok().map(drop)
}
