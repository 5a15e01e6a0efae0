//! Facts about a kind: its name, its scope, its versions, its schema.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::model::field_path::FieldPath;
use crate::model::names::{GroupResource, GroupVersionResource};
use crate::schema::built_in_fields::built_in_fields;
use crate::schema::openapi::{PRESERVES_UNKNOWN, Schema};

/// API groups of the kinds that a kube-apiserver serves itself. All its other kinds have CustomResourceDefinitions, or are
/// served by aggregated API servers.
const OWN_GROUPS: [&str; 23] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Result of reading a kind.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum KindState {
    /// Facts about the kind.
    Facts(Arc<KindFacts>),
    /// There is no such kind in this version.
    NotServed,
    /// No kind of this group is served, nor of a group that is written nearly so.
    NotInstalled,
    /// The kind could not be read, for this reason.
    Unknown(String),
}

/// Facts about a kind in one of its versions.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct KindFacts {
    /// Name of the kind: `VPC`.
    pub kind: String,
    /// True if its objects are in namespaces.
    pub namespaced: bool,
    /// Versions that are served.
    pub served: Vec<String>,
    /// Schema of the version, if it is available.
    pub schema: Option<Schema>,
    /// Fields by which an API server can select objects of this version.
    pub selectable: Vec<FieldPath>,
    /// Fields that an API server prints in tables of this version, and that it names in these tables.
    pub printed: Vec<FieldPath>,
    /// True if the kind's provider can change its schema.
    pub is_custom: bool,
    /// True if on Kubernetes an aggregated API server serves the kind, which asks webhooks only if it is set up to. `None`:
    /// that is not known, since the kind's definition can't be seen.
    pub is_aggregated: Option<bool>,
}

impl KindState {
    /// Reads an APIResourceSchema or a CustomResourceDefinition.
    pub fn from_definition(object: &Value, version: &str) -> Self {
        match KindFacts::from_definition(object, version) {
            Some(facts) => Self::from(facts),
            None => Self::Unknown("its definition can't be read".to_owned()),
        }
    }

    /// Leaves the schema out, which takes most of the memory.
    #[must_use]
    pub fn without_schema(self) -> Self {
        match self {
            Self::Facts(mut facts) => {
                Arc::make_mut(&mut facts).schema = None;
                Self::Facts(facts)
            }
            seen => seen,
        }
    }

    /// Returns the facts, if they are known.
    pub fn facts(&self) -> Option<&KindFacts> {
        match self {
            Self::Facts(facts) => Some(facts),
            Self::NotServed | Self::NotInstalled | Self::Unknown(_) => None,
        }
    }
}

impl From<KindFacts> for KindState {
    fn from(facts: KindFacts) -> Self {
        Self::Facts(Arc::new(facts))
    }
}

impl KindFacts {
    /// Reads an APIResourceSchema or a CustomResourceDefinition.
    pub fn from_definition(object: &Value, version: &str) -> Option<Self> {
        let spec = object.get("spec")?;
        let versions = spec.get("versions")?.as_array()?;
        let named = |found: &&Value| text(found, "name") == Some(version);
        let served = versions.iter().filter(|found| found.get("served") == Some(&Value::Bool(true)));
        let found = versions.iter().find(named);
        let schema = found.and_then(|found| found.get("schema"));
        // A CustomResourceDefinition has its schema a level deeper.
        let schema = schema.map(|schema| schema.get("openAPIV3Schema").unwrap_or(schema));
        Some(Self {
            kind: text(spec.get("names")?, "kind")?.to_owned(),
            namespaced: text(spec, "scope")? == "Namespaced",
            served: served.filter_map(|found| text(found, "name").map(str::to_owned)).collect(),
            schema: schema.map(|schema| Schema { root: plain(schema), components: Map::new() }),
            selectable: paths(found.and_then(|found| found.get("selectableFields")), "jsonPath"),
            printed: found.map(printed).unwrap_or_default(),
            is_custom: true,
            is_aggregated: Some(false),
        })
    }

    /// Reads the discovery of a group's version, an APIResourceList; `None` if it has no such resource. The kind counts as
    /// one without a definition: if it is none of Kubernetes' own, an aggregated API server serves it.
    pub fn from_discovery(list: &Value, gvr: &GroupVersionResource) -> Option<Self> {
        let resources = list.get("resources")?.as_array()?;
        let found = resources.iter().find(|found| text(found, "name") == Some(gvr.resource.as_str()))?;
        Some(Self {
            kind: text(found, "kind")?.to_owned(),
            namespaced: found.get("namespaced") == Some(&Value::Bool(true)),
            served: vec![gvr.version.to_string()],
            schema: None,
            selectable: built_in_fields(gvr),
            printed: Vec::new(),
            is_custom: false,
            is_aggregated: Some(!OWN_GROUPS.contains(&gvr.group.as_str())),
        })
    }

    /// Returns the facts of a kind whose definition can't be seen, although there may be one.
    #[must_use]
    pub fn with_unseen_definition(mut self) -> Self {
        self.is_aggregated = self.is_aggregated.filter(|is_aggregated| !is_aggregated);
        self
    }

    /// Returns the reason why API servers may ask no webhook about the kind on Kubernetes, with what to do; `None` if they
    /// ask. Of a target the deletion matters, of a dependent the creation.
    pub fn may_go_unreviewed(&self, kind: &GroupResource, is_target: bool) -> Option<String> {
        let attempt = match is_target {
            true => "`kubectl delete --dry-run=server` of an object to which another one refers",
            false => "`kubectl create --dry-run=server` of an object that refers to a missing one",
        };
        match self.is_aggregated {
            Some(false) => None,
            Some(true) => Some(format!(
                "{kind} has no CustomResourceDefinition, so an aggregated API server serves it, which asks webhooks only if it \
                 is set up to: try {attempt}, to which depguard answers if it is asked"
            )),
            None => Some(format!(
                "an aggregated API server may serve {kind}, which asks webhooks only if it is set up to: grant `get` of \
                 customresourcedefinitions.apiextensions.k8s.io, so that depguard can tell"
            )),
        }
    }

    /// Adds the schema that an API server publishes for a group's version, in OpenAPI v3. Only the parts that the kind
    /// needs are kept.
    pub fn with_published(mut self, document: &Value, gvr: &GroupVersionResource) -> Self {
        let Some(all) = document.pointer("/components/schemas").and_then(Value::as_object) else { return self };
        let is_kind = |schema: &Value| {
            let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
            kinds.into_iter().flatten().any(|kind| {
                text(kind, "kind") == Some(&self.kind)
                    && text(kind, "version") == Some(gvr.version.as_str())
                    && text(kind, "group").unwrap_or_default() == gvr.group.as_str()
            })
        };
        let Some(root) = all.values().find(|schema| is_kind(schema)) else { return self };
        let root = opened(plain(root));
        let mut components = Map::new();
        let mut needed = Vec::new();
        references(&root, &mut needed);
        while let Some(name) = needed.pop() {
            if let (false, Some(schema)) = (components.contains_key(&name), all.get(&name)) {
                let schema = opened(plain(schema));
                references(&schema, &mut needed);
                components.insert(name, schema);
            }
        }
        self.selectable.extend(paths(root.get("x-kubernetes-selectable-fields"), "fieldPath"));
        self.schema = Some(Schema { root, components });
        self
    }
}

/// Returns a schema without its descriptions, which are most of it.
fn plain(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, value)| *name != "description" || !value.is_string());
            Value::Object(kept.map(|(name, value)| (name.clone(), plain(value))).collect())
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

/// Opens the objects of a published schema about which it says nothing but that they are objects: Kubernetes' document
/// describes fields that hold any object in this way.
fn opened(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let says_more = ["properties", "additionalProperties", "allOf", "anyOf", "oneOf", "$ref"];
            let is_any = fields.get("type").is_some_and(|kind| kind == "object")
                && !says_more.iter().any(|word| fields.contains_key(*word));
            let mut fields: Map<_, _> = fields.into_iter().map(|(name, value)| (name, opened(value))).collect();
            if is_any {
                fields.insert(PRESERVES_UNKNOWN.to_owned(), Value::Bool(true));
            }
            Value::Object(fields)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(opened).collect()),
        other => other,
    }
}

/// Collects the names of the schemas that a schema refers to.
fn references(schema: &Value, into: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            into.extend(name.and_then(|name| name.rsplit('/').next()).map(str::to_owned));
            fields.values().for_each(|value| references(value, into));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, into)),
        _ => {}
    }
}

/// Returns the fields of printed columns that tables name. A table names the field in the column's description, and
/// only if the schema gives no description.
fn printed(version: &Value) -> Vec<FieldPath> {
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_array).into_iter().flatten();
    let telling = |column: &&Value| {
        text(column, "type") == Some("string") && text(column, "description").unwrap_or_default().is_empty()
    };
    let telling: Vec<_> = columns.filter(telling).cloned().collect();
    paths(Some(&Value::Array(telling)), "jsonPath")
}

fn paths(fields: Option<&Value>, path: &str) -> Vec<FieldPath> {
    let fields = fields.and_then(Value::as_array).into_iter().flatten();
    fields.filter_map(|field| FieldPath::parse(text(field, path)?).ok()).collect()
}

fn text<'v>(object: &'v Value, field: &str) -> Option<&'v str> {
    object.get(field)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::names::{Group, Resource, Version};
    use crate::schema::openapi::{ExpectedType, SchemaFit};

    fn gvr(group: &str, version: &str, resource: &str) -> GroupVersionResource {
        GroupVersionResource {
            group: Group::parse(group).unwrap(),
            version: Version::parse(version).unwrap(),
            resource: Resource::parse(resource).unwrap(),
        }
    }

    fn fit(facts: &KindFacts, path: &str) -> SchemaFit {
        facts.schema.as_ref().unwrap().fit(&FieldPath::parse(path).unwrap(), ExpectedType::Names)
    }

    #[test]
    fn a_definition_tells_scope_versions_and_schema_in_either_shape() {
        let schema = json!({"type": "object", "description": "x", "properties": {
            "spec": {"type": "object", "properties": {"description": {"type": "string", "description": "x"}}},
        }});
        for schema in [schema.clone(), json!({"openAPIV3Schema": schema})] {
            let object = json!({"spec": {"scope": "Namespaced", "names": {"kind": "VM"}, "versions": [
                {"name": "v1", "served": true, "schema": schema, "selectableFields": [{"jsonPath": ".spec.description"}],
                    "additionalPrinterColumns": [
                        {"name": "A", "type": "string", "jsonPath": ".spec.a"},
                        {"name": "B", "type": "string", "jsonPath": ".spec.b", "description": "of our own"},
                        {"name": "C", "type": "integer", "jsonPath": ".spec.c"},
                    ]},
                {"name": "v1alpha1", "served": false, "schema": {}},
            ]}});
            let facts = KindFacts::from_definition(&object, "v1").unwrap();
            assert_eq!((facts.kind.as_str(), facts.namespaced, &*facts.served), ("VM", true, &["v1".to_owned()][..]));
            assert_eq!(fit(&facts, ".spec.description"), SchemaFit::Fits);
            assert_eq!(facts.selectable, [FieldPath::parse(".spec.description").unwrap()]);
            assert_eq!(facts.printed, [FieldPath::parse(".spec.a").unwrap()]);
            assert_eq!(KindFacts::from_definition(&object, "v2").unwrap().schema, None);
        }
        assert_eq!(KindFacts::from_definition(&json!({"spec": {}}), "v1"), None);
    }

    #[test]
    fn a_published_schema_is_cut_down_to_what_the_kind_needs() {
        let discovery = json!({"resources": [
            {"name": "pods/status", "kind": "Pod", "namespaced": true}, {"name": "pods", "kind": "Pod", "namespaced": true},
        ]});
        let document = json!({"components": {"schemas": {
            "a.Pod": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "", "kind": "Pod", "version": "v1"}],
                "properties": {"metadata": {"allOf": [{"$ref": "#/components/schemas/a.Meta"}]},
                    "spec": {"allOf": [{"$ref": "#/components/schemas/a.Spec"}]}}},
            "a.Meta": {"type": "object", "properties": {"name": {"type": "string"}}},
            "a.Spec": {"type": "object", "properties": {"account": {"type": "string"}, "self": {"$ref": "#/components/schemas/a.Spec"},
                "any": {"description": "Any object.", "type": "object", "default": {}}}},
            "a.Other": {"type": "object"},
        }}});
        let pods = gvr("", "v1", "pods");
        let facts = KindFacts::from_discovery(&discovery, &pods).unwrap().with_published(&document, &pods);
        let components = &facts.schema.as_ref().unwrap().components;
        assert_eq!(components.keys().collect::<Vec<_>>(), ["a.Meta", "a.Spec"]);
        assert_eq!(fit(&facts, ".spec.self.account"), SchemaFit::Fits);
        assert_eq!(fit(&facts, ".metadata.name"), SchemaFit::Fits);
        assert!(matches!(fit(&facts, ".spec.acount"), SchemaFit::Missing(_)));
        // The document says of an object of any kind only that it is one.
        assert_eq!(fit(&facts, ".spec.any.of.kind"), SchemaFit::Open);
        assert_eq!(KindFacts::from_discovery(&discovery, &gvr("", "v1", "secrets")), None);
    }

    #[test]
    fn a_kind_without_a_definition_is_kubernetes_own_or_an_aggregated_servers() {
        let list = json!({"resources": [{"name": "as", "kind": "A", "namespaced": true}]});
        let facts = |group| KindFacts::from_discovery(&list, &gvr(group, "v1", "as")).unwrap();
        for (group, is_aggregated) in [
            ("", false),
            ("apps", false),
            ("rbac.authorization.k8s.io", false),
            ("metrics.k8s.io", true),
            ("gateway.networking.k8s.io", true),
            ("apps.example.com", true),
        ] {
            assert_eq!(facts(group).is_aggregated, Some(is_aggregated), "{group}");
            let unseen = facts(group).with_unseen_definition();
            assert_eq!(unseen.is_aggregated, (!is_aggregated).then_some(false), "{group}");
            let kind = gvr(group, "v1", "as").group_resource();
            assert_eq!(facts(group).may_go_unreviewed(&kind, true).is_some(), is_aggregated, "{group}");
            assert_eq!(unseen.may_go_unreviewed(&kind, true).is_some(), is_aggregated, "{group}");
        }
        let definition = json!({"spec": {"group": "metrics.k8s.io", "scope": "Cluster", "names": {"kind": "A"},
            "versions": [{"name": "v1", "served": true}]}});
        assert_eq!(KindFacts::from_definition(&definition, "v1").unwrap().is_aggregated, Some(false));
    }
}
