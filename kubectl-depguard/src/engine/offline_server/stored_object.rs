//! Objects of the server in memory: each is kept as a text, as a tree takes some 20 times the memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::cluster::manifests::ManifestObject;
use crate::cluster::object_text::ObjectText;
use crate::io::exit::Failure;

/// Object, reduced to its text and to the names by which it is found.
#[derive(Debug, Clone)]
pub(super) struct StoredObject {
    pub(super) name: Box<str>,
    /// Namespace; empty if there is none.
    pub(super) namespace: Box<str>,
    pub(super) text: ObjectText,
}

/// Fields of all objects of a kind, as selectors compare them. The first selector by a field reads every object once.
#[derive(Debug, Default)]
pub(super) struct PrintedFields(Mutex<BTreeMap<String, PrintedField>>);

/// Field of each object of a kind; `None` for a list or a map.
pub(super) type PrintedField = Arc<[Option<String>]>;

impl StoredObject {
    pub(super) fn from_manifest(object: &ManifestObject) -> Result<Self, Failure> {
        let (name, namespace) = (object.name().into(), object.namespace().unwrap_or_default().into());
        Ok(Self { name, namespace, text: object.to_text()? })
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        Some(&*self.namespace).filter(|namespace| !namespace.is_empty())
    }
}

impl PrintedFields {
    /// Returns a field of each of the objects, which are always the same.
    pub(super) fn get(&self, field: &str, objects: &[StoredObject]) -> Result<PrintedField, Failure> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(field) {
            return Ok(Arc::clone(known));
        }
        let printed = objects.iter().map(|object| Ok(printed(&*object.text.to_value()?, field)));
        let printed: PrintedField = printed.collect::<Result<_, Failure>>()?;
        known.insert(field.to_owned(), Arc::clone(&printed));
        Ok(printed)
    }
}

impl Clone for PrintedFields {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()))
    }
}

/// Returns a scalar as selectors compare it; an absent field is empty. `None` for a list or a map.
fn printed(object: &Value, field: &str) -> Option<String> {
    match field.split('.').try_fold(object, |here, name| here.get(name)) {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Array(_) | Value::Object(_)) => None,
        Some(scalar) => Some(scalar.to_string()),
    }
}
