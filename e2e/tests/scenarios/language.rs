//! Ways in which one object can refer to another.

use std::sync::Arc;

use depguard_e2e::rules::{pack, rule};
use depguard_e2e::{Cast, Depguard, Outcome, Resource, Stop, World, ensure};
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::kubectl::User;
use crate::local::until_refused;

/// Creates the usual cast, adds a rule about machines that refer to VPCs, altered by `change`, and starts depguard.
async fn guarded(world: &Arc<World>, change: impl FnOnce(&mut Value)) -> Outcome<(Cast, Depguard)> {
    let cast = world.cast().await?;
    let mut machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    change(&mut machines["spec"]);
    world.add_rule(&cast.compute, &machines).await?;
    let depguard = Depguard::start(world).await?;
    Ok((cast, depguard))
}

fn field_ref(spec: &mut Value, field_ref: Value) {
    spec["dependencies"][0]["fieldRef"] = field_ref;
}

pub(crate) async fn lists(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world, |spec| field_ref(spec, json!({"path": ".spec.networks[*].vpc"}))).await?;
    let consumer = &cast.consumer;
    for name in ["a", "b", "c"] {
        consumer.create_target(&cast.vpc, name).await?;
    }
    consumer.create(&cast.vm, "m1", json!({"networks": [{"vpc": "b"}, {"other": "c"}, {"vpc": "a"}]})).await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;

    consumer.refused(&world, &cast.vpc, "a", &["cannot delete vpcs/a: still referenced by VirtualMachine/m1"]).await?;
    consumer.refused(&world, &cast.vpc, "b", &["cannot delete vpcs/b: still referenced by VirtualMachine/m1"]).await?;
    consumer.delete(&world, &cast.vpc, "c").await?;
    consumer.delete(&world, &cast.vm, "m1").await?;
    consumer.delete(&world, &cast.vpc, "a").await
}

/// Uses Artifact Conduit's ready-made rule for Orders, with the kinds of this world.
pub(crate) async fn endpoints_of_an_order(world: Arc<World>) -> Outcome {
    let kinds = vec![Resource::namespaced("Endpoint"), Resource::namespaced("Order")];
    let place = world.provider("providers:arc", "arc.opendefense.cloud", kinds).await?;
    let (endpoint, order) = (place.kind("Endpoint")?, place.kind("Order")?);
    let ready = pack("artifact-conduit")?.rules();
    let ready = ready.iter().find(|rule| rule["metadata"]["name"] == "artifact-conduit-orders");
    let ready = ready.ok_or_else(|| Stop::failed("the pack lacks the rule"))?;
    let dependencies = ready["spec"]["dependencies"].as_array().into_iter().flatten();
    let to_endpoints = dependencies.filter(|dependency| dependency["resource"] == "endpoints");
    let paths: Vec<_> = to_endpoints.filter_map(|dependency| dependency["fieldRef"]["path"].as_str()).collect();
    ensure(paths.contains(&".spec.artifacts[*].srcRef.name"), || format!("the pack has {paths:?}"))?;
    let edges: Vec<_> = paths.iter().map(|path| (&endpoint, *path)).collect();
    world.bind_depguard(&place).await?;
    world.add_rule(&place, &rule("orders", &order, &edges)).await?;
    let consumer = world.consumer("consumer", &[&place]).await?;
    let _depguard = Depguard::start(&world).await?;
    for name in ["hub", "mirror", "s3", "free"] {
        consumer.create_target(&endpoint, name).await?;
    }
    let artifacts = json!([{"srcRef": {"name": "hub"}}, {"srcRef": {"name": "mirror"}, "dstRef": {"name": "s3"}}]);
    consumer.create(&order, "images", json!({"artifacts": artifacts})).await?;
    consumer.until_protected(&world, &endpoint, "hub").await?;

    for name in ["hub", "mirror", "s3"] {
        let message = format!("cannot delete endpoints/{name}: still referenced by Order/images");
        consumer.refused(&world, &endpoint, name, &[&message]).await?;
    }
    consumer.delete(&world, &endpoint, "free").await?;
    consumer.delete(&world, &order, "images").await?;
    consumer.delete(&world, &endpoint, "mirror").await
}

pub(crate) async fn other_namespace(world: Arc<World>) -> Outcome {
    let paths = json!({"path": ".spec.networks[*].name", "namespacePath": ".spec.networks[*].namespace"});
    let (cast, _depguard) = guarded(&world, |spec| field_ref(spec, paths)).await?;
    let consumer = &cast.consumer;
    let other = consumer.in_namespace(&world, "two").await?;
    for name in ["a", "b"] {
        consumer.create_target(&cast.vpc, name).await?;
        other.create_target(&cast.vpc, name).await?;
    }
    // The machine refers to `b` in its own namespace and to `a` in the other.
    let networks = json!([{"name": "b"}, {"name": "a", "namespace": consumer.namespace}]);
    other.create(&cast.vm, "m1", json!({"networks": networks})).await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;

    let blocker = format!("still referenced by VirtualMachine/{}/m1", other.namespace);
    consumer.refused(&world, &cast.vpc, "a", &[&blocker]).await?;
    other.refused(&world, &cast.vpc, "b", &["still referenced by VirtualMachine/m1"]).await?;
    consumer.delete(&world, &cast.vpc, "b").await?;
    other.delete(&world, &cast.vpc, "a").await
}

pub(crate) async fn typed(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let edges = [(&cast.vpc, ".spec.refs[*].name"), (&cast.region, ".spec.refs[*].name")];
    let mut machines = rule("machines", &cast.vm, &edges);
    for (dependency, target) in [(0, &cast.vpc), (1, &cast.region)] {
        machines["spec"]["dependencies"][dependency]["kind"] = json!(target.kind);
        machines["spec"]["dependencies"][dependency]["fieldRef"]["kindPath"] = json!(".spec.refs[*].kind");
    }
    world.add_rule(&cast.compute, &machines).await?;
    let _depguard = Depguard::start(&world).await?;
    let consumer = &cast.consumer;
    let (a, b) = (format!("{}-a", world.id()), format!("{}-b", world.id()));
    for name in [&a, &b] {
        consumer.create_target(&cast.vpc, name).await?;
        consumer.create_target(&cast.region, name).await?;
    }
    consumer
        .create(&cast.vm, "m1", json!({"refs": [{"kind": "VPC", "name": a}, {"kind": "Region", "name": b}]}))
        .await?;
    consumer.until_protected(&world, &cast.vpc, &a).await?;

    consumer.refused(&world, &cast.vpc, &a, &["still referenced by VirtualMachine/m1"]).await?;
    consumer.refused(&world, &cast.region, &b, &["still referenced by VirtualMachine/"]).await?;
    consumer.delete(&world, &cast.vpc, &b).await?;
    consumer.delete(&world, &cast.region, &a).await?;
    consumer.delete(&world, &cast.vm, "m1").await?;
    consumer.delete(&world, &cast.region, &b).await
}

pub(crate) async fn several_in_a_string(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world, |spec| {
        spec["dependencies"][0]["kind"] = json!("VPC");
        let path = ".metadata.annotations['config.kubernetes.io/depends-on']";
        field_ref(
            spec,
            json!({
                "path": path, "split": ",", "pattern": "([^/]+)$", "namespacePattern": "/namespaces/([^/]+)/",
                "kindPattern": "([^/]+)/[^/]+$", "groupPattern": "^([^/]*)/",
            }),
        );
    })
    .await?;
    let consumer = &cast.consumer;
    let other = consumer.in_namespace(&world, "two").await?;
    for name in ["a", "b", "c"] {
        consumer.create_target(&cast.vpc, name).await?;
    }
    other.create_target(&cast.vpc, "a").await?;
    let (group, here) = (&cast.vpc.group, &consumer.namespace);
    let of = |group: &str, kind: &str, name: &str| format!("{group}/namespaces/{here}/{kind}/{name}");
    let depends_on = [of(group, "VPC", "a"), of("", "ConfigMap", "b"), of("other.example.com", "VPC", "c")].join(", ");
    let metadata = json!({"name": "m1", "annotations": {"config.kubernetes.io/depends-on": depends_on}});
    other.create_with(&cast.vm, metadata, json!({})).await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;

    let blocker = format!("still referenced by VirtualMachine/{}/m1", other.namespace);
    consumer.refused(&world, &cast.vpc, "a", &[&blocker]).await?;
    consumer.delete(&world, &cast.vpc, "b").await?;
    consumer.delete(&world, &cast.vpc, "c").await?;
    other.delete(&world, &cast.vpc, "a").await?;
    other.delete(&world, &cast.vm, "m1").await?;
    consumer.delete(&world, &cast.vpc, "a").await
}

pub(crate) async fn json_in_a_string(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world, |spec| {
        let each = ".spec.networks.fromJSON()[*]";
        field_ref(spec, json!({"path": format!("{each}.name"), "namespacePath": format!("{each}.namespace")}));
        spec["dependencies"][0]["onMissing"] = json!("Deny");
    })
    .await?;
    let consumer = &cast.consumer;
    let other = consumer.in_namespace(&world, "two").await?;
    for name in ["a", "b"] {
        consumer.create_target(&cast.vpc, name).await?;
        other.create_target(&cast.vpc, name).await?;
    }
    let holds = |networks: Value| json!({"networks": networks.to_string()});
    other.until_checked(&world, &cast.vm, holds(json!([{"name": "a"}, {"name": "c"}]))).await?;
    let networks = json!([{"name": "b"}, {"name": "a", "namespace": consumer.namespace}]);
    other.create(&cast.vm, "m1", holds(networks)).await?;
    other.create(&cast.vm, "m2", json!({"networks": "a, b"})).await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;

    if !world.is_control() {
        let broken = json!({"apiVersion": cast.vm.api_version(), "kind": cast.vm.kind, "metadata": {"name": "m3"},
            "spec": {"networks": "[{"}});
        let reply = other.api.post(&cast.vm.collection(&other.namespace), &broken).await?;
        let is_refused = reply.status >= 400 && reply.message().contains("begins like JSON and is none");
        ensure(is_refused, || format!("{} {}", reply.status, reply.message()))?;
    }
    let blocker = format!("still referenced by VirtualMachine/{}/m1", other.namespace);
    consumer.refused(&world, &cast.vpc, "a", &[&blocker]).await?;
    other.refused(&world, &cast.vpc, "b", &["still referenced by VirtualMachine/m1"]).await?;
    consumer.delete(&world, &cast.vpc, "b").await?;
    other.delete(&world, &cast.vpc, "a").await
}

pub(crate) async fn name_in_the_rule(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world, |spec| field_ref(spec, json!({"value": "default"}))).await?;
    let consumer = &cast.consumer;
    for name in ["default", "other"] {
        consumer.create_target(&cast.vpc, name).await?;
    }
    for number in 1..=30 {
        consumer.create(&cast.vm, &format!("m{number:02}"), json!({})).await?;
    }
    consumer.until_protected(&world, &cast.vpc, "default").await?;

    let blockers = ["cannot delete vpcs/default: still referenced by VirtualMachine/m01", "VirtualMachine/m20"];
    consumer.refused(&world, &cast.vpc, "default", &blockers).await?;
    consumer.delete(&world, &cast.vpc, "other").await?;
    for number in 1..=30 {
        consumer.delete(&world, &cast.vm, &format!("m{number:02}")).await?;
    }
    consumer.delete(&world, &cast.vpc, "default").await
}

pub(crate) async fn definition(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let name = format!("{}.{}", cast.vm.plural, cast.vm.group);
    let user = User::at(&world, &cast.compute.path, &cast.consumer.namespace)?;
    let printed = user.run(&["suggest", "--definitions", "--live"]).await;
    printed.is(ExitStatus::Well, &[&name])?;
    // Other definitions of the cluster belong to other worlds.
    let printed: Vec<Value> = serde_saphyr::from_multiple(&printed.out)?;
    let named = |name: &str| {
        let found = printed.iter().find(|object| object["metadata"]["name"] == name);
        found.ok_or_else(|| Stop::failed(format!("`suggest` printed no {name}")))
    };
    world.grant_reading(named(&format!("depguard-webhook-definition-{name}"))?).await?;
    world.add_rule(&cast.compute, named(&format!("definition-{name}"))?).await?;
    let _depguard = Depguard::start(&world).await?;
    cast.consumer.create(&cast.vm, "m1", json!({})).await?;

    let definition = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let api = &cast.compute.api;
    if world.is_control() {
        api.dry_run_delete(&definition).await?.ok()?;
        return Err(Stop::ControlSeen);
    }
    let message = format!(
        "cannot delete customresourcedefinitions/{name}: still referenced by VirtualMachine/{}/m1",
        cast.consumer.namespace
    );
    until_refused(&world, api, &definition, &message).await?;
    // The definition of another kind is free: nothing is listed for it.
    let other = format!("{}.{}", cast.vpc.plural, cast.vpc.group);
    api.dry_run_delete(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{other}")).await?.ok()?;
    cast.consumer.delete(&world, &cast.vm, "m1").await?;
    api.dry_run_delete(&definition).await?.ok().map(drop)
}

pub(crate) async fn selector(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world, |spec| {
        let dependency = &mut spec["dependencies"][0];
        dependency["selectorRef"] = json!({"path": ".spec.vpcSelector"});
        if let Some(dependency) = dependency.as_object_mut() {
            dependency.remove("fieldRef");
        }
        let mut shared = dependency.clone();
        shared["selectorRef"] = json!({"selector": {"matchLabels": {"tier": "shared"}}});
        if let Some(dependencies) = spec["dependencies"].as_array_mut() {
            dependencies.push(shared);
        }
    })
    .await?;
    let consumer = &cast.consumer;
    let labelled = |name: &str, tier: &str| json!({"name": name, "labels": {"tier": tier}});
    consumer.create_with(&cast.vpc, labelled("a", "prod"), json!({})).await?;
    consumer.create_with(&cast.vpc, labelled("b", "test"), json!({})).await?;
    consumer.create_with(&cast.vpc, labelled("c", "shared"), json!({})).await?;
    consumer.create(&cast.vm, "m1", json!({"vpcSelector": {"matchLabels": {"tier": "prod"}}})).await?;
    consumer.create(&cast.vm, "m2", json!({})).await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;

    consumer.refused(&world, &cast.vpc, "a", &["cannot delete vpcs/a: still referenced by VirtualMachine/m1"]).await?;
    consumer.delete(&world, &cast.vpc, "b").await?;
    // An object that the selector no longer matches is free.
    let relabel = json!({"metadata": {"labels": {"tier": "test"}}});
    consumer.api.merge(&consumer.object(&cast.vpc, "a"), &relabel).await?.ok()?;
    consumer.delete(&world, &cast.vpc, "a").await?;
    // Every dependent refers to an object that the rule's own selector matches.
    let everybody = "cannot delete vpcs/c: still referenced by VirtualMachine/m1, VirtualMachine/m2";
    consumer.refused(&world, &cast.vpc, "c", &[everybody]).await?;
    consumer.delete(&world, &cast.vm, "m1").await?;
    consumer.delete(&world, &cast.vm, "m2").await?;
    consumer.delete(&world, &cast.vpc, "c").await
}
