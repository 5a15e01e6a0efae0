//! Proof that every right in the manifests is needed: without any one right, the scenario that `docs/rights.md` names
//! beside the right fails.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use depguard_controller::manifests::{ReadThrough, Setup};
use depguard_core::ControlPlane;
use depguard_core::interlock::Buckets;
use depguard_kcp::{Feature, Features};
use tokio::runtime::Runtime;

use super::{Job, Mode, Scenario, Tally, run_jobs};
use crate::outcome::{Outcome, Stop};
use crate::ring::Ring;
use crate::selection::RingKind;
use crate::world::{Right, Terms};

/// Longest and shortest wait for one thing in a scenario that lacks a right. Between the two, the wait is one and a
/// half times the duration of the whole scenario with all rights. With all rights, a scenario waits as long as usual: a
/// garbage collector may take its time.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(3));
/// Environment variable that makes these runs follow the scenarios; a filter that begins with [`PREFIX`] does the same.
const VARIABLE: &str = "DEPGUARD_RIGHTS";
const PREFIX: &str = "rights:";

/// Number of scenarios that run at once if each has a testbed or a tree of workspaces of its own.
const TESTBEDS: usize = 6;

/// The scenario that fails without a right, by account and right.
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
    // On a testbed each run has a server or workspaces of its own. Elsewhere rights apply to a whole cluster.
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

/// Returns the printed line of a job: the terms, and the name of the scenario.
pub(super) fn line(terms: &Terms, name: &str) -> String {
    match terms {
        Terms { lacks: Some(right), .. } => format!("{PREFIX} without {right} of {} fails: {name}", right.account),
        Terms { patience: Some(_), .. } => format!("{PREFIX} with all of them: {name}"),
        Terms { .. } => name.to_owned(),
    }
}

/// Returns a number that no other world of this process has.
pub(super) fn next() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Judges the outcome of a scenario that lacks a right: the scenario has to fail.
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
    let control_plane = if kind.is_kcp() { ControlPlane::Kcp } else { ControlPlane::Kubernetes };
    let way = if kind.reads_through_exports() { ReadThrough::Export } else { ReadThrough::FrontProxy };
    let enable = match control_plane {
        // The kinds that the older tool's locks guard make no difference.
        ControlPlane::Kubernetes => {
            let features = [Feature::Locks, Feature::Owners, Feature::DenialEvents];
            Features::new(features, "pods".parse().ok())
        }
        ControlPlane::Kcp => Features::new([Feature::Locks], []),
    };
    let enable = Features { registers: Buckets::new(1), ..enable };
    Setup { enable, ..Setup::new(control_plane, way) }
}

/// Reads the rows of `docs/rights.md` below the heading of this setup: account, right, scenario.
fn read_table(setup: &Setup) -> Result<Table, String> {
    let heading = match (setup.control_plane, setup.read_through) {
        (ControlPlane::Kubernetes, _) => "## Plain Kubernetes",
        (ControlPlane::Kcp, ReadThrough::FrontProxy) => "## kcp, `--read-through front-proxy`",
        (ControlPlane::Kcp, ReadThrough::Export) => "## kcp, `--read-through export`",
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
