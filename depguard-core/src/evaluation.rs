//! The decision of one review, without I/O: it says what it needs to know, takes the answers, and decides.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::bindings::{self, BINDINGS_PATH};
use crate::decision::{Because, Blocker, Count, Decision, Denial, Problem, Reason, Subject};
use crate::home::Home;
use crate::listing::{Listing, Progress};
use crate::lookup::{Found, Lookup, Step};
use crate::names::{GroupResource, LogicalCluster, NameError, Namespace};
use crate::query::{Answer, Query, QueryId};
use crate::review::{Review, ReviewedObject};
use crate::ruleset::{Check, Context, IndexedEdge};
use crate::workspaces::Workspaces;

/// The most blockers that are told apart; beyond it the count is given as "at least".
const MOST_BLOCKERS: usize = 10_000;

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
    lookups: Vec<Lookup>,
    problems: Vec<Problem>,
    /// Queries that were asked and not answered, by their id.
    open: BTreeMap<QueryId, Asked>,
    /// What is to be handed out next.
    ready: VecDeque<Asked>,
    next_id: usize,
}

/// What is known of the object that is to be deleted.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) kind: GroupResource,
    pub(crate) cluster: Option<LogicalCluster>,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
}

#[derive(Debug)]
struct Bindings {
    listing: Listing,
    candidates: Vec<Candidate>,
}

/// An edge, and whether the APIBindings read so far have its two ends in this logical cluster.
#[derive(Debug)]
struct Candidate {
    edge: Arc<IndexedEdge>,
    /// The logical cluster of the target's provider, where known.
    provider: Option<LogicalCluster>,
    dependent: bool,
    target: bool,
}

#[derive(Debug, Clone, Copy)]
enum Asked {
    Bindings,
    Lookup(usize),
}

/// Begins to decide the deletion of an object that `edges` protect.
pub(crate) fn begin(home: Home, review: &Review<'_>, edges: &[Arc<IndexedEdge>], context: &Context<'_>) -> Evaluation {
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
        target,
        bindings: None,
        lookups: Vec::new(),
        problems: Vec::new(),
        open: BTreeMap::new(),
        ready: VecDeque::new(),
        next_id: 0,
    };
    if candidates.iter().all(Candidate::bears) {
        asking.begin_lookups(candidates);
    } else {
        asking.bindings = Some(Bindings { listing: Listing::new(BINDINGS_PATH.to_owned()), candidates });
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
            let (path, export) = match asked {
                Asked::Bindings => (self.bindings.as_ref().map(|bindings| bindings.listing.next()), None),
                Asked::Lookup(index) => {
                    let lookup = self.lookups.get(index);
                    (lookup.map(Lookup::next), lookup.and_then(Lookup::export))
                }
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
        let Some(Bindings { listing, candidates }) = &mut self.bindings else { return };
        let progress = listing.answer(answer, |body| {
            bindings::read_page(body, |binding| {
                for candidate in candidates.iter_mut() {
                    candidate.see(binding);
                }
            })
        });
        let failed = match progress {
            Progress::More => return self.ready.push_back(Asked::Bindings),
            Progress::Restart => {
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

    /// One lookup for all edges about the same dependents.
    fn begin_lookups(&mut self, candidates: Vec<Candidate>) {
        let mut by_kind: BTreeMap<_, Vec<Arc<IndexedEdge>>> = BTreeMap::new();
        for Candidate { edge, .. } in candidates {
            match &edge.check {
                Check::Follow { gvr, .. } => {
                    let provider =
                        edge.dependent_export.clone().and_then(|export| Some((edge.rule.cluster.clone()?, export)));
                    by_kind.entry((provider, gvr.clone())).or_default().push(edge);
                }
                Check::Broken(error) => self.problems.push(Problem(format!(
                    "rule {} can't be evaluated: {error}; correct or delete the rule",
                    edge.rule
                ))),
            }
        }
        for ((export, gvr), edges) in by_kind {
            self.ready.push_back(Asked::Lookup(self.lookups.len()));
            self.lookups.push(Lookup::new(export, gvr, edges, &self.target));
        }
    }

    fn answer_lookup(&mut self, index: usize, answer: Answer<'_>) {
        let Some(lookup) = self.lookups.get_mut(index) else { return };
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

    /// Whether there are more blockers than anybody wants to know of.
    fn is_full(&self) -> bool {
        self.lookups.iter().map(|lookup| lookup.found().len()).sum::<usize>() >= MOST_BLOCKERS
    }

    fn decide(mut self) -> Decision {
        let full = self.is_full();
        let mut found: BTreeMap<&Found, &Arc<IndexedEdge>> = BTreeMap::new();
        for lookup in &self.lookups {
            for (object, edge) in lookup.found() {
                found.entry(object).or_insert(edge);
            }
        }
        if !full {
            let unanswered: Vec<_> =
                self.open.values().chain(&self.ready).map(|asked| self.unanswered(*asked)).collect();
            self.problems.extend(unanswered);
        }
        self.problems.sort();
        self.problems.dedup();
        let problems = self.problems;
        let reason = if !found.is_empty() {
            let count = if full { Count::AtLeast(found.len()) } else { Count::Exactly(found.len()) };
            let blockers = found.into_iter().map(|(object, edge)| blocker(object, edge, &self.target)).collect();
            Reason::Referenced { blockers, count, problems }
        } else if !problems.is_empty() {
            Reason::Undecided { problems }
        } else if self.lookups.is_empty() {
            return Decision::Allowed(Because::NotBound);
        } else {
            return Decision::Allowed(Because::Unreferenced);
        };
        Decision::Denied(Denial::new(Subject { kind: self.target.kind, name: self.target.name }, reason))
    }

    fn unanswered(&self, asked: Asked) -> Problem {
        let (subject, namespace) = match asked {
            Asked::Bindings => ("apibindings".to_owned(), None),
            Asked::Lookup(index) => match self.lookups.get(index) {
                Some(lookup) => (lookup.subject(), lookup.namespace()),
                None => ("dependents".to_owned(), None),
            },
        };
        let place = self.place(namespace);
        Problem(format!("the list of {subject}{place} was not answered in time; retry later"))
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

impl Target {
    fn read(home: Home, kind: GroupResource, object: &ReviewedObject<'_>) -> Result<Self, String> {
        let cluster = match home {
            Home::Kubernetes => None,
            Home::Kcp => {
                let cluster = object.cluster().ok_or("its oldObject has no annotation kcp.io/cluster")?;
                Some(LogicalCluster::parse(cluster).map_err(|error| format!("its annotation kcp.io/cluster {error}"))?)
            }
        };
        let namespaced = |error: NameError| format!("its oldObject's namespace {error}");
        Ok(Self {
            kind,
            cluster,
            namespace: object.namespace().map(Namespace::parse).transpose().map_err(namespaced)?,
            name: object.name().ok_or("its oldObject has no name").and_then(stored_name)?.to_owned(),
            uid: object.uid().map(str::to_owned),
        })
    }
}

/// A name that an API server could have stored: the rules that all kinds share. It goes into messages as it is.
fn stored_name(name: &str) -> Result<&str, &'static str> {
    if name.len() > 253 || name.contains(|c: char| matches!(c, '/' | '%') || c.is_control()) {
        return Err("its oldObject has a name that no API server would have stored");
    }
    Ok(name)
}

impl Candidate {
    /// `None` where the edge can't bear on this logical cluster, whatever it binds.
    fn new(home: Home, edge: &Arc<IndexedEdge>, target: &Target, workspaces: &Workspaces) -> Option<Self> {
        let local = edge.dependent_export.is_none() || edge.target_export.is_none();
        if home == Home::Kcp && local && edge.rule.cluster.is_some() && edge.rule.cluster != target.cluster {
            return None;
        }
        let provider = edge.target_export.as_ref().and_then(|export| workspaces.cluster(&export.path)).cloned();
        let mut candidate = Self { edge: Arc::clone(edge), provider, dependent: false, target: false };
        candidate.reset();
        Some(candidate)
    }

    /// Back to what is known before any binding was read.
    ///
    /// A rule in kcp whose own workspace nobody knows bears everywhere: an API server always says it, so whoever loaded
    /// the rule must, and a refusal is what makes that seen.
    fn reset(&mut self) {
        let unknown = self.edge.rule.cluster.is_none();
        self.dependent = unknown || self.edge.dependent_export.is_none();
        self.target = unknown || self.edge.target_export.is_none();
    }

    fn see(&mut self, binding: &bindings::Binding<'_>) {
        let edge = &self.edge;
        if let (Some(provider), Some(export)) = (&edge.rule.cluster, &edge.dependent_export) {
            self.dependent |= binding.binds(provider, export.as_str(), &edge.dependent);
        }
        if let Some(export) = &edge.target_export {
            self.target |= binding.binds_ref(export, self.provider.as_ref(), &edge.target);
        }
    }

    fn bears(&self) -> bool {
        self.dependent && self.target
    }
}

fn unreadable(kind: GroupResource, why: &str) -> Evaluation {
    let problem = Problem(format!("the review can't be read: {why}; look at who sent it"));
    let subject = Subject { kind, name: "?".to_owned() };
    Evaluation::settled(Decision::Denied(Denial::new(subject, Reason::Undecided { problems: vec![problem] })))
}

fn blocker(object: &Found, edge: &IndexedEdge, target: &Target) -> Blocker {
    let namespace = object
        .namespace
        .clone()
        .filter(|namespace| target.namespace.as_ref().map(Namespace::as_str) != Some(namespace));
    let field = match &edge.check {
        Check::Follow { path, .. } => path.as_field(),
        Check::Broken(_) => String::new(),
    };
    Blocker { kind: object.kind.clone(), namespace, name: object.name.clone(), field, rule: edge.rule.clone() }
}
