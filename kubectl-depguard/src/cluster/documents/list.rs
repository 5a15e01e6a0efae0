//! Lists as API servers print them: each item is an object of its own.

use serde_json::{Map, Value};

use super::{Origin, is_incomplete_manifest, is_manifest};
use crate::io::exit::Failure;

/// Field of a list that holds its objects.
pub(crate) const ITEMS: &str = "items";

/// Type that a list names once for all of its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ItemType {
    api_version: Option<String>,
    kind: String,
}

impl ItemType {
    /// Reads the type from a list's fields besides its items; `None` if the object is no list. A list has no name; an
    /// object's own kind may end in `List`, too.
    pub(crate) fn from_list(fields: &Map<String, Value>) -> Option<Self> {
        let own = |field: &str| fields.get(field).and_then(Value::as_str);
        let kind = own("kind").and_then(|kind| kind.strip_suffix("List"))?.to_owned();
        let is_named = fields.get("metadata").is_some_and(|metadata| metadata.get("name").is_some());
        (!is_named).then(|| Self { api_version: own("apiVersion").map(str::to_owned), kind })
    }

    /// Completes an item that has no type of its own.
    pub(crate) fn complete(&self, item: &mut Value) {
        let (Some(api_version), false) = (&self.api_version, self.kind.is_empty()) else { return };
        let Some(fields) = item.as_object_mut() else { return };
        if !fields.contains_key("apiVersion") && !fields.contains_key("kind") {
            fields.insert("apiVersion".to_owned(), api_version.as_str().into());
            fields.insert("kind".to_owned(), self.kind.as_str().into());
        }
    }
}

/// Returns true for a document that is no object and holds none, such as a JSON patch.
pub(crate) fn is_foreign(document: &Value) -> bool {
    match document {
        Value::Null | Value::Object(_) => false,
        Value::Array(items) => !items.iter().any(|item| is_manifest(item) || is_incomplete_manifest(item)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Builds the failure for a document that is no object.
pub(crate) fn no_object(origin: &Origin) -> Failure {
    Failure::new(format!("{origin}: not an object")).hint("write apiVersion, kind and metadata")
}

/// Passes the object, or each object of a list, to `each`, with its path within the document: `items[1].`. The document
/// may be empty.
pub(crate) fn objects_of(
    value: Value,
    origin: &Origin,
    within: &str,
    each: &mut impl FnMut(Value, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut fields = match value {
        Value::Null => return Ok(()),
        Value::Object(fields) => fields,
        _ => return Err(no_object(origin)),
    };
    let item_type = if fields.contains_key(ITEMS) { ItemType::from_list(&fields) } else { None };
    let Some(item_type) = item_type else { return each(Value::Object(fields), within) };
    match fields.remove(ITEMS) {
        Some(Value::Array(items)) => {
            for (index, mut item) in items.into_iter().enumerate() {
                item_type.complete(&mut item);
                objects_of(item, origin, &format!("{within}{ITEMS}[{index}]."), each)?;
            }
            Ok(())
        }
        Some(Value::Null) | None => Ok(()),
        Some(_) => Err(Failure::new(format!("{origin}: `items` is not a list"))
            .hint("write each item below `items`, after a dash")),
    }
}
