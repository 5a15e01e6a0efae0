//! The stock webhook while one workspace floods what all share: it stays within the memory that the chart gives it, and
//! goes on deciding rightly for everybody else.
//!
//! `DEPGUARD_FLOOD=5` floods with five times as many rules, APIs and locks, up to the default allowance and beyond. The
//! figures are printed. Where only this package is tested, `--features bin` has the binary built; without it an older one may be
//! measured.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use depguard_core::ControlPlane;
use depguard_kcp::Endpoint;
use depguard_testbed::{Place, Testbed, lasting_port};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::locks::{LOCKS, bind_locks, change, guard, mk_lock, set_up};
use crate::scene::{Scene, VPCS, delete_dry, probe};

/// Memory limit of the chart, in MiB.
const MAX_MEMORY: u64 = 256;

/// Maximum number of rules of a workspace, a fifth of the default.
const ALLOWED: usize = 400;

/// Number of locks, made in three batches; each batch comes with as many rounds of reviews as it has locks.
const LOCKS_MADE: usize = 60;

/// Stock binary in a process of its own.
struct Stock {
    child: Child,
    review: SocketAddr,
    metrics: SocketAddr,
}

impl Drop for Stock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Stock {
    async fn start(scene: &Scene, options: &[&str]) -> Self {
        let free = || SocketAddr::from((Ipv4Addr::LOCALHOST, lasting_port(Ipv4Addr::LOCALHOST).unwrap()));
        let (review, metrics) = (free(), free());
        let child = Command::new(env!("CARGO_BIN_EXE_depguard-webhook"))
            .args(["--webhook-port", &review.port().to_string(), "--health-probe-bind-address=0"])
            .args(["--metrics-bind-address", &metrics.to_string(), "--shutdown-delay=0"])
            .args(options)
            .arg("--kubeconfig")
            .arg(scene.config.kubeconfig.as_ref().unwrap())
            .arg("--tls-cert-dir")
            .arg(&scene.config.tls_cert_dir)
            .env_remove("RUST_LOG")
            .stderr(File::create(scene.write("log", "")).unwrap())
            .spawn()
            .unwrap();
        let stock = Self { child, review, metrics };
        let connects = async || tokio::net::TcpStream::connect(metrics).await.is_ok();
        until("the webhook answers", connects).await;
        stock
    }

    /// Returns the number of usable rules, and of broken ones, by which the webhook decides.
    async fn rules(&self) -> [usize; 2] {
        let (_, text) = probe(self.metrics, "/metrics").await;
        ["usable", "broken"].map(|state| {
            let line = format!("depguard_rules{{state=\"{state}\"}} ");
            let found = text.lines().find_map(|found| found.strip_prefix(&line));
            found.map_or(0, |number| number.parse::<f64>().unwrap() as usize)
        })
    }

    /// Returns the maximum memory that the process has taken, in MiB.
    fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(Path::new("/proc").join(self.child.id().to_string()).join("status"));
        let status = status.unwrap();
        let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim();
        kib.trim_end_matches("kB").trim().parse::<u64>().unwrap() >> 10
    }
}

/// Flood: its name, its workspace and its objects, and the numbers of usable and broken rules from then on.
struct Flood {
    name: &'static str,
    workspace: &'static str,
    place: [&'static str; 3],
    objects: Vec<Value>,
    rules: [usize; 2],
}

const RULES: [&str; 3] = ["dependencies.opendefense.cloud", "v1alpha1", "dependencyrules"];

fn annotated(number: usize) -> Value {
    json!({"name": format!("flood-{number}"), "annotations": {"example.com/note": "x".repeat(250_000)}})
}

fn mk_rule(metadata: &Value, dependencies: &[Value]) -> Value {
    json!({
        "metadata": metadata,
        "spec": {
            "dependent": {
                "apiExportName": "evil.example.com", "group": "evil.example.com", "version": "v1", "kind": "Evil",
                "resource": "evils",
            },
            "dependencies": dependencies,
        },
    })
}

fn mk_dependency(field: &Value) -> Value {
    json!({
        "apiExportRef": {"path": "root:network", "name": "network.example.com"},
        "group": "network.example.com", "version": "v1", "resource": "vpcs", "fieldRef": field,
    })
}

/// Returns the floods in their order. Only the last one exceeds a workspace's allowance, which also makes the
/// workspace's former rules invalid.
fn floods(times: usize) -> [Flood; 6] {
    let plain = || mk_dependency(&json!({"path": ".spec.vpc"}));
    let patterns = |number: usize| {
        let dependencies = (0..300).map(|n| {
            let pattern = format!(r"^{number}-{n}/\w{{100}}[^/]{{20}}");
            mk_dependency(&json!({"path": ".spec.vpc", "pattern": pattern, "namespacePattern": pattern}))
        });
        mk_rule(&json!({"name": format!("patterns-{number}")}), &dependencies.collect::<Vec<_>>())
    };
    let named = |number: usize| json!({"name": format!("rule-{number}")});
    let (annotations, expressions, many) = (20 * times, 4 * times, ALLOWED * times);
    let most = many - 20;
    let apis = |resource| ["apis.kcp.io", "v1alpha2", resource];
    let flood = |name, place, objects, rules| Flood { name, workspace: "evil", place, objects, rules };
    [
        flood(
            "rules with 250 KB of annotations",
            RULES,
            (0..annotations).map(|number| mk_rule(&annotated(number), &[plain()])).collect(),
            [1 + annotations, 0],
        ),
        flood(
            "rules with 600 patterns",
            RULES,
            (0..expressions).map(patterns).collect(),
            [1 + annotations, expressions],
        ),
        flood(
            "APIExports with 250 KB of annotations",
            apis("apiexports"),
            (0..annotations).map(|number| json!({"metadata": annotated(number), "spec": {}})).collect(),
            [1 + annotations, expressions],
        ),
        flood(
            "APIBindings with 250 KB of annotations",
            apis("apibindings"),
            (0..annotations)
                .map(|number| {
                    let export = json!({"path": "root:dep-ctrl", "name": "dependencies.opendefense.cloud"});
                    let status = json!({"phase": "Binding", "boundResources": []});
                    json!({"metadata": annotated(number), "spec": {"reference": {"export": export}}, "status": status})
                })
                .collect(),
            [1 + annotations, expressions],
        ),
        Flood {
            name: "rules up to the allowance, of another workspace",
            workspace: "greedy",
            place: RULES,
            objects: (0..most).map(|number| mk_rule(&named(number), &[plain(), plain(), plain(), plain()])).collect(),
            rules: [1 + annotations + most, expressions],
        },
        flood(
            "more rules than allowed",
            RULES,
            (0..many).map(|number| mk_rule(&named(number), &[plain()])).collect(),
            [1 + most, annotations + expressions + many],
        ),
    ]
}

/// Asks again until it is so, as long as that may take on a busy machine.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(120), "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn fill(testbed: &Testbed, workspace: &str, [group, version, resource]: [&'static str; 3], objects: Vec<Value>) {
    let workspace = format!("root:{workspace}");
    testbed.fill(&Place::new(group, version, resource).workspace(&workspace), objects).unwrap();
}

/// Returns true if a VPC with a reference is refused, and one without is not.
async fn decides_rightly(scene: &Scene) -> bool {
    let used = scene.delete_dry("a").await;
    used.is_some_and(|why| why.contains("VirtualMachine/m1")) && scene.delete_dry("b").await.is_none()
}

/// Returns the factor by which the floods are larger than by default.
fn times() -> usize {
    std::env::var("DEPGUARD_FLOOD").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_workspace_neither_fills_the_memory_nor_stops_the_others() {
    let times = times();
    let allowance = ["--workspace-max-objects", &(ALLOWED * times).to_string()];
    let scene = Scene::set_up(ControlPlane::Kcp).await;
    scene.write_rule(".spec.vpcRef.name").await;
    scene.create_vm("m1", "a").await;
    let stock = Stock::start(&scene, &allowance).await;
    scene.configure(stock.review).await;
    scene.claim_exports().await;
    for workspace in ["evil", "greedy"] {
        scene.add_workspace(workspace).await;
    }
    until("it decides", async || decides_rightly(&scene).await).await;
    println!("{} MiB before", stock.peak());
    let mut last = [1, 0];
    for Flood { name, workspace, place, objects, rules } in floods(times) {
        fill(scene.testbed(), workspace, place, objects);
        until(name, async || stock.rules().await == rules && decides_rightly(&scene).await).await;
        println!("{} MiB at most with {name}", stock.peak());
        assert!(stock.peak() < MAX_MEMORY, "{name}: {} MiB", stock.peak());
        last = rules;
    }
    // Later changes by another workspace count as ever.
    scene.write_rule(".spec.other").await;
    until("another's rule is taken up", async || scene.delete_dry("a").await.is_none()).await;
    scene.write_rule(".spec.vpcRef.name").await;
    until("another's rule is taken up", async || scene.delete_dry("a").await.is_some()).await;

    let fresh = Stock::start(&scene, &allowance).await;
    scene.configure(fresh.review).await;
    until("it decides", async || fresh.rules().await == last && decides_rightly(&scene).await).await;
    println!("{} MiB at most where it is started with all of that", fresh.peak());
    assert!(fresh.peak() < MAX_MEMORY, "{} MiB", fresh.peak());
}

/// Returns true if the locked VPC `a` can't be changed, and the VPC `b` can.
async fn locks_rightly(tenant: &Endpoint) -> bool {
    let locked = change(tenant, "a").await;
    locked.is_some_and(|why| why.contains("Object is locked")) && change(tenant, "b").await.is_none()
}

/// Has a change of the locked VPC reviewed, and deletions of both. What is decided is of no account.
async fn have_reviewed(tenant: &Endpoint) {
    tokio::join!(change(tenant, "a"), delete_dry(tenant, "a"), delete_dry(tenant, "b"));
}

/// All locks are of one object, and against changes only: a deletion of the object has to read each of them.
#[tokio::test(flavor = "multi_thread")]
async fn the_locks_of_one_workspace_neither_fill_the_memory_nor_stop_the_others() {
    let (scene, own) = set_up(ControlPlane::Kcp).await;
    let flooded = &scene.tenant;
    let other = scene.add_tenant("other").await;
    bind_locks(&other).await;
    let vpc = json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "metadata": {"name": "b"}});
    other.post_json(VPCS, &vpc).await.unwrap();
    let key = scene.config.path_key.as_ref().unwrap();
    let stock = Stock::start(&scene, &["--enable", "locks", "--path-key-file", key.to_str().unwrap()]).await;
    guard(&scene, &own, stock.review).await;
    let stored = async |tenant: &Endpoint, lock: &Value| {
        let path = format!("{LOCKS}/{}", lock["metadata"]["name"].as_str().unwrap());
        let is_stored = async || tenant.post_json(LOCKS, lock).await.is_ok() || tenant.get_json(&path).await.is_ok();
        until("a lock is stored", is_stored).await;
    };
    stored(&other, &mk_lock(&json!({"name": "one"}), "a")).await;
    until("it decides", async || locks_rightly(&other).await).await;
    println!("{} MiB before", stock.peak());

    let locks: Vec<_> = (0..LOCKS_MADE * times())
        .map(|number| {
            let mut lock = mk_lock(&annotated(number), "a");
            lock["spec"]["operations"] = json!(["Update"]);
            lock
        })
        .collect();
    let batch = locks.len() / 3;
    for some in locks.chunks(batch) {
        let made = join_all(some.iter().map(|lock| stored(flooded, lock)));
        let reviewed = join_all((0..batch).map(|_| have_reviewed(flooded)));
        tokio::join!(made, reviewed, until("the others' are decided", async || locks_rightly(&other).await));
    }
    let made = stock.peak();
    println!("{made} MiB at most while {} locks of 250 KB were made", locks.len());
    assert!(made < MAX_MEMORY, "{made} MiB");
    for tenant in [flooded, &other] {
        until("it decides", async || locks_rightly(tenant).await).await;
    }
    join_all((0..batch).map(|_| have_reviewed(flooded))).await;
    until("the others' are decided", async || locks_rightly(&other).await).await;
    until("all locks are read, and none forbids", async || delete_dry(flooded, "a").await.is_none()).await;
    let read = stock.peak();
    println!("{read} MiB at most with reviews of the object that all of them name");
    assert!(read < MAX_MEMORY, "{read} MiB");
}
