//! Manifests as one cluster in which everything is bound.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use depguard_core::{
    Consents, Group, GroupResource, GroupVersionResource, Home, Namespace, Resource, Version, Workspaces, api,
};
use serde_json::{Value, json};

use crate::files::{Document, Manifests, Origin};
use crate::kinds::{KindInfo, Kinds, guess_resource};
use crate::rules::{Rules, Unread};

/// What the files hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    rules: Vec<Arc<Value>>,
    definitions: Vec<Document>,
    objects: Vec<DiskObject>,
    kinds: Kinds,
    unread: Vec<Unread>,
    remarks: Vec<String>,
}

/// An object, and its kind.
#[derive(Debug, Clone)]
pub(crate) struct DiskObject {
    pub(crate) gvr: GroupVersionResource,
    /// With its namespace, also where the file leaves that out.
    pub(crate) value: Arc<Value>,
    pub(crate) origin: Origin,
}

/// The groups that kube-apiserver itself serves; others below `k8s.io`, such as Gateway API's, come from definitions.
const OWN_GROUPS: [&str; 18] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];
/// Their kinds that have no namespace; their other kinds have one.
const CLUSTER_SCOPED: [&str; 32] = [
    "APIService",
    "CSIDriver",
    "CSINode",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "ComponentStatus",
    "CustomResourceDefinition",
    "DeviceClass",
    "DeviceTaintRule",
    "FlowSchema",
    "IPAddress",
    "IngressClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "ResourceSlice",
    "RuntimeClass",
    "ServiceCIDR",
    "StorageClass",
    "StorageVersion",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
    "VolumeAttributesClass",
];

impl Disk {
    /// Sorts documents into rules, definitions of kinds, and objects. `namespace` is that of objects which name none.
    pub(crate) fn new(documents: Vec<Document>, namespace: &Namespace) -> Self {
        let mut disk = Self::default();
        let (rules, others): (Vec<_>, Vec<_>) = documents.into_iter().partition(|document| is_rule(&document.value));
        for document in &others {
            if is_definition(&document.value) {
                KindInfo::of_definition(&document.value).into_iter().for_each(|kind| disk.kinds.learn(kind));
                disk.definitions.push(document.clone());
            }
        }
        for rule in rules {
            let value = Arc::new(everywhere_bound(&rule.value));
            named_by(&value).into_iter().for_each(|kind| disk.kinds.learn(kind));
            disk.rules.push(value);
        }
        disk.objects = others.into_iter().filter_map(|document| disk.place(document, namespace)).collect();
        disk.fill_in(namespace);
        disk
    }

    /// Those of files, of which some can't be read, or hold no manifests.
    pub(crate) fn of_files(files: Manifests, namespace: &Namespace) -> Self {
        let Manifests { documents, unread, others } = files;
        let (documents, mut remarks) = once(documents, namespace);
        let others = others.into_iter().map(|file| format!("`{file}` holds what is no manifest, and was passed over"));
        remarks.extend(others);
        Self { unread, remarks, ..Self::new(documents, namespace) }
    }

    /// What is to be said of the files before anything else.
    pub(crate) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Where one object of a kind has a namespace, all have: those of which nobody said it are in the one that is meant.
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
            home: Home::Kubernetes,
            objects: self.rules.clone(),
            workspaces: Workspaces::new(),
            consents: Consents::default(),
            bound: None,
            unread: self.unread.clone(),
        }
    }

    pub(crate) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The CustomResourceDefinitions and APIResourceSchemas.
    pub(crate) fn definitions(&self) -> &[Document] {
        &self.definitions
    }

    /// Every object that is no rule.
    pub(crate) fn objects(&self) -> &[DiskObject] {
        &self.objects
    }

    /// An object with its kind and its namespace; `None` where it isn't one.
    fn place(&mut self, document: Document, namespace: &Namespace) -> Option<DiskObject> {
        let Document { mut value, origin } = document;
        let (api_version, kind) = (text(&value, "apiVersion")?, text(&value, "kind")?);
        value.pointer("/metadata/name").and_then(Value::as_str)?;
        let known = match self.kinds.of_object(api_version, kind) {
            Some(known) => known.clone(),
            None => {
                let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                let gvr = GroupVersionResource {
                    group: Group::parse(group).ok()?,
                    version: Version::parse(version).ok()?,
                    resource: guess_resource(kind)?,
                };
                let known = KindInfo::bare(gvr, kind, scope_of(group, kind));
                self.kinds.learn(known.clone());
                known
            }
        };
        // A rule names a kind without its scope.
        let namespaced = known.namespaced.or_else(|| scope_of(known.gvr.group.as_str(), &known.kind));
        let given = value.pointer("/metadata/namespace").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
        if namespaced == Some(true)
            && !given
            && let Some(metadata) = Arc::make_mut(&mut value).get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("namespace".to_owned(), json!(namespace.as_str()));
        }
        Some(DiskObject { gvr: known.gvr, value, origin })
    }
}

/// Each object once. Of several with the same name the last counts, as where the files are applied one by one; where they
/// differ it is said.
fn once(given: Vec<Document>, namespace: &Namespace) -> (Vec<Document>, Vec<String>) {
    let mut places: HashMap<[String; 4], usize> = HashMap::new();
    let (mut kept, mut remarks): (Vec<Document>, _) = (Vec::new(), Vec::new());
    for document in given {
        let own = |pointer| document.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, name, group) = (own("/kind"), own("/metadata/name"), group_of(&document.value).unwrap_or_default());
        // What has no name is told apart by where it stands.
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
            remarks.push(format!("{kind}/{name} is in {first} and, different, in {last}: the last one is looked at"));
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

/// Whether a kind has namespaces, for Kubernetes' own and depguard's; `None`: nobody said.
fn scope_of(group: &str, kind: &str) -> Option<bool> {
    match (group, kind) {
        (api::GROUP, "ObjectLock") => Some(true),
        (api::GROUP, _) => Some(false),
        _ => {
            let is_own = !group.contains('.') || OWN_GROUPS.contains(&group);
            is_own.then(|| !CLUSTER_SCOPED.contains(&kind))
        }
    }
}

pub(crate) fn is_rule(object: &Value) -> bool {
    text(object, "kind") == Some(api::KIND) && group_of(object) == Some(api::GROUP)
}

pub(crate) fn is_definition(object: &Value) -> bool {
    matches!(
        (group_of(object), text(object, "kind")),
        (Some("apiextensions.k8s.io"), Some("CustomResourceDefinition"))
            | (Some("apis.kcp.io"), Some("APIResourceSchema"))
    )
}

/// A rule that was written for kcp, as if its exports were bound in the one cluster that there is.
fn everywhere_bound(rule: &Value) -> Value {
    let mut rule = rule.clone();
    let Some(spec) = rule.get_mut("spec") else { return rule };
    if let Some(dependent) = spec.get_mut("dependent").and_then(Value::as_object_mut) {
        dependent.remove("apiExportName");
    }
    let dependencies = spec.get_mut("dependencies").and_then(Value::as_array_mut).into_iter().flatten();
    for dependency in dependencies {
        if let Some(dependency) = dependency.as_object_mut() {
            dependency.remove("apiExportRef");
        }
    }
    rule
}

/// The kinds that a rule names, as far as it says their names.
fn named_by(rule: &Value) -> Vec<KindInfo> {
    let spec = rule.get("spec").unwrap_or(&Value::Null);
    let dependencies = spec.get("dependencies").and_then(Value::as_array).into_iter().flatten();
    let named = spec.get("dependent").into_iter().chain(dependencies);
    let kinds = named.filter_map(|named| {
        let gvr = GroupVersionResource {
            group: Group::parse(text(named, "group")?).ok()?,
            version: Version::parse(text(named, "version")?).ok()?,
            resource: Resource::parse(text(named, "resource")?).ok()?,
        };
        Some(KindInfo::bare(gvr, text(named, "kind")?, None))
    });
    kinds.collect()
}

fn group_of(object: &Value) -> Option<&str> {
    text(object, "apiVersion")?.split_once('/').map(|(group, _)| group)
}

fn text<'v>(object: &'v Value, field: &str) -> Option<&'v str> {
    object.get(field).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(objects: &[Value]) -> Disk {
        let document =
            |value: &Value| Document { value: Arc::new(value.clone()), origin: Origin { file: "f".into(), line: 1 } };
        Disk::new(objects.iter().map(document).collect(), &Namespace::parse("ns").unwrap())
    }

    #[test]
    fn a_namespace_is_filled_in_where_the_kind_has_one() {
        let disk = disk(&[
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b", "namespace": "other"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "c"}}),
            json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "metadata": {"name": "d"}}),
            json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "metadata": {}}),
        ]);
        let found: Vec<_> = (disk.objects().iter())
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
    fn only_kube_apiservers_own_groups_are_known_and_below_k8s_io_are_others() {
        for (group, kind, namespaced) in [
            ("", "Secret", Some(true)),
            ("", "Node", Some(false)),
            ("apps", "Deployment", Some(true)),
            ("networking.k8s.io", "Ingress", Some(true)),
            ("networking.k8s.io", "ServiceCIDR", Some(false)),
            ("storage.k8s.io", "VolumeAttributesClass", Some(false)),
            ("gateway.networking.k8s.io", "GatewayClass", None),
            ("snapshot.storage.k8s.io", "VolumeSnapshotClass", None),
            ("policy.networking.k8s.io", "AdminNetworkPolicy", None),
            ("network.example.com", "VPC", None),
            (api::GROUP, "ObjectLock", Some(true)),
            (api::GROUP, "ClusterObjectLock", Some(false)),
        ] {
            assert_eq!(scope_of(group, kind), namespaced, "{group} {kind}");
        }
    }

    #[test]
    fn an_object_in_two_files_is_one_and_the_last_counts() {
        let vpc = |metadata: Value, size: u8| {
            let value = json!({"apiVersion": "n.example.com/v1", "kind": "VPC", "metadata": metadata, "s": size});
            Document { value: Arc::new(value), origin: Origin { file: "f".into(), line: size.into() } }
        };
        let (here, own, other) = (json!({"name": "a", "namespace": "ns"}), json!({"name": "a"}), json!({"name": "b"}));
        let read = |documents: Vec<Document>| {
            let files = Manifests { documents, ..Manifests::default() };
            Disk::of_files(files, &Namespace::parse("ns").unwrap())
        };
        let same = read(vec![vpc(own.clone(), 1), vpc(own.clone(), 1), vpc(other, 1)]);
        assert_eq!((same.objects().len(), same.remarks().len()), (2, 0));
        let different = read(vec![vpc(own, 1), vpc(here, 2)]);
        assert_eq!((different.objects().len(), &different.objects()[0].value["s"]), (1, &json!(2)));
        assert_eq!(different.remarks(), ["VPC/a is in f:1 and, different, in f:2: the last one is looked at"]);
    }

    #[test]
    fn where_one_object_of_a_kind_has_a_namespace_all_have() {
        let vpc =
            |metadata: Value| json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "metadata": metadata});
        let disk = disk(&[vpc(json!({"name": "a"})), vpc(json!({"name": "b", "namespace": "other"}))]);
        let namespaces: Vec<_> =
            disk.objects().iter().map(|object| object.value["metadata"]["namespace"].as_str()).collect();
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
        let disk = disk(&[rule]);
        assert!(disk.rules().parsed().all(|rule| rule.is_ok()));
        assert_eq!(disk.kinds().find("as").unwrap().kind, "A");
    }
}
