//! Turns: both sides ask again and again about one target, and nobody waits without end.
//!
//! The other worlds end; this one goes on for ever. Its creations and deletions are allowed by the webhook and then refused
//! by somebody else, such as a quota or another webhook, so that each leaves a live mark. Evaluations are single steps
//! here: what may happen between their requests is played in the other worlds.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use depguard_core::interlock::{
    AgingPart, Ask, Buckets, Cleaner, Delete, Dependent, Insert, Listing, Nonce, Note, Observation, Outcome, Register,
    Revision, Side, Verdict,
};
use serde_json::Value;
use stateright::{Checker, HasDiscoveries, Model, Path, Property};

use crate::model::key;

/// Property: nobody who asks again at each tick is put off for longer than the bound.
pub(crate) const BOUNDED: &str = "nobody waits for longer than the bound";
/// Property: each side passes again and again.
pub(crate) const BOTH_PASS: &str = "both sides pass";

/// Time for which marks are kept, in ticks. Two thirds of it are two ticks, after which a wait lapses.
const KEEP: u32 = 3;

/// Client that asks about the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// The most requests at a tick.
    pub at_once: u8,
    /// The number of requests after which the client goes away; `None`: the client asks at each tick, for ever.
    pub leaves_after: Option<u8>,
}

/// Part of the protocol that a world may do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnGuard {
    /// A side that is refused by a live mark leaves a wait.
    Waits,
    /// A side's mark ends its wait.
    EndsWithMark,
    /// A wait lapses unless it is asked for.
    Lapses,
    /// A wait is due only once its side was refused a second time.
    DueWhenAskedAgain,
}

impl TurnGuard {
    /// All guards.
    pub const ALL: [Self; 4] = [Self::Waits, Self::EndsWithMark, Self::Lapses, Self::DueWhenAskedAgain];
}

/// World in which creations and deletions about one target go on for ever.
#[derive(Debug, Clone, Copy)]
pub struct Turns {
    /// The name, for reports.
    pub name: &'static str,
    /// The client that creates.
    pub creator: Client,
    /// The client that deletes.
    pub deleter: Client,
    /// The most restarts of the cleaner.
    pub restarts: u8,
    /// True if a creation has passed before.
    pub has_intent: bool,
    /// The longest time for which a client that stays is put off, in ticks.
    pub bound: u32,
    /// The guard that this world does without.
    pub without: Option<TurnGuard>,
}

/// State of a world.
#[derive(Debug, Clone)]
pub struct TurnState {
    now: u32,
    register: Register,
    cleaner: Cleaner,
    evaluations: u64,
    restarts: u8,
    sides: [Progress; 2],
}

/// Progress of one client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Progress {
    at_this_tick: u8,
    requests: u8,
    /// Ticks since a client that stays was refused first, after it had passed last.
    put_off: Option<u32>,
    has_passed: bool,
}

/// Step of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnAction {
    /// The client of a side sends a request.
    Request(Side),
    /// Time passes, and the cleaner looks.
    Tick,
    /// The cleaner is started again.
    Restart,
}

const SIDES: [Side; 2] = [Side::Reference, Side::Deletion];
/// Client that asks at each tick.
const STEADY: Client = Client { at_once: 1, leaves_after: None };
/// Client that asks twice at each tick.
const EAGER: Client = Client { at_once: 2, leaves_after: None };

/// Returns the worlds.
pub fn turns() -> Vec<Turns> {
    let world = |name, creator, deleter| {
        // Each side's marks end once, and each of the two waits is due, and each mark seen, a tick late.
        let bound = 2 * KEEP + 4;
        Turns { name, creator, deleter, restarts: 0, has_intent: false, bound, without: None }
    };
    let leaves = |requests| Client { at_once: 1, leaves_after: Some(requests) };
    vec![
        world("creations twice as often as deletions, for ever", EAGER, STEADY),
        world("deletions twice as often as creations, for ever", STEADY, EAGER),
        world("two deletions, then creations alone", STEADY, leaves(2)),
        world("two creations, then deletions alone", leaves(2), STEADY),
        Turns { has_intent: true, bound: 0, ..world("creations for ever, and one deletion", STEADY, leaves(1)) },
        Turns {
            restarts: 1,
            bound: 3 * KEEP + 4,
            ..world("creations and deletions for ever; the cleaner is started again", STEADY, STEADY)
        },
    ]
}

/// Returns a world in which somebody waits for longer than the bound without the guard.
pub fn starved(guard: TurnGuard) -> Turns {
    let number = match guard {
        TurnGuard::Waits => 0,
        TurnGuard::EndsWithMark => 1,
        TurnGuard::Lapses => 2,
        TurnGuard::DueWhenAskedAgain => 4,
    };
    Turns { without: Some(guard), ..turns().swap_remove(number) }
}

/// Visits all states of a world. Returns their number, and the properties that don't hold.
pub fn play(world: Turns) -> (usize, Vec<&'static str>) {
    let checker = world.checker().threads(1).spawn_bfs().join();
    let found: BTreeSet<_> = checker.discoveries().into_keys().collect();
    let mut broken: Vec<_> = found.contains(BOUNDED).then_some(BOUNDED).into_iter().collect();
    broken.extend((!found.contains(BOTH_PASS)).then_some(BOTH_PASS));
    (checker.unique_state_count(), broken)
}

/// Searches for the fewest steps after which somebody has waited for too long.
pub fn starving_path(world: Turns) -> Option<Vec<TurnAction>> {
    let enough = HasDiscoveries::AllOf(BTreeSet::from([BOUNDED]));
    let checker = world.checker().threads(1).finish_when(enough).spawn_bfs().join();
    checker.discovery(BOUNDED).map(Path::into_actions)
}

impl Turns {
    fn lacks(&self, guard: TurnGuard) -> bool {
        self.without == Some(guard)
    }

    fn client(&self, side: Side) -> Client {
        match side {
            Side::Reference => self.creator,
            Side::Deletion => self.deleter,
        }
    }

    fn has_left(&self, state: &TurnState, side: Side) -> bool {
        self.client(side).leaves_after.is_some_and(|requests| state.progress(side).requests >= requests)
    }

    /// Carries out one evaluation. Returns true if the request is allowed.
    fn evaluate(&self, state: &mut TurnState, side: Side) -> bool {
        state.evaluations += 1;
        let number = u128::from(state.evaluations);
        let (nonce, buckets, target) = (Nonce::new(number), buckets(), key("vpcs", "a".to_owned()));
        let revision = Revision::parse("u", "1").expect("a revision");
        let verdict = match side {
            Side::Reference => {
                let machine = Dependent::created(key("machines", "m".to_owned()), &format!("uid-{number}"));
                let mut insert = Insert::begin(buckets, nonce, &machine.expect("a UID"), [target]);
                while insert.verdict().is_none() {
                    for ask in insert.asks() {
                        match ask {
                            Ask::Record(name, note) => insert.recorded(name, self.record(state, &note)),
                            Ask::Target(target) => {
                                let revision = revision.clone();
                                insert.observed(&target, Observation::Stored { revision, is_terminating: false });
                            }
                            Ask::Dependent(_) => insert.name_observed(Observation::Absent),
                            Ask::Dependents => unreachable!("only a deletion asks for dependents"),
                        }
                    }
                }
                insert.verdict().cloned()
            }
            Side::Deletion => {
                let mut delete = Delete::begin(buckets, nonce, target, revision);
                while delete.verdict().is_none() {
                    for ask in delete.asks() {
                        match ask {
                            Ask::Record(_, note) => delete.recorded(self.record(state, &note)),
                            Ask::Dependent(dependent) => delete.observed(&dependent, Observation::Absent),
                            Ask::Dependents => delete.listed(Listing::Empty),
                            Ask::Target(_) => unreachable!("only a reference asks for targets"),
                        }
                    }
                }
                delete.verdict().cloned()
            }
        };
        verdict == Some(Verdict::Allowed)
    }

    fn record(&self, state: &mut TurnState, note: &Note) -> Outcome {
        if note.is_wait() && self.lacks(TurnGuard::Waits) {
            return Outcome::Recorded;
        }
        let (next, mut outcomes) = state.register.with(std::slice::from_ref(note));
        if let Some(mut next) = next {
            if note.has_marks() && self.lacks(TurnGuard::EndsWithMark) {
                next = with_wait(&next, wait_of(&state.register));
            }
            if let Some(mut wait) = wait_of(&next).filter(|_| self.lacks(TurnGuard::DueWhenAskedAgain)) {
                wait["due"] = true.into();
                next = with_wait(&next, Some(wait));
            }
            state.register = next;
        }
        outcomes.remove(0)
    }

    fn look(&self, state: &mut TurnState) {
        let now = Duration::from_secs(state.now.into());
        if let Some(next) = state.cleaner.clean(&state.register, now, |_| false) {
            state.register = match wait_of(&state.register) {
                Some(wait) if self.lacks(TurnGuard::Lapses) => with_wait(&next, Some(wait)),
                _ => next,
            };
        }
    }
}

impl Model for Turns {
    type State = TurnState;
    type Action = TurnAction;

    fn init_states(&self) -> Vec<TurnState> {
        let name = buckets().registers().next().expect("a register");
        let mut cleaner = Cleaner::new(Duration::from_secs(KEEP.into()));
        let mut register = Register::new(name).stored_as("r", "1");
        cleaner.clean(&register, Duration::ZERO, |_| false);
        register = cleaner.clean(&register, Duration::from_secs(KEEP.into()), |_| false).expect("it is opened");
        let (restarts, sides) = (self.restarts, [Progress::default(); 2]);
        let mut state = TurnState { now: KEEP, register, cleaner, evaluations: 0, restarts, sides };
        if self.has_intent {
            self.evaluate(&mut state, Side::Reference);
        }
        vec![state]
    }

    fn actions(&self, state: &TurnState, actions: &mut Vec<TurnAction>) {
        let stays = |side: &&Side| !self.has_left(state, **side);
        for side in SIDES.iter().filter(stays) {
            if state.progress(*side).at_this_tick < self.client(*side).at_once {
                actions.push(TurnAction::Request(*side));
            }
        }
        // Whoever stays asks at each tick. A path that broke the bound needn't go on.
        let is_broken = SIDES.iter().any(|side| self.is_starved(state, *side));
        if SIDES.iter().filter(stays).all(|side| state.progress(*side).at_this_tick > 0) && !is_broken {
            actions.push(TurnAction::Tick);
        }
        if state.restarts > 0 {
            actions.push(TurnAction::Restart);
        }
    }

    fn next_state(&self, last: &TurnState, action: TurnAction) -> Option<TurnState> {
        let mut state = last.clone();
        match action {
            TurnAction::Request(side) => {
                let is_allowed = self.evaluate(&mut state, side);
                let leaves = self.client(side).leaves_after.is_some();
                let progress = state.progress_mut(side);
                progress.at_this_tick += 1;
                progress.requests += u8::from(leaves);
                progress.has_passed |= is_allowed;
                progress.put_off = if is_allowed || leaves { None } else { progress.put_off.or(Some(0)) };
            }
            TurnAction::Tick => {
                state.now += 1;
                self.look(&mut state);
                for progress in &mut state.sides {
                    progress.at_this_tick = 0;
                    progress.put_off = progress.put_off.map(|ticks| ticks + 1);
                }
            }
            TurnAction::Restart => {
                state.restarts -= 1;
                state.cleaner = Cleaner::new(Duration::from_secs(KEEP.into()));
            }
        }
        state.rename();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(BOUNDED, |world: &Self, state: &TurnState| {
                !SIDES.iter().any(|side| world.is_starved(state, *side))
            }),
            Property::sometimes(BOTH_PASS, |world: &Self, state: &TurnState| {
                // A client that leaves may never have passed.
                SIDES.iter().all(|side| state.progress(*side).has_passed || world.has_left(state, *side))
            }),
        ]
    }
}

impl Turns {
    fn is_starved(&self, state: &TurnState, side: Side) -> bool {
        let is_steady = self.client(side).leaves_after.is_none();
        // Whoever is refused is put off for no tick yet; with a bound of none, nobody who stays may be refused.
        let put_off = state.progress(side).put_off;
        is_steady && put_off.is_some_and(|ticks| ticks > self.bound || self.bound == 0)
    }
}

impl TurnState {
    fn progress(&self, side: Side) -> &Progress {
        let [reference, deletion] = &self.sides;
        if side == Side::Reference { reference } else { deletion }
    }

    fn progress_mut(&mut self, side: Side) -> &mut Progress {
        let [reference, deletion] = &mut self.sides;
        if side == Side::Reference { reference } else { deletion }
    }

    /// Numbers of evaluations only tell the marks apart, so they begin anew once no mark is left.
    fn rename(&mut self) {
        if self.register.marks().next().is_none() {
            self.evaluations = 0;
        }
    }

    /// Everything that tells two states apart: of marks their kind and age, and not their number.
    fn essence(&self) -> (Vec<String>, Option<String>, u8, [Progress; 2]) {
        let now = Duration::from_secs(self.now.into());
        let ages: Vec<_> = self.cleaner.ages(now).map(|(_, part, age)| (part.clone(), age)).collect();
        let age = |part: &AgingPart| ages.iter().find(|(other, _)| other == part).map(|(_, age)| age.as_secs());
        let mut marks = Vec::new();
        let mut wait = None;
        for (target, of) in self.register.marks() {
            for nonce in of.flags.keys() {
                marks.push(format!("flag {:?}", age(&AgingPart::Flag(target.clone(), *nonce))));
            }
            for nonce in of.intents.keys() {
                marks.push(format!("intent {:?}", age(&AgingPart::Intent(target.clone(), *nonce))));
            }
            if let Some(shared) = of.shared {
                marks.push(format!("shared {} {:?}", shared.is_open, age(&AgingPart::Shared(target.clone(), shared))));
            }
            if let Some(left) = of.wait {
                let age = age(&AgingPart::Wait(target.clone(), left));
                wait = Some(format!("{:?} {} {} {age:?}", left.side, left.is_due, left.is_fresh));
            }
        }
        marks.sort();
        marks.dedup();
        (marks, wait, self.restarts, self.sides)
    }
}

impl Hash for TurnState {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.essence().hash(hasher);
    }
}

impl PartialEq for TurnState {
    fn eq(&self, other: &Self) -> bool {
        self.essence() == other.essence()
    }
}

fn buckets() -> Buckets {
    Buckets::new(1).expect("a register")
}

/// Returns the wait about the target, as it is stored.
fn wait_of(register: &Register) -> Option<Value> {
    register.to_value()["spec"]["targets"][0].get("wait").cloned()
}

/// Returns the register with this wait about the target, or with that of its own.
fn with_wait(register: &Register, wait: Option<Value>) -> Register {
    let (mut object, Some(wait)) = (register.to_value(), wait) else { return register.clone() };
    let targets = &mut object["spec"]["targets"];
    if targets.as_array().is_none_or(Vec::is_empty) {
        *targets = serde_json::json!([{"target": {"resource": "vpcs", "name": "a"}}]);
    }
    targets[0]["wait"] = wait;
    Register::parse(object.to_string().as_bytes()).expect("a register")
}
