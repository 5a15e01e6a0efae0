//! Switch from opendefensecloud/dependency-controller to depguard, on the same export.

use std::sync::Arc;

use depguard_controller::manifests;
use depguard_e2e::rules::{CONFIGURATION, CONFIGURATIONS, RULES, rule};
use depguard_e2e::{Api, Depguard, Outcome, Stop, World, ensure, eventually};
use serde_json::{Map, Value, json};

use crate::deletion::one_reference;
use crate::installation::is_below;
use crate::old_rights;

pub(crate) const EXPORT: &str = "/apis/apis.kcp.io/v1alpha2/apiexports/dependencies.opendefense.cloud";
pub(crate) const SCHEMAS: &str = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";
/// Name of the reference's schema. A schema's content can't be changed, so depguard's schema must have another name.
const THEIR_SCHEMA: &str = "v1.dependencyrules.dependencies.opendefense.cloud";

/// Takes the steps of `docs/switching.md`, while the providers' rules, bindings and configurations stay.
pub(crate) async fn from_the_reference(world: Arc<World>) -> Outcome {
    let own = world.own_cluster();
    offer_theirs(&world, &own).await?;
    let (network, compute) = tokio::try_join!(world.network("providers:network"), world.compute())?;
    let bind = async |provider| world.bind_depguard_as(provider, their_claims).await;
    tokio::try_join!(bind(&network), bind(&compute))?;
    let cast = world.consume(network, compute).await?;
    let machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    world.add_rule(&cast.compute, &machines).await?;
    let before = cast.compute.api.get(&format!("{RULES}/machines")).await?.ok()?;
    ensure(before.get("status").is_none(), || format!("the reference's rules have no status: {before}"))?;
    cast.network.api.post(CONFIGURATIONS, &their_configuration(&cast.network.export)).await?.ok()?;
    let identity = identity(&own).await?;
    if !world.is_control() {
        old_rights::grant(&world, &cast).await?;
    }

    // The operator's steps begin here.
    own.post(SCHEMAS, &manifests::api_resource_schema()).await?.ok_or_there()?;
    let ours = manifests::api_export();
    own.merge(EXPORT, &json!({"spec": ours["spec"]})).await?.ok()?;
    let depguard = Depguard::start(&world).await?;
    world.condition(&cast.compute, "machines", "Programmed", "True").await?;
    ensure(self::identity(&own).await? == identity, || "the export has another identity".to_owned())?;
    let rule = cast.compute.api.get(&format!("{RULES}/machines")).await?.ok()?;
    ensure(rule["metadata"]["uid"] == before["metadata"]["uid"], || format!("another rule: {rule}"))?;
    if !world.is_control() {
        old_rights::withdraw(&world, &cast).await?;
        let taken = |found: &Value| is_below(&found["webhooks"][0]["clientConfig"], &depguard.url());
        world.until_configured(&cast.network.api, "the configuration is taken over", taken).await?;
    } else {
        // The reference's URL no longer answers.
        cast.network.api.delete(CONFIGURATION).await?;
    }
    one_reference(&world, &cast).await?;
    // An API server notices a changed configuration a moment later.
    match world.is_control() {
        true => cast.consumer.until_free(&world, &cast.vpc, "a").await?,
        false => cast.consumer.until_protected(&world, &cast.vpc, "a").await?,
    }
    cast.consumer
        .refused(&world, &cast.vpc, "a", &["cannot delete vpcs/a: still referenced by VirtualMachine/m1"])
        .await?;

    // Once the providers accept the new claims, the status tells more.
    let named = |said: &str| said.contains("apiexports") || said.contains("apiresourceschemas");
    world.condition_says(&cast.compute, "machines", "ResolvedRefs", "Unknown", named).await?;
    world.accept_claims(&cast.network).await?;
    world.accept_claims(&cast.compute).await?;
    world.condition(&cast.compute, "machines", "ResolvedRefs", "True").await.map(drop)
}

/// Sets the export to what the reference ships.
async fn offer_theirs(world: &World, own: &Api) -> Outcome {
    own.post(SCHEMAS, &their_schema()).await?.ok_or_there()?;
    let mut export = manifests::api_export();
    export["spec"]["resources"][0]["schema"] = json!(THEIR_SCHEMA);
    let claims = their_claim_list(&export["spec"]["permissionClaims"]);
    let patch = json!({"spec": {"resources": export["spec"]["resources"], "permissionClaims": claims}});
    eventually("the export is as the reference has it", world.patience(), async || {
        own.merge(EXPORT, &patch).await?.ok().map(drop)
    })
    .await
}

fn their_claims(binding: &mut Value) {
    let claims = their_claim_list(&binding["spec"]["permissionClaims"]);
    binding["spec"]["permissionClaims"] = json!(claims);
}

/// Returns the reference's claims: webhook configurations only, and without the right to patch them.
fn their_claim_list(ours: &Value) -> Vec<Value> {
    let mut claim = ours[0].clone();
    claim["verbs"] = json!(["get", "list", "watch", "create", "update", "delete"]);
    vec![claim]
}

async fn identity(own: &Api) -> Outcome<Value> {
    let export = own.get(EXPORT).await?.ok()?;
    let hash = export["status"]["identityHash"].clone();
    if hash.is_string() { Ok(hash) } else { Err(Stop::Failed(format!("no identity yet: {}", export["status"]))) }
}

fn their_configuration(group: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "dependency-controller"},
        "webhooks": [{
            "name": "dependency-controller.dependencies.opendefense.cloud",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/validate"},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "rules": [{
                "operations": ["DELETE"], "apiGroups": [group], "apiVersions": ["v1alpha1"], "resources": ["vpcs"],
            }],
        }],
    })
}

/// Builds the reference's schema with the fields, but without the patterns.
fn their_schema() -> Value {
    let text = json!({"type": "string"});
    let object = |properties: &[(&str, &Value)]| {
        let names: Vec<_> = properties.iter().map(|(name, _)| *name).collect();
        let properties: Map<String, Value> =
            properties.iter().map(|(name, schema)| ((*name).to_owned(), (*schema).clone())).collect();
        json!({"type": "object", "required": names, "properties": properties})
    };
    let dependent =
        object(&[("apiExportName", &text), ("group", &text), ("version", &text), ("kind", &text), ("resource", &text)]);
    let dependency = object(&[
        ("apiExportRef", &object(&[("path", &text), ("name", &text)])),
        ("group", &text),
        ("version", &text),
        ("resource", &text),
        ("fieldRef", &object(&[("path", &text)])),
    ]);
    let dependencies = json!({"type": "array", "items": dependency});
    let spec = object(&[("dependent", &dependent), ("dependencies", &dependencies)]);
    let mut schema = object(&[("spec", &spec)]);
    for (name, kind) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        schema["properties"][name] = json!({"type": kind});
    }
    json!({
        "apiVersion": "apis.kcp.io/v1alpha1",
        "kind": "APIResourceSchema",
        "metadata": {"name": THEIR_SCHEMA},
        "spec": {
            "group": "dependencies.opendefense.cloud",
            "names": {
                "kind": "DependencyRule", "listKind": "DependencyRuleList",
                "plural": "dependencyrules", "singular": "dependencyrule",
            },
            "scope": "Cluster",
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": schema}],
        },
    })
}
