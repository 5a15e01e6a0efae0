//! Runs the scenarios, and prints a line for each.

mod lacking;

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use depguard_kcp::Feature;
use futures::FutureExt as _;

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

/// What became of all of them.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
    filtered: usize,
    failures: Vec<String>,
}

/// One scenario in one mode.
struct Job {
    index: usize,
    mode: Mode,
    terms: Terms,
}

/// Runs what the command line and the environment choose. True if nothing failed.
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
    let start = Instant::now();
    let mut tally = Tally::default();
    for ring in wanted {
        println!();
        match ring.programs() {
            Ok(programs) => run_ring(ring.kind, &programs, scenarios, &filters, &mut tally),
            Err(reason) if ring.named => tally.fail(format!("ring {}: cannot run: {reason}", ring.kind.name())),
            Err(reason) => {
                println!("ring {}: skipped: {reason}", ring.kind.name());
                tally.skipped += 1;
            }
        }
    }
    tally.print(start.elapsed())
}

fn run_ring(
    kind: RingKind,
    programs: &selection::Programs,
    scenarios: &[Scenario],
    filters: &[String],
    tally: &mut Tally,
) {
    let start = Instant::now();
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return tally.fail(format!("ring {}: {error}", kind.name())),
    };
    let ring = match runtime.block_on(Ring::start(kind, programs)) {
        Ok(ring) => Arc::new(ring),
        Err(stop) => return tally.fail(format!("ring {}: did not start: {stop}", kind.name())),
    };
    println!("ring {}: started ({:.1} s)", kind.name(), start.elapsed().as_secs_f32());

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
                tally.filtered += 1;
            } else if scenario.tears_down && !ring.has_controllers() {
                println!("ring {}: skipped {}: no kube-controller-manager here", kind.name(), line(scenario, mode));
                tally.skipped += 1;
            } else {
                jobs.push_back(Job { index, mode, terms: Terms::default() });
            }
        }
    }
    // Workspaces keep scenarios apart.
    let lanes = if kind.is_kcp() { 2 } else { 1 };
    let owns =
        jobs.iter().any(|job| scenarios.get(job.index).is_some_and(|one| one.enables.contains(&Feature::Owners)));
    run_jobs(&runtime, &vec![Arc::clone(&ring); lanes], scenarios, jobs, tally);
    lacking::run(&runtime, &lacking::Rings { first: &ring, programs }, scenarios, filters, tally);
    // No rule of any scenario names Secrets as dependents; an owner may be told to own them, by the controller.
    let askers = ring.in_process().map(|testbed| testbed.askers("", "secrets")).unwrap_or_default();
    let may_ask = |asker: &str| owns && asker.ends_with(":depguard-controller");
    for account in askers.iter().filter(|asker| asker.contains(":depguard-system:") && !may_ask(asker)) {
        tally.fail(format!("ring {}: {account} asked for Secrets", kind.name()));
    }
    drop(ring);
    runtime.shutdown_timeout(Duration::from_secs(2));
}

/// Runs the jobs, as many at once as there are lanes, each on the ring of its lane. Gives how long each scenario took that
/// passed.
fn run_jobs(
    runtime: &tokio::runtime::Runtime,
    lanes: &[Arc<Ring>],
    scenarios: &[Scenario],
    jobs: VecDeque<Job>,
    tally: &mut Tally,
) -> BTreeMap<usize, Duration> {
    let jobs = Mutex::new(jobs);
    let shared = Mutex::new((tally, BTreeMap::new()));
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        for (lane, ring) in (1..).zip(lanes) {
            let (next, shared) = (&next, &shared);
            scope.spawn(move || {
                while let Some(job) = next() {
                    let scenario = &scenarios[job.index];
                    let start = Instant::now();
                    let outcome = run_job(runtime, ring, scenario, &job, lane);
                    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    let line = lacking::line(&job.terms, &line(scenario, job.mode));
                    let took = start.elapsed();
                    shared.0.record(ring.kind(), &line, &outcome, took);
                    if outcome.is_ok() {
                        shared.1.insert(job.index, took);
                    }
                }
            });
        }
    });
    shared.into_inner().unwrap_or_else(PoisonError::into_inner).1
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

impl Tally {
    fn record(&mut self, kind: RingKind, name: &str, outcome: &Outcome, took: Duration) {
        let (kind, took) = (kind.name(), took.as_secs_f32());
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("ring {kind}: ok   {name} ({took:.1} s)");
            }
            Err(Stop::Skipped(reason)) => {
                self.skipped += 1;
                println!("ring {kind}: skipped {name}: {reason}");
            }
            Err(stop) => self.fail(format!("ring {kind}: FAIL {name} ({took:.1} s): {stop}")),
        }
    }

    fn fail(&mut self, line: String) {
        println!("{line}");
        self.failed += 1;
        self.failures.push(line);
    }

    fn print(&self, took: Duration) -> bool {
        println!();
        for failure in &self.failures {
            println!("{failure}");
        }
        println!("scenarios: {} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped);
        // As the standard test harness ends, for what reads its output.
        println!(
            "test result: {}. {} passed; {} failed; {} ignored; 0 measured; {} filtered out; finished in {:.2}s",
            if self.failed == 0 { "ok" } else { "FAILED" },
            self.passed,
            self.failed,
            self.skipped,
            self.filtered,
            took.as_secs_f32(),
        );
        self.failed == 0
    }
}
