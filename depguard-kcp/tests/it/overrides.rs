//! Values that replace a kubeconfig's, a time limit for all requests, and the log of requests.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use depguard_core::ControlPlane;
use depguard_kcp::{
    ConnectError, ConnectOptions, Connection, Impersonation, KubeconfigOverrides, RequestError, RequestLog,
};
use tempfile::TempDir;

use crate::server::{Answer, Asked, Scripted};

/// Writes a kubeconfig with two clusters and two users, whose context names the first of each.
fn kubeconfig(folder: &TempDir, context: &str, servers: [&str; 2]) -> PathBuf {
    let file = folder.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: {context}\n\
         contexts: [{{name: c, context: {{cluster: a, user: a, namespace: shop}}}}]\n\
         clusters: [{{name: a, cluster: {{server: '{}', tls-server-name: a}}}}, {{name: b, cluster: {{server: '{}'}}}}]\n\
         users: [{{name: a, user: {{token: of-a, as: robot, as-groups: [robots]}}}}, {{name: b, user: {{token: of-b}}}}]\n",
        servers[0], servers[1]
    );
    std::fs::write(&file, text).unwrap();
    file
}

fn overrides(change: impl FnOnce(&mut KubeconfigOverrides)) -> KubeconfigOverrides {
    let mut overrides = KubeconfigOverrides::default();
    change(&mut overrides);
    overrides
}

fn ann() -> Impersonation {
    let mut ann = Impersonation::new("ann");
    (ann.groups, ann.uid) = (vec!["dev".to_owned(), "ops".to_owned()], Some("7".to_owned()));
    ann
}

async fn scripted() -> Scripted {
    Scripted::start(|_| Answer::Json(200, "{}".to_owned())).await
}

/// Sends one request with these options to whichever of the servers they mean.
async fn asked(options: &ConnectOptions, servers: &[&Scripted]) -> (usize, Asked) {
    let connection = Connection::open(options).await.unwrap();
    connection.own_endpoint().get("/apis").await.unwrap();
    let asked = servers.iter().enumerate().find_map(|(index, server)| Some((index, server.asked().pop()?)));
    asked.expect("one of the servers was asked")
}

#[tokio::test]
async fn a_value_replaces_the_kubeconfigs_and_leaves_the_others() {
    for (change, server, token, user, uid) in [
        (overrides(|_| ()), 0, "Bearer of-a", Some("robot"), None),
        (overrides(|o| o.cluster = Some("b".to_owned())), 1, "Bearer of-a", Some("robot"), None),
        (overrides(|o| o.user = Some("b".to_owned())), 0, "Bearer of-b", None, None),
        (overrides(|o| o.token = Some("given".to_owned())), 0, "Bearer given", Some("robot"), None),
        (overrides(|o| o.impersonate = Some(ann())), 0, "Bearer of-a", Some("ann"), Some("7")),
    ] {
        let (a, b, folder) = (scripted().await, scripted().await, TempDir::new().unwrap());
        let file = kubeconfig(&folder, "c", [&a.url, &b.url]);
        let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(file).overrides(change.clone());
        let (index, request) = asked(&options, &[&a, &b]).await;
        assert_eq!((index, request.header("authorization")), (server, Some(token)), "{change:?}");
        assert_eq!(request.header("impersonate-user"), user, "{change:?}");
        assert_eq!(request.header("impersonate-uid"), uid, "{change:?}");
        let groups = request.headers("impersonate-group");
        assert_eq!(
            groups,
            if uid.is_some() {
                vec!["dev", "ops"]
            } else if user.is_some() {
                vec!["robots"]
            } else {
                vec![]
            }
        );
    }
}

#[tokio::test]
async fn a_server_replaces_the_kubeconfigs_and_needs_no_context() {
    let (a, b, folder) = (scripted().await, scripted().await, TempDir::new().unwrap());
    let server = overrides(|o| o.server = Some(b.url.clone()));
    for context in ["c", "''"] {
        let file = kubeconfig(&folder, context, [&a.url, &a.url]);
        let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(file).overrides(server.clone());
        assert_eq!(asked(&options, &[&a, &b]).await.0, 1, "{context}");
    }
    // No context is current: the cluster and the user that are named make one.
    let file = kubeconfig(&folder, "''", ["http://127.0.0.1:1", &b.url]);
    let both = overrides(|o| (o.cluster, o.user) = (Some("b".to_owned()), Some("b".to_owned())));
    let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(file.clone()).overrides(both);
    assert_eq!(asked(&options, &[&a, &b]).await.1.header("authorization"), Some("Bearer of-b"));

    let wrong = overrides(|o| o.server = Some("example.com:6443".to_owned()));
    let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(file).overrides(wrong);
    let why = Connection::open(&options).await.unwrap_err();
    assert!(matches!(why, ConnectError::Server(_)), "{why}");
}

#[test]
fn a_token_is_never_printed() {
    let secret = overrides(|o| o.token = Some("hidden".to_owned()));
    assert!(!format!("{:?}", ConnectOptions::new(ControlPlane::Kcp).overrides(secret)).contains("hidden"));
}

#[tokio::test]
async fn a_time_limit_holds_for_every_endpoint_and_the_shortest_counts() {
    let (silent, folder) = (Scripted::start(|_| Answer::Silence).await, TempDir::new().unwrap());
    let file = kubeconfig(&folder, "c", [&silent.url, &silent.url]);
    let short = Duration::from_millis(50);
    let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(file).request_timeout(short);
    let connection = Connection::open(&options).await.unwrap();
    let endpoints = [
        connection.own_endpoint(),
        connection.workspace(&"root:a".parse().unwrap()),
        connection.at(&silent.url).unwrap(),
        connection.own_endpoint().within(Duration::from_secs(600)),
    ];
    for endpoint in endpoints {
        let why = endpoint.get("/apis").await.unwrap_err();
        assert!(matches!(why, RequestError::TimedOut { after, .. } if after == short), "{why}");
    }
}

#[tokio::test]
async fn each_request_is_logged_with_its_response_and_without_credentials() {
    let (server, folder) = (Scripted::start(|_| Answer::Json(403, "{}".to_owned())).await, TempDir::new().unwrap());
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = RequestLog::new({
        let lines = lines.clone();
        move |sent| lines.lock().unwrap().push(format!("{sent:?}"))
    });
    for url in [server.url.as_str(), "http://127.0.0.1:1"] {
        let file = kubeconfig(&folder, "c", [url, url]);
        let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(file).request_log(log.clone());
        let _ = Connection::open(&options).await.unwrap().own_endpoint().get("/apis?limit=5").await;
    }
    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains(&format!("{}/apis?limit=5", server.url)) && lines[0].contains("Ok((403"), "{lines:?}");
    assert!(lines[1].contains("127.0.0.1:1") && lines[1].contains("Err("), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("of-a") && !line.contains("robot")), "{lines:?}");
}
