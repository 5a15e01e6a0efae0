//! Single DELETEs, with the subjects taking turns.

use std::collections::HashMap;
use std::time::Duration;

use crate::Result;
use crate::scene::{Cost, Scene, Subject};

/// Cost of one DELETE or of one bare list: medians, except for the peak.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    pub(crate) subject: Subject,
    pub(crate) allowed: bool,
    pub(crate) rounds: usize,
    pub(crate) time: Duration,
    pub(crate) cpu: Duration,
    pub(crate) peak: u64,
    pub(crate) begun: Option<u64>,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) failures: usize,
    pub(crate) failure: String,
}

/// Maximum of rounds for the stand-in, which takes long and needs much memory.
const STAND_IN_ROUNDS: usize = 5;

pub(crate) async fn run(scene: &mut Scene<'_>, rounds: usize) -> Result<Vec<Figures>> {
    let mut turns = vec![(Subject::Floor, true)];
    for subject in Subject::answering(&scene.amounts) {
        turns.push((subject, true));
        if subject != Subject::Unnamed {
            turns.push((subject, false));
        }
    }
    let mut line = scene.lines(1).await?.pop().ok_or("no connection")?;
    let mut costs: HashMap<(Subject, bool), Vec<Cost>> = HashMap::new();
    let mut asked = HashMap::new();
    // The first round is not measured, but its requests are counted.
    for round in 0..=rounds {
        for &(subject, allowed) in &turns {
            if subject == Subject::StandIn && round > STAND_IN_ROUNDS {
                continue;
            }
            let before = if round == 0 { Some(scene.lists(subject).await?) } else { None };
            let cost = match subject {
                Subject::Floor => scene.drain().await?.1,
                _ => scene.delete(subject, &mut line, allowed).await?,
            };
            match before {
                Some(before) => {
                    asked.insert((subject, allowed), scene.lists(subject).await? - before);
                }
                None => costs.entry((subject, allowed)).or_default().push(cost),
            }
        }
    }
    Ok(turns
        .into_iter()
        .filter_map(|turn| {
            let (costs, asked) = (costs.get(&turn)?, asked.get(&turn)?);
            Some(Figures {
                subject: turn.0,
                allowed: turn.1,
                rounds: costs.len(),
                time: median(costs.iter().map(|cost| cost.time)),
                cpu: median(costs.iter().map(|cost| cost.cpu)),
                peak: costs.iter().map(|cost| cost.peak).max()?,
                begun: asked.begun,
                requests: asked.requests,
                bytes: asked.bytes,
                failures: costs.iter().map(|cost| cost.failures).sum(),
                failure: costs
                    .iter()
                    .map(|cost| cost.failure.clone())
                    .find(|text| !text.is_empty())
                    .unwrap_or_default(),
            })
        })
        .collect())
}

pub(crate) fn median<T: Ord + Copy + Default>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}
