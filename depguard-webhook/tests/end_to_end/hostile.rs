//! Hostile requests to a running webhook, over TLS: each gets a clear answer, and harms nobody else.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use depguard_core::ControlPlane;
use depguard_webhook::Webhook;
use http::{Method, Request};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::scene::{Scene, eventually};

/// Bound above any answer to a review with a short uid.
const MAX_ANSWERED: usize = 32 << 10;

pub(crate) type Body = BoxBody<Bytes, std::io::Error>;

/// Client that reaches the port.
pub(crate) struct Caller {
    address: SocketAddr,
    h1: TlsConnector,
    h2: TlsConnector,
}

impl Caller {
    pub(crate) fn new(webhook: &Webhook, certificates: &Path) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificates.join("tls.crt")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
        let speaking = |protocol: &[u8]| {
            let mut config = config.clone();
            config.alpn_protocols = vec![protocol.to_vec()];
            TlsConnector::from(Arc::new(config))
        };
        Self { address: webhook.review_addr(), h1: speaking(b"http/1.1"), h2: speaking(b"h2") }
    }

    async fn connect(&self, tls: &TlsConnector) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        tls.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.unwrap()
    }

    /// Sends a request by both protocols, and returns the status and the text of the answer, which must be the same.
    async fn sends(&self, request: impl Fn() -> Request<Body>) -> (u16, String) {
        let by_h1 = self.sends_by_h1(request()).await;
        let stream = TokioIo::new(self.connect(&self.h2).await);
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        let by_h2 = text(sender.send_request(request()).await.unwrap()).await;
        assert_eq!(by_h1, by_h2);
        by_h1
    }

    pub(crate) async fn sends_by_h1(&self, request: Request<Body>) -> (u16, String) {
        let stream = TokioIo::new(self.connect(&self.h1).await);
        let (mut sender, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        text(sender.send_request(request).await.unwrap()).await
    }

    /// Returns true if one answer allows the deletion of this object now.
    async fn may_go(&self, name: &str) -> bool {
        let (_, answer) = self.sends_by_h1(post("/validate", review(name).to_string().into())).await;
        response(&answer)["allowed"] == json!(true)
    }

    async fn posts(&self, review: impl Into<Bytes>) -> (u16, String) {
        let review = review.into();
        self.sends(|| post("/validate?timeout=10s", review.clone())).await
    }

    /// Checks that a free object still goes, and that a referenced one does not.
    async fn is_answered_rightly(&self) {
        for (name, allowed) in [("a", false), ("b", true)] {
            let (status, answer) = self.posts(review(name).to_string()).await;
            assert_eq!((status, response(&answer)["allowed"].clone()), (200, json!(allowed)), "{answer}");
        }
    }
}

async fn text(response: http::Response<hyper::body::Incoming>) -> (u16, String) {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

pub(crate) fn post(uri: &str, body: Bytes) -> Request<Body> {
    let request = Request::post(format!("https://127.0.0.1{uri}")).header("host", "127.0.0.1");
    let body = Full::new(body).map_err(|never| match never {}).boxed();
    request.header("content-type", "application/json").body(body).unwrap()
}

pub(crate) fn response(answer: &str) -> Value {
    serde_json::from_str::<Value>(answer).unwrap()["response"].clone()
}

pub(crate) fn review(name: &str) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": "DELETE", "name": name, "namespace": "default",
        "resource": {"group": "network.example.com", "version": "v1", "resource": "vpcs"},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "oldObject": {"metadata": {"name": name, "namespace": "default", "uid": "o-1", "labels": {"a": "b"},
            "annotations": {"kcp.io/cluster": "x"}}},
    }})
}

/// Returns the review of an allowed deletion with `old`, which must be in it, replaced by `new`.
fn edited(old: &str, new: &str) -> String {
    let review = review("b").to_string();
    assert!(review.contains(old), "{old} is not in {review}");
    review.replacen(old, new, 1)
}

async fn set_up() -> (Scene, Webhook, Caller) {
    let scene = Scene::set_up(ControlPlane::Kubernetes).await;
    scene.write_rule(".spec.vpcRef.name").await;
    scene.create_vm("m1", "a").await;
    let webhook = scene.start().await;
    let caller = Caller::new(&webhook, &scene.config.tls_cert_dir);
    (scene, webhook, caller)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_review_is_rejected_in_words() {
    let (_scene, webhook, caller) = set_up().await;
    caller.is_answered_rightly().await;
    let deep = "[".repeat(100_000);
    for (what, body) in [
        ("nothing", String::new()),
        ("null", "null".to_owned()),
        ("nesting", deep.clone()),
        ("nesting inside", edited(r#""oldObject":{"#, &format!(r#""oldObject":{{"metadata":{deep}"#))),
        ("missing uid", edited(r#","uid":"u-1""#, "")),
        ("a number for a uid", edited(r#""uid":"u-1""#, r#""uid":1"#)),
        ("null for a uid", edited(r#""uid":"u-1""#, r#""uid":null"#)),
        ("a list for the request", r#"{"request":[]}"#.to_owned()),
        ("an unknown operation", edited(r#""DELETE""#, r#""PURGE""#)),
        ("a long operation", edited("DELETE", &"D".repeat(1 << 20))),
        ("a long version", edited("admission.k8s.io/v1", &"v".repeat(1 << 20))),
        ("no operation", edited(r#""operation":"DELETE","#, "")),
        ("a string for the object", r#"{"request":{"uid":"u-1","operation":"DELETE","resource":{"group":"network.example.com","resource":"vpcs"},"oldObject":"b"}}"#.to_owned()),
        ("no metadata", r#"{"request":{"uid":"u-1","operation":"DELETE","resource":{"group":"network.example.com","resource":"vpcs"},"oldObject":{}}}"#.to_owned()),
        ("a number for a name", edited(r#""name":"b","namespace":"default","uid":"o-1""#, r#""name":1,"namespace":"default","uid":"o-1""#)),
        ("a list for labels", edited(r#""labels":{"a":"b"}"#, r#""labels":["a"]"#)),
        ("a string for groups", edited(r#"["system:authenticated"]"#, r#""system:masters""#)),
        ("another version", edited("admission.k8s.io/v1", "admission.k8s.io/v1beta1")),
        ("something behind it", format!("{} {{}}", review("b"))),
        // Each key that is read must be there once: otherwise two readers of the document may see two objects.
        ("two requests", edited(r#""request":{"#, r#""request":{"uid":"u-0"},"request":{"#)),
        ("two uids", edited(r#""uid":"u-1""#, r#""uid":"u-1","uid":"u-2""#)),
        ("two uids, one escaped", edited(r#""uid":"u-1""#, r#""uid":"u-1","\u0075id":"u-2""#)),
        ("two operations", edited(r#""operation":"DELETE""#, r#""operation":"DELETE","operation":"CREATE""#)),
        ("two objects", edited(r#""oldObject":"#, r#""oldObject":{"metadata":{"name":"a"}},"oldObject":"#)),
        ("two names", edited(r#""name":"b","namespace":"default","uid":"o-1""#, r#""name":"a","name":"b","namespace":"default","uid":"o-1""#)),
        ("two namespaces", edited(r#""namespace":"default","uid":"o-1""#, r#""namespace":"default","namespace":"other","uid":"o-1""#)),
        ("two clusters", edited(r#""kcp.io/cluster":"x""#, r#""kcp.io/cluster":"x","kcp.io/cluster":"y""#)),
        ("two labels", edited(r#""labels":{"a":"b"}"#, r#""labels":{"a":"b","a":"c"}"#)),
        ("two users", edited(r#""username":"alice""#, r#""username":"alice","username":"system:admin""#)),
        ("two resources", edited(r#""resource":"vpcs""#, r#""resource":"subnets","resource":"vpcs""#)),
    ] {
        let (status, sentence) = caller.posts(body).await;
        assert_eq!(status, 400, "{what}: {sentence}");
        assert!(sentence.len() > 20 && sentence.len() < 450, "{what}: {sentence}");
    }
    let invalid =
        edited(r#""name":"b","namespace":"default","uid":"o-1""#, r#""name":"~","namespace":"default","uid":"o-1""#);
    let invalid: Vec<u8> = invalid.bytes().map(|byte| if byte == b'~' { 0xff } else { byte }).collect();
    assert_eq!(caller.posts(invalid).await.0, 400, "invalid UTF-8");
    caller.is_answered_rightly().await;
    webhook.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_post_of_json_is_read() {
    let (_scene, webhook, caller) = set_up().await;
    let whole = Bytes::from(review("b").to_string());
    for (method, uri, content_type, status) in [
        (Method::POST, "/validate", "text/plain", 415),
        (Method::POST, "/validate", "application/x-www-form-urlencoded", 415),
        (Method::POST, "/validate", "application/jsonx", 415),
        (Method::GET, "/validate", "application/json", 405),
        (Method::DELETE, "/validate", "application/json", 405),
        (Method::POST, "/", "application/json", 404),
        (Method::POST, "/validate/../metrics", "application/json", 404),
        (Method::POST, "/healthz", "application/json", 404),
    ] {
        let (answered, sentence) = caller
            .sends(|| {
                let mut request = post(uri, whole.clone());
                *request.method_mut() = method.clone();
                request.headers_mut().insert("content-type", content_type.parse().unwrap());
                request
            })
            .await;
        assert_eq!(answered, status, "{method} {uri} {content_type}: {sentence}");
    }
    webhook.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_large_is_reviewed_within_bounds_or_refused() {
    let (_scene, webhook, caller) = set_up().await;
    let mib = "x".repeat(1 << 20);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (what, body, allowed) in [
        ("a field", edited(r#""oldObject":{"#, &format!(r#""oldObject":{{"spec":{{"x":"{mib}"}},"#)), true),
        ("a key", edited(r#""oldObject":{"#, &format!(r#""oldObject":{{"{mib}":1,"#)), true),
        ("an annotation", edited(r#""kcp.io/cluster":"x""#, &format!(r#""kcp.io/cluster":"x","big":"{mib}""#)), true),
        ("a label", edited(r#""labels":{"a":"b"}"#, &format!(r#""labels":{{"a":"{mib}"}}"#)), true),
        ("a user", edited("alice", &mib), true),
        ("nesting", edited(r#""oldObject":{"#, &format!(r#""oldObject":{{"spec":{deep},"#)), true),
        (
            "another case of a key",
            edited(r#""oldObject":{"#, r#""OldObject":{"metadata":{"name":"a"}},"oldObject":{"#),
            true,
        ),
        (
            "a name",
            edited(
                r#""name":"b","namespace":"default","uid":"o-1""#,
                &format!(r#""name":"{mib}","namespace":"default","uid":"o-1""#),
            ),
            false,
        ),
        (
            "a namespace",
            edited(r#""namespace":"default","uid":"o-1""#, &format!(r#""namespace":"{mib}","uid":"o-1""#)),
            false,
        ),
        ("all in all", format!(r#"{{"request":{{"uid":"u-1","object":"{}"}}}}"#, "x".repeat(10 << 20)), false),
    ] {
        let (status, answer) = caller.posts(body).await;
        assert_eq!(status, 200, "{what}");
        let answered = response(&answer);
        assert_eq!((&answered["uid"], &answered["allowed"]), (&json!("u-1"), &json!(allowed)), "{what}");
        assert!(answer.len() < MAX_ANSWERED, "{what}: {} bytes", answer.len());
    }
    let untold = format!(r#"{{"request":{{"object":"{}"}}}}"#, "x".repeat(10 << 20));
    let (status, sentence) = caller.posts(untold).await;
    assert_eq!((status, &*sentence), (413, "the review is larger than 3136 KiB\n"));
    caller.is_answered_rightly().await;
    webhook.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_slow_or_half_gone_keeps_nobody_from_an_answer() {
    let (_scene, webhook, caller) = set_up().await;
    // Connections without a handshake, connections without a request, and connections with half a request.
    let mut held: Vec<Box<dyn std::any::Any>> = Vec::new();
    for _ in 0..50 {
        held.push(Box::new(TcpStream::connect(caller.address).await.unwrap()));
        let mut garbage = TcpStream::connect(caller.address).await.unwrap();
        garbage.write_all(b"\x16\x03\x01").await.unwrap();
        held.push(Box::new(garbage));
        held.push(Box::new(caller.connect(&caller.h2).await));
        let mut half = caller.connect(&caller.h1).await;
        half.write_all(b"POST /validate HTTP/1.1\r\nhost: a\r\nx-slow: ").await.unwrap();
        held.push(Box::new(half));
    }
    let slow = |beginning: &'static str| {
        move || {
            let frames = futures::stream::iter([Ok(Frame::data(Bytes::from(beginning)))]);
            let body = StreamBody::new(futures::StreamExt::chain(frames, futures::stream::pending()));
            post("/validate?timeout=1s", Bytes::new()).map(|_| BodyExt::boxed(Guarded(body)))
        }
    };
    let (status, answer) = caller.sends(slow(r#"{"request":{"uid":"u-1","#)).await;
    assert_eq!((status, &response(&answer)["allowed"]), (200, &json!(false)), "{answer}");
    assert!(answer.contains("the review did not arrive in time"), "{answer}");
    let (status, sentence) = caller.sends(slow(r#"{"request":{"#)).await;
    assert_eq!((status, &*sentence), (408, "the review did not arrive in time\n"));
    caller.is_answered_rightly().await;
    drop(held);
    tokio::time::timeout(Duration::from_secs(10), webhook.stop()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_at_every_limit_is_followed() {
    let (scene, webhook, caller) = set_up().await;
    let wildcards = format!(".spec.{}[*][*][*][*].name", "p".repeat(253 - ".spec.[*][*][*][*].name".len() + 1));
    scene.remove_rule().await;
    eventually("no rule is in force", async || caller.may_go("a").await).await;
    scene
        .write_another_rule(|spec| {
            let values = (0..63).map(|n| format!("{n:0>253}")).chain(["m1".to_owned()]).collect::<Vec<_>>();
            let expressions: Vec<_> = (0..64)
                .map(|n| json!({"key": format!("k{n}"), "operator": "NotIn", "values": ["x".repeat(63)]}))
                .collect();
            spec["dependent"]["selector"] = json!({"matchExpressions": expressions});
            spec["dependencies"][0]["message"] = json!("m".repeat(512));
            let mut plain = spec["dependencies"][0].clone();
            spec["dependencies"][0]["fieldRef"] = json!({"path": wildcards});
            plain["fieldRef"] = json!({
                "path": ".spec.vpcRef.name", "replacement": "$1",
                "pattern": format!("^({})$", std::iter::repeat_n("[a-z0-9]*", 56).collect::<String>()),
            });
            plain["when"] = json!({"path": ".metadata.name", "in": values});
            let all: Vec<_> = std::iter::once(spec["dependencies"][0].clone()).chain(vec![plain; 31]).collect();
            spec["dependencies"] = json!(all);
        })
        .await;
    eventually("the rule is in force", async || !caller.may_go("a").await).await;
    let (_, answer) = caller.posts(review("a").to_string()).await;
    assert!(answer.contains("VirtualMachine/m1") && answer.len() < MAX_ANSWERED, "{answer}");
    caller.is_answered_rightly().await;
    webhook.stop().await;
}

/// Body that may be shared, as a boxed one must.
struct Guarded<B>(B);

impl<B: hyper::body::Body<Data = Bytes, Error = std::io::Error> + Unpin> hyper::body::Body for Guarded<B> {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        std::pin::Pin::new(&mut self.0).poll_frame(context)
    }
}
