//! Scripted API server, and reviews for it: a case fits on one line.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::api::FailurePolicy;
use depguard_core::decision::{AllowReason, Reason, Verdict};
use depguard_core::lookup::{ListReader, Lookup};
use depguard_core::protocol::Answer;
use depguard_core::{
    Context, ControlPlane, Decision, Evaluation, LogicalCluster, OverridePolicy, Query, Review, RuleSet, WorkspacePath,
    Workspaces,
};
use serde_json::{Value, json};

mod changes;
mod server;

pub(crate) use changes::named;

/// Logical cluster that has all objects.
pub(crate) const CONSUMER: &str = "c0nsumer";
/// Logical cluster of the provider of VMs, which has the rules about them.
pub(crate) const COMPUTE: &str = "c0mpute";
/// Logical cluster of the provider of VPCs.
pub(crate) const NETWORK: &str = "netw0rk";

/// Annotation that says for tests which propagation a deletion of the object asks for.
pub(crate) const PROPAGATION: &str = "example.com/propagation";

/// Kind as an API server serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) versions: &'static [&'static str],
    pub(crate) resource: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
}

/// Object and its kind.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) json: Value,
}

/// Rules, and the state that an API server has of one logical cluster.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) control_plane: ControlPlane,
    pub(crate) rules: Vec<Value>,
    pub(crate) workspaces: Workspaces,
    pub(crate) overrides: OverridePolicy,
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) bindings: Vec<Value>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) objects: Vec<Object>,
    /// Namespaces that are being deleted. All others are active.
    pub(crate) going: BTreeSet<String>,
    /// Set if the logical cluster is being deleted.
    pub(crate) cluster_going: bool,
    /// Maximum of objects on a page, whatever limit a request names.
    pub(crate) page: usize,
    /// Logical cluster of the webhook configuration that sends the reviews (`None` for a plain Kubernetes), if it
    /// matters.
    pub(crate) scope: Option<Option<LogicalCluster>>,
    /// Function that returns true if the server selects by a field, for every kind: `spec.vpcRef.name`.
    pub(crate) selects: fn(&str) -> bool,
    /// Function that returns true if the server prints one of the fields that tables may show: `.spec.vpcRef.name`.
    pub(crate) prints: fn(&str) -> bool,
}

/// Answer of a server.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Http(u16, Vec<u8>),
    TooLarge,
    Cut,
}

/// Decision of a review, and the queries that were sent.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) decision: Decision,
    pub(crate) asked: Vec<Query>,
}

// === Objects and reviews ===

impl Object {
    pub(crate) fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        let mut json = json!({
            "apiVersion": format!("{}/{}", kind.group, kind.versions[0]).trim_start_matches('/'),
            "kind": kind.kind,
            "metadata": {"name": name, "uid": format!("{}-{namespace}-{name}", kind.resource)},
        });
        if kind.namespaced {
            json["metadata"]["namespace"] = namespace.into();
        }
        Self { kind, json }
    }

    /// Returns the object with one edit: the value at a JSON pointer.
    pub(crate) fn set(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        set(&mut self.json, pointer, value.into());
        self
    }

    pub(crate) fn annotated(self, key: &str, value: &str) -> Self {
        self.set(&format!("/metadata/annotations/{}", key.replace('/', "~1")), value)
    }

    pub(crate) fn terminating(self) -> Self {
        self.set("/metadata/deletionTimestamp", "2026-01-01T00:00:00Z")
    }

    /// Returns the object with these ownerReferences, each an owner and the version in which it is named.
    pub(crate) fn owned_by(self, owners: &[(&Self, &str)]) -> Self {
        let owners = owners.iter().map(|(owner, version)| owner.as_owner(version));
        self.set("/metadata/ownerReferences", Value::Array(owners.collect()))
    }

    /// Returns the ownerReference that names the object.
    pub(crate) fn as_owner(&self, version: &str) -> Value {
        let (Kind { group, kind, .. }, metadata) = (self.kind, &self.json["metadata"]);
        let api_version = format!("{group}/{version}").trim_start_matches('/').to_owned();
        json!({"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"]})
    }

    /// Returns the review of the object's deletion by a tenant, as kcp would send it. The annotation
    /// [`PROPAGATION`] of a test's object stands for the requested propagation.
    pub(crate) fn deletion(&self) -> Value {
        let Kind { group, versions, resource, kind, .. } = self.kind;
        let mut object = self.json.clone();
        let annotations = "/metadata/annotations/kcp.io~1cluster";
        if object.pointer(annotations).is_none() {
            set(&mut object, annotations, CONSUMER.into());
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "1", "operation": "DELETE", "object": null, "oldObject": object,
            "name": self.json["metadata"]["name"], "namespace": self.json["metadata"]["namespace"],
            "options": {"propagationPolicy": self.json["metadata"]["annotations"][PROPAGATION]},
            "kind": {"group": group, "version": versions[0], "kind": kind},
            "resource": {"group": group, "version": versions[0], "resource": resource},
            "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        }})
    }
}

/// Puts a value at a JSON pointer and makes the objects on the way.
pub(crate) fn set(json: &mut Value, pointer: &str, value: Value) {
    let mut at = json;
    for key in pointer.split('/').skip(1) {
        let key = key.replace("~1", "/");
        at = match (at, key.parse::<usize>()) {
            (Value::Array(list), Ok(index)) => {
                list.resize(list.len().max(index + 1), Value::Null);
                &mut list[index]
            }
            (at, _) => &mut at[key],
        };
    }
    *at = value;
}

// === Rules and bindings ===

/// Returns a rule of `cluster` about an edge between two local kinds.
pub(crate) fn local_rule(cluster: &str, dependent: Kind, path: &str, target: Kind) -> Value {
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule",
        "metadata": {"name": "rule", "annotations": {"kcp.io/cluster": cluster}},
        "spec": {
            "dependent": {
                "group": dependent.group, "version": dependent.versions[0], "kind": dependent.kind,
                "resource": dependent.resource,
            },
            "dependencies": [{
                "group": target.group, "version": target.versions[0], "resource": target.resource,
                "fieldRef": {"path": path},
            }],
        },
    })
}

/// Returns the same rule about exported kinds. Each export has the name of its kind's group; the rule's workspace has
/// the dependent's export.
pub(crate) fn rule(cluster: &str, dependent: Kind, path: &str, provider: &str, target: Kind) -> Value {
    let mut rule = local_rule(cluster, dependent, path, target);
    rule["spec"]["dependent"]["apiExportName"] = dependent.group.into();
    rule["spec"]["dependencies"][0]["apiExportRef"] = json!({"path": provider, "name": target.group});
    rule
}

/// Returns an APIBinding of one kind, from the APIExport with the name of the group.
pub(crate) fn binding(cluster: &str, path: &str, kind: Kind) -> Value {
    json!({
        "metadata": {"name": format!("{cluster}-{}", kind.resource)},
        "spec": {"reference": {"export": {"path": path, "name": kind.group}}},
        "status": {
            "apiExportClusterName": cluster,
            "boundResources": [{"group": kind.group, "resource": kind.resource, "schema": {"name": "x"}}],
        },
    })
}

// === Deciding ===

impl World {
    pub(crate) fn new(control_plane: ControlPlane) -> Self {
        Self {
            control_plane,
            rules: Vec::new(),
            workspaces: Workspaces::new(),
            overrides: OverridePolicy::default(),
            failure_policy: FailurePolicy::Fail,
            bindings: Vec::new(),
            kinds: Vec::new(),
            objects: Vec::new(),
            going: BTreeSet::new(),
            cluster_going: false,
            page: usize::MAX,
            scope: None,
            selects: |_| false,
            prints: |_| false,
        }
    }

    /// Returns the world with one edit.
    pub(crate) fn but(&self, edit: impl FnOnce(&mut Self)) -> Self {
        let mut world = self.clone();
        edit(&mut world);
        world
    }

    pub(crate) fn with(&self, object: Object) -> Self {
        self.but(|world| world.objects.push(object))
    }

    pub(crate) fn knows(&mut self, path: &str, cluster: &str) {
        self.workspaces.insert(WorkspacePath::parse(path).unwrap(), LogicalCluster::parse(cluster).unwrap());
    }

    /// Decides a review; this server answers all queries.
    pub(crate) fn review(&self, review: &Value) -> Outcome {
        self.review_with(review, |query| Some(self.reply(&query.path)))
    }

    /// Decides a review with `reply` as the server; `None` means that no answer comes.
    pub(crate) fn review_with(&self, review: &Value, reply: impl FnMut(&Query) -> Option<Reply>) -> Outcome {
        self.review_in_order(review, |_| 0, reply)
    }

    /// Decides a review likewise; `pick` gets the number of open queries and chooses the next one to answer.
    pub(crate) fn review_in_order(
        &self,
        review: &Value,
        pick: impl FnMut(usize) -> usize,
        reply: impl FnMut(&Query) -> Option<Reply>,
    ) -> Outcome {
        self.review_by(&RuleSet::load(self.control_plane, &self.rules), review, pick, reply)
    }

    /// Decides a review likewise, by rules that were loaded before.
    pub(crate) fn review_by(
        &self,
        rules: &RuleSet,
        review: &Value,
        pick: impl FnMut(usize) -> usize,
        reply: impl FnMut(&Query) -> Option<Reply>,
    ) -> Outcome {
        let review = review.to_string();
        let review = Review::parse(review.as_bytes()).expect("a review");
        self.carry_out(rules.evaluate(&review, &self.context()), pick, reply)
    }

    fn carry_out(
        &self,
        mut evaluation: Evaluation,
        mut pick: impl FnMut(usize) -> usize,
        mut reply: impl FnMut(&Query) -> Option<Reply>,
    ) -> Outcome {
        let (mut open, mut asked) = (Vec::new(), Vec::new());
        loop {
            open.extend(evaluation.queries());
            if open.is_empty() {
                assert!(evaluation.queries().is_empty());
                return Outcome { decision: evaluation.decide(), asked };
            }
            let query = open.remove(pick(open.len()));
            assert!(asked.len() < 10_000, "it asks without end");
            if let Some(refusal) = self.refusal(&query.path) {
                // A client knows such a refusal from an earlier request, and does not send the query again.
                evaluation.answer(query.id, refusal.as_answer());
                continue;
            }
            if let Some(reply) = reply(&query) {
                evaluation.answer(query.id, reply.as_answer());
            }
            asked.push(query);
        }
    }

    fn context(&self) -> Context<'_> {
        Context::default()
            .with_workspaces(&self.workspaces)
            .with_overrides(&self.overrides)
            .with_failure_policy(self.failure_policy)
            .with_scope(self.scope.as_ref().map(Option::as_ref))
    }

    /// Begins to decide a deletion by a tenant.
    pub(crate) fn evaluate(&self, target: &Object) -> Evaluation {
        self.evaluate_by(&RuleSet::load(self.control_plane, &self.rules), target)
    }

    /// Begins to decide a deletion likewise, by rules that were loaded before.
    fn evaluate_by(&self, rules: &RuleSet, target: &Object) -> Evaluation {
        let context = self.context();
        let review = target.deletion().to_string();
        let review = Review::parse(review.as_bytes()).expect("a review");
        rules.evaluate(&review, &context)
    }

    /// Returns the lookups of a deletion, after the bindings were read if they matter.
    pub(crate) fn lookups(&self, target: &Object) -> (Evaluation, Vec<Lookup>) {
        let mut evaluation = self.evaluate(target);
        let mut lookups = evaluation.lookups();
        for query in evaluation.queries() {
            evaluation.answer(query.id, self.reply(&query.path).as_answer());
        }
        lookups.extend(evaluation.lookups());
        (evaluation, lookups)
    }

    /// Decides each of these deletions by itself, but with lists that the deletions share.
    pub(crate) fn deletes_together(&self, targets: &[Object]) -> Vec<Outcome> {
        // A list is searched for several targets at once only if their edges are those of one set.
        let rules = RuleSet::load(self.control_plane, &self.rules);
        let mut evaluations: Vec<_> = targets.iter().map(|target| self.evaluate_by(&rules, target)).collect();
        let mut asked: Vec<Query> = Vec::new();
        loop {
            let mut lists: BTreeMap<_, (Vec<usize>, Vec<Lookup>)> = BTreeMap::new();
            for (whose, evaluation) in evaluations.iter_mut().enumerate() {
                for lookup in evaluation.lookups() {
                    let list = lists.entry(lookup.dependents().clone()).or_default();
                    list.0.push(whose);
                    list.1.push(lookup);
                }
                for query in evaluation.queries() {
                    evaluation.answer(query.id, self.reply(&query.path).as_answer());
                    asked.push(query);
                }
            }
            if lists.is_empty() && evaluations.iter().all(Evaluation::is_settled) {
                break;
            }
            for (whose, lookups) in lists.into_values() {
                let read = |reading: Option<ListReader>| {
                    let mut reading = reading.expect("some lookups");
                    while let Some(request) = reading.next() {
                        reading.answer(self.reply(&request.path).as_answer());
                    }
                    reading.into_lookups()
                };
                let tabled = match lookups.iter().all(|lookup| lookup.columns().is_some()) {
                    true => read(ListReader::by_table(lookups)),
                    false => lookups,
                };
                let told = tabled.iter().all(Lookup::has_ended);
                let lookups = if told { tabled } else { read(ListReader::by_scan(tabled)) };
                for (whose, lookup) in whose.into_iter().zip(lookups) {
                    evaluations[whose].finish(lookup);
                }
            }
        }
        evaluations
            .into_iter()
            .map(|evaluation| Outcome { decision: evaluation.decide(), asked: asked.clone() })
            .collect()
    }

    pub(crate) fn deletes(&self, object: &Object) -> Outcome {
        self.review(&object.deletion())
    }
}

impl Reply {
    pub(crate) fn ok(body: &Value) -> Self {
        Self::Http(200, body.to_string().into_bytes())
    }

    pub(crate) fn not_found() -> Self {
        Self::Http(404, br#"{"message":"the server could not find the requested resource"}"#.to_vec())
    }

    /// Returns the 404 for a path that nobody serves.
    pub(crate) fn not_served() -> Self {
        Self::Http(404, b"404 page not found\n".to_vec())
    }

    /// Returns the 404 for an object of a kind that is served.
    pub(crate) fn no_object(kind: Kind, name: &str) -> Self {
        let details = json!({"name": name, "group": kind.group, "kind": kind.resource});
        let body =
            json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "details": details, "code": 404});
        Self::Http(404, body.to_string().into_bytes())
    }

    pub(crate) fn as_answer(&self) -> Answer<'_> {
        match self {
            Self::Http(status, body) => Answer::Response { status: *status, body },
            Self::TooLarge => Answer::TooLarge,
            Self::Cut => Answer::Failed("the connection was cut"),
        }
    }
}

// === Checks of an outcome ===

impl Outcome {
    /// Asserts that the deletion is allowed for this reason.
    #[track_caller]
    pub(crate) fn allowed(&self, because: AllowReason) {
        assert_eq!(self.decision.verdict(), &Verdict::Allowed(because), "{}", self.shown());
    }

    /// Asserts that the deletion is denied with exactly these blockers and no problem.
    #[track_caller]
    pub(crate) fn blocked_by(&self, blockers: &[&str]) {
        match self.decision.verdict() {
            Verdict::Denied(denial) => match denial.reason() {
                Reason::Referenced { by, problems, .. } => {
                    let found: Vec<_> = by.blockers.iter().map(ToString::to_string).collect();
                    assert_eq!(
                        (found.iter().map(String::as_str).collect::<Vec<_>>(), &problems[..]),
                        (blockers.to_vec(), &[][..])
                    );
                }
                _ => panic!("not for a blocker: {}", self.shown()),
            },
            Verdict::Allowed(_) => panic!("{}", self.shown()),
        }
    }

    /// Asserts that the deletion is denied because a fact could not be found out, with a message that contains `part`.
    #[track_caller]
    pub(crate) fn undecided(&self, part: &str) {
        match self.decision.verdict() {
            Verdict::Denied(denial) => {
                assert!(matches!(denial.reason(), Reason::Undecided { .. }), "{}", self.shown());
                assert!(denial.message().contains(part), "{part:?} is not in: {}", self.shown());
            }
            Verdict::Allowed(_) => panic!("{}", self.shown()),
        }
    }

    #[track_caller]
    pub(crate) fn asked(&self, paths: &[&str]) -> &Self {
        assert_eq!(self.asked.iter().map(|query| query.path.as_str()).collect::<Vec<_>>(), paths);
        self
    }

    fn shown(&self) -> String {
        let asked: Vec<_> = self.asked.iter().map(|query| query.path.as_str()).collect();
        match self.decision.verdict() {
            Verdict::Denied(denial) => format!("denied: {}; asked {asked:?}", denial.message()),
            Verdict::Allowed(because) => format!("allowed: {because:?}; asked {asked:?}"),
        }
    }
}
