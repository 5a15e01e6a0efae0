//! How dependents are looked for, and that an API server answers as that takes it to.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use depguard_core::{Home, OverridePolicy, Query, RuleSet, Workspaces};
use depguard_e2e::rules::{RULES, rule};
use depguard_e2e::{Cast, Depguard, Outcome, Reference, Resource, World, ensure};
use depguard_kcp::{ConnectOptions, Connection};
use depguard_webhook::{Fetched, FrontProxy, Port, ReviewService, Rules};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// The kinds of dependents, what must be asked of each the first time, and what from then on. Of a list only how it is
/// asked for.
const KINDS: [(&str, Reference, &[&str], &[&str]); 4] = [
    ("Selected", Reference::Selectable, &["fieldSelector"], &["fieldSelector"]),
    ("Printed", Reference::Printed, &["fieldSelector", "table", "object"], &["table", "object"]),
    ("Plain", Reference::Plain, &["fieldSelector", "table", "list"], &["list"]),
    ("Labelled", Reference::Plain, &["metadata"], &["metadata"]),
];

/// The stock way of reading, which notes what is asked.
struct Noting {
    reads: FrontProxy,
    asked: Arc<Mutex<Vec<Query>>>,
}

impl Port for Noting {
    async fn get(&self, query: &Query) -> Fetched {
        self.asked.lock().unwrap().push(query.clone());
        self.reads.get(query).await
    }
}

/// A webhook of our own, beside the one that decides.
struct Beside {
    service: ReviewService<Noting>,
    asked: Arc<Mutex<Vec<Query>>>,
}

pub(crate) async fn cheapest(world: Arc<World>) -> Outcome {
    let kinds = KINDS.map(|(kind, reference, ..)| Resource::namespaced(kind).with_reference(reference));
    let (network, compute) = tokio::try_join!(
        world.network("providers:network"),
        world.provider("providers:compute", "compute.example.com", kinds.into())
    )?;
    tokio::try_join!(world.bind_home(&network), world.bind_home(&compute))?;
    let consumer = world.consumer("consumer", &[&network, &compute]).await?;
    let (vpc, region) = (network.kind("VPC")?, network.kind("Region")?);
    let depguard = Depguard::start(&world).await?;
    for (kind, _, first, then) in KINDS {
        let dependent = compute.kind(kind)?;
        let labelled = kind == "Labelled";
        let path = if labelled { ".metadata.labels.vpc" } else { ".spec.vpcRef.name" };
        world.add_rule(&compute, &rule("machines", &dependent, &[(&vpc, path)])).await?;
        let name = |name: &str| format!("{}-{name}", kind.to_lowercase());
        for target in ["a", "b"] {
            consumer.create_target(&vpc, &name(target)).await?;
            let metadata = json!({"name": format!("{target}1"), "labels": {"vpc": name(target)}});
            let spec = if labelled { json!({}) } else { json!({"vpcRef": {"name": name(target)}}) };
            consumer.create_with(&dependent, metadata, spec).await?;
        }
        consumer.create_target(&vpc, &name("free")).await?;
        let cast = Cast {
            network: network.clone(),
            compute: compute.clone(),
            consumer: consumer.clone(),
            vpc: vpc.clone(),
            region: region.clone(),
            vm: dependent.clone(),
            fleet: dependent.clone(),
        };

        let beside = Beside::start(&world, &depguard, &cast).await?;
        for expected in [first, then] {
            let (message, asked) = beside.review(&cast, &name("a")).await?;
            ensure(message.contains(&format!("still referenced by {kind}/a1")), || message.clone())?;
            ensure(asked == expected, || format!("{kind}: asked {asked:?}, not {expected:?}"))?;
        }
        let (message, asked) = beside.review(&cast, &name("free")).await?;
        let looked: Vec<_> = then.iter().filter(|way| **way != "object").collect();
        ensure(message.is_empty() && asked.iter().collect::<Vec<_>>() == looked, || format!("{message}, {asked:?}"))?;

        consumer.until_protected(&world, &vpc, &name("a")).await?;
        consumer.refused(&world, &vpc, &name("a"), &[&format!("still referenced by {kind}/a1")]).await?;
        consumer.delete(&world, &vpc, &name("free")).await?;
        consumer.delete(&world, &dependent, "a1").await?;
        consumer.delete(&world, &vpc, &name("a")).await?;
        world.remove_rule(&compute, "machines").await?;
    }
    Ok(())
}

impl Beside {
    /// Decides by the rules that are there now.
    async fn start(world: &World, depguard: &Depguard, cast: &Cast) -> Outcome<Self> {
        let home = if world.is_kcp() { Home::Kcp } else { Home::Kubernetes };
        let options = ConnectOptions::new(home).kubeconfig(depguard.file("kubeconfig"));
        let (reads, asked) = (FrontProxy::new(home, Connection::open(&options).await?), Arc::default());
        let found = cast.compute.api.get(RULES).await?.ok()?;
        let rules = Rules::not_loaded_yet("loaded below");
        let objects = found["items"].as_array().into_iter().flatten();
        rules.load(RuleSet::load(home, objects), Workspaces::new());
        let port = Noting { reads, asked: Arc::clone(&asked) };
        Ok(Self { service: ReviewService::new(port, rules, OverridePolicy::default()), asked })
    }

    /// What it says to the deletion of a VPC, nothing if it allows it; and how it looked for dependents.
    async fn review(&self, cast: &Cast, name: &str) -> Outcome<(String, Vec<&'static str>)> {
        let object = cast.consumer.api.get(&cast.consumer.object(&cast.vpc, name)).await?.ok()?;
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "1", "operation": "DELETE", "object": null, "oldObject": object,
            "resource": {"group": cast.vpc.group, "version": cast.vpc.versions[0], "resource": cast.vpc.plural},
            "userInfo": {"username": "somebody", "groups": ["system:authenticated"]},
        }});
        self.asked.lock().unwrap().clear();
        let request = Request::post("/validate?timeout=10s").header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(review.to_string())))?;
        let response = self.service.clone().oneshot(request).await?;
        let answer: Value = serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?;
        let message = answer["response"]["status"]["message"].as_str().unwrap_or_default().to_owned();
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        let about = |query: &&Query| query.path.contains(&format!("/{}", cast.vm.plural));
        Ok((message, asked.iter().filter(about).map(way).collect()))
    }
}

fn way(query: &Query) -> &'static str {
    let (path, accept) = (&query.path, query.accept.as_str());
    match path.split_once('?') {
        None => "object",
        Some((_, query)) if query.contains("fieldSelector=") => "fieldSelector",
        Some(_) if accept.contains("as=Table") => "table",
        Some(_) if accept.contains("as=PartialObjectMetadataList") => "metadata",
        Some(_) => "list",
    }
}
