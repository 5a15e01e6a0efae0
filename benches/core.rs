//! What depguard-core costs: `cargo bench -p depguard-benches`.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use depguard_core::{
    Answer, Context, Extractor, FailurePolicy, FieldPath, Home, OverridePolicy, Review, RuleSet, Workspaces,
};
use serde::Deserialize;
use serde_json::{Value, json};

const OBJECTS: usize = 500;

fn paths(c: &mut Criterion) {
    c.bench_function("path/parse", |b| b.iter(|| FieldPath::parse(black_box(".spec.network.vpcRef.name"))));
}

/// A page of 500 objects: the names and one field of each, by three ways.
fn extraction(c: &mut Criterion) {
    let page = page("vpc-0");
    let path = FieldPath::parse(".spec.vpcRef.name").expect("a path");
    let extractor = Extractor::new([&path]);
    let mut group = c.benchmark_group("extraction");
    group.throughput(Throughput::Bytes(page.len() as u64));
    group.bench_function("depguard", |b| {
        b.iter(|| {
            let mut found = 0;
            let read = extractor.page(black_box(&page), |item| found += usize::from(item.value(0) == Some("vpc-1")));
            (found, read.is_ok())
        });
    });
    group.bench_function("typed, these fields alone", |b| {
        b.iter(|| serde_json::from_slice::<Lean>(black_box(&page)).map(|t| t.items.len()));
    });
    group.bench_function("typed, the whole object", |b| {
        b.iter(|| serde_json::from_slice::<Typed>(black_box(&page)).map(|t| t.items.len()));
    });
    group.bench_function("value", |b| b.iter(|| serde_json::from_slice::<Value>(black_box(&page)).is_ok()));
    group.finish();
}

/// A whole review: parsed, one page of 500 objects answered, decided.
fn decision(c: &mut Criterion) {
    let rules = RuleSet::load(Home::Kubernetes, [&rule()]);
    let (named, unnamed) = (review("vpcs"), review("subnets"));
    let context = Context {
        workspaces: &Workspaces::new(),
        overrides: &OverridePolicy::default(),
        failure_policy: FailurePolicy::Fail,
    };
    let decide = |body: &[u8], page: &[u8]| {
        let review = Review::parse(body).expect("a review");
        let mut evaluation = rules.evaluate(&review, &context);
        while let queries @ [_, ..] = &evaluation.queries()[..] {
            for query in queries {
                evaluation.answer(query.id, Answer::Response { status: 200, body: page });
            }
        }
        evaluation.decide()
    };
    let (free, referenced) = (page("vpc-0"), page("a"));
    assert!(decide(&named, &free).allowed() && !decide(&named, &referenced).allowed());
    c.bench_function("review/parse", |b| b.iter(|| Review::parse(black_box(&named)).is_ok()));
    c.bench_function("decision/a kind that no rule names", |b| b.iter(|| decide(black_box(&unnamed), b"")));
    c.bench_function("decision/allowed, one page", |b| b.iter(|| decide(black_box(&named), &free)));
    c.bench_function("decision/denied, one page", |b| b.iter(|| decide(black_box(&named), &referenced)));
}

/// What one would write by hand for one kind and one field.
#[derive(Deserialize)]
struct Lean {
    items: Vec<LeanItem>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "decoded, not read")]
struct LeanItem {
    metadata: TypedMeta,
    spec: LeanSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "decoded, not read")]
struct LeanSpec {
    vpc_ref: LeanRef,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "decoded, not read")]
struct LeanRef {
    name: String,
}

#[derive(Deserialize)]
struct Typed {
    items: Vec<TypedItem>,
}

/// What a decoder of the whole kind would at least keep.
#[derive(Deserialize)]
#[expect(dead_code, reason = "decoded, not read")]
struct TypedItem {
    metadata: TypedMeta,
    spec: Value,
    status: Value,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "decoded, not read")]
struct TypedMeta {
    name: String,
    namespace: String,
    uid: String,
}

fn rule() -> Value {
    json!({"metadata": {"name": "virtualmachines"}, "spec": {
        "dependent": {"group": "compute.example.com", "version": "v1", "kind": "VirtualMachine", "resource": "virtualmachines"},
        "dependencies": [{"group": "network.example.com", "version": "v1", "resource": "vpcs", "fieldRef": {"path": ".spec.vpcRef.name"}}],
    }})
}

fn review(resource: &str) -> Vec<u8> {
    let object = json!({
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "managedFields": managed_fields()}, "spec": {"cidr": "10.0.0.0/16"},
    });
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": "DELETE", "name": "a", "namespace": "default", "oldObject": object,
        "resource": {"group": "network.example.com", "version": "v1", "resource": resource},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
    }});
    review.to_string().into_bytes()
}

/// A LIST page of objects of some 2 kB, all in that VPC.
fn page(vpc: &str) -> Vec<u8> {
    let disks: Vec<_> =
        (0..6).map(|n| json!({"name": format!("disk-{n}"), "sizeGiB": 40 + n, "class": "fast-replicated"})).collect();
    let conditions: Vec<_> = ["Ready", "Scheduled", "NetworkAttached", "DisksAttached"]
        .map(|kind| json!({"type": kind, "status": "True", "reason": "AsExpected", "message": "nothing to report", "lastTransitionTime": "2026-01-01T00:00:00Z"}))
        .into();
    let items: Vec<_> = (0..OBJECTS)
        .map(|n| {
            json!({
                "apiVersion": "compute.example.com/v1", "kind": "VirtualMachine",
                "metadata": {
                    "name": format!("m{n:04}"), "namespace": "default", "uid": format!("8f2c1c1e-0000-4000-8000-{n:012}"),
                    "resourceVersion": "12345", "generation": 1, "labels": {"app": "web", "tier": "prod"}, "managedFields": managed_fields(),
                },
                "spec": {"vpcRef": {"name": vpc}, "image": "debian-12", "cpus": 4, "memoryGiB": 16, "disks": disks},
                "status": {"phase": "Running", "addresses": ["10.0.0.1", "fd00::1"], "conditions": conditions},
            })
        })
        .collect();
    json!({"apiVersion": "compute.example.com/v1", "kind": "VirtualMachineList", "metadata": {"resourceVersion": "12345"}, "items": items})
        .to_string()
        .into_bytes()
}

fn managed_fields() -> Value {
    json!([{
        "manager": "kubectl", "operation": "Apply", "apiVersion": "compute.example.com/v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}, "f:tier": {}}}, "f:spec": {
            "f:cpus": {}, "f:disks": {}, "f:image": {}, "f:memoryGiB": {}, "f:vpcRef": {"f:name": {}},
        }},
    }])
}

criterion_group! {
    name = benches;
    // Short, so that it is run: half a minute in all.
    config = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1_500));
    targets = paths, extraction, decision
}
criterion_main!(benches);
