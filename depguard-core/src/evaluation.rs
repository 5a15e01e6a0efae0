//! The decision of one review, without I/O: it says what it needs to know, takes the answers, and decides.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::api::{FailurePolicy, OnDelete};
use crate::bearing::{Candidate, Kinds};
use crate::bindings::{self, BINDINGS_PATH};
use crate::decision::{Because, Decision, Notes, Problem, Reason, Ruling, Subject};
use crate::found::MOST_BLOCKERS;
use crate::graph::{Graph, Node};
use crate::home::Home;
use crate::listing::{Listing, Progress};
use crate::lookup::{Lookup, Step};
use crate::names::{GroupResource, Namespace};
use crate::query::{Answer, Query, QueryId};
use crate::review::Review;
use crate::ruleset::{Check, Context, IndexedEdge, Reach};
use crate::scopes::{Release, Scope, Scopes, Unbinding, Verdict};
use crate::target::Target;

mod ruling;

/// A review that is being decided.
///
/// Ask every [`Query`] that [`queries`](Self::queries) hands out, [`answer`](Self::answer) each, and do so again until
/// none is left; then [`decide`](Self::decide). The order of answers doesn't matter, and deciding earlier is safe: what
/// was not answered is refused.
#[derive(Debug)]
pub struct Evaluation(State);

#[derive(Debug)]
enum State {
    Settled(Box<Decision>),
    Asking(Box<Asking>),
}

#[derive(Debug)]
struct Asking {
    home: Home,
    target: Target,
    /// Read before the dependents, for the edges that need it.
    bindings: Option<Bindings>,
    graph: Arc<Graph>,
    kinds: Kinds,
    /// Whether any edge bears on the target.
    bears: bool,
    searches: Vec<Search>,
    scopes: Scopes,
    failure_policy: FailurePolicy,
    /// What could not be found out, and is refused for.
    problems: Vec<Problem>,
    /// What could not be found out, and is not.
    notes: Notes,
    /// Queries that were asked and not answered, by their id.
    open: BTreeMap<QueryId, Asked>,
    /// What is to be handed out next.
    ready: VecDeque<Asked>,
    next_id: usize,
}

#[derive(Debug)]
struct Bindings {
    listing: Listing,
    candidates: Vec<Candidate>,
    /// Whether it must be known what the ends of edges are.
    cyclic: bool,
}

#[derive(Debug)]
struct Search {
    lookup: Lookup,
    /// What all its edges want for what they find.
    on_delete: OnDelete,
    /// Why its edges may let go in what is torn down.
    release: Option<Release>,
}

#[derive(Debug, Clone)]
enum Asked {
    Bindings,
    Lookup(usize),
    Scope(Scope),
}

/// Begins to decide the deletion of an object that `edges` protect.
pub(crate) fn begin(
    home: Home,
    review: &Review<'_>,
    edges: &[&Arc<IndexedEdge>],
    graph: &Arc<Graph>,
    context: &Context<'_>,
) -> Evaluation {
    let kind = match edges.first() {
        Some(edge) => edge.target.clone(),
        None => return Evaluation::settled(Decision::allow(Because::NoRule)),
    };
    let refuses =
        context.failure_policy == FailurePolicy::Fail && edges.iter().any(|edge| edge.on_delete == OnDelete::Deny);
    let Some(object) = review.old_object() else {
        return unreadable(kind, "the review has no oldObject", refuses);
    };
    if object.is_terminating() {
        return Evaluation::settled(Decision::allow(Because::Terminating));
    }
    if object.wants_no_protection() && context.overrides.allows(review.requester()) {
        let notes = Notes { overridden_by: Some(review.requester().username().to_owned()), ..Notes::default() };
        return Evaluation::settled(Decision::new(Ruling::Allowed(Because::Overridden), notes));
    }
    let target = match Target::read(home, kind.clone(), object) {
        Ok(target) => target,
        Err(why) => return unreadable(kind, &why, refuses),
    };
    let candidates: Vec<_> =
        (edges.iter()).filter_map(|edge| Candidate::new(home, edge, &target, context.workspaces)).collect();
    if candidates.is_empty() {
        return Evaluation::settled(Decision::allow(Because::NotBound));
    }
    let mut asking = Asking {
        home,
        bindings: None,
        graph: Arc::clone(graph),
        kinds: Kinds::new(home, target.cluster.clone(), context.workspaces),
        bears: false,
        searches: Vec::new(),
        scopes: Scopes::new(target.cluster.clone(), target.namespace.clone()),
        failure_policy: context.failure_policy,
        problems: Vec::new(),
        notes: Notes { subject: Some(Subject { kind, name: target.name.clone() }), ..Notes::default() },
        target,
        open: BTreeMap::new(),
        ready: VecDeque::new(),
        next_id: 0,
    };
    if candidates.iter().all(|candidate| candidate.bears() && !asking.leads_to_exports(&candidate.edge)) {
        asking.begin_lookups(candidates);
    } else {
        let cyclic = candidates.iter().any(|candidate| graph.may_close(&candidate.edge));
        asking.bindings = Some(Bindings { listing: Listing::new(BINDINGS_PATH.to_owned()), candidates, cyclic });
        asking.ready.push_back(Asked::Bindings);
    }
    Evaluation(State::Asking(Box::new(asking)))
}

impl Evaluation {
    pub(crate) fn settled(decision: Decision) -> Self {
        Self(State::Settled(Box::new(decision)))
    }

    /// What to ask now, each query once. Empty while others are under way, or when nothing more is needed.
    pub fn queries(&mut self) -> Vec<Query> {
        match &mut self.0 {
            State::Settled(_) => Vec::new(),
            State::Asking(asking) if asking.is_full() => Vec::new(),
            State::Asking(asking) => asking.hand_out(),
        }
    }

    /// Takes the answer to a query. One that was not asked, or was answered already, is passed over.
    pub fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        if let State::Asking(asking) = &mut self.0
            && let Some(asked) = asking.open.remove(&id)
        {
            match asked {
                Asked::Bindings => asking.answer_bindings(answer),
                Asked::Lookup(lookup) => asking.answer_lookup(lookup, answer),
                Asked::Scope(scope) => asking.scopes.answer(scope, answer),
            }
            if asking.open.is_empty() && asking.ready.is_empty() {
                asking.ask_scopes();
            }
        }
    }

    /// Whether the decision stands, whatever else might be answered.
    pub fn is_settled(&self) -> bool {
        match &self.0 {
            State::Settled(_) => true,
            State::Asking(asking) => asking.is_full() || (asking.ready.is_empty() && asking.open.is_empty()),
        }
    }

    /// Decides. What was asked and not answered counts as what could not be found out.
    pub fn decide(self) -> Decision {
        match self.0 {
            State::Settled(decision) => *decision,
            State::Asking(asking) => asking.decide(),
        }
    }
}

impl Asking {
    fn hand_out(&mut self) -> Vec<Query> {
        let mut queries = Vec::new();
        while let Some(asked) = self.ready.pop_front() {
            let id = QueryId(self.next_id);
            let (path, export) = match &asked {
                Asked::Bindings => (self.bindings.as_ref().map(|bindings| bindings.listing.next()), None),
                Asked::Lookup(index) => {
                    let lookup = self.searches.get(*index).map(|search| &search.lookup);
                    (lookup.map(Lookup::next), lookup.and_then(Lookup::export))
                }
                Asked::Scope(scope) => (Some(scope.path()), None),
            };
            if let Some(path) = path {
                self.next_id += 1;
                self.open.insert(id, asked);
                queries.push(Query { id, cluster: self.target.cluster.clone(), export, path });
            }
        }
        queries
    }

    fn answer_bindings(&mut self, answer: Answer<'_>) {
        let Some(Bindings { listing, candidates, cyclic }) = &mut self.bindings else { return };
        let progress = listing.answer(answer, |body| {
            bindings::read_page(body, |binding| {
                if *cyclic {
                    self.kinds.see(binding);
                }
                for candidate in candidates.iter_mut() {
                    candidate.see(binding);
                }
            })
        });
        let failed = match progress {
            Progress::More => return self.ready.push_back(Asked::Bindings),
            Progress::Restart => {
                self.kinds.reset();
                for candidate in candidates {
                    candidate.reset();
                }
                return self.ready.push_back(Asked::Bindings);
            }
            Progress::Complete => None,
            Progress::NotFound => {
                Some("failed with HTTP 404; make sure that this is a kcp, or run with --home kubernetes".to_owned())
            }
            Progress::Failed(why) => Some(why),
        };
        let candidates = std::mem::take(candidates);
        self.bindings = None;
        match failed {
            None => self.begin_lookups(candidates.into_iter().filter(Candidate::bears).collect()),
            Some(why) => {
                let place = self.place(None);
                let on_delete = candidates.iter().map(|candidate| candidate.edge.on_delete).min().unwrap_or_default();
                self.trouble(on_delete, format!("the list of apibindings{place} {why}"));
                // What needs no binding is looked up all the same: it may name a blocker.
                self.begin_lookups(candidates.into_iter().filter(Candidate::bears).collect());
            }
        }
    }

    /// One lookup for all edges about the same dependents; but those that may let go are kept from those that never do,
    /// and those that refuse from those that don't: what one can't read must not decide for the other.
    fn begin_lookups(&mut self, candidates: Vec<Candidate>) {
        let mut by_kind: BTreeMap<_, Vec<Arc<IndexedEdge>>> = BTreeMap::new();
        let mut reached = HashMap::new();
        self.bears |= !candidates.is_empty();
        for candidate in candidates {
            let edge = &candidate.edge;
            let namespace = match edge.reach(&self.target) {
                Reach::Nowhere => continue,
                Reach::Namespace => self.target.namespace.clone(),
                Reach::Everywhere => None,
            };
            match &edge.check {
                Check::Follow { dependent, .. } => {
                    let provider =
                        edge.dependent_export.clone().and_then(|export| Some((edge.rule.cluster.clone()?, export)));
                    let release = match self.cycle(edge, &mut reached) {
                        _ if edge.on_delete != OnDelete::Deny => None,
                        Some(unbinding) => Some(Release::Cycle(unbinding)),
                        None => candidate.is_kept_last(&self.target).then_some(Release::KeptLast),
                    };
                    let kind = (provider, dependent.gvr.clone(), namespace, edge.on_delete, release);
                    by_kind.entry(kind).or_default().push(Arc::clone(edge));
                }
                Check::Broken(error) => {
                    let why = format!("rule {} can't be evaluated: {error}; correct or delete the rule", edge.rule);
                    self.trouble(edge.on_delete, why);
                }
            }
        }
        for ((export, gvr, namespace, on_delete, release), edges) in by_kind {
            self.ready.push_back(Asked::Lookup(self.searches.len()));
            let lookup = Lookup::new(export, gvr, &edges, namespace, release);
            self.searches.push(Search { lookup, on_delete, release });
        }
    }

    /// Whether the edge, which bears, lies on a cycle of edges that all bear here.
    fn cycle(&self, edge: &Arc<IndexedEdge>, reached: &mut HashMap<Node, HashSet<Node>>) -> Option<Unbinding> {
        if !self.graph.may_close(edge) {
            return None;
        }
        let (dependent, target) = (Node::dependent(edge), self.kinds.target(edge)?);
        let reached = (reached.entry(target.clone()))
            .or_insert_with(|| self.graph.reach(target.clone(), |edge| self.kinds.target(edge)));
        reached.contains(&dependent).then(|| Unbinding {
            dependent: self.kinds.is_unbinding(&dependent),
            target: self.kinds.is_unbinding(&target),
        })
    }

    /// Whether the edge, between local kinds, may lie on a cycle with exported ones, of which only bindings tell.
    fn leads_to_exports(&self, edge: &Arc<IndexedEdge>) -> bool {
        let mut exported = false;
        if self.graph.may_close(edge)
            && let Some(target) = self.kinds.target(edge)
        {
            self.graph.reach(target, |edge| {
                exported |= edge.target_export.is_some();
                self.kinds.target(edge)
            });
        }
        exported
    }

    fn answer_lookup(&mut self, index: usize, answer: Answer<'_>) {
        let Some(Search { lookup, on_delete, .. }) = self.searches.get_mut(index) else { return };
        let on_delete = *on_delete;
        match lookup.answer(self.home, &self.target, answer) {
            Step::Ask => self.ready.push_back(Asked::Lookup(index)),
            Step::Done => {}
            Step::Failed(why) => {
                let (subject, namespace) = (lookup.subject(), lookup.namespace().cloned());
                let place = self.place(namespace.as_ref());
                self.trouble(on_delete, format!("the list of {subject}{place} {why}"));
            }
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
        for Search { lookup, release, .. } in &self.searches {
            match release.map(|release| self.scopes.judge(release, lookup.found())) {
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
        let found = self.of(OnDelete::Deny).map(|search| search.lookup.found().first().len());
        found.sum::<usize>() >= MOST_BLOCKERS && self.must_refuse()
    }

    fn of(&self, on_delete: OnDelete) -> impl Iterator<Item = &Search> {
        self.searches.iter().filter(move |search| search.on_delete == on_delete)
    }

    fn place(&self, namespace: Option<&Namespace>) -> String {
        match (namespace, &self.target.cluster) {
            (Some(namespace), Some(cluster)) => format!(" in namespace {namespace} of logical cluster {cluster}"),
            (Some(namespace), None) => format!(" in namespace {namespace}"),
            (None, Some(cluster)) => format!(" in logical cluster {cluster}"),
            (None, None) => String::new(),
        }
    }
}

impl Search {
    fn blocks_anyway(&self, failure_policy: FailurePolicy) -> bool {
        let found = self.lookup.found();
        let firm = match self.release {
            None => !found.is_empty(),
            Some(Release::KeptLast) => !found.lie_in_no_namespace(),
            Some(Release::Cycle(_)) => false,
        };
        firm || (failure_policy == FailurePolicy::Fail && !self.lookup.doubts().is_empty())
    }
}

fn unreadable(kind: GroupResource, why: &str, refuses: bool) -> Evaluation {
    let problems = vec![Problem(format!("the review can't be read: {why}; look at who sent it"))];
    let subject = Subject { kind, name: "?".to_owned() };
    Evaluation::settled(if refuses {
        Decision::deny(subject, Reason::Undecided { problems })
    } else {
        let notes = Notes { subject: Some(subject), problems, ..Notes::default() };
        Decision::new(Ruling::Allowed(Because::Tolerated), notes)
    })
}
