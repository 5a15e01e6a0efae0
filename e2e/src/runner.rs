//! Runs the scenarios and prints a line for each.

mod lacking;
mod tally;

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use depguard_kcp::{Feature, RegisterKeySecret};
use futures::FutureExt as _;
use futures::future::try_join_all;

use self::tally::Tally;
use crate::outcome::{Outcome, Stop};
use crate::ring::Ring;
use crate::selection::{self, RingKind};
use crate::world::{Mode, Terms, World};

/// Kinds of rings on which a scenario makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlPlanes {
    /// On kcp and on a plain cluster.
    Both,
    /// Only on kcp.
    Kcp,
    /// Only on a plain cluster.
    Kubernetes,
    /// Only on the ring of Kubernetes' own tests.
    Conformance,
}

/// Rings on which a scenario runs, by whether shards are processes of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shards {
    /// The scenario runs on rings with one server only.
    Never,
    /// The scenario also runs on a kcp of several shards.
    Too,
    /// The scenario runs only on a kcp of several shards. If it stops a shard, no other scenario runs meanwhile.
    Only {
        /// Set if the scenario stops a shard.
        stops: bool,
    },
}

/// Number of scenarios that share a testbed that plays kcp, each in workspaces of its own.
const WORKSPACES: usize = 5;
/// Number of scenarios that share a real kcp.
const REAL_WORKSPACES: usize = 2;
/// Number of testbeds that play a cluster side by side.
const CLUSTERS: usize = 4;
/// Number of real clusters that run side by side. Scenarios wait longer on them.
const REAL_CLUSTERS: usize = 6;

type Run = Box<dyn Fn(Arc<World>) -> Pin<Box<dyn Future<Output = Outcome>>> + Send + Sync>;

/// A property that must hold on every ring, and the code that tries it.
pub struct Scenario {
    name: &'static str,
    control_planes: ControlPlanes,
    /// Set if the scenario expects a refusal; then it also runs as a control.
    refuses: bool,
    /// Set if the scenario needs controllers that tear namespaces down.
    tears_down: bool,
    /// Set if the scenario changes its workspaces in a way that others would notice.
    alone: bool,
    /// Set if the scenario needs a real API server.
    real: bool,
    shards: Shards,
    /// Features enabled beside rules.
    enables: &'static [Feature],
    /// Number of reference registers; 0: no interlock.
    registers: u16,
    /// Maximum duration, as a multiple of the ring's patience.
    limit: u32,
    run: Run,
}

impl Scenario {
    /// Creates a scenario for kcp and plain clusters, with a control.
    pub fn new<F, R>(name: &'static str, run: F) -> Scenario
    where
        F: Fn(Arc<World>) -> R + Send + Sync + 'static,
        R: Future<Output = Outcome> + 'static,
    {
        let run: Run = Box::new(move |world| Box::pin(run(world)));
        let (control_planes, shards) = (ControlPlanes::Both, Shards::Never);
        Scenario {
            name,
            control_planes,
            refuses: true,
            tears_down: false,
            alone: false,
            real: false,
            shards,
            enables: &[],
            registers: 0,
            limit: 5,
            run,
        }
    }

    /// Runs only on kcp.
    pub fn on_kcp(self) -> Scenario {
        Scenario { control_planes: ControlPlanes::Kcp, ..self }
    }

    /// Runs only on a plain cluster.
    pub fn on_kubernetes(self) -> Scenario {
        Scenario { control_planes: ControlPlanes::Kubernetes, ..self }
    }

    /// Runs only on the ring of Kubernetes' own tests, without a control.
    pub fn on_conformance(self) -> Scenario {
        Scenario { control_planes: ControlPlanes::Conformance, ..self.without_control() }
    }

    /// Runs without a control: the scenario expects no refusal, so a control would show nothing.
    pub fn without_control(self) -> Scenario {
        Scenario { refuses: false, ..self }
    }

    /// Runs in workspaces that no other scenario uses before or after.
    pub fn alone(self) -> Scenario {
        Scenario { alone: true, ..self }
    }

    /// Runs on real servers only: the testbed does not play what this scenario shows.
    pub fn on_real_servers(self) -> Scenario {
        Scenario { real: true, ..self }
    }

    /// Runs on a kcp of several shards, too.
    pub fn on_shards_too(self) -> Scenario {
        Scenario { shards: Shards::Too, ..self }
    }

    /// Runs only on a kcp of several shards.
    pub fn on_shards(self) -> Scenario {
        Scenario { shards: Shards::Only { stops: false }, ..self.on_kcp().alone() }
    }

    /// Runs only on a kcp of several shards, and stops a shard: nothing else runs meanwhile.
    pub fn stops_a_shard(self) -> Scenario {
        Scenario { shards: Shards::Only { stops: true }, ..self.on_shards() }
    }

    fn is_for(&self, kind: RingKind) -> bool {
        let is_on_this_control_plane = match self.control_planes {
            ControlPlanes::Conformance => kind == RingKind::Conformance,
            _ if kind == RingKind::Conformance => false,
            ControlPlanes::Both => true,
            ControlPlanes::Kcp => kind.is_kcp(),
            ControlPlanes::Kubernetes => !kind.is_kcp(),
        };
        let is_served = match self.shards {
            Shards::Never => !kind.is_sharded(),
            Shards::Too => true,
            Shards::Only { .. } => kind.is_sharded(),
        };
        is_on_this_control_plane && is_served && !(self.real && kind.is_testbed())
    }

    /// Enables locks. The scenario runs in workspaces of its own, because the locks it leaves are not for others.
    pub fn with_locks(self) -> Scenario {
        Scenario { enables: &[Feature::Locks], alone: true, ..self }
    }

    /// Enables global owners, which need a garbage collector.
    pub fn with_owners(self) -> Scenario {
        Scenario { enables: &[Feature::Owners], control_planes: ControlPlanes::Kubernetes, tears_down: true, ..self }
    }

    /// Enables Events about refusals.
    pub fn with_denial_events(self) -> Scenario {
        Scenario { enables: &[Feature::DenialEvents], control_planes: ControlPlanes::Kubernetes, ..self }
    }

    /// Interlocks references with deletions, by so many reference registers.
    pub fn interlocked_by(self, registers: u16) -> Scenario {
        Scenario { registers, ..self.alone() }
    }

    /// Lets the scenario last for so many times the ring's patience.
    pub fn lasting(self, limit: u32) -> Scenario {
        Scenario { limit, ..self }
    }

    /// Runs only with controllers that tear namespaces down.
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

/// Runs the scenarios and rings that the command line and the environment choose, the rings side by side. Returns true
/// if nothing failed.
pub fn main(scenarios: &[Scenario]) -> bool {
    let filters: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if std::env::args().any(|argument| argument == "--list") {
        for scenario in scenarios {
            println!("{}: test", scenario.name);
        }
        return true;
    }
    let selected = match selection::selected(std::env::var(selection::VARIABLE).ok().as_deref()) {
        Ok(selected) => selected,
        Err(message) => {
            println!("{message}");
            return false;
        }
    };
    let tally = Tally::begin();
    println!();
    for kind in RingKind::ALL.into_iter().filter(|kind| !selected.contains(kind)) {
        tally.skip(&format!("ring {}: skipped: {}={0} runs it", kind.name(), selection::VARIABLE));
    }
    std::thread::scope(|scope| {
        for kind in selected {
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
        if !scenario.is_for(kind) {
            continue;
        }
        for mode in [Mode::Guarded, Mode::Control] {
            // A control runs without depguard, so the way in which depguard reads makes no difference: the other ring
            // of the same server runs the control.
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
    let stops = |job: &Job| scenarios.get(job.index).is_some_and(|one| one.shards == Shards::Only { stops: true });
    let (stopping, jobs) = jobs.into_iter().partition(|job| job.mode == Mode::Guarded && stops(job));
    run_jobs(&runtime, &lanes, scenarios, jobs, tally);
    run_jobs(&runtime, lanes.get(..1).unwrap_or_default(), scenarios, stopping, tally);
    if kind != RingKind::Conformance {
        lacking::run(&runtime, &lanes, scenarios, filters, tally);
    }
    // No scenario's rule names Secrets as dependents. A GlobalOwner may own Secrets; then the controller may ask for all
    // of them. Both processes may ask for the Secret with the key of the registers, which the controller makes.
    let key = RegisterKeySecret::NAME;
    let may_ask = |asker: &str, asked: &str| match asker.ends_with(":depguard-controller") {
        true => {
            owns || asked == "create" || [format!("get {key}"), format!("delete {key}")].contains(&asked.to_owned())
        }
        false => asked == format!("get {key}"),
    };
    for testbed in lanes.iter().filter_map(|ring| ring.in_process()) {
        for (asker, asked) in testbed.asked("", "secrets") {
            let is_own = asker.contains(":depguard-system:");
            for asked in asked.into_iter().filter(|asked| is_own && !may_ask(&asker, asked)) {
                tally.fail(format!("ring {}: {asker} asked for Secrets: {asked}", kind.name()));
            }
        }
    }
    drop(lanes);
    runtime.shutdown_timeout(Duration::from_secs(2));
}

/// Starts the servers of a ring, one for each lane. The lanes run side by side, because a scenario mostly waits. On
/// kcp, all lanes share one server, because workspaces keep scenarios apart; elsewhere each lane has a cluster of its
/// own.
async fn lanes(kind: RingKind, programs: &selection::Programs) -> Outcome<Vec<Arc<Ring>>> {
    if kind.is_kcp() {
        let ring = Arc::new(Ring::start(kind, programs).await?);
        return Ok(vec![ring; if kind.is_testbed() { WORKSPACES } else { REAL_WORKSPACES }]);
    }
    let clusters = match kind {
        RingKind::Conformance => 1,
        _ if kind.is_testbed() => CLUSTERS,
        _ => REAL_CLUSTERS,
    };
    let rings = (0..clusters).map(|_| Ring::start(kind, programs));
    Ok(try_join_all(rings).await?.into_iter().map(Arc::new).collect())
}

/// Runs the jobs, one at a time in each lane, on the lane's ring. Returns the duration of each scenario that passed.
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

/// Runs a scenario on a runtime of its own: any part of depguard that the scenario leaves running ends with the
/// runtime.
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
        // Rights apply to a whole server, or to a whole tree of workspaces.
        id = format!("r{}", lacking::next());
        if ring.kind() == RingKind::TestbedKubernetes {
            ring = Arc::new(runtime.block_on(Ring::start(ring.kind(), &selection::Programs::None))?);
        }
    }
    if scenario.alone || job.terms.patience.is_some() {
        tree = id.clone();
    }
    let limit = ring.patience() * scenario.limit;
    let own = self::runtime()?;
    let terms = Terms { enables: scenario.enables, registers: scenario.registers, ..job.terms.clone() };
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
