//! Platform of one size, and what its programs cost.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use depguard_e2e::locks::named;
use depguard_e2e::rules::rule;
use depguard_e2e::{Consumer, Depguard, Outcome, Provider, Resource, Ring, Stop, World, ensure};
use depguard_kcp::Feature;
use depguard_testbed::{Fault, Testbed, When};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tokio::time::sleep;

use crate::process::Process;

/// Time within which a platform must have settled.
const PATIENCE: Duration = Duration::from_secs(600);
/// Time without more requests than at rest.
const QUIET: Duration = Duration::from_secs(5);
/// The most requests of the controller at rest in this time, besides one for so many providers: paths and schemas are read
/// again from time to time.
const AT_REST: u64 = 10;
const PROVIDERS_AT_REST: u64 = 20;
/// Number of times that a rule is changed.
const CHANGES: i64 = 3;
/// Number of deletions of which the median counts.
const DELETIONS: usize = 31;
/// Number of providers that are made at once.
const AT_ONCE: usize = 16;
/// Limit of memory that no program reaches.
const NO_LIMIT: u64 = 1 << 40;
/// Name of each tenant's lock.
const LOCK: &str = "lock";
/// Programs, by their accounts.
const PROGRAMS: [&str; 2] = ["depguard-webhook", "depguard-controller"];

/// Testbed with providers.
pub(crate) struct Scene {
    world: Arc<World>,
    files: Depguard,
    providers: Vec<Provider>,
    rules: usize,
}

/// Memory and requests, until both programs are at rest and then, each of the webhook and of the controller.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) memory: [u64; 2],
    started: [u64; 2],
    rest: [u64; 2],
    pub(crate) rest_writes: u64,
}

/// Memory and requests of a platform, each of the webhook and of the controller.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) settled: Settled,
    pub(crate) changed: [u64; 2],
    restarted: [u64; 2],
    /// Times of deletions, refused and allowed, as ratios.
    deletions: [f64; 2],
    /// After an API server that was lost for a while is there again.
    found_again: [u64; 2],
    pub(crate) outage_writes: u64,
    pub(crate) restart_writes: u64,
}

/// Memory and requests of tenants that lock objects, each of the webhook and of the controller.
#[derive(Debug)]
pub(crate) struct LockFigures {
    pub(crate) settled: Settled,
    pub(crate) another: [u64; 2],
    deletion: [u64; 2],
}

type Requests = [BTreeMap<String, u64>; 2];

impl Scene {
    /// Makes so many providers, each with so many rules about its own kinds.
    pub(crate) async fn set_up(ring: Ring, number: usize, rules: usize, enables: &'static [Feature]) -> Outcome<Self> {
        let world = Arc::new(World::enabling(Arc::new(ring), "platform", enables).await?);
        let providers = (0..number).map(|n| provider(Arc::clone(&world), n, rules));
        let providers = stream::iter(providers).buffered(AT_ONCE).try_collect().await?;
        let files = Depguard::prepare(&world).await?;
        Ok(Self { world, files, providers, rules })
    }

    /// Starts both programs, and tells what they cost.
    ///
    /// The API server is lost for the time `away`.
    pub(crate) async fn play(&self, rest: Duration, away: Duration) -> Outcome<Figures> {
        let none = self.requests().await?;
        let (mut webhook, mut controller) = self.start_both().await?;
        let settled = self.settle(&none, rest, &mut webhook, &mut controller).await?;
        let mut figures = Figures { settled, ..Figures::default() };
        figures.deletions = self.deletions().await?;

        // What is asked once a minute may fall into the time of a change, so the cheapest of several counts.
        let mut changes = Vec::new();
        for generation in 2..2 + CHANGES {
            changes.push(self.change(&mut controller, generation).await?);
        }
        figures.changed = changes.into_iter().min_by_key(|requests| requests.iter().sum::<u64>()).unwrap_or_default();

        if let Some(testbed) = self.world.ring().in_process() {
            let before = self.lose_server(testbed, away).await?;
            // Both list what they watch, and each configuration is read once more.
            let after = self.until_quiet_after(&before, [1, self.providers.len() as u64 + 1]).await?;
            (figures.found_again, figures.outage_writes) = (sums(&after, &before), writes(&after[1], &before[1]));
        }

        drop(controller);
        let before = self.requests().await?;
        let _controller = self.start_controller()?;
        // Each configuration is read once more, and each webhook asked.
        let after = self.until_quiet(&before).await?;
        (figures.restarted, figures.restart_writes) = (sums(&after, &before), writes(&after[1], &before[1]));
        Ok(figures)
    }

    /// Plays so many tenants, each of which has bound the first provider and locks one of its own objects. Tells what they
    /// cost, what one more costs, and what two deletions there do: of an object that is locked, and of one that is not.
    pub(crate) async fn play_locks(&self, number: usize, rest: Duration) -> Outcome<LockFigures> {
        let tenants = stream::iter(0..number).map(|n| self.tenant(n)).buffered(AT_ONCE);
        let tenants: Vec<_> = tenants.try_collect().await?;
        let none = self.requests().await?;
        let (mut webhook, mut controller) = self.start_both().await?;
        for tenant in &tenants {
            tenant.until_programmed(&self.world, &tenant_lock(tenant)).await?;
        }
        let settled = self.settle(&none, rest, &mut webhook, &mut controller).await?;

        let before = self.until_quiet(&Requests::default()).await?;
        let another = self.tenant(number).await?;
        another.until_programmed(&self.world, &tenant_lock(&another)).await?;
        let cost = sums(&self.requests().await?, &before);

        let before = self.until_quiet(&Requests::default()).await?;
        let kind = self.locked_kind()?;
        another.refused(&self.world, &kind, "locked", &["locked"]).await?;
        another.release(&kind, "free").await?;
        Ok(LockFigures { settled, another: cost, deletion: sums(&self.requests().await?, &before) })
    }

    /// Waits until both programs, started after the count `none`, are at rest, and tells what they cost until then and in
    /// the time `rest`.
    async fn settle(
        &self,
        none: &Requests,
        rest: Duration,
        webhook: &mut Process,
        controller: &mut Process,
    ) -> Outcome<Settled> {
        let started = self.until_quiet(none).await?;
        sleep(rest).await;
        let rested = self.requests().await?;
        told(webhook.lives().and(controller.lives()))?;
        Ok(Settled {
            memory: [told(webhook.usage().memory())?, told(controller.usage().memory())?],
            started: sums(&started, none),
            rest: sums(&rested, &started),
            rest_writes: writes(&rested[1], &started[1]),
        })
    }

    /// Returns the provider whose kinds and rules stand for all.
    fn first(&self) -> Outcome<&Provider> {
        self.providers.first().ok_or_else(|| Stop::failed("no provider"))
    }

    /// Lets the API server answer nothing but errors for a while, and ends all watches. Returns the requests so far.
    async fn lose_server(&self, testbed: &Testbed, time: Duration) -> Outcome<Requests> {
        let all = When::always;
        let lost = [Fault::InternalError, Fault::WatchDropped].map(|fault| testbed.faults().inject(fault, all()));
        sleep(time).await;
        lost.into_iter().for_each(|fault| testbed.faults().clear(fault));
        self.requests().await
    }

    /// Returns how many times as long as a deletion without rules one takes that is refused, and one that is allowed.
    async fn deletions(&self) -> Outcome<[f64; 2]> {
        let provider = self.first()?;
        let [one, other] = [provider.kind("One")?, provider.kind("Other")?];
        let tenant = self.world.consumer("deletions", &[provider]).await?;
        tenant.create_target(&other, "used").await?;
        tenant.create_target(&other, "free").await?;
        tenant.create(&one, "user", json!({"ref0": {"name": "used"}})).await?;
        let free = format!("{}/configmaps", tenant.namespace_path());
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "free"}});
        tenant.api.post(&free, &object).await?.ok()?;
        tenant.until_protected(&self.world, &other, "used").await?;
        let [bare, refused, allowed] =
            [format!("{free}/free"), tenant.object(&other, "used"), tenant.object(&other, "free")];
        let median = async |path: &str, expected: u16| {
            let mut times = Vec::new();
            for _ in 0..DELETIONS {
                let begun = Instant::now();
                let reply = tenant.api.dry_run_delete(path).await?;
                ensure(reply.status == expected, || format!("{} instead of {expected}", reply.status))?;
                times.push(begun.elapsed());
            }
            times.sort();
            Ok::<_, Stop>(times.get(DELETIONS / 2).map_or(0.0, Duration::as_secs_f64))
        };
        let bare = median(&bare, 200).await?;
        Ok([median(&refused, 403).await? / bare, median(&allowed, 200).await? / bare])
    }

    /// Makes a tenant with two objects, one of them locked.
    async fn tenant(&self, number: usize) -> Outcome<Consumer> {
        let (provider, kind) = (self.first()?, self.locked_kind()?);
        let tenant = self.world.consumer(&format!("t{number}"), &[provider]).await?;
        self.world.bind_locks(&tenant).await?;
        tenant.create_target(&kind, "locked").await?;
        tenant.create_target(&kind, "free").await?;
        tenant.lock(LOCK, json!({"targets": [named(&kind, "locked")], "operations": ["Delete"]})).await?;
        Ok(tenant)
    }

    fn locked_kind(&self) -> Outcome<Resource> {
        self.first()?.kind("Other")
    }

    /// Starts both programs, and waits until all rules are enforced.
    async fn start_both(&self) -> Outcome<(Process, Process)> {
        let folder = self.files.file(".").display().to_string();
        let flags = [format!("--webhook-port={}", self.files.port()), format!("--tls-cert-dir={folder}")];
        let webhook = self.start("webhook", &flags)?;
        let mut controller = self.start_controller()?;
        for provider in &self.providers {
            for number in 0..self.rules {
                self.until_enforced(&mut controller, provider, &format!("r{number}")).await?;
            }
        }
        Ok((webhook, controller))
    }

    fn start_controller(&self) -> Outcome<Process> {
        let bundle = self.files.file("ca.crt").display().to_string();
        let url = self.files.url();
        self.start("controller", &[format!("--webhook-url={url}"), format!("--webhook-ca-bundle-path={bundle}")])
    }

    /// Changes a rule of the first provider, and returns the requests until the new generation is enforced.
    async fn change(&self, controller: &mut Process, generation: i64) -> Outcome<[u64; 2]> {
        let provider = self.first()?;
        let [one, other] = [provider.kind("One")?, provider.kind("Other")?];
        let changed = rule("r0", &one, &[(&other, &format!(".spec.changed{generation}.name"))]);
        let before = self.until_quiet(&Requests::default()).await?;
        self.world.change_rule(provider, "r0", &json!({"spec": changed["spec"]})).await?;
        self.until_enforced(controller, provider, "r0").await?;
        Ok(sums(&self.requests().await?, &before))
    }

    fn start(&self, program: &str, flags: &[String]) -> Outcome<Process> {
        let control_plane = if self.world.is_kcp() { "kcp" } else { "kubernetes" };
        let mut all = vec![
            format!("--control-plane={control_plane}"),
            // In a plain cluster all rules are one tenant's.
            "--workspace-max-objects=100000".to_owned(),
            "--workspace-max-memory=1024".to_owned(),
            "--metrics-bind-address=0".to_owned(),
            "--health-probe-bind-address=0".to_owned(),
            format!("--kubeconfig={}", self.files.file(&format!("{program}.kubeconfig")).display()),
        ];
        if self.world.has(Feature::Locks) {
            all.push("--enable=locks".to_owned());
        }
        all.extend(flags.iter().cloned());
        told(Process::start(program, &all, &self.files.file(&format!("{program}.log")), NO_LIMIT))
    }

    /// Waits until a rule is enforced in its present generation.
    async fn until_enforced(&self, controller: &mut Process, provider: &Provider, name: &str) -> Outcome {
        let begun = Instant::now();
        loop {
            match self.world.condition(provider, name, "Enforced", "True").await {
                Err(_) if begun.elapsed() < PATIENCE => told(controller.lives())?,
                done => return done,
            }
        }
    }

    /// Waits until the controller has asked something since an earlier count, and then only what it asks at rest. Returns the
    /// requests so far.
    async fn until_quiet(&self, before: &Requests) -> Outcome<Requests> {
        self.until_quiet_after(before, [0, 1]).await
    }

    /// Waits until both programs have asked so often since an earlier count, and the controller only what it asks at rest.
    async fn until_quiet_after(&self, before: &Requests, least: [u64; 2]) -> Outcome<Requests> {
        if self.world.ring().in_process().is_none() {
            // Only the testbed counts requests.
            return Ok(Requests::default());
        }
        let at_rest = AT_REST + self.providers.len() as u64 / PROVIDERS_AT_REST;
        let mut known = self.requests().await?;
        let begun = Instant::now();
        loop {
            sleep(QUIET).await;
            let now = self.requests().await?;
            let ([_, asked], since) = (sums(&now, &known), sums(&now, before));
            if since[0] >= least[0] && since[1] >= least[1] && asked <= at_rest && writes(&now[1], &known[1]) == 0 {
                return Ok(now);
            }
            if begun.elapsed() > PATIENCE {
                return Err(Stop::failed("the controller does not come to rest"));
            }
            known = now;
        }
    }

    async fn requests(&self) -> Outcome<Requests> {
        let [webhook, controller] = PROGRAMS.map(|account| self.world.requests(account));
        Ok([webhook.await?.unwrap_or_default(), controller.await?.unwrap_or_default()])
    }
}

fn told<T>(done: crate::Result<T>) -> Outcome<T> {
    done.map_err(|why| Stop::failed(why.to_string()))
}

fn tenant_lock(tenant: &Consumer) -> String {
    format!("{}/{LOCK}", tenant.locks())
}

/// Makes a provider with rules.
async fn provider(world: Arc<World>, number: usize, rules: usize) -> Outcome<Provider> {
    let kinds = vec![Resource::namespaced("One"), Resource::namespaced("Other")];
    let provider = world.provider(&format!("p{number}"), &format!("p{number}.example.com"), kinds).await?;
    world.bind_depguard(&provider).await?;
    let [one, other] = [provider.kind("One")?, provider.kind("Other")?];
    for number in 0..rules {
        let rule = rule(&format!("r{number}"), &one, &[(&other, &format!(".spec.ref{number}.name"))]);
        world.add_rule(&provider, &rule).await?;
    }
    Ok(provider)
}

/// Returns the numbers of requests since an earlier count.
fn sums(now: &Requests, before: &Requests) -> [u64; 2] {
    let sum = |requests: &BTreeMap<String, u64>| requests.values().sum::<u64>();
    [0, 1].map(|program| sum(&now[program]) - sum(&before[program]))
}

/// Returns the number of writes since an earlier count.
fn writes(now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> u64 {
    // A deletion is the dry run by which the controller finds out if the webhook is asked.
    let all = now.iter().filter(|(verb, _)| !["get", "list", "watch", "delete"].contains(&verb.as_str()));
    all.map(|(verb, number)| number - before.get(verb).unwrap_or(&0)).sum()
}

impl Settled {
    /// Returns true if the server counted requests: neither program starts without any.
    pub(crate) fn is_counted(&self) -> bool {
        self.started != [0, 0]
    }

    /// Prints a cell of a table: requests of the webhook and of the controller.
    fn cell(&self, f: &mut fmt::Formatter<'_>, [webhook, controller]: [u64; 2]) -> fmt::Result {
        if self.is_counted() { write!(f, " | {webhook}, {controller}") } else { f.write_str(" | -") }
    }
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memory: [webhook, controller], started, rest, .. } = self;
        write!(f, "{}, {}", webhook >> 20, controller >> 20)?;
        [started, rest].into_iter().try_for_each(|requests| self.cell(f, *requests))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settled, changed, found_again, restarted, deletions: [refused, allowed], .. } = self;
        write!(f, "{settled}")?;
        [changed, found_again, restarted].into_iter().try_for_each(|requests| settled.cell(f, *requests))?;
        write!(f, " | {refused:.1}, {allowed:.1}")
    }
}

impl fmt::Display for LockFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settled, another, deletion } = self;
        write!(f, "{settled}")?;
        [another, deletion].into_iter().try_for_each(|requests| settled.cell(f, *requests))
    }
}
