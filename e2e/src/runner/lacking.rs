//! Every right that the manifests give is needed: without any one of them, the scenario that `docs/rights.md` names beside
//! it fails.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use depguard_controller::manifests::{ReadThrough, Setup};
use depguard_core::Home;
use depguard_kcp::{Feature, Features};
use tokio::runtime::Runtime;

use super::{Job, Mode, Scenario, Tally, run_jobs};
use crate::outcome::{Outcome, Stop};
use crate::ring::Ring;
use crate::selection::RingKind;
use crate::world::{Right, Terms};

/// How long a scenario waits for each thing without one of its rights, at most and at least: half as much again as the whole
/// took with all of them. With all, it waits as long as ever: a garbage collector may take its time.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(3));
/// Set, or a filter that begins with [`PREFIX`], it has these runs follow the scenarios.
const VARIABLE: &str = "DEPGUARD_RIGHTS";
const PREFIX: &str = "rights:";

/// So many scenarios run at once where each has a testbed or a tree of workspaces of its own.
const TESTBEDS: usize = 6;

/// By right, the scenario that fails without it.
type Table = BTreeMap<(String, String), String>;

pub(super) fn run(runtime: &Runtime, lanes: &[Arc<Ring>], scenarios: &[Scenario], filters: &[String], tally: &Tally) {
    let Some(first) = lanes.first() else { return };
    let kind = first.kind();
    let is_named = filters.iter().any(|filter| filter.starts_with(PREFIX));
    if !is_named && std::env::var_os(VARIABLE).is_none() {
        return tally.skip(&format!("ring {}: skipped: that each right is needed: {VARIABLE}=1 tries it", kind.name()));
    }
    let setup = setup(kind);
    let table = match read_table(&setup) {
        Ok(table) => table,
        Err(why) => return tally.fail(format!("ring {}: {why}", kind.name())),
    };
    let rights = Right::all(&setup);
    let known: BTreeSet<_> = rights.iter().map(key).collect();
    for (account, right) in table.keys().filter(|row| !known.contains(*row)) {
        tally.fail(format!("docs/rights.md says that {account} may {right}, which no manifest gives"));
    }
    let (mut lacking, mut controls) = (VecDeque::new(), BTreeSet::new());
    for right in rights {
        let Some(name) = table.get(&key(&right)) else {
            let (account, right) = key(&right);
            tally.fail(format!(
                "docs/rights.md does not say what {account} may not be without: | {account} | {right} |"
            ));
            continue;
        };
        let Some(index) = scenarios.iter().position(|scenario| scenario.name == name) else {
            tally.fail(format!("docs/rights.md names no scenario: `{name}`"));
            continue;
        };
        controls.insert(index);
        lacking.push_back(job(index, Some(right), PATIENCE.0));
    }
    let mut controls: VecDeque<_> = controls.into_iter().map(|index| job(index, None, first.patience())).collect();
    for jobs in [&mut controls, &mut lacking] {
        let all = jobs.len();
        jobs.retain(|job| {
            let line = line(&job.terms, scenarios.get(job.index).map_or("", |scenario| scenario.name));
            filters.is_empty() || filters.iter().any(|filter| line.contains(filter.as_str()))
        });
        tally.filter_out(all - jobs.len());
    }
    if controls.is_empty() && lacking.is_empty() {
        return;
    }
    // On a testbed each run has a server or workspaces of its own; rights are of a whole cluster.
    let own = vec![Arc::clone(first); TESTBEDS];
    let lanes = if kind.is_testbed() { &own } else { lanes };
    let took = run_jobs(runtime, lanes, scenarios, controls, tally);
    for job in &mut lacking {
        if let Some(took) = took.get(&job.index) {
            job.terms.patience = Some((*took * 3 / 2).clamp(PATIENCE.1, PATIENCE.0));
        }
    }
    run_jobs(runtime, lanes, scenarios, lacking, tally);
}

fn job(index: usize, lacks: Option<Right>, patience: Duration) -> Job {
    let terms = Terms { lacks, patience: Some(patience), ..Terms::default() };
    Job { index, mode: Mode::Guarded, terms }
}

/// What is told of a job, beside the name of its scenario.
pub(super) fn line(terms: &Terms, name: &str) -> String {
    match terms {
        Terms { lacks: Some(right), .. } => format!("{PREFIX} without {right} of {} fails: {name}", right.account),
        Terms { patience: Some(_), .. } => format!("{PREFIX} with all of them: {name}"),
        Terms { .. } => name.to_owned(),
    }
}

/// A number that no other world here has.
pub(super) fn next() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A scenario that lacks a right has to fail.
pub(super) fn judge(outcome: Outcome) -> Outcome {
    match outcome {
        Err(Stop::Failed(_)) => Ok(()),
        Ok(()) => {
            Err(Stop::failed("it passed all the same: the right is too much, or docs/rights.md names another scenario"))
        }
        Err(stop) => Err(stop),
    }
}

fn key(right: &Right) -> (String, String) {
    (right.account.clone(), right.to_string())
}

fn setup(kind: RingKind) -> Setup {
    let home = if kind.is_kcp() { Home::Kcp } else { Home::Kubernetes };
    let way = if kind.reads_through_exports() { ReadThrough::Export } else { ReadThrough::FrontProxy };
    let enable = match home {
        // Which kinds the older tool's locks guard makes no difference.
        Home::Kubernetes => Features::new([Feature::Locks, Feature::Owners], "pods".parse().ok()),
        Home::Kcp => Features::new([Feature::Locks], []),
    };
    Setup { enable, ..Setup::new(home, way) }
}

/// The rows below the heading of this home and way: account, right, scenario.
fn read_table(setup: &Setup) -> Result<Table, String> {
    let heading = match (setup.home, setup.read_through) {
        (Home::Kubernetes, _) => "## Home kubernetes",
        (Home::Kcp, ReadThrough::FrontProxy) => "## Home kcp, `--read-through front-proxy`",
        (Home::Kcp, ReadThrough::Export) => "## Home kcp, `--read-through export`",
    };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/rights.md");
    let text = std::fs::read_to_string(file).map_err(|why| format!("docs/rights.md can't be read: {why}"))?;
    let part = text.lines().skip_while(|line| *line != heading).skip(1);
    let part = part.take_while(|line| !line.starts_with("## "));
    let rows = part.filter(|line| line.starts_with("| depguard-")).map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        match cells.as_slice() {
            ["", account, right, scenario, ""] => Ok(((account.to_string(), right.to_string()), scenario.to_string())),
            _ => Err(format!("docs/rights.md has a row that is not account, right, scenario: {line}")),
        }
    });
    rows.collect()
}
