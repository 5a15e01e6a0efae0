//! Floods of the controller: what it counts, and what it watches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use depguard_e2e::rules::{RULES, rule};
use depguard_e2e::{Cast, Depguard, Ring, RingKind, World, ensure, eventually, owners};
use depguard_kcp::Feature;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use serde_json::{Value, json};

use crate::Result;
use crate::process::{LIMIT, Process};
use crate::table::{Honest, Table};

const OURS: &str = "/apis/dependencies.opendefense.cloud/v1alpha1";
/// Time within which a new rule must have its status.
const PATIENCE: Duration = Duration::from_secs(20);

/// A plain cluster whose rule has its references counted.
struct Scene {
    world: Arc<World>,
    files: Depguard,
    cast: Cast,
}

type Flood = fn(Arc<Scene>) -> BoxFuture<'static, depguard_e2e::Outcome>;

/// Plays all floods one after the other: what one has stored stays, so that the last one is all at once. Then a
/// controller starts anew with all of that.
pub(crate) async fn play(table: &mut Table) -> Result {
    let scene = Arc::new(Scene::set_up().await.map_err(|why| why.to_string())?);
    let floods: [(&str, Flood); 6] = [
        ("rules of 250 KB", |scene| scene.store(60, RULES.to_owned(), large_rule).map(Ok).boxed()),
        ("locks of 250 KB", |scene| scene.store(100, format!("{OURS}/clusterobjectlocks"), large_lock).map(Ok).boxed()),
        ("groups of 250 KB", |scene| scene.store(60, format!("{OURS}/globalowners"), large_owner).map(Ok).boxed()),
        ("2,000 counted objects of 100 KB", |scene| scene.count(2_000, |_| json!("x".repeat(100_000))).boxed()),
        ("31 counted objects of 1.3 MB, each with 9,900 references", |scene| scene.count(31, references).boxed()),
        ("a counted object of 1.42 MB", |scene| scene.count(1, |_| json!(vec![json!({"": 0}); 177_000])).boxed()),
    ];
    let (mut process, mut idle) = scene.start().await?;
    for (name, flood) in floods {
        if table.plays(name) {
            let both = beside(&scene, flood, name);
            if table.row(name, &mut process, idle, both).await.is_err() {
                (process, idle) = scene.start().await?;
            }
        }
    }
    let (mut process, idle) = scene.start().await?;
    let both = beside(&scene, |_| async { Ok(()) }.boxed(), "a start with all of that");
    // The row says if the process has died.
    let _ = table.row("a start with all of that", &mut process, idle, both).await;
    Ok(())
}

/// Plays a flood, and has new rules get their status during and after it.
async fn beside(scene: &Arc<Scene>, flood: Flood, name: &str) -> Honest {
    let flood = tokio::spawn(flood(Arc::clone(scene)));
    let mut honest = Honest::default();
    let mut number = 0;
    while number < 3 || !flood.is_finished() {
        number += 1;
        let rule = format!("honest-{}-{number}", name.len());
        match scene.gets_its_status(&rule).await {
            Ok(()) => honest.right += 1,
            Err(why) => honest.wrong.push(why.to_string()),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    // A flood that was not stored shows nothing.
    match flood.await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => honest.wrong.push(why.to_string()),
        Err(why) => honest.wrong.push(why.to_string()),
    }
    honest
}

impl Scene {
    async fn set_up() -> depguard_e2e::Outcome<Self> {
        let ring = Arc::new(Ring::testbed(RingKind::TestbedKubernetes).await?);
        let world = Arc::new(World::enabling(ring, "floods", &[Feature::Locks, Feature::Owners]).await?);
        let cast = world.cast().await?;
        world.grant_counting(&[&cast.vm, &cast.vpc]).await?;
        let edges = [(&cast.vpc, ".spec.vpcRef.name"), (&cast.vpc, ".spec.refs[*].name")];
        let mut machines = rule("machines", &cast.vm, &edges);
        for dependency in machines["spec"]["dependencies"].as_array_mut().into_iter().flatten() {
            dependency["onMissing"] = json!("Warn");
        }
        // No webhook runs here.
        machines["spec"]["failurePolicy"] = json!("Ignore");
        world.add_rule(&cast.compute, &machines).await?;
        let files = Depguard::prepare(&world).await?;
        Ok(Self { world, files, cast })
    }

    /// Starts the controller, and waits until it works. Returns also the memory that it has then.
    async fn start(&self) -> Result<(Process, u64)> {
        let flags = [
            "--control-plane=kubernetes".to_owned(),
            "--enable=locks,owners".to_owned(),
            "--metrics-bind-address=0".to_owned(),
            "--health-probe-bind-address=0".to_owned(),
            format!("--webhook-url={}", self.files.url()),
            format!("--kubeconfig={}", self.files.file("controller.kubeconfig").display()),
        ];
        let process = Process::start("controller", &flags, &self.files.file("controller.log"), LIMIT)?;
        // Where it dies at once, the row says so.
        let _ = self.gets_its_status("first").await;
        if let Err(why) = self.world.condition(&self.cast.compute, "machines", "TargetsExist", "True").await {
            println!("no count: {why}");
        }
        let idle = process.usage().memory().unwrap_or_default();
        Ok((process, idle))
    }

    /// Writes a rule, waits until the controller has said something of it, and deletes it.
    async fn gets_its_status(&self, name: &str) -> depguard_e2e::Outcome {
        let honest = rule(name, &self.cast.vm, &[(&self.cast.vpc, ".spec.vpcRef.name")]);
        self.world.add_rule(&self.cast.compute, &honest).await?;
        let begun = Instant::now();
        let told = eventually("the rule has a status", PATIENCE, async || {
            let rule = self.cast.compute.api.get(&format!("{RULES}/{name}")).await?.ok()?;
            ensure(rule["status"]["conditions"].is_array(), || format!("no status after {:?}", begun.elapsed()))
        });
        let told = told.await;
        self.world.remove_rule(&self.cast.compute, name).await?;
        told
    }

    async fn store(self: Arc<Self>, number: usize, path: String, make: fn(&Self, usize) -> Value) {
        for n in 0..number {
            // What the API server refuses is no flood.
            let _ = self.cast.compute.api.post(&path, &make(&self, n)).await;
        }
    }

    /// Creates counted objects, eight at once.
    async fn count(self: Arc<Self>, number: usize, make: fn(usize) -> Value) -> depguard_e2e::Outcome {
        let some = (0..8).map(|of| {
            let scene = Arc::clone(&self);
            tokio::spawn(async move {
                for n in (of..number).step_by(8) {
                    let spec = json!({"vpcRef": {"name": "ghost"}, "refs": make(n)});
                    let name = format!("flood-{number}-{n}");
                    scene.cast.consumer.create(&scene.cast.vm, &name, spec).await?;
                }
                Ok::<_, depguard_e2e::Stop>(())
            })
        });
        for created in join_all(some).await {
            created.map_err(|why| depguard_e2e::Stop::Failed(why.to_string()))??;
        }
        Ok(())
    }
}

fn annotated(kind: &str, number: usize, spec: &Value) -> Value {
    let metadata = json!({"name": format!("flood-{number}"), "annotations": {"example.com/note": "x".repeat(250_000)}});
    json!({"apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
}

fn large_rule(scene: &Scene, number: usize) -> Value {
    let rule = rule("", &scene.cast.vm, &[(&scene.cast.vpc, ".spec.other")]);
    annotated("DependencyRule", number, &rule["spec"])
}

fn large_lock(scene: &Scene, number: usize) -> Value {
    let target = json!({"group": scene.cast.region.group, "resource": scene.cast.region.plural, "name": "a"});
    annotated("ClusterObjectLock", number, &json!({"targets": [target]}))
}

fn large_owner(scene: &Scene, number: usize) -> Value {
    let children = [owners::group(&scene.cast.vm)];
    annotated(
        "GlobalOwner",
        number,
        &json!({"selector": {"matchLabels": {"adopt": "flood"}}, "childResources": children}),
    )
}

fn references(number: usize) -> Value {
    json!((0..9_900).map(|n| json!({"name": format!("{number:0>60}-{n:0>60}")})).collect::<Vec<_>>())
}
