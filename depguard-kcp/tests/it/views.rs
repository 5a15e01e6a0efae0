//! Tests of finding a consumer at an export's virtual workspaces, against scripted servers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use depguard_core::{ControlPlane, ExportName, LogicalCluster};
use depguard_kcp::{ConnectOptions, Connection, ShardHosts, VirtualWorkspaces};
use futures::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use crate::server::{Answer, Asked, Scripted};

const OURS: &str = "dependencies.opendefense.cloud";

/// Front-proxy that shows slices: depguard's own in its workspace, and those of a provider.
struct Front {
    scripted: Scripted,
    own: Arc<Mutex<Vec<String>>>,
    provider: Arc<Mutex<Vec<String>>>,
    fails: Arc<AtomicBool>,
    _folder: TempDir,
    connection: Connection,
}

impl Front {
    async fn start() -> Self {
        let (own, provider) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (ours, theirs) = (Arc::clone(&own), Arc::clone(&provider));
        let fails = Arc::new(AtomicBool::new(false));
        let failing = Arc::clone(&fails);
        let scripted = Scripted::start(move |asked: &Asked| {
            if failing.load(Ordering::Relaxed) {
                return Answer::Json(503, "{}".to_owned());
            }
            let slices = if asked.target.starts_with("/clusters/root:dep-ctrl/") {
                slice(OURS, &ours.lock().unwrap())
            } else {
                slice("e", &theirs.lock().unwrap())
            };
            Answer::Json(200, json!({"metadata": {"resourceVersion": "1"}, "items": [slices]}).to_string())
        })
        .await;
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: '{}/clusters/root:dep-ctrl'}}}}]\n\
             users: [{{name: u, user: {{token: secret}}}}]\n",
            scripted.url
        );
        std::fs::write(&file, text).unwrap();
        let options = ConnectOptions::new(ControlPlane::Kcp).kubeconfig(file);
        let connection = Connection::open(&options).await.unwrap();
        Self { scripted, own, provider, fails, _folder: folder, connection }
    }

    fn views(&self, named: &[&str]) -> VirtualWorkspaces {
        let export = ExportName::parse(OURS).unwrap();
        let named = named.iter().map(|&host| host.to_owned()).collect();
        VirtualWorkspaces::new(self.connection.clone(), ShardHosts::new(self.connection.clone(), &export, named))
    }

    /// Makes the front-proxy fail, or work again.
    fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::Relaxed);
    }

    /// Returns the number of reads of the provider's slices.
    fn reads(&self) -> usize {
        self.scripted.asked().iter().filter(|asked| asked.target.starts_with("/clusters/p1/")).count()
    }
}

fn slice(export: &str, urls: &[String]) -> Value {
    let endpoints: Vec<Value> = urls.iter().map(|url| json!({"url": url})).collect();
    json!({
        "metadata": {"name": export, "uid": export},
        "spec": {"export": {"name": export, "path": "root:dep-ctrl"}}, "status": {"endpoints": endpoints},
    })
}

fn cluster(id: &str) -> LogicalCluster {
    LogicalCluster::parse(id).unwrap()
}

fn export() -> (LogicalCluster, ExportName) {
    (cluster("p1"), ExportName::parse("e").unwrap())
}

/// Starts a shard that shows one consumer.
async fn shard(shows: &'static str) -> Scripted {
    Scripted::start(move |asked| {
        let status = if asked.target.contains(&format!("/clusters/{shows}/")) { 200 } else { 403 };
        Answer::Json(status, "{}".to_owned())
    })
    .await
}

fn endpoint(shard: &Scripted) -> String {
    format!("{}/services/apiexport/p1/e", shard.url)
}

/// Writes a foreign URL into a provider's slices, as any administrator of the provider's workspace can.
#[tokio::test]
async fn credentials_go_to_no_host_that_only_a_provider_names() {
    let (front, stranger) = (Front::start().await, shard("c1").await);
    let elsewhere = stranger.url.replace("127.0.0.1", "localhost");
    *front.provider.lock().unwrap() = vec![format!("{elsewhere}/services/apiexport/p1/e")];
    let refused = front.views(&[]).find(&export(), &cluster("c1")).await.unwrap_err().to_string();
    assert!(refused.contains("`localhost`") && refused.contains("--shard-hosts"), "{refused}");
    assert!(stranger.asked().is_empty(), "it was asked");

    assert!(front.views(&["localhost"]).find(&export(), &cluster("c1")).await.is_ok(), "the operator names it");
    *front.own.lock().unwrap() = vec![format!("{elsewhere}/services/apiexport/0/{OURS}")];
    assert!(front.views(&[]).find(&export(), &cluster("c1")).await.is_ok(), "depguard's own slice names it");
}

/// Adds an endpoint on an untrusted host. This happens when the first consumer on a new shard makes kcp list that shard
/// in the slices.
#[tokio::test]
async fn an_endpoint_that_is_not_trusted_keeps_nobody_from_the_others() {
    let (front, one, two, new) = (Front::start().await, shard("c1").await, shard("c2").await, shard("c3").await);
    let untrusted = format!("{}/services/apiexport/p1/e", new.url.replace("127.0.0.1", "localhost"));
    for trusted in [vec![endpoint(&one)], vec![endpoint(&one), endpoint(&two)]] {
        *front.provider.lock().unwrap() =
            [trusted, vec![untrusted.clone(), "https://[/services/apiexport/p1/e".to_owned()]].concat();
        let views = front.views(&[]);
        let view = views.find(&export(), &cluster("c1")).await.unwrap();
        assert_eq!(view.endpoint.url(), format!("{}/clusters/c1", endpoint(&one)));
        let refused = match views.find(&export(), &cluster("c3")).await {
            Ok(only) => views.find_anew(&export(), &cluster("c3"), &only).await.unwrap_err().to_string(),
            Err(why) => why.to_string(),
        };
        assert!(refused.contains("is at `localhost`") && refused.contains("--shard-hosts"), "{refused}");
    }
    assert!(new.asked().is_empty(), "it was asked");
}

/// Lets reads of the slices fail, as when a provider's shard is down. The shards of the provider's consumers must stay
/// known.
#[tokio::test]
async fn endpoints_stay_known_while_their_slices_can_t_be_read() {
    let (front, one, two) = (Front::start().await, shard("c1").await, shard("c2").await);
    *front.provider.lock().unwrap() = vec![endpoint(&one), endpoint(&two)];
    let views = front.views(&[]);
    let known = views.find(&export(), &cluster("c1")).await.unwrap();
    front.fail(true);
    // This holds for a consumer that is looked up anew, and for one that is looked up for the first time.
    assert!(views.find_anew(&export(), &cluster("c1"), &known).await.is_ok());
    assert!(views.find(&export(), &cluster("c2")).await.is_ok());
    let error = views.find(&export(), &cluster("c3")).await.unwrap_err().to_string();
    assert!(error.starts_with("the endpoints of APIExport e in logical cluster p1 can't be read: "), "{error}");
    // The slices are read again when the endpoints grow old, and no lookup waits for that.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(40)).await;
    tokio::time::resume();
    assert!(views.find(&export(), &cluster("c1")).await.is_ok());
    front.fail(false);
    front.provider.lock().unwrap().pop();
    let found = async {
        while !views.find(&export(), &cluster("c2")).await.is_ok_and(|view| view.endpoint.url().contains(&one.url)) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(20), found).await.expect("the slices were not read again");
}

#[tokio::test]
async fn the_virtual_workspace_of_another_export_is_not_this_one_s() {
    let (front, other) = (Front::start().await, shard("c1").await);
    for path in ["/services/apiexport/p2/e", "/services/apiexport/p1/f", "/services/apiexport/p1/e/x", "/", ""] {
        *front.provider.lock().unwrap() = vec![format!("{}{path}", other.url)];
        let error = front.views(&[]).find(&export(), &cluster("c1")).await.unwrap_err().to_string();
        assert!(error.contains("name no endpoint yet"), "{path}: {error}");
    }
    assert!(other.asked().is_empty());
}

/// Lets the slices name an endpoint only once somebody has bound the export. The endpoint must be found at once, and
/// not only when cached endpoints grow old.
#[tokio::test]
async fn slices_that_name_nothing_yet_are_soon_read_again() {
    let (front, shard) = (Front::start().await, shard("c1").await);
    let views = front.views(&[]);
    let error = views.find(&export(), &cluster("c1")).await.unwrap_err().to_string();
    assert!(error.contains("name no endpoint yet"), "{error}");
    *front.provider.lock().unwrap() = vec![endpoint(&shard)];
    let found = async {
        while views.find(&export(), &cluster("c1")).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(20), found)
        .await
        .expect("they were not read again in the time that they are taken for");
}

#[tokio::test]
async fn a_consumer_is_looked_for_at_each_endpoint_once() {
    let (front, one, two) = (Front::start().await, shard("c1").await, shard("c2").await);
    *front.provider.lock().unwrap() = vec![endpoint(&one), endpoint(&two)];
    let views = front.views(&[]);
    for (consumer, shard) in [("c1", &one), ("c2", &two), ("c1", &one)] {
        let view = views.find(&export(), &cluster(consumer)).await.unwrap();
        assert_eq!(view.endpoint.url(), format!("{}/clusters/{consumer}", endpoint(shard)));
    }
    assert_eq!(front.reads(), 1);
    // Each shard was asked for its own consumer, and perhaps for the other one.
    assert!(one.asked().len() <= 2 && two.asked().len() <= 2, "{:?} {:?}", one.asked(), two.asked());
    let error = views.find(&export(), &cluster("c3")).await.unwrap_err().to_string();
    assert!(error.starts_with("HTTP 403 at each endpoint of APIExport e"), "{error}");
}

#[tokio::test]
async fn what_failed_is_looked_for_by_what_the_slices_say_now() {
    let (front, one, two) = (Front::start().await, shard("c1").await, shard("c2").await);
    *front.provider.lock().unwrap() = vec![endpoint(&one)];
    let views = front.views(&[]);
    let only = views.find(&export(), &cluster("c2")).await.unwrap();
    assert!(only.endpoint.url().starts_with(&one.url), "the only one there is");
    let error = views.find_anew(&export(), &cluster("c2"), &only).await.unwrap_err().to_string();
    assert!(error.starts_with("HTTP 403 at each endpoint"), "{error}");
    front.provider.lock().unwrap().push(endpoint(&two));
    let found = views.find_anew(&export(), &cluster("c2"), &only).await;
    // The slices were read after the failure, so that reading counts as their present content.
    assert!(found.is_err());
    let only = views.find(&export(), &cluster("c2")).await.unwrap();
    let found = views.find_anew(&export(), &cluster("c2"), &only).await.unwrap();
    assert!(found.endpoint.url().starts_with(&two.url));
}

#[tokio::test]
async fn an_endpoint_that_can_t_be_asked_may_be_the_one() {
    let (front, one, two) = (Front::start().await, shard("c1").await, shard("c2").await);
    *front.provider.lock().unwrap() = vec![endpoint(&one), endpoint(&two)];
    drop(two);
    let views = front.views(&[]);
    assert!(views.find(&export(), &cluster("c1")).await.is_ok());
    let error = views.find(&export(), &cluster("c2")).await.unwrap_err().to_string();
    assert!(error.starts_with("an endpoint of APIExport e that may serve c2 does not answer: "), "{error}");
}

/// Adds a shard that accepts connections and never answers. It must not use up the time of a deletion.
#[tokio::test]
async fn a_shard_that_says_nothing_is_not_waited_for() {
    let (front, one) = (Front::start().await, shard("c1").await);
    let silent = Scripted::start(|_| Answer::Silence).await;
    *front.provider.lock().unwrap() = vec![endpoint(&one), endpoint(&silent)];
    // A busy machine may be slow now and then, so one quick lookup suffices. A lookup that waits for the silent shard
    // is never quick.
    let mut soon = false;
    for _ in 0..20 {
        let begun = std::time::Instant::now();
        assert!(front.views(&[]).find(&export(), &cluster("c1")).await.is_ok());
        soon |= begun.elapsed().as_secs() < 2;
        if soon {
            break;
        }
    }
    assert!(soon, "the silent one is waited for");
    let views = front.views(&[]);
    let error = views.find(&export(), &cluster("c2")).await.unwrap_err().to_string();
    assert!(
        error.contains("that may serve c2 does not answer: ") && error.contains("had no answer within 2 s"),
        "{error}"
    );
}

#[tokio::test]
async fn those_who_ask_at_once_read_the_slices_once() {
    let (front, one) = (Front::start().await, shard("c1").await);
    *front.provider.lock().unwrap() = vec![endpoint(&one)];
    let views = front.views(&[]);
    let (export, consumer) = (export(), cluster("c1"));
    let found = join_all((0..50).map(|_| views.find(&export, &consumer))).await;
    assert!(found.iter().all(Result::is_ok));
    assert_eq!(front.reads(), 1);
}
