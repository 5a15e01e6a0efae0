//! Transitions of a world: each action is one request to an API server with its answer, or one event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use depguard_core::Group;
use depguard_core::interlock::{Ask, Buckets, MAX_INTENTS, ObjectKey, Register, RegisterName};
use depguard_core::model::{GroupResource, Resource};
use serde_json::{Value, json};
use stateright::{Model, Property};

use crate::careless;
use crate::events::Event;
use crate::generations::Generations;
use crate::guard::Guard;
use crate::owners::{Owners, Propagation};
use crate::properties;
use crate::state::{Phase, RequestState, State, StoredDependent, TargetState};
use crate::world::{Hot, Request, World};
use crate::writes::{StepMode, to_write};

/// Model of a world.
#[derive(Debug)]
pub struct Interlock {
    pub(crate) world: World,
    pub(crate) buckets: Buckets,
    pub(crate) targets: Vec<ObjectKey>,
    pub(crate) dependents: Vec<ObjectKey>,
}

/// Step of a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Time passes.
    Tick,
    /// An API server takes a request, and asks the webhook.
    Begin(usize),
    /// An API server answers a read of a review.
    Answer(usize, Ask),
    /// The answer to a read of a review is lost.
    LoseAnswer(usize, Ask),
    /// A replica begins to write the notes of its reviews together, in ascending order or in descending order.
    Merge(u8, RegisterName, bool),
    /// A register is read or written for the reviews of a replica, or of one review.
    Step(u8, RegisterName, StepMode),
    /// A write without anybody who waits for its answer is carried out.
    Land(Arc<Register>),
    /// An API server carries a request out, or finds that the object has changed since the review.
    Commit(usize),
    /// The cleaner looks at a register, with or without news of creations.
    Look(RegisterName, bool),
    /// The cleaner looks, by the time at which it sent the read.
    LookByOldTime(RegisterName),
    /// The cleaner writes the register.
    Clean,
    /// Something else happens.
    Event(Event),
}

impl Interlock {
    /// Prepares a world.
    pub fn new(world: World) -> Self {
        let buckets = Buckets::new(world.buckets).expect("a world has registers");
        // The names are drawn such that the registers are used as evenly as possible.
        let mut targets: Vec<ObjectKey> = Vec::new();
        for number in 0_u32.. {
            if targets.len() == usize::from(world.targets) {
                break;
            }
            let next = key("vpcs", format!("v{number}"));
            let used: BTreeSet<_> = targets.iter().map(|target| buckets.register_of(target)).collect();
            if !used.contains(&buckets.register_of(&next)) || used.len() == usize::from(world.buckets) {
                targets.push(next);
            }
        }
        let dependents = (0..8).map(|name| key("machines", format!("m{name}"))).collect();
        Self { world, buckets, targets, dependents }
    }

    /// Returns the time for which the cleaner keeps marks.
    pub(crate) fn keep(&self) -> u32 {
        let lifetime = self.world.requests.iter().map(|request| request.lifetime).max().unwrap_or_default();
        if self.world.lacks(Guard::KeptLongerThanRequests) { lifetime } else { lifetime + 1 }
    }

    /// Returns the time after which something is promised about a rule that all replicas know.
    ///
    /// Until `keep` is over, a request that was reviewed without the rule may still be carried out. A request that was
    /// reviewed just before that, by what was stored then, may be carried out for as long again.
    fn wait(&self) -> u32 {
        if self.world.lacks(Guard::WaitTwiceAfterRule) { self.keep() } else { 2 * self.keep() }
    }

    pub(crate) fn promises(&self, state: &State) -> bool {
        state.promises(self.wait())
    }

    pub(crate) fn can_tick(&self, state: &State) -> bool {
        let lives = |request: &Arc<RequestState>| request.is_alive(state.now) && !request.has_ended();
        let keep = Duration::from_secs(self.keep().into());
        let ages = || {
            state.requests.iter().any(lives)
                || state.cleaner.ages(state.time()).any(|(_, _, age)| age < keep)
                || state.aware_since.is_some_and(|since| state.now - since < self.wait())
        };
        // The collector's updates are carried out in time, so that a search of them ends.
        let is_due = |(index, request): (usize, &Arc<RequestState>)| {
            self.is_release(index) && lives(request) && !request.is_alive(state.now + 1)
        };
        !self.world.is_timeless && ages() && !state.requests.iter().enumerate().any(is_due)
    }

    /// Returns true if all requests have ended and no mark is left.
    pub(crate) fn is_over(&self, state: &State) -> bool {
        let is_swept = |(name, register): (&RegisterName, &Option<Arc<Register>>)| match register {
            Some(register) => register.is_open() && register.marks().next().is_none(),
            None => !self.is_in_use(state, *name),
        };
        let is_done = |(index, request): (usize, &Arc<RequestState>)| {
            request.has_ended() || (self.is_release(index) && request.phase == Phase::Waiting)
        };
        // Without time the cleaner keeps marks for ever.
        state.requests.iter().enumerate().all(is_done)
            && self.rests(state)
            && (self.world.is_timeless || state.registers.iter().all(is_swept))
    }

    /// Takes a request to the webhook. In coarse steps the first request of the review is answered at once.
    fn begin(&self, state: &mut State, index: usize) {
        Arc::make_mut(&mut state.requests[index]).start = Some(state.now);
        // The collector sends its update again and again.
        let attempt = match state.requests[index].phase {
            Phase::Ended(_) => state.requests[index].attempt + 1,
            Phase::Waiting | Phase::Review(_) | Phase::Admitted(_) => 0,
        };
        self.review(state, index, attempt);
        if !self.world.is_coarse {
            return;
        }
        self.settle(state);
        let first = match &state.requests[index].phase {
            Phase::Review(review) => review.asks.first().cloned(),
            _ => None,
        };
        match first {
            Some(Ask::Record(name, _)) if !self.world.merges => {
                self.step(state, self.lane(index), name, StepMode::Plain);
            }
            Some(Ask::Record(..)) | None => {}
            Some(read) => self.answer(state, index, &read, false),
        }
    }
}

impl Model for Interlock {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let world = &self.world;
        let registers = self.buckets.registers().map(|name| {
            let has_first = self.buckets.register_of(&self.targets[0]) == name;
            let targets = match world.hot {
                Some(hot) if has_first => json!([marks(hot, &self.targets[0], &self.dependents[7])]),
                _ => json!([]),
            };
            (name, Some(Arc::new(careless::register(name, "r0", "0", true, &targets))))
        });
        let owners =
            |name| world.owned.iter().find(|(owned, _)| *owned == name).map_or(Owners::NONE, |(_, owners)| *owners);
        let others = self.keyed().registers().filter(|_| world.generations != Generations::One);
        let others = others.map(|name| {
            let register = || Arc::new(careless::register(name, "k0", "0", true, &json!([])));
            (name, (world.generations == Generations::AnotherKey).then(register))
        });
        let api_servers = world.requests.iter().map(|request| request.replica);
        let stored = world.stored.iter().map(|(name, targets)| {
            let (uid, owners) = (format!("stored-{name}"), owners(*name));
            (*name, StoredDependent { uid, version: 1, targets: *targets, owners })
        });
        let request = |request: &Request| {
            let (lifetime, phase) = (request.lifetime, Phase::Waiting);
            Arc::new(RequestState { start: None, lifetime, attempt: 0, phase, refused_in: None })
        };
        let replicas = world.requests.iter().map(|request| request.replica).filter(|_| world.rule_is_new);
        vec![State {
            // A cleaner may take the time before.
            now: 1,
            registers: registers.chain(others).collect(),
            stale: None,
            late: BTreeSet::new(),
            targets: vec![
                TargetState {
                    is_stored: true,
                    births: 1,
                    version: 1,
                    is_terminating: false,
                    is_held: world.finalizers,
                    propagation: Propagation::Background,
                };
                self.targets.len()
            ],
            dependents: stored.collect(),
            created: BTreeSet::new(),
            requests: world.requests.iter().map(request).collect(),
            batches: BTreeMap::new(),
            cleaner: self.new_cleaner(),
            cleaning: None,
            left: world.events,
            unaware: replicas.collect(),
            aware_since: None,
            orphaned: BTreeSet::new(),
            let_go: BTreeSet::new(),
            behind: api_servers.filter(|_| world.generations == Generations::Change).collect(),
            has_changed: false,
            is_broken: false,
            longest: self.wait(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let left = state.left;
        if self.can_tick(state) {
            actions.push(Action::Tick);
        }
        for (index, request) in state.requests.iter().enumerate() {
            match &request.phase {
                Phase::Waiting | Phase::Ended(_) if self.sends(state, index) => actions.push(Action::Begin(index)),
                Phase::Waiting if self.is_release(index) => {}
                Phase::Waiting => {
                    let waits = |other: usize| {
                        matches!(state.requests[other].phase, Phase::Waiting) && self.world.are_alike(other, index)
                    };
                    if !(0..index).any(waits) {
                        actions.push(Action::Begin(index));
                    }
                }
                Phase::Review(review) => {
                    for ask in review.asks.iter().filter(|ask| !matches!(ask, Ask::Record(..))) {
                        if left.lose_answer > 0 {
                            actions.push(Action::LoseAnswer(index, ask.clone()));
                        }
                        actions.push(Action::Answer(index, ask.clone()));
                    }
                }
                Phase::Admitted(_) => actions.push(Action::Commit(index)),
                Phase::Ended(_) => {}
            }
        }
        if self.world.merges {
            let lanes: BTreeSet<_> = self.world.requests.iter().map(|request| request.replica).collect();
            for lane in lanes {
                for name in state.registers.keys().filter(|name| !state.batches.contains_key(&(lane, **name))) {
                    match self.pending(state, lane, *name).len() {
                        0 => {}
                        1 => actions.push(Action::Merge(lane, *name, false)),
                        _ => actions.extend([false, true].map(|order| Action::Merge(lane, *name, order))),
                    }
                }
            }
        }
        for ((lane, name), batch) in &state.batches {
            actions.push(Action::Step(*lane, *name, StepMode::Plain));
            if left.lose_answer > 0 {
                actions.push(Action::Step(*lane, *name, StepMode::Lost));
            }
            if state.stale.is_some() && to_write(batch).is_none() {
                actions.push(Action::Step(*lane, *name, StepMode::Stale));
            }
        }
        actions.extend(state.late.iter().cloned().map(Action::Land));
        match &state.cleaning {
            Some(_) => actions.push(Action::Clean),
            None => {
                for name in state.registers.keys() {
                    actions.extend([Action::Look(*name, false), Action::Look(*name, true)]);
                    if self.world.lacks(Guard::TimeAfterRead) {
                        actions.push(Action::LookByOldTime(*name));
                    }
                }
            }
        }
        actions.extend(self.events(state).into_iter().map(Action::Event));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => state.now += 1,
            Action::Begin(index) => self.begin(&mut state, index),
            Action::Answer(index, ask) => self.answer(&mut state, index, &ask, false),
            Action::LoseAnswer(index, ask) => {
                state.left.lose_answer -= 1;
                self.answer(&mut state, index, &ask, true);
            }
            Action::Merge(lane, name, is_descending) => self.begin_batch(&mut state, lane, name, is_descending),
            Action::Step(lane, name, mode) => {
                state.left.lose_answer -= u8::from(mode == StepMode::Lost);
                self.step(&mut state, lane, name, mode);
            }
            Action::Land(register) => {
                state.late.remove(&register);
                self.put(&mut state, &register, Guard::WriteByVersion);
            }
            Action::Commit(index) => self.commit(&mut state, index),
            Action::Look(name, has_news) => {
                if !self.look(&mut state, name, last.time(), has_news) {
                    return None;
                }
                if self.world.is_coarse {
                    self.clean(&mut state);
                }
            }
            Action::LookByOldTime(name) => {
                self.look(&mut state, name, last.time() - Duration::from_secs(1), false);
            }
            Action::Clean => self.clean(&mut state),
            Action::Event(event) => self.happen(&mut state, event),
        }
        self.settle(&mut state);
        if self.promises(last) {
            let before = self.dangling(last);
            state.is_broken |= self.dangling(&state).iter().any(|reference| !before.contains(reference));
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

pub(crate) fn key(resource: &str, name: String) -> ObjectKey {
    let kind = GroupResource { group: Group::CORE, resource: Resource::parse(resource).expect("a resource") };
    ObjectKey { cluster: None, kind, namespace: None, name }
}

/// Returns the marks that a register has about a hot target at the beginning.
fn marks(hot: Hot, target: &ObjectKey, dependent: &ObjectKey) -> Value {
    let key = |key: &ObjectKey| json!({"resource": key.kind.resource.as_str(), "name": key.name});
    let nonce = |number: usize| format!("{:032x}", 5000 + number);
    match hot {
        Hot::Shared => json!({"target": key(target), "shared": {"epoch": nonce(0), "open": true}}),
        Hot::Full => {
            let intents = (0..MAX_INTENTS).map(
                |number| json!({"nonce": nonce(number), "dependent": key(dependent), "uid": format!("over-{number}")}),
            );
            json!({"target": key(target), "intents": intents.collect::<Vec<_>>()})
        }
    }
}
