//! Cost of the interlock on a real kube-apiserver or on the testbed: creations of dependents and deletions of targets
//! without depguard, with checks on both sides, and with the interlock, in one run.
//!
//! `KUBEBUILDER_ASSETS=$(e2e/servers/build) DEPGUARD_RINGS=kube cargo run --release -p depguard-benches --bin interlock`, with
//! `-- NUMBER` for another number of reference registers than 64, and `-- --testbed` without any server.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use depguard_e2e::rules::rule;
use depguard_e2e::{Cast, Depguard, Outcome, Ring, RingKind, Stop, World, eventually, metrics_page};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;

/// Numbers of requests at once, each with the number of requests.
const LOADS: [(usize, usize); 3] = [(1, 200), (24, 1000), (200, 2000)];
/// Number of targets to which creations refer in turn.
const TARGETS: usize = 500;

/// Measures what the interlock costs on a real kube-apiserver or on the testbed.
#[derive(Debug, Parser)]
struct Arguments {
    /// Use the testbed as the API server
    #[arg(long)]
    testbed: bool,
    /// Number of reference registers
    #[arg(default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    registers: u16,
}

#[derive(Debug, Clone, Copy)]
enum Setting {
    Without,
    Checked,
    Interlocked,
}

/// Results of requests of one kind.
struct Figures {
    median: Duration,
    p99: Duration,
    /// Requests that were answered in a second.
    rate: f64,
    /// Requests that were not carried out.
    refused: usize,
    /// Writes of registers per request.
    writes: f64,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("interlock: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Outcome {
    let ring = match arguments.testbed {
        true => Ring::testbed(RingKind::TestbedKubernetes).await?,
        false => Ring::cluster().await.map_err(Stop::Failed)??,
    };
    let world = Arc::new(World::interlocked(Arc::new(ring), "figures", arguments.registers).await?);
    let cast = world.cast().await?;
    let mut machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    machines["spec"]["dependencies"][0]["onMissing"] = json!("Deny");
    world.add_rule(&cast.compute, &machines).await?;
    for target in (0..TARGETS).map(|number| format!("t{number}")).chain(["hot".to_owned()]) {
        cast.consumer.create_target(&cast.vpc, &target).await?;
    }
    println!("| setting | requests | at once | median ms | p99 ms | a second | refused | register writes a request |");
    println!("|---|---|---|---|---|---|---|---|");
    measure(Setting::Without, &cast, None).await?;
    let mut depguard = Depguard::start(&world).await?;
    ready(&world, &cast, Setting::Interlocked).await?;
    measure(Setting::Interlocked, &cast, Some(&depguard)).await?;
    depguard.kill_webhook();
    depguard.stop_controller().await;
    depguard.without_interlock();
    depguard.start_controller().await?;
    depguard.start_webhook().await?;
    ready(&world, &cast, Setting::Checked).await?;
    measure(Setting::Checked, &cast, Some(&depguard)).await
}

/// Waits until both sides are reviewed, and until the registers are open.
async fn ready(world: &World, cast: &Cast, setting: Setting) -> Outcome {
    cast.consumer.until_checked(world, &cast.vm, json!({"vpcRef": {"name": "nowhere"}})).await?;
    let name = format!("ready-{setting:?}").to_lowercase();
    eventually("a reference is allowed", world.patience(), async || {
        create(cast, &name, "t0").await?.then_some(()).ok_or_else(|| Stop::Failed("it is put off".to_owned()))
    })
    .await?;
    cast.consumer.until_protected(world, &cast.vpc, "t0").await
}

async fn measure(setting: Setting, cast: &Cast, depguard: Option<&Depguard>) -> Outcome {
    for (at_once, number) in LOADS {
        let name = |request: usize| format!("{setting:?}-{at_once}-{request}").to_lowercase();
        let creations = async |request: usize| create(cast, &name(request), &format!("t{}", request % TARGETS)).await;
        print(setting, "creations", at_once, &figures(number, at_once, depguard, creations).await?);
        let hot = async |request: usize| create(cast, &format!("hot-{}", name(request)), "hot").await;
        print(setting, "creations, one target", at_once, &figures(number, at_once, depguard, hot).await?);
        // With many machines, the lists of a deletion would cost more than all else.
        cast.consumer.api.delete(&cast.vm.collection(&cast.consumer.namespace)).await?;
        for request in 0..number {
            cast.consumer.create_target(&cast.vpc, &format!("free-{}", name(request))).await?;
        }
        let deletions = async |request: usize| {
            let path = cast.consumer.object(&cast.vpc, &format!("free-{}", name(request)));
            Ok(cast.consumer.api.delete(&path).await?.status == 200)
        };
        print(setting, "deletions", at_once, &figures(number, at_once, depguard, deletions).await?);
    }
    Ok(())
}

async fn create(cast: &Cast, name: &str, target: &str) -> Outcome<bool> {
    let machine = json!({
        "apiVersion": cast.vm.api_version(), "kind": cast.vm.kind, "metadata": {"name": name},
        "spec": {"vpcRef": {"name": target}},
    });
    Ok(cast.consumer.api.post(&cast.vm.collection(&cast.consumer.namespace), &machine).await?.status == 201)
}

/// Sends so many requests, so many at once.
async fn figures(
    number: usize,
    at_once: usize,
    depguard: Option<&Depguard>,
    send: impl AsyncFn(usize) -> Outcome<bool>,
) -> Outcome<Figures> {
    let before = writes(depguard).await?;
    let (send, start) = (&send, Instant::now());
    let requests = stream::iter(0..number).map(|request| async move {
        let begun = Instant::now();
        let is_done = send(request).await?;
        Outcome::Ok((begun.elapsed(), is_done))
    });
    let mut results: Vec<_> = Box::pin(requests.buffer_unordered(at_once)).try_collect().await?;
    let rate = number as f64 / start.elapsed().as_secs_f64();
    results.sort();
    let at = |percent: usize| results.get(results.len() * percent / 100).map_or(Duration::ZERO, |(took, _)| *took);
    let refused = results.iter().filter(|(_, is_done)| !is_done).count();
    let writes = (writes(depguard).await? - before) / number as f64;
    Ok(Figures { median: at(50), p99: at(99), rate, refused, writes })
}

/// Returns the number of register writes that the webhook has counted.
async fn writes(depguard: Option<&Depguard>) -> Outcome<f64> {
    let Some([webhook, _]) = depguard.map(Depguard::metrics) else { return Ok(0.0) };
    let page = metrics_page(webhook).await?;
    let counts = page.lines().filter(|line| line.starts_with("depguard_register_writes_total"));
    Ok(counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}

fn print(setting: Setting, requests: &str, at_once: usize, figures: &Figures) {
    let Figures { median, p99, rate, refused, writes } = figures;
    let millis = |time: &Duration| time.as_secs_f64() * 1000.0;
    println!(
        "| {setting:?} | {requests} | {at_once} | {:.1} | {:.1} | {rate:.0} | {refused} | {writes:.2} |",
        millis(median),
        millis(p99)
    );
}
