//! Table of growth: what a platform of so many providers costs the stock webhook and the stock controller.
//!
//! `cargo run --release -p depguard-benches --bin platform` plays a testbed of kcp with more and more providers, or with
//! `--kubernetes` one of a plain cluster. `--kube` and `--kcp` play a real server, of which nobody counts the requests, and
//! which is not lost: their cells hold `-`. Each has an export of two kinds, a binding of depguard, and rules about its own
//! kinds. The programs run in processes of their own.
//! For each size the program prints the memory of both, and their requests: at the start, at rest a minute, when one rule
//! changes, after the API server was lost, and when the controller is started again. A second table is of tenants that lock
//! objects. The program ends with exit code 1 if a change of one rule, or one more tenant, costs more requests on a large
//! platform than on a small one, or if the controller at rest, after an outage, or started again, writes what is already so.

#[path = "../floods/cgroup.rs"]
mod cgroup;
#[path = "../floods/process.rs"]
mod process;
#[path = "../compare/program.rs"]
mod program;
mod scene;
#[expect(dead_code, reason = "only the comparison and the floods measure CPU and peaks")]
#[path = "../compare/usage.rs"]
mod usage;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use depguard_e2e::{Ring, RingKind};
use depguard_kcp::Feature;

use self::process::{LIMIT, RoleCommand};
use self::scene::{Figures, LockFigures, Scene, Settled};

/// Plays platforms of several sizes.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<RoleCommand>,
    /// Numbers of providers to play.
    #[arg(long, value_delimiter = ',', default_value = "3,10,100,1000")]
    providers: Vec<usize>,
    /// Number of rules of each provider.
    #[arg(long, default_value_t = 10)]
    rules: usize,
    /// Numbers of tenants with a lock to play, in kcp.
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000")]
    tenants: Vec<usize>,
    /// Play one plain cluster, in which each provider defines its kinds, instead of a kcp.
    #[arg(long, group = "server")]
    kubernetes: bool,
    /// Play on a real kube-apiserver, which `DEPGUARD_RINGS=kube` chooses, and which counts no requests.
    #[arg(long, group = "server")]
    kube: bool,
    /// Play on a real kcp, which `DEPGUARD_RINGS=kcp` chooses, and which counts no requests.
    #[arg(long, group = "server")]
    kcp: bool,
    /// Time at rest, in seconds.
    #[arg(long, default_value_t = 60)]
    rest: u64,
    /// Time for which the API server is lost, in seconds. After more than a minute the webhook refuses everything until it
    /// has listed the rules again, and statuses say so.
    #[arg(long, default_value_t = 50)]
    away: u64,
}

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let Arguments { command, providers, rules, tenants, kubernetes, kube, kcp, rest, away } = Arguments::parse();
    let kind = if kubernetes { RingKind::TestbedKubernetes } else { RingKind::TestbedKcp };
    let start = async || {
        let ring = match (kube, kcp) {
            (true, _) => Ring::cluster().await?,
            (_, true) => Ring::chosen_kcp().await?,
            _ => Ring::testbed(kind).await,
        };
        ring.map_err(|why| why.to_string())
    };
    program::run("platform", async {
        if let Some(RoleCommand::Role { program, flags }) = command {
            return process::play(&program, &flags).await.map(|()| true);
        }
        println!(
            "| providers × rules | webhook, controller: MiB | requests at the start | at rest, {rest} s | one rule changed | \
             server lost for {away} s | controller started again | deletions refused, allowed: × one without rules | |\n|---|---|---|---|---|---|---|---|---|"
        );
        let (mut first, mut is_good) = (None, true);
        for number in providers {
            let scene = Scene::set_up(start().await?, number, rules, &[]).await.map_err(|why| why.to_string())?;
            let figures = scene
                .play(Duration::from_secs(rest), Duration::from_secs(away))
                .await
                .map_err(|why| why.to_string())?;
            let bad = bad(&figures, first.as_ref().unwrap_or(&figures));
            println!("| {number} × {rules} | {figures} | {} |", verdict(&figures.settled, &bad));
            is_good &= bad.is_empty();
            first = first.or(Some(figures));
        }
        if kubernetes || kube || tenants.is_empty() {
            return Ok(is_good);
        }
        println!(
            "\n| tenants with a lock | webhook, controller: MiB | requests at the start | at rest, {rest} s | one more tenant | \
             two deletions | |\n|---|---|---|---|---|---|---|"
        );
        let mut first = None;
        for number in tenants {
            let scene =
                Scene::set_up(start().await?, 1, rules, &[Feature::Locks]).await.map_err(|why| why.to_string())?;
            let figures = scene.play_locks(number, Duration::from_secs(rest)).await.map_err(|why| why.to_string())?;
            let bad = bad_locks(&figures, first.as_ref().unwrap_or(&figures));
            println!("| {number} | {figures} | {} |", verdict(&figures.settled, &bad));
            is_good &= bad.is_empty();
            first = first.or(Some(figures));
        }
        Ok(is_good)
    })
}

/// Returns what is wrong with the figures of so many tenants, against those of the fewest.
fn bad_locks(figures: &LockFigures, fewest: &LockFigures) -> Vec<String> {
    let mut bad = bad_at_rest(&figures.settled);
    let [another, small] = [figures, fewest].map(|figures| figures.another[1]);
    bad.extend((another > small * 2).then(|| format!("another tenant costs {another} requests instead of {small}")));
    bad
}

/// Returns what is wrong with two programs that are at rest.
fn bad_at_rest(settled: &Settled) -> Vec<String> {
    let mut bad = Vec::new();
    bad.extend(
        settled.memory.iter().any(|memory| *memory > LIMIT).then(|| "more memory than the chart allows".to_owned()),
    );
    bad.extend((settled.rest_writes > 0).then(|| format!("{} writes at rest", settled.rest_writes)));
    bad
}

/// Returns what is wrong with a platform; where nobody counts its requests, only its memory can be good.
fn verdict(settled: &Settled, bad: &[String]) -> String {
    match (bad, settled.is_counted()) {
        ([], true) => "good".to_owned(),
        ([], false) => "memory good".to_owned(),
        _ => bad.join(", "),
    }
}

/// Returns what is wrong with the figures of a platform, against those of the smallest one.
fn bad(figures: &Figures, smallest: &Figures) -> Vec<String> {
    let mut bad = bad_at_rest(&figures.settled);
    let (change, small) = (figures.changed.iter().sum::<u64>(), smallest.changed.iter().sum::<u64>());
    bad.extend((change > small + small / 2).then(|| format!("a change costs {change} requests instead of {small}")));
    bad.extend((figures.outage_writes > 0).then(|| format!("{} writes after an outage", figures.outage_writes)));
    bad.extend((figures.restart_writes > 0).then(|| format!("{} writes of a restart", figures.restart_writes)));
    bad
}
