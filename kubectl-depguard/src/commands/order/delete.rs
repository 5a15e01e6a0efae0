//! Deletes the objects of a plan, wave by wave. Each wave is gone before the next begins.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use indicatif::ProgressBar;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::plan::Plan;
use super::print::{line, objects, remarks};
use super::request::{Answer, ObjectState, Requests};
use crate::engine::reference_scan::Object;
use crate::io::exit::{Failure, Outcome};
use crate::io::output::one_line;
use crate::io::terminal::Terminal;

/// Reason why an object is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeftoverReason {
    /// The API server or a webhook refused the deletion, with this message.
    Refused(String),
    /// The deletion was granted, but the object was not gone in time, or before the interruption.
    Terminating(Vec<String>),
    /// Another object that is left holds this one.
    Blocked,
    /// The command was interrupted before it asked for the deletion.
    NotAttempted,
}

/// Executor of a plan.
pub(super) struct PlanExecutor<'a> {
    pub(super) plan: &'a Plan,
    pub(super) requests: Requests,
    /// Time limit of a wave.
    pub(super) timeout: Duration,
    /// Signal to stop: it turns true.
    pub(super) stop: watch::Receiver<bool>,
    /// True to print only names.
    pub(super) names_only: bool,
}

/// Limit on concurrent requests.
const MAX_CONCURRENT_DELETIONS: usize = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(2);

impl PlanExecutor<'_> {
    /// Deletes all objects that are in a wave, and returns the objects that are left.
    pub(super) async fn execute(&self, terminal: &mut Terminal) -> Result<BTreeMap<usize, LeftoverReason>, Failure> {
        let mut left = BTreeMap::new();
        for (number, wave) in self.plan.waves.iter().enumerate() {
            let is_behind = |object: &usize| self.plan.held_by(*object).any(|hold| left.contains_key(&hold.from));
            let (behind, free): (Vec<_>, Vec<_>) = wave.iter().copied().partition(is_behind);
            left.extend(behind.into_iter().map(|object| (object, LeftoverReason::Blocked)));
            let (wave, waves, count) = (number.saturating_add(1), self.plan.waves.len(), free.len());
            let progress = terminal.progress(&format!("wave {wave} of {waves}, {count} objects, gone"));
            left.extend(self.wave(free, &progress, terminal).await?);
            progress.finish_and_clear();
        }
        Ok(left)
    }

    /// Reports the objects that are left, and the next steps.
    pub(super) fn conclude(
        &self,
        left: &BTreeMap<usize, LeftoverReason>,
        terminal: &mut Terminal,
    ) -> Result<Outcome, Failure> {
        let left_of = left.iter().filter_map(|(index, why)| Some((self.plan.object(*index)?, why)));
        for text in leftover_lines(left_of) {
            terminal.note(&text)?;
        }
        remarks(self.plan, terminal)?;
        let gone = self.plan.count().saturating_sub(left.len());
        if !self.names_only {
            let (is, are) = (if gone == 1 { "is" } else { "are" }, if left.len() == 1 { "is" } else { "are" });
            writeln!(terminal.out(), "{} {is} gone, {} {are} left", objects(gone), left.len())?;
        }
        if *self.stop.borrow() {
            terminal.note("interrupted: run it again to continue")?;
        }
        self.plan.outcome(left.is_empty())
    }

    async fn wave(
        &self,
        objects: Vec<usize>,
        progress: &ProgressBar,
        terminal: &mut Terminal,
    ) -> Result<Vec<(usize, LeftoverReason)>, Failure> {
        let deadline = Instant::now() + self.timeout;
        let (mut left, mut going) = (Vec::new(), Vec::new());
        let mut asked = stream::iter(objects)
            .map(|object| async move { (object, self.ask(object, deadline).await) })
            .buffer_unordered(MAX_CONCURRENT_DELETIONS);
        while let Some((object, refused)) = asked.next().await {
            match refused {
                None => going.push(object),
                Some(why) => left.push((object, why)),
            }
        }
        drop(asked);
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            let mut seen = stream::iter(std::mem::take(&mut going))
                .map(|object| async move { (object, self.look(object).await) })
                .buffer_unordered(MAX_CONCURRENT_DELETIONS);
            let mut finalizers = BTreeMap::new();
            while let Some((object, seen)) = seen.next().await {
                match seen {
                    ObjectState::Gone => self.report(object, progress, terminal)?,
                    ObjectState::There { finalizers: held } => drop(finalizers.insert(object, held)),
                    ObjectState::Unknown(_) => drop(finalizers.insert(object, Vec::new())),
                }
            }
            drop(seen);
            if finalizers.is_empty() {
                return Ok(left);
            }
            // Checking takes at most as much time as waiting.
            if !self.pause(pause.max(begun.elapsed()), deadline).await {
                left.extend(finalizers.into_iter().map(|(object, held)| (object, LeftoverReason::Terminating(held))));
                return Ok(left);
            }
            pause = pause.saturating_mul(2).min(MAX_PAUSE);
            going.extend(finalizers.into_keys());
        }
    }

    /// Asks for the deletion until it is granted or refused; `None` if it is granted.
    async fn ask(&self, index: usize, deadline: Instant) -> Option<LeftoverReason> {
        let object = self.plan.object(index)?;
        let mut pause = FIRST_PAUSE;
        loop {
            if *self.stop.borrow() {
                return Some(LeftoverReason::NotAttempted);
            }
            if object.terminating {
                return None;
            }
            match self.requests.delete(object).await {
                Answer::Granted => return None,
                Answer::Refused(why) => return Some(LeftoverReason::Refused(why)),
                Answer::Later(why) => {
                    if !self.pause(pause, deadline).await {
                        return Some(LeftoverReason::Refused(why));
                    }
                }
            }
            pause = pause.saturating_mul(2).min(MAX_PAUSE);
        }
    }

    async fn look(&self, index: usize) -> ObjectState {
        match self.plan.object(index) {
            Some(object) => self.requests.look(object).await,
            None => ObjectState::Gone,
        }
    }

    fn report(&self, index: usize, progress: &ProgressBar, terminal: &mut Terminal) -> Result<(), Failure> {
        progress.inc(1);
        let Some(object) = self.plan.object(index) else { return Ok(()) };
        let line = if self.names_only { object.identity().short() } else { format!("deleted {}", line(object)) };
        Ok(progress.suspend(|| writeln!(terminal.out(), "{line}"))?)
    }

    /// Waits; returns `false` if the time is over, or the command must stop.
    async fn pause(&self, pause: Duration, deadline: Instant) -> bool {
        let mut stop = self.stop.clone();
        let until = (Instant::now() + pause).min(deadline);
        tokio::select! {
            () = sleep_until(until) => Instant::now() < deadline,
            // If the sender of the signal is gone, nobody can stop the wait.
            true = async { stop.wait_for(|stop| *stop).await.is_ok() } => false,
        }
    }
}

/// Reports the objects that are left: one line for each that was refused or is still going, and one line for all of a
/// kind that were not reached. A line for each of these would hide the important lines.
fn leftover_lines<'o>(left: impl Iterator<Item = (&'o Object, &'o LeftoverReason)>) -> Vec<String> {
    let (mut lines, mut grouped) = (Vec::new(), BTreeMap::<(String, bool), Vec<&Object>>::new());
    for (object, why) in left {
        let kind = object.kind.gvr.group_resource().to_string();
        match why {
            LeftoverReason::Blocked => grouped.entry((kind, true)).or_default().push(object),
            LeftoverReason::NotAttempted => grouped.entry((kind, false)).or_default().push(object),
            LeftoverReason::Refused(_) | LeftoverReason::Terminating(_) => {
                lines.push(format!("{} {}", line(object), why.text()));
            }
        }
    }
    for ((kind, is_behind), objects) in grouped {
        let (what, is, was) = match objects.as_slice() {
            [only] => (line(only), "is", "was"),
            many => (format!("{} {kind}", many.len()), "are", "were"),
        };
        let text =
            if is_behind { format!("{is} blocked by objects that are left") } else { format!("{was} not tried") };
        lines.push(format!("{what} {text}"));
    }
    lines
}

impl LeftoverReason {
    /// Returns the end of a sentence that begins with the object.
    fn text(&self) -> String {
        match self {
            Self::Refused(message) => format!("was refused: {}", one_line(message)),
            Self::Terminating(finalizers) if finalizers.is_empty() => "is being deleted, but not gone yet".to_owned(),
            Self::Terminating(finalizers) => {
                format!("is being deleted, and waits for its finalizers: {}", finalizers.join(", "))
            }
            Self::Blocked => "is blocked by objects that are left".to_owned(),
            Self::NotAttempted => "was not tried".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use depguard_core::lookup::ReferencedObject;

    use super::*;
    use crate::cluster::kinds::KindInfo;

    #[test]
    fn those_that_were_not_reached_are_one_line_a_kind() {
        let gvr = |resource: &str| depguard_core::GroupVersionResource {
            group: "n.example.com".parse().unwrap(),
            version: "v1".parse().unwrap(),
            resource: resource.parse().unwrap(),
        };
        let object = |resource: &str, name: &str| {
            let mut referent = ReferencedObject::default();
            referent.name = name.to_owned();
            let kind = Arc::new(KindInfo::bare(gvr(resource), "K", Some(true)));
            Object { kind, referent, terminating: false, inside: true, selected: true }
        };
        let objects = ["a", "b", "c"].map(|name| object("vms", name));
        let (alone, refused) = (object("vpcs", "d"), LeftoverReason::Refused("no".to_owned()));
        let left = [
            (&objects[0], &refused),
            (&objects[1], &LeftoverReason::NotAttempted),
            (&objects[2], &LeftoverReason::NotAttempted),
        ];
        let left =
            left.into_iter().chain([(&alone, &LeftoverReason::NotAttempted), (&alone, &LeftoverReason::Blocked)]);
        assert_eq!(
            leftover_lines(left),
            [
                "vms.n.example.com/a was refused: no",
                "2 vms.n.example.com were not tried",
                "vpcs.n.example.com/d was not tried",
                "vpcs.n.example.com/d is blocked by objects that are left",
            ]
        );
    }
}
