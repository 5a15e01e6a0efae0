//! Benchmarks of depguard itself: `cargo bench -p depguard-benches --bench core`.

use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use depguard_core::protocol::ObjectReview;
use depguard_core::scan::{Extractor, Prefilter};
use depguard_core::{
    Context, ControlPlane, FieldPath, LogicalCluster, OverridePolicy, Query, Review, RuleSet, Workspaces,
};
use depguard_webhook::{ApiReader, Fetched, ReviewService, Rules};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde::Deserialize;
use serde_json::{Value, json};
use tower::ServiceExt;

use self::pages::{Dice, Size, object, page};
use self::reviews::{decide, review, rule, sibling};
use self::strangers::{answer_bindings, decide_deletion, deletion, foreign_rules, strange};

mod pages;
mod reviews;
mod strangers;

const OBJECTS: usize = 500;

fn paths(c: &mut Criterion) {
    c.bench_function("path/parse", |b| b.iter(|| FieldPath::parse(black_box(".spec.network.vpcRef.name"))));
}

/// Measures several ways to read a page's names and one field of each object.
fn extraction(c: &mut Criterion) {
    let path = FieldPath::parse(".spec.vpcRef.name").expect("a path");
    let (one, networks) = (Extractor::new([&path]), FieldPath::parse(".spec.networks[*].vpcRef.name").expect("a path"));
    let several = Extractor::new([&path, &networks, &FieldPath::parse(".*.state").expect("a path")]);
    for size in Size::ALL {
        let page = page(OBJECTS, size, "vpc-0");
        let mut group = c.benchmark_group(format!("extraction, {}", size.name()));
        group.throughput(Throughput::Bytes(page.len() as u64));
        for (name, extractor) in [("depguard", &one), ("depguard, wildcards", &several)] {
            group.bench_function(name, |b| {
                b.iter(|| {
                    let mut found = 0;
                    let read =
                        extractor.page(black_box(&page), |item| found += usize::from(item.value(0) == Some("vpc-0")));
                    assert!(read.is_ok() && found == OBJECTS);
                });
            });
        }
        group.bench_function("typed, these fields alone", |b| {
            b.iter(|| serde_json::from_slice::<Lean>(black_box(&page)).map(|t| t.items.len()));
        });
        group.bench_function("typed, the whole object", |b| {
            b.iter(|| serde_json::from_slice::<Typed>(black_box(&page)).map(|t| t.items.len()));
        });
        group.bench_function("value", |b| b.iter(|| serde_json::from_slice::<Value>(black_box(&page)).is_ok()));
        group.finish();
    }
}

/// Measures the search of a page for names that are in no object, in all objects, or in one of many.
fn search(c: &mut Criterion) {
    let path = FieldPath::parse(".spec.vpcRef.name").expect("a path");
    let extractor = Extractor::new([&path]);
    for size in Size::ALL {
        let page = page(OBJECTS, size, "vpc-0");
        let mut group = c.benchmark_group(format!("search, {}", size.name()));
        group.throughput(Throughput::Bytes(page.len() as u64));
        let mut bench = |name: &str, names: &[&str], hits: usize| {
            let prefilter = Prefilter::new(names.iter().copied()).expect("names that can be searched for");
            group.bench_function(name, |b| {
                b.iter(|| {
                    let mut found = 0;
                    let read = extractor.search(black_box(&page), Some(&prefilter), |_| found += 1);
                    assert!(read.is_ok() && found == hits);
                });
            });
        };
        bench("1 name, nowhere", &["vpc-7"], 0);
        bench("2 names, nowhere", &["vpc-7", "vpc-8"], 0);
        bench("4 names, nowhere", &["vpc-7", "vpc-8", "vpc-9", "vpc-10"], 0);
        bench("1 name, in one object", &["m0123"], 1);
        bench("1 name, in all objects", &["vpc-0"], OBJECTS);
        group.finish();
    }
}

/// Measures a whole review: parse it, answer one page of 500 objects, decide it.
fn decision(c: &mut Criterion) {
    let rules = RuleSet::load(ControlPlane::Kubernetes, [&rule(0)]);
    for size in Size::ALL {
        let review = review("vpcs", size);
        let mut group = c.benchmark_group(format!("review, {}", size.name()));
        group.throughput(Throughput::Bytes(review.len() as u64));
        group.bench_function("parse", |b| b.iter(|| Review::parse(black_box(&review)).is_ok()));
        group.finish();
        let (free, referenced) = (page(OBJECTS, size, "vpc-0"), page(OBJECTS, size, "a"));
        let (allowed, denied) = (decide(&rules, &review, &free), decide(&rules, &review, &referenced));
        assert!(allowed.allowed() && denied.message().is_some_and(|message| message.contains("still referenced")));
        let mut group = c.benchmark_group(format!("decision, {}", size.name()));
        group.bench_function("allowed, one page", |b| b.iter(|| decide(&rules, black_box(&review), &free)));
        group.bench_function("denied, one page", |b| b.iter(|| decide(&rules, black_box(&review), &referenced)));
        group.finish();
    }
    let unnamed = review("subnets", Size::Small);
    c.bench_function("decision/a kind that no rule names", |b| b.iter(|| decide(&rules, black_box(&unnamed), b"")));
}

/// Measures the decision about a deletion by many rules about the same two kinds, each with a field of its own: of an object
/// to which no dependent refers, and of one to which all refer, by one field.
fn siblings(c: &mut Criterion) {
    let review = review("vpcs", Size::Small);
    let pages = [("allowed", "vpc-0"), ("denied", "a")].map(|(what, vpc)| (what, page(OBJECTS, Size::Small, vpc)));
    let mut group = c.benchmark_group("rules about the same kinds");
    for number in [1, 1_000, 10_000] {
        let rules: Vec<_> = (0..number).map(sibling).collect();
        let rules = RuleSet::load(ControlPlane::Kubernetes, &rules);
        for (what, page) in &pages {
            let name = format!("{number}, {what}");
            group.bench_function(name, |b| b.iter(|| decide(&rules, black_box(&review), page)));
        }
    }
    group.finish();
}

/// Measures what the webhook computes for a creation until the hint and the proof of its bindings are read, beside rules of
/// providers that the consumer has not bound: one rule with many dependencies, or many rules. A signed path tells whose rules
/// may bear; an unsigned one doesn't.
fn beside_strangers(c: &mut Criterion) {
    let creation = creation(Size::Small);
    let compute = LogicalCluster::parse("compute").expect("a logical cluster");
    for (path, scope) in [("a signed path", Some(Some(&compute))), ("an unsigned path", None)] {
        let mut group = c.benchmark_group(format!("a creation beside strangers, {path}"));
        for (rules, dependencies) in [(0, 0), (1, 1), (1, 100), (1, 499), (1, 600), (600, 1)] {
            let honest = strange("compute", 1);
            let strangers: Vec<_> = (0..rules).map(|n| strange(&format!("stranger{n}"), dependencies)).collect();
            let set = RuleSet::load(ControlPlane::Kcp, strangers.iter().chain([&honest]));
            group.bench_function(format!("{rules} rules of {dependencies} dependencies"), |b| {
                b.iter(|| {
                    let review = ObjectReview::parse(black_box(&creation)).expect("a review");
                    let mut evaluation = set.evaluate_references(&review, &Context::default().with_scope(scope));
                    assert!(evaluation.seek_hint());
                    answer_bindings(&mut evaluation);
                    assert!(evaluation.interlocked_references(&review).is_ok_and(|part| part.is_some()));
                    answer_bindings(&mut evaluation);
                    assert_eq!(evaluation.queries().len(), 1);
                });
            });
        }
        group.finish();
    }
}

/// Measures a whole deletion beside rules about the same target, of providers that the consumer has not bound.
fn beside_foreign_rules(c: &mut Criterion) {
    let (review, page) = (deletion(), page(OBJECTS, Size::Small, "vpc-0"));
    let mut group = c.benchmark_group("a deletion beside rules of providers that nobody has bound");
    for foreign in [0, 500, 2_000, 10_000] {
        let rules = foreign_rules(foreign);
        group.bench_function(format!("{foreign} rules"), |b| {
            b.iter(|| assert!(decide_deletion(&rules, black_box(&review), &page).allowed()));
        });
    }
    group.finish();
}

/// Measures a whole request to the service about a kind that no rule names, from its bytes to the answer's.
fn service(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let rules = Rules::not_loaded_yet("loaded below");
    rules.load(RuleSet::load(ControlPlane::Kubernetes, [&rule(0)]), Workspaces::new());
    let service = runtime.block_on(async { ReviewService::new(Nobody, rules, OverridePolicy::default()) });
    let body = Bytes::from(review("subnets", Size::Small));
    c.bench_function("service/a kind that no rule names", |b| {
        b.to_async(&runtime).iter(|| async {
            let request = Request::post("/validate?timeout=10s").header("content-type", "application/json");
            let request = request.body(Full::new(body.clone())).expect("a request");
            let Ok(response) = service.clone().oneshot(request).await;
            response.into_body().collect().await.expect("a body").to_bytes()
        });
    });
}

/// Returns a review of the creation of a virtual machine, in a logical cluster of kcp.
fn creation(size: Size) -> Vec<u8> {
    let mut object = object(&mut Dice(7), 0, size, "vpc-1");
    object["metadata"]["annotations"]["kcp.io/cluster"] = json!("consumer");
    object["metadata"]["uid"] = json!("m");
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": "CREATE", "name": object["metadata"]["name"], "namespace": "default", "object": object,
        "resource": {"group": "compute.example.com", "version": "v1", "resource": "virtualmachines"},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"], "extra": {"authentication.kcp.io/cluster-name": ["consumer"]}},
    }});
    review.to_string().into_bytes()
}

/// API server that must not be asked.
struct Nobody;

impl ApiReader for Nobody {
    async fn get(&self, query: &Query) -> Fetched {
        panic!("asked for {}", query.path)
    }
}

/// Decoder as one would write it by hand for one kind and one field.
#[derive(Deserialize)]
struct Lean {
    items: Vec<LeanItem>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "serde fills the field to check it, and nobody reads it")]
struct LeanItem {
    metadata: TypedMeta,
    spec: LeanSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "serde fills the field to check it, and nobody reads it")]
struct LeanSpec {
    vpc_ref: LeanRef,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "serde fills the field to check it, and nobody reads it")]
struct LeanRef {
    name: String,
}

#[derive(Deserialize)]
struct Typed {
    items: Vec<TypedItem>,
}

/// Item of a decoder for the whole kind, with the minimum that it keeps.
#[derive(Deserialize)]
#[expect(dead_code, reason = "serde fills the field to check it, and nobody reads it")]
struct TypedItem {
    metadata: TypedMeta,
    spec: Value,
    status: Value,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "serde fills the field to check it, and nobody reads it")]
struct TypedMeta {
    name: String,
    namespace: String,
    uid: String,
}

criterion_group! {
    name = benches;
    // The settings are short, half a minute in all, so that people run the benchmarks.
    config = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1_500));
    targets = paths, extraction, search, decision, siblings, beside_strangers, beside_foreign_rules, service
}
criterion_main!(benches);
