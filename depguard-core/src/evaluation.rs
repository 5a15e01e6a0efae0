//! The decision of one review, without I/O: it says what it needs to know, takes the answers, and decides.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::bearing::{Candidate, Kinds};
use crate::bindings::{self, BINDINGS_PATH};
use crate::decision::{Because, Blocker, Count, Decision, Denial, Problem, Reason, Subject};
use crate::found::{Found, MOST_BLOCKERS};
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

/// A review that is being decided.
///
/// Ask every [`Query`] that [`queries`](Self::queries) hands out, [`answer`](Self::answer) each, and do so again until
/// none is left; then [`decide`](Self::decide). The order of answers doesn't matter, and deciding earlier is safe: what
/// was not answered is refused.
#[derive(Debug)]
pub struct Evaluation(State);

#[derive(Debug)]
enum State {
    Settled(Decision),
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
    problems: Vec<Problem>,
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
    edges: &[Arc<IndexedEdge>],
    graph: &Arc<Graph>,
    context: &Context<'_>,
) -> Evaluation {
    let kind = match edges.first() {
        Some(edge) => edge.target.clone(),
        None => return Evaluation::settled(Decision::Allowed(Because::NoRule)),
    };
    let Some(object) = review.old_object() else {
        return unreadable(kind, "the review has no oldObject");
    };
    if object.is_terminating() {
        return Evaluation::settled(Decision::Allowed(Because::Terminating));
    }
    if object.wants_no_protection() && context.overrides.allows(review.requester()) {
        return Evaluation::settled(Decision::Allowed(Because::Overridden));
    }
    let target = match Target::read(home, kind.clone(), object) {
        Ok(target) => target,
        Err(why) => return unreadable(kind, &why),
    };
    let candidates: Vec<_> =
        (edges.iter()).filter_map(|edge| Candidate::new(home, edge, &target, context.workspaces)).collect();
    if candidates.is_empty() {
        return Evaluation::settled(Decision::Allowed(Because::NotBound));
    }
    let mut asking = Asking {
        home,
        bindings: None,
        graph: Arc::clone(graph),
        kinds: Kinds::new(home, target.cluster.clone(), context.workspaces),
        bears: false,
        searches: Vec::new(),
        scopes: Scopes::new(target.cluster.clone(), target.namespace.clone()),
        target,
        problems: Vec::new(),
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
        Self(State::Settled(decision))
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
            State::Settled(decision) => decision,
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
                self.problems.push(Problem(format!("the list of apibindings{place} {why}")));
                // What needs no binding is looked up all the same: it may name a blocker.
                self.begin_lookups(candidates.into_iter().filter(Candidate::bears).collect());
            }
        }
    }

    /// One lookup for all edges about the same dependents; but those that may let go are kept from those that never do.
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
                        Some(unbinding) => Some(Release::Cycle(unbinding)),
                        None => candidate.is_kept_last(&self.target).then_some(Release::KeptLast),
                    };
                    let kind = (provider, dependent.gvr.clone(), namespace, release);
                    by_kind.entry(kind).or_default().push(Arc::clone(edge));
                }
                Check::Broken(error) => self.problems.push(Problem(format!(
                    "rule {} can't be evaluated: {error}; correct or delete the rule",
                    edge.rule
                ))),
            }
        }
        for ((export, gvr, namespace, release), edges) in by_kind {
            self.ready.push_back(Asked::Lookup(self.searches.len()));
            let lookup = Lookup::new(export, gvr, &edges, namespace, release);
            self.searches.push(Search { lookup, release });
        }
    }

    /// Whether the edge, which bears, lies on a cycle of edges that all bear here.
    fn cycle(&self, edge: &Arc<IndexedEdge>, reached: &mut HashMap<Node, HashSet<Node>>) -> Option<Unbinding> {
        if !self.graph.may_close(edge) {
            return None;
        }
        let (dependent, target) = self.kinds.ends(edge)?;
        let next = |edge: &IndexedEdge| self.kinds.ends(edge).map(|(_, target)| target);
        let reached = reached.entry(target.clone()).or_insert_with(|| self.graph.reach(target.clone(), next));
        reached.contains(&dependent).then(|| Unbinding {
            dependent: self.kinds.is_unbinding(&dependent),
            target: self.kinds.is_unbinding(&target),
        })
    }

    /// Whether the edge, between local kinds, may lie on a cycle with exported ones, of which only bindings tell.
    fn leads_to_exports(&self, edge: &Arc<IndexedEdge>) -> bool {
        let mut exported = false;
        if self.graph.may_close(edge)
            && let Some((_, target)) = self.kinds.ends(edge)
        {
            self.graph.reach(target, |edge| {
                exported |= edge.target_export.is_some();
                self.kinds.ends(edge).map(|(_, target)| target)
            });
        }
        exported
    }

    fn answer_lookup(&mut self, index: usize, answer: Answer<'_>) {
        let Some(Search { lookup, .. }) = self.searches.get_mut(index) else { return };
        match lookup.answer(self.home, &self.target, answer) {
            Step::Ask => self.ready.push_back(Asked::Lookup(index)),
            Step::Done => {}
            Step::Failed(why) => {
                let (subject, namespace) = (lookup.subject(), lookup.namespace().cloned());
                let place = self.place(namespace.as_ref());
                self.problems.push(Problem(format!("the list of {subject}{place} {why}")));
            }
        }
    }

    /// Reads the scopes around what was found, where they alone are left to decide.
    fn ask_scopes(&mut self) {
        let mut wanted = Vec::new();
        if self.must_refuse() {
            return;
        }
        for Search { lookup, release } in &self.searches {
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
        !self.problems.is_empty() || self.searches.iter().any(Search::blocks_anyway)
    }

    /// Whether there are more blockers than anybody wants to know of.
    fn is_full(&self) -> bool {
        let found = self.searches.iter().map(|search| search.lookup.found().first().len());
        found.sum::<usize>() >= MOST_BLOCKERS && self.must_refuse()
    }

    fn decide(mut self) -> Decision {
        let full = self.is_full();
        if !full {
            let unanswered: Vec<_> =
                self.open.values().chain(&self.ready).filter_map(|asked| self.unanswered(asked)).collect();
            self.problems.extend(unanswered);
        }
        let doubts = self.searches.iter().flat_map(|search| search.lookup.doubts()).cloned().map(Problem);
        self.problems.extend(doubts);
        self.problems.sort();
        self.problems.dedup();
        let (found, let_go) = self.blocking();
        let more = full || self.searches.iter().any(|search| search.lookup.found().has_more());
        let reason = if !found.is_empty() {
            let count = if more { Count::AtLeast(found.len()) } else { Count::Exactly(found.len()) };
            let blockers = found.iter().filter_map(|(object, edges)| blocker(object, edges, &self.target)).collect();
            let unread = if self.must_refuse() { Vec::new() } else { self.scopes.unread() };
            Reason::Referenced { blockers, count, problems: self.problems, unread }
        } else if !self.problems.is_empty() {
            Reason::Undecided { problems: self.problems }
        } else if !self.bears {
            return Decision::Allowed(Because::NotBound);
        } else if let_go {
            return Decision::Allowed(Because::TornDown);
        } else {
            return Decision::Allowed(Because::Unreferenced);
        };
        Decision::Denied(Denial::new(Subject { kind: self.target.kind, name: self.target.name }, reason))
    }

    /// What was found and blocks, and whether something was found that doesn't.
    fn blocking(&self) -> (BTreeMap<&Found, Vec<&Arc<IndexedEdge>>>, bool) {
        let (mut blocking, mut let_go) = (BTreeMap::<_, Vec<_>>::new(), false);
        let must_refuse = self.must_refuse();
        for Search { lookup, release } in &self.searches {
            let found = lookup.found();
            let mut standing: Vec<_> = found.first().iter().collect();
            if let Some(release) = release.filter(|_| !must_refuse) {
                if !found.is_empty() && self.scopes.judge(release, found) == Verdict::Going {
                    let_go = true;
                    continue;
                }
                let stands = |object: &Found| !self.scopes.is_going(release, object.namespace.as_deref());
                // Of those that were not kept some stand, if none of the others does.
                if standing.iter().any(|(object, _)| stands(object)) {
                    standing.retain(|(object, _)| stands(object));
                }
            }
            for (object, edges) in standing {
                blocking.entry(object).or_default().extend(edges);
            }
        }
        (blocking, let_go)
    }

    /// What a list that was not answered leaves open. (A scope that was not answered says so itself.)
    fn unanswered(&self, asked: &Asked) -> Option<Problem> {
        let (subject, namespace) = match asked {
            Asked::Bindings => ("apibindings".to_owned(), None),
            Asked::Lookup(index) => {
                let lookup = &self.searches.get(*index)?.lookup;
                (lookup.subject(), lookup.namespace())
            }
            Asked::Scope(_) => return None,
        };
        let place = self.place(namespace);
        Some(Problem(format!("the list of {subject}{place} was not answered in time; retry later")))
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
    fn blocks_anyway(&self) -> bool {
        let found = self.lookup.found();
        let firm = match self.release {
            None => !found.is_empty(),
            Some(Release::KeptLast) => !found.lie_in_no_namespace(),
            Some(Release::Cycle(_)) => false,
        };
        firm || !self.lookup.doubts().is_empty()
    }
}

fn unreadable(kind: GroupResource, why: &str) -> Evaluation {
    let problem = Problem(format!("the review can't be read: {why}; look at who sent it"));
    let subject = Subject { kind, name: "?".to_owned() };
    Evaluation::settled(Decision::Denied(Denial::new(subject, Reason::Undecided { problems: vec![problem] })))
}

fn blocker(object: &Found, edges: &[&Arc<IndexedEdge>], target: &Target) -> Option<Blocker> {
    let edge = edges.first()?;
    let namespace = object
        .namespace
        .clone()
        .filter(|namespace| target.namespace.as_ref().map(Namespace::as_str) != Some(namespace));
    let field = match &edge.check {
        Check::Follow { edge, .. } => edge.reference.path().as_field(),
        Check::Broken(_) => String::new(),
    };
    Some(Blocker { kind: object.kind.clone(), namespace, name: object.name.clone(), field, rule: edge.rule.clone() })
}
