//! Tests of the reflector against a server whose lists and watch events are decided by the test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::server::{Answer, Asked, Scripted};
use depguard_core::{ControlPlane, ExportName};
use depguard_kcp::{Allowance, ConnectOptions, Connection, Readiness, Reflector, ReflectorOptions, Snapshot, Watched};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

#[cfg(feature = "cli")]
mod log;
mod steady;

const EXPORT: &str = "dependencies.opendefense.cloud";
const SLICES: &str = "/clusters/root:dep-ctrl/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
const RULES: Watched = Watched::RULES;
const EXPORTS: Watched = Watched { names: Some("network.example.com"), ..Watched::EXPORTS };

/// Content of the server at each path, and the open watches.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Shown>>);

#[derive(Default)]
struct Shown {
    lists: BTreeMap<String, (u16, Value)>,
    /// Answers to lists, in place of their content.
    instead: BTreeMap<String, fn() -> Answer>,
    watches: BTreeMap<String, mpsc::UnboundedSender<String>>,
    version: u64,
}

impl World {
    fn answer(&self, asked: &Asked) -> Answer {
        let mut shown = self.0.lock().unwrap();
        let (path, query) = asked.target.split_once('?').unwrap();
        let path = path.replace("%2A", "*");
        if query.contains("watch=true") {
            let (sender, lines) = mpsc::unbounded_channel();
            shown.watches.insert(path, sender);
            return Answer::Lines(lines);
        }
        if let Some(answer) = shown.instead.get(&path) {
            return answer();
        }
        match shown.lists.get(&path) {
            Some((status, list)) => Answer::Json(*status, list.to_string()),
            None => Answer::Json(404, "404 page not found".to_owned()),
        }
    }

    /// Lets a LIST of `path` show these objects from now on.
    fn list(&self, path: &str, items: &[Value]) {
        let mut shown = self.0.lock().unwrap();
        shown.version += 1;
        let list = json!({"metadata": {"resourceVersion": shown.version.to_string()}, "items": items});
        shown.instead.remove(path);
        shown.lists.insert(path.to_owned(), (200, list));
    }

    /// Lets a LIST of `path` return this answer from now on.
    fn respond(&self, path: &str, status: u16, body: Value) {
        self.0.lock().unwrap().lists.insert(path.to_owned(), (status, body));
    }

    /// Lets a LIST of `path` return this answer from now on, until another list is set.
    fn respond_by(&self, path: &str, answer: fn() -> Answer) {
        self.0.lock().unwrap().instead.insert(path.to_owned(), answer);
    }

    /// Sends an event to the watch of `path`.
    async fn tell(&self, path: &str, event: &str, object: &Value) {
        let line = json!({"type": event, "object": object}).to_string();
        self.watch(path).await.send(line).unwrap();
    }

    /// Tells the watch of `path` that its state is too old, so that it must begin anew.
    async fn expire(&self, path: &str) {
        let status = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
        self.tell(path, "ERROR", &status).await;
    }

    async fn watch(&self, path: &str) -> mpsc::UnboundedSender<String> {
        for _ in 0..6000 {
            let sender = self.0.lock().unwrap().watches.get(path).cloned();
            if let Some(sender) = sender.filter(|sender| !sender.is_closed()) {
                return sender;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nobody watches {path}");
    }

    fn watched(&self) -> BTreeSet<String> {
        let shown = self.0.lock().unwrap();
        shown.watches.iter().filter(|(_, sender)| !sender.is_closed()).map(|(path, _)| path.clone()).collect()
    }
}

/// Reflector of such a world, in kcp.
struct Setting {
    world: World,
    server: Scripted,
    reflector: Reflector,
    driver: JoinHandle<()>,
    states: watch::Receiver<Arc<Snapshot>>,
    _dir: TempDir,
}

async fn start(control_plane: ControlPlane, world: World) -> Setting {
    let answering = world.clone();
    let server = Scripted::start(move |asked| answering.answer(asked)).await;
    for list in world.0.lock().unwrap().lists.values_mut() {
        *list = (list.0, serde_json::from_str(&list.1.to_string().replace("SERVER", &server.url)).unwrap());
    }
    let (connection, dir) = connect(control_plane, &server).await;
    let export_name = ExportName::parse(EXPORT).unwrap();
    let (reflector, driver) = Reflector::start(
        connection,
        ReflectorOptions { control_plane, export_name, watched: vec![RULES, EXPORTS], allowance: Allowance::DEFAULT },
    );
    Setting { world, server, states: reflector.subscribe(), reflector, driver, _dir: dir }
}

/// Opens a connection to the server, by a kubeconfig in a folder.
async fn connect(control_plane: ControlPlane, server: &Scripted) -> (Connection, TempDir) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("kubeconfig");
    let place = if control_plane == ControlPlane::Kcp { "/clusters/root:dep-ctrl" } else { "" };
    let kubeconfig = json!({
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("{}{place}", server.url)}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    });
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let options = ConnectOptions::new(control_plane).kubeconfig(file);
    (Connection::open(&options).await.unwrap(), dir)
}

impl Setting {
    /// Waits until the state is as `expected`, and returns it.
    async fn until(&mut self, what: &str, expected: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let waited = tokio::time::timeout(Duration::from_secs(10), self.states.wait_for(|state| expected(state))).await;
        let Ok(Ok(state)) = waited else { panic!("never {what}: {:?}", self.reflector.state()) };
        state.clone()
    }

    async fn until_rules(&mut self, names: &[&str]) -> Arc<Snapshot> {
        self.until(&format!("{names:?}"), |state| state.is_loaded() && rules(state) == names).await
    }
}

/// Returns the number of requested lists of a shard's rules.
fn lists(server: &Scripted, shard: &str) -> usize {
    let path = at(shard, RULES);
    let is_list =
        |asked: &&Asked| asked.target.replace("%2A", "*").starts_with(&path) && !asked.target.contains("watch=true");
    server.asked().iter().filter(is_list).count()
}

fn rules(state: &Snapshot) -> Vec<String> {
    let objects = &state.resource("dependencyrules").unwrap().objects;
    let name = |cluster: &Option<_>| cluster.as_ref().map_or("-".to_owned(), ToString::to_string);
    objects.keys().map(|(cluster, rule)| format!("{}/{rule}", name(cluster))).collect()
}

fn slice(shards: &[&str]) -> Value {
    let urls: Vec<_> = shards.iter().map(|shard| json!({"url": format!("SERVER/{shard}")})).collect();
    json!({
        "metadata": {"name": "any", "uid": "s", "resourceVersion": "1", "annotations": {"kcp.io/cluster": "2x3"}},
        "spec": {"export": {"name": EXPORT, "path": "root:dep-ctrl"}},
        "status": {"endpoints": urls},
    })
}

fn rule(cluster: &str, name: &str) -> Value {
    json!({"metadata": {
        "name": name, "resourceVersion": "7", "annotations": {"kcp.io/cluster": cluster},
        "managedFields": [{"manager": "somebody"}],
    }, "spec": {"any": ["thing"]}})
}

fn at(shard: &str, watched: Watched) -> String {
    let Watched { group, version, plural, .. } = watched;
    format!("/{shard}/clusters/*/apis/{group}/{version}/{plural}")
}

/// Returns a world with a shard `a`, where two workspaces have a rule of the same name.
fn one_shard() -> World {
    let world = World::default();
    world.list(SLICES, &[slice(&["a"])]);
    world.list(&at("a", RULES), &[rule("c1", "r"), rule("c2", "r")]);
    world
}

#[tokio::test]
async fn the_same_name_in_two_workspaces_is_two_objects() {
    let mut setting = start(ControlPlane::Kcp, one_shard()).await;
    let state = setting.until_rules(&["c1/r", "c2/r"]).await;
    let rules = state.resource("dependencyrules").unwrap();
    let object = rules.objects.values().next().unwrap();
    assert_eq!(object.origin.as_ref(), format!("{}/a", setting.server.url));
    assert_eq!(object.text.read()["apiVersion"], "dependencies.opendefense.cloud/v1alpha1");
    assert_eq!(object.text.read()["kind"], "DependencyRule");
    assert_eq!(object.text.read()["spec"], json!({"any": ["thing"]}));
    assert_eq!(object.text.read()["metadata"].get("managedFields"), None);

    setting.world.tell(&at("a", RULES), "DELETED", &rule("c1", "r")).await;
    setting.until_rules(&["c2/r"]).await;
    setting.world.tell(&at("a", RULES), "ADDED", &rule("c3", "r")).await;
    setting.until_rules(&["c2/r", "c3/r"]).await;
}

#[tokio::test]
async fn every_endpoint_is_watched_and_only_while_it_is_named() {
    let world = one_shard();
    world.list(SLICES, &[slice(&["a", "b"])]);
    let mut setting = start(ControlPlane::Kcp, world.clone()).await;
    setting.until("told what is missing", |state| state.not_loaded().is_some_and(|why| why.contains("/b"))).await;
    world.list(&at("b", RULES), &[rule("c9", "r")]);
    setting.until_rules(&["c1/r", "c2/r", "c9/r"]).await;
    world.watch(&at("b", RULES)).await;

    let left = serde_json::from_str(&slice(&["b"]).to_string().replace("SERVER", &setting.server.url)).unwrap();
    world.tell(SLICES, "MODIFIED", &left).await;
    setting.until_rules(&["c9/r"]).await;
    for _ in 0..6000 {
        if !world.watched().contains(&at("a", RULES)) {
            return assert!(world.watched().contains(&at("b", RULES)));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("still watched: {:?}", world.watched());
}

#[tokio::test]
async fn what_is_not_required_may_be_missing_and_comes_when_it_can() {
    let world = one_shard();
    let mut setting = start(ControlPlane::Kcp, world.clone()).await;
    let unavailable =
        |state: &Snapshot| matches!(state.resources()[1].readiness, Readiness::Unavailable { .. }) && state.is_loaded();
    let state = setting.until("unavailable", unavailable).await;
    let Readiness::Unavailable { why } = &state.resources()[1].readiness else { panic!() };
    assert!(why.contains("apiexports.apis.kcp.io") && why.contains("404 page not found"), "{why}");

    world.list(&at("a", EXPORTS), &[rule("c1", "network.example.com"), rule("c1", "other.example.com")]);
    let state = setting.until("loaded", |state| state.resources()[1].readiness == Readiness::Loaded).await;
    assert_eq!(state.resources()[1].objects.len(), 1);
    world.tell(&at("a", EXPORTS), "ADDED", &rule("c2", "other.example.com")).await;
    world.tell(&at("a", EXPORTS), "ADDED", &rule("c2", "network.example.com")).await;
    let names = |state: &Snapshot| state.resources()[1].objects.keys().map(|key| key.1.clone()).collect::<Vec<_>>();
    let state = setting.until("both", |state| names(state).len() == 2).await;
    assert_eq!(names(&state), ["network.example.com"; 2]);
}

#[tokio::test]
async fn a_name_is_asked_for_in_a_plain_cluster_alone() {
    for (control_plane, expected) in [(ControlPlane::Kcp, false), (ControlPlane::Kubernetes, true)] {
        let world = one_shard();
        world.list(&at("a", EXPORTS), &[]);
        world.list("/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules", &[]);
        world.list("/apis/apis.kcp.io/v1alpha2/apiexports", &[]);
        let mut setting = start(control_plane, world).await;
        setting.until("loaded", |state| state.resources()[1].readiness == Readiness::Loaded).await;
        let asked = setting.server.asked();
        let mut lists = asked.iter().filter(|asked| asked.target.contains("/apiexports?"));
        let by_name = |asked: &&Asked| asked.target.contains("fieldSelector=metadata.name%3Dnetwork.example.com");
        assert_eq!(lists.any(|asked| by_name(&asked)), expected, "{asked:?}");
    }
}

#[tokio::test]
async fn a_list_without_resource_version_is_not_loaded() {
    let world = one_shard();
    world.respond(&at("a", RULES), 200, json!({"metadata": {}, "items": []}));
    let mut setting = start(ControlPlane::Kcp, world.clone()).await;
    let told =
        |state: &Snapshot| state.not_loaded().is_some_and(|why| why.contains("without metadata.resourceVersion"));
    setting.until("told why", told).await;
    world.list(&at("a", RULES), &[]);
    setting.until_rules(&[]).await;
}

#[tokio::test]
async fn after_a_break_objects_go_only_once_a_new_list_is_complete() {
    let world = one_shard();
    let mut setting = start(ControlPlane::Kcp, world.clone()).await;
    setting.until_rules(&["c1/r", "c2/r"]).await;

    world.respond(
        &at("a", RULES),
        503,
        json!({"kind": "Status", "reason": "ServiceUnavailable", "message": "later", "code": 503}),
    );
    world.expire(&at("a", RULES)).await;
    let failing = |state: &Snapshot| {
        state.resources()[0]
            .last_error
            .as_ref()
            .is_some_and(|error| error.why.contains("503 ServiceUnavailable: later"))
    };
    let state = setting.until("failing", failing).await;
    assert!(state.is_loaded());
    assert_eq!(rules(&state), ["c1/r", "c2/r"]);

    world.list(&at("a", RULES), &[rule("c2", "r")]);
    let state = setting.until_rules(&["c2/r"]).await;
    assert_eq!(state.resources()[0].last_error, None);
}

#[tokio::test]
async fn a_rule_of_before_an_unreadable_slice_is_no_rule() {
    let world = World::default();
    world.respond(SLICES, 403, json!({"kind": "Status", "reason": "Forbidden", "message": "no", "code": 403}));
    let mut setting = start(ControlPlane::Kcp, world.clone()).await;
    let told = |state: &Snapshot| state.not_loaded().is_some_and(|why| why.contains("403 Forbidden: no"));
    setting.until("told why", told).await;
    world.list(SLICES, &[slice(&[])]);
    setting.until_rules(&[]).await;
}

#[tokio::test]
async fn a_plain_cluster_is_watched_itself_and_nobodys_annotation_counts() {
    let world = World::default();
    let path = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
    world.list(path, &[rule("c1", "r"), rule("c1", "s")]);
    let mut setting = start(ControlPlane::Kubernetes, world.clone()).await;
    let state = setting.until_rules(&["-/r", "-/s"]).await;
    let origin = state.resources()[0].objects.values().next().unwrap().origin.clone();
    assert_eq!(origin.as_ref(), setting.server.url);
    world.tell(path, "DELETED", &rule("c2", "r")).await;
    setting.until_rules(&["-/s"]).await;
}

#[tokio::test]
async fn a_dropped_reflector_ends_all_watches_and_says_that_nothing_is_loaded() {
    let world = one_shard();
    let mut setting = start(ControlPlane::Kcp, world.clone()).await;
    setting.until_rules(&["c1/r", "c2/r"]).await;
    world.watch(&at("a", RULES)).await;
    drop(setting.reflector);
    assert!(setting.driver.await.unwrap_err().is_cancelled());
    assert_eq!(setting.states.borrow().not_loaded(), Some("the watches have ended"));
    for _ in 0..6000 {
        if world.watched().is_empty() {
            let asked = setting.server.asked().len();
            tokio::time::sleep(Duration::from_millis(600)).await;
            return assert_eq!(setting.server.asked().len(), asked);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("still watched: {:?}", world.watched());
}

/// Part of the expected error, and the unusable answer.
type Unusable = (&'static str, fn() -> Answer);

/// Answers every retry with an unusable 200.
#[tokio::test]
async fn what_is_answered_and_not_understood_is_no_contact() {
    let unusable: [Unusable; 5] = [
        ("without metadata.resourceVersion", || Answer::Json(200, r#"{"metadata": {}, "items": []}"#.to_owned())),
        ("too large to read", || Answer::Big((8 << 20) + 1)),
        ("end of file before message length reached", || Answer::Half(r#"{"metadata": {"#.to_owned())),
        ("expected value", || Answer::Json(200, "<html>".to_owned())),
        ("expected a string", || {
            let object = r#"{"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": 7}}]}"#;
            Answer::Json(200, object.to_owned())
        }),
    ];
    let cases = unusable.into_iter().map(|(why, answer)| async move {
        let mut setting = start(ControlPlane::Kcp, one_shard()).await;
        setting.until_rules(&["c1/r", "c2/r"]).await;
        assert!(!setting.reflector.watches().failing()["dependencyrules"]);
        setting.world.respond_by(&at("a", RULES), answer);
        setting.world.expire(&at("a", RULES)).await;

        let told = |state: &Snapshot| state.failing().is_some_and(|failure| failure.why.contains(why));
        let first = setting.until(why, told).await;
        let (since, before) = (tokio::time::Instant::now(), lists(&setting.server, "a"));
        while lists(&setting.server, "a") < before + 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let silent = since.elapsed();
        let age = setting.reflector.watches().ages()["dependencyrules"];
        assert!(age >= silent, "{why}: a contact {age:?} ago, and it has failed for {silent:?}");
        assert!(setting.reflector.watches().failing()["dependencyrules"], "{why}");
        let stalest = setting.reflector.state().stalest().unwrap();
        assert!(stalest.since <= first.failing().unwrap().since && stalest.why.contains(why), "{stalest:?}");

        setting.world.list(&at("a", RULES), &[rule("c2", "r")]);
        setting.until_rules(&["c2/r"]).await;
        assert!(!setting.reflector.watches().failing()["dependencyrules"], "{why}");
    });
    futures::future::join_all(cases).await;
}

/// Advances the clock by `seconds`, in which nothing arrives.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

/// Two shards, of which `b` sends bookmarks.
struct Shards {
    setting: Setting,
    contacts: u64,
}

impl Shards {
    async fn start() -> Self {
        let world = one_shard();
        world.list(SLICES, &[slice(&["a", "b"])]);
        world.list(&at("b", RULES), &[rule("c9", "r")]);
        for shard in ["a", "b"] {
            world.list(&at(shard, EXPORTS), &[]);
        }
        let mut setting = start(ControlPlane::Kcp, world).await;
        setting.until_rules(&["c1/r", "c2/r", "c9/r"]).await;
        for shard in ["a", "b"] {
            setting.world.watch(&at(shard, RULES)).await;
        }
        Self { setting, contacts: 0 }
    }

    /// Advances the clock by ten seconds, and has a contact with `b`.
    async fn bookmark(&mut self) {
        pass(10).await;
        self.contacts += 1;
        let name = format!("contact-{}", self.contacts);
        // Sends an event in place of a bookmark, because the event's arrival is visible to the test.
        self.setting.world.tell(&at("b", RULES), "ADDED", &rule("c9", &name)).await;
        let arrived = |state: &Snapshot| rules(state).contains(&format!("c9/{name}"));
        self.setting.until("contact with b", arrived).await;
    }

    fn lists(&self, shard: &str) -> usize {
        lists(&self.setting.server, shard)
    }
}

#[tokio::test]
async fn a_watch_that_says_nothing_is_begun_anew_with_a_list_and_the_others_go_on() {
    let mut shards = Shards::start().await;
    shards.setting.world.list(&at("a", RULES), &[rule("c1", "r"), rule("c3", "r")]);
    for _ in 0..3 {
        shards.bookmark().await;
    }
    assert_eq!((shards.lists("a"), shards.lists("b")), (1, 1));
    let age = shards.setting.reflector.watches().ages()["dependencyrules"];
    assert!(age >= Duration::from_secs(30), "{age:?}");
    shards.bookmark().await;
    let seen = |state: &Snapshot| rules(state).contains(&"c3/r".to_owned());
    let state = shards.setting.until("the rule that was not told of", seen).await;
    assert!(state.is_loaded() && !rules(&state).contains(&"c2/r".to_owned()));
    assert_eq!((shards.lists("a"), shards.lists("b")), (2, 1));
    let age = shards.setting.reflector.watches().ages()["dependencyrules"];
    assert!(age < Duration::from_secs(30), "{age:?}");
}

#[tokio::test]
async fn a_bookmark_is_a_contact_with_its_watch() {
    let mut setting = start(ControlPlane::Kcp, one_shard()).await;
    setting.until_rules(&["c1/r", "c2/r"]).await;
    setting.world.watch(&at("a", RULES)).await;
    pass(20).await;
    let object = json!({"kind": "DependencyRule", "apiVersion": "v1", "metadata": {"resourceVersion": "8"}});
    setting.world.tell(&at("a", RULES), "BOOKMARK", &object).await;
    while setting.reflector.watches().ages()["dependencyrules"] >= Duration::from_secs(20) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(lists(&setting.server, "a"), 1);
}

#[tokio::test]
async fn an_endpoint_that_fails_is_told_of_since_its_last_contact_and_the_others_are_followed() {
    let mut shards = Shards::start().await;
    let later = json!({"kind": "Status", "reason": "ServiceUnavailable", "message": "later", "code": 503});
    shards.setting.world.respond(&at("a", RULES), 503, later);
    for _ in 0..4 {
        shards.bookmark().await;
    }
    let failing = |state: &Snapshot| state.failing().is_some_and(|failure| failure.why.contains("503"));
    let state = shards.setting.until("failing", failing).await;
    assert!(state.is_loaded(), "what was loaded stays");
    let stalest = state.stalest().unwrap();
    let silent = tokio::time::Instant::now().into_std() - stalest.since;
    assert!(silent >= Duration::from_secs(40) && stalest.why.contains("503 ServiceUnavailable: later"), "{stalest:?}");
    assert_eq!(state.failing().unwrap().since, stalest.since);
    // `b` has been followed all the time.
    assert!(rules(&state).contains(&"c9/contact-4".to_owned()));
}
