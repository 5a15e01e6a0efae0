//! What is being torn down: namespaces, the logical cluster, and the APIBindings in it.
//!
//! In a scope that goes, everything goes. Where kinds refer to each other in a cycle, each object would wait for
//! another for ever; so between two objects that both lie in such a scope, an edge of a cycle doesn't block. What is
//! left has no cycles among its kinds, and so it ends. The same where the teardown of a logical cluster would itself
//! wait for the target before it deletes the dependent. A scope that can't be read counts as standing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;

use crate::answers::{SOMETHING_ELSE, UNANSWERED, failure, response};
use crate::decision::Problem;
use crate::found::Findings;
use crate::names::{LogicalCluster, Namespace};
use crate::query::Answer;
use crate::text::Text;

/// What may be torn down as a whole, and is read by name. (An APIBinding's state is known from the list of them.)
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    LogicalCluster(LogicalCluster),
    Namespace(Namespace),
}

#[derive(Debug)]
enum State {
    Asked,
    Standing,
    Going,
    Unread(String),
}

/// Why edges let go in what is torn down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Release {
    /// They lie on a cycle.
    Cycle(Unbinding),
    /// The dependents are [kept last](crate::bearing::Candidate::is_kept_last) when the logical cluster goes.
    KeptLast,
}

/// Which ends of an edge lie in a binding that is being deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unbinding {
    pub(crate) dependent: bool,
    pub(crate) target: bool,
}

/// Whether what was found is torn down together with the target.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All of it.
    Going,
    /// Some of it is not.
    Standing,
    /// Not known before these were read.
    Ask(BTreeSet<Scope>),
}

/// The scopes around a target and its dependents.
#[derive(Debug)]
pub(crate) struct Scopes {
    cluster: Option<LogicalCluster>,
    namespace: Option<Namespace>,
    states: BTreeMap<Scope, State>,
}

impl Scopes {
    /// Around a target in that logical cluster and namespace.
    pub(crate) fn new(cluster: Option<LogicalCluster>, namespace: Option<Namespace>) -> Self {
        Self { cluster, namespace, states: BTreeMap::new() }
    }

    /// Judges what one search found. The target's own scopes come first: mostly they stand, and that is all to know.
    pub(crate) fn judge(&self, release: Release, found: &Findings) -> Verdict {
        if found.is_empty() {
            return Verdict::Going;
        }
        let Release::Cycle(unbinding) = release else { return self.judge_one(None) };
        if !unbinding.target {
            match self.judge_one(self.namespace.as_ref()) {
                Verdict::Going => {}
                other => return other,
            }
        }
        if unbinding.dependent {
            return Verdict::Going;
        }
        let Some(namespaces) = found.namespaces() else {
            // Too many to be read one by one: only what they all lie in counts.
            return self.judge_one(None);
        };
        let mut wanted = BTreeSet::new();
        for namespace in namespaces {
            match self.judge_in(namespace.as_deref()) {
                Verdict::Going => {}
                Verdict::Standing => return Verdict::Standing,
                Verdict::Ask(scopes) => wanted.extend(scopes),
            }
        }
        if wanted.is_empty() { Verdict::Going } else { Verdict::Ask(wanted) }
    }

    /// Whether a dependent in that namespace, or in none, is known to be torn down together with the target.
    pub(crate) fn is_going(&self, release: Release, namespace: Option<&str>) -> bool {
        let Release::Cycle(unbinding) = release else { return self.judge_one(None) == Verdict::Going };
        (unbinding.target || self.judge_one(self.namespace.as_ref()) == Verdict::Going)
            && (unbinding.dependent || self.judge_in(namespace) == Verdict::Going)
    }

    fn judge_in(&self, namespace: Option<&str>) -> Verdict {
        match namespace.map(Namespace::parse).transpose() {
            Ok(namespace) => self.judge_one(namespace.as_ref()),
            Err(_) => Verdict::Standing,
        }
    }

    /// Whether what lies in the logical cluster, and in that namespace, is torn down.
    pub(crate) fn judge_one(&self, namespace: Option<&Namespace>) -> Verdict {
        let cluster = self.cluster.clone().map(Scope::LogicalCluster);
        let around = [cluster, namespace.cloned().map(Scope::Namespace)];
        let mut wanted = BTreeSet::new();
        for scope in around.into_iter().flatten() {
            match self.states.get(&scope) {
                Some(State::Going) => return Verdict::Going,
                Some(State::Standing | State::Unread(_)) => {}
                Some(State::Asked) | None => drop(wanted.insert(scope)),
            }
        }
        if wanted.is_empty() { Verdict::Standing } else { Verdict::Ask(wanted) }
    }

    /// Whether the scope was not asked for yet; from now on it is.
    pub(crate) fn ask(&mut self, scope: &Scope) -> bool {
        self.states.insert(scope.clone(), State::Asked).is_none()
    }

    /// Takes the answer to a scope's [`path`](Scope::path).
    pub(crate) fn answer(&mut self, scope: Scope, answer: Answer<'_>) {
        let state = match scope.read(answer) {
            Ok(true) => State::Going,
            Ok(false) => State::Standing,
            Err(why) => State::Unread(why),
        };
        self.states.insert(scope, state);
    }

    /// The scopes that could not be read, and what to do.
    pub(crate) fn unread(&self) -> Vec<Problem> {
        let unread = self.states.iter().filter_map(|(scope, state)| match state {
            State::Asked => Some(Problem(format!("{scope} {UNANSWERED}"))),
            State::Unread(why) => Some(Problem(format!("{scope} {why}"))),
            State::Standing | State::Going => None,
        });
        unread.collect()
    }
}

impl Release {
    /// Whether a dependent in that namespace, or in none, may be let go.
    pub(crate) fn covers(self, namespace: Option<&str>) -> bool {
        match self {
            Self::Cycle(_) => true,
            Self::KeptLast => namespace.is_none(),
        }
    }
}

impl Scope {
    /// The path to ask.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::LogicalCluster(_) => format!("/apis/core.kcp.io/v1alpha1/logicalclusters/{LOGICAL_CLUSTER}"),
            Self::Namespace(namespace) => format!("/api/v1/namespaces/{namespace}"),
        }
    }

    /// Whether it is being deleted; or why that can't be told, as the end of a sentence that begins with the scope.
    fn read(&self, answer: Answer<'_>) -> Result<bool, String> {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            metadata: Metadata<'a>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<'a> {
            #[serde(borrow)]
            name: Text<'a>,
            #[serde(borrow)]
            deletion_timestamp: Option<Text<'a>>,
        }
        let (name, right) = match self {
            Self::LogicalCluster(_) => (LOGICAL_CLUSTER, "get logicalclusters of core.kcp.io"),
            Self::Namespace(namespace) => (namespace.as_str(), "get namespaces"),
        };
        let body = match response(answer)? {
            (200, body) => body,
            (status, body) => return Err(failure(status, body, right)),
        };
        match serde_json::from_slice::<Object<'_>>(body) {
            Ok(Object { metadata }) if metadata.name.as_str() == name => {
                Ok(metadata.deletion_timestamp.is_some_and(|timestamp| !timestamp.as_str().is_empty()))
            }
            _ => Err(SOMETHING_ELSE.to_owned()),
        }
    }
}

/// Where something lies, with a space before it.
pub(crate) fn place(cluster: Option<&LogicalCluster>, namespace: Option<&Namespace>) -> String {
    match (namespace, cluster) {
        (Some(namespace), Some(cluster)) => format!(" in namespace {namespace} of logical cluster {cluster}"),
        (Some(namespace), None) => format!(" in namespace {namespace}"),
        (None, Some(cluster)) => format!(" in logical cluster {cluster}"),
        (None, None) => String::new(),
    }
}

/// Every logical cluster's own LogicalCluster has this name.
const LOGICAL_CLUSTER: &str = "cluster";

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LogicalCluster(cluster) => write!(f, "the read of logical cluster {cluster}"),
            Self::Namespace(namespace) => write!(f, "the read of namespace {namespace}"),
        }
    }
}
