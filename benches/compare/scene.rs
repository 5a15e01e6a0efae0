//! Scene of a comparison: a consumer with its objects, the two webhooks as fresh processes, and the client that
//! deletes.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use depguard_core::LogicalCluster;
use depguard_e2e::Authority;
use depguard_kcp::{Connection, Endpoint};
use depguard_testbed::lasting_port;
use futures::stream::{StreamExt, TryStreamExt};
use serde_json::Value;
use tempfile::TempDir;

use crate::Result;
use crate::child::Child;
use crate::client::{Client, Deleted, Line};
use crate::drain::{Drained, drain};
use crate::objects::{BUSY, Kind, Template, free, name_of, target};
use crate::server::{Fill, Lists, Server};
use crate::setup::{self, DEP_CTRL, Hooks, eventually};
use crate::usage::Usage;

/// Subject of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// Bare list, drained and thrown away.
    Floor,
    /// Stand-in, which lists and decodes all.
    StandIn,
    /// depguard with a reference that is not selectable.
    Lists,
    /// depguard with a selectable reference.
    Selects,
    /// depguard with a reference that is not selectable, but a column that the server prints.
    Prints,
    /// depguard with a kind that no rule names: the cost of a DELETE without lookups.
    Unnamed,
}

impl Subject {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Subject::Floor => "bare LIST",
            Subject::StandIn => "stand-in",
            Subject::Lists => "depguard",
            Subject::Selects => "depguard, push-down",
            Subject::Prints => "depguard, table",
            Subject::Unnamed => "depguard, no rule",
        }
    }

    fn target(self) -> Kind {
        match self {
            Subject::StandIn => Kind::Old,
            Subject::Floor | Subject::Lists => Kind::Vpc,
            Subject::Selects => Kind::Net,
            Subject::Prints => Kind::Zone,
            Subject::Unnamed => Kind::Server,
        }
    }

    /// Returns the subjects that answer DELETEs on a scene.
    pub(crate) fn answering(amounts: &Amounts) -> impl Iterator<Item = Subject> + use<> {
        let all = [Subject::Unnamed, Subject::Lists, Subject::Selects, Subject::Prints, Subject::StandIn];
        let (prints, stand_in) = (amounts.prints, amounts.stand_in);
        all.into_iter().filter(move |subject| match subject {
            Subject::Prints => prints,
            Subject::StandIn => stand_in,
            _ => true,
        })
    }

    /// Returns the kind that is listed for the subject.
    pub(crate) fn dependents(self) -> Kind {
        match self {
            Subject::Selects | Subject::Unnamed => Kind::Server,
            Subject::Prints => Kind::Crate,
            _ => Kind::Machine,
        }
    }

    /// Returns the path of an object that the subject may delete.
    fn free(self, n: usize) -> String {
        let name = if self == Subject::Unnamed { name_of(n) } else { free(n) };
        format!("{}/{name}", self.target().collection())
    }
}

/// API server with providers, for any number of scenes.
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) connection: Connection,
    hooks: Hooks,
    certificates: TempDir,
}

/// Numbers and sizes of the objects.
#[derive(Debug, Clone)]
pub(crate) struct Amounts {
    pub(crate) dependents: usize,
    pub(crate) bytes: usize,
    pub(crate) free: usize,
    /// Number of free targets that share a label.
    pub(crate) set: usize,
    /// Set if the stand-in takes part. Decoded lists take several times their bytes, which is too much for the machine
    /// in large cases.
    pub(crate) stand_in: bool,
    /// Set if there are also dependents whose reference is a printed column.
    pub(crate) prints: bool,
}

/// Scene: one consumer on a stage.
pub(crate) struct Scene<'a> {
    stage: &'a mut Stage,
    pub(crate) amounts: Amounts,
    client: Client,
    endpoint: Endpoint,
    depguard: Webhook,
    stand_in: Webhook,
}

struct Webhook {
    process: Child,
    idle: u64,
}

/// Cost of one or more DELETEs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cost {
    pub(crate) time: Duration,
    pub(crate) cpu: Duration,
    /// Peak of memory above that of the idle webhook, in bytes.
    pub(crate) peak: u64,
    /// Number of DELETEs with a wrong result.
    pub(crate) failures: usize,
    pub(crate) failure: String,
}

impl Stage {
    pub(crate) async fn new(server: Server, seconds: u32) -> Result<Self> {
        let connection = server.connect().await?;
        let certificates = tempfile::tempdir()?;
        let authority = Authority::new("compare").map_err(|stop| stop.to_string())?;
        authority.issue(certificates.path()).map_err(|stop| stop.to_string())?;
        let hooks = Hooks {
            depguard: lasting_port(Ipv4Addr::LOCALHOST)?,
            stand_in: lasting_port(Ipv4Addr::LOCALHOST)?,
            ca_pem: authority.pem().to_owned(),
            seconds,
        };
        setup::providers(&connection, &hooks).await?;
        Ok(Self { server, connection, hooks, certificates })
    }

    pub(crate) async fn scene(&mut self, name: &str, amounts: Amounts) -> Result<Scene<'_>> {
        let cluster = setup::consumer(&self.connection, name).await?;
        let workspace = format!("root:{name}");
        if self.server.is_testbed() {
            let Amounts { dependents, bytes, free, set, prints, .. } = amounts;
            let workspace = workspace.clone();
            self.server.fill(&Fill { workspace, dependents, bytes, prints, free, set }).await?;
        } else {
            create_all(&self.connection, &cluster, &amounts).await?;
        }
        let client = Client::new(&self.server.kubeconfig(&workspace)?)?;
        let depguard = self.webhook("depguard", self.hooks.depguard).await?;
        let stand_in = self.webhook("stand-in", self.hooks.stand_in).await?;
        let endpoint = self.connection.cluster(&cluster);
        let mut scene = Scene { stage: self, amounts, client, endpoint, depguard, stand_in };
        scene.until_ready().await?;
        Ok(scene)
    }

    /// Creates a consumer with dependents only, and without webhooks. Returns a client of the consumer.
    pub(crate) async fn listed(&self, dependents: usize, bytes: usize) -> Result<Client> {
        let cluster = setup::consumer(&self.connection, "listed").await?;
        let template = Template::new(Kind::Machine, bytes, false);
        let objects = (0..dependents).map(|n| (Kind::Machine, template.make(n, dependents)));
        create(&self.connection, &cluster, objects.collect()).await?;
        Client::new(&self.server.kubeconfig(cluster.as_str())?)
    }

    async fn webhook(&self, role: &str, port: u16) -> Result<Webhook> {
        let kubeconfig = self.server.kubeconfig(DEP_CTRL)?;
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--certificates={}", self.certificates.path().display()),
            format!("--port={port}"),
        ];
        let (process, _) = Child::start(role, &arguments).await?;
        Ok(Webhook { process, idle: 0 })
    }
}

impl Scene<'_> {
    /// Measures the lower bound: this process reads all dependents page by page.
    pub(crate) async fn drain(&self) -> Result<(Drained, Cost)> {
        let usage = Usage::from_pid(std::process::id());
        let cpu = usage.cpu()?;
        let begun = Instant::now();
        let drained = drain(&self.endpoint, &Kind::Machine.collection()).await?;
        let time = begun.elapsed();
        Ok((drained, Cost { time, cpu: usage.cpu()?.saturating_sub(cpu), ..Cost::default() }))
    }

    pub(crate) async fn lists(&mut self, subject: Subject) -> Result<Lists> {
        self.stage.server.lists(&self.stage.connection, subject.dependents()).await
    }

    pub(crate) async fn lines(&self, count: usize) -> Result<Vec<Line>> {
        self.client.open_all(count).await
    }

    /// Measures one DELETE of a free target, or of one that dependents refer to.
    pub(crate) async fn delete(&self, subject: Subject, line: &mut Line, allowed: bool) -> Result<Cost> {
        let busy = || format!("{}/{BUSY}", subject.target().collection());
        let path = if allowed { subject.free(0) } else { busy() };
        self.measured(subject, async {
            let deleted = line.dry_run_delete(&path).await?;
            Ok(vec![(deleted, allowed)])
        })
        .await
    }

    /// Measures concurrent DELETEs of free targets, one for each connection.
    pub(crate) async fn delete_at_once(&self, subject: Subject, lines: &mut [Line]) -> Result<Cost> {
        self.measured(subject, async {
            let deletions = lines.iter_mut().enumerate().map(|(n, line)| {
                let path = subject.free(n);
                async move { line.dry_run_delete(&path).await }
            });
            let deleted = futures::future::try_join_all(deletions).await?;
            Ok(deleted.into_iter().map(|deleted| (deleted, true)).collect())
        })
        .await
    }

    /// Measures collection deletes of free targets, one set after the other.
    pub(crate) async fn delete_sets(&self, subject: Subject, line: &mut Line, sets: usize) -> Result<Cost> {
        let collection = subject.target().collection();
        self.measured(subject, async {
            let mut all = Vec::new();
            for set in 0..sets {
                all.push((line.dry_run_delete(&format!("{collection}?labelSelector=set%3Ds{set}")).await?, true));
            }
            Ok(all)
        })
        .await
    }

    async fn measured(
        &self,
        subject: Subject,
        deletions: impl Future<Output = Result<Vec<(Deleted, bool)>>>,
    ) -> Result<Cost> {
        let webhook = self.webhook_of(subject);
        let usage = webhook.process.usage();
        usage.reset_peak()?;
        let cpu = usage.cpu()?;
        let begun = Instant::now();
        let deleted = deletions.await?;
        let time = begun.elapsed();
        let failed: Vec<&Deleted> = deleted
            .iter()
            .filter(|(deleted, allowed)| !as_expected(deleted, *allowed))
            .map(|(deleted, _)| deleted)
            .collect();
        Ok(Cost {
            time,
            cpu: usage.cpu()?.saturating_sub(cpu),
            peak: usage.peak()?.saturating_sub(webhook.idle),
            failures: failed.len(),
            failure: failed
                .first()
                .map(|deleted| format!("{}: {}", deleted.status, deleted.message))
                .unwrap_or_default(),
        })
    }

    /// Waits until the rules are loaded. From then on a webhook counts as idle: it has answered only reviews whose
    /// selector finds few objects.
    async fn until_ready(&mut self) -> Result {
        self.until_refused(Subject::Selects).await?;
        for webhook in [&mut self.depguard, &mut self.stand_in] {
            webhook.idle = webhook.process.usage().memory()?;
        }
        self.until_refused(Subject::Lists).await?;
        if self.amounts.prints { self.until_refused(Subject::Prints).await } else { Ok(()) }
    }

    async fn until_refused(&self, subject: Subject) -> Result {
        let path = format!("{}/{BUSY}", subject.target().collection());
        eventually("a deletion is refused because of what refers to it", async || {
            let Ok(mut line) = self.client.open().await else { return false };
            line.dry_run_delete(&path).await.is_ok_and(|deleted| as_expected(&deleted, false))
        })
        .await
    }

    fn webhook_of(&self, subject: Subject) -> &Webhook {
        if subject == Subject::StandIn { &self.stand_in } else { &self.depguard }
    }
}

fn as_expected(deleted: &Deleted, allowed: bool) -> bool {
    match allowed {
        true => deleted.status == 200,
        false => deleted.status == 403 && deleted.message.contains("still referenced by"),
    }
}

async fn create_all(connection: &Connection, cluster: &LogicalCluster, amounts: &Amounts) -> Result {
    let Amounts { dependents, bytes, free: count, set, .. } = *amounts;
    let mut objects = Vec::new();
    for kind in Kind::DEPENDENTS {
        let template = Template::new(kind, bytes, false);
        objects.extend((0..dependents).map(|n| (kind, template.make(n, dependents))));
    }
    for kind in Kind::TARGETS {
        objects.extend((0..count).map(|n| (kind, target(kind, &free(n), &format!("s{}", n / set)))));
        objects.push((kind, target(kind, BUSY, "busy")));
    }
    create(connection, cluster, objects).await
}

async fn create(connection: &Connection, cluster: &LogicalCluster, objects: Vec<(Kind, Value)>) -> Result {
    let endpoint = connection.cluster(cluster);
    futures::stream::iter(objects)
        .map(|(kind, object)| {
            let endpoint = &endpoint;
            async move { setup::create(endpoint, &kind.collection(), &object).await }
        })
        .buffer_unordered(16)
        .try_collect()
        .await
}
