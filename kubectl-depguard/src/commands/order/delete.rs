//! Deletes the objects of a plan, wave by wave. Each wave is gone before the next begins, and a new plan is made in
//! between: it shows dependents and rules that are new.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::leftover::{self, LeftoverReason};
use super::plan::{ObjectKey, Plan};
use super::planner::Planner;
use super::print::{objects, remarks};
use super::request::{ObjectState, Requests};
use super::wait::{FIRST_PAUSE, MAX_PAUSE};
use super::wave::{Wave, WaveResult, is_stopped, report, stopped};
use crate::engine::reference_scan::{Object, ObjectIdentity};
use crate::io::exit::{Failure, Outcome};
use crate::io::output::some_of;
use crate::io::terminal::Terminal;

/// Deletion in progress. It deletes no object that was not in a wave of the first plan.
pub(super) struct Deletion {
    pub(super) planner: Planner,
    pub(super) requests: Requests,
    /// Time limit of a wave.
    pub(super) timeout: Duration,
    /// Signal to stop: it turns true.
    pub(super) stop: watch::Receiver<bool>,
    /// True to print only names.
    pub(super) names_only: bool,
    pub(super) known: FirstPlan,
}

/// Memory of the first plan, and the progress since.
pub(super) struct FirstPlan {
    /// Objects that the user meant, each with its progress.
    objects: BTreeMap<ObjectKey, (ObjectIdentity, Progress)>,
    /// Parts that could not be read.
    unread: BTreeSet<String>,
    remarks: Vec<String>,
    /// Outcome if all objects that were in a wave are gone.
    outcome: Result<Outcome, Failure>,
    /// Objects that are gone, and whose names other objects have now.
    made_anew: BTreeSet<String>,
}

/// Progress of an object's deletion.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// The object was in no wave, so that it stays.
    Excluded,
    Pending,
    Gone,
    Left(LeftoverReason),
}

/// Reason why a deletion ends before all waves.
pub(super) enum Stop {
    Interrupted,
    /// Objects that are not in the first plan hold objects of it; each reference in words.
    NewReferences(Vec<String>),
    /// Parts that could be read at first, and now can't.
    Unread(Vec<String>),
    /// No new plan could be made.
    NoPlan(Failure),
    /// An object is left that blocks an object that the user named.
    Left,
}

/// Number of attempts to make a new plan.
const MAX_ATTEMPTS: usize = 8;

impl FirstPlan {
    pub(super) fn new(plan: &Plan) -> Self {
        let meant = plan.objects().filter(|(index, _)| plan.is_meant(*index)).map(|(_, object)| object);
        let excluded = meant.map(|object| (ObjectKey::new(object), (object.identity(), Progress::Excluded)));
        let mut objects: BTreeMap<_, _> = excluded.collect();
        let waves = plan.waves.iter().flatten().filter_map(|index| plan.object(*index));
        objects.extend(waves.map(|object| (ObjectKey::new(object), (object.identity(), Progress::Pending))));
        Self {
            objects,
            unread: plan.unread().iter().cloned().collect(),
            remarks: remarks(plan),
            outcome: plan.outcome(true),
            made_anew: BTreeSet::new(),
        }
    }

    fn set(&mut self, object: &Object, progress: Progress) {
        if let Some((_, own)) = self.objects.get_mut(&ObjectKey::new(object)) {
            *own = progress;
        }
    }

    fn is_pending(&self, object: &Object) -> bool {
        matches!(self.objects.get(&ObjectKey::new(object)), Some((_, Progress::Pending)))
    }

    fn is_left(&self, object: &Object) -> bool {
        matches!(self.objects.get(&ObjectKey::new(object)), Some((_, Progress::Left(_))))
    }

    /// Returns true if the object was in no wave.
    fn is_new(&self, object: &Object) -> bool {
        matches!(self.objects.get(&ObjectKey::new(object)), None | Some((_, Progress::Excluded)))
    }
}

impl Deletion {
    /// Deletes all objects that are in a wave. Returns the last plan, and the reason if the deletion ended before.
    /// `is_fresh`: the plan was made just now.
    pub(super) async fn execute(
        &mut self,
        mut plan: Plan,
        is_fresh: bool,
        terminal: &mut Terminal,
    ) -> Result<(Plan, Option<Stop>), Failure> {
        if !is_fresh {
            match self.next(plan, terminal).await? {
                ControlFlow::Continue(next) => plan = next,
                ControlFlow::Break(ended) => return Ok(ended),
            }
        }
        for number in 1_usize.. {
            let Some(wave) = plan.waves.first() else { break };
            let waves = number.saturating_add(plan.waves.len()).saturating_sub(1);
            let wave = Wave {
                plan: &plan,
                requests: &self.requests,
                timeout: self.timeout,
                stop: self.stop.clone(),
                names_only: self.names_only,
                title: format!("wave {number} of {waves}, {} objects, gone", wave.len()),
            };
            let result = wave.delete(terminal).await?;
            let is_any_left = !result.left.is_empty();
            self.take_in(&plan, result);
            if is_stopped(&self.stop) {
                return Ok((plan, Some(Stop::Interrupted)));
            }
            // A named object can't go any more, so that its other dependents need not go.
            if is_any_left && self.planner.has_named_objects() {
                return Ok((plan, Some(Stop::Left)));
            }
            match self.next(plan, terminal).await? {
                ControlFlow::Continue(next) => plan = next,
                ControlFlow::Break(ended) => return Ok(ended),
            }
        }
        Ok((plan, None))
    }

    fn take_in(&mut self, plan: &Plan, result: WaveResult) {
        let WaveResult { gone, made_anew, left } = result;
        for object in made_anew.into_iter().filter_map(|index| plan.object(index)) {
            self.known.made_anew.insert(object.to_string());
        }
        for object in gone.into_iter().filter_map(|index| plan.object(index)) {
            self.known.set(object, Progress::Gone);
        }
        for (index, why) in left {
            if let Some(object) = plan.object(index) {
                self.known.set(object, Progress::Left(why));
            }
        }
    }

    /// Makes a new plan for the objects that are pending, or ends the deletion.
    async fn next(
        &mut self,
        last: Plan,
        terminal: &mut Terminal,
    ) -> Result<ControlFlow<(Plan, Option<Stop>), Plan>, Failure> {
        let stop = self.stop.clone();
        let next = tokio::select! {
            next = self.plan_again(terminal) => next,
            () = stopped(stop) => return Ok(ControlFlow::Break((last, Some(Stop::Interrupted)))),
        };
        let next = match next {
            Ok(Some(next)) => next,
            Ok(None) => {
                self.compare(&last, None, terminal).await?;
                return Ok(ControlFlow::Break((last, None)));
            }
            Err(failure) => return Ok(ControlFlow::Break((last, Some(Stop::NoPlan(failure))))),
        };
        let unread: Vec<_> = next.unread().iter().filter(|what| !self.known.unread.contains(*what)).cloned().collect();
        if !unread.is_empty() {
            return Ok(ControlFlow::Break((last, Some(Stop::Unread(unread)))));
        }
        self.compare(&last, Some(&next), terminal).await?;
        let new = next.holds().iter().filter(|hold| {
            let ends = (next.object(hold.from), next.object(hold.to));
            matches!(ends, (Some(from), Some(to)) if self.known.is_new(from) && self.known.is_pending(to))
        });
        let new: Vec<_> = new.map(|hold| next.sentence(hold)).collect();
        if !new.is_empty() {
            return Ok(ControlFlow::Break((next, Some(Stop::NewReferences(new)))));
        }
        Ok(ControlFlow::Continue(next))
    }

    /// Reads everything again. An API server that fails is asked a few times.
    async fn plan_again(&mut self, terminal: &Terminal) -> Result<Option<Plan>, Failure> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..MAX_ATTEMPTS {
            self.planner.forget();
            if let Ok(plan) = self.planner.plan(|object| self.known.is_pending(object), terminal).await {
                return Ok(plan);
            }
            sleep(pause).await;
            pause = pause.saturating_mul(2).min(MAX_PAUSE);
        }
        self.planner.forget();
        self.planner.plan(|object| self.known.is_pending(object), terminal).await
    }

    /// Takes in the changes between two plans: objects that went by themselves, objects that are no longer meant, and
    /// objects that were made anew.
    async fn compare(&mut self, last: &Plan, next: Option<&Plan>, terminal: &mut Terminal) -> Result<(), Failure> {
        let found = next
            .into_iter()
            .flat_map(|next| next.objects().map(|(index, object)| (ObjectKey::new(object), next.is_meant(index))));
        let found: BTreeMap<_, _> = found.collect();
        let pending: Vec<_> = last.objects().filter(|(_, object)| self.known.is_pending(object)).collect();
        for (_, object) in pending {
            match found.get(&ObjectKey::new(object)) {
                Some(true) => {}
                Some(false) => self.known.set(object, Progress::Left(LeftoverReason::NoLongerMeant)),
                // A list may lack an object for other reasons, too.
                None => match self.requests.look(object).await {
                    state @ (ObjectState::Gone | ObjectState::MadeAnew) => {
                        self.known.set(object, Progress::Gone);
                        self.known.made_anew.extend((state == ObjectState::MadeAnew).then(|| object.to_string()));
                        report(object, self.names_only, terminal)?;
                    }
                    ObjectState::There { .. } | ObjectState::Unknown(_) => {
                        self.known.set(object, Progress::Left(LeftoverReason::NoLongerMeant));
                    }
                },
            }
        }
        let gone = self.known.objects.iter().filter(|(_, (_, progress))| *progress == Progress::Gone);
        let gone: BTreeSet<_> = gone.map(|(key, _)| key.name.clone()).collect();
        for (_, object) in next.into_iter().flat_map(Plan::objects) {
            let key = ObjectKey::new(object);
            if gone.contains(&key.name) && !self.known.objects.contains_key(&key) {
                self.known.made_anew.insert(object.to_string());
            }
        }
        Ok(())
    }

    /// Reports the objects that are left, and the next steps; `plan`: the last plan.
    pub(super) fn conclude(
        mut self,
        plan: &Plan,
        stop: Option<Stop>,
        terminal: &mut Terminal,
    ) -> Result<Outcome, Failure> {
        self.settle(plan);
        let left = self.known.objects.values().filter_map(|(object, progress)| match progress {
            Progress::Left(why) => Some((object, why)),
            Progress::Excluded | Progress::Pending | Progress::Gone => None,
        });
        let left: Vec<_> = left.collect();
        let gone = self.known.objects.values().filter(|(_, progress)| *progress == Progress::Gone).count();
        let new = self.new_objects(plan);
        for text in leftover::lines(left.iter().copied()) {
            terminal.note(&text)?;
        }
        if !self.known.made_anew.is_empty() {
            let anew = some_of(self.known.made_anew.iter().cloned(), ", ");
            terminal.note(&format!("deleted and made anew by somebody, and left as they are: {anew}"))?;
        }
        if !new.is_empty() {
            let new = some_of(new.iter().map(ToString::to_string), ", ");
            terminal.note(&format!("new since the first plan, and not deleted: {new}"))?;
        }
        self.known.remarks.iter().try_for_each(|remark| terminal.note(remark))?;
        if !self.names_only {
            let (is, are) = (if gone == 1 { "is" } else { "are" }, if left.len() == 1 { "is" } else { "are" });
            writeln!(terminal.out(), "{} {is} gone, {} {are} left", objects(gone), left.len())?;
        }
        let all_is_gone = left.is_empty() && new.is_empty();
        match stop {
            None if all_is_gone => self.known.outcome,
            None => Ok(Outcome::Finding),
            Some(stop) => stop.conclude(terminal),
        }
    }

    /// Gives each object that is still pending a reason.
    fn settle(&mut self, plan: &Plan) {
        let known = &mut self.known;
        for index in plan.waves.iter().flatten() {
            let Some(object) = plan.object(*index).filter(|object| known.is_pending(object)) else { continue };
            let mut holders = plan.held_by(*index).filter_map(|hold| plan.object(hold.from));
            let why = match holders.any(|holder| known.is_left(holder)) {
                true => LeftoverReason::Blocked,
                false => LeftoverReason::NotAttempted,
            };
            known.set(object, Progress::Left(why));
        }
        let held = plan.held.iter().chain(plan.cycles.iter().flatten()).map(|index| (*index, LeftoverReason::Blocked));
        let locked = plan.locked.keys().map(|index| (*index, LeftoverReason::Locked));
        for (index, why) in held.chain(locked) {
            if let Some(object) = plan.object(index).filter(|object| known.is_pending(object)) {
                known.set(object, Progress::Left(why));
            }
        }
    }

    /// Returns the objects that the user meant, but that did not exist at the time of the first plan.
    fn new_objects<'p>(&self, plan: &'p Plan) -> Vec<&'p Object> {
        let meant = plan.objects().filter(|(index, _)| plan.is_meant(*index)).map(|(_, object)| object);
        meant
            .filter(|object| !self.known.objects.contains_key(&ObjectKey::new(object)))
            .filter(|object| !self.known.made_anew.contains(&object.to_string()))
            .collect()
    }
}

impl Stop {
    /// Ends the command.
    fn conclude(self, terminal: &mut Terminal) -> Result<Outcome, Failure> {
        match self {
            Self::Interrupted => terminal.note("interrupted: run it again to continue")?,
            Self::NewReferences(new) => {
                terminal.note(&format!("stopped, as the first plan does not have: {}", some_of(new, "; ")))?;
                terminal.note("run it again to see the new plan, and to continue by that")?;
            }
            Self::Unread(unread) => {
                return Err(Failure::new(format!(
                    "stopped, as nobody can tell the order: could not read {}",
                    some_of(unread, "; ")
                ))
                .hint("get the right to read it, or correct it, and run the command again to continue"));
            }
            Self::NoPlan(failure) => return Err(failure),
            Self::Left => terminal.note("stopped, as the named objects can't go any more: run it again to continue")?,
        }
        Ok(Outcome::Finding)
    }
}
