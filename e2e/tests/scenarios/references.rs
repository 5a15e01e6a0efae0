//! References are checked when they are made, and API servers ask about nothing else.

use std::sync::Arc;

use depguard_e2e::rules::{REFERENCES_CONFIGURATION, rule};
use depguard_e2e::{
    Api, Cast, Consumer, Depguard, Outcome, Reply, Resource, Stop, World, ensure, eventually, metrics_page,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

/// Variable with the number of updates that change nothing that a rule reads.
const UPDATES: &str = "DEPGUARD_UNREAD_UPDATES";
const FEWER: usize = 200;
/// Number of updates at once.
const AT_ONCE: usize = 8;

/// Returns the rule that machines refer to VPCs, which must be there.
fn checked(cast: &Cast) -> Value {
    let mut rule = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    rule["spec"]["dependencies"][0]["onMissing"] = json!("Deny");
    rule
}

fn machine(kind: &Resource, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": name}, "spec": spec})
}

pub(crate) async fn refused(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let (consumer, vm) = (&cast.consumer, &cast.vm);
    world.add_rule(&cast.compute, &checked(&cast)).await?;
    let _depguard = Depguard::start(&world).await?;
    consumer.create_target(&cast.vpc, "a").await?;
    if world.is_control() {
        consumer.create_dependent(vm, "m1", "b").await?;
        return Err(Stop::ControlSeen);
    }
    let both = |said: &str| said.contains("depguard refuses to create or change") && said.contains("refuses deletions");
    world.condition_says(&cast.compute, "machines", "Enforced", "True", both).await?;
    consumer.until_checked(&world, vm, json!({"vpcRef": {"name": "nowhere"}})).await?;
    let is_refused = |reply: Reply, target: &str| match reply.status {
        403 if reply.message().contains(&format!("vpcs/{target} not found")) => Ok(()),
        _ => Err(reply.unexpected("403")),
    };
    let object = machine(vm, "m1", &json!({"vpcRef": {"name": "b"}}));
    let reply = consumer.api.post(&vm.collection(&consumer.namespace), &object).await?;
    let message = "cannot create virtualmachines/m1: vpcs/b not found (.spec.vpcRef.name)";
    ensure(reply.status == 403 && reply.message().contains(message), || format!("{reply:?}"))?;
    let cause = &reply.body["details"]["causes"][0];
    ensure(cause["reason"] == "RefNotFound" && cause["field"] == "spec.vpcRef.name", || reply.body.to_string())?;
    consumer.create_dependent(vm, "m1", "a").await?;
    let path = consumer.object(vm, "m1");
    is_refused(consumer.api.merge(&path, &json!({"spec": {"vpcRef": {"name": "c"}}})).await?, "c")?;
    consumer.create_target(&cast.vpc, "c").await?;
    consumer.api.merge(&path, &json!({"spec": {"vpcRef": {"name": "c"}}})).await?.ok()?;
    // The old target is free, and the new one is protected.
    consumer.delete(&world, &cast.vpc, "a").await?;
    consumer.refused(&world, &cast.vpc, "c", &["still referenced by VirtualMachine/m1"]).await?;

    // Somebody deletes the configuration, and somebody else narrows it.
    let place = &cast.compute.api;
    let derived = place.get(REFERENCES_CONFIGURATION).await?.ok()?["webhooks"].take();
    place.delete(REFERENCES_CONFIGURATION).await?.ok()?;
    until_derived(&world, place, &derived).await?;
    let never = json!([{"name": "never", "expression": "false"}]);
    let mut narrowed = derived.clone();
    narrowed[0]["matchConditions"] = never;
    place.merge(REFERENCES_CONFIGURATION, &json!({"webhooks": narrowed})).await?.ok()?;
    until_derived(&world, place, &derived).await?;
    consumer.until_checked(&world, vm, json!({"vpcRef": {"name": "nowhere"}})).await
}

async fn until_derived(world: &World, place: &Api, derived: &Value) -> Outcome {
    eventually("the configuration is as depguard derives it", world.patience(), async || {
        let reply = place.get(REFERENCES_CONFIGURATION).await?;
        if reply.body["webhooks"] == *derived { Ok(()) } else { Err(reply.unexpected("the derived webhooks")) }
    })
    .await
}

/// Machines whose references and conditions are all over the object, and a webhook that counts what it is asked.
struct Asked {
    consumer: Consumer,
    target: Resource,
    machine: Resource,
    depguard: Depguard,
}

/// Field whose name has everything that an expression could stumble over.
const ODD: &str = r#"it's "odd" \ a.b/c"#;

impl Asked {
    async fn create(world: &Arc<World>) -> Outcome<Self> {
        let network = world.network("providers:network").await?;
        let kinds = vec![Resource::namespaced("Machine").served_in(&["v1", "v1beta1"]).with_scale()];
        let compute = world.provider("providers:compute", "compute.example.com", kinds).await?;
        let (vpc, machine) = (network.kind("VPC")?, compute.kind("Machine")?);
        let odd = format!(".spec['{}'][*]", ODD.replace('\\', r"\\").replace('\'', r"\'"));
        let mut rule =
            rule("machines", &machine, &[(&vpc, ".spec.vpcRef.name"), (&vpc, ".status.vpcs[*]"), (&vpc, &odd)]);
        rule["spec"]["dependent"]["selector"] = json!({"matchLabels": {"tier": "prod"}});
        for dependency in rule["spec"]["dependencies"].as_array_mut().into_iter().flatten() {
            dependency["onMissing"] = json!("Warn");
            dependency["when"] = json!({"path": ".spec.state", "in": ["on"]});
        }
        let first = &mut rule["spec"]["dependencies"][0];
        first["onMissing"] = json!("Deny");
        first["kind"] = json!(vpc.kind);
        for (field, path) in [
            ("kindPath", ".spec.vpcRef.kind"),
            ("groupPath", ".spec.vpcRef.group"),
            ("namespacePath", ".spec.vpcRef.namespace"),
            ("uidPath", ".spec.vpcRef.uid"),
        ] {
            first["fieldRef"][field] = json!(path);
        }
        world.add_rule(&compute, &rule).await?;
        let consumer = world.consumer("consumer", &[&network, &compute]).await?;
        for name in ["a", "b"] {
            consumer.create_target(&vpc, name).await?;
        }
        let depguard = Depguard::start(world).await?;
        let asked = Self { consumer, target: vpc, machine, depguard };
        asked.until_asked(world).await?;
        Ok(asked)
    }

    /// Waits until a machine that refers to nothing would be refused.
    async fn until_asked(&self, world: &World) -> Outcome {
        let path = format!("{}?dryRun=All", self.machine.collection(&self.consumer.namespace));
        let mut object = machine(&self.machine, "dangling", &json!({"vpcRef": {"name": "nowhere"}, "state": "on"}));
        object["metadata"]["labels"] = json!({"tier": "prod"});
        eventually("references are checked", world.patience(), async || {
            let reply = self.consumer.api.post(&path, &object).await?;
            if reply.status == 403 { Ok(()) } else { Err(reply.unexpected("403")) }
        })
        .await
    }

    /// Returns the number of reviews of creations and updates that the webhook has answered.
    async fn reviews(&self) -> Outcome<u64> {
        let [webhook, _] = self.depguard.metrics();
        let page = metrics_page(webhook).await?;
        let counts = page.lines().filter(|line| {
            let is_change = |operation| line.contains(&format!("operation=\"{operation}\""));
            line.starts_with("depguard_reviews_total") && (is_change("CREATE") || is_change("UPDATE"))
        });
        Ok(counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum())
    }

    /// Checks that the work has this number of reviews asked for.
    async fn asks(&self, what: &str, expected: u64, work: impl Future<Output = Outcome>) -> Outcome {
        let before = self.reviews().await?;
        work.await?;
        let asked = self.reviews().await?.saturating_sub(before);
        ensure(asked == expected, || format!("{what}: {asked} reviews instead of {expected}"))
    }

    /// Waits until the API server's cache has the machine of this name as it is stored. An API server judges an update by
    /// its cache first, and asks about what has changed since.
    async fn until_cached(&self, world: &World, name: &str) -> Outcome {
        let path = self.consumer.object(&self.machine, name);
        let version = async |path: &str| {
            let machine = self.consumer.api.get(path).await?.ok()?;
            Outcome::Ok(machine["metadata"]["resourceVersion"].clone())
        };
        eventually("the cache has the machine", world.patience(), async || {
            let (stored, cached) = (version(&path).await?, version(&format!("{path}?resourceVersion=0")).await?);
            ensure(stored == cached, || format!("{stored} is stored, {cached} is cached"))
        })
        .await
    }

    /// Applies a merge patch to the machine of this name, below a subresource if one is named.
    async fn change(&self, name: &str, below: &str, patch: &Value) -> Outcome {
        let path = format!("{}{below}", self.consumer.object(&self.machine, name));
        self.consumer.api.merge(&path, patch).await?.ok().map(drop)
    }

    async fn make(&self, name: &str, metadata: Value, spec: Value) -> Outcome {
        let mut all = json!({"name": name, "labels": {"tier": "prod"}});
        all.as_object_mut().into_iter().for_each(|all| all.extend(metadata.as_object().cloned().unwrap_or_default()));
        self.consumer.create_with(&self.machine, all, spec).await
    }

    /// Changes much that no rule reads, so often.
    async fn unread(&self, updates: usize) -> Outcome {
        let all = stream::iter(0..updates).map(|number| async move {
            let name = format!("m{}", number % AT_ONCE);
            let (below, patch) = match number % 7 {
                0 => ("", json!({"spec": {"other": number}})),
                1 => ("", json!({"metadata": {"labels": {"other": format!("l{number}")}}})),
                2 => ("", json!({"metadata": {"annotations": {"example.com/note": format!("n{number}")}}})),
                3 => ("/status", json!({"status": {"phase": format!("p{number}"), "conditions": [number]}})),
                4 => ("", json!({"spec": {"vpcRef": {"comment": number}, "list": [number, null, {"a": []}]}})),
                5 => ("/scale", json!({"spec": {"replicas": number}})),
                _ => ("", json!({})),
            };
            self.change(&name, below, &patch).await
        });
        all.buffer_unordered(AT_ONCE).try_collect().await
    }
}

pub(crate) async fn asked_about(world: Arc<World>) -> Outcome {
    let asked = Asked::create(&world).await?;
    for number in 0..AT_ONCE {
        let name = format!("m{number}");
        let spec = json!({"vpcRef": {"name": "a"}, "state": "on"});
        asked.asks("a creation", 1, asked.make(&name, json!({}), spec)).await?;
    }
    let updates = std::env::var(UPDATES).ok().and_then(|number| number.parse().ok()).unwrap_or(FEWER);
    asked.asks("updates of what no rule reads", 0, asked.unread(updates)).await?;
    world.print(format_args!("{updates} updates that change nothing that a rule reads: 0 reviews"));

    let target = asked.consumer.api.get(&asked.consumer.object(&asked.target, "b")).await?.ok()?;
    let uid = &target["metadata"]["uid"];
    let changes = [
        ("", json!({"spec": {"vpcRef": {"name": "b"}}})),
        ("", json!({"spec": {"vpcRef": {"kind": "Other"}}})),
        ("", json!({"spec": {"vpcRef": {"kind": null}}})),
        ("", json!({"spec": {"vpcRef": {"group": "other.example.com"}}})),
        ("", json!({"spec": {"vpcRef": {"group": null}}})),
        ("", json!({"spec": {"vpcRef": {"uid": uid}}})),
        ("", json!({"spec": {"vpcRef": {"namespace": asked.consumer.namespace}}})),
        ("", json!({"spec": {"state": "off"}})),
        ("", json!({"spec": {"state": "on"}})),
        ("", json!({"metadata": {"labels": {"tier": "test"}}})),
        ("", json!({"metadata": {"labels": {"tier": "prod"}}})),
        ("/status", json!({"status": {"vpcs": ["a"]}})),
        ("/status", json!({"status": {"vpcs": ["a", "b"]}})),
        ("", json!({"spec": {ODD: ["a"]}})),
        ("", json!({"spec": {ODD: [{"not": "a name"}]}})),
        ("", json!({"spec": {ODD: null}})),
    ];
    for (below, patch) in &changes {
        asked.asks(&patch.to_string(), 1, asked.change("m0", below, patch)).await?;
        asked.until_cached(&world, "m0").await?;
        asked.asks(&format!("{patch} once more"), 0, asked.change("m0", below, patch)).await?;
    }
    world.print(format_args!("{} changes of what a rule reads: {} reviews", changes.len(), changes.len()));
    in_another_version(&world, &asked).await?;
    of_any_shape(&asked).await?;
    on_the_way_out(&world, &asked).await
}

/// Checks that changes in another version of the kind are asked about in the rule's version.
async fn in_another_version(world: &World, asked: &Asked) -> Outcome {
    let path = asked.consumer.object(&asked.machine.in_version(&["v1beta1"]), "m1");
    let change = async |patch: Value| asked.consumer.api.merge(&path, &patch).await;
    let read = async { change(json!({"spec": {"vpcRef": {"name": "b"}}})).await?.ok().map(drop) };
    asked.asks("a change in another version", 1, read).await?;
    asked.until_cached(world, "m1").await?;
    let unread = async { change(json!({"spec": {"other": "b"}})).await?.ok().map(drop) };
    asked.asks("a change of what no rule reads, in another version", 0, unread).await?;
    let reply = change(json!({"spec": {"vpcRef": {"name": "nowhere"}}})).await?;
    ensure(reply.status == 403, || format!("it is {}: {}", reply.status, reply.message()))
}

/// Checks that no shape of an object makes an expression fail: API servers would refuse the request.
async fn of_any_shape(asked: &Asked) -> Outcome {
    let shapes = [
        json!("text"),
        json!(1),
        json!(true),
        json!([]),
        json!([{"name": "a"}]),
        json!({}),
        json!({"name": null}),
        json!({"name": {"first": "a"}}),
        json!({"name": ["a"]}),
        Value::Null,
        json!({"other": "a"}),
    ];
    for (number, before) in shapes.iter().enumerate() {
        let name = format!("shape{number}");
        asked.make(&name, json!({}), json!({"vpcRef": before, "state": "off"})).await?;
        for after in &shapes {
            for shape in [after, before] {
                let path = asked.consumer.object(&asked.machine, &name);
                let mut object = asked.consumer.api.get(&path).await?.ok()?;
                object["spec"]["vpcRef"] = shape.clone();
                asked.consumer.api.put(&path, &object).await?.ok()?;
            }
        }
    }
    Ok(())
}

/// Checks that nothing is asked about an object that is being deleted.
async fn on_the_way_out(world: &World, asked: &Asked) -> Outcome {
    let spec = json!({"vpcRef": {"name": "a"}, "state": "on"});
    asked.make("leaving", json!({"finalizers": ["example.com/hold"]}), spec).await?;
    let path = asked.consumer.object(&asked.machine, "leaving");
    asked.consumer.api.delete(&path).await?.ok()?;
    asked.until_cached(world, "leaving").await?;
    let patch = json!({"spec": {"vpcRef": {"name": "nowhere"}}});
    asked.asks("a change of what is being deleted", 0, asked.change("leaving", "", &patch)).await?;
    asked.asks("the end of a finalizer", 0, asked.consumer.release(&asked.machine, "leaving")).await?;
    asked.consumer.gone(world, &path).await
}
