use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::applicability::bindings_list::BindingsList;
use crate::applicability::bound_kinds::BoundKinds;
use crate::applicability::caller_scope::CallerScope;
use crate::applicability::candidates::Candidates;
use crate::applicability::teardown::{Scope, TeardownScopes, TeardownVerdict, place};
use crate::applicability::teardown_exemption::TeardownExemption;
use crate::evaluation::decision::{Decision, Diagnostics, Sender};
use crate::lookup::Lookup;
use crate::lookup::list_reader::ListReader;
use crate::lookup::planner::{Dependents, LookupPlan, Plans};
use crate::lookup::referrer_set::{MAX_SOUGHT, ReferrerSet};
use crate::model::api::{FailurePolicy, OnDelete};
use crate::model::names::Namespace;
use crate::protocol::deletion_target::DeletionTarget;
use crate::protocol::discovery::{KindRead, ServedKind};
use crate::protocol::problem::Unresolved;
use crate::protocol::query_queue::QueryQueue;
use crate::protocol::request::{Accept, Query, QueryId};
use crate::protocol::response::Answer;
use crate::protocol::response_error::unanswered;
use crate::rule::cycles::Graph;

pub(crate) mod begin;
pub(crate) mod decision;
pub(crate) mod drive;
mod edges;
mod eviction;
#[cfg(feature = "interlock")]
pub(crate) mod interlocked;
mod reference_check;
mod requested_deletion;
mod verdict;
mod within;

use self::eviction::Eviction;
#[cfg(feature = "interlock")]
use self::interlocked::BearingEdges;
use self::reference_check::ReferenceCheck;
pub(crate) use self::requested_deletion::RequestedDeletion;

/// A review that is being decided.
///
/// [`decide_with`](Self::decide_with) and [`decide_until`](Self::decide_until) answer the queries by a function that
/// does a GET. A caller can do the same by hand: send every [`Query`] of [`queries`](Self::queries), pass on each
/// [`answer`](Self::answer), repeat that until no query is left, then [`decide`](Self::decide). The order of answers
/// doesn't matter. Deciding early is safe: a missing answer leads to a refusal.
///
/// Many evaluations at once may share the lists of dependents: take out [`lookups`](Self::lookups) before asking for
/// queries, carry them out by a [`ListReader`], and give them [back](Self::finish).
#[derive(Debug)]
pub struct Evaluation(State);

/// State of an evaluation.
#[derive(Debug)]
enum State {
    Settled(Box<Decision>),
    /// The Pod must be read before anything else.
    Evicting(Box<Eviction>),
    InProgress(Box<InProgress>),
    /// A creation or an update, whose new references are checked.
    Checking(Box<ReferenceCheck>),
}

/// Evaluation of a deletion that must read something: what is asked, found and failed so far.
#[derive(Debug)]
struct InProgress {
    target: Arc<DeletionTarget>,
    /// Bindings that are read before the dependents, for the edges that need them.
    bindings: Option<Bindings>,
    /// Scope of the review; `None`: the review may be about any object.
    caller_scope: Option<CallerScope>,
    graph: Arc<Graph>,
    plans: Arc<Plans>,
    kinds: BoundKinds,
    /// True if any edge applies to the target.
    applies: bool,
    groups: Vec<EdgeGroup>,
    #[cfg(feature = "interlock")]
    bearing: BearingEdges,
    /// Lookups that are not yet carried out.
    due: Vec<Lookup>,
    /// Number of lookups that callers carry out.
    checked_out: usize,
    /// Readers of the lookups that the evaluation carries out itself, by number.
    readers: BTreeMap<usize, ListReader>,
    scopes: TeardownScopes,
    /// Further versions of the target's group, which ownerReferences name.
    served: BTreeMap<String, ServedKind>,
    failure_policy: FailurePolicy,
    sender: Sender,
    /// Problems that lead to a refusal.
    problems: Vec<Unresolved>,
    /// Problems that don't lead to a refusal, and other diagnostics.
    diagnostics: Diagnostics,
    queries: QueryQueue<PendingQuery>,
    next_reader: usize,
}

/// List of the APIBindings that is being read, and the edges that wait for it.
#[derive(Debug)]
struct Bindings {
    list: BindingsList,
    candidates: Candidates,
    /// True if the ends of edges must be known, because an edge may lie on a cycle.
    cyclic: bool,
    /// The strictest `onDelete` action of the edges that need the bindings.
    on_delete: OnDelete,
}

/// Edges that share one lookup, and its result.
#[derive(Debug)]
struct EdgeGroup {
    plan: LookupPlan,
    /// The `onDelete` action that all edges of the group share.
    on_delete: OnDelete,
    /// The teardown exemption that all edges of the group share.
    exemption: Option<TeardownExemption>,
    /// The finished lookup; `None` until it is carried out.
    lookup: Option<Lookup>,
}

/// Purpose of a query without an answer.
#[derive(Debug, Clone)]
enum PendingQuery {
    Bindings,
    Reader(usize),
    Served(KindRead),
    Scope(Scope),
}

impl Evaluation {
    pub(crate) fn settled(decision: Decision) -> Self {
        Self(State::Settled(Box::new(decision)))
    }

    /// Returns the queries to send now, each once. Empty while other queries are under way, or if no more are needed.
    ///
    /// Lookups that were not [taken out](Self::lookups) before are among them.
    pub fn queries(&mut self) -> Vec<Query> {
        match &mut self.0 {
            State::Settled(_) => Vec::new(),
            State::Evicting(eviction) => eviction.hand_out().into_iter().collect(),
            State::InProgress(progress) if progress.is_full() => Vec::new(),
            State::InProgress(progress) => progress.hand_out(),
            State::Checking(check) => check.hand_out(),
        }
    }

    /// Takes out the lookups that are due. The caller carries them out and must give each [back](Self::finish). Each
    /// answer may make new lookups due.
    pub fn lookups(&mut self) -> Vec<Lookup> {
        let State::InProgress(progress) = &mut self.0 else { return Vec::new() };
        progress.checked_out += progress.due.len();
        std::mem::take(&mut progress.due)
    }

    /// Takes a lookup back, whatever its result. If the lookup has [not ended](Lookup::has_ended), its result is
    /// unknown.
    pub fn finish(&mut self, lookup: Lookup) {
        if let State::InProgress(progress) = &mut self.0 {
            progress.checked_out = progress.checked_out.saturating_sub(1);
            progress.take_back(lookup);
            progress.advance();
        }
    }

    /// Returns the plan for finding the dependents, as far as it is made: first the bindings must be known.
    pub fn plan(&self) -> Vec<LookupPlan> {
        match &self.0 {
            State::Settled(_) | State::Evicting(_) | State::Checking(_) => Vec::new(),
            State::InProgress(progress) => progress.groups.iter().map(|group| group.plan.clone()).collect(),
        }
    }

    /// Takes the answer to a query. An answer to an unknown query, or a second answer, is ignored.
    pub fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        match &mut self.0 {
            State::Settled(_) => {}
            State::Evicting(eviction) => {
                if let Some(evaluation) = eviction.answer(id, answer) {
                    *self = evaluation;
                }
            }
            State::InProgress(progress) => progress.answer(id, answer),
            State::Checking(check) => check.answer(id, answer),
        }
    }

    /// Returns true if no further answer can change the decision.
    pub fn is_settled(&self) -> bool {
        match &self.0 {
            State::Settled(_) => true,
            State::Evicting(_) => false,
            State::InProgress(progress) => progress.is_outside() || progress.is_full() || progress.is_idle(),
            State::Checking(check) => check.is_settled(),
        }
    }

    /// Decides. A query without an answer counts as a problem.
    pub fn decide(self) -> Decision {
        match self.0 {
            State::Settled(decision) => *decision,
            State::Evicting(eviction) => eviction.unanswered(),
            State::InProgress(progress) => progress.decide(),
            State::Checking(check) => check.decide(),
        }
    }
}

impl InProgress {
    fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        let Some(asked) = self.queries.take(id) else { return };
        match asked {
            PendingQuery::Bindings => self.answer_bindings(answer),
            PendingQuery::Reader(number) => self.answer_reader(number, answer),
            PendingQuery::Served(read) => {
                let served = read.answer(answer).map_err(|why| read.unknown(why));
                self.served.insert(read.version, served);
            }
            PendingQuery::Scope(scope) => self.scopes.answer(scope, answer),
        }
        self.advance();
    }

    fn hand_out(&mut self) -> Vec<Query> {
        self.begin_readers();
        let Self { queries, bindings, readers, target, .. } = self;
        let plain = |id, path| {
            let cluster = target.cluster.clone();
            Query { id, cluster, export: None, path, accept: Accept::Json }
        };
        queries.hand_out(|id, asked| match asked {
            PendingQuery::Bindings => bindings.as_ref().map(|bindings| plain(id, bindings.list.next())),
            PendingQuery::Reader(number) => {
                let reader = readers.get(number)?;
                Some(Query { id, ..reader.query(reader.next()?) })
            }
            PendingQuery::Served(read) => Some(plain(id, read.path())),
            PendingQuery::Scope(scope) => Some(plain(id, scope.path())),
        })
    }

    /// Begins the lookups that no caller took out: one list for all lookups of the same dependents.
    fn begin_readers(&mut self) {
        let mut scans: BTreeMap<_, Vec<Lookup>> = BTreeMap::new();
        let mut readers = Vec::new();
        for lookup in std::mem::take(&mut self.due) {
            match lookup.field() {
                Some(_) => readers.push(ListReader::by_field(lookup)),
                None => scans.entry(lookup.dependents().clone()).or_default().push(lookup),
            }
        }
        readers.extend(scans.into_values().filter_map(ListReader::by_scan));
        for reader in readers {
            let number = self.next_reader;
            self.next_reader += 1;
            self.queries.push(PendingQuery::Reader(number));
            self.readers.insert(number, reader);
        }
    }

    fn answer_reader(&mut self, number: usize, answer: Answer<'_>) {
        let Some(reader) = self.readers.get_mut(&number) else { return };
        reader.answer(answer);
        if reader.next().is_some() {
            return self.queries.push(PendingQuery::Reader(number));
        }
        for lookup in self.readers.remove(&number).map(ListReader::into_lookups).unwrap_or_default() {
            if lookup.has_ended() { self.take_back(lookup) } else { self.due.push(lookup) }
        }
    }

    fn take_back(&mut self, lookup: Lookup) {
        let failure = lookup.failure().map(|why| self.could_not_list(lookup.dependents(), why.clone()));
        let Some(group) = self.groups.get_mut(lookup.index) else { return };
        let on_delete = group.on_delete;
        group.plan = lookup.plan();
        group.lookup = Some(lookup);
        if let Some(why) = failure {
            self.record_failure(on_delete, why);
        }
    }

    fn could_not_list(&self, dependents: &Dependents, why: Unresolved) -> Unresolved {
        let place = self.place(dependents.namespace.as_ref());
        why.about(format_args!("the list of {}{place}", dependents.gvr))
    }

    fn is_idle(&self) -> bool {
        self.queries.is_empty() && self.due.is_empty() && self.checked_out == 0
    }

    /// Goes on after an answer. Once all objects that refer to the target are known, discovery may show which of them go
    /// with the target, and then the scopes around the others may matter.
    fn advance(&mut self) {
        if self.is_idle() {
            self.ask_served();
        }
        if self.is_idle() {
            self.count_unserved();
            self.ask_scopes();
        }
    }

    /// Reads the versions that ownerReferences name: one at most for each lookup.
    fn ask_served(&mut self) {
        let lookups = self.groups.iter().filter_map(|group| group.lookup.as_ref());
        let unread = lookups.filter_map(Lookup::version_to_read).filter(|version| !self.served.contains_key(*version));
        let unread: BTreeSet<_> = unread.map(str::to_owned).collect();
        for version in unread {
            let read = KindRead { kind: self.target.kind.clone(), version: version.clone() };
            self.served.insert(version, Err(read.unknown(unanswered())));
            self.queries.push(PendingQuery::Served(read));
        }
    }

    /// Counts the referrers that don't go with the target. If that is unknown, they count.
    fn count_unserved(&mut self) {
        let lookups = self.groups.iter_mut().filter_map(|group| Some((group.on_delete, group.lookup.as_mut()?)));
        let unknown = lookups.filter_map(|(on_delete, lookup)| Some((on_delete, lookup.count_unserved(&self.served)?)));
        for (on_delete, why) in unknown.collect::<Vec<_>>() {
            self.record_failure(on_delete, why);
        }
    }

    /// Records a problem of edges with this action: a reason to refuse, or only a note.
    fn record_failure(&mut self, on_delete: OnDelete, why: Unresolved) {
        let problems = match (on_delete, self.failure_policy) {
            (OnDelete::Deny, FailurePolicy::Fail) => &mut self.problems,
            (OnDelete::Deny | OnDelete::Warn, _) => &mut self.diagnostics.problems,
            (OnDelete::Audit, _) => &mut self.diagnostics.audited_problems,
        };
        problems.push(why);
    }

    /// Reads the scopes around the referrers, if only those scopes are left to decide.
    fn ask_scopes(&mut self) {
        let mut unread = Vec::new();
        if self.must_refuse() {
            return;
        }
        for group in &self.groups {
            match group.exemption.map(|exemption| self.scopes.scope_verdict(exemption, group.found().namespaces())) {
                None | Some(TeardownVerdict::Terminating) => {}
                Some(TeardownVerdict::Active) => return,
                Some(TeardownVerdict::Unknown(scopes)) => unread.extend(scopes),
            }
        }
        for scope in unread {
            if self.scopes.ask(&scope) {
                self.queries.push(PendingQuery::Scope(scope));
            }
        }
    }

    /// Returns true if there is a reason to refuse, whatever is torn down.
    fn must_refuse(&self) -> bool {
        !self.problems.is_empty()
            || self.groups_with(OnDelete::Deny).any(|group| group.blocks_anyway(self.failure_policy))
    }

    /// Returns true if there are more blockers than a message names.
    fn is_full(&self) -> bool {
        let found = self.groups_with(OnDelete::Deny).map(|group| group.found().first().len());
        // While the bindings are read, it may be unknown if the caller may see the blockers.
        self.bindings.is_none() && found.sum::<usize>() >= MAX_SOUGHT && self.must_refuse()
    }

    fn groups_with(&self, on_delete: OnDelete) -> impl Iterator<Item = &EdgeGroup> {
        self.groups.iter().filter(move |group| group.on_delete == on_delete)
    }

    fn place(&self, namespace: Option<&Namespace>) -> String {
        place(self.target.cluster.as_ref(), namespace)
    }
}

impl EdgeGroup {
    /// Returns the referrers that the lookup found; none until it is finished.
    fn found(&self) -> &ReferrerSet {
        self.lookup.as_ref().map_or(ReferrerSet::NONE, Lookup::referrers)
    }

    fn blocks_anyway(&self, failure_policy: FailurePolicy) -> bool {
        let firm = self.found().blocks_despite(self.exemption);
        let doubtful = || self.lookup.as_ref().is_some_and(|lookup| !lookup.doubts().is_empty());
        firm || (failure_policy == FailurePolicy::Fail && doubtful())
    }
}
