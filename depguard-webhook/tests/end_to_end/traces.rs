//! Traces: what a collector receives, and that no review depends on it.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use depguard_core::ControlPlane;
use depguard_webhook::{StartError, Webhook};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::hostile::{Caller, post, response, review};
use crate::scene::{Scene, eventually};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// Collector that keeps the spans it receives, or never answers.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Value>>>,
    hangs: bool,
}

impl Collector {
    async fn serve(self) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let collector = self.clone();
                let service = service_fn(move |request| {
                    let collector = collector.clone();
                    async move { Ok::<_, Infallible>(collector.take(request).await) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        address
    }

    async fn take(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        assert_eq!((request.uri().path(), request.method().as_str()), ("/v1/traces", "POST"));
        assert_eq!(request.headers()["content-type"], "application/json");
        let body = request.into_body().collect().await.unwrap().to_bytes();
        if self.hangs {
            std::future::pending::<()>().await;
        }
        let request: Value = serde_json::from_slice(&body).unwrap();
        let resource = &request["resourceSpans"][0];
        assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "depguard-webhook");
        let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        self.spans.lock().unwrap().extend(spans);
        Response::new(Full::new(Bytes::from_static(b"{}")))
    }

    /// Returns the spans of one trace, once the review's own has come, which is sent with the others.
    async fn spans_of(&self, is_wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let root = || self.spans.lock().unwrap().iter().find(|span| is_review(span) && is_wanted(span)).cloned();
        eventually("the spans have come", async || root().is_some()).await;
        let trace = root().unwrap()["traceId"].clone();
        self.spans.lock().unwrap().iter().filter(|span| span["traceId"] == trace).cloned().collect()
    }
}

fn is_review(span: &Value) -> bool {
    span["name"] == "review"
}

fn attribute<'s>(span: &'s Value, key: &str) -> &'s str {
    let attributes = span["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    let value = &found.unwrap_or_else(|| panic!("{key} is not in {span}"))["value"];
    value["stringValue"].as_str().or(value["intValue"].as_str()).unwrap()
}

/// Sets up a scene whose webhook sends its traces to `endpoint`, and in which VM `m1` refers to VPC `a`.
async fn tracing_to(endpoint: SocketAddr) -> (Scene, Webhook) {
    let mut scene = Scene::set_up(ControlPlane::Kubernetes).await;
    scene.config.otlp_endpoint = Some(format!("http://{endpoint}/"));
    scene.config.metrics_addr = Some((Ipv4Addr::LOCALHOST, 0).into());
    scene.write_rule(".spec.vpcRef.name").await;
    scene.create_vm("m1", "a").await;
    let webhook = scene.start().await;
    scene.configure(webhook.review_addr()).await;
    (scene, webhook)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_and_its_reads_are_spans_of_one_trace_and_name_no_object() {
    let collector = Collector::default();
    let (scene, webhook) = tracing_to(collector.clone().serve().await).await;
    assert!(scene.delete_dry("a").await.unwrap().contains("still referenced by VirtualMachine/m1"));
    let spans = collector.spans_of(|span| attribute(span, "depguard.decision") == "referenced").await;
    let (reviews, reads): (Vec<&Value>, Vec<_>) = spans.iter().partition(|span| is_review(span));
    let [review] = reviews.as_slice() else { panic!("{spans:#?}") };
    assert_eq!(review.get("parentSpanId"), None, "{review}");
    assert_eq!(attribute(review, "depguard.operation"), "DELETE");
    assert_eq!(attribute(review, "depguard.resource"), "vpcs.network.example.com");
    let [read] = reads.as_slice() else { panic!("{spans:#?}") };
    assert_eq!((&read["parentSpanId"], read["name"].as_str()), (&review["spanId"], Some("LIST")));
    assert_ne!(read["spanId"], review["spanId"]);
    assert_eq!(attribute(read, "depguard.resource"), "virtualmachines.compute.example.com");
    assert_eq!(attribute(read, "http.response.status_code"), "200");
    assert!(attribute(read, "depguard.pages").parse::<u32>().unwrap() >= 1);
    let time = |span: &Value, field: &str| span[field].as_str().unwrap().parse::<u128>().unwrap();
    let during = |span: &Value| time(span, "startTimeUnixNano")..=time(span, "endTimeUnixNano");
    let (outer, inner) = (during(review), during(read));
    assert!(outer.contains(inner.start()) && outer.contains(inner.end()), "{spans:#?}");
    let all = serde_json::to_string(&spans).unwrap();
    assert!(!all.contains("m1") && !all.contains("default") && !all.contains("admin"), "{all}");
    webhook.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_trace_goes_on_if_the_caller_records_it() {
    let collector = Collector::default();
    let (scene, webhook) = tracing_to(collector.clone().serve().await).await;
    let caller = Caller::new(&webhook, &scene.config.tls_cert_dir);
    for (trace, flags) in [(TRACE.replace('4', "5"), "00"), (TRACE.to_owned(), "01")] {
        let mut request = post("/validate?timeout=10s", review("a").to_string().into());
        request.headers_mut().insert("traceparent", format!("00-{trace}-{SPAN}-{flags}").parse().unwrap());
        let (_, answer) = caller.sends_by_h1(request).await;
        assert_eq!(response(&answer)["allowed"], false, "{answer}");
    }
    let spans = collector.spans_of(|span| span["traceId"] == TRACE).await;
    let parents: Vec<_> = spans.iter().filter(|span| is_review(span)).map(|span| &span["parentSpanId"]).collect();
    assert_eq!(parents, [SPAN]);
    assert!(spans.len() > 1, "{spans:#?}");
    let others = collector.spans.lock().unwrap().iter().filter(|span| span["traceId"] != TRACE).count();
    assert_eq!(others, 0, "a trace that its caller does not record has no span");
    webhook.stop().await;
}

/// Tests a collector's address at which nobody listens, and a collector that never answers: all reviews are decided, and
/// spans that can't be sent are counted.
#[tokio::test(flavor = "multi_thread")]
async fn reviews_go_on_without_a_collector_and_their_spans_are_counted() {
    let dead = (Ipv4Addr::LOCALHOST, depguard_testbed::lasting_port(Ipv4Addr::LOCALHOST).unwrap()).into();
    let silent = Collector { hangs: true, ..Collector::default() }.serve().await;
    for endpoint in [dead, silent] {
        let (scene, webhook) = tracing_to(endpoint).await;
        let metrics = webhook.metrics_addr().unwrap();
        for _ in 0..20 {
            assert!(scene.delete_dry("a").await.unwrap().contains("still referenced by VirtualMachine/m1"));
            assert_eq!(scene.delete_dry("b").await, None);
        }
        eventually("spans that could not be sent are counted", async || {
            let (_, text) = crate::scene::probe(metrics, "/metrics").await;
            let count = text.lines().find_map(|line| line.strip_prefix("depguard_spans_total{result=\"failed\"} "));
            count.unwrap().parse::<u64>().unwrap() > 0
        })
        .await;
        tokio::time::timeout(Duration::from_secs(30), webhook.stop()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_is_no_url_is_refused_at_the_start() {
    let mut scene = Scene::set_up(ControlPlane::Kubernetes).await;
    for endpoint in ["collector:4318", "ftp://collector", "http://"] {
        scene.config.otlp_endpoint = Some(endpoint.to_owned());
        let error = Webhook::start(scene.config.clone()).await.unwrap_err();
        assert!(matches!(error, StartError::Otlp(_)), "{endpoint}: {error}");
        assert!(error.to_string().contains("--otlp-endpoint"), "{error}");
    }
}
