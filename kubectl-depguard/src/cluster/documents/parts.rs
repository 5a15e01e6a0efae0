//! Parts of a file, one for each document: found by the document markers, before anything is parsed.
//!
//! YAML allows a marker at the beginning of a line only between documents, not even within a quoted or a block scalar.

use std::sync::Arc;

use crate::cluster::yaml::YamlError;
use crate::io::exit::Failure;

/// Text of one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part<'t> {
    pub(crate) text: &'t str,
    /// Line of the file at which the text begins, from 1.
    pub(crate) begin: usize,
    /// Line of the file with the document's first field, from 1.
    pub(crate) first: usize,
}

/// Limit on the objects of one command.
pub(crate) const MAX_DOCUMENTS: usize = 1_000_000;

impl Part<'_> {
    /// Returns true if the document looks like JSON, which is read much faster than YAML.
    pub(crate) fn is_json(&self) -> bool {
        self.text.trim_start().starts_with('{')
    }

    /// Builds the failure for a document that can't be parsed. The error counts lines from the part's begin; the failure
    /// names the file's line.
    pub(crate) fn failure(&self, file: &Arc<str>, why: &YamlError) -> Failure {
        let line = why.line.map_or(self.first, |line| self.begin.saturating_add(line).saturating_sub(1));
        let hint = match self.text.contains("{{") {
            true => "it looks like a Helm template; render it first: `helm template … | kubectl depguard … -f -`",
            false => "correct the file",
        };
        Failure::new(format!("{file}:{line}: neither YAML nor JSON: {why}")).hint(hint)
    }
}

/// Returns a file's text without its byte order mark.
pub(crate) fn text_of<'b>(file: &str, bytes: &'b [u8]) -> Result<&'b str, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|why| {
        Failure::new(format!("`{file}` is not UTF-8 text: byte {} is invalid", why.valid_up_to()))
            .hint("name files of YAML or JSON")
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Splits a text into its documents; documents without content are left out.
pub(crate) fn parts(text: &str) -> Result<Vec<Part<'_>>, Failure> {
    let mut splitter = Splitter { text, parts: Vec::new(), begin: None, first: None };
    let mut at = 0_usize;
    for (line, content) in text.split_inclusive('\n').enumerate() {
        let (number, next) = (line.saturating_add(1), at.saturating_add(content.len()));
        if let Some(rest) = after_marker(content) {
            splitter.close(at)?;
            splitter.add(number, next.saturating_sub(rest.len()), rest);
        } else if is_end(content) {
            splitter.close(at)?;
        } else if content.starts_with('%') && splitter.first.is_none() {
            // A directive, which stands before its document; only comments can come before it.
            splitter.begin = None;
        } else {
            splitter.add(number, at, content);
        }
        at = next;
    }
    splitter.close(text.len())?;
    Ok(splitter.parts)
}

/// Builds the failure for more objects than a command reads.
pub(crate) fn too_many() -> Failure {
    Failure::new(format!("the files contain more than {MAX_DOCUMENTS} objects"))
        .hint("name fewer files, or run the command several times")
}

/// Returns the content of a line behind the marker at which a document begins.
fn after_marker(line: &str) -> Option<&str> {
    line.strip_prefix("---").filter(|rest| rest.chars().next().is_none_or(char::is_whitespace))
}

/// Returns true for a line at which a document ends.
fn is_end(line: &str) -> bool {
    line.trim_end() == "..."
}

/// Parts so far, and the one in progress.
struct Splitter<'t> {
    text: &'t str,
    parts: Vec<Part<'t>>,
    /// Line and byte at which the part in progress begins.
    begin: Option<(usize, usize)>,
    /// Line of its first field.
    first: Option<usize>,
}

impl Splitter<'_> {
    fn add(&mut self, number: usize, at: usize, content: &str) {
        self.begin = self.begin.or(Some((number, at)));
        let content = content.trim_start();
        if self.first.is_none() && !content.is_empty() && !content.starts_with('#') {
            self.first = Some(number);
        }
    }

    /// Ends the part in progress before this byte.
    fn close(&mut self, end: usize) -> Result<(), Failure> {
        if let (Some((begin, at)), Some(first)) = (self.begin.take(), self.first.take())
            && let Some(text) = self.text.get(at..end)
        {
            self.parts.push(Part { text, begin, first });
        }
        if self.parts.len() > MAX_DOCUMENTS { Err(too_many()) } else { Ok(()) }
    }
}
