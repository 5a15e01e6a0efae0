//! Records of the objects in files: the names of each, and its text.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use crate::cluster::documents::{Document, Origin, is_definition, text};
use crate::cluster::object_text::ObjectText;
use crate::cluster::rule_manifests::{is_mistaken_for_none, is_rule};
use crate::io::exit::Failure;

/// Object of a file.
#[derive(Debug, Clone)]
pub(crate) struct ObjectRecord {
    pub(crate) object_type: Arc<ObjectType>,
    /// Name; empty if there is none, or if it is not a text.
    pub(crate) name: Box<str>,
    /// Namespace; empty if there is none, or if it is not a text.
    pub(crate) namespace: Arc<str>,
    pub(crate) text: ObjectText,
    pub(crate) origin: Origin,
}

/// Type of objects, as they name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ObjectType {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) role: Role,
}

/// Use of an object for depguard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Rule,
    /// Object that was meant as a rule or as a lock, but is neither.
    Mistake,
    /// Definition of a kind.
    Definition,
    /// Object that rules may be about.
    Object,
}

/// Types and namespaces that many objects share. Each is kept once.
#[derive(Debug, Default)]
pub(crate) struct SharedNames {
    types: HashSet<Arc<ObjectType>>,
    namespaces: HashSet<Arc<str>>,
}

impl ObjectRecord {
    /// Records an object that has an `apiVersion` and a `kind`.
    pub(crate) fn new(document: &Document, names: &mut SharedNames) -> Self {
        let Document { value, origin } = document;
        let metadata =
            |field: &str| value.get("metadata").and_then(|metadata| text(metadata, field)).unwrap_or_default();
        let object_type = names.object_type(value);
        let text = match object_type.role {
            Role::Object => ObjectText::new(value),
            // Every field of the others is needed at once.
            Role::Rule | Role::Mistake | Role::Definition => ObjectText::from_tree(Arc::clone(value)),
        };
        let namespace = names.namespace(metadata("namespace"));
        Self { object_type, name: metadata("name").into(), namespace, text, origin: origin.clone() }
    }

    /// Returns the beginning of the name that an API server generates for an object without a name.
    pub(crate) fn generate_name(&self) -> Option<String> {
        let value = self.text.to_value().ok()?;
        let metadata = value.get("metadata")?;
        let has_none = metadata.get("name").is_none_or(|name| name.is_null() || name == "");
        text(metadata, "generateName").filter(|prefix| has_none && !prefix.is_empty()).map(str::to_owned)
    }

    /// Returns the object as a tree.
    pub(crate) fn to_document(&self) -> Result<Document, Failure> {
        Ok(Document { value: self.text.to_value()?, origin: self.origin.clone() })
    }
}

impl ObjectType {
    /// Returns the group; `None` for the core group.
    pub(crate) fn group(&self) -> Option<&str> {
        self.api_version.split_once('/').map(|(group, _)| group)
    }
}

impl Role {
    fn of(object: &Value) -> Self {
        if is_rule(object) {
            Self::Rule
        } else if is_mistaken_for_none(object) {
            Self::Mistake
        } else if is_definition(object) {
            Self::Definition
        } else {
            Self::Object
        }
    }
}

impl SharedNames {
    fn object_type(&mut self, object: &Value) -> Arc<ObjectType> {
        let own = |field| text(object, field).unwrap_or_default().to_owned();
        let own = ObjectType { api_version: own("apiVersion"), kind: own("kind"), role: Role::of(object) };
        if let Some(known) = self.types.get(&own) {
            return Arc::clone(known);
        }
        let own = Arc::new(own);
        self.types.insert(Arc::clone(&own));
        own
    }

    pub(crate) fn namespace(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.namespaces.get(name) {
            return Arc::clone(known);
        }
        let own: Arc<str> = name.into();
        self.namespaces.insert(Arc::clone(&own));
        own
    }
}
