//! Check of a path against the OpenAPI schema of a kind.

mod objects;
mod paths;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::model::api::Scalar;
use crate::model::field_path::{FieldPath, Segment};

/// Schema of a kind, as an APIResourceSchema or a CustomResourceDefinition holds it, or as an API server publishes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    pub(crate) root: Value,
    /// Targets of `$ref`s to `#/components/schemas/…`.
    pub(crate) components: Map<String, Value>,
}

/// Type of the value that must be at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum ExpectedType {
    /// A string.
    Text,
    /// A string, or a list of strings.
    Names,
    /// A map.
    Map,
    /// One of some scalars.
    Scalar(ScalarTypes),
}

/// Types of some scalars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a scalar has no further types")]
pub struct ScalarTypes {
    /// True if one is a string.
    pub text: bool,
    /// True if one is a boolean.
    pub boolean: bool,
    /// True if one is an integer.
    pub integer: bool,
}

/// Result of following a path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum SchemaFit {
    /// The value at the path is as expected.
    Fits,
    /// Any value may be at the path: the schema does not say.
    Open,
    /// No value is ever at the path, for this reason.
    Missing(String),
    /// The value at the path is never as expected, for this reason.
    Other(String),
}

/// Field of a schema: unknown fields of the object are kept, so that there may be any.
pub(super) const PRESERVES_UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";
/// Field of a schema: the object is one of some kind, with the fields that every object has.
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
/// Field of a schema: the value is an integer or a string.
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
/// Maximum number of references that are followed from one to the next.
const MAX_REFERENCES: usize = 16;
/// Maximum number of schemas to which a path may lead at once, by its wildcards.
const MAX_NODES: usize = 2000;
/// Maximum number of fields that a message about a missing field names.
const MAX_NAMED: usize = 12;
const REFERENCE: &str = "#/components/schemas/";

impl Schema {
    /// Follows a path. If wildcards lead to several nodes, the best result counts.
    pub fn fit(&self, path: &FieldPath, expected: ExpectedType) -> SchemaFit {
        let mut search = SchemaSearch { schema: self, open: false, never: None };
        let Some(nodes) = search.follow(path) else { return SchemaFit::Open };
        let so_far = path.to_string();
        let fits = nodes.into_iter().any(|node| search.leaf(node, expected, &so_far));
        match search {
            _ if fits => SchemaFit::Fits,
            SchemaSearch { open: true, .. } => SchemaFit::Open,
            SchemaSearch { never, .. } => {
                never.unwrap_or_else(|| SchemaFit::Missing(format!("`{so_far}` never has a value")))
            }
        }
    }

    /// Returns the fields that the schema describes in the objects at a path; none if it describes too many objects.
    pub(super) fn fields(&self, path: &FieldPath) -> BTreeSet<&str> {
        let nodes = SchemaSearch { schema: self, open: false, never: None }.follow(path);
        let nodes = nodes.into_iter().flatten().map(|node| self.resolve(node));
        nodes.filter_map(|node| node.get("properties")?.as_object()).flat_map(Map::keys).map(String::as_str).collect()
    }

    /// Returns the strings that an API server may fill in where the value at a path is absent.
    pub(super) fn defaults(&self, path: &FieldPath) -> BTreeSet<&str> {
        let nodes = SchemaSearch { schema: self, open: false, never: None }.follow(path);
        let nodes = nodes.into_iter().flatten();
        nodes.filter_map(|node| node.get("default").or_else(|| self.resolve(node).get("default"))?.as_str()).collect()
    }

    /// Returns the schema that a node refers to, if the node is only a reference; else the node itself.
    fn resolve<'s>(&'s self, mut node: &'s Value) -> &'s Value {
        for _ in 0..MAX_REFERENCES {
            let only = node.get("allOf").and_then(Value::as_array).and_then(|all| all.first());
            let reference = node.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix(REFERENCE));
            node = match (reference, only) {
                (Some(name), _) => match self.components.get(name) {
                    Some(component) => component,
                    None => return node,
                },
                (None, Some(only)) if node.get("type").is_none() && node.get("properties").is_none() => only,
                _ => return node,
            };
        }
        node
    }
}

/// Findings on the way along a path.
struct SchemaSearch<'s> {
    schema: &'s Schema,
    open: bool,
    never: Option<SchemaFit>,
}

impl<'s> SchemaSearch<'s> {
    /// Follows a path. Returns the schemas to which the path leads, by its wildcards perhaps to several; `None` if these are
    /// too many.
    fn follow(&mut self, path: &FieldPath) -> Option<Vec<&'s Value>> {
        let mut nodes = vec![&self.schema.root];
        let mut so_far = String::new();
        for (depth, segment) in path.segments().iter().enumerate() {
            let mut next = Vec::new();
            for node in nodes {
                self.step(node, segment, depth == 0, &so_far, &mut next);
                if next.len() > MAX_NODES {
                    return None;
                }
            }
            nodes = next;
            so_far.push_str(&segment.to_string());
        }
        Some(nodes)
    }

    /// Follows one segment from a node, and adds the nodes to which it leads to `next`.
    fn step(&mut self, node: &'s Value, segment: &Segment, at_root: bool, so_far: &str, next: &mut Vec<&'s Value>) {
        let node = self.schema.resolve(node);
        let before = next.len();
        let properties = node.get("properties").and_then(Value::as_object);
        let others = node.get("additionalProperties");
        let is_object = at_root || flag(node, EMBEDDED);
        match segment {
            Segment::Name(name) => {
                let own = properties.and_then(|properties| properties.get(name));
                let known = if is_object { every_object_s(name, own) } else { None };
                next.extend(known.or(own).or(others.filter(|others| others.is_object())));
            }
            Segment::Index(_) => next.extend(node.get("items")),
            Segment::Wildcard => {
                next.extend(node.get("items"));
                next.extend(properties.into_iter().flat_map(Map::values));
                next.extend(others.filter(|others| others.is_object()));
            }
            // No schema describes the JSON.
            Segment::FromJson => {
                return match type_of(node) {
                    Some("string") | None => self.open = true,
                    Some(found) => self.never(|| {
                        SchemaFit::Other(format!("`{so_far}` is of type {found}, and only a string holds JSON"))
                    }),
                };
            }
        }
        if next.len() > before {
            return;
        }
        if is_open(node) || others == Some(&Value::Bool(true)) {
            self.open = true;
        } else {
            self.never(|| SchemaFit::Missing(missing(node, properties, segment, so_far)));
        }
    }

    /// Returns true if the expected value may be at a node.
    fn leaf(&mut self, node: &Value, expected: ExpectedType, so_far: &str) -> bool {
        let node = self.schema.resolve(node);
        let is = |what: &str, hint: &str| format!("`{so_far}` is {what}, which can't hold a reference{hint}");
        let why = match (type_of(node), expected) {
            (Some("string"), ExpectedType::Text | ExpectedType::Names) | (Some("object"), ExpectedType::Map) => {
                return true;
            }
            (Some(found), ExpectedType::Scalar(types)) if types.hold(found) => return true,
            (_, ExpectedType::Scalar(types)) if flag(node, INT_OR_STRING) => {
                if types.text || types.integer {
                    return true;
                }
                format!("`{so_far}` is an integer or a string, and no listed value is")
            }
            (Some(found), ExpectedType::Scalar(_)) => format!("`{so_far}` is of type {found}, and no listed value is"),
            _ if flag(node, INT_OR_STRING) && expected != ExpectedType::Map => return true,
            (Some("array"), ExpectedType::Names) => {
                let Some(items) = node.get("items") else { return false };
                return self.leaf(items, ExpectedType::Text, &format!("{so_far}[*]"));
            }
            (Some("array"), _) => is("a list", ": write `[*]` after it for its items"),
            (Some("object"), _) => is("an object", ": write the path of a string in it"),
            (Some(scalar), ExpectedType::Map) => format!("`{so_far}` is a {scalar}, but must be a map"),
            (Some(scalar), _) => is(&format!("of type {scalar}"), ": only strings can"),
            (None, _) => {
                self.open = true;
                return false;
            }
        };
        self.never(|| SchemaFit::Other(why));
        false
    }

    fn never(&mut self, why: impl FnOnce() -> SchemaFit) {
        self.never.get_or_insert_with(why);
    }
}

impl ScalarTypes {
    /// Returns true if a value of this type may be one of the scalars.
    fn hold(self, found: &str) -> bool {
        let Self { text, boolean, integer } = self;
        match found {
            "string" => text,
            "boolean" => boolean,
            "integer" | "number" => integer,
            _ => false,
        }
    }
}

impl<'v> FromIterator<&'v Scalar> for ScalarTypes {
    fn from_iter<I: IntoIterator<Item = &'v Scalar>>(values: I) -> Self {
        values.into_iter().fold(Self::default(), |types, value| match value {
            Scalar::Text(_) => Self { text: true, ..types },
            Scalar::Boolean(_) => Self { boolean: true, ..types },
            Scalar::Integer(_) => Self { integer: true, ..types },
        })
    }
}

fn missing(node: &Value, properties: Option<&Map<String, Value>>, segment: &Segment, so_far: &str) -> String {
    let here = if so_far.is_empty() { "the object".to_owned() } else { format!("`{so_far}`") };
    match (segment, type_of(node)) {
        (Segment::Name(_), Some("array")) => format!("{here} is a list: write `[*]` after it for its items"),
        (Segment::Name(name), Some("object") | None) => {
            let names: Vec<_> = properties.into_iter().flat_map(Map::keys).map(|name| format!("`{name}`")).collect();
            let more = if names.len() > MAX_NAMED { ", …" } else { "" };
            let has = match names.get(..names.len().min(MAX_NAMED)).unwrap_or_default() {
                [] => "none".to_owned(),
                names => format!("{}{more}", names.join(", ")),
            };
            format!("{here} has no field `{name}`: it has {has}")
        }
        (Segment::Name(name), Some(scalar)) => format!("{here} is of type {scalar}, and has no field `{name}`"),
        (Segment::Index(_), _) => format!("{here} is not a list"),
        (Segment::Wildcard | Segment::FromJson, _) => format!("{here} is neither a list nor a map"),
    }
}

/// Returns true for a node of any type, and for one whose unknown fields are kept.
fn is_open(node: &Value) -> bool {
    flag(node, PRESERVES_UNKNOWN) || type_of(node).is_none()
}

/// Returns the type of a node; `None` if any value may be there.
fn type_of(node: &Value) -> Option<&str> {
    let implied = node.get("properties").or(node.get("additionalProperties")).map(|_| "object");
    node.get("type").and_then(Value::as_str).or(implied)
}

fn flag(node: &Value, name: &str) -> bool {
    node.get(name) == Some(&Value::Bool(true))
}

/// Returns the schema of a field that every object has, even if the kind's schema does not describe it.
fn every_object_s(name: &str, own: Option<&Value>) -> Option<&'static Value> {
    static EVERY: LazyLock<Value> = LazyLock::new(|| {
        let text = json!({"type": "string"});
        let texts = json!({"type": "object", "additionalProperties": text});
        let owner = json!({"type": "object", "properties": {
            "apiVersion": text, "kind": text, "name": text, "uid": text,
            "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"},
        }});
        json!({"apiVersion": text, "kind": text, "metadata": {"type": "object", "properties": {
            "name": text, "generateName": text, "namespace": text, "uid": text, "resourceVersion": text,
            "creationTimestamp": text, "deletionTimestamp": text, "selfLink": text,
            "generation": {"type": "integer"}, "deletionGracePeriodSeconds": {"type": "integer"},
            "labels": texts, "annotations": texts, "finalizers": {"type": "array", "items": text},
            "ownerReferences": {"type": "array", "items": owner},
            "managedFields": {"type": "array", "items": {"type": "object"}},
        }}})
    });
    // A published schema refers to a complete one, which is as good.
    let says_all = own.is_some_and(|own| own.get("$ref").is_some() || own.get("allOf").is_some());
    if says_all { None } else { EVERY.get(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        let root = json!({"type": "object", "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {
                "vpcRef": {"type": "object", "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}},
                "networks": {"type": "array", "items": {"type": "object", "properties": {
                    "vpc": {"type": "string"}, "zones": {"type": "array", "items": {"type": "string"}},
                }}},
                "ports": {"type": "array", "items": {"type": "integer"}},
                "selector": {"type": "object", "properties": {
                    "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
                }},
                "byName": {"type": "object", "additionalProperties": {"type": "object", "properties": {"vpc": {"type": "string"}}}},
                "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                    "size": {"type": "integer"},
                }},
                "free": {"x-kubernetes-preserve-unknown-fields": true},
                "either": {"x-kubernetes-int-or-string": true},
                "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {}},
                "pod": {"allOf": [{"$ref": "#/components/schemas/Pod"}], "default": {}},
                "lost": {"$ref": "#/components/schemas/Lost"},
                "endless": {"$ref": "#/components/schemas/Endless"},
            }},
        }});
        let components = json!({
            "Pod": {"type": "object", "properties": {"claim": {"type": "string"}, "next": {"$ref": "#/components/schemas/Pod"}}},
            "Endless": {"$ref": "#/components/schemas/Endless"},
        });
        Schema { root, components: components.as_object().cloned().unwrap() }
    }

    #[test]
    fn a_path_fits_is_open_or_leads_nowhere() {
        use ExpectedType::{Map, Names, Text};
        let (fits, open) = ("fits", "open");
        for (path, expected_type, expected) in [
            (".spec.vpcRef.name", Names, fits),
            (".spec.networks[*].vpc", Names, fits),
            (".spec.networks[0].vpc", Text, fits),
            (".spec.networks[*].zones", Names, fits),
            (".spec.networks[*].zones[*]", Text, fits),
            (".spec.networks.*.vpc", Names, fits),
            (".spec.byName.*.vpc", Names, fits),
            (".spec.byName.any.vpc", Names, fits),
            (".spec.byName['a/b'].vpc", Names, fits),
            (".spec.byName", Map, fits),
            (".spec.selector", Map, fits),
            (".spec.selector.matchLabels", Map, fits),
            (".spec.*.name", Names, fits),
            (".spec.either", Text, fits),
            (".spec.pod.claim", Names, fits),
            (".spec.pod.next.next.claim", Names, fits),
            (".metadata.name", Text, fits),
            (".metadata.annotations['example.com/vpc']", Names, fits),
            (".metadata.ownerReferences[*].name", Names, fits),
            (".metadata.ownerReferences[*].uid", Text, fits),
            (".metadata.finalizers", Names, fits),
            (".kind", Text, fits),
            (".spec.template.metadata.labels.a", Text, fits),
            (".spec.anything.vpc", Names, open),
            (".spec.anything.vpc[*].name", Names, open),
            (".spec.anything", Map, fits),
            (".metadata.annotations['a/b'].fromJSON()[*].name", Names, open),
            (".spec.vpcRef.name.fromJSON()", Map, open),
            (".spec.networks[*].vpc.fromJSON()", Names, open),
            (".spec.either.fromJSON().a", Text, open),
            (".spec.free.a.fromJSON()", Names, open),
            (".spec.free", Names, open),
            (".spec.free.a.b", Map, open),
            (".spec.lost.name", Names, open),
            (".spec.endless.name", Names, open),
            (".spec.anything.size", Names, "`.spec.anything.size` is of type integer"),
            (".spec.vpcRef.nam", Names, "`.spec.vpcRef` has no field `nam`: it has `name`, `port`"),
            (".spek.vpcRef.name", Names, "the object has no field `spek`: it has `metadata`, `spec`"),
            (".spec.vpcRef.name.x", Names, "`.spec.vpcRef.name` is of type string, and has no field `x`"),
            (
                ".spec.vpcRef.port",
                Names,
                "`.spec.vpcRef.port` is of type integer, which can't hold a reference: only strings can",
            ),
            (".spec.vpcRef", Names, "`.spec.vpcRef` is an object, which can't hold a reference"),
            (".spec.vpcRef.name", Map, "`.spec.vpcRef.name` is a string, but must be a map"),
            (".spec.networks.vpc", Names, "`.spec.networks` is a list: write `[*]` after it"),
            (".spec.networks", Names, "`.spec.networks[*]` is an object"),
            (".spec.ports", Names, "`.spec.ports[*]` is of type integer"),
            (".spec.networks[*].zones", Text, "`.spec.networks[*].zones` is a list"),
            (".spec.vpcRef[0]", Names, "`.spec.vpcRef` is not a list"),
            (".spec.vpcRef.name[*]", Names, "`.spec.vpcRef.name` is neither a list nor a map"),
            (".spec.vpcRef.fromJSON().name", Names, "`.spec.vpcRef` is of type object, and only a string holds JSON"),
            (
                ".spec.vpcRef.port.fromJSON()",
                Names,
                "`.spec.vpcRef.port` is of type integer, and only a string holds JSON",
            ),
            (".spec.vpcRef.nam.fromJSON()[*]", Names, "`.spec.vpcRef` has no field `nam`: it has `name`, `port`"),
            (".metadata.owner", Names, "`.metadata` has no field `owner`: it has "),
            (".spec.template.spec", Names, "`.spec.template` has no field `spec`: it has none"),
        ] {
            let found = match schema().fit(&FieldPath::parse(path).unwrap(), expected_type) {
                SchemaFit::Fits => fits.to_owned(),
                SchemaFit::Open => open.to_owned(),
                SchemaFit::Missing(why) | SchemaFit::Other(why) => why,
            };
            assert!(found.starts_with(expected), "{path} {expected_type:?}: {found}");
        }
    }
}
