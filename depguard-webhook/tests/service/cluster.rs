//! Cluster in memory, as far as locks need it: objects by path, writes by resourceVersion, and access reviews.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use depguard_core::Query;
use depguard_core::protocol::{Ask, Verb};
use depguard_webhook::{ApiReader, BytePermit, Fetched, Writer};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::response;

/// Cluster in memory. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Cluster(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    /// All that was put up or taken away, with the paths.
    events: Vec<(String, Value)>,
    versions: u64,
    sent: Vec<String>,
    may: BTreeSet<(String, String)>,
    broken: Vec<(String, Fetched)>,
    /// Number of writes that somebody else forestalls.
    conflicts: usize,
    /// Part of the paths that never get an answer.
    hangs: Option<&'static str>,
    latency: Duration,
    loses_answer: bool,
    /// Object to put at a path once a write to a path with this part is done.
    after: Option<(&'static str, String, Value)>,
}

const ACCESS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

impl Cluster {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Puts an object at a path, or removes it.
    pub(crate) fn put(&self, path: &str, object: Option<Value>) {
        let mut state = self.state();
        match object {
            Some(object) => _ = state.store(path.to_owned(), object),
            None => state.remove(path),
        }
    }

    pub(crate) fn object(&self, path: &str) -> Option<Value> {
        self.state().objects.get(path).cloned()
    }

    /// Lets a user do something with any lock.
    pub(crate) fn grant(&self, user: &str, verb: &str) {
        self.state().may.insert((user.to_owned(), verb.to_owned()));
    }

    /// Gives this answer to every request to a path with this part.
    pub(crate) fn break_at(&self, part: &str, fetched: Fetched) {
        self.state().broken.push((part.to_owned(), fetched));
    }

    /// Lets so many writes fail with a conflict, as if somebody else were faster.
    pub(crate) fn conflict(&self, times: usize) {
        self.state().conflicts = times;
    }

    /// Puts an object at a path once the next write to a path with this part is done.
    pub(crate) fn put_after_write(&self, part: &'static str, path: &str, object: Value) {
        self.state().after = Some((part, path.to_owned(), object));
    }

    /// Carries out the next write of a register, and never answers it.
    pub(crate) fn lose_answer(&self) {
        self.state().loses_answer = true;
    }

    /// Never answers a request to a path with this part.
    pub(crate) fn hang_at(&self, part: &'static str) {
        self.state().hangs = Some(part);
    }

    /// Makes each answer take so long.
    pub(crate) fn slow(&self, latency: Duration) {
        self.state().latency = latency;
    }

    async fn wait(&self, path: &str) {
        // Other writes may come in between, as anywhere.
        tokio::task::yield_now().await;
        let latency = self.state().latency;
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let hangs = self.state().hangs.is_some_and(|part| path.contains(part));
        if hangs {
            std::future::pending::<()>().await;
        }
    }

    /// Returns the requests since the last call, such as `GET /apis/…`.
    pub(crate) fn sent(&self) -> Vec<String> {
        std::mem::take(&mut self.state().sent)
    }
}

impl State {
    fn broken(&self, path: &str) -> Option<Fetched> {
        self.broken.iter().find(|(part, _)| path.contains(part)).map(|(_, fetched)| fetched.clone())
    }

    fn store(&mut self, path: String, mut object: Value) -> Value {
        self.versions += 1;
        object["metadata"]["resourceVersion"] = self.versions.to_string().into();
        self.objects.insert(path.clone(), object.clone());
        self.events.push((path, json!({"type": "MODIFIED", "object": object})));
        object
    }

    fn remove(&mut self, path: &str) {
        let Some(mut object) = self.objects.remove(path) else { return };
        self.versions += 1;
        object["metadata"]["resourceVersion"] = self.versions.to_string().into();
        self.events.push((path.to_owned(), json!({"type": "DELETED", "object": object})));
    }

    fn get(&self, path: &str) -> Fetched {
        if let Some(object) = self.objects.get(path) {
            return response(200, object);
        }
        match path.split_once('?') {
            Some((collection, query)) => {
                let value = |key| query.split('&').find_map(|part| part.strip_prefix(key)?.strip_prefix('='));
                let name = value("fieldSelector").and_then(|selector| selector.strip_prefix("metadata.name%3D"));
                let is_in = |path: &str| {
                    path.rsplit_once('/')
                        .is_some_and(|(folder, own)| folder == collection && name.is_none_or(|name| name == own))
                };
                if value("watch").is_some() {
                    let since: u64 = value("resourceVersion").unwrap().parse().unwrap();
                    let version =
                        |event: &Value| event["object"]["metadata"]["resourceVersion"].as_str()?.parse::<u64>().ok();
                    let mut events =
                        self.events.iter().filter(|(path, event)| is_in(path) && version(event) > Some(since));
                    return events.next().map_or_else(|| response(200, &json!("")), |(_, event)| response(200, event));
                }
                let items = self.objects.iter().filter(|(path, _)| is_in(path)).map(|(_, object)| object.clone());
                let items: Vec<_> = items.collect();
                // An empty list of metadata has no items at all.
                let items = if name.is_some() && items.is_empty() { Value::Null } else { items.into() };
                let version = self.versions.to_string();
                response(200, &json!({"metadata": {"resourceVersion": version}, "items": items}))
            }
            None => missing(path),
        }
    }

    /// Answers a request of a writer.
    fn ask(&mut self, verb: &str, path: &str, ask: &Ask) -> Fetched {
        let sent = format!("{verb} {path}");
        self.sent.push(sent.clone());
        match (self.broken(&sent), ask) {
            (Some(fetched), _) => fetched,
            (None, Ask::Get(_)) => self.get(path),
            (None, Ask::Send(send)) => {
                let body: Value = serde_json::from_slice(&send.body).unwrap();
                if path == ACCESS {
                    return self.access(&body);
                }
                let written = self.write(send.verb, path, body);
                if let Some((_, path, object)) = self.after.take_if(|(part, ..)| path.contains(*part)) {
                    self.store(path, object);
                }
                written
            }
        }
    }

    fn write(&mut self, verb: Verb, path: &str, object: Value) -> Fetched {
        if verb == Verb::Merge {
            return self.merge(path, &object);
        }
        let generated = || format!("{}{}", object["metadata"]["generateName"].as_str().unwrap(), self.versions + 1);
        let name = object["metadata"]["name"].as_str().map_or_else(generated, str::to_owned);
        let path = if verb == Verb::Create { format!("{path}/{name}") } else { path.to_owned() };
        let conflict = || response(409, &json!({"kind": "Status", "code": 409, "message": "it was changed"}));
        if let Some(left) = self.conflicts.checked_sub(1) {
            self.conflicts = left;
            return conflict();
        }
        match (verb, self.objects.get(&path)) {
            (Verb::Create, Some(_)) => conflict(),
            (Verb::Create, None) => response(201, &self.store(path, object)),
            (Verb::Replace, None) => missing(&path),
            (Verb::Replace, Some(old))
                if old["metadata"]["resourceVersion"] == object["metadata"]["resourceVersion"] =>
            {
                response(200, &self.store(path, object))
            }
            (Verb::Replace | Verb::Merge, _) => conflict(),
        }
    }

    /// Merges a patch: only annotations are ever patched, on the object with one UID.
    fn merge(&mut self, path: &str, patch: &Value) -> Fetched {
        let Some(mut object) = self.objects.get(path).cloned() else { return missing(path) };
        assert_eq!(object["metadata"]["uid"], patch["metadata"]["uid"]);
        for (key, value) in patch["metadata"]["annotations"].as_object().unwrap() {
            object["metadata"]["annotations"][key] = value.clone();
        }
        response(200, &self.store(path.to_owned(), object))
    }

    fn access(&self, review: &Value) -> Fetched {
        let (user, asked) = (&review["spec"]["user"], &review["spec"]["resourceAttributes"]);
        let attributes = (user.as_str().unwrap().to_owned(), asked["verb"].as_str().unwrap().to_owned());
        response(201, &json!({"status": {"allowed": self.may.contains(&attributes)}}))
    }
}

/// Returns the 404 of an API server for a kind that it serves.
fn missing(path: &str) -> Fetched {
    let mut parts = path.rsplit('/');
    let (name, kind) = (parts.next(), parts.next());
    let details = json!({"name": name, "kind": kind, "group": "dependencies.opendefense.cloud"});
    response(404, &json!({"kind": "Status", "code": 404, "reason": "NotFound", "details": details}))
}

impl ApiReader for Cluster {
    async fn get(&self, query: &Query) -> Fetched {
        self.wait(&query.path).await;
        let mut state = self.state();
        state.sent.push(format!("GET {}", query.path));
        state.broken(&query.path).unwrap_or_else(|| state.get(&query.path))
    }
}

impl Writer for Cluster {
    fn send<'a>(&'a self, ask: &'a Ask, _: &'a mut BytePermit) -> BoxFuture<'a, Fetched> {
        async move {
            let (verb, path) = match ask {
                Ask::Get(query) => ("GET", &query.path),
                Ask::Send(send) => match send.verb {
                    Verb::Create => ("POST", &send.path),
                    Verb::Replace => ("PUT", &send.path),
                    Verb::Merge => ("PATCH", &send.path),
                },
            };
            self.wait(path).await;
            let fetched = self.state().ask(verb, path, ask);
            let is_lost = verb == "PUT" && std::mem::take(&mut self.state().loses_answer);
            if is_lost {
                std::future::pending::<()>().await;
            }
            fetched
        }
        .boxed()
    }
}

#[test]
fn writes_are_by_the_version_that_was_read() {
    let cluster = Cluster::default();
    let table = |version: &str| json!({"metadata": {"name": "a", "resourceVersion": version}});
    let status = |fetched: Fetched| match fetched {
        Fetched::Response { status, .. } => status,
        Fetched::TooLarge | Fetched::Failed(_) => 0,
    };
    let write = |verb, path, version| status(cluster.state().write(verb, path, table(version)));
    assert_eq!(write(Verb::Replace, "/t/a", "1"), 404);
    assert_eq!((write(Verb::Create, "/t", ""), write(Verb::Create, "/t", "")), (201, 409));
    assert_eq!((write(Verb::Replace, "/t/a", "1"), write(Verb::Replace, "/t/a", "1")), (200, 409));
}
