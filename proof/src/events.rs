//! Events that nobody asked for.

use std::collections::BTreeSet;
use std::sync::Arc;

use depguard_core::interlock::RegisterName;
use serde_json::json;

use crate::careless;
use crate::guard::Guard;
use crate::model::Interlock;
use crate::state::{State, TargetState};
use crate::world::Operation;
use crate::writes::free_version;

/// Event besides the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A replica crashes.
    Crash(u8),
    /// The cleaner is started again.
    RestartCleaner,
    /// A target is changed.
    TouchTarget(usize),
    /// A target is created again.
    RecreateTarget(usize),
    /// The finalizers of a terminating target are gone, but for the collector's own.
    Finalize(usize),
    /// The garbage collector takes its own finalizer away from a target.
    Unblock(usize),
    /// The garbage collector deletes a dependent.
    Collect(u8),
    /// A dependent is changed, its references are not.
    TouchDependent(u8),
    /// A dependent is deleted.
    RemoveDependent(u8),
    /// Somebody deletes a register.
    RemoveRegister(RegisterName),
    /// The controller creates a register anew.
    MakeRegister(RegisterName),
    /// The controller sees that no creation is reviewed, and begins to open the closed register.
    BeginOpening(RegisterName),
    /// A replica learns of the rule.
    Learn(u8),
    /// The controller changes the configurations to the next generation.
    ChangeGeneration,
    /// The API server of a replica takes that change up.
    TakeUp(u8),
}

impl Interlock {
    /// Returns the events that may happen next.
    pub(crate) fn events(&self, state: &State) -> Vec<Event> {
        let left = state.left;
        let mut events = Vec::new();
        for (number, target) in state.targets.iter().enumerate() {
            if target.is_held && target.is_terminating {
                events.push(Event::Finalize(number));
            }
            if self.unblocks(state, number) {
                events.push(Event::Unblock(number));
            }
            if target.is_stored && left.touch_target > 0 {
                events.push(Event::TouchTarget(number));
            }
            if !target.is_stored && left.recreate_target > 0 {
                events.push(Event::RecreateTarget(number));
            }
        }
        for (name, dependent) in &state.dependents {
            if self.is_collected(state, dependent) {
                events.push(Event::Collect(*name));
            }
            if left.touch_dependent > 0 {
                events.push(Event::TouchDependent(*name));
            }
            if left.remove_dependent > 0 {
                events.push(Event::RemoveDependent(*name));
            }
        }
        if left.crash > 0 {
            let replicas: BTreeSet<_> = self.world.requests.iter().map(|request| request.replica).collect();
            events.extend(replicas.into_iter().map(Event::Crash));
        }
        if left.restart_cleaner > 0 {
            events.push(Event::RestartCleaner);
        }
        for (name, register) in &state.registers {
            match register {
                Some(_) if left.remove_register > 0 => events.push(Event::RemoveRegister(*name)),
                None if self.is_in_use(state, *name) => events.push(Event::MakeRegister(*name)),
                Some(register) if !register.is_open() && self.may_open(state) => {
                    let is_begun = state.late.iter().any(|late| late.name() == *name && late.is_open());
                    events.extend((!is_begun).then_some(Event::BeginOpening(*name)));
                }
                Some(_) | None => {}
            }
        }
        events.extend(state.unaware.iter().map(|replica| Event::Learn(*replica)));
        match state.has_changed {
            true => events.extend(state.behind.iter().map(|replica| Event::TakeUp(*replica))),
            false if state.behind.is_empty() => {}
            false => events.push(Event::ChangeGeneration),
        }
        events
    }

    /// Plays an event.
    pub(crate) fn happen(&self, state: &mut State, event: Event) {
        match event {
            Event::Crash(replica) => {
                state.left.crash -= 1;
                self.crash(state, replica);
            }
            Event::RestartCleaner => {
                state.left.restart_cleaner -= 1;
                state.cleaner = self.new_cleaner();
                // The old cleaner's write may be under way.
                state.late.extend(state.cleaning.take());
            }
            Event::TouchTarget(number) => {
                state.left.touch_target -= 1;
                state.targets[number].version += 1;
            }
            Event::RecreateTarget(number) => {
                state.left.recreate_target -= 1;
                let TargetState { births, version, .. } = state.targets[number];
                let target = &mut state.targets[number];
                (target.births, target.version, target.is_stored) = (births + 1, version + 1, true);
                target.is_held = self.world.finalizers;
            }
            Event::Finalize(number) => state.targets[number].unblock(false),
            Event::Unblock(number) => state.targets[number].unblock(true),
            Event::Collect(name) => remove_dependent(state, name),
            Event::TouchDependent(name) => {
                state.left.touch_dependent -= 1;
                if let Some(dependent) = state.dependents.get_mut(&name) {
                    dependent.version += 1;
                }
            }
            Event::RemoveDependent(name) => {
                state.left.remove_dependent -= 1;
                remove_dependent(state, name);
            }
            Event::RemoveRegister(name) => {
                state.left.remove_register -= 1;
                state.registers.insert(name, None);
            }
            Event::MakeRegister(name) => {
                let (uid, version) = (format!("anew-{}", state.left.remove_register), free_version(state));
                let is_open = self.world.lacks(Guard::ClosedWhenNew);
                let register = careless::register(name, &uid, &version, is_open, &json!([]));
                state.registers.insert(name, Some(Arc::new(register)));
            }
            Event::BeginOpening(name) => {
                let register = state.registers[&name].as_ref().map(|register| (**register).clone().opened());
                state.late.extend(register.map(Arc::new));
            }
            Event::Learn(replica) => {
                state.unaware.remove(&replica);
            }
            Event::ChangeGeneration => self.change(state),
            Event::TakeUp(replica) => {
                state.behind.remove(&replica);
            }
        }
    }

    /// Returns true if a closed register may be opened at once: no replica that reviews creations knows the rule, as
    /// while no configuration is installed. Whatever the register misses then is over long before anything is promised.
    fn may_open(&self, state: &State) -> bool {
        if self.world.lacks(Guard::OpenedAtOnceOnlyUnused) {
            return !self.promises(state);
        }
        let mut creations =
            self.world.requests.iter().filter(|request| matches!(request.operation, Operation::Create(..)));
        self.world.rule_is_new && creations.all(|request| state.unaware.contains(&request.replica))
    }
}

fn remove_dependent(state: &mut State, name: u8) {
    state.dependents.remove(&name);
    state.orphaned.remove(&name);
}
