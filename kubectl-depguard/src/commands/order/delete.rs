//! Carries an order out: wave by wave, each gone before the next begins.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use indicatif::ProgressBar;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::plan::Plan;
use super::print::{line, objects, remarks};
use super::request::{Answer, Requests, Seen};
use crate::outcome::{Failure, Outcome};
use crate::output::one_line;
use crate::scan::Object;
use crate::terminal::Terminal;

/// Why an object is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Left {
    /// What the API server, or a webhook, said.
    Refused(String),
    /// Its deletion was granted, and it was not gone in time, or before the interruption.
    Going(Vec<String>),
    /// Something that holds it is left.
    Behind,
    /// Nobody asked, since the command was interrupted.
    Untried,
}

/// Who carries an order out.
pub(super) struct Carrier<'a> {
    pub(super) plan: &'a Plan,
    pub(super) requests: Requests,
    /// How long a wave may take.
    pub(super) timeout: Duration,
    /// Turns true when it is to stop.
    pub(super) stop: watch::Receiver<bool>,
    /// Whether only names are printed.
    pub(super) names_only: bool,
}

/// Requests at once.
const AT_ONCE: usize = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl Carrier<'_> {
    /// Deletes all that have a wave, and gives what is left of them.
    pub(super) async fn carry_out(&self, terminal: &mut Terminal) -> Result<BTreeMap<usize, Left>, Failure> {
        let mut left = BTreeMap::new();
        for (number, wave) in self.plan.waves.iter().enumerate() {
            let is_behind = |object: &usize| self.plan.held_by(*object).any(|hold| left.contains_key(&hold.from));
            let (behind, free): (Vec<_>, Vec<_>) = wave.iter().copied().partition(is_behind);
            left.extend(behind.into_iter().map(|object| (object, Left::Behind)));
            let (wave, waves, count) = (number.saturating_add(1), self.plan.waves.len(), free.len());
            let progress = terminal.progress(&format!("wave {wave} of {waves}, {count} objects, gone"));
            left.extend(self.wave(free, &progress, terminal).await?);
            progress.finish_and_clear();
        }
        Ok(left)
    }

    /// Says what is left, and what to do about it.
    pub(super) fn conclude(&self, left: &BTreeMap<usize, Left>, terminal: &mut Terminal) -> Result<Outcome, Failure> {
        let mut grouped: BTreeMap<(String, bool), Vec<&Object>> = BTreeMap::new();
        for (index, why) in left {
            let Some(object) = self.plan.object(*index) else { continue };
            let kind = object.kind.gvr.group_resource().to_string();
            // A line for each of them would hide what is to be seen.
            match why {
                Left::Behind => grouped.entry((kind, true)).or_default().push(object),
                Left::Untried => grouped.entry((kind, false)).or_default().push(object),
                Left::Refused(_) | Left::Going(_) => terminal.note(&format!("{} {}", line(object), why.told()))?,
            }
        }
        for ((kind, is_behind), objects) in grouped {
            let (what, is, was) = match objects.as_slice() {
                [only] => (line(only), "is", "was"),
                many => (format!("{} {kind}", many.len()), "are", "were"),
            };
            let told = if is_behind { format!("{is} held by what is left") } else { format!("{was} not asked for") };
            terminal.note(&format!("{what} {told}"))?;
        }
        remarks(self.plan, terminal)?;
        let gone = self.plan.count().saturating_sub(left.len());
        if !self.names_only {
            let (is, are) = (if gone == 1 { "is" } else { "are" }, if left.len() == 1 { "is" } else { "are" });
            writeln!(terminal.out(), "{} {is} gone, {} {are} left", objects(gone), left.len())?;
        }
        if *self.stop.borrow() {
            terminal.note("it was interrupted: run it again to go on")?;
        }
        self.plan.outcome(left.is_empty())
    }

    async fn wave(
        &self,
        objects: Vec<usize>,
        progress: &ProgressBar,
        terminal: &mut Terminal,
    ) -> Result<Vec<(usize, Left)>, Failure> {
        let deadline = Instant::now() + self.timeout;
        let (mut left, mut going) = (Vec::new(), Vec::new());
        let mut asked = stream::iter(objects)
            .map(|object| async move { (object, self.ask(object, deadline).await) })
            .buffer_unordered(AT_ONCE);
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
                .buffer_unordered(AT_ONCE);
            let mut finalizers = BTreeMap::new();
            while let Some((object, seen)) = seen.next().await {
                match seen {
                    Seen::Gone => self.report(object, progress, terminal)?,
                    Seen::There { finalizers: held } => drop(finalizers.insert(object, held)),
                    Seen::Unknown(_) => drop(finalizers.insert(object, Vec::new())),
                }
            }
            drop(seen);
            if finalizers.is_empty() {
                return Ok(left);
            }
            // Looking takes as much of the time as not looking at the most.
            if !self.pause(pause.max(begun.elapsed()), deadline).await {
                left.extend(finalizers.into_iter().map(|(object, held)| (object, Left::Going(held))));
                return Ok(left);
            }
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            going.extend(finalizers.into_keys());
        }
    }

    /// Asks for the deletion until it is granted or refused; `None`: granted.
    async fn ask(&self, index: usize, deadline: Instant) -> Option<Left> {
        let object = self.plan.object(index)?;
        let mut pause = FIRST_PAUSE;
        loop {
            if *self.stop.borrow() {
                return Some(Left::Untried);
            }
            if object.terminating {
                return None;
            }
            match self.requests.delete(object).await {
                Answer::Granted => return None,
                Answer::Refused(why) => return Some(Left::Refused(why)),
                Answer::Later(why) => {
                    if !self.pause(pause, deadline).await {
                        return Some(Left::Refused(why));
                    }
                }
            }
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    async fn look(&self, index: usize) -> Seen {
        match self.plan.object(index) {
            Some(object) => self.requests.look(object).await,
            None => Seen::Gone,
        }
    }

    fn report(&self, index: usize, progress: &ProgressBar, terminal: &mut Terminal) -> Result<(), Failure> {
        progress.inc(1);
        let Some(object) = self.plan.object(index) else { return Ok(()) };
        let line = if self.names_only { object.described().short() } else { format!("deleted {}", line(object)) };
        Ok(progress.suspend(|| writeln!(terminal.out(), "{line}"))?)
    }

    /// Waits; `false` where the time is over, or the command is to stop.
    async fn pause(&self, pause: Duration, deadline: Instant) -> bool {
        let mut stop = self.stop.clone();
        let until = (Instant::now() + pause).min(deadline);
        tokio::select! {
            () = sleep_until(until) => Instant::now() < deadline,
            // Whoever could say stop may be gone; then nobody does.
            true = async { stop.wait_for(|stop| *stop).await.is_ok() } => false,
        }
    }
}

impl Left {
    /// The end of a sentence that begins with the object.
    fn told(&self) -> String {
        match self {
            Self::Refused(said) => format!("was refused: {}", one_line(said)),
            Self::Going(finalizers) if finalizers.is_empty() => "is being deleted, and was not gone yet".to_owned(),
            Self::Going(finalizers) => {
                format!("is being deleted, and held by its finalizers: {}", finalizers.join(", "))
            }
            Self::Behind => "is held by what is left".to_owned(),
            Self::Untried => "was not asked for".to_owned(),
        }
    }
}
