//! depguard under faults: a stock webhook and a stock controller on the testbed, and deletions while everything around
//! them fails. A checker decides by the journal of the API server.
//!
//! `cargo run -p depguard-faults -- --seed 1 --deletes 10000`

mod checker;
pub mod crash;
mod disturb;
mod kinds;
mod plan;
mod random;
mod round;
mod scene;
mod summary;

use std::time::Instant;

pub use depguard_webhook::ReadThrough;
pub use kinds::Pair;
pub use plan::{Fault, Plan, Round, Story, Target};
pub use scene::Scene;
pub use summary::Summary;

use checker::{History, Outcome, check};
use round::{Log, play};

/// Result of the run's own operations.
pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Number of dependents of each kind that refer to nothing. They give lists several pages.
const BYSTANDERS: usize = 200;

/// Options of a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Seed of the whole plan: the faults, their times, and the deletions in them.
    pub seed: u64,
    /// Number of objects to delete.
    pub deletes: usize,
    /// Faults to choose from; empty for all.
    pub only: Vec<Fault>,
    /// Way in which dependents are read.
    pub read_through: ReadThrough,
    /// Set to end with the round that shows the first violation.
    pub until_violation: bool,
    /// Set to report each round on standard error.
    pub tell: bool,
}

/// Runs the plan that the seed draws.
pub async fn run(options: &Options) -> Result<Summary> {
    let begun = Instant::now();
    let plan = Plan::draw(options.seed, options.deletes, &options.only);
    let mut summary = Summary { seed: options.seed, ..Summary::default() };
    let mut scene = Scene::start(BYSTANDERS, options.read_through).await?;
    let mut log = Log::new(Instant::now());
    // The rules are in force beyond doubt from here on. The checker passes over earlier deletions.
    tokio::time::sleep(disturb::LAG).await;
    for (number, round) in plan.rounds.iter().enumerate() {
        let from = Instant::now();
        play(&mut scene, round, &mut log).await?;
        summary.deletes += round.targets.len();
        if options.tell {
            let (name, took) = (round.fault.name(), from.elapsed().as_secs_f32());
            eprintln!(
                "round {} of {}: {name}, {} deletes, {took:.1} s",
                number + 1,
                plan.rounds.len(),
                round.targets.len()
            );
        }
        if options.until_violation && !verdict_on(&scene, &log).violations.is_empty() {
            break;
        }
    }
    let verdict = verdict_on(&scene, &log);
    scene.stop().await;
    summary.faults = log.hits.clone();
    summary.requests = log.attempts.len();
    for attempt in &log.attempts {
        summary.refused += usize::from(matches!(attempt.outcome, Outcome::Refused(_)));
        summary.unanswered += usize::from(matches!(attempt.outcome, Outcome::Unanswered(_)));
    }
    (summary.referenced, summary.just) = (verdict.referenced, verdict.just);
    summary.violations = verdict.violations;
    summary.took = begun.elapsed();
    Ok(summary)
}

fn verdict_on(scene: &Scene, log: &Log) -> checker::Verdict {
    check(&History::from_events(&scene.testbed.journal()), &log.attempts, &log.spans)
}
