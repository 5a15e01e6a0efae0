//! Tests of the connection, its endpoints and the JSON methods against a scripted server.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::server::{Answer, Asked, Scripted};
use depguard_core::{ControlPlane, LogicalCluster, WorkspacePath};
use depguard_kcp::{
    ApiError, ConnectError, ConnectOptions, Connection, MAX_BODY, Preconditions, RequestError, UrlError,
    WorkspaceLookup,
};
use serde_json::json;
use tempfile::TempDir;

const FORBIDDEN: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden",
    "message":"vpcs is forbidden: no","details":{"name":"a"},"code":403}"#;

const ITSELF: &str = r#"{"metadata":{"annotations":{"kcp.io/cluster":"4x5","kcp.io/path":"root:lie"}},
    "status":{"phase":"Ready"}}"#;

fn ok(body: &str) -> Answer {
    Answer::Json(200, body.to_owned())
}

fn kubeconfig(dir: &Path, server: &str, user: &str) -> PathBuf {
    let file = dir.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: u, user: {user}}}]\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

fn options(kubeconfig: PathBuf, control_plane: ControlPlane) -> ConnectOptions {
    ConnectOptions::new(control_plane).kubeconfig(kubeconfig)
}

async fn open(server: &str, user: &str) -> (Connection, TempDir) {
    let dir = TempDir::new().unwrap();
    let connection =
        Connection::open(&options(kubeconfig(dir.path(), server, user), ControlPlane::Kubernetes)).await.unwrap();
    (connection, dir)
}

#[tokio::test]
async fn a_path_is_asked_for_under_each_endpoint_with_the_credentials_of_the_kubeconfig() {
    let scripted = Scripted::start(|_| ok("{}")).await;
    let (connection, _dir) = open(&format!("{}/clusters/root:dep-ctrl", scripted.url), "{token: secret}").await;
    assert_eq!(connection.own_workspace(), Some("root:dep-ctrl"));

    let cluster = connection.cluster(&LogicalCluster::parse("2x3").unwrap());
    let workspace = connection.workspace(&WorkspacePath::parse("root:providers:network").unwrap());
    let wildcard = connection.at(&format!("{}/services/apiexport/2x3/e/", scripted.url)).unwrap().join("/clusters/*");
    for endpoint in [connection.own_endpoint(), cluster, workspace, wildcard] {
        endpoint.get("/apis/a.b/v1/vpcs?limit=500&continue=a%2Fb").await.unwrap();
    }

    let targets: Vec<_> = scripted.asked().iter().map(|asked| asked.target.clone()).collect();
    assert_eq!(
        targets,
        [
            "/clusters/root:dep-ctrl/apis/a.b/v1/vpcs?limit=500&continue=a%2Fb",
            "/clusters/2x3/apis/a.b/v1/vpcs?limit=500&continue=a%2Fb",
            "/clusters/root:providers:network/apis/a.b/v1/vpcs?limit=500&continue=a%2Fb",
            "/services/apiexport/2x3/e/clusters/*/apis/a.b/v1/vpcs?limit=500&continue=a%2Fb",
        ]
    );
    for asked in scripted.asked() {
        assert_eq!(asked.header("authorization"), Some("Bearer secret"));
        assert!(asked.header("user-agent").unwrap().starts_with("depguard/"), "{asked:?}");
    }
}

#[tokio::test]
async fn a_status_of_any_kind_is_a_response_to_get() {
    let scripted = Scripted::start(|_| Answer::Json(403, FORBIDDEN.to_owned())).await;
    let (connection, _dir) = open(&scripted.url, "{}").await;
    let response = connection.own_endpoint().get("/apis").await.unwrap();
    assert_eq!(response.status(), 403);
    assert_eq!(response.body(), FORBIDDEN);
}

#[tokio::test]
async fn a_token_file_and_an_exec_plugin_give_the_token() {
    let scripted = Scripted::start(|_| ok("{}")).await;

    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("token"), "from-file").unwrap();
    let file = kubeconfig(dir.path(), &scripted.url, "{tokenFile: token}");
    let connection = Connection::open(&options(file, ControlPlane::Kubernetes)).await.unwrap();
    connection.own_endpoint().get("/apis").await.unwrap();

    // Each run of the plugin gives another token, which has expired already. So the plugin runs for each request.
    let plugin = dir.path().join("plugin");
    std::fs::write(
        &plugin,
        "#!/bin/sh\ncd \"$(dirname \"$0\")\" && echo x >> runs\n\
         echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\
         \"status\":{\"token\":\"run-'$(wc -l < runs)'\",\"expirationTimestamp\":\"2020-01-01T00:00:00Z\"}}'\n",
    )
    .unwrap();
    std::fs::set_permissions(&plugin, PermissionsExt::from_mode(0o700)).unwrap();
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, interactiveMode: Never}}";
    let file = kubeconfig(dir.path(), &scripted.url, exec);
    let connection = Connection::open(&options(file, ControlPlane::Kubernetes)).await.unwrap();
    connection.own_endpoint().get("/apis").await.unwrap();
    connection.at(&scripted.url).unwrap().get("/apis").await.unwrap();

    let asked = scripted.asked();
    assert_eq!(asked[0].header("authorization"), Some("Bearer from-file"));
    let runs: Vec<usize> = asked[1..]
        .iter()
        .map(|asked| asked.header("authorization").unwrap().strip_prefix("Bearer run-").unwrap().parse().unwrap())
        .collect();
    assert!(runs[0] < runs[1], "{runs:?}");
}

#[tokio::test]
async fn a_failed_exec_plugin_is_an_error_that_names_it() {
    let dir = TempDir::new().unwrap();
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./gone, interactiveMode: Never}}";
    let file = kubeconfig(dir.path(), "http://127.0.0.1:1", exec);
    let error = Connection::open(&options(file, ControlPlane::Kubernetes)).await.unwrap_err();
    assert!(error.to_string().contains("exec"), "{error}");
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_work_is_refused_with_what_to_do() {
    let dir = TempDir::new().unwrap();
    let missing = Connection::open(&options(dir.path().join("nowhere"), ControlPlane::Kcp)).await.unwrap_err();
    assert!(missing.to_string().contains("nowhere"), "{missing}");

    let file = kubeconfig(dir.path(), "https://kcp:6443", "{}");
    let unplaced = Connection::open(&options(file.clone(), ControlPlane::Kcp)).await.unwrap_err();
    assert!(unplaced.to_string().contains("must end in `/clusters/"), "{unplaced}");
    assert!(Connection::open(&options(file, ControlPlane::Kubernetes)).await.is_ok());

    let proxied = kubeconfig(dir.path(), "https://kcp', proxy-url: 'http://proxy", "{}");
    let error = Connection::open(&options(proxied, ControlPlane::Kubernetes)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Proxy(_)), "{error}");
}

#[tokio::test]
async fn credentials_for_an_encrypted_server_are_not_sent_in_the_clear() {
    let (connection, _dir) = open("https://kcp:6443", "{token: secret}").await;
    let error = connection.at("http://kcp:6443/services/apiexport/a/b").unwrap_err();
    assert!(matches!(error, ConnectError::Url(UrlError::Downgrade { .. })), "{error}");
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_too_large() {
    let scripted = Scripted::start(|_| Answer::Big(MAX_BODY + 1)).await;
    let (connection, _dir) = open(&scripted.url, "{}").await;
    let error = connection.own_endpoint().get("/apis/a?b").await.unwrap_err();
    assert!(matches!(error, RequestError::TooLarge { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "the answer to `GET /apis/a` is larger than 64 MiB, or than the memory left for answers"
    );
}

#[tokio::test]
async fn a_body_that_ends_with_the_connection_is_no_answer() {
    let list = r#"{"metadata":{"resourceVersion":"1"},"items":[]}"#;
    let scripted = Scripted::start(move |_| Answer::Unframed(list.to_owned())).await;
    let (connection, _dir) = open(&scripted.url, "{}").await;
    let error = connection.own_endpoint().get("/apis").await.unwrap_err().to_string();
    assert!(error.contains("the answer has no length"), "{error}");
}

#[tokio::test]
async fn a_silent_server_is_given_up_after_the_given_time() {
    let scripted = Scripted::start(|_| Answer::Silence).await;
    let (connection, _dir) = open(&scripted.url, "{}").await;
    let error = connection.own_endpoint().within(Duration::from_millis(50)).get("/apis").await.unwrap_err();
    assert!(matches!(error, RequestError::TimedOut { .. }), "{error}");
}

#[tokio::test]
async fn a_cut_connection_is_an_error_that_says_where() {
    let scripted = Scripted::start(|_| Answer::Cut).await;
    let (connection, _dir) = open(&format!("{}/clusters/root", scripted.url), "{}").await;
    let error = connection.own_endpoint().get("/apis").await.unwrap_err().to_string();
    let expected = format!("`GET /clusters/root/apis` at {} failed: ", scripted.url);
    assert!(error.starts_with(&expected), "{error}");

    let (connection, _dir) = open("http://127.0.0.1:1", "{}").await;
    let error = connection.own_endpoint().get("/apis").await.unwrap_err().to_string();
    assert!(error.contains("refused"), "{error}");
}

#[tokio::test]
async fn a_read_whose_connection_was_just_closed_is_sent_once_more_and_a_write_never() {
    // The server answers the first request of each connection, and closes the connection when it is used again.
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let scripted = Scripted::start(move |_| match asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) % 2 {
        0 => ok("{}"),
        _ => Answer::Cut,
    })
    .await;
    let (connection, _dir) = open(&scripted.url, "{}").await;
    let own = connection.own_endpoint();
    own.get_json("/first").await.unwrap();
    own.get_json("/second").await.unwrap();
    let asked: Vec<_> = scripted.asked().into_iter().map(|asked| asked.target).collect();
    assert_eq!(asked, ["/first", "/second", "/second"]);
    for write in [
        own.post_json("/third", &json!({})).await.map(drop),
        own.put_json("/third", &json!({})).await.map(drop),
        own.delete("/third", Preconditions::default()).await.map(drop),
    ] {
        // Every second write is cut.
        if let Err(error) = write {
            assert!(error.to_string().contains("failed: "), "{error}");
        }
    }
    assert_eq!(scripted.asked().len(), 6, "each write was sent once");
}

#[tokio::test]
async fn what_is_no_path_is_never_sent() {
    let scripted = Scripted::start(|_| ok("{}")).await;
    let (connection, _dir) = open(&scripted.url, "{}").await;
    for path in ["apis", "", "//evil.example.com/apis#", "/apis?fieldSelector=a#b", "http://evil.example.com/"] {
        assert!(matches!(connection.own_endpoint().get(path).await, Err(RequestError::Path { .. })), "{path}");
    }
    assert!(scripted.asked().is_empty());
}

#[tokio::test]
async fn a_refusal_carries_what_the_server_said_and_what_was_asked() {
    let scripted = Scripted::start(|_| Answer::Json(403, FORBIDDEN.to_owned())).await;
    let (connection, _dir) = open(&format!("{}/clusters/root", scripted.url), "{}").await;
    let error = connection.own_endpoint().get_json("/apis/a/v1/vpcs/a?x=y").await.unwrap_err();
    assert_eq!((error.status(), error.reason()), (Some(403), "Forbidden"));
    assert_eq!(
        error.to_string(),
        "`GET /clusters/root/apis/a/v1/vpcs/a` was refused: 403 Forbidden: vpcs is forbidden: no"
    );

    let scripted = Scripted::start(|_| Answer::Json(502, "bad gateway\n".to_owned())).await;
    let (connection, _dir) = open(&scripted.url, "{}").await;
    let error = connection.own_endpoint().get_json("/apis").await.unwrap_err();
    assert_eq!(error.to_string(), "`GET /apis` was refused: 502 Bad Gateway: bad gateway");
}

#[tokio::test]
async fn writes_say_what_they_write() {
    let scripted = Scripted::start(|_| ok(r#"{"done":true}"#)).await;
    let (connection, _dir) = open(&scripted.url, "{}").await;
    let own = connection.own_endpoint();
    let object = json!({"kind": "X"});
    own.post_json("/xs", &object).await.unwrap();
    own.put_json("/xs/a", &object).await.unwrap();
    assert_eq!(own.apply("/xs/a", &object, "dep guard", true).await.unwrap(), json!({"done": true}));
    own.delete("/xs/a", Preconditions::default()).await.unwrap();
    own.delete("/xs/a", Preconditions { uid: Some("u"), resource_version: Some("7") }).await.unwrap();

    let asked = scripted.asked();
    let lines: Vec<_> = asked.iter().map(|Asked { method, target, .. }| format!("{method} {target}")).collect();
    assert_eq!(
        lines,
        ["POST /xs", "PUT /xs/a", "PATCH /xs/a?fieldManager=dep%20guard&force=true", "DELETE /xs/a", "DELETE /xs/a"]
    );
    assert_eq!(asked[0].header("content-type"), Some("application/json"));
    assert_eq!(asked[2].header("content-type"), Some("application/apply-patch+yaml"));
    assert_eq!(asked[2].body, object.to_string());
    let options: serde_json::Value = serde_json::from_str(&asked[4].body).unwrap();
    assert_eq!(options["preconditions"], json!({"uid": "u", "resourceVersion": "7"}));
    let options: serde_json::Value = serde_json::from_str(&asked[3].body).unwrap();
    assert_eq!(options.get("preconditions"), None);
}

fn page(names: &[&str], next: Option<&str>) -> Answer {
    let items: Vec<_> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
    let mut list = json!({"metadata": {"resourceVersion": "9"}, "items": items});
    if let Some(next) = next {
        list["metadata"]["continue"] = json!(next);
    }
    ok(&list.to_string())
}

#[tokio::test]
async fn a_list_ends_only_where_continue_is_absent() {
    let scripted = Scripted::start(|asked| match asked.target.as_str() {
        "/xs?labelSelector=a&limit=500" => page(&["a", "b"], Some("t/1")),
        "/xs?labelSelector=a&limit=500&continue=t%2F1" => page(&[], Some("t2")),
        "/xs?labelSelector=a&limit=500&continue=t2" => page(&["c"], None),
        other => Answer::Json(400, other.to_owned()),
    })
    .await;
    let (connection, _dir) = open(&scripted.url, "{}").await;
    let list = connection.own_endpoint().list_json("/xs?labelSelector=a").await.unwrap();
    let names: Vec<_> = list.items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(list.resource_version, "9");
}

#[tokio::test]
async fn a_list_begins_again_after_410_but_not_for_ever() {
    let expired = std::sync::atomic::AtomicUsize::new(0);
    let scripted = Scripted::start(move |asked| {
        if asked.target == "/xs?limit=500" {
            page(&["a"], Some("t"))
        } else if asked.target.starts_with("/xs") && expired.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 2 {
            Answer::Json(410, r#"{"reason":"Expired","message":"too old"}"#.to_owned())
        } else {
            page(&["b"], None)
        }
    })
    .await;
    let (connection, _dir) = open(&scripted.url, "{}").await;
    let list = connection.own_endpoint().list_json("/xs").await.unwrap();
    assert_eq!(list.items.len(), 2, "what the broken attempts gave is left out: {:?}", list.items);

    let scripted = Scripted::start(|_| Answer::Json(410, r#"{"reason":"Expired"}"#.to_owned())).await;
    let (connection, _dir) = open(&scripted.url, "{}").await;
    assert_eq!(connection.own_endpoint().list_json("/xs").await.unwrap_err().status(), Some(410));
    assert_eq!(scripted.asked().len(), 6);
}

#[tokio::test]
async fn a_list_that_expired_halfway_is_not_passed_on_twice() {
    let scripted = Scripted::start(|asked| match asked.target.as_str() {
        "/xs?limit=500" => page(&["a"], Some("t")),
        _ => Answer::Json(410, r#"{"reason":"Expired","message":"too old"}"#.to_owned()),
    })
    .await;
    let (connection, _dir) = open(&scripted.url, "{}").await;
    let mut passed = Vec::new();
    let error = connection.own_endpoint().list_pages("/xs", |page| passed.extend(page)).await.unwrap_err();
    assert_eq!((error.status(), passed.len(), scripted.asked().len()), (Some(410), 1, 2));
}

#[tokio::test]
async fn a_page_too_large_is_asked_for_with_fewer_objects() {
    let scripted = Scripted::start(|asked| match asked.target.as_str() {
        "/xs?limit=500" => Answer::Big(MAX_BODY + 1),
        "/xs?limit=62" => page(&["a"], Some("t")),
        "/xs?limit=124&continue=t" => page(&["b"], None),
        other => Answer::Json(400, other.to_owned()),
    })
    .await;
    let (connection, _dir) = open(&scripted.url, "{}").await;
    assert_eq!(connection.own_endpoint().list_json("/xs").await.unwrap().items.len(), 2);
}

#[tokio::test]
async fn a_list_that_never_ends_is_an_error_that_says_what_to_check() {
    let scripted = Scripted::start(|_| page(&["a"], Some("t"))).await;
    let (connection, _dir) = open(&scripted.url, "{}").await;
    let error = connection.own_endpoint().list_json("/xs").await.unwrap_err().to_string();
    assert_eq!(error, "`GET /xs` never ends: two pages have the same token; check which server answers there");
}

#[tokio::test]
async fn what_does_not_show_what_is_there_is_no_list() {
    for body in [
        r#"{"kind":"List","metadata":{},"items":[]}"#,
        r#"{"kind":"List","metadata":{"resourceVersion":""},"items":[]}"#,
        r#"{"kind":"List","items":[]}"#,
        r#"{"kind":"X","metadata":{"resourceVersion":"1"}}"#,
        r#"<html>"#,
        "",
    ] {
        let scripted = Scripted::start(move |_| ok(body)).await;
        let (connection, _dir) = open(&scripted.url, "{}").await;
        let error = connection.own_endpoint().list_json("/xs").await.unwrap_err();
        assert!(matches!(error, ApiError::Unusable { .. }), "{body}: {error}");
    }
    let scripted = Scripted::start(|_| ok(r#"{"metadata":{"resourceVersion":"1"},"items":null}"#)).await;
    let (connection, _dir) = open(&scripted.url, "{}").await;
    assert!(connection.own_endpoint().list_json("/xs").await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_workspace_is_looked_up_in_its_parent() {
    let missing = |name: &str| {
        let status = json!({"reason": "NotFound", "message": "no", "details": {"name": name, "kind": "workspaces"}});
        Answer::Json(404, status.to_string())
    };
    let workspaces = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
    let scripted = Scripted::start(move |asked| {
        match asked.target.strip_prefix("/clusters/").unwrap().replace(workspaces, "").as_str() {
            "root:providers/network" => ok(r#"{"spec":{"cluster":"2x3"},"status":{"phase":"Ready"}}"#),
            "root:providers/storage" => missing("storage"),
            "root:nowhere/network" => missing("root:nowhere"),
            "user/alice" => missing("alice"),
            "root:secret/network" | "root:closed/network" => Answer::Json(403, FORBIDDEN.to_owned()),
            "root:closed:network/apis/core.kcp.io/v1alpha1/logicalclusters/cluster" => ok(ITSELF),
            "root/apis/core.kcp.io/v1alpha1/logicalclusters/cluster" => ok(ITSELF),
            other => Answer::Json(404, format!("404 page not found: {other}")),
        }
    })
    .await;
    let (connection, _dir) = open(&format!("{}/clusters/root:dep-ctrl", scripted.url), "{}").await;
    let look_up = async |path| connection.look_up(&WorkspacePath::parse(path).unwrap()).await;

    let cluster = LogicalCluster::parse("2x3").unwrap();
    assert_eq!(look_up("root:providers:network").await, WorkspaceLookup::Found { cluster, phase: "Ready".to_owned() });
    assert_eq!(look_up("root:providers:storage").await, WorkspaceLookup::NotFound);
    assert_eq!(look_up("root:nowhere:network").await, WorkspaceLookup::NotFound);
    // Users who may not read the parent, or whose workspace has none, may still look inside the workspace.
    for path in ["root:closed:network", "root"] {
        let cluster = LogicalCluster::parse("4x5").unwrap();
        assert_eq!(look_up(path).await, WorkspaceLookup::Found { cluster, phase: "Ready".to_owned() }, "{path}");
    }
    for (path, part) in [
        ("root:secret:network", "403"),
        ("root:plain:network", "404 page"),
        ("user:alice", "404"),
        ("2x3", "no parent"),
    ] {
        let WorkspaceLookup::Unknown { why } = look_up(path).await else { panic!("{path}") };
        assert!(why.contains(part), "{path}: {why}");
    }
}
