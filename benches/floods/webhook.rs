//! Floods of the webhook: what is posted to its port, and what it reads and watches.

mod reviews;

use std::sync::Arc;
use std::time::{Duration, Instant};

use depguard_e2e::rules::{RULES, rule};
use depguard_e2e::{Consumer, Depguard, Ring, RingKind, World};
use depguard_kcp::Feature;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::time::{sleep, timeout};

use self::reviews::Reviews;
use crate::Result;
use crate::client::Client;
use crate::process::{LIMIT, Process};
use crate::table::{Honest, Table};

/// Maximum length of a review.
const MAX_REVIEW: usize = (3 << 20) + (64 << 10);
/// Time within which a started webhook must decide.
const PATIENCE: Duration = Duration::from_secs(60);
const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";
const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";

/// Texts that are posted, each made once.
struct Texts {
    update: Vec<String>,
    probe: Vec<String>,
    names: Vec<String>,
    metadata: Vec<String>,
    lock: Vec<String>,
    deletion: Vec<String>,
    creation: Vec<String>,
}

/// A kcp with an honest consumer, a tenant with large objects, and a provider that nobody has bound.
struct Scene {
    world: Arc<World>,
    files: Depguard,
    client: Client,
    /// Reviews of the honest consumer's objects.
    honest: Reviews,
    texts: Texts,
    evil: String,
    rules: usize,
}

/// Flood of a scene, until its end.
type Flood = fn(Arc<Scene>, Instant) -> BoxFuture<'static, ()>;

/// Plays all floods, and then all at once.
pub(crate) async fn play(table: &mut Table) -> Result {
    let scene = Arc::new(Scene::set_up().await.map_err(|why| why.to_string())?);
    let floods: [(&str, Flood); 10] = [
        ("an update with 10,050 references, 2.8 MB", |scene, end| scene.post(1, "/reference", |all| &all.update, end)),
        ("six of them at once", |scene, end| scene.post(6, "/reference", |all| &all.update, end)),
        ("forged probes of 3 MiB, one name", |scene, end| scene.post(6, "/validate", |all| &all.probe, end)),
        ("forged probes of 10,000 names", |scene, end| scene.post(6, "/validate", |all| &all.names, end)),
        ("85 slow bodies of 3 MiB", |scene, end| scene.stall(85, end).boxed()),
        ("metadata of 3 MiB, of small parts", |scene, end| scene.post(12, "/reference", |all| &all.metadata, end)),
        ("locks of 3 MiB", |scene, end| scene.post(6, "/lock", |all| &all.lock, end)),
        ("lists of 60 objects of 1 MB", |scene, end| scene.post(16, "/validate", |all| &all.deletion, end)),
        ("answers of 1 MB", |scene, end| scene.post(16, "/reference", |all| &all.creation, end)),
        ("rules, bindings and exports", |scene, end| scene.write(end).boxed()),
    ];
    let mut process = scene.start().await?;
    let mut idle = process.usage().memory()?;
    let mut played = Vec::new();
    for (name, flood) in floods {
        if !table.plays(name) {
            continue;
        }
        let end = Instant::now() + table.time;
        let both = beside(&scene, vec![flood], end);
        if table.row(name, &mut process, idle, both).await.is_err() {
            process = scene.start().await?;
            idle = process.usage().memory()?;
        }
        played.push(flood);
    }
    let end = Instant::now() + table.time;
    let both = beside(&scene, played, end);
    // The row says if the process has died.
    let _ = table.row("all at once", &mut process, idle, both).await;
    Ok(())
}

/// Plays floods, and asks honest questions meanwhile, each in tasks of its own.
async fn beside(scene: &Arc<Scene>, floods: Vec<Flood>, end: Instant) -> Honest {
    let floods: Vec<_> = floods.into_iter().map(|flood| tokio::spawn(flood(Arc::clone(scene), end))).collect();
    let askers: Vec<_> = (0..4).map(|_| tokio::spawn(Arc::clone(scene).ask(end))).collect();
    let mut all = Honest::default();
    for asker in askers {
        let Honest { right, wrong } = asker.await.unwrap_or_default();
        all.right += right;
        all.wrong.extend(wrong);
    }
    join_all(floods).await;
    all
}

impl Scene {
    async fn set_up() -> depguard_e2e::Outcome<Self> {
        let ring = Arc::new(Ring::testbed(RingKind::TestbedKcp).await?);
        let world = Arc::new(World::enabling(ring, "floods", &[Feature::Locks]).await?);
        let cast = world.cast().await?;
        let mut machines =
            rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name"), (&cast.vpc, ".spec.refs[*].name")]);
        for dependency in machines["spec"]["dependencies"].as_array_mut().into_iter().flatten() {
            dependency["onMissing"] = json!("Deny");
        }
        world.add_rule(&cast.compute, &machines).await?;
        let evil = world.provider("evil", "evil.example.com", Vec::new()).await?;
        world.bind_depguard(&evil).await?;
        let large = world.consumer("large", &[&cast.network, &cast.compute]).await?;
        for consumer in [&cast.consumer, &large] {
            for name in ["free", "used"] {
                consumer.create_target(&cast.vpc, name).await?;
            }
            consumer.create(&cast.vm, "m1", json!({"vpcRef": {"name": "used"}})).await?;
        }
        let text = "x".repeat(1_000_000);
        large.create(&cast.vpc, "big", json!({"text": text})).await?;
        for n in 0..60 {
            large.create(&cast.vm, &format!("large-{n}"), json!({"vpcRef": {"name": "used"}, "text": text})).await?;
        }
        let cluster = async |consumer: &Consumer| {
            let vpc = consumer.api.get(&consumer.object(&cast.vpc, "free")).await?.ok()?;
            let cluster = vpc["metadata"]["annotations"]["kcp.io/cluster"].as_str().unwrap_or_default().to_owned();
            depguard_e2e::Outcome::Ok(Reviews { cluster, namespace: consumer.namespace.clone() })
        };
        let (honest, large) = (cluster(&cast.consumer).await?, cluster(&large).await?);
        let texts = Texts {
            update: vec![large.update()],
            probe: vec![reviews::probe(1)],
            names: vec![reviews::probe(10_000)],
            metadata: large.metadata(),
            lock: vec![large.lock()],
            deletion: vec![large.deletion("free")],
            creation: vec![large.creation("big")],
        };
        let files = Depguard::prepare(&world).await?;
        let client = Client::new(files.port(), &files.file("ca.crt"))
            .map_err(|why| depguard_e2e::Stop::failed(why.to_string()))?;
        Ok(Self { world, files, client, honest, texts, evil: evil.path, rules: 400 })
    }

    /// Starts the webhook, and waits until it decides.
    async fn start(&self) -> Result<Process> {
        let path = |name: &str| self.files.file(name).display().to_string();
        let flags = [
            "--control-plane=kcp".to_owned(),
            "--enable=locks".to_owned(),
            "--metrics-bind-address=0".to_owned(),
            "--health-probe-bind-address=0".to_owned(),
            format!("--webhook-port={}", self.files.port()),
            format!("--tls-cert-dir={}", path(".")),
            format!("--kubeconfig={}", path("webhook.kubeconfig")),
        ];
        let mut process = Process::start("webhook", &flags, &self.files.file("webhook.log"), LIMIT)?;
        let begun = Instant::now();
        while !self.all_right().await.wrong.is_empty() {
            process.lives()?;
            if begun.elapsed() > PATIENCE {
                return Err(format!("the webhook decides nothing: {:?}", self.all_right().await.wrong).into());
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(process)
    }

    /// Has each honest request answered once.
    async fn all_right(&self) -> Honest {
        let mut honest = Honest::default();
        for (path, review, answer) in self.honest.all() {
            match self.client.post(path, &review).await {
                Ok(response) if response.to_string().contains(answer) => honest.right += 1,
                Ok(response) => honest.wrong.push(format!("{path}: {response}")),
                Err(why) => honest.wrong.push(format!("{path}: {why}")),
            }
        }
        honest
    }

    /// Asks honest questions until `end`.
    async fn ask(self: Arc<Self>, end: Instant) -> Honest {
        let mut all = Honest::default();
        while Instant::now() < end {
            let Honest { right, wrong } = self.all_right().await;
            all.right += right;
            all.wrong.extend(wrong);
        }
        all
    }

    /// Posts the same review again and again, so many at once.
    fn post(
        self: Arc<Self>,
        at_once: usize,
        path: &'static str,
        of: fn(&Texts) -> &Vec<String>,
        end: Instant,
    ) -> BoxFuture<'static, ()> {
        repeat(at_once, end, move |n| {
            let scene = Arc::clone(&self);
            async move {
                let reviews = of(&scene.texts);
                let _ = scene.client.post(path, &reviews[n % reviews.len()]).await;
            }
        })
        .boxed()
    }

    /// Holds so many bodies of which the last byte is missing, each until the webhook ends it.
    async fn stall(self: Arc<Self>, at_once: usize, end: Instant) {
        let beginning = Arc::new(vec![b' '; MAX_REVIEW - 1]);
        repeat(at_once, end, move |_| {
            let (client, beginning) = (self.client.clone(), Arc::clone(&beginning));
            async move {
                let Ok(mut held) = client.begin("/validate", &beginning, MAX_REVIEW).await else { return };
                let left = end.saturating_duration_since(Instant::now());
                let _ = timeout(left, held.read_to_end(&mut Vec::new())).await;
            }
        })
        .await;
    }

    /// Writes rules, bindings and exports in the workspace of the provider that nobody has bound, up to the allowance.
    async fn write(self: Arc<Self>, end: Instant) {
        let api = self.world.admin(&self.evil);
        let note = json!({"example.com/note": "x".repeat(250_000)});
        let own = json!({"path": self.world.own_path(), "name": "dependencies.opendefense.cloud"});
        let binding = json!({"reference": {"export": own}});
        for n in 0..self.rules {
            if Instant::now() > end {
                return;
            }
            let metadata = json!({"name": format!("flood-{n}"), "annotations": note});
            let kind = |kind: &str, version: &str, spec: Value| json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
            let patterns = reviews::patterns(n);
            // What is refused is no flood; what counts is what is stored.
            let _ = api.post(RULES, &kind("DependencyRule", "dependencies.opendefense.cloud/v1alpha1", patterns)).await;
            let _ = api.post(EXPORTS, &kind("APIExport", "apis.kcp.io/v1alpha2", json!({}))).await;
            let _ = api.post(BINDINGS, &kind("APIBinding", "apis.kcp.io/v1alpha2", binding.clone())).await;
        }
    }
}

/// Does something again and again, so many at once, each in a task of its own.
async fn repeat<F>(at_once: usize, end: Instant, make: impl Fn(usize) -> F + Clone + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let tasks = (0..at_once).map(|n| {
        let make = make.clone();
        tokio::spawn(async move {
            while Instant::now() < end {
                make(n).await;
            }
        })
    });
    join_all(tasks).await;
}
