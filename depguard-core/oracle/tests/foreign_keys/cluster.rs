//! API server that asks depguard before each change.

use std::collections::BTreeMap;

use depguard_core::protocol::ObjectReview;
use depguard_core::{Context, ControlPlane, Decision, Review, RuleSet};
use serde_json::{Value, json};

use crate::schema::{GROUP, Key, NAMESPACES, Object, Schema, resource};

/// Rules of a schema, and the stored objects.
pub(crate) struct Cluster<'s> {
    schema: &'s Schema,
    rules: RuleSet,
    pub(crate) objects: BTreeMap<Key, Value>,
    /// True: the first namespace is being deleted.
    pub(crate) is_terminating: bool,
}

impl<'s> Cluster<'s> {
    pub(crate) fn new(schema: &'s Schema, on_missing: &str) -> Self {
        let rules = RuleSet::try_load(ControlPlane::Kubernetes, &schema.rules(on_missing)).unwrap();
        Self { schema, rules, objects: BTreeMap::new(), is_terminating: false }
    }

    /// Creates or replaces an object. Returns true if depguard allows that.
    pub(crate) fn store(&mut self, object: &Object) -> bool {
        let json = self.schema.to_json(object);
        let old = self.objects.get(&object.key);
        let review = review(if old.is_some() { "UPDATE" } else { "CREATE" }, object.key, old, Some(&json));
        let review = ObjectReview::parse(review.as_bytes()).unwrap();
        let evaluation = self.rules.evaluate_references(&review, &Context::default());
        let is_allowed = is_allowed(&evaluation.decide_with(|query| self.answer(&query.path)));
        if is_allowed {
            self.objects.insert(object.key, json);
        }
        is_allowed
    }

    /// Deletes an object. Returns true if depguard allows that.
    pub(crate) fn delete(&mut self, key: Key) -> bool {
        let review = review("DELETE", key, self.objects.get(&key), None);
        let review = Review::parse(review.as_bytes()).unwrap();
        let evaluation = self.rules.evaluate(&review, &Context::default());
        let is_allowed = is_allowed(&evaluation.decide_with(|query| self.answer(&query.path)));
        if is_allowed {
            self.objects.remove(&key);
        }
        is_allowed
    }

    /// Returns the answer to a GET or a LIST.
    fn answer(&self, path_and_query: &str) -> Result<(u16, Vec<u8>), String> {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        if query.contains("fieldSelector") {
            return Ok((400, br#"{"message": "field label not supported"}"#.to_vec()));
        }
        let segments: Vec<_> = path.split('/').skip(1).collect();
        let of_kind = |plural: &str, namespace: Option<&str>| {
            let kind = (0..self.schema.kinds.len()).find(|kind| resource(*kind) == plural).unwrap();
            let is_served = namespace.is_none() || self.schema.kinds[kind].is_namespaced;
            let objects = self.objects.iter().filter(move |(key, _)| key.kind == kind);
            let namespace = namespace.map(str::to_owned);
            let objects = objects.filter(move |(key, _)| namespace.as_ref().is_none_or(|it| it == key.namespace));
            (kind, is_served, objects)
        };
        let get = |plural: &str, namespace: Option<&str>, name: &str| {
            let (kind, is_served, mut objects) = of_kind(plural, namespace);
            match objects.find(|(key, _)| key.name == name) {
                // A namespaced kind has no objects at the path without a namespace.
                Some((_, object)) if is_served && namespace.is_some() == self.schema.kinds[kind].is_namespaced => {
                    (200, object.to_string())
                }
                _ if is_served && namespace.is_some() == self.schema.kinds[kind].is_namespaced => {
                    let details = json!({"name": name, "group": GROUP, "kind": plural});
                    (404, json!({"kind": "Status", "reason": "NotFound", "details": details, "code": 404}).to_string())
                }
                _ => (404, "404 page not found\n".to_owned()),
            }
        };
        let list = |plural: &str, namespace: Option<&str>| {
            let (_, is_served, objects) = of_kind(plural, namespace);
            let items: Vec<_> = objects.map(|(_, object)| object).collect();
            match is_served {
                true => {
                    (200, json!({"kind": "List", "metadata": {"resourceVersion": "7"}, "items": items}).to_string())
                }
                false => (404, r#"{"message": "the server could not find the requested resource"}"#.to_owned()),
            }
        };
        let (status, body) = match segments[..] {
            ["api", "v1", "namespaces", name] => {
                let mut metadata = json!({"name": name, "uid": name});
                if self.is_terminating && name == NAMESPACES[0] {
                    metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                }
                (200, json!({"metadata": metadata}).to_string())
            }
            ["apis", GROUP, "v1", plural] => list(plural, None),
            ["apis", GROUP, "v1", "namespaces", namespace, plural] => list(plural, Some(namespace)),
            ["apis", GROUP, "v1", plural, name] => get(plural, None, name),
            ["apis", GROUP, "v1", "namespaces", namespace, plural, name] => get(plural, Some(namespace), name),
            _ => panic!("the core asks for {path_and_query}"),
        };
        Ok((status, body.into_bytes()))
    }
}

fn review(operation: &str, key: Key, old: Option<&Value>, object: Option<&Value>) -> String {
    let namespace = Some(key.namespace).filter(|namespace| !namespace.is_empty());
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": operation, "object": object, "oldObject": old,
        "name": key.name, "namespace": namespace,
        "resource": {"group": GROUP, "version": "v1", "resource": resource(key.kind)},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
    }})
    .to_string()
}

/// Returns true if the decision allows the request. A refusal for any other reason than a reference is a mistake of the
/// test.
fn is_allowed(decision: &Decision) -> bool {
    if let Some(denial) = decision.denial() {
        let message = denial.message();
        assert!(message.contains("still referenced") || message.contains("not found"), "{message}");
    }
    decision.allowed()
}
