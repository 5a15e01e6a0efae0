//! Many concurrent DELETEs, and collection deletes.

use crate::Result;
use crate::plan::Case;
use crate::scene::{Cost, Scene, Subject};
use crate::server::Lists;

/// Number of runs of each flood, except the stand-in's. The run with the median time is shown.
const REPEATS: usize = 3;

/// Concurrent deletes of free targets.
#[derive(Debug, Clone)]
pub(crate) struct Flood {
    pub(crate) subject: Subject,
    pub(crate) at_once: usize,
    pub(crate) cost: Cost,
    pub(crate) lists: Lists,
}

pub(crate) async fn run(scene: &mut Scene<'_>, case: &Case) -> Result<Vec<Flood>> {
    let mut floods = Vec::new();
    for &at_once in &case.floods {
        for subject in Subject::answering(&scene.amounts) {
            if subject == Subject::StandIn && !case.has_room_for_stand_ins(at_once) {
                continue;
            }
            floods.push(flood(scene, subject, at_once).await?);
        }
    }
    Ok(floods)
}

pub(crate) async fn flood(scene: &mut Scene<'_>, subject: Subject, at_once: usize) -> Result<Flood> {
    let repeats = if subject == Subject::StandIn { 1 } else { REPEATS };
    let mut all = Vec::new();
    let mut lines = scene.lines(at_once).await?;
    for _ in 0..repeats {
        let before = scene.lists(subject).await?;
        let cost = scene.delete_at_once(subject, &mut lines).await?;
        all.push(Flood { subject, at_once, cost, lists: scene.lists(subject).await? - before });
    }
    all.sort_by_key(|flood| flood.cost.time);
    let failures = all.iter().map(|flood| flood.cost.failures).max().unwrap_or(0);
    let peak = all.iter().map(|flood| flood.cost.peak).max().unwrap_or(0);
    let mut shown = all.swap_remove(repeats / 2);
    shown.cost.failures = failures;
    shown.cost.peak = peak;
    Ok(shown)
}

/// Measures collection deletes of 200 targets, with and without push-down.
pub(crate) async fn collections(scene: &mut Scene<'_>, case: &Case) -> Result<Vec<Flood>> {
    let mut all = Vec::new();
    if case.sets == 0 {
        return Ok(all);
    }
    let mut line = scene.lines(1).await?.pop().ok_or("no connection")?;
    for subject in [Subject::Lists, Subject::Selects] {
        let before = scene.lists(subject).await?;
        let cost = scene.delete_sets(subject, &mut line, case.sets).await?;
        let at_once = case.sets * case.amounts.set;
        all.push(Flood { subject, at_once, cost, lists: scene.lists(subject).await? - before });
    }
    Ok(all)
}
