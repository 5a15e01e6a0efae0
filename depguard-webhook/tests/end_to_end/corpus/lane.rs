//! API server with the stock webhook, in which one case after the other is played.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use base64::Engine;
use bytes::Bytes;
use depguard_core::ControlPlane;
use depguard_kcp::{Endpoint, Preconditions};
use depguard_testbed::{Options, Testbed};
use depguard_webhook::{Config, Webhook};
use serde_json::{Map, Value, json};

use super::bed::{CONSUMER, DEP_CTRL, OURS, connect, define, export_and_bind, kubeconfig, put, until};
use super::case::{self, Case, Kind, Update};

const RULES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const HOLD: &str = "example.com/hold";
/// Finalizer of an object that another one owns.
const KEEP: &str = "test.example.com/keep";
/// Kind whose review shows which rules are in force.
const MARKER: &str = "Marker";

pub(crate) struct Lane {
    control_plane: ControlPlane,
    testbed: Testbed,
    webhook: Webhook,
    folder: tempfile::TempDir,
    kinds: BTreeMap<String, Kind>,
    admin: Endpoint,
    /// Endpoint of a user who may override nothing.
    tenant: Endpoint,
    /// Paths of the objects that the last case left behind.
    left: Vec<String>,
    rules: BTreeSet<String>,
    round: usize,
}

/// Answer of the API server to the change.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) message: String,
    /// Causes that its details name: blockers, or missing targets.
    pub(crate) causes: Vec<Value>,
    pub(crate) warnings: Vec<String>,
}

/// Change of a case.
enum Change {
    Deletion(Object),
    Creation(Object),
    /// Update of the first state to the second.
    Update(Object, Object),
}

impl Answer {
    /// Returns true if the message names this blocker, and not only another one whose name begins alike.
    pub(crate) fn says(&self, blocker: &str) -> bool {
        let mut words = self.message.split([' ', ',']);
        words.any(|word| word.trim_end_matches([':', ';']) == blocker)
    }

    /// Returns true if one of the causes is that this target is missing.
    pub(crate) fn misses(&self, target: &str) -> bool {
        let (kind, name) = target.split_once('/').unwrap();
        let elsewhere = name.rsplit_once('/').map(|(place, name)| format!("{kind}/{name} in namespace {place} "));
        self.causes.iter().any(|cause| {
            let is_reason = ["RefNotFound", "InvalidKind"].iter().any(|reason| cause["reason"] == *reason);
            let message = cause["message"].as_str().unwrap_or_default();
            let is_named = message.starts_with(&format!("{target} "));
            is_reason && (is_named || elsewhere.as_ref().is_some_and(|there| message.starts_with(there.as_str())))
        })
    }
}

impl Lane {
    pub(crate) async fn start(control_plane: ControlPlane) -> Self {
        let kind = match control_plane {
            ControlPlane::Kcp => depguard_testbed::Kind::Kcp,
            ControlPlane::Kubernetes => depguard_testbed::Kind::Kubernetes,
        };
        let testbed = Testbed::start(Options::new(kind)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(folder.path().join("tls.crt"), made.cert.pem()).unwrap();
        std::fs::write(folder.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
        let mut kinds = case::kinds();
        let marker =
            Kind { group: "test.example.com".into(), resource: "markers".into(), namespaced: false, served: true };
        kinds.insert(MARKER.into(), marker);
        let (dep_ctrl, consumer) = if control_plane == ControlPlane::Kcp { (DEP_CTRL, CONSUMER) } else { ("", "") };
        if control_plane == ControlPlane::Kcp {
            let root = connect(&testbed, folder.path(), "root", "admin").await;
            export_and_bind(&root, &kinds).await;
        }
        let admin = connect(&testbed, folder.path(), consumer, "admin").await.own_endpoint();
        let tenant = connect(&testbed, folder.path(), consumer, "alice").await.own_endpoint();
        if control_plane == ControlPlane::Kubernetes {
            define(&admin, &kinds).await;
        }
        until("rules are served", async || admin.get_json(RULES).await.is_ok()).await;
        let webhook = Webhook::start(
            Config::default()
                .control_plane(control_plane)
                .kubeconfig(Some(kubeconfig(&testbed, folder.path(), dep_ctrl, "admin")))
                .review_addr((Ipv4Addr::LOCALHOST, 0).into())
                .probe_addr(None)
                .metrics_addr(None)
                .tls_cert_dir(folder.path().to_owned())
                .shutdown_delay(Duration::ZERO),
        );
        let webhook = webhook.await.unwrap();
        let (left, rules) = (Vec::new(), BTreeSet::new());
        Self { control_plane, testbed, webhook, folder, kinds, admin, tenant, left, rules, round: 0 }
    }

    pub(crate) async fn stop(self) {
        self.webhook.stop().await;
        self.testbed.stop().await;
    }

    /// Plays a case. `Err` if no API server can be brought into its state, with the reason.
    pub(crate) async fn ask(&mut self, case: &Case) -> Result<Answer, String> {
        self.clear().await;
        self.round += 1;
        let change = self.change(case);
        let mut objects: Vec<_> = case.objects.iter().map(|short| self.object(short)).collect();
        match &change {
            Change::Deletion(target) => {
                let others = objects.iter().filter(|object| object.path != target.path).cloned();
                // The case may describe the deleted object itself, in more detail.
                let itself = objects.iter().find(|object| object.path == target.path);
                if itself.is_some_and(|itself| itself.uid != target.uid) {
                    return Err("two objects of one name".to_owned());
                }
                objects = [itself.unwrap_or(target).clone()].into_iter().chain(others).collect();
            }
            Change::Creation(object) => {
                self.make_namespace(object).await;
                if self.admin.get_json(&format!("{}?limit=1", object.collection)).await.is_err() {
                    return Err(format!("{} are not served here", object.collection));
                }
            }
            Change::Update(old, _) => objects.push(old.clone()),
        }
        let mut uids: BTreeMap<String, Value> = BTreeMap::new();
        for object in &objects {
            self.create(object, &mut uids).await?;
        }
        self.write_rules(case).await;
        self.configure(case, &change).await;
        let in_force = async || self.delete("/apis/test.example.com/v1/markers/target").await.says("Marker/marker");
        until("the rules are in force", in_force).await;
        match change {
            Change::Deletion(target) => Ok(self.delete(&target.path).await),
            Change::Creation(object) => {
                Ok(self.dry_run("POST", &object.collection, Some(&replaced(object.json, &uids))).await)
            }
            Change::Update(_, object) => {
                let mut json = replaced(object.json, &uids);
                let there = self.admin.get_json(&object.path).await.unwrap();
                json["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
                Ok(self.dry_run("PUT", &object.path, Some(&json)).await)
            }
        }
    }

    fn change(&self, case: &Case) -> Change {
        match (&case.delete, &case.create, &case.update) {
            (Some(target), None, None) => Change::Deletion(self.object(target)),
            (None, Some(made), None) => Change::Creation(self.object(made)),
            (None, None, Some(Update { from, to })) => Change::Update(self.object(from), self.object(to)),
            _ => panic!("{}: one change", case.name),
        }
    }

    async fn make_namespace(&self, object: &Object) {
        if let Some(namespace) = object.json["metadata"]["namespace"].as_str() {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            let _ = self.admin.post_json("/api/v1/namespaces", &namespace).await;
        }
    }

    /// Removes the objects of the last case, after the webhook that could refuse that.
    async fn clear(&mut self) {
        let _ = self.admin.delete(&format!("{CONFIGURATIONS}/webhook"), Preconditions::default()).await;
        for path in std::mem::take(&mut self.left) {
            let released = async || match self.admin.get_json(&path).await {
                Ok(mut object) if object["metadata"].get("finalizers").is_some() => {
                    object["metadata"]["finalizers"] = json!([]);
                    // The garbage collector may have changed the object meanwhile.
                    self.admin.put_json(&path, &object).await.is_ok()
                }
                _ => true,
            };
            until("the finalizers are gone", released).await;
            let _ = self.admin.delete(&path, Preconditions::default()).await;
        }
    }

    async fn create(&mut self, object: &Object, uids: &mut BTreeMap<String, Value>) -> Result<(), String> {
        self.make_namespace(object).await;
        let json = replaced(object.json.clone(), uids);
        match self.admin.post_json(&object.collection, &json).await {
            Ok(made) => {
                if let Some(uid) = &object.uid {
                    uids.insert(uid.clone(), made["metadata"]["uid"].clone());
                }
            }
            Err(error) if error.is_not_found() => return Err(format!("{} are not served here", object.collection)),
            Err(error) => panic!("{json}: {error}"),
        }
        self.left.push(object.path.clone());
        if json["metadata"]["finalizers"].as_array().is_some_and(|all| all.contains(&json!(HOLD))) {
            self.admin.delete(&object.path, Preconditions::default()).await.unwrap();
        }
        Ok(())
    }

    /// Writes the rules of a case, and last the rule that shows that they are in force.
    async fn write_rules(&mut self, case: &Case) {
        let shorts = case.rules.as_array().cloned().unwrap_or_else(|| vec![case.rules.clone()]);
        let mut rules: Vec<_> = shorts.iter().enumerate().map(|(index, short)| self.rule(index, short)).collect();
        let path = format!(".spec.round{}", self.round);
        rules.push(self.rule(0, &json!({"name": "marker", "from": MARKER, "to": MARKER, "fieldRef": {"path": path}})));
        let names: BTreeSet<_> =
            rules.iter().map(|rule| rule["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        for gone in self.rules.difference(&names) {
            self.admin.delete(&format!("{RULES}/{gone}"), Preconditions::default()).await.unwrap();
        }
        self.rules = names;
        for rule in &rules {
            let path = format!("{RULES}/{}", rule["metadata"]["name"].as_str().unwrap());
            put(&self.admin, RULES, &path, rule).await;
        }
        let field = format!("round{}", self.round);
        for (name, spec) in [("target", json!({})), ("marker", json!({field: "target"}))] {
            let marker = json!({
                "apiVersion": "test.example.com/v1", "kind": MARKER, "metadata": {"name": name}, "spec": spec,
            });
            let markers = "/apis/test.example.com/v1/markers";
            put(&self.admin, markers, &format!("{markers}/{name}"), &marker).await;
        }
    }

    /// Installs the webhook as the controller does: at `/ignore` for rules whose failures are ignored.
    async fn configure(&self, case: &Case, change: &Change) {
        let certificate = std::fs::read(self.folder.path().join("tls.crt")).unwrap();
        let certificate = base64::engine::general_purpose::STANDARD.encode(certificate);
        let (route, operations, object) = match change {
            Change::Deletion(object) => ("validate", json!(["DELETE"]), object),
            Change::Creation(object) | Change::Update(_, object) => ("reference", json!(["CREATE", "UPDATE"]), object),
        };
        let kind = &self.kinds[object.json["kind"].as_str().unwrap()];
        let policy = case.failure_policy.as_deref().unwrap_or("Fail");
        let entry = |name: &str, policy: &str, (route, operations): (&str, Value), kind: &Kind| {
            let path = if policy == "Ignore" { format!("/{route}/ignore") } else { format!("/{route}") };
            json!({
                "name": format!("{name}.example.com"),
                "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": policy, "timeoutSeconds": 10,
                "clientConfig": {
                    "url": format!("https://{}{path}", self.webhook.review_addr()), "caBundle": certificate,
                },
                "rules": [{
                    "operations": operations, "apiGroups": [kind.group], "apiVersions": ["*"], "resources": [kind.resource],
                }],
            })
        };
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "webhook"},
            "webhooks": [
                entry("case", policy, (route, operations), kind),
                entry("marker", "Fail", ("validate", json!(["DELETE"])), &self.kinds[MARKER]),
            ],
        });
        self.admin.post_json(CONFIGURATIONS, &configuration).await.unwrap();
    }

    /// Deletes an object as a dry run, and returns the answer.
    async fn delete(&self, path: &str) -> Answer {
        // The request has no body: with a body, an API server does not look at the query.
        self.dry_run("DELETE", path, None).await
    }

    async fn dry_run(&self, method: &str, path: &str, object: Option<&Value>) -> Answer {
        let request = http::Request::builder().method(method).uri(format!("{path}?dryRun=All"));
        let body = object.map(|object| Bytes::from(object.to_string())).unwrap_or_default();
        let request = match object {
            Some(_) => request.header("content-type", "application/json").body(body),
            None => request.body(body),
        };
        let response = self.tenant.send(request.unwrap()).await.unwrap();
        let body: Value = serde_json::from_slice(response.body()).unwrap();
        let warnings = response.headers().get_all("warning").iter();
        Answer {
            code: response.status().as_u16(),
            message: body["message"].as_str().unwrap_or_default().to_owned(),
            causes: body["details"]["causes"].as_array().cloned().unwrap_or_default(),
            warnings: warnings.map(|warning| warning.to_str().unwrap().trim_end_matches('"').to_owned()).collect(),
        }
    }

    fn object(&self, short: &Value) -> Object {
        let mut fields = short.as_object().unwrap().clone();
        let name = take(&mut fields, "kind");
        let kind = &self.kinds[name.as_str().unwrap()];
        let namespace = take(&mut fields, "namespace");
        let namespace = namespace.as_str().unwrap_or("ns");
        let mut json = json!({"apiVersion": api_version(kind), "kind": name, "metadata": {}});
        if kind.namespaced {
            json["metadata"]["namespace"] = json!(namespace);
        }
        let uid = take(&mut fields, "uid").as_str().map(str::to_owned);
        for (field, value) in fields {
            match field.as_str() {
                "name" | "labels" | "annotations" | "finalizers" => json["metadata"][field] = value,
                "ownerReferences" => {
                    json["metadata"][field] = Value::Array(owners(&value));
                    // The garbage collector deletes an object whose owners are not there. The finalizer keeps it.
                    json["metadata"]["finalizers"] = json!([KEEP]);
                }
                // An object that is being deleted still exists because a finalizer holds it.
                "deletionTimestamp" => json["metadata"]["finalizers"] = json!([HOLD]),
                _ => json[field] = value,
            }
        }
        let place = if kind.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        let root = if kind.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}/v1", kind.group) };
        let collection = format!("{root}{place}/{}", kind.resource);
        Object { path: format!("{collection}/{}", json["metadata"]["name"].as_str().unwrap()), collection, uid, json }
    }

    fn rule(&self, index: usize, short: &Value) -> Value {
        let mut fields = short.as_object().unwrap().clone();
        let exported = |kind: &Kind| self.control_plane == ControlPlane::Kcp && !kind.group.is_empty();
        let described = |name: &str| {
            let kind = &self.kinds[name];
            (kind, json!({"group": kind.group, "version": "v1", "resource": kind.resource, "kind": name}))
        };
        let name = fields.remove("name").unwrap_or_else(|| json!(format!("rule-{index}")));
        let (kind, mut dependent) = described(take(&mut fields, "from").as_str().unwrap());
        if exported(kind) {
            dependent["apiExportName"] = json!(kind.group);
        }
        if let Some(selector) = fields.remove("selector") {
            dependent["selector"] = selector;
        }
        let mut spec = json!({"dependent": dependent});
        if let Some(policy) = fields.remove("failurePolicy") {
            spec["failurePolicy"] = policy;
        }
        let edges = match fields.remove("edges") {
            Some(edges) => edges.as_array().unwrap().clone(),
            None => vec![Value::Object(fields)],
        };
        let edges = edges.into_iter().map(|mut edge| {
            let (kind, target) = described(take(edge.as_object_mut().unwrap(), "to").as_str().unwrap());
            for (field, value) in target.as_object().unwrap() {
                edge[field] = value.clone();
            }
            if exported(kind) {
                edge["apiExportRef"] = json!({"path": CONSUMER, "name": kind.group});
            }
            edge
        });
        spec["dependencies"] = edges.collect();
        json!({
            "apiVersion": format!("{OURS}/v1alpha1"), "kind": "DependencyRule", "metadata": {"name": name},
            "spec": spec,
        })
    }
}

/// Object of a case, and its place.
#[derive(Clone)]
struct Object {
    collection: String,
    path: String,
    /// UID that the case gives the object. The API server gives it another one.
    uid: Option<String>,
    json: Value,
}

fn take(fields: &mut Map<String, Value>, field: &str) -> Value {
    fields.remove(field).unwrap_or_default()
}

/// Returns owner references with all fields that an API server wants.
fn owners(short: &Value) -> Vec<Value> {
    let whole = |mut owner: Value| {
        for (field, value) in [("apiVersion", "example.com/v1"), ("kind", "Any"), ("name", "any"), ("uid", "any")] {
            if owner.get(field).is_none() {
                owner[field] = json!(value);
            }
        }
        owner
    };
    short.as_array().unwrap().iter().cloned().map(whole).collect()
}

/// Replaces references to the UIDs of the case by references to the real ones.
fn replaced(json: Value, uids: &BTreeMap<String, Value>) -> Value {
    match json {
        Value::String(text) => uids.get(&text).cloned().unwrap_or(Value::String(text)),
        Value::Array(list) => list.into_iter().map(|value| replaced(value, uids)).collect(),
        Value::Object(fields) => fields.into_iter().map(|(field, value)| (field, replaced(value, uids))).collect(),
        other => other,
    }
}

fn api_version(kind: &Kind) -> String {
    if kind.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", kind.group) }
}
