//! PublishedResources as they are written, of both agents.

use std::collections::BTreeMap;

use depguard_core::naming::Agent;
use serde::Deserialize;
use serde_json::Value;

use crate::files::{Document, Origin};

/// A PublishedResource.
#[derive(Debug)]
pub(super) struct Published<'a> {
    pub(super) agent: Agent,
    pub(super) name: &'a str,
    pub(super) origin: &'a Origin,
    /// Its spec, or why that can't be read.
    pub(super) spec: Result<Spec, String>,
    /// The fields of the spec that aren't known here.
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

/// The kind on the service cluster.
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

/// How the kind is in kcp.
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

/// A related resource, in either shape: `reference` is the older one, `object` the newer.
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

/// On which side the original is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RelatedOrigin {
    Service,
    #[serde(alias = "platform")]
    Kcp,
}

/// How it is on the other side.
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

/// One of these.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct Locator {
    pub(super) reference: Option<Reference>,
    pub(super) selector: Option<Value>,
    pub(super) template: Option<Template>,
}

/// A field of the primary object, and what is made of its value.
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
    /// Reads a document; `None` where it is no PublishedResource.
    pub(super) fn of(document: &'a Document) -> Option<Self> {
        let text = |field: &str| document.value.get(field).and_then(Value::as_str);
        let (group, _) = text("apiVersion")?.split_once('/')?;
        let agent = Agent::of_group(group).filter(|_| text("kind") == Some("PublishedResource"))?;
        let spec = document.value.get("spec").unwrap_or(&Value::Null);
        let mut unknown = Vec::new();
        SPEC.look(spec, "spec", &mut unknown);
        Some(Self {
            agent,
            name: document.value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default(),
            origin: &document.origin,
            spec: Spec::deserialize(spec).map_err(|why| format!("can't be read: {why}")),
            unknown,
        })
    }
}

/// The fields of an object that are known: those that are read as they stand, or say nothing of references; and those that
/// are objects, or lists of them. Serde passes over what it doesn't know, and of that a user is to be told.
struct Known {
    plain: &'static [&'static str],
    objects: &'static [(&'static str, &'static Known)],
}

const SPEC: Known = Known {
    // Mutations change what a copy says; on each side the rule goes by what the object there says.
    plain: &["mutation", "enableWorkspacePaths"],
    objects: &[
        ("resource", &Known { plain: &["apiGroup", "kind", "version", "versions"], objects: &[] }),
        ("filter", &Known { plain: &["namespace", "resource"], objects: &[] }),
        ("naming", &Known { plain: &["namespace", "name"], objects: &[] }),
        (
            "projection",
            &Known {
                plain: &["group", "version", "versions", "scope", "kind", "plural", "shortNames", "categories"],
                objects: &[],
            },
        ),
        ("related", &RELATED),
        ("synchronization", &Known { plain: &["enabled"], objects: &[] }),
    ],
};
const RELATED: Known = Known {
    // How a copy is kept, not which it is.
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
        ("projection", &Known { plain: &["group", "version", "resource"], objects: &[] }),
        ("reference", &Known { plain: &[], objects: &[("name", &REFERENCE), ("namespace", &REFERENCE)] }),
        (
            "object",
            &Known {
                plain: &["selector"],
                objects: &[("reference", &REFERENCE), ("template", &TEMPLATE), ("namespace", &LOCATOR)],
            },
        ),
    ],
};
const LOCATOR: Known = Known { plain: &["selector"], objects: &[("reference", &REFERENCE), ("template", &TEMPLATE)] };
const REFERENCE: Known =
    Known { plain: &["path"], objects: &[("regex", &Known { plain: &["pattern", "replacement"], objects: &[] })] };
const TEMPLATE: Known = Known { plain: &["template"], objects: &[] };

impl Known {
    /// Adds the paths of what isn't known.
    fn look(&self, value: &Value, at: &str, unknown: &mut Vec<String>) {
        match value {
            Value::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    self.look(value, &format!("{at}[{index}]"), unknown);
                }
            }
            Value::Object(fields) => {
                for (field, value) in fields {
                    let inner = format!("{at}.{field}");
                    match self.objects.iter().find(|(name, _)| name == field) {
                        Some((_, known)) => known.look(value, &inner, unknown),
                        None if self.plain.contains(&field.as_str()) => {}
                        None => unknown.push(inner),
                    }
                }
            }
            _ => {}
        }
    }
}
