//! JSON of an object, kept as text.

use serde_json::Value;

/// JSON of an object. A tree of it would take about ten times as much memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectText(Box<str>);

impl ObjectText {
    /// Keeps an object.
    pub fn new(object: &Value) -> Self {
        Self(object.to_string().into())
    }

    /// Reads the object.
    pub fn read(&self) -> Value {
        // What a tree has written can be read.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}
