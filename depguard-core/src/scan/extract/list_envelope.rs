//! Metadata of a LIST page, read from around its items.

use super::Page;
use super::list::metadata;
use crate::scan::json::{Json, Value};

/// Reads the list's metadata without its items, in the two layouts that API servers write:
///
/// - `{"apiVersion":…,"items":[…],"kind":…,"metadata":{…}}`, custom resources;
/// - `{"kind":…,"apiVersion":…,"metadata":{…},"items":[…]}`, built-in kinds and `PartialObjectMetadataList`.
///
/// Returns `None` for any other layout; such a page must be read whole. For a page that can be read whole, the result
/// is the same as that of reading it whole: `metadata` stands in the list once, and here it was found in the list
/// itself, before the items or as the last value. This function doesn't look at the bytes in between: they may be
/// invalid JSON, or a part of them may be lost. A caller that searches the items must check them; an HTTP body that
/// was cut is an error before it comes here.
pub(crate) fn list_envelope(bytes: &[u8]) -> Option<Page> {
    let inside = bytes.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    match front(bytes)? {
        Some(page) => inside.ends_with(b"]").then_some(page),
        None => back(inside),
    }
}

/// Reads the metadata before the items, if any; returns `None` if there are no items.
fn front(bytes: &[u8]) -> Option<Option<Page>> {
    let mut json = Json::new(bytes);
    let Value::Map = json.value().ok()? else { return None };
    let (mut page, mut next) = (None, json.first_key().ok()?);
    while let Some(key) = next {
        match &*key.bytes().ok()? {
            b"items" => return are_items(&mut json).then_some(page),
            b"metadata" if page.is_some() => return None,
            b"metadata" => page = Some(metadata(&mut json).ok()?),
            _ => json.skip().ok()?,
        }
        next = json.next_key().ok()?;
    }
    None
}

/// Returns true if a list of objects follows, as far as its first element shows.
fn are_items(json: &mut Json<'_>) -> bool {
    matches!(json.value(), Ok(Value::List)) && (!json.first_element() || matches!(json.value(), Ok(Value::Map)))
}

/// Reads the metadata as the last value of a list. `inside` is the list without its own closing bracket.
///
/// JSON can be read backwards, as long as each quote is known to delimit a string or to be escaped. A quote delimits
/// a string exactly if an even number of backslashes stands before it, and no backslash stands outside of strings.
/// This function goes back to the nearest bracket that opens a map and stands in no string. Read forwards, that map
/// must reach to the last bracket: then the map is the list's last value, and the text before it, up to a comma, is
/// its key.
fn back(inside: &[u8]) -> Option<Page> {
    let mut at = inside.strip_suffix(b"}")?;
    let start = loop {
        at = match at.split_last()? {
            (b'"', before) => string(before)?,
            (b'{', before) => break before,
            (_, before) => before,
        };
    };
    let key = start.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
    if !key.strip_suffix(br#""metadata""#)?.trim_ascii_end().ends_with(b",") {
        return None;
    }
    let mut json = Json::new(inside.get(start.len()..)?);
    let page = metadata(&mut json).ok()?;
    json.finish().ok()?;
    Some(page)
}

/// Returns the bytes before the string whose last quote was read.
fn string(mut before: &[u8]) -> Option<&[u8]> {
    loop {
        let quote = memchr::memrchr(b'"', before)?;
        before = before.get(..quote)?;
        let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes.is_multiple_of(2) {
            return Some(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(version: &str, token: Option<&str>) -> Page {
        Page { resource_version: Some(version.to_owned()), continue_token: token.map(str::to_owned) }
    }

    #[test]
    fn both_layouts_of_api_servers_are_read_from_the_outside() {
        for (json, expected) in [
            (
                r#"{"apiVersion":"a/v1","items":[{"x":"}]\\\""}],"kind":"AList","metadata":{"continue":"t","remainingItemCount":7,"resourceVersion":"1"}}"#,
                page("1", Some("t")),
            ),
            (r#"{"items":[],"metadata":{"continue":"","resourceVersion":"1","selfLink":"{[\"\\"}}"#, page("1", None)),
            (
                r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1","continue":"t"},"items":[{}]}"#,
                page("1", Some("t")),
            ),
            ("{ \"metadata\" : {\"resourceVersion\": \"1\"} ,\n \"items\" : [ ] } \n", page("1", None)),
            ("{\"items\" : [ {} ] , \"metadata\" : {\"resourceVersion\": \"1\" } } \n", page("1", None)),
            (r#"{"metadata":{},"items":[]}"#, Page::default()),
        ] {
            assert_eq!(list_envelope(json.as_bytes()), Some(expected), "{json}");
        }
    }

    #[test]
    fn anything_else_is_left_to_those_who_read_it_whole() {
        for json in [
            "",
            "{}",
            "[]",
            r#"{"metadata":{"resourceVersion":"1"}}"#,
            r#"{"metadata":{"resourceVersion":"1"},"items":null}"#,
            r#"{"metadata":{"resourceVersion":1},"items":[]}"#,
            r#"{"metadata":null,"items":[]}"#,
            r#"{"metadata":{},"metadata":{},"items":[]}"#,
            r#"{"metadata":{"resourceVersion":"1"},"items":[],"kind":"AList"}"#,
            r#"{"metadata":{"resourceVersion":"1"},"items":[{"a":1}"#,
            r#"{"items":[]}"#,
            r#"{"items":[{"metadata":{"resourceVersion":"1"}}]}"#,
            r#"{"items":[],"metadata":{"resourceVersion":"1"},"kind":"AList"}"#,
            r#"{"items":[],"metadata":{"resourceVersion":"1","more":{}}}"#,
            r#"{"items":[],"metadata":{"resourceVersion":"1","continue":"a","continue":"b"}}"#,
            r#"{"items":[],"more":{"resourceVersion":"1"}}"#,
            r#"{"items":[],"my\"metadata":{"resourceVersion":"1"}}"#,
            r#"{"items":[],"more":{"metadata":{"resourceVersion":"1"}}}"#,
            r#"{"items":[],"metadata":{"resourceVersion":"1"}"#,
            r#"{"items":[],"metadata":{"resourceVersion":"1"}}}"#,
        ] {
            assert_eq!(list_envelope(json.as_bytes()), None, "{json}");
        }
    }
}
