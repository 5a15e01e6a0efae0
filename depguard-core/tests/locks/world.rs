//! API server in memory, as far as locks need one, and reviews to decide with it.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::locks::{Lock, LockDecision, LockEvaluation, LockKind, LockTable, Timestamp, tables_of};
use depguard_core::protocol::{Answer, Ask, ObjectReview, Verb};
use depguard_core::{ControlPlane, LogicalCluster};
use serde_json::{Value, json};

pub(crate) const GROUP: &str = "dependencies.opendefense.cloud";

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) control_plane: ControlPlane,
    pub(crate) now: Timestamp,
    /// Objects by path.
    pub(crate) objects: BTreeMap<String, Value>,
    /// Rights as user, verb and lock.
    pub(crate) rights: BTreeSet<(String, String, String)>,
    /// Path prefixes that are answered with this status.
    pub(crate) faults: Vec<(String, u16)>,
    pub(crate) asked: Vec<String>,
    pub(crate) version: u64,
}

impl World {
    pub(crate) fn new(control_plane: ControlPlane) -> Self {
        let now = Timestamp::parse("2026-12-01T00:00:00Z").unwrap();
        let (objects, rights) = (BTreeMap::new(), BTreeSet::new());
        let mut world = Self { control_plane, now, objects, rights, faults: Vec::new(), asked: Vec::new(), version: 0 };
        let kinds = ["objectlocks", "clusterobjectlocks", "locktables"].map(|name| json!({"name": name}));
        world.put(&format!("/apis/{GROUP}/v1alpha1"), json!({"resources": kinds}));
        world.put("/api/v1/namespaces/default", json!({"metadata": {"name": "default"}}));
        world
    }

    /// Returns a world with one ObjectLock `default/a` of this spec. The lock is about `vms/vm-1` unless the spec names
    /// targets.
    pub(crate) fn with_lock(spec: Value) -> Self {
        let mut world = Self::new(ControlPlane::Kubernetes);
        world.lock(LockKind::ObjectLock, "a", spec);
        world
    }

    pub(crate) fn put(&mut self, path: &str, mut object: Value) {
        self.version += 1;
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), json!(self.version.to_string()));
            metadata.entry("uid").or_insert_with(|| json!(format!("u{}", self.version)));
        }
        self.objects.insert(path.to_owned(), object);
    }

    /// Stores a lock, after the tables that admission writes before.
    pub(crate) fn lock(&mut self, kind: LockKind, name: &str, spec: Value) {
        let object = lock(kind, name, spec);
        self.record(&Lock::read(kind, &object));
        self.put(&path_of(kind, name), object);
    }

    pub(crate) fn record(&mut self, lock: &Lock) {
        for (name, entries) in tables_of(lock) {
            let table = self.table(&name.path()).unwrap_or_else(|| LockTable::new(&name));
            self.put(&name.path(), table.with(&entries).unwrap().to_value());
        }
    }

    pub(crate) fn table(&self, path: &str) -> Option<LockTable> {
        self.objects.get(path).map(|table| LockTable::from_value(table).unwrap())
    }

    pub(crate) fn may(&mut self, user: &str, verb: &str, lock: &str) {
        self.rights.insert((user.to_owned(), verb.to_owned(), lock.to_owned()));
    }

    pub(crate) fn decide(&mut self, review: &Value) -> LockDecision {
        self.decide_within(review, None)
    }

    pub(crate) fn decide_within(&mut self, review: &Value, scope: Option<Option<&LogicalCluster>>) -> LockDecision {
        let bytes = review.to_string();
        let review = ObjectReview::parse(bytes.as_bytes()).unwrap();
        let mut evaluation = LockEvaluation::begin(self.control_plane, &review, self.now);
        if let Some(scope) = scope {
            evaluation = evaluation.within(scope);
        }
        self.drive(evaluation)
    }

    pub(crate) fn drive(&mut self, mut evaluation: LockEvaluation<'_>) -> LockDecision {
        loop {
            let asks = evaluation.asks();
            if asks.is_empty() {
                break;
            }
            for ask in asks {
                let (status, body) = self.serve(&ask);
                let id = match ask {
                    Ask::Get(query) => query.id,
                    Ask::Send(send) => send.id,
                };
                evaluation.answer(id, Answer::Response { status, body: body.to_string().as_bytes() });
            }
        }
        assert!(evaluation.is_settled());
        evaluation.decide()
    }

    /// Answers one request.
    pub(crate) fn serve(&mut self, ask: &Ask) -> (u16, Value) {
        let path = match ask {
            Ask::Get(query) => &query.path,
            Ask::Send(send) => &send.path,
        };
        self.asked.push(path.clone());
        if let Some((_, status)) = self.faults.iter().find(|(prefix, _)| path.starts_with(prefix)) {
            return (*status, json!({"kind": "Status", "code": status, "message": "broken"}));
        }
        match ask {
            Ask::Get(query) => self.get(&query.path),
            Ask::Send(send) if send.path.ends_with("/subjectaccessreviews") => self.review_access(&send.body),
            Ask::Send(send) => self.store(send.verb, &send.path, serde_json::from_slice(&send.body).unwrap()),
        }
    }

    fn get(&self, path: &str) -> (u16, Value) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if query.contains("limit=") {
            let prefix = format!("{path}/");
            let items: Vec<_> = (self.objects.iter())
                .filter(|(path, _)| path.strip_prefix(&prefix).is_some_and(|name| !name.contains('/')))
                .map(|(_, object)| object.clone())
                .collect();
            return (200, json!({"metadata": {"resourceVersion": "1"}, "items": items}));
        }
        match self.objects.get(path) {
            Some(object) => (200, object.clone()),
            None => missing(path),
        }
    }

    fn review_access(&self, body: &[u8]) -> (u16, Value) {
        let body: Value = serde_json::from_slice(body).unwrap();
        let attributes = &body["spec"]["resourceAttributes"];
        assert_eq!((&attributes["group"], &body["kind"]), (&json!(GROUP), &json!("SubjectAccessReview")));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let lock = format!(
            "{}/{}/{}",
            text(&attributes["resource"]),
            text(&attributes["namespace"]),
            text(&attributes["name"])
        );
        let allowed = self.rights.contains(&(text(&body["spec"]["user"]), text(&attributes["verb"]), lock));
        (201, json!({"status": {"allowed": allowed}}))
    }

    /// Stores a table as an API server would.
    fn store(&mut self, verb: Verb, path: &str, object: Value) -> (u16, Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let path = if verb == Verb::Create { format!("{path}/{name}") } else { path.to_owned() };
        match (verb, self.objects.get(&path)) {
            (Verb::Create, Some(_)) => (409, json!({"reason": "AlreadyExists"})),
            (Verb::Replace, None) => missing(&path),
            (Verb::Replace, Some(stored))
                if stored["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] =>
            {
                (409, json!({"reason": "Conflict"}))
            }
            _ => {
                self.put(&path, object.clone());
                (if verb == Verb::Create { 201 } else { 200 }, object)
            }
        }
    }
}

fn missing(path: &str) -> (u16, Value) {
    let mut parts = path.rsplit('/');
    let (name, kind) = (parts.next().unwrap(), parts.next().unwrap());
    (404, json!({"kind": "Status", "reason": "NotFound", "code": 404, "details": {"name": name, "kind": kind}}))
}

pub(crate) fn path_of(kind: LockKind, name: &str) -> String {
    let namespace = depguard_core::model::Namespace::parse("default").unwrap();
    format!("{}/{name}", kind.path((kind == LockKind::ObjectLock).then_some(&namespace)))
}

/// Returns a lock with this spec. The lock is about `vms/vm-1` if the spec names no targets.
pub(crate) fn lock(kind: LockKind, name: &str, mut spec: Value) -> Value {
    let spec_of = spec.as_object_mut().unwrap();
    spec_of
        .entry("targets")
        .or_insert_with(|| json!([{"group": "compute.example.com", "resource": "vms", "name": "vm-1"}]));
    let mut metadata = json!({"name": name, "creationTimestamp": "2026-11-30T23:00:00Z"});
    if kind == LockKind::ObjectLock {
        metadata["namespace"] = "default".into();
    }
    json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": kind.kind(), "metadata": metadata, "spec": spec})
}

/// Returns `vms/vm-1` in namespace default.
pub(crate) fn vm() -> Value {
    json!({
        "apiVersion": "compute.example.com/v1", "kind": "VM",
        "metadata": {"name": "vm-1", "namespace": "default", "uid": "u", "labels": {"tier": "prod"}},
        "spec": {"disks": [{"name": "root", "size": 10}], "cpu": 2}, "status": {"phase": "On"},
    })
}

fn review(operation: &str, old: Value, new: Value) -> Value {
    let object = if old.is_null() { &new } else { &old };
    let mut review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "r", "operation": operation,
        "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"],
        "resource": {"group": "compute.example.com", "version": "v1", "resource": "vms"},
        "userInfo": {"username": "alice", "groups": ["dev", "system:authenticated"]},
    }});
    review["request"]["object"] = new;
    review["request"]["oldObject"] = old;
    review
}

/// Returns the review of a deletion by Alice.
pub(crate) fn delete(old: Value) -> Value {
    review("DELETE", old, Value::Null)
}

/// Returns the review of a change by Alice.
pub(crate) fn update(old: Value, new: Value) -> Value {
    review("UPDATE", old, new)
}

/// Returns the review of a creation by Alice.
pub(crate) fn create(new: Value) -> Value {
    review("CREATE", Value::Null, new)
}

/// Returns the review of the eviction of a Pod by Alice.
pub(crate) fn evict(pod: &str) -> Value {
    through_pod(create(json!({"kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}})), "eviction", pod)
}

/// Returns the review of the deletion of a Pod by Alice.
pub(crate) fn delete_pod(pod: &str) -> Value {
    of_pods(delete(json!({"metadata": {"name": pod, "namespace": "default"}})))
}

/// Returns the same review about a subresource of a Pod.
pub(crate) fn through_pod(review: Value, subresource: &str, pod: &str) -> Value {
    let mut review = of_pods(review);
    for (field, value) in [("subResource", subresource), ("name", pod), ("namespace", "default")] {
        review["request"][field] = value.into();
    }
    review
}

fn of_pods(mut review: Value) -> Value {
    review["request"]["resource"] = json!({"group": "", "version": "v1", "resource": "pods"});
    review
}

/// Returns the same review about a lock.
pub(crate) fn about(kind: LockKind, mut review: Value) -> Value {
    review["request"]["resource"] = json!({"group": GROUP, "version": "v1alpha1", "resource": kind.plural()});
    review
}

/// Returns the same review by another user.
pub(crate) fn by(user: &str, groups: &[&str], mut review: Value) -> Value {
    review["request"]["userInfo"] = json!({"username": user, "groups": groups});
    review
}

/// Returns the object with one field changed.
pub(crate) fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}
