//! PublishedResources of both agents, as they are written.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::cluster::documents::{Document, Origin};
use crate::engine::synced_names::Agent;

/// PublishedResource of a document.
#[derive(Debug)]
pub(super) struct Published<'a> {
    pub(super) agent: Agent,
    pub(super) name: &'a str,
    pub(super) origin: &'a Origin,
    /// Spec, or the reason why it can't be read.
    pub(super) spec: Result<Spec, String>,
    /// Fields of the spec that depguard doesn't know.
    pub(super) unknown: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct Spec {
    pub(super) resource: Source,
    pub(super) filter: Option<Filter>,
    pub(super) naming: Option<Naming>,
    pub(super) projection: Option<Projection>,
    pub(super) related: Option<Vec<Value>>,
    pub(super) synchronization: Option<Synchronization>,
}

/// Kind on the service cluster.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
pub(super) struct Source {
    pub(super) api_group: String,
    pub(super) kind: String,
    pub(super) version: Option<String>,
    pub(super) versions: Option<Vec<String>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct Filter {
    pub(super) namespace: Option<Value>,
    pub(super) resource: Option<Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct Naming {
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
}

/// Name, versions and scope of the kind in kcp.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct Projection {
    pub(super) group: Option<String>,
    pub(super) version: Option<String>,
    pub(super) versions: Option<BTreeMap<String, String>>,
    pub(super) kind: Option<String>,
    pub(super) plural: Option<String>,
    pub(super) scope: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct Synchronization {
    pub(super) enabled: bool,
}

/// Related resource, in either shape: `reference` is the older one, `object` the newer.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
pub(super) struct Related {
    #[serde(default)]
    pub(super) identifier: String,
    pub(super) origin: RelatedOrigin,
    pub(super) kind: Option<String>,
    pub(super) group: Option<String>,
    pub(super) version: Option<String>,
    pub(super) resource: Option<String>,
    pub(super) identity_hash: Option<String>,
    pub(super) projection: Option<RelatedProjection>,
    pub(super) reference: Option<OlderReference>,
    pub(super) object: Option<Object>,
}

/// Side of the originals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RelatedOrigin {
    Service,
    #[serde(alias = "platform")]
    Kcp,
}

/// Kind of the copies on the other side.
#[derive(Debug, Clone, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct RelatedProjection {
    pub(super) group: Option<String>,
    pub(super) version: Option<String>,
    pub(super) resource: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct OlderReference {
    pub(super) name: Reference,
    pub(super) namespace: Option<Reference>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct Object {
    #[serde(flatten)]
    pub(super) name: Locator,
    pub(super) namespace: Option<Locator>,
}

/// Locator of a value: exactly one field is set.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct Locator {
    pub(super) reference: Option<Reference>,
    pub(super) selector: Option<Value>,
    pub(super) template: Option<Template>,
}

/// Field of the primary object, and the rewriting of its value.
#[derive(Debug, Clone, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct Reference {
    pub(super) path: String,
    pub(super) regex: Option<Regex>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct Regex {
    #[serde(default)]
    pub(super) pattern: String,
    #[serde(default)]
    pub(super) replacement: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct Template {
    #[serde(default)]
    pub(super) template: String,
}

impl<'a> Published<'a> {
    /// Reads a document; `None` if it is no PublishedResource of a known agent.
    pub(super) fn from_document(document: &'a Document) -> Option<Self> {
        let text = |field: &str| document.value.get(field).and_then(Value::as_str);
        let (group, _) = text("apiVersion")?.split_once('/')?;
        let agent = Agent::of_group(group).filter(|_| text("kind") == Some("PublishedResource"))?;
        let spec = document.value.get("spec").unwrap_or(&Value::Null);
        let mut unknown = Vec::new();
        SPEC.collect_unknown(spec, "spec", &mut unknown);
        Some(Self {
            agent,
            name: document.value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default(),
            origin: &document.origin,
            spec: Spec::deserialize(spec).map_err(|why| format!("can't be read: {why}")),
            unknown,
        })
    }
}

/// Returns true for a PublishedResource of any agent, known or not.
pub(super) fn is_published_resource(document: &Document) -> bool {
    document.value.get("kind").and_then(Value::as_str) == Some("PublishedResource")
}

/// Known fields of an object: `plain` fields are read as they are, or say nothing about references; `objects` are
/// objects or lists of objects. Serde skips unknown fields, but the user must hear about them.
struct KnownFields {
    plain: &'static [&'static str],
    objects: &'static [(&'static str, &'static KnownFields)],
}

const SPEC: KnownFields = KnownFields {
    // Mutations change the content of a copy. On each side, the rule reads the objects of that side.
    plain: &["mutation", "enableWorkspacePaths"],
    objects: &[
        ("resource", &KnownFields { plain: &["apiGroup", "kind", "version", "versions"], objects: &[] }),
        ("filter", &KnownFields { plain: &["namespace", "resource"], objects: &[] }),
        ("naming", &KnownFields { plain: &["namespace", "name"], objects: &[] }),
        (
            "projection",
            &KnownFields {
                plain: &["group", "version", "versions", "scope", "kind", "plural", "shortNames", "categories"],
                objects: &[],
            },
        ),
        ("related", &RELATED),
        ("synchronization", &KnownFields { plain: &["enabled"], objects: &[] }),
    ],
};
const RELATED: KnownFields = KnownFields {
    // `cleanup` and the like say how a copy is kept, not which object it copies.
    plain: &[
        "identifier",
        "origin",
        "kind",
        "group",
        "version",
        "resource",
        "identityHash",
        "cleanup",
        "cleanupPolicy",
        "mutation",
        "watch",
        "syncStatus",
    ],
    objects: &[
        ("projection", &KnownFields { plain: &["group", "version", "resource"], objects: &[] }),
        ("reference", &KnownFields { plain: &[], objects: &[("name", &REFERENCE), ("namespace", &REFERENCE)] }),
        (
            "object",
            &KnownFields {
                plain: &["selector"],
                objects: &[("reference", &REFERENCE), ("template", &TEMPLATE), ("namespace", &LOCATOR)],
            },
        ),
    ],
};
const LOCATOR: KnownFields =
    KnownFields { plain: &["selector"], objects: &[("reference", &REFERENCE), ("template", &TEMPLATE)] };
const REFERENCE: KnownFields = KnownFields {
    plain: &["path"],
    objects: &[("regex", &KnownFields { plain: &["pattern", "replacement"], objects: &[] })],
};
const TEMPLATE: KnownFields = KnownFields { plain: &["template"], objects: &[] };

impl KnownFields {
    /// Adds the paths of the unknown fields.
    fn collect_unknown(&self, value: &Value, at: &str, unknown: &mut Vec<String>) {
        match value {
            Value::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    self.collect_unknown(value, &format!("{at}[{index}]"), unknown);
                }
            }
            Value::Object(fields) => {
                for (field, value) in fields {
                    let inner = format!("{at}.{field}");
                    match self.objects.iter().find(|(name, _)| name == field) {
                        Some((_, known)) => known.collect_unknown(value, &inner, unknown),
                        None if self.plain.contains(&field.as_str()) => {}
                        None => unknown.push(inner),
                    }
                }
            }
            _ => {}
        }
    }
}
