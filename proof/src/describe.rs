//! Steps in words, for counterexamples.

use depguard_core::interlock::{Ask, ObjectKey};

use crate::events::Event;
use crate::model::{Action, Interlock};
use crate::owners::Owners;
use crate::state::{Phase, State};
use crate::world::{Operation, Request, Targets};
use crate::writes::{StepMode, to_write};

impl Interlock {
    /// Returns a step in words, as it follows this state.
    pub(crate) fn describe(&self, state: &State, action: &Action) -> String {
        match action {
            Action::Tick => "time passes".to_owned(),
            Action::Begin(index) => format!("{} is sent for review", self.request(*index)),
            Action::Answer(index, ask) => format!("{}: {}", self.request(*index), read(ask)),
            Action::LoseAnswer(index, ask) => {
                format!("{}: {}, and the answer is lost", self.request(*index), read(ask))
            }
            Action::Merge(replica, ..) => format!("replica {replica} begins to write its notes together"),
            Action::Step(lane, name, mode) => {
                let batch = &state.batches[&(*lane, *name)];
                let who: Vec<_> = batch.members.iter().map(|index| self.request(*index)).collect();
                let step = match (to_write(batch).is_some(), self.world.is_coarse) {
                    (true, _) => "its register is written",
                    (false, false) => "its register is read",
                    (false, true) => "its register is read and written",
                };
                let fate = match mode {
                    StepMode::Plain => "",
                    StepMode::Stale => ", as it was before",
                    StepMode::Lost => ", and the answer is lost",
                };
                format!("{}: {step}{fate}", who.join(", "))
            }
            Action::Land(_) => "a register is written whose writer doesn't wait any more".to_owned(),
            Action::Commit(index) => {
                let Phase::Admitted(_) = &state.requests[*index].phase else { return String::new() };
                format!("{} is carried out, if nothing has changed", self.request(*index))
            }
            Action::Look(_, false) => "the cleaner reads the register".to_owned(),
            Action::Look(_, true) => "the cleaner reads the register, and knows of a stored dependent".to_owned(),
            Action::LookByOldTime(_) => "the cleaner reads the register, and takes the time before".to_owned(),
            Action::Clean => "the cleaner writes the register".to_owned(),
            Action::Event(event) => self.event(*event),
        }
    }

    /// Returns a request in words.
    fn request(&self, index: usize) -> String {
        let list = |targets: Targets| {
            let names: Vec<_> = self.keys(targets).map(|key| key.name).collect();
            if names.is_empty() { "nothing".to_owned() } else { names.join(" and ") }
        };
        let name = |name: u8| &self.dependents[usize::from(name)].name;
        let what = match self.world.requests[index].operation {
            Operation::Create(dependent, targets) => format!("creation of {} -> {}", name(dependent), list(targets)),
            Operation::Update(dependent, targets) => format!("update of {} -> {}", name(dependent), list(targets)),
            Operation::Apply(dependent, targets) => format!("apply of {} -> {}", name(dependent), list(targets)),
            Operation::Delete(target) => format!("deletion of {}", self.targets[usize::from(target)].name),
            Operation::Release(dependent) => format!("the collector's update of {}", name(dependent)),
        };
        format!("[{}] {what}{}", index + 1, self.manner(index))
    }

    /// Returns the owners that a request gives its dependent, or the propagation of a deletion.
    fn manner(&self, index: usize) -> String {
        let Request { operation, owners, propagation, is_override, .. } = self.world.requests[index];
        let propagation = propagation.map(|propagation| format!(" ({propagation:?})").to_lowercase());
        let overrides = if is_override { " by an override" } else { "" };
        let has_owners =
            self.world.requests.iter().any(|request| request.owners != Owners::NONE) || !self.world.owned.is_empty();
        match operation {
            Operation::Delete(_) => format!("{}{overrides}", propagation.unwrap_or_default()),
            Operation::Release(_) => String::new(),
            _ if has_owners => format!(", {owners}"),
            _ => String::new(),
        }
    }

    fn event(&self, event: Event) -> String {
        let target = |number: usize| &self.targets[number].name;
        let dependent = |name: u8| &self.dependents[usize::from(name)].name;
        match event {
            Event::Crash(replica) => format!("replica {replica} crashes"),
            Event::RestartCleaner => "the cleaner is started again".to_owned(),
            Event::TouchTarget(number) => format!("{} is changed", target(number)),
            Event::RecreateTarget(number) => format!("{} is created again", target(number)),
            Event::Finalize(number) => format!("the finalizers of {} are gone", target(number)),
            Event::Unblock(number) => format!("the collector takes its finalizer away from {}", target(number)),
            Event::Collect(name) => format!("the collector deletes {}", dependent(name)),
            Event::TouchDependent(name) => format!("{} is changed", dependent(name)),
            Event::RemoveDependent(name) => format!("{} is deleted", dependent(name)),
            Event::RemoveRegister(name) => format!("{name} is deleted"),
            Event::MakeRegister(name) => format!("the controller creates {name} anew"),
            Event::BeginOpening(name) => {
                format!("the controller sees no reviews of creations, and begins to open {name}")
            }
            Event::Learn(replica) => format!("replica {replica} learns of the rule"),
            Event::ChangeGeneration => "the configurations change to the next generation".to_owned(),
            Event::TakeUp(replica) => format!("the API server of replica {replica} takes that up"),
        }
    }

    /// Returns a path in words.
    pub(crate) fn tell(&self, path: impl IntoIterator<Item = (State, Option<Action>)>) -> Vec<String> {
        let steps = path.into_iter().filter_map(|(state, action)| Some(self.describe(&state, &action?)));
        steps.collect()
    }
}

fn read(ask: &Ask) -> String {
    let name = |key: &ObjectKey| key.name.clone();
    match ask {
        Ask::Target(key) | Ask::Dependent(key) => format!("GET of {}", name(key)),
        Ask::Dependents => "LIST of the dependents".to_owned(),
        Ask::Record(register, _) => format!("write of {register}"),
    }
}
