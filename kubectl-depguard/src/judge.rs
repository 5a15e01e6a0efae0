//! Judges a deletion by the engine that the webhook runs, over objects in memory or a live API server.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future;
use std::sync::Arc;

use bytes::Bytes;
use depguard_core::{
    Because, Blocker, Context, Decision, FailurePolicy, Fetched, GroupVersionResource, Notes, OverridePolicy, Query,
    Reason, Referrers, Review, RuleSet, Ruling, Workspaces,
};
use depguard_kcp::Endpoint;
use serde_json::{Value, json};

use crate::answers::Answers;
use crate::kinds::resource_name;
use crate::outcome::Failure;

/// Who answers the engine's queries.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Server<'a> {
    Memory(&'a Answers),
    /// The cluster or workspace that the object lies in.
    Live(&'a Endpoint),
}

/// The deletion of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deletion<'a> {
    pub(crate) gvr: &'a GroupVersionResource,
    pub(crate) object: &'a Arc<Value>,
    /// Who deletes it, and in which groups he is.
    pub(crate) user: &'a str,
    pub(crate) groups: &'a [String],
}

/// By what a deletion is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Law<'a> {
    pub(crate) rules: &'a RuleSet,
    pub(crate) workspaces: &'a Workspaces,
    pub(crate) overrides: &'a OverridePolicy,
}

/// What was decided. API servers ask by each failure policy for itself, and go on if nobody refuses.
#[derive(Debug)]
pub(crate) struct Judgment {
    decisions: Vec<Decision>,
    /// What the caller may not read, each as the right that is missing.
    pub(crate) missing: Vec<String>,
}

impl Law<'_> {
    pub(crate) async fn judge(&self, deletion: Deletion<'_>, server: Server<'_>) -> Result<Judgment, Failure> {
        let review = deletion.review().to_string();
        let review = Review::parse(review.as_bytes())
            .map_err(|why| Failure::new(format!("the object can't be reviewed: {why}")).hint("look at its metadata"))?;
        let (mut decisions, missing) = (Vec::new(), RefCell::new(Vec::new()));
        for failure_policy in [FailurePolicy::Fail, FailurePolicy::Ignore] {
            let context = Context::default()
                .with_workspaces(self.workspaces)
                .with_overrides(self.overrides)
                .with_failure_policy(failure_policy);
            let get = async |query: Query| {
                let fetched = server.get(&query, deletion.object).await;
                if let Fetched::Response { status: 401 | 403, .. } = fetched {
                    missing.borrow_mut().push(right_to(&query.path));
                }
                fetched
            };
            // Whoever sits before it waits as long as he likes.
            decisions.push(self.rules.evaluate(&review, &context).decide_until(future::pending(), get).await);
        }
        let mut missing = missing.into_inner();
        missing.sort();
        missing.dedup();
        Ok(Judgment { decisions, missing })
    }
}

impl Deletion<'_> {
    fn review(&self) -> Value {
        let metadata = |field: &str| self.object.get("metadata").and_then(|metadata| metadata.get(field));
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "1", "operation": "DELETE", "object": null, "oldObject": **self.object,
            "name": metadata("name"), "namespace": metadata("namespace"),
            "resource": {
                "group": self.gvr.group.as_str(), "version": self.gvr.version.as_str(),
                "resource": self.gvr.resource.as_str(),
            },
            "userInfo": {"username": self.user, "groups": self.groups},
        }})
    }
}

impl Server<'_> {
    async fn get(self, query: &Query, deleted: &Arc<Value>) -> Fetched<Bytes> {
        match self {
            Self::Memory(answers) => {
                let reply = answers.get(&query.path, query.accept, deleted);
                Fetched::Response { status: reply.status, body: reply.body.into() }
            }
            Self::Live(endpoint) => endpoint.ask(query).await,
        }
    }
}

impl Judgment {
    /// Whether the deletion may go on.
    pub(crate) fn allowed(&self) -> bool {
        self.decisions.iter().all(Decision::allowed)
    }

    /// The ruling in one word: of a refusal for a blocker rather than of one for what can't be told, and of what
    /// allowed it that of which most is to be said.
    pub(crate) fn label(&self) -> &'static str {
        let weight = |decision: &&Decision| match decision.ruling() {
            Ruling::Denied(denial) => match denial.reason() {
                Reason::Referenced { .. } => 12,
                Reason::Undecided { .. } => 11,
                _ => 10,
            },
            Ruling::Allowed(because) => match because {
                Because::Overridden => 9,
                Because::Terminating => 8,
                Because::Warned => 7,
                Because::Audited => 6,
                Because::Tolerated => 5,
                Because::TornDown => 4,
                Because::Unreferenced => 3,
                Because::NotBound => 2,
                Because::NoRule => 1,
                _ => 0,
            },
        };
        self.decisions.iter().max_by_key(weight).map_or("no-rule", Decision::label)
    }

    /// What whoever deletes is told, where it is refused.
    pub(crate) fn message(&self) -> Option<String> {
        self.decisions.iter().find_map(Decision::message)
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.notes().flat_map(Notes::warnings).collect()
    }

    /// Who refuses, each once, and whether there are more.
    pub(crate) fn blockers(&self) -> Referring {
        Referring::of(self.reasons().filter_map(|reason| match reason {
            Reason::Referenced { by, .. } => Some(by),
            _ => None,
        }))
    }

    /// Of whom only a warning is wanted.
    pub(crate) fn warned(&self) -> Referring {
        Referring::of(self.notes().filter_map(|notes| notes.warned.as_ref()))
    }

    /// Who is only recorded.
    pub(crate) fn audited(&self) -> Referring {
        Referring::of(self.notes().filter_map(|notes| notes.audited.as_ref()))
    }

    /// What could not be found out, whatever followed of it.
    pub(crate) fn problems(&self) -> Vec<String> {
        let of_reasons = self.reasons().flat_map(Reason::problems);
        let of_notes = self.notes().flat_map(|notes| notes.problems.iter().chain(&notes.audited_problems));
        let mut problems: Vec<_> =
            of_reasons.chain(of_notes.map(ToString::to_string)).map(|why| to_caller(&why)).collect();
        problems.sort();
        problems.dedup();
        problems
    }

    fn reasons(&self) -> impl Iterator<Item = &Reason> {
        self.decisions.iter().filter_map(|decision| Some(decision.denial()?.reason()))
    }

    fn notes(&self) -> impl Iterator<Item = &Notes> {
        self.decisions.iter().map(Decision::notes)
    }
}

/// Those who refer to a target.
#[derive(Debug, Default)]
pub(crate) struct Referring {
    /// Each once, in the order of their names.
    pub(crate) who: Vec<Blocker>,
    /// Whether the search was given up before all were found.
    pub(crate) more: bool,
}

impl Referring {
    fn of<'r>(referrers: impl Iterator<Item = &'r Referrers>) -> Self {
        let (mut who, mut more) = (BTreeMap::new(), false);
        for by in referrers {
            more |= matches!(by.count, depguard_core::Count::AtLeast(_));
            for blocker in &by.blockers {
                who.entry(blocker.to_string()).or_insert_with(|| blocker.clone());
            }
        }
        Self { who: who.into_values().collect(), more }
    }
}

/// The engine speaks to an operator about his webhook; here the caller's own rights are meant.
fn to_caller(problem: &str) -> String {
    problem
        .replace("give the webhook's user the right", "you need the right")
        .replace("renew the webhook's credentials", "renew your credentials")
}

/// The right that a GET of this path needs: `list pods in namespace default`.
pub(crate) fn right_to(path_and_query: &str) -> String {
    let path = path_and_query.split('?').next().unwrap_or_default();
    let segments: Vec<_> = path.split('/').skip(1).collect();
    let (group, rest) = match segments.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return format!("get {path}"),
    };
    let resource = |resource: &str| resource_name(resource, group);
    match rest {
        ["namespaces", namespace, kind] => format!("list {} in namespace {namespace}", resource(kind)),
        ["namespaces", namespace, kind, _] => format!("get {} in namespace {namespace}", resource(kind)),
        [kind] => format!("list {}", resource(kind)),
        [kind, _] => format!("get {}", resource(kind)),
        _ => format!("get {path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the engine says to an operator is said to the caller; its words may change, and then this fails.
    #[test]
    fn a_missing_right_is_the_callers() {
        let rule = json!({"metadata": {"name": "r"}, "spec": {
            "dependent": {"group": "", "version": "v1", "kind": "Pod", "resource": "pods"},
            "dependencies": [{"group": "", "version": "v1", "resource": "nodes", "fieldRef": {"path": ".spec.nodeName"}}],
        }});
        let rules = RuleSet::load(depguard_core::Home::Kubernetes, [&rule]);
        let review = json!({"request": {
            "uid": "1", "operation": "DELETE", "resource": {"group": "", "resource": "nodes"},
            "oldObject": {"metadata": {"name": "a"}},
        }});
        let (review, overrides) = (review.to_string(), OverridePolicy::nobody());
        let told = |status| {
            let context = Context::default().with_overrides(&overrides);
            let evaluation = rules.evaluate(&Review::parse(review.as_bytes()).unwrap(), &context);
            let decision = evaluation.decide_with(|_| Ok::<_, String>((status, b"")));
            Judgment { decisions: vec![decision], missing: Vec::new() }.problems().concat()
        };
        for (status, next) in [(403, "you need the right to get and list it there"), (401, "renew your credentials")] {
            let told = told(status);
            assert!(told.ends_with(next) && !told.contains("webhook"), "{told}");
        }
    }

    #[test]
    fn a_right_is_told_by_what_was_asked_for() {
        for (path, right) in [
            ("/api/v1/namespaces/ns/pods?limit=500", "list pods in namespace ns"),
            ("/apis/g.example.com/v1/vms?limit=500", "list vms.g.example.com"),
            ("/api/v1/namespaces/ns", "get namespaces"),
            ("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster", "get logicalclusters.core.kcp.io"),
            ("/apis/g.example.com", "get /apis/g.example.com"),
        ] {
            assert_eq!(right_to(path), right);
        }
    }
}
