//! The ways in which one object refers to another.

use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::{Cast, Depguard, Outcome, World};
use serde_json::{Value, json};

/// The usual cast, a rule about machines that refer to VPCs as `change` wants it, depguard running.
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

pub(crate) async fn other_namespace(world: Arc<World>) -> Outcome {
    let paths = json!({"path": ".spec.networks[*].name", "namespacePath": ".spec.networks[*].namespace"});
    let (cast, _depguard) = guarded(&world, |spec| field_ref(spec, paths)).await?;
    let consumer = &cast.consumer;
    let other = consumer.in_namespace(&world, "two").await?;
    for name in ["a", "b"] {
        consumer.create_target(&cast.vpc, name).await?;
        other.create_target(&cast.vpc, name).await?;
    }
    // Its own `b`, and the other's `a`.
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
    // What is selected no longer is free.
    let relabel = json!({"metadata": {"labels": {"tier": "test"}}});
    consumer.api.merge(&consumer.object(&cast.vpc, "a"), &relabel).await?.ok()?;
    consumer.delete(&world, &cast.vpc, "a").await?;
    // What the rule itself selects, everybody refers to.
    let everybody = "cannot delete vpcs/c: still referenced by VirtualMachine/m1, VirtualMachine/m2";
    consumer.refused(&world, &cast.vpc, "c", &[everybody]).await?;
    consumer.delete(&world, &cast.vm, "m1").await?;
    consumer.delete(&world, &cast.vm, "m2").await?;
    consumer.delete(&world, &cast.vpc, "c").await
}
