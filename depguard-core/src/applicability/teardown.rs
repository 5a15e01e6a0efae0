//! Teardown of namespaces, of the logical cluster, and of its APIBindings.
//!
//! All objects in a terminating scope are deleted. If kinds refer to each other in a cycle, each object would wait
//! for another one forever. Between two objects that both lie in such a scope, an edge of a cycle therefore doesn't
//! block. The remaining edges form no cycle among the kinds, so the teardown ends. The same exemption applies if the
//! teardown of a logical cluster would itself wait for the target before it deletes the dependent. A scope that can't
//! be read counts as active.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;

use crate::applicability::teardown_exemption::TeardownExemption;
use crate::model::names::{LogicalCluster, Namespace};
use crate::protocol::problem::Unresolved;
use crate::protocol::response::Answer;
use crate::protocol::response_error::{failure, response, something_else, unanswered};
use crate::scan::text::Text;

/// A scope that may be torn down as a whole, and that is read by name. (The list of APIBindings shows their state.)
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    LogicalCluster(LogicalCluster),
    Namespace(Namespace),
}

#[derive(Debug)]
enum State {
    Asked,
    Active,
    Terminating,
    Unread(Unresolved),
}

/// Result of judging dependents.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TeardownVerdict {
    /// All dependents are torn down together with the target.
    Terminating,
    /// Some dependents are not torn down.
    Active,
    /// The answer depends on these scopes, which are still to be read.
    Unknown(BTreeSet<Scope>),
}

/// The scopes around a target and its dependents.
#[derive(Debug)]
pub(crate) struct TeardownScopes {
    cluster: Option<LogicalCluster>,
    namespace: Option<Namespace>,
    states: BTreeMap<Scope, State>,
}

impl TeardownScopes {
    /// Creates the scopes around a target in that logical cluster and namespace.
    pub(crate) fn new(cluster: Option<LogicalCluster>, namespace: Option<Namespace>) -> Self {
        Self { cluster, namespace, states: BTreeMap::new() }
    }

    /// Judges dependents in these namespaces. `None` as a namespace stands for dependents without a namespace; `None`
    /// as the set stands for too many namespaces. The target's own scopes are judged first: mostly they are active,
    /// which is all there is to know.
    pub(crate) fn scope_verdict(
        &self,
        exemption: TeardownExemption,
        namespaces: Option<&BTreeSet<Option<String>>>,
    ) -> TeardownVerdict {
        if namespaces.is_some_and(BTreeSet::is_empty) {
            return TeardownVerdict::Terminating;
        }
        let TeardownExemption::Cycle(unbinding) = exemption else { return self.namespace_verdict(None) };
        if !unbinding.target {
            match self.namespace_verdict(self.namespace.as_ref()) {
                TeardownVerdict::Terminating => {}
                other => return other,
            }
        }
        if unbinding.dependent {
            return TeardownVerdict::Terminating;
        }
        let Some(namespaces) = namespaces else {
            // There are too many namespaces to read each one: only the scope around all of them counts.
            return self.namespace_verdict(None);
        };
        let mut unread = BTreeSet::new();
        for namespace in namespaces {
            match self.verdict_in(namespace.as_deref()) {
                TeardownVerdict::Terminating => {}
                TeardownVerdict::Active => return TeardownVerdict::Active,
                TeardownVerdict::Unknown(scopes) => unread.extend(scopes),
            }
        }
        if unread.is_empty() { TeardownVerdict::Terminating } else { TeardownVerdict::Unknown(unread) }
    }

    /// Returns true if a dependent in that namespace, or in none, is known to be torn down together with the target.
    pub(crate) fn is_terminating(&self, exemption: TeardownExemption, namespace: Option<&str>) -> bool {
        let TeardownExemption::Cycle(unbinding) = exemption else {
            return self.namespace_verdict(None) == TeardownVerdict::Terminating;
        };
        (unbinding.target || self.namespace_verdict(self.namespace.as_ref()) == TeardownVerdict::Terminating)
            && (unbinding.dependent || self.verdict_in(namespace) == TeardownVerdict::Terminating)
    }

    fn verdict_in(&self, namespace: Option<&str>) -> TeardownVerdict {
        match namespace.map(Namespace::parse).transpose() {
            Ok(namespace) => self.namespace_verdict(namespace.as_ref()),
            Err(_) => TeardownVerdict::Active,
        }
    }

    /// Judges objects that lie in the logical cluster and, if given, in that namespace.
    pub(crate) fn namespace_verdict(&self, namespace: Option<&Namespace>) -> TeardownVerdict {
        let cluster = self.cluster.clone().map(Scope::LogicalCluster);
        let around = [cluster, namespace.cloned().map(Scope::Namespace)];
        let mut unread = BTreeSet::new();
        for scope in around.into_iter().flatten() {
            match self.states.get(&scope) {
                Some(State::Terminating) => return TeardownVerdict::Terminating,
                Some(State::Active | State::Unread(_)) => {}
                Some(State::Asked) | None => drop(unread.insert(scope)),
            }
        }
        if unread.is_empty() { TeardownVerdict::Active } else { TeardownVerdict::Unknown(unread) }
    }

    /// Marks the scope as requested; returns true if it was never requested before.
    pub(crate) fn ask(&mut self, scope: &Scope) -> bool {
        self.states.insert(scope.clone(), State::Asked).is_none()
    }

    /// Takes the answer to a scope's [`path`](Scope::path).
    pub(crate) fn answer(&mut self, scope: Scope, answer: Answer<'_>) {
        let state = match scope.read(answer) {
            Ok(true) => State::Terminating,
            Ok(false) => State::Active,
            Err(why) => State::Unread(why),
        };
        self.states.insert(scope, state);
    }

    /// Returns the scopes that could not be read, with advice.
    pub(crate) fn unread(&self) -> Vec<Unresolved> {
        let unread = self.states.iter().filter_map(|(scope, state)| match state {
            State::Asked => Some(unanswered().about(scope)),
            State::Unread(why) => Some(why.clone().about(scope)),
            State::Active | State::Terminating => None,
        });
        unread.collect()
    }
}

impl Scope {
    /// Returns the path of the scope's object.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::LogicalCluster(_) => format!("/apis/core.kcp.io/v1alpha1/logicalclusters/{LOGICAL_CLUSTER}"),
            Self::Namespace(namespace) => format!("/api/v1/namespaces/{namespace}"),
        }
    }

    /// Returns true if the scope is being deleted. The error says why that is unknown, as the end of a sentence that
    /// begins with the scope.
    fn read(&self, answer: Answer<'_>) -> Result<bool, Unresolved> {
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
            _ => Err(something_else()),
        }
    }
}

/// Returns a place as text, with a space before it.
pub(crate) fn place(cluster: Option<&LogicalCluster>, namespace: Option<&Namespace>) -> String {
    match (namespace, cluster) {
        (Some(namespace), Some(cluster)) => format!(" in namespace {namespace} of logical cluster {cluster}"),
        (Some(namespace), None) => format!(" in namespace {namespace}"),
        (None, Some(cluster)) => format!(" in logical cluster {cluster}"),
        (None, None) => String::new(),
    }
}

/// The name of the LogicalCluster object in every logical cluster.
const LOGICAL_CLUSTER: &str = "cluster";

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LogicalCluster(cluster) => write!(f, "the read of logical cluster {cluster}"),
            Self::Namespace(namespace) => write!(f, "the read of namespace {namespace}"),
        }
    }
}
