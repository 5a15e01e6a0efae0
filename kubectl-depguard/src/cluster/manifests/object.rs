//! Objects of manifests, each as an API server would store it.

use std::sync::Arc;

use depguard_core::GroupVersionResource;
use depguard_core::model::GroupResource;
use serde_json::{Value, json};

use super::completion::Completion;
use crate::cluster::documents::Origin;
use crate::cluster::object_record::ObjectRecord;
use crate::cluster::object_text::ObjectText;
use crate::io::exit::Failure;

/// Object of a manifest, with its kind.
#[derive(Debug, Clone)]
pub(crate) struct ManifestObject {
    pub(crate) gvr: Arc<GroupVersionResource>,
    record: ObjectRecord,
    /// True if the text has another name or namespace than the record, or none.
    is_moved: bool,
    completion: Option<Arc<Completion>>,
}

/// Kind of all objects of one type.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) gvr: Arc<GroupVersionResource>,
    /// `None` if the scope is unknown.
    pub(super) namespaced: Option<bool>,
    pub(super) completion: Option<Arc<Completion>>,
}

impl Place {
    /// Puts an object of the type here. One that names no namespace is in `namespace`, if the kind has namespaces. Of a name
    /// that the API server generates only the beginning is known: a `*` stands for the rest, which is in no name. Without
    /// either, the record is returned.
    pub(super) fn put(&self, mut record: ObjectRecord, namespace: &Arc<str>) -> Result<ManifestObject, ObjectRecord> {
        let is_generated = record.name.is_empty();
        if is_generated {
            let Some(prefix) = record.generate_name() else { return Err(record) };
            record.name = format!("{prefix}*").into();
        }
        let (gvr, completion) = (Arc::clone(&self.gvr), self.completion.clone());
        let mut object = ManifestObject { gvr, record, is_moved: is_generated, completion };
        match self.namespaced {
            Some(true) => object.fill_in(namespace),
            Some(false) => object.take_out(),
            None => {}
        }
        Ok(object)
    }
}

impl ManifestObject {
    pub(crate) fn name(&self) -> &str {
        &self.record.name
    }

    /// Returns the object's namespace, even if the file leaves it out.
    pub(crate) fn namespace(&self) -> Option<&str> {
        Some(&*self.record.namespace).filter(|namespace| !namespace.is_empty())
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.record.origin
    }

    pub(crate) fn is_of(&self, kind: &GroupResource) -> bool {
        self.gvr.group == kind.group && self.gvr.resource == kind.resource
    }

    /// Returns the object as text.
    pub(crate) fn to_text(&self) -> Result<ObjectText, Failure> {
        match self.is_moved || self.completion.is_some() {
            true => Ok(ObjectText::new(&self.to_value()?)),
            false => Ok(self.record.text.compact()),
        }
    }

    /// Returns the object as a tree.
    pub(crate) fn to_value(&self) -> Result<Arc<Value>, Failure> {
        let mut value = self.record.text.to_value()?;
        if self.is_moved
            && let Some(metadata) = Arc::make_mut(&mut value).get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("name".to_owned(), json!(self.name()));
            metadata.remove("namespace");
            metadata.extend(self.namespace().map(|namespace| ("namespace".to_owned(), json!(namespace))));
        }
        if let Some(completion) = &self.completion {
            completion.complete(Arc::make_mut(&mut value));
        }
        Ok(value)
    }

    /// Adds a number to a generated name, which is in no name either.
    pub(super) fn number(&mut self, number: usize) {
        self.record.name = format!("{}{number}", self.record.name).into();
    }

    /// Puts the object into a namespace, unless it names one.
    pub(super) fn fill_in(&mut self, namespace: &Arc<str>) {
        if self.record.namespace.is_empty() {
            self.record.namespace = Arc::clone(namespace);
            self.is_moved = true;
        }
    }

    /// Takes the object of a kind without namespaces out of that in its text, as an API server does.
    fn take_out(&mut self) {
        self.is_moved |= !self.record.namespace.is_empty();
        self.record.namespace = Arc::default();
    }
}
