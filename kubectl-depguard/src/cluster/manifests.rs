//! Manifests read as one cluster in which every export is bound.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use depguard_core::applicability::RuleGrants;
use depguard_core::model::{GroupResource, Namespace, Version};
use depguard_core::{ControlPlane, Group, GroupVersionResource, Workspaces, api};
use serde_json::{Value, json};

use crate::cluster::documents::{Document, Origin, group_of, text};
use crate::cluster::files::Files;
use crate::cluster::kinds::{KindInfo, Kinds, guess_resource};
use crate::cluster::own_kinds::scope_of;
use crate::cluster::rule_manifests::{
    ends_of, everywhere_bound, is_mistaken_for_none, is_rule, kind_of, mistake, named_by,
};
use crate::cluster::rules::{ReadFailure, Rules};

/// Content of the manifest files, sorted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Manifests {
    rules: Vec<Arc<Value>>,
    definitions: Vec<Document>,
    objects: Vec<ManifestObject>,
    kinds: Kinds,
    unread: Vec<ReadFailure>,
    remarks: Vec<String>,
}

/// Object of a manifest, with its kind.
#[derive(Debug, Clone)]
pub(crate) struct ManifestObject {
    pub(crate) gvr: GroupVersionResource,
    /// The object with its namespace, even if the file leaves the namespace out.
    pub(crate) value: Arc<Value>,
    pub(crate) origin: Origin,
}

impl Manifests {
    /// Sorts documents into rules, definitions of kinds, and objects. An object that names no namespace is in
    /// `namespace`.
    pub(crate) fn new(documents: Vec<Document>, namespace: &Namespace) -> Self {
        let mut manifests = Self::default();
        let (rules, others): (Vec<_>, Vec<_>) = documents.into_iter().partition(|document| is_rule(&document.value));
        let (mistaken, others): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|document| is_mistaken_for_none(&document.value));
        let rules = rules.into_iter().filter(|rule| {
            let is_known = text(&rule.value, "apiVersion").and_then(|text| text.split_once('/'))
                == Some((api::GROUP, api::VERSION));
            if !is_known {
                manifests.unread.push(mistake(rule));
            }
            is_known
        });
        let rules: Vec<_> = rules.collect();
        manifests.unread.extend(mistaken.iter().map(mistake));
        for document in &others {
            if is_definition(&document.value) {
                KindInfo::from_definition(&document.value).into_iter().for_each(|kind| manifests.kinds.learn(kind));
                manifests.definitions.push(document.clone());
            }
        }
        for rule in rules {
            let value = Arc::new(everywhere_bound(&rule.value));
            named_by(&value).into_iter().for_each(|kind| manifests.kinds.learn(kind));
            manifests.rules.push(value);
        }
        let ends = manifests.ends();
        for document in others {
            match manifests.place(document, namespace) {
                Ok(object) => manifests.objects.push(object),
                Err(document) => manifests.pass_over(&document, &ends),
            }
        }
        manifests.fill_in(namespace);
        manifests
    }

    /// Builds the manifests from files, some of which can't be read or hold no manifests.
    pub(crate) fn of_files(files: Files, namespace: &Namespace) -> Self {
        let Files { documents, unread, others } = files;
        let (documents, mut remarks) = once(documents, namespace);
        let others = others.into_iter().map(|file| format!("skipped the documents of `{file}` that are not manifests"));
        remarks.extend(others);
        let mut manifests = Self::new(documents, namespace);
        manifests.unread.splice(0..0, unread);
        manifests.remarks.splice(0..0, remarks);
        manifests
    }

    /// Returns notes about the files, to print before anything else.
    pub(crate) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Adds the namespace to objects of a kind whose scope is unknown: if one object of the kind names a namespace, all
    /// have one, and the others are in `namespace`.
    fn fill_in(&mut self, namespace: &Namespace) {
        let of_known_scope = |kind: &GroupResource| {
            let known = self.kinds.of(kind);
            known.is_some_and(|known| known.namespaced.or(scope_of(kind.group.as_str(), &known.kind)).is_some())
        };
        let with_one = self.objects.iter().filter(|object| names_namespace(&object.value));
        let namespaced: BTreeSet<_> =
            with_one.map(|object| object.gvr.group_resource()).filter(|kind| !of_known_scope(kind)).collect();
        for object in &mut self.objects {
            if namespaced.contains(&object.gvr.group_resource()) && !names_namespace(&object.value) {
                put_into(&mut object.value, namespace);
            }
        }
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules {
            control_plane: ControlPlane::Kubernetes,
            objects: self.rules.clone(),
            workspaces: Workspaces::new(),
            rule_grants: RuleGrants::default(),
            bound: None,
            unread: self.unread.clone(),
        }
    }

    pub(crate) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Returns the CustomResourceDefinitions and APIResourceSchemas.
    pub(crate) fn definitions(&self) -> &[Document] {
        &self.definitions
    }

    /// Returns every object except rules.
    pub(crate) fn objects(&self) -> &[ManifestObject] {
        &self.objects
    }

    /// Returns the kinds of the rules' dependents and targets.
    fn ends(&self) -> BTreeSet<GroupResource> {
        let rules = self.rules.iter().filter_map(|rule| rule.get("spec"));
        rules.flat_map(ends_of).filter_map(|end| kind_of(end).map(|gvr| gvr.group_resource())).collect()
    }

    /// Reports an object that can't be placed: if a rule names its kind, its references are unknown.
    fn pass_over(&mut self, document: &Document, ends: &BTreeSet<GroupResource>) {
        let own = |field| text(&document.value, field).unwrap_or_default();
        let why = match document.value.pointer("/metadata/name") {
            Some(Value::String(name)) if !name.is_empty() => "its apiVersion and kind are not valid",
            Some(name) if !name.is_string() => "its name is not a string: write it in quotes",
            _ => "it has no name",
        };
        let what = document.shown();
        let kind = self.kind_named(own("apiVersion"), own("kind"));
        if kind.is_some_and(|kind| ends.contains(&kind.gvr.group_resource())) {
            self.unread.push(ReadFailure { what, why: why.to_owned() });
        } else {
            self.remarks.push(format!("skipped {what}: {why}"));
        }
    }

    /// Returns the kind of objects with this `apiVersion` and `kind`; `None` if there can be no such kind.
    fn kind_named(&self, api_version: &str, kind: &str) -> Option<KindInfo> {
        if let Some(known) = self.kinds.of_object(api_version, kind) {
            return Some(known.clone());
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let gvr = GroupVersionResource {
            group: Group::parse(group).ok()?,
            version: Version::parse(version).ok()?,
            resource: guess_resource(kind)?,
        };
        Some(KindInfo::bare(gvr, kind, scope_of(group, kind)))
    }

    /// Finds the kind and the namespace of an object. An object without a name, or of an impossible kind, is handed
    /// back.
    fn place(&mut self, document: Document, namespace: &Namespace) -> Result<ManifestObject, Document> {
        let name = document.value.pointer("/metadata/name").and_then(Value::as_str);
        let known = match (text(&document.value, "apiVersion"), text(&document.value, "kind"), name) {
            (Some(api_version), Some(kind), Some(name)) if !name.is_empty() => self.kind_named(api_version, kind),
            _ => None,
        };
        let Some(known) = known else { return Err(document) };
        self.kinds.learn(known.clone());
        let Document { mut value, origin } = document;
        // The kind may come from a rule, which doesn't say the scope.
        let namespaced = known.namespaced.or_else(|| scope_of(known.gvr.group.as_str(), &known.kind));
        let given = value.pointer("/metadata/namespace").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
        if namespaced == Some(true)
            && !given
            && let Some(metadata) = Arc::make_mut(&mut value).get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("namespace".to_owned(), json!(namespace.as_str()));
        }
        Ok(ManifestObject { gvr: known.gvr, value, origin })
    }
}

/// Keeps each object once. Of several objects with the same name the last counts, as if the files were applied one by
/// one; a remark says where they differ.
fn once(given: Vec<Document>, namespace: &Namespace) -> (Vec<Document>, Vec<String>) {
    let mut places: HashMap<[String; 4], usize> = HashMap::new();
    let (mut kept, mut remarks): (Vec<Document>, _) = (Vec::new(), Vec::new());
    for document in given {
        let own = |pointer| document.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, name, group) = (own("/kind"), own("/metadata/name"), group_of(&document.value).unwrap_or_default());
        // Objects without a name are never duplicates of each other.
        if name.is_empty() {
            kept.push(document);
            continue;
        }
        let within = Some(own("/metadata/namespace")).filter(|given| !given.is_empty());
        let within = within.unwrap_or_else(|| namespace.to_string());
        let identity = [group.to_owned(), kind.clone(), within, name.clone()];
        let Some(known) = places.get(&identity).and_then(|at| kept.get_mut(*at)) else {
            places.insert(identity, kept.len());
            kept.push(document);
            continue;
        };
        if known.value != document.value {
            let (first, last) = (&known.origin, &document.origin);
            remarks.push(format!("{kind}/{name} differs in {first} and {last}; the last one counts"));
        }
        *known = document;
    }
    (kept, remarks)
}

fn names_namespace(object: &Value) -> bool {
    object.pointer("/metadata/namespace").and_then(Value::as_str).is_some_and(|name| !name.is_empty())
}

fn put_into(object: &mut Arc<Value>, namespace: &Namespace) {
    if let Some(metadata) = Arc::make_mut(object).get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("namespace".to_owned(), json!(namespace.as_str()));
    }
}

pub(crate) fn is_definition(object: &Value) -> bool {
    matches!(
        (group_of(object), text(object, "kind")),
        (Some("apiextensions.k8s.io"), Some("CustomResourceDefinition"))
            | (Some("apis.kcp.io"), Some("APIResourceSchema"))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifests(objects: &[Value]) -> Manifests {
        let document =
            |value: &Value| Document { value: Arc::new(value.clone()), origin: Origin { file: "f".into(), line: 1 } };
        Manifests::new(objects.iter().map(document).collect(), &Namespace::parse("ns").unwrap())
    }

    #[test]
    fn a_namespace_is_filled_in_where_the_kind_has_one() {
        let manifests = manifests(&[
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b", "namespace": "other"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "c"}}),
            json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "metadata": {"name": "d"}}),
            json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "metadata": {}}),
        ]);
        let found: Vec<_> = (manifests.objects().iter())
            .map(|object| (object.gvr.group_resource().to_string(), object.value["metadata"]["namespace"].as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("secrets".to_owned(), Some("ns")),
                ("secrets".to_owned(), Some("other")),
                ("clusterroles.rbac.authorization.k8s.io".to_owned(), None),
                ("vpcs.network.example.com".to_owned(), None),
            ]
        );
    }

    #[test]
    fn an_object_in_two_files_is_one_and_the_last_counts() {
        let vpc = |metadata: Value, size: u8| {
            let value = json!({"apiVersion": "n.example.com/v1", "kind": "VPC", "metadata": metadata, "s": size});
            Document { value: Arc::new(value), origin: Origin { file: "f".into(), line: size.into() } }
        };
        let (here, own, other) = (json!({"name": "a", "namespace": "ns"}), json!({"name": "a"}), json!({"name": "b"}));
        let read = |documents: Vec<Document>| {
            let files = Files { documents, ..Files::default() };
            Manifests::of_files(files, &Namespace::parse("ns").unwrap())
        };
        let same = read(vec![vpc(own.clone(), 1), vpc(own.clone(), 1), vpc(other, 1)]);
        assert_eq!((same.objects().len(), same.remarks().len()), (2, 0));
        let different = read(vec![vpc(own, 1), vpc(here, 2)]);
        assert_eq!((different.objects().len(), &different.objects()[0].value["s"]), (1, &json!(2)));
        assert_eq!(different.remarks(), ["VPC/a differs in f:1 and f:2; the last one counts"]);
    }

    #[test]
    fn where_one_object_of_a_kind_has_a_namespace_all_have() {
        let vpc =
            |metadata: Value| json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "metadata": metadata});
        let manifests = manifests(&[vpc(json!({"name": "a"})), vpc(json!({"name": "b", "namespace": "other"}))]);
        let namespaces: Vec<_> =
            manifests.objects().iter().map(|object| object.value["metadata"]["namespace"].as_str()).collect();
        assert_eq!(namespaces, [Some("ns"), Some("other")]);
    }

    #[test]
    fn a_rule_for_kcp_is_read_as_if_its_exports_were_bound() {
        let rule = json!({
            "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "r"},
            "spec": {
                "dependent": {"apiExportName": "e", "group": "a.example.com", "version": "v1", "kind": "A", "resource": "as"},
                "dependencies": [{
                    "apiExportRef": {"path": "root:b", "name": "b"}, "group": "b.example.com", "version": "v1",
                    "resource": "bs", "fieldRef": {"path": ".spec.b"},
                }],
            },
        });
        let manifests = manifests(&[rule]);
        assert!(manifests.rules().parsed().all(|rule| rule.is_ok()));
        assert_eq!(manifests.kinds().find("as").unwrap().kind, "A");
    }
}
