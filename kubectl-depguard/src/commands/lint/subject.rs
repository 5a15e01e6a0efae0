//! Subjects of findings: an object, and the place where it was written.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::lines::{Lines, Position};
use crate::cluster::documents::{Origin, Text};

/// Object in a file, or on an API server.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) value: Arc<Value>,
    text: Option<Text>,
    lines: OnceLock<Lines>,
}

/// Limit on a line that is shown with a finding, in bytes.
const MAX_LINE: usize = 400;

impl Subject {
    /// Builds the subject of an object in a file.
    pub(super) fn written(text: Text) -> Self {
        Self { value: Arc::clone(&text.document.value), text: Some(text), lines: OnceLock::new() }
    }

    /// Builds the subject of an object on an API server.
    pub(super) fn stored(value: impl Into<Arc<Value>>) -> Self {
        Self { value: value.into(), text: None, lines: OnceLock::new() }
    }

    pub(super) fn name(&self) -> &str {
        self.value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn kind(&self) -> &str {
        self.value.get("kind").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the file, and the line of a field in it or of the innermost existing field around it.
    pub(super) fn at(&self, field: &str) -> Option<Origin> {
        let Text { document, begin, .. } = self.text.as_ref()?;
        let position = self.position(field);
        let line = position.map_or(document.origin.line, |at| begin.saturating_add(at.line).saturating_sub(1));
        Some(Origin { file: Arc::clone(&document.origin.file), line })
    }

    /// Returns the column of that field, from 1, and its line of text; `None` if the line is too long to show.
    pub(super) fn excerpt(&self, field: &str) -> Option<(usize, String)> {
        let Position { line, column } = self.position(field)?;
        let text = self.text.as_ref()?.text.lines().nth(line.checked_sub(1)?)?;
        (text.len() <= MAX_LINE).then(|| (column, text.to_owned()))
    }

    /// Returns the position of a field within the text.
    fn position(&self, field: &str) -> Option<Position> {
        let Text { text, within, .. } = self.text.as_ref()?;
        self.lines.get_or_init(|| Lines::read(text)).of(&format!("{within}{field}"))
    }

    /// Returns a name to refer to the subject: `rules.yaml:7`, or the name as kubectl prints it.
    pub(super) fn place(&self) -> String {
        match &self.text {
            Some(text) => text.document.origin.to_string(),
            None => format!("{}/{}", self.kind().to_lowercase(), self.name()),
        }
    }
}
