//! Documents of a file: bounded in number, each with its position.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use self::list::{is_foreign, objects_of};
use self::parts::{MAX_DOCUMENTS, parts, text_of, too_many};
use crate::cluster::yaml;
use crate::io::exit::Failure;

pub(crate) mod list;
pub(crate) mod parts;

/// Object in a file.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) value: Arc<Value>,
    pub(crate) origin: Origin,
}

impl Document {
    /// Names the object in a message: `the VPC at vpcs.yaml:3`.
    pub(crate) fn shown(&self) -> String {
        format!("the {} at {}", text(&self.value, "kind").unwrap_or_default(), self.origin)
    }
}

/// Object in a file with the text that it was read from, for callers that report the line of a field.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) document: Document,
    /// Text of the whole document.
    pub(crate) text: Arc<str>,
    /// Line of the file at which the text begins, from 1.
    pub(crate) begin: usize,
    /// Path of the object within the document: `items[1].` in a list, empty otherwise.
    pub(crate) within: String,
}

/// Position of a document: its file and its line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    pub(crate) file: Arc<str>,
    /// Line of the document's first field, from 1.
    pub(crate) line: usize,
}

/// Reads the objects of a file, each with its text. Returns the documents that are no objects.
pub(crate) fn parse(file: &str, bytes: &[u8], documents: &mut Vec<Text>) -> Result<Vec<Origin>, Failure> {
    let (file, text, mut foreign) = (Arc::from(file), text_of(file, bytes)?, Vec::new());
    for part in parts(text)? {
        let origin = Origin { file: Arc::clone(&file), line: part.first };
        // An API server prints lists as JSON.
        let json = if part.is_json() { serde_json::from_str(part.text).ok() } else { None };
        let value = match json {
            Some(value) => value,
            None => yaml::read(part.text).map_err(|why| part.failure(&file, &why))?,
        };
        if is_foreign(&value) {
            foreign.push(origin);
            continue;
        }
        let (text, begin) = (Arc::from(part.text), part.begin);
        objects_of(value, &origin, "", &mut |object, within| {
            let document = Document { value: Arc::new(object), origin: origin.clone() };
            documents.push(Text { document, text: Arc::clone(&text), begin, within: within.to_owned() });
            if documents.len() > MAX_DOCUMENTS { Err(too_many()) } else { Ok(()) }
        })?;
    }
    Ok(foreign)
}

/// Returns true if the value has an `apiVersion` and a `kind`, and is not only a patch.
pub(crate) fn is_manifest(value: &Value) -> bool {
    has_type(value) && !is_patch_of_definition(value)
}

/// Returns true if the value has an `apiVersion` and a `kind`.
pub(crate) fn has_type(value: &Value) -> bool {
    ["apiVersion", "kind"].iter().all(|field| value.get(field).is_some_and(Value::is_string))
}

/// Returns true for a definition with neither its group nor its names, which an API server would refuse: kustomize
/// patches another definition with it.
pub(crate) fn is_patch_of_definition(value: &Value) -> bool {
    is_definition(value) && ["/spec/group", "/spec/names"].iter().all(|field| value.pointer(field).is_none())
}

pub(crate) const INCOMPLETE: &str = "its apiVersion or its kind is missing";

/// Returns true if the value looks like an API object that lacks its `apiVersion`, its `kind`, or both.
pub(crate) fn is_incomplete_manifest(value: &Value) -> bool {
    let has = |field: &str| value.get(field).is_some();
    let looks_like_one = value.get("metadata").is_some_and(Value::is_object);
    looks_like_one && !has_type(value) && (has("apiVersion") || has("kind") || has("spec"))
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Returns the group of an object's `apiVersion`; `None` for the core group, or without an `apiVersion`.
pub(crate) fn group_of(object: &Value) -> Option<&str> {
    text(object, "apiVersion")?.split_once('/').map(|(group, _)| group)
}

/// Returns true if the object defines a kind.
pub(crate) fn is_definition(object: &Value) -> bool {
    matches!(
        (group_of(object), text(object, "kind")),
        (Some("apiextensions.k8s.io"), Some("CustomResourceDefinition"))
            | (Some("apis.kcp.io"), Some("APIResourceSchema"))
    )
}

/// Returns the name of an object for a message, which may be about an object that has none.
pub(crate) fn name_of(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("without a name")
}

/// Returns a top-level text field of an object.
pub(crate) fn text<'v>(object: &'v Value, field: &str) -> Option<&'v str> {
    object.get(field).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Result<Vec<(usize, String)>, String> {
        let mut documents = Vec::new();
        let foreign = parse("f", text.as_bytes(), &mut documents);
        let foreign = foreign.map_err(|failure| failure.message().to_owned())?;
        if let Some(origin) = foreign.first() {
            return Err(list::no_object(origin).message().to_owned());
        }
        let documents = documents.into_iter().map(|text| text.document);
        Ok(documents.map(|document| (document.origin.line, document.value.to_string())).collect())
    }

    #[test]
    fn each_document_knows_its_line() {
        let text = "# a comment\n\na: 1\nb: |\n  x\n  --- y\n---\n---\n# nothing\n--- # c\n\nc: 2\n...\nkind: List\nitems:\n- {d: 3}\n- {e: 4}\n";
        let expected = [(3, r#"{"a":1,"b":"x\n--- y\n"}"#), (12, r#"{"c":2}"#), (14, r#"{"d":3}"#), (14, r#"{"e":4}"#)];
        assert_eq!(parsed(text).unwrap(), expected.map(|(line, json)| (line, json.to_owned())));
    }

    #[test]
    fn a_long_list_of_an_api_server_is_read() {
        let list = serde_json::json!({"kind": "List", "items": vec![serde_json::json!({"a": vec![0; 100]}); 4_000]});
        assert_eq!(parsed(&list.to_string()).unwrap().len(), 4_000);
    }

    #[test]
    fn what_is_wrong_is_told_by_its_line() {
        let message = parsed("a: 1\n---\nb: 1\nc: [\n").unwrap_err();
        assert!(message.starts_with("f:") && message.contains("neither YAML nor JSON"), "{message}");
        assert_eq!(parsed("- 1\n").unwrap_err(), "f:1: not an object");
    }

    #[test]
    fn a_mistake_has_one_line_and_it_is_the_files() {
        let message = parsed("# c\n---\na: 1\na: 2\n").unwrap_err();
        assert_eq!(message, "f:4: neither YAML nor JSON: duplicate field `a`");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-a:{}\\[\\]&*!|>%@ \\n\"'0-9#.]{0,60}") {
            let _ = parsed(&text);
        }
    }
}
