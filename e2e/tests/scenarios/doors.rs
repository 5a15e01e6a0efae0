//! Subresources through which a request changes an object: each door to a reference is watched, and no door is held shut
//! by a webhook that is down.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use depguard_controller::manifests;
use depguard_core::model::GroupResource;
use depguard_core::protocol::Subresource;
use depguard_core::{FieldPath, Group};
use depguard_e2e::rules::rule;
use depguard_e2e::{Api, Consumer, Depguard, Outcome, Reply, Resource, RingKind, Stop, World, ensure, eventually};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use crate::eviction::{create_pods, pods};

/// Annotation that names a node.
const NODE: &str = "example.com/node";

fn nodes() -> Resource {
    Resource { versions: &["v1"], ..Resource::cluster_scoped("Node") }
}

fn namespaces() -> Resource {
    Resource { versions: &["v1"], ..Resource::cluster_scoped("Namespace") }
}

/// Lets Pods and namespaces refer to nodes, which must be there.
async fn set_up(world: &Arc<World>) -> Outcome<(Consumer, Depguard, String)> {
    let place = world.compute().await?;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("doors-{}", world.id()), "labels": {manifests::AGGREGATE: "true"}},
        "rules": [{"apiGroups": [""], "resources": ["pods", "namespaces", "nodes"], "verbs": ["get", "list"]}],
    });
    world.grant_reading(&role).await?;
    let annotation = format!(".metadata.annotations['{NODE}']");
    for (name, dependent, paths) in [
        ("pods", pods(), vec![(&nodes(), ".spec.nodeName"), (&nodes(), annotation.as_str())]),
        ("namespaces", namespaces(), vec![(&nodes(), annotation.as_str())]),
    ] {
        let mut rule = rule(name, &dependent, &paths);
        for dependency in rule["spec"]["dependencies"].as_array_mut().into_iter().flatten() {
            dependency["onMissing"] = json!("Deny");
        }
        world.add_rule(&place, &rule).await?;
    }
    let consumer = world.consumer("consumer", &[]).await?;
    let node = format!("node-{}", world.id());
    consumer.create_target(&nodes(), &node).await?;
    create_pods(&consumer, &["p1", "p2", "p3"], None).await?;
    let depguard = Depguard::start(world).await?;
    let said = "while no webhook answers, the scheduler binds Pods to nodes without a check";
    if !world.is_control() {
        world.condition_says(&place, "pods", "Enforced", "True", |all| all.ends_with(said)).await?;
    }
    Ok((consumer, depguard, node))
}

/// Binds a Pod to a node, with this annotation.
async fn bind(consumer: &Consumer, pod: &str, node: &str, annotated: Option<&str>, query: &str) -> Outcome<Reply> {
    let path = format!("{}/binding{query}", consumer.object(&pods(), pod));
    consumer.api.post(&path, &binding(pod, node, annotated)).await
}

fn binding(pod: &str, node: &str, annotated: Option<&str>) -> Value {
    let annotations = annotated.map(|node| json!({NODE: node}));
    json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    })
}

fn is_missing(reply: &Reply, field: &str) -> Outcome {
    let refused = reply.status == 403 && reply.message().contains(&format!("nodes/nowhere not found ({field})"));
    if refused { Ok(()) } else { Err(reply.unexpected("403")) }
}

pub(crate) async fn watched(world: Arc<World>) -> Outcome {
    let (consumer, _depguard, node) = set_up(&world).await?;
    if world.is_control() {
        bind(&consumer, "p1", "nowhere", None, "").await?.ok()?;
        return Err(Stop::ControlSeen);
    }
    eventually("bindings are reviewed", world.patience(), async || {
        is_missing(&bind(&consumer, "p1", "nowhere", None, "?dryRun=All").await?, ".spec.nodeName")
    })
    .await?;
    is_missing(&bind(&consumer, "p1", "nowhere", None, "").await?, ".spec.nodeName")?;
    let annotated = format!(".metadata.annotations['{NODE}']");
    is_missing(&bind(&consumer, "p1", &node, Some("nowhere"), "").await?, &annotated)?;
    bind(&consumer, "p1", &node, Some(&node), "").await?.ok()?;
    let pod = consumer.api.get(&consumer.object(&pods(), "p1")).await?.ok()?;
    ensure(pod["spec"]["nodeName"] == node && pod["metadata"]["annotations"][NODE] == node, || pod.to_string())?;
    if world.ring().kind() == RingKind::Kube {
        // The older resource for bindings.
        let path = format!("{}/bindings", consumer.namespace_path());
        is_missing(&consumer.api.post(&path, &binding("p2", "nowhere", None)).await?, ".spec.nodeName")?;
    }

    let path = consumer.namespace_path();
    let mut namespace = consumer.api.get(&path).await?.ok()?;
    namespace["metadata"]["annotations"][NODE] = json!("nowhere");
    eventually("namespaces are reviewed", world.patience(), async || {
        is_missing(&consumer.api.put(&format!("{path}?dryRun=All"), &namespace).await?, &annotated)
    })
    .await?;
    is_missing(&consumer.api.put(&format!("{path}/finalize"), &namespace).await?, &annotated)?;
    namespace["metadata"]["annotations"][NODE] = json!(node);
    consumer.api.put(&format!("{path}/finalize"), &namespace).await?.ok().map(drop)
}

pub(crate) async fn never_shut(world: Arc<World>) -> Outcome {
    let (consumer, mut depguard, node) = set_up(&world).await?;
    eventually("bindings are reviewed", world.patience(), async || {
        is_missing(&bind(&consumer, "p1", "nowhere", None, "?dryRun=All").await?, ".spec.nodeName")
    })
    .await?;
    let annotated = format!(".metadata.annotations['{NODE}']");
    let namespaces = "/api/v1/namespaces";
    let name = format!("ending-{}", world.id());
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "finalizers": ["a.b/c"]}});
    consumer.api.post(namespaces, &object).await?.ok()?;
    eventually("namespaces are reviewed", world.patience(), async || {
        let patch = json!({"metadata": {"annotations": {NODE: "nowhere"}}});
        is_missing(&consumer.api.merge(&format!("{namespaces}/{name}?dryRun=All"), &patch).await?, &annotated)
    })
    .await?;
    depguard.kill_webhook();
    bind(&consumer, "p1", &node, None, "").await?.ok()?;
    let reply = bind(&consumer, "p2", &node, Some(&node), "").await?;
    ensure(reply.status == 500, || {
        format!("an annotation that nobody checked: {}: {}", reply.status, reply.message())
    })?;

    // While the webhook is down, a namespace comes to its end, even one whose annotations change meanwhile.
    let path = format!("{namespaces}/{name}");
    consumer.api.delete(&path).await?.ok()?;
    let mut ending = consumer.api.get(&path).await?.ok()?;
    ending["spec"]["finalizers"] = json!([]);
    ending["metadata"]["annotations"] = json!({NODE: "nowhere"});
    consumer.api.put(&format!("{path}/finalize"), &ending).await?.ok()?;
    consumer.api.merge(&path, &json!({"metadata": {"finalizers": null}})).await?.ok()?;
    consumer.gone(&world, &path).await
}

/// Kinds of Kubernetes' own of which a new cluster has no object, with the specs to create one.
fn specs() -> Outcome<Vec<(&'static str, Value)>> {
    let labels = json!({"app": "doors"});
    let pod = json!({"containers": [{"name": "one", "image": "a", "resources": {"limits": {"cpu": "1"}}}]});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let selected = json!({"selector": {"matchLabels": labels}, "template": template});
    let mut restarted = template.clone();
    restarted["spec"]["restartPolicy"] = json!("Never");
    let mut set = selected.clone();
    set["serviceName"] = json!("a");
    let claimed = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let request = CertificateParams::default().serialize_request(&KeyPair::generate()?)?.pem()?;
    let scaled = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"});
    let device = json!({"requests": [{"name": "one", "exactly": {"deviceClassName": "a.example.com"}}]});
    let expression = json!({"expression": "true"});
    Ok(vec![
        ("namespaces", json!({})),
        ("nodes", json!({})),
        ("pods", pod),
        ("persistentvolumeclaims", claimed),
        (
            "persistentvolumes",
            json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}}),
        ),
        ("replicationcontrollers", json!({"selector": labels, "template": template})),
        ("resourcequotas", json!({"hard": {"count/secrets": "100"}})),
        ("services", json!({"ports": [{"port": 80}]})),
        ("daemonsets.apps", selected.clone()),
        ("deployments.apps", selected.clone()),
        ("replicasets.apps", selected),
        ("statefulsets.apps", set),
        ("horizontalpodautoscalers.autoscaling", json!({"maxReplicas": 2, "scaleTargetRef": scaled})),
        ("cronjobs.batch", json!({"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": restarted}}})),
        ("jobs.batch", json!({"template": restarted})),
        (
            "certificatesigningrequests.certificates.k8s.io",
            json!({"request": STANDARD.encode(request), "signerName": "example.com/a", "usages": ["client auth"]}),
        ),
        ("ingresses.networking.k8s.io", json!({"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}})),
        ("poddisruptionbudgets.policy", json!({"minAvailable": 1})),
        ("resourceclaims.resource.k8s.io", json!({"devices": device})),
        (
            "validatingadmissionpolicies.admissionregistration.k8s.io",
            json!({
                "validations": [expression],
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": ["a.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["a"],
                }]},
            }),
        ),
        (
            "volumeattachments.storage.k8s.io",
            json!({"attacher": "a.example.com", "nodeName": "a", "source": {"persistentVolumeName": "a"}}),
        ),
    ])
}

/// Subresources that are connections, answers, or deletions of their own.
const UNSTORED: [&str; 7] = ["attach", "eviction", "exec", "log", "portforward", "proxy", "token"];

/// Tries to change all that a request through each subresource of Kubernetes' own kinds may change.
pub(crate) async fn all_known(world: Arc<World>) -> Outcome {
    let consumer = world.consumer("consumer", &[]).await?;
    let api = &consumer.api;
    create_pods(&consumer, &[], None).await?;
    let specs = specs()?;
    // The scenario changes the statuses of a definition and of its APIService. After that, the API server no longer
    // serves the kind, so the kind is the scenario's own.
    let own = format!("{}.doors.example.com", world.id());
    world.provider("providers:doors", &own, vec![Resource::cluster_scoped("Door")]).await?;
    let mut roots = vec!["/api/v1".to_owned()];
    let groups = api.get("/apis").await?.ok()?;
    for group in groups["groups"].as_array().into_iter().flatten() {
        // Groups of definitions come and go with other scenarios on the same cluster.
        let name = group["name"].as_str().unwrap_or_default();
        if !Group::parse(name).is_ok_and(|group| group.may_be_built_in()) {
            continue;
        }
        roots.push(format!("/apis/{}", group["preferredVersion"]["groupVersion"].as_str().unwrap_or_default()));
    }
    let (mut tried, mut found) = (Vec::new(), Vec::new());
    for root in roots {
        let all = api.get(&root).await?.ok()?;
        let all = all["resources"].as_array().cloned().unwrap_or_default();
        for below in &all {
            let name = below["name"].as_str().unwrap_or_default();
            let Some((plural, subresource)) = name.split_once('/') else { continue };
            let group =
                root.strip_prefix("/apis/").and_then(|group| group.split_once('/')).map_or("", |(group, _)| group);
            let kind = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
            let writes = |verb: &str| below["verbs"].as_array().is_some_and(|verbs| verbs.contains(&json!(verb)));
            if UNSTORED.contains(&subresource) || !["create", "patch", "update"].iter().any(|verb| writes(verb)) {
                continue;
            }
            let described = all.iter().find(|resource| resource["name"] == plural).cloned().unwrap_or_default();
            let collection = match described["namespaced"] == true {
                true => format!("{root}/namespaces/{}/{plural}", consumer.namespace),
                false => format!("{root}/{plural}"),
            };
            let spec = specs.iter().find(|(of, _)| *of == kind).map(|(_, spec)| spec);
            let path = object_of(api, &collection, (&root, &described), spec, &own).await?;
            let door = Door { api, path, subresource, is_read: writes("get"), is_created: writes("create") };
            let known = kind.parse::<GroupResource>().map_err(|error| Stop::failed(error.to_string()))?;
            let known: Vec<_> = Subresource::from_kind(&known).filter(|known| known.name == subresource).collect();
            for field in door.changed().await? {
                let path = FieldPath::parse(&field).map_err(|error| Stop::failed(error.to_string()))?;
                if !known.iter().any(|subresource| subresource.changes(&path)) {
                    found.push(format!("{kind}/{subresource} changes {field}"));
                }
            }
            tried.push(format!("{kind}/{subresource}"));
        }
    }
    world.print(format_args!("{} subresources tried: {}", tried.len(), tried.join(", ")));
    ensure(tried.len() >= 25 && tried.iter().any(|name| name == "pods/binding"), || tried.join(", "))?;
    ensure(found.is_empty(), || format!("the table lacks: {}", found.join("; ")))
}

/// Returns the path of an object of a kind: a new one, one whose name ends with the scenario's `own` group, or the first
/// that is there.
async fn object_of(
    api: &Api,
    collection: &str,
    (root, described): (&str, &Value),
    spec: Option<&Value>,
    own: &str,
) -> Outcome<String> {
    let name = match spec {
        Some(spec) => {
            let version = root.strip_prefix("/api/").or_else(|| root.strip_prefix("/apis/")).unwrap_or_default();
            let object = json!({
                "apiVersion": version, "kind": described["kind"], "metadata": {"generateName": "door-"}, "spec": spec,
            });
            api.post(collection, &object).await?.ok()?["metadata"]["name"].clone()
        }
        None => {
            let all = api.get(collection).await?.ok()?;
            let mut names = all["items"].as_array().into_iter().flatten().map(|object| &object["metadata"]["name"]);
            let is_own = |name: &&Value| name.as_str().is_some_and(|name| name.ends_with(own));
            names.clone().find(is_own).or_else(|| names.next()).cloned().unwrap_or_default()
        }
    };
    let name = name.as_str().ok_or_else(|| Stop::failed(format!("no object of {collection}; add a spec")))?;
    Ok(format!("{collection}/{name}"))
}

/// Subresource of one object.
struct Door<'a> {
    api: &'a Api,
    path: String,
    subresource: &'a str,
    is_read: bool,
    is_created: bool,
}

impl Door<'_> {
    /// Returns the paths of all that changes by some request through the subresource, without numbers and truth values,
    /// which rules don't read.
    async fn changed(&self) -> Outcome<Vec<String>> {
        let Self { api, path, subresource, is_read, is_created } = self;
        let below = format!("{path}/{subresource}");
        let (mut all, mut changes) = (Vec::new(), vec![None]);
        let shown = if *is_read { &below } else { path };
        if !is_created {
            let object = api.get(shown).await?.ok()?;
            let mut leaves = Vec::new();
            texts("", &object, &mut leaves);
            let namespace = api.get("/api/v1/namespaces/default").await?.ok()?;
            let owner = json!([{
                "apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": namespace["metadata"]["uid"],
            }]);
            let container = json!([{"name": "door", "image": "a"}]);
            let added = [
                ("/metadata/labels/door", json!("a")),
                ("/metadata/annotations/door", json!("a")),
                ("/metadata/finalizers", json!(["a.b/door"])),
                ("/metadata/ownerReferences", owner),
                ("/spec/ephemeralContainers", container),
                ("/status/door", json!("a")),
            ];
            let leaves = leaves.into_iter().filter(|leaf| !leaf.starts_with("/metadata/managedFields"));
            let leaves = leaves.flat_map(|leaf| ["door", "2"].map(|text| (leaf.clone(), json!(text))));
            changes = leaves.chain(added.map(|(leaf, value)| (leaf.to_owned(), value))).map(Some).collect();
        }
        for change in changes {
            let before = api.get(path).await?.ok()?;
            let reply = match change {
                None => {
                    let name = before["metadata"]["name"].clone();
                    let metadata = json!({"name": name, "labels": {"door": "a"}, "annotations": {"door": "a"}});
                    let target = json!({"kind": "Node", "name": "door"});
                    let made = json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target});
                    let reply = api.post(&below, &made).await?;
                    reply.ok()?;
                    None
                }
                Some((leaf, value)) => {
                    let mut object = api.get(shown).await?.ok()?;
                    put_at(&mut object, &leaf, value);
                    Some(api.put(&below, &object).await?)
                }
            };
            if reply.is_none_or(|reply| reply.status < 300) {
                let after = api.get(path).await?.ok()?;
                differences("", &before, &after, &mut all);
                let clean = json!({"metadata": {"finalizers": null, "ownerReferences": null}});
                api.merge(path, &clean).await?;
            }
        }
        all.retain(|path| {
            let own = ["managedFields", "resourceVersion", "generation"].map(|own| format!(".metadata.{own}"));
            // A binding also sets the Pod's condition PodScheduled.
            let is_scheduled = *is_created && *path == ".status.conditions";
            !is_scheduled && !own.iter().any(|own| path.starts_with(own))
        });
        all.sort();
        all.dedup();
        Ok(all)
    }
}

/// Collects the pointers of all texts in a value.
fn texts(pointer: &str, value: &Value, all: &mut Vec<String>) {
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::String(_) => all.push(pointer.to_owned()),
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| texts(&format!("{pointer}/{}", escaped(key)), value, all));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| texts(&format!("{pointer}/{index}"), value, all));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Puts a value at a pointer, with all maps around it.
fn put_at(object: &mut Value, pointer: &str, value: Value) {
    if let Some(place) = object.pointer_mut(pointer) {
        return *place = value;
    }
    let mut place = object;
    for key in pointer.split('/').skip(1) {
        place = &mut place[key];
    }
    *place = value;
}

/// Collects the field paths of all texts that differ, and of what is added. A list that differs in length is one path.
fn differences(path: &str, before: &Value, after: &Value, all: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in new {
                differences(&format!("{path}{}", step(key)), old.get(key).unwrap_or(&Value::Null), value, all);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                differences(&format!("{path}[{index}]"), old, new, all);
            }
        }
        (old, Value::Object(new)) if old.is_null() => {
            for (key, value) in new {
                differences(&format!("{path}{}", step(key)), &Value::Null, value, all);
            }
        }
        (_, Value::Null | Value::Bool(_) | Value::Number(_)) => {}
        (old, new) if old == new => {}
        _ => all.push(path.to_owned()),
    }
}

fn step(key: &str) -> String {
    let is_plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphabetic());
    if is_plain { format!(".{key}") } else { format!("['{key}']") }
}
