//! Simulated deletion: the webhook's engine judges it, over objects in memory or a live API server.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future;
use std::sync::Arc;

use bytes::Bytes;
use depguard_core::api::FailurePolicy;
use depguard_core::decision::{AllowReason, Blocker, Diagnostics, Reason, Referrers, Verdict};
use depguard_core::protocol::{Remedy, Unresolved};
use depguard_core::{
    Context, Decision, Fetched, GroupVersionResource, OverridePolicy, Query, Review, RuleSet, Workspaces,
};
use depguard_kcp::Endpoint;
use serde_json::{Value, json};

use crate::cluster::kinds::resource_name;
use crate::engine::offline_server::OfflineServer;
use crate::io::exit::Failure;

/// Server that answers the engine's queries.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Server<'a> {
    Offline(&'a OfflineServer),
    /// Cluster or workspace of the object.
    ApiServer(&'a Endpoint),
}

/// Deletion of one object by one user.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deletion<'a> {
    pub(crate) gvr: &'a GroupVersionResource,
    pub(crate) object: &'a Arc<Value>,
    /// User who deletes the object, and the user's groups.
    pub(crate) user: &'a str,
    pub(crate) groups: &'a [String],
}

/// Rules and policies by which the engine judges a deletion.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policies<'a> {
    pub(crate) rules: &'a RuleSet,
    pub(crate) workspaces: &'a Workspaces,
    pub(crate) overrides: &'a OverridePolicy,
}

/// Decisions about one deletion. API servers ask once for each failure policy, and go on if every decision allows it.
#[derive(Debug)]
pub(crate) struct Judgment {
    decisions: Vec<Decision>,
    /// Rights that the caller lacks, each in words.
    pub(crate) missing: Vec<String>,
}

impl Policies<'_> {
    pub(crate) async fn simulate(&self, deletion: Deletion<'_>, server: Server<'_>) -> Result<Judgment, Failure> {
        let review = deletion.review().to_string();
        let review = Review::parse(review.as_bytes())
            .map_err(|why| Failure::new(format!("the object can't be reviewed: {why}")).hint("check its metadata"))?;
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
            // A person waits for the command, so that the evaluation has no deadline.
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
            Self::Offline(answers) => {
                let reply = answers.get(&query.path, query.accept, deleted);
                Fetched::Response { status: reply.status, body: reply.body.into() }
            }
            Self::ApiServer(endpoint) => endpoint.ask(query).await,
        }
    }
}

impl Judgment {
    /// Returns true if the deletion may go on.
    pub(crate) fn allowed(&self) -> bool {
        self.decisions.iter().all(Decision::allowed)
    }

    /// Returns the verdict in one word. A refusal that names a blocker comes before an undecided one; among reasons to
    /// allow the deletion, the one comes first that says the most.
    pub(crate) fn label(&self) -> &'static str {
        let weight = |decision: &&Decision| match decision.verdict() {
            Verdict::Denied(denial) => match denial.reason() {
                Reason::Referenced { .. } => 12,
                Reason::Undecided { .. } => 11,
                _ => 10,
            },
            Verdict::Allowed(because) => match because {
                AllowReason::Overridden => 9,
                AllowReason::Terminating => 8,
                AllowReason::Warned => 7,
                AllowReason::Audited => 6,
                AllowReason::Tolerated => 5,
                AllowReason::TornDown => 4,
                AllowReason::Unreferenced => 3,
                AllowReason::NotBound => 2,
                AllowReason::NoRule => 1,
                _ => 0,
            },
        };
        self.decisions.iter().max_by_key(weight).map_or("no-rule", Decision::label)
    }

    /// Returns the message to the user whose deletion is refused.
    pub(crate) fn message(&self) -> Option<String> {
        self.decisions.iter().find_map(Decision::message)
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.diagnostics().flat_map(Diagnostics::warnings).collect()
    }

    /// Returns the objects that block the deletion, each once, and whether there are more.
    pub(crate) fn blockers(&self) -> ReferrerSet {
        ReferrerSet::from_referrers(self.reasons().filter_map(|reason| match reason {
            Reason::Referenced { by, .. } => Some(by),
            _ => None,
        }))
    }

    /// Returns the objects whose references only cause a warning.
    pub(crate) fn warned(&self) -> ReferrerSet {
        ReferrerSet::from_referrers(self.diagnostics().filter_map(|diagnostics| diagnostics.warned.as_ref()))
    }

    /// Returns the objects whose references are only recorded.
    pub(crate) fn audited(&self) -> ReferrerSet {
        ReferrerSet::from_referrers(self.diagnostics().filter_map(|diagnostics| diagnostics.audited.as_ref()))
    }

    /// Returns the problems that kept the engine from finding out something, whatever the verdict was.
    pub(crate) fn problems(&self) -> Vec<String> {
        let of_reasons = self.reasons().flat_map(Reason::problems);
        let of_notes =
            self.diagnostics().flat_map(|diagnostics| diagnostics.problems.iter().chain(&diagnostics.audited_problems));
        let mut problems: Vec<_> = of_reasons.chain(of_notes.cloned()).map(|problem| to_caller(&problem)).collect();
        problems.sort();
        problems.dedup();
        problems
    }

    fn reasons(&self) -> impl Iterator<Item = &Reason> {
        self.decisions.iter().filter_map(|decision| Some(decision.denial()?.reason()))
    }

    fn diagnostics(&self) -> impl Iterator<Item = &Diagnostics> {
        self.decisions.iter().map(Decision::diagnostics)
    }
}

/// Objects that refer to a target.
#[derive(Debug, Default)]
pub(crate) struct ReferrerSet {
    /// The objects, each once, in the order of their names.
    pub(crate) objects: Vec<Blocker>,
    /// True if the search stopped before it found all objects.
    pub(crate) more: bool,
}

impl ReferrerSet {
    fn from_referrers<'r>(referrers: impl Iterator<Item = &'r Referrers>) -> Self {
        let (mut objects, mut more) = (BTreeMap::new(), false);
        for by in referrers {
            more |= matches!(by.count, depguard_core::decision::Count::AtLeast(_));
            for blocker in &by.blockers {
                objects.entry(blocker.to_string()).or_insert_with(|| blocker.clone());
            }
        }
        Self { objects: objects.into_values().collect(), more }
    }
}

/// Prints a problem for the caller, by whose rights and credentials the command reads.
fn to_caller(problem: &Unresolved) -> String {
    let text = problem.text();
    match problem.remedy() {
        Some(Remedy::RenewCredentials) => format!("{text}; renew your credentials"),
        Some(Remedy::GrantRight(right)) => format!("{text}; you need the right to {right} there"),
        None => text.to_owned(),
    }
}

/// Returns the right that a GET of this path needs: `list pods in namespace default`.
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

    /// The engine names the remedy; the command words it for the caller.
    #[test]
    fn the_remedy_is_the_callers() {
        let rule = json!({"metadata": {"name": "r"}, "spec": {
            "dependent": {"group": "", "version": "v1", "kind": "Pod", "resource": "pods"},
            "dependencies": [{"group": "", "version": "v1", "resource": "nodes", "fieldRef": {"path": ".spec.nodeName"}}],
        }});
        let rules = RuleSet::load(depguard_core::ControlPlane::Kubernetes, [&rule]);
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
