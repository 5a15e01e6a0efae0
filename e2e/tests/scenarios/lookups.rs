//! Ways to look dependents up, checked against the answers of real API servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use depguard_controller::manifests;
use depguard_core::model::{Resource as ResourceName, Version};
use depguard_core::rule::Edge;
use depguard_core::schema;
use depguard_core::{ControlPlane, Group, GroupVersionResource, OverridePolicy, Query, Rule, RuleSet, Workspaces};
use depguard_e2e::rules::{RULES, pack as pack_named, rule};
use depguard_e2e::{Cast, Depguard, Outcome, Provider, Reference, Resource, Stop, World, ensure};
use depguard_kcp::{ConnectOptions, Connection};
use depguard_webhook::{ApiReader, Fetched, FrontProxy, ReviewService, Rules};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::local::refused;

/// Kinds of dependents, with the requests that the first review needs and those that every later review needs. A list
/// is represented by the kind of its request only.
const KINDS: [(&str, Reference, &[&str], &[&str]); 4] = [
    ("Selected", Reference::Selectable, &["fieldSelector"], &["fieldSelector"]),
    ("Printed", Reference::Printed, &["fieldSelector", "table", "object"], &["table", "object"]),
    ("Plain", Reference::Plain, &["fieldSelector", "table", "list"], &["list"]),
    ("Labelled", Reference::Plain, &["metadata"], &["metadata"]),
];

/// Requests for the first kind on a server that drops selectable fields from schemas, as kcp does before 0.32 and Kubernetes
/// 1.30 without a feature gate.
const NOT_SELECTABLE: [&[&str]; 2] = [&["fieldSelector", "table", "list"], &["list"]];

const SCHEMAS: &str = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The stock reader, which also notes the queries.
struct QueryRecorder {
    reads: FrontProxy,
    asked: Arc<Mutex<Vec<Query>>>,
}

impl ApiReader for QueryRecorder {
    async fn get(&self, query: &Query) -> Fetched {
        self.asked.lock().unwrap().push(query.clone());
        self.reads.get(query).await
    }
}

/// A webhook of this test, beside the deciding one.
struct SecondService {
    service: ReviewService<QueryRecorder>,
    asked: Arc<Mutex<Vec<Query>>>,
}

pub(crate) async fn cheapest(world: Arc<World>) -> Outcome {
    let kinds = KINDS.map(|(kind, reference, ..)| Resource::namespaced(kind).with_reference(reference));
    let (network, compute) = tokio::try_join!(
        world.network("providers:network"),
        world.provider("providers:compute", "compute.example.com", kinds.into())
    )?;
    tokio::try_join!(world.bind_depguard(&network), world.bind_depguard(&compute))?;
    let consumer = world.consumer("consumer", &[&network, &compute]).await?;
    let (vpc, region) = (network.kind("VPC")?, network.kind("Region")?);
    let depguard = Depguard::start(&world).await?;
    let is_selectable = keeps_selectable_fields(&world, &compute, &compute.kind("Selected")?).await?;
    for (kind, reference, first, then) in KINDS {
        let is_dropped = reference == Reference::Selectable && !is_selectable;
        let [first, then] = if is_dropped { NOT_SELECTABLE } else { [first, then] };
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

        let beside = SecondService::start(&world, &depguard, &cast).await?;
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

pub(crate) async fn built_in_fields(world: Arc<World>) -> Outcome {
    world.needs_minor_version(35, "it lacks some of the listed kinds and fields").await?;
    let api = world.compute().await?.api;
    let mut kinds: BTreeMap<GroupVersionResource, BTreeSet<String>> = BTreeMap::new();
    for (group, version, resource) in [
        ("", "v1", "pods"),
        ("", "v1", "services"),
        ("", "v1", "secrets"),
        ("", "v1", "events"),
        ("resource.k8s.io", "v1", "resourceslices"),
        ("certificates.k8s.io", "v1", "certificatesigningrequests"),
        ("certificates.k8s.io", "v1beta1", "clustertrustbundles"),
        ("certificates.k8s.io", "v1beta1", "podcertificaterequests"),
    ] {
        let gvr = GroupVersionResource {
            group: Group::parse(group)?,
            version: Version::parse(version)?,
            resource: ResourceName::parse(resource)?,
        };
        kinds.insert(gvr, BTreeSet::from(["spec.nothing".to_owned()]));
    }
    // A list by any other field by which a ready-made rule could be looked up must fail, or the table lacks the field.
    for pack in ["kubernetes-workloads", "kubernetes-cluster", "kubernetes-1.34"] {
        for rule in pack_named(pack)?.rules() {
            let rule = Rule::parse(ControlPlane::Kubernetes, &rule)?;
            let fields = rule.edges().iter().filter_map(Edge::selected_by);
            kinds.entry(rule.dependent().gvr.clone()).or_default().extend(fields);
        }
    }
    let (mut selected, mut refused) = (0, 0);
    for (gvr, mut fields) in kinds {
        let listed = schema::built_in_fields(&gvr);
        let listed: BTreeSet<_> =
            listed.iter().map(|field| field.to_string().trim_start_matches('.').to_owned()).collect();
        fields.extend(listed.iter().cloned());
        for field in fields {
            let reply = api.get(&format!("{}?fieldSelector={field}=a", gvr.path(None, None))).await?;
            let expected = if listed.contains(&field) { 200 } else { 400 };
            ensure(reply.status == expected, || format!("{gvr} by {field}: {}, not {expected}", reply.status))?;
            if expected == 200 { selected += 1 } else { refused += 1 }
        }
    }
    ensure(selected >= 19 && refused >= 30, || format!("only {selected} and {refused} fields were tried"))
}

/// Protects the Node of a Pod, which the API server finds by a field that no schema calls selectable.
pub(crate) async fn pods_of_a_node(world: Arc<World>) -> Outcome {
    let place = world.compute().await?;
    let rule = json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule",
        "metadata": {"name": "pods-of-nodes"},
        "spec": {
            "dependent": {"group": "", "version": "v1", "kind": "Pod", "resource": "pods"},
            "dependencies": [
                {"group": "", "version": "v1", "resource": "nodes", "fieldRef": {"path": ".spec.nodeName"}},
            ],
        },
    });
    world
        .grant_reading(&manifests::dependents_of("depguard-webhook-pods-of-nodes", std::slice::from_ref(&rule)))
        .await?;
    world.add_rule(&place, &rule).await?;
    let consumer = world.consumer("consumer", &[]).await?;
    let api = &consumer.api;
    let of = |resource: &str| format!("/api/v1/namespaces/{}/{resource}", consumer.namespace);
    let named = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    api.post(&of("serviceaccounts"), &named("ServiceAccount", "default")).await?.ok_or_there()?;
    let [used, free] = ["used", "free"].map(|name| format!("{}-{name}", world.id()));
    for node in [&used, &free] {
        api.post("/api/v1/nodes", &named("Node", node)).await?.ok()?;
    }
    let mut pod = named("Pod", "p1");
    pod["spec"] = json!({"nodeName": used, "containers": [{"name": "one", "image": "a"}]});
    api.post(&of("pods"), &pod).await?.ok()?;
    let _depguard = Depguard::start(&world).await?;

    world.condition(&place, "pods-of-nodes", "ResolvedRefs", "True").await?;
    if !world.is_control() {
        let found = place.api.get(&format!("{RULES}/pods-of-nodes")).await?.ok()?;
        ensure(found["status"]["targets"][0]["lookup"] == "FieldSelector", || found["status"].to_string())?;
    }
    let blocker = format!("cannot delete nodes/{used}: still referenced by Pod/{}/p1", consumer.namespace);
    refused(&world, api, &format!("/api/v1/nodes/{used}"), &blocker).await?;
    api.delete(&format!("/api/v1/nodes/{free}")).await?.ok()?;
    // No kubelet ends the Pod.
    api.delete(&format!("{}?gracePeriodSeconds=0", of("pods/p1"))).await?.ok()?;
    consumer.gone(&world, &of("pods/p1")).await?;
    api.delete(&format!("/api/v1/nodes/{used}")).await?.ok().map(drop)
}

/// Returns true if the server has stored the selectable fields of a kind.
async fn keeps_selectable_fields(world: &World, provider: &Provider, kind: &Resource) -> Outcome<bool> {
    let definitions = if world.is_kcp() { SCHEMAS } else { DEFINITIONS };
    let found = provider.api.get(definitions).await?.ok()?;
    let definitions = found["items"].as_array().into_iter().flatten().map(|definition| &definition["spec"]);
    let mut of_kind = definitions.filter(|spec| spec["group"] == kind.group && spec["names"]["plural"] == kind.plural);
    let definition = of_kind.next().ok_or_else(|| Stop::Failed(format!("{} has no definition", kind.plural)))?;
    Ok(definition["versions"][0].get("selectableFields").is_some())
}

impl SecondService {
    /// Starts a webhook that decides by the present rules.
    async fn start(world: &World, depguard: &Depguard, cast: &Cast) -> Outcome<Self> {
        let control_plane = if world.is_kcp() { ControlPlane::Kcp } else { ControlPlane::Kubernetes };
        let options = ConnectOptions::new(control_plane).kubeconfig(depguard.file("kubeconfig"));
        let (reads, asked) = (FrontProxy::new(control_plane, Connection::open(&options).await?), Arc::default());
        let found = cast.compute.api.get(RULES).await?.ok()?;
        let rules = Rules::not_loaded_yet("loaded below");
        let objects = found["items"].as_array().into_iter().flatten();
        rules.load(RuleSet::load(control_plane, objects), Workspaces::new());
        let port = QueryRecorder { reads, asked: Arc::clone(&asked) };
        Ok(Self { service: ReviewService::new(port, rules, OverridePolicy::default()), asked })
    }

    /// Reviews the deletion of a VPC. Returns the message, which is empty if the deletion is allowed, and the kinds of
    /// requests for dependents.
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
