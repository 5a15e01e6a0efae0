//! Deletes the objects of one wave, and waits until they are gone.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::leftover::LeftoverReason;
use super::plan::Plan;
use super::print::line;
use super::request::{Answer, ObjectState, Requests};
use super::wait::{self, FIRST_PAUSE, MAX_PAUSE, Sighting};
use crate::engine::reference_scan::Object;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;

/// First wave of a plan, to be deleted.
pub(super) struct Wave<'a> {
    pub(super) plan: &'a Plan,
    pub(super) requests: &'a Requests,
    /// Time limit.
    pub(super) timeout: Duration,
    /// Signal to stop: it turns true.
    pub(super) stop: watch::Receiver<bool>,
    /// True to print only names.
    pub(super) names_only: bool,
    /// Name of the wave on the progress bar.
    pub(super) title: String,
}

/// Objects of a wave after its deletion.
#[derive(Default)]
pub(super) struct WaveResult {
    pub(super) gone: Vec<usize>,
    /// Objects among those that are gone whose names other objects have now.
    pub(super) made_anew: Vec<usize>,
    pub(super) left: Vec<(usize, LeftoverReason)>,
}

/// Limit on concurrent deletions.
const MAX_CONCURRENT_DELETIONS: usize = 8;

impl Wave<'_> {
    /// Deletes the objects.
    pub(super) async fn delete(&self, terminal: &mut Terminal) -> Result<WaveResult, Failure> {
        let deadline = Instant::now() + self.timeout;
        let (mut result, mut going) = (WaveResult::default(), BTreeMap::<usize, Vec<String>>::new());
        let mut asked = stream::iter(self.plan.waves.first().cloned().unwrap_or_default())
            .map(|object| async move { (object, self.ask(object, deadline).await) })
            .buffer_unordered(MAX_CONCURRENT_DELETIONS);
        while let Some((object, refused)) = asked.next().await {
            match refused {
                None => drop(going.insert(object, Vec::new())),
                Some(why) => result.left.push((object, why)),
            }
        }
        drop(asked);
        let progress = terminal.progress(&self.title);
        let objects = |going: &BTreeMap<usize, Vec<String>>| {
            let objects = going.keys().filter_map(|index| Some((*index, self.plan.object(*index)?)));
            objects.collect::<Vec<_>>().into_iter()
        };
        let first = objects(&going);
        let mut see = |going: &mut BTreeMap<usize, Vec<String>>, Sighting { object, state }| {
            match state {
                ObjectState::There { finalizers } => drop(going.insert(object, finalizers)),
                ObjectState::Unknown(_) => {}
                ObjectState::Gone | ObjectState::MadeAnew => {
                    going.remove(&object);
                    result.gone.push(object);
                    result.made_anew.extend((state == ObjectState::MadeAnew).then_some(object));
                    progress.inc(1);
                    return progress.suspend(|| self.report(object, terminal));
                }
            }
            Ok(())
        };
        // Each object is read once, even if the time is over.
        wait::read_once(first, self.requests, |sighting| see(&mut going, sighting)).await?;
        let rest = objects(&going);
        tokio::select! {
            biased;
            ended = wait::until_gone(rest, self.requests, |sighting| see(&mut going, sighting)) => ended?,
            () = sleep_until(deadline) => {}
            () = stopped(self.stop.clone()) => {}
        }
        progress.finish_and_clear();
        result.left.extend(going.into_iter().map(|(object, held)| (object, LeftoverReason::Terminating(held))));
        Ok(result)
    }

    /// Asks for the deletion until it is granted or refused; `None` if it is granted.
    async fn ask(&self, index: usize, deadline: Instant) -> Option<LeftoverReason> {
        let object = self.plan.object(index)?;
        // An API server may take its time for each object of a large wave.
        if !object.terminating && Instant::now() >= deadline {
            return Some(LeftoverReason::NotAttempted);
        }
        let mut pause = FIRST_PAUSE;
        loop {
            if is_stopped(&self.stop) {
                return Some(LeftoverReason::NotAttempted);
            }
            if object.terminating {
                return None;
            }
            match self.requests.delete(object).await {
                Answer::Granted => return None,
                Answer::Refused(why) => return Some(LeftoverReason::Refused(why)),
                Answer::Later(why) => {
                    let until = (Instant::now() + pause).min(deadline);
                    let goes_on = tokio::select! {
                        () = sleep_until(until) => Instant::now() < deadline,
                        () = stopped(self.stop.clone()) => false,
                    };
                    if !goes_on {
                        return Some(LeftoverReason::Refused(why));
                    }
                }
            }
            pause = pause.saturating_mul(2).min(MAX_PAUSE);
        }
    }

    fn report(&self, index: usize, terminal: &mut Terminal) -> Result<(), Failure> {
        self.plan.object(index).map_or(Ok(()), |object| report(object, self.names_only, terminal))
    }
}

/// Prints that an object is gone.
pub(super) fn report(object: &Object, names_only: bool, terminal: &mut Terminal) -> Result<(), Failure> {
    let object = object.identity();
    let text = if names_only { object.short() } else { format!("deleted {}", line(&object)) };
    Ok(writeln!(terminal.out(), "{text}")?)
}

/// Returns true if the command must stop.
pub(super) fn is_stopped(stop: &watch::Receiver<bool>) -> bool {
    *stop.borrow()
}

/// Waits until the command must stop.
pub(super) async fn stopped(mut stop: watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // Without a sender, nobody can stop the command.
        std::future::pending::<()>().await;
    }
}
