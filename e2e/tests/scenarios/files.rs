//! Files say what an API server would store: the same references, and the same answers.

mod manifests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use depguard_controller::packs::RulePack;
use depguard_e2e::rules::pack;
use depguard_e2e::{Consumer, Outcome, Provider, Resource, Stop, World, ensure, eventually};
use serde_json::{Value, json};

use self::manifests::Choices;
use crate::kubectl::User;

const PACKS: [&str; 3] = ["kubernetes-workloads", "kubernetes-cluster", "kubernetes-1.34"];
/// Kinds without namespaces.
const GLOBAL: [&str; 7] = [
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "FlowSchema",
    "MutatingWebhookConfiguration",
    "PersistentVolume",
    "StorageClass",
    "ValidatingWebhookConfiguration",
];
/// References that an API server has and a file has not, or the other way round: the dependent's kind and a part of the
/// lines about them, and the reason.
const DIFFERENCES: [(&str, &str, &str); 3] = [
    ("ReplicaSet/", "is in wave", "the controller of Deployments makes it"),
    ("Pod/", " spec.imagePullSecrets[*].name -> ", "a Pod without pull Secrets has those of its ServiceAccount"),
    ("ServiceAccount/default", "is in wave", "a namespace has it, and no file"),
];
/// Parts of the names of ClusterRoles that not each cluster has: of features that this ring turns on, and of those that came after
/// Kubernetes 1.30.
const NOT_EVERYWHERE: [&str; 7] = [
    "trust",
    "podcertificate",
    "service-cidrs",
    "device-taint",
    "selinux-warning",
    "resource-claim",
    "volumeattributesclass",
];

/// Objects in a folder and on an API server.
struct Both {
    user: User,
    folder: tempfile::TempDir,
    /// Paths of the objects without a namespace on the API server.
    global: Vec<String>,
    /// Names that the API server generated, each with the one that stands for it in answers about files.
    generated: BTreeMap<String, String>,
    /// Dependents, as the command line names them: for files, and for the API server.
    named: [Vec<String>; 2],
}

pub(crate) async fn as_stored(world: Arc<World>) -> Outcome {
    if world.minor_version().await? < 34 {
        return Err(Stop::Skipped("the packs name kinds of Kubernetes 1.34".to_owned()));
    }
    let kinds = vec![Resource::namespaced("Issuer"), Resource::namespaced("Certificate")];
    let place = world.provider("providers:files", "files.example.com", kinds).await?;
    let consumer = world.consumer("consumer", &[&place]).await?;
    let both = Both::new(&world, &place, &consumer).await?;
    let compared = compare(&world, &both).await;
    for path in &both.global {
        consumer.api.delete(path).await?.ok()?;
    }
    compared
}

/// Compares the answers about files with those about the API server.
async fn compare(world: &World, both: &Both) -> Outcome {
    let mut apart = BTreeSet::new();
    for question in ["trace", "dangling", "unused", "order", "why"] {
        let (files, server) = (both.answers(question, true).await?, both.answers(question, false).await?);
        world.print(format!("{} objects, {question}: {} lines", both.named[0].len(), server.len()));
        ensure(server.len() > 50, || format!("{question}: {server:?}"))?;
        apart.extend(files.symmetric_difference(&server).map(|line| format!("{line} ({question})")));
    }
    let [alone, beside] = both.dangling().await?;
    apart.extend(alone.symmetric_difference(&beside).map(|line| format!("{line} (dangling --live)")));
    let is = |line: &String, (kind, part, _): &(&str, &str, &str)| line.starts_with(kind) && line.contains(part);
    let unknown: Vec<_> = apart.iter().filter(|line| !DIFFERENCES.iter().any(|known| is(line, known))).collect();
    ensure(unknown.is_empty(), || format!("files and the API server differ: {unknown:#?}"))?;
    let over = DIFFERENCES.iter().find(|known| !apart.iter().any(|line| is(line, known)));
    ensure(over.is_none(), || format!("files and the API server differ no more: {over:?}"))?;
    ensure(both.named[0].len() > 400, || format!("{} objects", both.named[0].len()))
}

impl Both {
    async fn new(world: &World, place: &Provider, consumer: &Consumer) -> Outcome<Self> {
        let (id, namespace) = (world.id(), &consumer.namespace);
        let (issuer, own) = (place.kind("Issuer")?, place.kind("Certificate")?);
        let mut documents = Vec::new();
        for kind in [&issuer, &own] {
            documents.push(define(world, consumer, kind, (kind.kind == own.kind).then_some(&issuer)).await?);
        }
        let packs = PACKS.into_iter().map(pack).collect::<Outcome<Vec<_>>>()?;
        for mut rule in packs.into_iter().flat_map(RulePack::rules).chain([manifests::rule_of(&own, &issuer)]) {
            let name = format!("files-{id}-{}", rule["metadata"]["name"].as_str().unwrap_or_default());
            rule["metadata"] = json!({"name": name});
            // The objects of others are none of its business.
            rule["spec"]["dependent"]["selector"] = json!({"matchLabels": {"files": id}});
            rule["spec"]["failurePolicy"] = "Ignore".into();
            world.add_rule(place, &rule).await?;
            documents.push(rule);
        }
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        consumer.api.post(&collection(&account, namespace, &own), &account).await?.ok_or_there()?;
        for target in manifests::targets(namespace, &issuer) {
            consumer.api.post(&collection(&target, namespace, &issuer), &target).await?.ok()?;
            documents.push(target);
        }
        let (mut generated, mut named, mut global) = (BTreeMap::new(), [Vec::new(), Vec::new()], Vec::new());
        for mut object in manifests::dependents(id, namespace, &own, &mut Choices::new()) {
            object["metadata"]["labels"] = json!({"files": id});
            let collection = collection(&object, namespace, &own);
            let stored = consumer.api.post(&collection, &object).await?.ok()?;
            let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let (mut written, stored) = (name(&object), name(&stored));
            if written.is_empty() {
                written = format!("{}*", object["metadata"]["generateName"].as_str().unwrap_or_default());
                generated.insert(stored.clone(), written.clone());
            }
            let path = format!("{collection}/{stored}");
            if ["PersistentVolume", "PersistentVolumeClaim"].map(Value::from).contains(&object["kind"]) {
                // No controller of this ring takes the finalizers away.
                consumer.api.merge(&path, &json!({"metadata": {"finalizers": null}})).await?.ok()?;
            }
            global.extend((!path.contains("/namespaces/")).then_some(path));
            let kind = match object["kind"].as_str().unwrap_or_default() {
                kind if kind == own.kind => format!("{}.{}", own.plural, own.group),
                kind => kind.to_lowercase(),
            };
            for (named, name) in named.iter_mut().zip([&written, &stored]) {
                named.push(format!("{kind}/{name}"));
            }
            documents.push(object);
        }
        let folder = tempfile::tempdir()?;
        let text: Vec<_> = documents.iter().map(ToString::to_string).collect();
        std::fs::write(folder.path().join("all.yaml"), text.join("\n---\n"))?;
        Ok(Self { user: User::at(world, "", namespace)?, folder, global, generated, named })
    }

    /// Runs a command about the files, or about the API server, and returns its report.
    async fn report(&self, of_files: bool, args: &[&str]) -> Outcome<Value> {
        let folder = self.folder.path().to_string_lossy();
        let said = match of_files {
            true => crate::kubectl::run_on_files(&[args, &["-o", "json", "-f", &folder]].concat(), &self.user).await,
            false => self.user.run(&[args, &["-o", "json"]].concat()).await,
        };
        serde_json::from_str(&said.out).map_err(|_| Stop::Failed(format!("{args:?} said {}{}", said.out, said.err)))
    }

    /// Returns the answer to a question, line by line.
    async fn answers(&self, question: &str, of_files: bool) -> Outcome<BTreeSet<String>> {
        let targets: Vec<_> = (0..12).map(|number| format!("t{number}")).collect();
        let mut args = vec![question];
        match question {
            "trace" => {
                args.extend(["--depth", "1"]);
                args.extend(self.named[usize::from(!of_files)].iter().map(String::as_str));
            }
            "why" => {
                args.extend(["--all", "secret,configmap,serviceaccount,service,role"]);
                args.extend(targets.iter().map(String::as_str));
            }
            _ => {}
        }
        self.lines(&self.report(of_files, &args).await?)
    }

    /// Returns what `dangling` says of the files, once alone and once beside the API server.
    async fn dangling(&self) -> Outcome<[BTreeSet<String>; 2]> {
        let folder = self.folder.path().to_string_lossy();
        let live = self.user.run(&["dangling", "--live", "-o", "json", "-f", &folder]).await;
        Ok([self.answers("dangling", true).await?, self.lines(&serde_json::from_str(&live.out)?)?])
    }

    /// Returns a report line by line.
    fn lines(&self, report: &Value) -> Outcome<BTreeSet<String>> {
        ensure(list(&report["unread"]).next().is_none(), || report["unread"].to_string())?;
        let mut lines = BTreeSet::new();
        for trace in list(&report["items"]) {
            ensure(list(&trace["unread"]).next().is_none(), || trace["unread"].to_string())?;
            for target in list(&trace["targets"]) {
                let state = if target["state"] == "Missing" { " is missing" } else { "" };
                let by = list(&target["by"]);
                lines.extend(by.map(|by| self.line(&trace["object"], &by["field"], target) + state));
            }
        }
        for dangling in list(&report["dangling"]) {
            lines.insert(self.line(&dangling["dependent"], &dangling["field"], &dangling["target"]));
        }
        for state in ["unused", "unknown"] {
            lines.extend(list(&report[state]).map(|object| format!("{} is {state}", self.name(object))));
        }
        for (number, wave) in list(&report["waves"]).enumerate() {
            lines.extend(list(wave).map(|object| format!("{} is in wave {number}", self.name(object))));
        }
        for answer in list(&report["objects"]) {
            let blockers = list(&answer["blockers"]);
            lines.extend(blockers.map(|blocker| self.line(blocker, &blocker["field"], &answer["target"])));
            lines.insert(format!("{} is {}", self.name(&answer["target"]), answer["decision"]));
        }
        Ok(lines)
    }

    fn line(&self, dependent: &Value, field: &Value, target: &Value) -> String {
        let (dependent, field) = (self.name(dependent), field.as_str().unwrap_or_default());
        format!("{dependent} {field} -> {}", self.name(target))
    }

    fn name(&self, object: &Value) -> String {
        let [kind, name] = ["kind", "name"].map(|field| object[field].as_str().unwrap_or_default());
        format!("{kind}/{}", self.generated.get(name).map_or(name, String::as_str))
    }
}

/// Defines a kind, with defaults if the issuers' kind is given. Returns the definition.
async fn define(world: &World, consumer: &Consumer, kind: &Resource, issuer: Option<&Resource>) -> Outcome<Value> {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}.{}", kind.plural, kind.group);
    let mut definition = consumer.api.get(&path).await?.ok()?;
    let Some(issuer) = issuer else { return Ok(definition) };
    manifests::put_defaults(&mut definition, issuer);
    consumer.api.put(&path, &definition).await?.ok()?;
    let probe = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": "probe"}, "spec": {}});
    let tried = format!("{}?dryRun=All", kind.collection(&consumer.namespace));
    eventually("defaults are filled in", world.patience(), async || {
        let stored = consumer.api.post(&tried, &probe).await?.ok()?;
        ensure(stored["spec"]["class"] == "t2", || stored.to_string())
    })
    .await?;
    Ok(definition)
}

/// Returns the path of the collection of an object.
fn collection(object: &Value, namespace: &str, own: &Resource) -> String {
    let [api_version, kind] = ["apiVersion", "kind"].map(|field| object[field].as_str().unwrap_or_default());
    if kind == own.kind {
        return own.collection(namespace);
    }
    let root = if api_version.contains('/') { "apis" } else { "api" };
    let plural = kind.to_lowercase() + if kind.ends_with('s') { "es" } else { "s" };
    match GLOBAL.contains(&kind) {
        true => format!("/{root}/{api_version}/{plural}"),
        false => format!("/{root}/{api_version}/namespaces/{namespace}/{plural}"),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// File with the objects that the command takes for there in every cluster.
const EVERY_CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kubectl-depguard/src/cluster/every_cluster.txt");

/// Compares what the command takes for there in every cluster with the API server.
pub(crate) async fn every_cluster(world: Arc<World>) -> Outcome {
    let (api, text) = (world.own_cluster(), std::fs::read_to_string(EVERY_CLUSTER)?);
    let minor = world.minor_version().await?;
    if !text.contains(&format!(" 1.{minor}.")) {
        return Err(Stop::Skipped(format!("{EVERY_CLUSTER} is about another version than 1.{minor}")));
    }
    let (mut place, mut known) = (("", ""), BTreeSet::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        if !line.starts_with(' ') {
            place = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        }
        let (resource, group) = place.0.split_once('.').unwrap_or((place.0, ""));
        let root = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/v1") };
        for name in words {
            match place.1 {
                // This ring has no controllers that put an object into each namespace.
                "*" => continue,
                "-" => api.get(&format!("{root}/{resource}/{name}")).await?.ok()?,
                namespace => api.get(&format!("{root}/namespaces/{namespace}/{resource}/{name}")).await?.ok()?,
            };
            known.insert((resource, name));
        }
    }
    let bootstrapped = "?labelSelector=kubernetes.io/bootstrapping";
    for (resource, path) in [
        ("clusterroles", format!("/apis/rbac.authorization.k8s.io/v1/clusterroles{bootstrapped}")),
        ("roles", format!("/apis/rbac.authorization.k8s.io/v1/roles{bootstrapped}")),
        ("priorityclasses", "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned()),
    ] {
        let found = api.get(&path).await?.ok()?;
        let names = list(&found["items"]).filter_map(|object| object["metadata"]["name"].as_str());
        let names = names.filter(|name| resource != "priorityclasses" || name.starts_with("system-"));
        for name in names.filter(|name| !NOT_EVERYWHERE.iter().any(|gate| name.contains(gate))) {
            ensure(known.contains(&(resource, name)), || format!("{EVERY_CLUSTER} lacks {resource}/{name}"))?;
        }
    }
    ensure(known.len() > 80, || format!("it has only {} objects", known.len()))
}
