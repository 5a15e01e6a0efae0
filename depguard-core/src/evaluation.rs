//! The decision of one review, without I/O: it says what it needs to know, takes the answers, and decides.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::api::{FailurePolicy, OnDelete};
use crate::bearing::{Candidate, Kinds};
use crate::bounds::Bounds;
use crate::decision::{Decision, Notes, Problem, RefusalCode};
use crate::found::{ENOUGH, Findings};
use crate::graph::Graph;
use crate::listing::Listing;
use crate::lookup::Lookup;
use crate::names::Namespace;
use crate::plan::{Dependents, Planned};
use crate::query::{Accept, Answer, Query, QueryId};
use crate::reading::Reading;
use crate::scopes::{Release, Scope, Scopes, Verdict, place};
use crate::target::Target;

mod case;
mod driven;
mod edges;
mod eviction;
mod ruling;
mod within;

pub(crate) use self::case::Case;
use self::eviction::Eviction;

/// A review that is being decided.
///
/// [`decide_with`](Self::decide_with) and [`decide_until`](Self::decide_until) have its queries answered by a function that
/// does a GET. By hand: ask every [`Query`] that [`queries`](Self::queries) hands out, [`answer`](Self::answer) each, and do
/// so again until none is left; then [`decide`](Self::decide). The order of answers doesn't matter, and deciding earlier is
/// safe: what was not answered is refused.
///
/// Many evaluations at once may share the lists of dependents: take out [`lookups`](Self::lookups) before asking for
/// queries, carry them out by a [`Reading`], and give them [back](Self::finish).
#[derive(Debug)]
pub struct Evaluation(State);

#[derive(Debug)]
enum State {
    Settled(Box<Decision>),
    /// The Pod must be read before anything else.
    Evicting(Box<Eviction>),
    Asking(Box<Asking>),
}

#[derive(Debug)]
struct Asking {
    target: Arc<Target>,
    /// Read before the dependents, for the edges that need it.
    bindings: Option<Bindings>,
    /// What the review may be about; `None`: anything.
    bounds: Option<Bounds>,
    graph: Arc<Graph>,
    kinds: Kinds,
    /// Whether any edge bears on the target.
    bears: bool,
    searches: Vec<Search>,
    /// Lookups that nobody carries out yet.
    due: Vec<Lookup>,
    /// How many lookups others carry out.
    lent: usize,
    /// Those that are carried out here, by the numbers of their readings.
    readings: BTreeMap<usize, Reading>,
    scopes: Scopes,
    failure_policy: FailurePolicy,
    /// How it is refused.
    refusal: RefusalCode,
    /// What could not be found out, and is refused for.
    problems: Vec<Problem>,
    /// What could not be found out, and is not.
    notes: Notes,
    /// Queries that were asked and not answered, by their id.
    open: BTreeMap<QueryId, Asked>,
    /// What is to be handed out next.
    ready: VecDeque<Asked>,
    next_id: usize,
    next_reading: usize,
}

#[derive(Debug)]
struct Bindings {
    listing: Listing,
    candidates: Vec<Candidate>,
    /// Whether it must be known what the ends of edges are.
    cyclic: bool,
    /// The most that is wanted by whoever needs them.
    on_delete: OnDelete,
}

#[derive(Debug)]
struct Search {
    planned: Planned,
    /// What all its edges want for what they find.
    on_delete: OnDelete,
    /// Why its edges may let go in what is torn down.
    release: Option<Release>,
    /// What came of it; `None` while it is carried out.
    lookup: Option<Lookup>,
}

#[derive(Debug, Clone)]
enum Asked {
    Bindings,
    Reading(usize),
    Scope(Scope),
}

impl Evaluation {
    pub(crate) fn settled(decision: Decision) -> Self {
        Self(State::Settled(Box::new(decision)))
    }

    /// What to ask now, each query once. Empty while others are under way, or when nothing more is needed.
    ///
    /// Lookups that were not [taken out](Self::lookups) before are among them.
    pub fn queries(&mut self) -> Vec<Query> {
        match &mut self.0 {
            State::Settled(_) => Vec::new(),
            State::Evicting(eviction) => eviction.hand_out().into_iter().collect(),
            State::Asking(asking) if asking.is_full() => Vec::new(),
            State::Asking(asking) => asking.hand_out(),
        }
    }

    /// Takes out the lookups that are due, to be carried out elsewhere: each must be given [back](Self::finish). New ones
    /// may become due with each answer.
    pub fn lookups(&mut self) -> Vec<Lookup> {
        let State::Asking(asking) = &mut self.0 else { return Vec::new() };
        asking.lent += asking.due.len();
        std::mem::take(&mut asking.due)
    }

    /// Takes a lookup back, whatever came of it. Where it has [not ended](Lookup::has_ended), what it was to find out is
    /// not known.
    pub fn finish(&mut self, lookup: Lookup) {
        if let State::Asking(asking) = &mut self.0 {
            asking.lent = asking.lent.saturating_sub(1);
            asking.take_back(lookup);
            asking.go_on();
        }
    }

    /// How the dependents are looked for, as far as that is planned: first the bindings must be known.
    pub fn plan(&self) -> Vec<Planned> {
        match &self.0 {
            State::Settled(_) | State::Evicting(_) => Vec::new(),
            State::Asking(asking) => asking.searches.iter().map(|search| search.planned.clone()).collect(),
        }
    }

    /// Takes the answer to a query. One that was not asked, or was answered already, is passed over.
    pub fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        match &mut self.0 {
            State::Settled(_) => {}
            State::Evicting(eviction) => {
                if let Some(evaluation) = eviction.answer(id, answer) {
                    *self = evaluation;
                }
            }
            State::Asking(asking) => asking.answer(id, answer),
        }
    }

    /// Whether the decision stands, whatever else might be answered.
    pub fn is_settled(&self) -> bool {
        match &self.0 {
            State::Settled(_) => true,
            State::Evicting(_) => false,
            State::Asking(asking) => asking.is_outside() || asking.is_full() || asking.is_idle(),
        }
    }

    /// Decides. What was asked and not answered counts as what could not be found out.
    pub fn decide(self) -> Decision {
        match self.0 {
            State::Settled(decision) => *decision,
            State::Evicting(eviction) => eviction.unanswered(),
            State::Asking(asking) => asking.decide(),
        }
    }
}

impl Asking {
    fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        let Some(asked) = self.open.remove(&id) else { return };
        match asked {
            Asked::Bindings => self.answer_bindings(answer),
            Asked::Reading(reading) => self.answer_reading(reading, answer),
            Asked::Scope(scope) => self.scopes.answer(scope, answer),
        }
        self.go_on();
    }

    fn hand_out(&mut self) -> Vec<Query> {
        self.begin_readings();
        let mut queries = Vec::new();
        while let Some(asked) = self.ready.pop_front() {
            let id = QueryId(self.next_id);
            let plain = |path| {
                let cluster = self.target.cluster.clone();
                Query { id, cluster, export: None, path, accept: Accept::Json }
            };
            let query = match &asked {
                Asked::Bindings => self.bindings.as_ref().map(|bindings| plain(bindings.listing.next())),
                Asked::Reading(number) => {
                    let reading = self.readings.get(number);
                    reading.and_then(|reading| Some(Query { id, ..reading.query(reading.next()?) }))
                }
                Asked::Scope(scope) => Some(plain(scope.path())),
            };
            if let Some(query) = query {
                self.next_id += 1;
                self.open.insert(id, asked);
                queries.push(query);
            }
        }
        queries
    }

    /// Lookups that nobody took out are carried out here: one list for all of the same dependents.
    fn begin_readings(&mut self) {
        let mut scans: BTreeMap<_, Vec<Lookup>> = BTreeMap::new();
        let mut readings = Vec::new();
        for lookup in std::mem::take(&mut self.due) {
            match lookup.field() {
                Some(_) => readings.push(Reading::selecting(lookup)),
                None => scans.entry(lookup.dependents().clone()).or_default().push(lookup),
            }
        }
        readings.extend(scans.into_values().filter_map(Reading::scanning));
        for reading in readings {
            let number = self.next_reading;
            self.next_reading += 1;
            self.ready.push_back(Asked::Reading(number));
            self.readings.insert(number, reading);
        }
    }

    fn answer_reading(&mut self, number: usize, answer: Answer<'_>) {
        let Some(reading) = self.readings.get_mut(&number) else { return };
        reading.answer(answer);
        if reading.next().is_some() {
            return self.ready.push_back(Asked::Reading(number));
        }
        for lookup in self.readings.remove(&number).map(Reading::into_lookups).unwrap_or_default() {
            if lookup.has_ended() { self.take_back(lookup) } else { self.due.push(lookup) }
        }
    }

    fn take_back(&mut self, lookup: Lookup) {
        let failure = lookup.failure().map(|why| self.could_not_list(lookup.dependents(), why));
        let Some(search) = self.searches.get_mut(lookup.index) else { return };
        let on_delete = search.on_delete;
        search.planned = lookup.planned();
        search.lookup = Some(lookup);
        if let Some(why) = failure {
            self.trouble(on_delete, why);
        }
    }

    fn could_not_list(&self, dependents: &Dependents, why: &str) -> String {
        format!("the list of {}{} {why}", dependents.gvr, self.place(dependents.namespace.as_ref()))
    }

    fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.open.is_empty() && self.due.is_empty() && self.lent == 0
    }

    /// Once all that refers to the target is known, it may matter where it lies.
    fn go_on(&mut self) {
        if self.is_idle() {
            self.ask_scopes();
        }
    }

    /// Something could not be found out for edges that want this: a reason to refuse, or no more than to say so.
    fn trouble(&mut self, on_delete: OnDelete, why: String) {
        let problems = match (on_delete, self.failure_policy) {
            (OnDelete::Deny, FailurePolicy::Fail) => &mut self.problems,
            (OnDelete::Deny | OnDelete::Warn, _) => &mut self.notes.problems,
            (OnDelete::Audit, _) => &mut self.notes.audited_problems,
        };
        problems.push(Problem(why));
    }

    /// Reads the scopes around what was found, where they alone are left to decide.
    fn ask_scopes(&mut self) {
        let mut wanted = Vec::new();
        if self.must_refuse() {
            return;
        }
        for search in &self.searches {
            match search.release.map(|release| self.scopes.judge(release, search.found())) {
                None | Some(Verdict::Going) => {}
                Some(Verdict::Standing) => return,
                Some(Verdict::Ask(scopes)) => wanted.extend(scopes),
            }
        }
        for scope in wanted {
            if self.scopes.ask(&scope) {
                self.ready.push_back(Asked::Scope(scope));
            }
        }
    }

    /// Whether there is a reason to refuse whatever is torn down.
    fn must_refuse(&self) -> bool {
        !self.problems.is_empty() || self.of(OnDelete::Deny).any(|search| search.blocks_anyway(self.failure_policy))
    }

    /// Whether there are more blockers than anybody wants to know of.
    fn is_full(&self) -> bool {
        let found = self.of(OnDelete::Deny).map(|search| search.found().first().len());
        // While the bindings are read, it may not be known yet whether that may be told.
        self.bindings.is_none() && found.sum::<usize>() >= ENOUGH && self.must_refuse()
    }

    fn of(&self, on_delete: OnDelete) -> impl Iterator<Item = &Search> {
        self.searches.iter().filter(move |search| search.on_delete == on_delete)
    }

    fn place(&self, namespace: Option<&Namespace>) -> String {
        place(self.target.cluster.as_ref(), namespace)
    }
}

impl Search {
    /// What it found; nothing, while it is carried out.
    fn found(&self) -> &Findings {
        self.lookup.as_ref().map_or(Findings::NONE, Lookup::found)
    }

    fn blocks_anyway(&self, failure_policy: FailurePolicy) -> bool {
        let found = self.found();
        let firm = match self.release {
            None => !found.is_empty(),
            Some(Release::KeptLast) => !found.lie_in_no_namespace(),
            Some(Release::Cycle(_)) => false,
        };
        let doubtful = || self.lookup.as_ref().is_some_and(|lookup| !lookup.doubts().is_empty());
        firm || (failure_policy == FailurePolicy::Fail && doubtful())
    }
}
