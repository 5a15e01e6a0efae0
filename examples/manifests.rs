//! Decides for the objects in a directory of manifests which ones may be deleted: `cargo run --example manifests`, or
//! `-- folder…` for other directories.
//!
//! There is no API server, no kcp and no async runtime: the core asks for lists, and the files answer. The folders hold
//! DependencyRules, the CRDs of the kinds that they name, and objects, told apart by kind.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use depguard_core::{Context, ControlPlane, GroupVersionResource, Query, RuleSet};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let given: Vec<_> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if !given.is_empty() {
        return verdicts(&given).map(|told| told.iter().for_each(|line| println!("{line}")));
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let told = verdicts(&[here.join("provider"), here.join("manifests")])?;
    told.iter().for_each(|line| println!("{line}"));
    let expected = [
        "VirtualMachine shop/m1: may be deleted",
        "VirtualMachine shop/m2: may be deleted",
        "VPC shop/a: cannot delete vpcs/a: still referenced by VirtualMachine/m1, VirtualMachine/m2",
        "VPC shop/b: may be deleted",
        "VPC lab/a: may be deleted",
    ];
    if told != expected { Err("the output differs from the expected one".into()) } else { Ok(()) }
}

/// Returns a line for each object.
fn verdicts(folders: &[PathBuf]) -> Result<Vec<String>> {
    let documents = documents(folders)?;
    let of_kind = |kind: &'static str| documents.iter().filter(move |document| document["kind"] == kind);
    let rules = RuleSet::try_load(ControlPlane::Kubernetes, of_kind("DependencyRule"))?;
    let manifests = Manifests::new(&documents, of_kind("CustomResourceDefinition"))?;
    let judge = |(gvr, object): &(GroupVersionResource, &Value)| {
        let evaluation = rules.evaluate_deletion(gvr, object, &Context::default())?;
        let decision = evaluation.decide_with(|query| manifests.get(query, object));
        let verdict = decision.message().unwrap_or_else(|| "may be deleted".to_owned());
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        Ok(format!("{kind} {namespace}/{name}: {verdict}"))
    };
    manifests.objects.iter().map(judge).collect()
}

const NO_OBJECTS: [&str; 2] = ["DependencyRule", "CustomResourceDefinition"];

/// Objects and kinds that an API server would have.
struct Manifests<'d> {
    kinds: Vec<GroupVersionResource>,
    objects: Vec<(GroupVersionResource, &'d Value)>,
}

impl<'d> Manifests<'d> {
    /// Collects the objects. One of these CRDs must define the kind of each.
    fn new(documents: &'d [Value], definitions: impl Iterator<Item = &'d Value>) -> Result<Self> {
        let mut kinds = BTreeMap::new();
        for spec in definitions.map(|definition| &definition["spec"]) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            for version in spec["versions"].as_array().into_iter().flatten() {
                let (group, version) = (text(&spec["group"]), text(&version["name"]));
                let resource = text(&spec["names"]["plural"]).parse()?;
                let gvr = GroupVersionResource { group: group.parse()?, version: version.parse()?, resource };
                kinds.insert((format!("{group}/{version}"), text(&spec["names"]["kind"])), gvr);
            }
        }
        let mut objects = Vec::new();
        for object in
            documents.iter().filter(|object| !NO_OBJECTS.contains(&object["kind"].as_str().unwrap_or_default()))
        {
            let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
            let gvr = kinds.get(&(text("apiVersion"), text("kind")));
            // An object that was skipped could hold a reference that would then be missed.
            let gvr = gvr.ok_or_else(|| format!("no CRD defines {} {}", text("apiVersion"), text("kind")))?;
            objects.push((gvr.clone(), object));
        }
        Ok(Self { kinds: kinds.into_values().collect(), objects })
    }

    /// Returns the whole list that a query asks for. The query may ask for some objects or for one page only. This need
    /// not matter, because the core looks at each object.
    fn get(&self, query: &Query, deleted: &Value) -> std::result::Result<(u16, Vec<u8>), String> {
        let path = query.path.split('?').next().unwrap_or_default();
        let Some((kind, namespace)) = self.kinds.iter().find_map(|gvr| Some((gvr, listed(path, gvr)?))) else {
            return Err(format!("no CRD defines the kind that `{path}` lists: put the CRD into the folder"));
        };
        let items = self.objects.iter().filter(|(gvr, object)| {
            // An API server converts objects of every version and lists them. Here they are listed as they are written.
            let is_listed = gvr.group_resource() == kind.group_resource()
                && namespace.is_none_or(|namespace| object["metadata"]["namespace"] == namespace);
            // Manifests have no UIDs, by which the core would see that an object does not block itself.
            is_listed && !std::ptr::eq(*object, deleted)
        });
        let items: Vec<_> = items.map(|(_, object)| object).collect();
        Ok((200, json!({"metadata": {"resourceVersion": "1"}, "items": items}).to_string().into_bytes()))
    }
}

/// Returns the namespace of a list's path, `<root>/[namespaces/<ns>/]<resource>`, if the path lists objects of this
/// kind.
fn listed<'p>(path: &'p str, gvr: &GroupVersionResource) -> Option<Option<&'p str>> {
    let below = path.strip_prefix(&gvr.root())?.strip_prefix('/')?;
    let (namespace, resource) = match below.strip_prefix("namespaces/").and_then(|rest| rest.split_once('/')) {
        Some((namespace, resource)) => (Some(namespace), resource),
        None => (None, below),
    };
    (resource == gvr.resource.as_str()).then_some(namespace)
}

/// Returns all documents of the folders' `.yaml` files, in order.
fn documents(folders: &[PathBuf]) -> Result<Vec<Value>> {
    let mut files = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(folder).map_err(|why| format!("cannot read {}: {why}", folder.display()))? {
            files.push(entry?.path());
        }
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut documents = Vec::new();
    for file in files {
        documents.extend(serde_saphyr::from_multiple::<Value>(&fs::read_to_string(file)?)?);
    }
    Ok(documents)
}
