//! Runs the scenarios, and prints a line for each.

mod lacking;
mod tally;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use depguard_kcp::Feature;
use futures::FutureExt as _;
use futures::future::try_join_all;

use self::tally::Tally;
use crate::outcome::{Outcome, Stop};
use crate::ring::Ring;
use crate::selection::{self, RingKind};
use crate::world::{Terms, World};

/// Whether depguard takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It does.
    Guarded,
    /// It does not: what is refused otherwise must go through.
    Control,
}

impl Mode {
    fn letter(self) -> char {
        match self {
            Mode::Guarded => 's',
            Mode::Control => 'c',
        }
    }
}

/// Where a scenario makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Homes {
    /// On kcp and on a plain cluster.
    Both,
    /// Only where there are workspaces.
    Kcp,
    /// Only on a plain cluster.
    Kubernetes,
}

/// So many scenarios share a testbed that plays kcp, each in workspaces of its own.
const WORKSPACES: usize = 4;
/// So many share a real kcp.
const REAL_WORKSPACES: usize = 2;
/// So many clusters there are side by side.
const CLUSTERS: usize = 3;

type Run = Box<dyn Fn(Arc<World>) -> Pin<Box<dyn Future<Output = Outcome>>> + Send + Sync>;

/// Something that must be so on every ring.
pub struct Scenario {
    name: &'static str,
    homes: Homes,
    /// It sees a refusal, and so has a control.
    refuses: bool,
    /// It needs controllers that tear namespaces down.
    tears_down: bool,
    /// It changes workspaces that others would use after it.
    alone: bool,
    /// It shows what only a real API server does.
    real: bool,
    /// What is switched on beside rules.
    enables: &'static [Feature],
    run: Run,
}

impl Scenario {
    /// A scenario for both homes, with a control.
    pub fn new<F, R>(name: &'static str, run: F) -> Scenario
    where
        F: Fn(Arc<World>) -> R + Send + Sync + 'static,
        R: Future<Output = Outcome> + 'static,
    {
        let run: Run = Box::new(move |world| Box::pin(run(world)));
        let homes = Homes::Both;
        Scenario { name, homes, refuses: true, tears_down: false, alone: false, real: false, enables: &[], run }
    }

    /// Only where there are workspaces.
    pub fn on_kcp(self) -> Scenario {
        Scenario { homes: Homes::Kcp, ..self }
    }

    /// Only on a plain cluster.
    pub fn on_kubernetes(self) -> Scenario {
        Scenario { homes: Homes::Kubernetes, ..self }
    }

    /// Sees no refusal, so a control would show nothing.
    pub fn without_control(self) -> Scenario {
        Scenario { refuses: false, ..self }
    }

    /// Needs workspaces that no other scenario uses before or after it.
    pub fn alone(self) -> Scenario {
        Scenario { alone: true, ..self }
    }

    /// Shows what the testbed does not play.
    pub fn on_real_servers(self) -> Scenario {
        Scenario { real: true, ..self }
    }

    /// With locks. What they leave in a workspace is nothing for others.
    pub fn with_locks(self) -> Scenario {
        Scenario { enables: &[Feature::Locks], alone: true, ..self }
    }

    /// With global owners, which need a garbage collector.
    pub fn with_owners(self) -> Scenario {
        Scenario { enables: &[Feature::Owners], homes: Homes::Kubernetes, tears_down: true, ..self }
    }

    /// Needs controllers that tear namespaces down.
    pub fn tears_down(self) -> Scenario {
        Scenario { tears_down: true, ..self }
    }
}

/// One scenario in one mode.
struct Job {
    index: usize,
    mode: Mode,
    terms: Terms,
}

/// Runs what the command line and the environment choose, the rings side by side. True if nothing failed.
pub fn main(scenarios: &[Scenario]) -> bool {
    let filters: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if std::env::args().any(|argument| argument == "--list") {
        for scenario in scenarios {
            println!("{}: test", scenario.name);
        }
        return true;
    }
    let wanted = match selection::wanted(std::env::var(selection::VARIABLE).ok().as_deref()) {
        Ok(wanted) => wanted,
        Err(message) => {
            println!("{message}");
            return false;
        }
    };
    let tally = Tally::begin();
    println!();
    for kind in RingKind::ALL.into_iter().filter(|kind| !wanted.contains(kind)) {
        tally.skip(&format!("ring {}: skipped: {}={0} runs it", kind.name(), selection::VARIABLE));
    }
    std::thread::scope(|scope| {
        for kind in wanted {
            let (tally, filters) = (&tally, &filters);
            scope.spawn(move || match kind.programs() {
                Ok(programs) => run_ring(kind, &programs, scenarios, filters, tally),
                Err(reason) => tally.fail(format!("ring {}: cannot run: {reason}", kind.name())),
            });
        }
    });
    tally.conclude()
}

fn run_ring(kind: RingKind, programs: &selection::Programs, scenarios: &[Scenario], filters: &[String], tally: &Tally) {
    let start = Instant::now();
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return tally.fail(format!("ring {}: {error}", kind.name())),
    };
    let lanes = match runtime.block_on(lanes(kind, programs)) {
        Ok(lanes) => lanes,
        Err(stop) => return tally.fail(format!("ring {}: did not start: {stop}", kind.name())),
    };
    let Some(ring) = lanes.first() else { return tally.fail(format!("ring {}: has no lane", kind.name())) };
    println!("ring {}: started, {} lanes ({:.1} s)", kind.name(), lanes.len(), start.elapsed().as_secs_f32());

    let mut jobs = VecDeque::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        let elsewhere = match scenario.homes {
            Homes::Both => false,
            Homes::Kcp => !kind.is_kcp(),
            Homes::Kubernetes => kind.is_kcp(),
        };
        if elsewhere || (scenario.real && kind.is_testbed()) {
            continue;
        }
        for mode in [Mode::Guarded, Mode::Control] {
            // How depguard reads is nothing to a server without depguard: the other ring of the same server has the control.
            if mode == Mode::Control && (!scenario.refuses || kind.reads_through_exports()) {
                continue;
            }
            if !filters.is_empty() && !filters.iter().any(|filter| line(scenario, mode).contains(filter.as_str())) {
                tally.filter_out(1);
            } else if scenario.tears_down && !ring.has_controllers() {
                let line = line(scenario, mode);
                tally.skip(&format!("ring {}: skipped {line}: no kube-controller-manager here", kind.name()));
            } else {
                jobs.push_back(Job { index, mode, terms: Terms::default() });
            }
        }
    }
    let owns =
        jobs.iter().any(|job| scenarios.get(job.index).is_some_and(|one| one.enables.contains(&Feature::Owners)));
    run_jobs(&runtime, &lanes, scenarios, jobs, tally);
    lacking::run(&runtime, &lanes, scenarios, filters, tally);
    // No rule of any scenario names Secrets as dependents; an owner may be told to own them, by the controller.
    let asked = |ring: &Arc<Ring>| ring.in_process().map(|testbed| testbed.askers("", "secrets")).unwrap_or_default();
    let askers: BTreeSet<_> = lanes.iter().flat_map(asked).collect();
    let may_ask = |asker: &str| owns && asker.ends_with(":depguard-controller");
    for account in askers.iter().filter(|asker| asker.contains(":depguard-system:") && !may_ask(asker)) {
        tally.fail(format!("ring {}: {account} asked for Secrets", kind.name()));
    }
    drop(lanes);
    runtime.shutdown_timeout(Duration::from_secs(2));
}

/// The servers that scenarios of one ring run on side by side, most of which is waiting: on kcp one server several times,
/// as workspaces keep scenarios apart; else several clusters.
async fn lanes(kind: RingKind, programs: &selection::Programs) -> Outcome<Vec<Arc<Ring>>> {
    if kind.is_kcp() {
        let ring = Arc::new(Ring::start(kind, programs).await?);
        return Ok(vec![ring; if kind.is_testbed() { WORKSPACES } else { REAL_WORKSPACES }]);
    }
    let rings = (0..CLUSTERS).map(|_| Ring::start(kind, programs));
    Ok(try_join_all(rings).await?.into_iter().map(Arc::new).collect())
}

/// Runs the jobs, as many at once as there are lanes, each on the ring of its lane. Gives how long each scenario took that
/// passed.
fn run_jobs(
    runtime: &tokio::runtime::Runtime,
    lanes: &[Arc<Ring>],
    scenarios: &[Scenario],
    jobs: VecDeque<Job>,
    tally: &Tally,
) -> BTreeMap<usize, Duration> {
    let jobs = Mutex::new(jobs);
    let passed = Mutex::new(BTreeMap::new());
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        for (lane, ring) in (1..).zip(lanes) {
            let (next, passed) = (&next, &passed);
            scope.spawn(move || {
                while let Some(job) = next() {
                    let scenario = &scenarios[job.index];
                    let start = Instant::now();
                    let outcome = run_job(runtime, ring, scenario, &job, lane);
                    let took = start.elapsed();
                    let line = lacking::line(&job.terms, &line(scenario, job.mode));
                    tally.record(ring.kind(), &line, &outcome, took);
                    if outcome.is_ok() {
                        passed.lock().unwrap_or_else(PoisonError::into_inner).insert(job.index, took);
                    }
                }
            });
        }
    });
    passed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a scenario on a runtime of its own: whatever of depguard it leaves running ends with it.
fn run_job(
    runtime: &tokio::runtime::Runtime,
    ring: &Arc<Ring>,
    scenario: &Scenario,
    job: &Job,
    lane: usize,
) -> Outcome {
    let (mut id, mut tree) = (format!("{}{}", job.mode.letter(), job.index + 1), format!("lane{lane}"));
    let mut ring = Arc::clone(ring);
    if job.terms.patience.is_some() {
        // Rights are of the whole server, or of a whole tree of workspaces.
        id = format!("r{}", lacking::next());
        if ring.kind() == RingKind::TestbedKubernetes {
            ring = Arc::new(runtime.block_on(Ring::start(ring.kind(), &selection::Programs::None))?);
        }
    }
    if scenario.alone || job.terms.patience.is_some() {
        tree = id.clone();
    }
    let limit = ring.patience() * 5;
    let own = self::runtime()?;
    let terms = Terms { enables: scenario.enables, ..job.terms.clone() };
    let world = Arc::new(own.block_on(World::create_on(terms, ring, job.mode, &id, &tree))?);
    let run = own.block_on(async {
        let run = AssertUnwindSafe((scenario.run)(Arc::clone(&world))).catch_unwind();
        tokio::time::timeout(limit, run).await
    });
    own.shutdown_timeout(Duration::from_secs(1));
    let cleaned = runtime.block_on(world.clean());
    match run {
        Err(_) => Err(Stop::Failed(format!("did not end within {} s", limit.as_secs()))),
        Ok(Err(_)) => Err(Stop::failed("panicked")),
        Ok(Ok(outcome)) if job.terms.lacks.is_some() => lacking::judge(outcome).and(cleaned),
        Ok(Ok(outcome)) => judge(job.mode, outcome).and(cleaned),
    }
}

fn judge(mode: Mode, outcome: Outcome) -> Outcome {
    match (mode, outcome) {
        (Mode::Guarded, Ok(())) | (Mode::Control, Err(Stop::ControlSeen)) => Ok(()),
        (Mode::Control, Ok(())) => Err(Stop::failed("never came to the deletion that depguard refuses")),
        (Mode::Guarded, Err(Stop::ControlSeen)) => Err(Stop::failed("ended as a control")),
        (_, Err(stop)) => Err(stop),
    }
}

fn line(scenario: &Scenario, mode: Mode) -> String {
    match mode {
        Mode::Guarded => scenario.name.to_owned(),
        Mode::Control => format!("control: without depguard the deletion goes through: {}", scenario.name),
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}
