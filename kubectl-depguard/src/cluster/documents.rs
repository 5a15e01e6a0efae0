//! Documents of a file: bounded in number, each with its position.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::cluster::yaml;
use crate::io::exit::Failure;

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

/// Limit on the objects of one command.
const MAX_DOCUMENTS: usize = 1_000_000;

/// Splits a file's text into documents at the document markers. A marker stands at the beginning of a line only between
/// documents, so that the line of each document is known.
pub(crate) fn parse(file: &str, bytes: &[u8], documents: &mut Vec<Text>) -> Result<(), Failure> {
    let text = std::str::from_utf8(bytes).map_err(|why| {
        Failure::new(format!("`{file}` is not UTF-8 text: byte {} is invalid", why.valid_up_to()))
            .hint("name files of YAML or JSON")
    })?;
    let file: Arc<str> = file.into();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut part = Part::default();
    for (line, content) in text.split_inclusive('\n').enumerate() {
        let number = line.saturating_add(1);
        let marker = content.strip_prefix("---").filter(|rest| rest.chars().next().is_none_or(char::is_whitespace));
        if let Some(rest) = marker {
            part.close(&file, documents)?;
            part.add(number, rest);
        } else if content.trim_end() == "..." {
            part.close(&file, documents)?;
        } else if !(content.starts_with('%') && part.is_blank()) {
            part.add(number, content);
        }
    }
    part.close(&file, documents)
}

/// Lines of one document so far.
#[derive(Default)]
struct Part {
    text: String,
    /// Line at which `text` begins.
    begin: usize,
    /// Line of the first field.
    first: usize,
}

impl Part {
    fn is_blank(&self) -> bool {
        self.first == 0
    }

    fn add(&mut self, number: usize, line: &str) {
        let content = line.trim();
        if self.first == 0 && !content.is_empty() && !content.starts_with('#') {
            self.first = number;
        }
        if self.text.is_empty() {
            self.begin = number;
        }
        self.text.push_str(line);
    }

    fn close(&mut self, file: &Arc<str>, documents: &mut Vec<Text>) -> Result<(), Failure> {
        let Self { text, begin, first } = std::mem::take(self);
        if first == 0 {
            return Ok(());
        }
        let origin = Origin { file: Arc::clone(file), line: first };
        // An API server prints lists as JSON, which may be larger than the YAML limits allow.
        let json = if text.trim_start().starts_with('{') { serde_json::from_str(&text).ok() } else { None };
        let value = match json {
            Some(value) => value,
            None => yaml(&text, file, begin, first)?,
        };
        push(value, &origin, (&text.into(), begin, ""), documents)
    }
}

/// Parses a document as YAML. An error counts lines from the document's begin; the failure names the file's line.
fn yaml(text: &str, file: &Arc<str>, begin: usize, first: usize) -> Result<Value, Failure> {
    yaml::read(text).map_err(|why| {
        let line = why.line.map_or(first, |line| begin.saturating_add(line).saturating_sub(1));
        let hint = match text.contains("{{") {
            true => "it looks like a Helm template; render it first: `helm template … | kubectl depguard … -f -`",
            false => "correct the file",
        };
        Failure::new(format!("{file}:{line}: neither YAML nor JSON: {why}")).hint(hint)
    })
}

/// Returns true if the value has an `apiVersion` and a `kind`.
pub(crate) fn is_manifest(value: &Value) -> bool {
    ["apiVersion", "kind"].iter().all(|field| value.get(field).is_some_and(Value::is_string))
}

pub(crate) const INCOMPLETE: &str = "its apiVersion or its kind is missing";

/// Returns true if the value looks like an API object that lacks its `apiVersion`, its `kind`, or both.
pub(crate) fn is_incomplete_manifest(value: &Value) -> bool {
    let has = |field: &str| value.get(field).is_some();
    let looks_like_one = value.get("metadata").is_some_and(Value::is_object);
    looks_like_one && !is_manifest(value) && (has("apiVersion") || has("kind") || has("spec"))
}

/// Completes an item of a list that an API server printed: the list names the kind once for all of its items.
fn item_of(list: &(Option<String>, Option<String>), mut item: Value) -> Value {
    let (Some(api_version), Some(kind)) = list else { return item };
    let Some(fields) = item.as_object_mut().filter(|_| !kind.is_empty()) else { return item };
    if !fields.contains_key("apiVersion") && !fields.contains_key("kind") {
        fields.insert("apiVersion".to_owned(), api_version.as_str().into());
        fields.insert("kind".to_owned(), kind.as_str().into());
    }
    item
}

fn push(
    value: Value,
    origin: &Origin,
    place: (&Arc<str>, usize, &str),
    documents: &mut Vec<Text>,
) -> Result<(), Failure> {
    let (text, begin, within) = place;
    let own = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let of_items = own("kind").and_then(|kind| kind.strip_suffix("List").map(str::to_owned));
    // A list has no name; an object's own kind may end in `List`, too.
    let is_list = of_items.is_some() && value.pointer("/metadata/name").is_none() && value.get("items").is_some();
    let list = (own("apiVersion"), of_items);
    match value {
        Value::Null => return Ok(()),
        Value::Object(mut fields) if is_list => {
            match fields.remove("items") {
                Some(Value::Array(items)) => {
                    for (index, item) in items.into_iter().enumerate() {
                        let within = format!("{within}items[{index}].");
                        push(item_of(&list, item), origin, (text, begin, &within), documents)?;
                    }
                }
                Some(Value::Null) | None => {}
                Some(_) => {
                    return Err(Failure::new(format!("{origin}: `items` is not a list"))
                        .hint("write each item below `items`, after a dash"));
                }
            }
            return Ok(());
        }
        object @ Value::Object(_) => {
            let document = Document { value: Arc::new(object), origin: origin.clone() };
            documents.push(Text { document, text: Arc::clone(text), begin, within: within.to_owned() });
        }
        _ => {
            return Err(Failure::new(format!("{origin}: not an object")).hint("write apiVersion, kind and metadata"));
        }
    }
    if documents.len() > MAX_DOCUMENTS {
        return Err(Failure::new(format!("the files contain more than {MAX_DOCUMENTS} objects"))
            .hint("name fewer files, or run the command several times"));
    }
    Ok(())
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
        parse("f", text.as_bytes(), &mut documents).map_err(|failure| failure.message().to_owned())?;
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
