//! Object as it is stored: as a value, as the text of which lists are made, or both.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

/// StoredObject object. An object that a client wrote has its value, and its text once it was listed. An object with which
/// the testbed was filled has its text only, which takes a fifth of the memory.
#[derive(Debug)]
pub(crate) struct Object {
    value: Option<Arc<Value>>,
    text: OnceLock<Text>,
    cells: OnceLock<Cells>,
}

/// Cells of an object in certain columns of a table.
#[derive(Debug)]
struct Cells {
    columns: u64,
    json: Box<str>,
}

/// Fields of an object as JSON, `metadata` first, without `kind` and `apiVersion`, which depend on the request.
#[derive(Debug)]
pub(crate) struct Text {
    json: Box<str>,
    metadata: usize,
}

impl Object {
    pub(crate) fn new(value: Value) -> Self {
        Self { value: Some(Arc::new(value)), text: OnceLock::new(), cells: OnceLock::new() }
    }

    /// Makes an object that is kept as text only.
    pub(crate) fn packed(value: &Value) -> Self {
        Self { value: None, text: Text::from_value(value).into(), cells: OnceLock::new() }
    }

    /// Returns the object. A packed object has no `kind` and `apiVersion`: the caller adds them.
    pub(crate) fn value(&self) -> Arc<Value> {
        match &self.value {
            Some(value) => Arc::clone(value),
            None => Arc::new(self.text().parse()),
        }
    }

    /// Returns the cells in these columns, which a number identifies. A packed object is parsed for them once.
    pub(crate) fn cells(&self, columns: u64, make: impl Fn(&Value) -> String) -> Cow<'_, str> {
        let cells = self.cells.get_or_init(|| Cells { columns, json: make(&self.value()).into() });
        if cells.columns == columns { Cow::Borrowed(&*cells.json) } else { Cow::Owned(make(&self.value())) }
    }

    pub(crate) fn text(&self) -> &Text {
        self.text.get_or_init(|| self.value.as_deref().map_or_else(Text::default, Text::from_value))
    }
}

impl Text {
    fn from_value(value: &Value) -> Self {
        let mut json = format!("\"metadata\":{}", value["metadata"]);
        let metadata = json.len();
        for (name, member) in value.as_object().into_iter().flatten() {
            if !matches!(name.as_str(), "kind" | "apiVersion" | "metadata") {
                json.push_str(&format!(",{}:{member}", Value::from(name.as_str())));
            }
        }
        Self { json: json.into(), metadata }
    }

    fn parse(&self) -> Value {
        serde_json::from_str(&format!("{{{}}}", self.json)).unwrap_or_default()
    }

    /// Returns `"metadata":{…},"spec":{…}`.
    pub(crate) fn members(&self) -> &str {
        &self.json
    }

    /// Returns `"metadata":{…}`.
    pub(crate) fn metadata(&self) -> &str {
        &self.json[..self.metadata]
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::from_value(&Value::Null)
    }
}
