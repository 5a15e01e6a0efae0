//! Events that nobody asked for.

use std::collections::BTreeSet;
use std::sync::Arc;

use depguard_core::interlock::RegisterName;
use serde_json::json;

use crate::careless;
use crate::guard::Guard;
use crate::model::Interlock;
use crate::state::{State, TargetState};
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
    /// The finalizers of a terminating target are gone.
    Finalize(usize),
    /// A dependent is changed, its references are not.
    TouchDependent(u8),
    /// A dependent is deleted.
    RemoveDependent(u8),
    /// Somebody deletes a register.
    RemoveRegister(RegisterName),
    /// The controller creates a register anew.
    MakeRegister(RegisterName),
    /// A replica learns of the rule.
    Learn(u8),
}

impl Interlock {
    /// Returns the events that may happen next.
    pub(crate) fn events(&self, state: &State) -> Vec<Event> {
        let left = state.left;
        let mut events = Vec::new();
        for (number, target) in state.targets.iter().enumerate() {
            if target.is_stored && target.is_terminating {
                events.push(Event::Finalize(number));
            }
            if target.is_stored && left.touch_target > 0 {
                events.push(Event::TouchTarget(number));
            }
            if !target.is_stored && left.recreate_target > 0 {
                events.push(Event::RecreateTarget(number));
            }
        }
        for name in state.dependents.keys() {
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
                None => events.push(Event::MakeRegister(*name)),
                Some(_) => {}
            }
        }
        events.extend(state.unaware.iter().map(|replica| Event::Learn(*replica)));
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
                let (births, version) = (births + 1, version + 1);
                state.targets[number] = TargetState { is_stored: true, births, version, is_terminating: false };
            }
            Event::Finalize(number) => {
                state.targets[number].is_stored = false;
                state.targets[number].is_terminating = false;
            }
            Event::TouchDependent(name) => {
                state.left.touch_dependent -= 1;
                if let Some(dependent) = state.dependents.get_mut(&name) {
                    dependent.version += 1;
                }
            }
            Event::RemoveDependent(name) => {
                state.left.remove_dependent -= 1;
                state.dependents.remove(&name);
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
            Event::Learn(replica) => {
                state.unaware.remove(&replica);
            }
        }
    }
}
