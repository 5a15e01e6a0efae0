//! Simulated requests: the webhook's engine judges a deletion, a creation or an update, over objects in memory or a live
//! API server.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future;
use std::sync::Arc;

use bytes::Bytes;
use depguard_core::api::FailurePolicy;
use depguard_core::decision::{
    AllowReason, Blocker, Diagnostics, MissingTarget, MissingTargets, Reason, Referrers, Verdict,
};
use depguard_core::protocol::{ObjectReview, Remedy, Unresolved};
use depguard_core::{
    Context, Decision, Evaluation, Fetched, GroupVersionResource, OverridePolicy, Query, Review, ReviewError, RuleSet,
    Workspaces,
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

/// Creation or update of one object by one user.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write<'a> {
    /// Versions in which API servers hand the object to webhooks, each with the object's kind.
    pub(crate) gvrs: &'a [GroupVersionResource],
    pub(crate) object: &'a Value,
    /// Object before the update; `None` for a creation.
    pub(crate) old_object: Option<&'a Value>,
    /// User who writes the object, and the user's groups.
    pub(crate) user: &'a str,
    pub(crate) groups: &'a [String],
}

/// Rules and policies by which the engine judges a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policies<'a> {
    pub(crate) rules: &'a RuleSet,
    pub(crate) workspaces: &'a Workspaces,
    pub(crate) overrides: &'a OverridePolicy,
}

/// Decisions about one request. API servers ask once for each failure policy, and go on if every decision allows it.
#[derive(Debug, Default)]
pub(crate) struct Judgment {
    decisions: Vec<Decision>,
    /// Rights that the caller lacks, each in words.
    pub(crate) missing: Vec<String>,
}

impl Policies<'_> {
    pub(crate) async fn simulate(&self, deletion: Deletion<'_>, server: Server<'_>) -> Result<Judgment, Failure> {
        let review = deletion.review().to_string();
        let review = Review::parse(review.as_bytes()).map_err(|why| unreadable(&why))?;
        let evaluate = |context: &Context<'_>| self.rules.evaluate(&review, context);
        let mut judgment = Judgment::default();
        self.judge(evaluate, server, Some(deletion.object), &mut judgment).await;
        Ok(judgment)
    }

    pub(crate) async fn simulate_write(&self, write: Write<'_>, server: Server<'_>) -> Result<Judgment, Failure> {
        let mut judgment = Judgment::default();
        for gvr in write.gvrs {
            let review = write.review(gvr).to_string();
            let review = ObjectReview::parse(review.as_bytes()).map_err(|why| unreadable(&why))?;
            let evaluate = |context: &Context<'_>| self.rules.evaluate_references(&review, context);
            self.judge(evaluate, server, None, &mut judgment).await;
        }
        Ok(judgment)
    }

    /// Adds the decisions about one review, one for each failure policy.
    async fn judge(
        &self,
        evaluate: impl Fn(&Context<'_>) -> Evaluation,
        server: Server<'_>,
        deleted: Option<&Arc<Value>>,
        judgment: &mut Judgment,
    ) {
        let missing = RefCell::new(std::mem::take(&mut judgment.missing));
        for failure_policy in [FailurePolicy::Fail, FailurePolicy::Ignore] {
            let context = Context::default()
                .with_workspaces(self.workspaces)
                .with_overrides(self.overrides)
                .with_failure_policy(failure_policy);
            let get = async |query: Query| {
                let fetched = server.get(&query, deleted).await;
                if let Fetched::Response { status: 401 | 403, .. } = fetched {
                    missing.borrow_mut().push(right_to(&query.path));
                }
                fetched
            };
            // A person waits for the command, so that the evaluation has no deadline.
            judgment.decisions.push(evaluate(&context).decide_until(future::pending(), get).await);
        }
        judgment.missing = missing.into_inner();
        judgment.missing.sort();
        judgment.missing.dedup();
    }
}

impl Deletion<'_> {
    fn review(&self) -> Value {
        review(self.gvr, "DELETE", [&Value::Null, self.object], self.user, self.groups)
    }
}

impl Write<'_> {
    fn review(&self, gvr: &GroupVersionResource) -> Value {
        let operation = if self.old_object.is_some() { "UPDATE" } else { "CREATE" };
        let old_object = self.old_object.unwrap_or(&Value::Null);
        review(gvr, operation, [self.object, old_object], self.user, self.groups)
    }
}

/// Builds a review of an object with a new and an old state, one of which may be null.
fn review(
    gvr: &GroupVersionResource,
    operation: &str,
    [object, old_object]: [&Value; 2],
    user: &str,
    groups: &[String],
) -> Value {
    let given = if object.is_null() { old_object } else { object };
    let metadata = |field: &str| given.get("metadata").and_then(|metadata| metadata.get(field));
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": operation, "object": object, "oldObject": old_object,
        "name": metadata("name"), "namespace": metadata("namespace"),
        // As `kubectl delete` asks; writes have no such option.
        "options": {"propagationPolicy": (operation == "DELETE").then_some("Background")},
        "kind": given.get("kind").map(|kind| json!({"kind": kind})),
        "resource": {
            "group": gvr.group.as_str(), "version": gvr.version.as_str(), "resource": gvr.resource.as_str(),
        },
        "userInfo": {"username": user, "groups": groups},
    }})
}

fn unreadable(why: &ReviewError) -> Failure {
    Failure::new(format!("the object can't be reviewed: {why}")).hint("check its metadata")
}

impl Server<'_> {
    async fn get(self, query: &Query, deleted: Option<&Arc<Value>>) -> Fetched<Bytes> {
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
    /// Returns true if the request may go on.
    pub(crate) fn allowed(&self) -> bool {
        self.decisions.iter().all(Decision::allowed)
    }

    /// Returns the verdict in one word. A refusal that names a blocker or a missing target comes before an undecided one;
    /// among reasons to allow the request, the one comes first that says the most.
    pub(crate) fn label(&self) -> &'static str {
        let weight = |decision: &&Decision| match decision.verdict() {
            Verdict::Denied(denial) => match denial.reason() {
                Reason::Referenced { .. } | Reason::MissingTargets { .. } => 12,
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
                AllowReason::Unreferenced | AllowReason::TargetsExist => 3,
                AllowReason::NotBound | AllowReason::NoNewReference => 2,
                AllowReason::NoRule => 1,
                _ => 0,
            },
        };
        self.decisions.iter().max_by_key(weight).map_or("no-rule", Decision::label)
    }

    /// Returns the message to the user whose request is refused.
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

    /// Returns the missing targets because of which the request is refused.
    pub(crate) fn missing_targets(&self) -> BTreeSet<String> {
        targets(self.reasons().filter_map(|reason| match reason {
            Reason::MissingTargets { missing, .. } => Some(missing),
            _ => None,
        }))
    }

    /// Returns the missing targets that only cause a warning.
    pub(crate) fn missing_warned(&self) -> BTreeSet<String> {
        targets(self.diagnostics().filter_map(|diagnostics| diagnostics.missing_warned.as_ref()))
    }

    /// Returns the missing targets that are only recorded.
    pub(crate) fn missing_audited(&self) -> BTreeSet<String> {
        targets(self.diagnostics().filter_map(|diagnostics| diagnostics.missing_audited.as_ref()))
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

/// Returns the names of missing targets, each as `vpcs/a`, with a namespace in the middle that is not the object's own.
fn targets<'m>(missing: impl Iterator<Item = &'m MissingTargets>) -> BTreeSet<String> {
    let named = |target: &MissingTarget| {
        let MissingTarget { kind, namespace, name, .. } = target;
        let namespace = namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        format!("{}/{namespace}{name}", kind.resource)
    };
    missing.flat_map(|missing| missing.targets.iter().map(named)).collect()
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
            Judgment { decisions: vec![decision], ..Judgment::default() }.problems().concat()
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
