//! Properties of all states of a world.

use std::collections::BTreeSet;
use std::sync::Arc;

use stateright::{Model, Property};

use crate::generations::Generations;
use crate::model::Interlock;
use crate::state::{End, Phase, RequestState, State};
use crate::world::Events;

/// Property: no reference becomes dangling.
pub const NEVER_DANGLING: &str = "never dangling";
/// Property: a refused request leaves no mark, if no answer is lost.
pub const NO_MARK_LEFT: &str = "a refused request leaves no mark";
/// Property: not all requests are told to come again, if nothing fails.
pub const SOMEBODY_PASSES: &str = "somebody passes";
/// Property: something can happen until all requests have ended and no mark is left.
pub const NEVER_STUCK: &str = "never stuck";
/// Property: all requests end, and no mark is left.
pub const DECIDED: &str = "always decided";
/// Property: a request may be carried out.
pub const ALLOWED: &str = "sometimes allowed";
/// Property: a request may be refused.
pub const REFUSED: &str = "sometimes refused";

pub(crate) fn all() -> Vec<Property<Interlock>> {
    vec![
        Property::always(NEVER_DANGLING, |_, state: &State| !state.is_broken),
        Property::always(NO_MARK_LEFT, |model: &Interlock, state: &State| model.leaves_no_mark(state)),
        Property::always(SOMEBODY_PASSES, |model: &Interlock, state: &State| model.lets_somebody_pass(state)),
        Property::always(NEVER_STUCK, |model: &Interlock, state: &State| model.is_over(state) || model.goes_on(state)),
        Property::eventually(DECIDED, |model: &Interlock, state: &State| model.is_over(state)),
        Property::sometimes(ALLOWED, |model: &Interlock, state: &State| model.has_end(state, &[End::Done])),
        Property::sometimes(REFUSED, |model: &Interlock, state: &State| {
            model.has_end(state, &[End::Refused, End::AgainSoon])
        }),
    ]
}

impl Interlock {
    fn leaves_no_mark(&self, state: &State) -> bool {
        let is_refused = |index: usize| {
            matches!(state.requests[index].phase, Phase::Ended(End::Refused | End::AgainSoon | End::Unknown))
        };
        let marks = state.registers.values().flatten().flat_map(|register| register.marks());
        let nonces: BTreeSet<_> = marks.flat_map(|(_, marks)| marks.flags.keys().chain(marks.intents.keys())).collect();
        // The mark of an earlier attempt was that of an allowed one.
        let is_left = |index: usize| nonces.contains(&self.nonce(index, state.requests[index].attempt));
        let loses = self.world.events.lose_answer > 0;
        loses || !(0..state.requests.len()).any(|index| is_refused(index) && is_left(index))
    }

    fn lets_somebody_pass(&self, state: &State) -> bool {
        // The registers of the next generation are closed at first.
        let is_quiet = self.world.events == Events::default()
            && self.world.hot.is_none()
            && self.world.generations != Generations::Change;
        let is_told = |request: &Arc<RequestState>| request.phase == Phase::Ended(End::AgainSoon);
        !is_quiet || !self.people(state).all(|(_, request)| is_told(request))
    }

    fn goes_on(&self, state: &State) -> bool {
        self.can_tick(state) || !self.next_states(state).is_empty()
    }

    fn has_end(&self, state: &State, ends: &[End]) -> bool {
        self.people(state).any(|(_, request)| ends.iter().any(|end| request.phase == Phase::Ended(*end)))
    }

    /// Returns the requests without those of the garbage collector.
    fn people<'s>(&self, state: &'s State) -> impl Iterator<Item = (usize, &'s Arc<RequestState>)> {
        state.requests.iter().enumerate().filter(|(index, _)| !self.is_release(*index))
    }
}
