//! Removal of GlobalOwners while their controller is killed at its writes. A checker decides by the journal of the API
//! server.
//!
//! Each graph has an API server of its own, with its garbage collector, the stock webhook, and a controller that writes
//! as its own user. The controller is killed at a write, before the write reaches the API server or after it took
//! effect. Then another controller is started, until the GlobalOwner is gone. In one graph in three, the controller is
//! killed at every write, once before and once after.

mod checker;
mod control;
mod stage;
mod world;

use std::fmt;
use std::time::{Duration, Instant};

use depguard_testbed::Death;
use futures::{StreamExt, stream};

pub use control::{Mistake, control};

use crate::Result;
use crate::random::Random;
use checker::check;
use stage::Stage;
use world::World;

/// Maximum of graphs at a time: most of their time they wait.
const MAX_CONCURRENT_RUNS: usize = 6;
/// Time limit of one removal, including the kills. A longer one counts as endless.
const PATIENCE: Duration = Duration::from_secs(240);

/// Results of the runs.
#[derive(Debug, Default)]
pub struct Summary {
    /// Number of graphs that were drawn and removed.
    pub graphs: usize,
    /// Number of these that were released instead.
    pub released: usize,
    /// Number of their objects.
    pub objects: usize,
    /// Number of times that a controller was killed.
    pub kills: usize,
    /// Number of the GlobalOwners' statuses that reported stuck objects.
    pub refusals: usize,
    /// Duration of the runs.
    pub took: Duration,
    /// Violations that the checker found.
    pub violations: Vec<String>,
}

/// Draws this many graphs, and removes each.
pub async fn run(seed: u64, graphs: usize) -> Result<Summary> {
    let begun = Instant::now();
    let runs = stream::iter(0..graphs).map(|graph| async move {
        let (seed, drawn) =
            (seed.wrapping_add(graph as u64), World::draw(seed.wrapping_add(graph as u64), graph % 3 == 0));
        (seed, one(drawn, seed).await)
    });
    let mut runs = runs.buffer_unordered(MAX_CONCURRENT_RUNS);
    let mut all = Summary::default();
    while let Some((seed, summary)) = runs.next().await {
        let summary = summary?;
        all.graphs += 1;
        all.released += summary.released;
        all.objects += summary.objects;
        all.kills += summary.kills;
        all.refusals += summary.refusals;
        all.violations.extend(summary.violations.into_iter().map(|violation| format!("seed {seed}: {violation}")));
    }
    all.took = begun.elapsed();
    Ok(all)
}

async fn one(world: World, seed: u64) -> Result<Summary> {
    let mut random = Random::new(seed ^ 0x5eed);
    let mut stage = Stage::set(&world).await?;
    let (begun, mut kills) = (Instant::now(), 0);
    let mut ended = true;
    stage.raise(&world).await?;
    loop {
        let (gap, death) = match world.at_every_write {
            true => (0, if kills % 2 == 0 { Death::Before } else { Death::After }),
            false => (random.below(9), if random.below(2) == 0 { Death::Before } else { Death::After }),
        };
        stage.die_in(gap, death);
        let controller = stage.controller().await?;
        let is_gone = tokio::select! {
            () = stage.died() => false,
            gone = stage.until_gone(&world) => { gone?; true }
            () = tokio::time::sleep(PATIENCE.saturating_sub(begun.elapsed())) => { ended = false; true }
        };
        controller.kill();
        if is_gone {
            break;
        }
        kills += 1;
        if world.unseen && kills > world.delete_after.min(10) {
            stage.end_owner(&world).await?;
        }
        stage.revive();
    }
    let journal = stage.end().await?;
    let mut verdict = check(&world, &journal);
    if !ended {
        verdict.violations.push(format!("the GlobalOwner still exists after {} s", PATIENCE.as_secs()));
    }
    Ok(Summary {
        graphs: 1,
        released: usize::from(world.is_released()),
        objects: world.objects.len(),
        kills,
        refusals: verdict.stuck,
        took: begun.elapsed(),
        violations: verdict.violations,
    })
}

/// Writes `12 graphs, 310 kill points, 0 violations (…)`.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { graphs, released, objects, kills, refusals, took, violations } = self;
        write!(
            f,
            "{graphs} graphs, {kills} kill points, {} violations ({released} graphs released, {objects} objects, \
             {refusals} statuses that reported a refusal, {:.0} s)",
            violations.len(),
            took.as_secs_f32()
        )
    }
}
