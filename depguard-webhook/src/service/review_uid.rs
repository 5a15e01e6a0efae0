//! Id of a review that can't be read to its end: with it the caller can still be told why the review is refused.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// Maximum length of an id that is repeated; API servers send UUIDs.
const MAX_LEN: usize = 128;

/// Returns `request.uid` of the AdmissionReview that begins with `beginning`, if the id is in this part.
pub(crate) fn of_beginning(beginning: &[u8]) -> Option<String> {
    let mut found = None;
    // The read ends in an error where the JSON does; by then the id has been found, or isn't there.
    let _ = Object { key: "request", then: Then::Object(&mut found) }
        .deserialize(&mut serde_json::Deserializer::from_slice(beginning));
    found.filter(|uid| !uid.is_empty() && uid.len() <= MAX_LEN)
}

/// Object of which one key matters.
struct Object<'f> {
    key: &'static str,
    then: Then<'f>,
}

/// Use of this key's value.
enum Then<'f> {
    Object(&'f mut Option<String>),
    Keep(&'f mut Option<String>),
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key != self.key {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            match &mut self.then {
                Then::Object(found) => map.next_value_seed(Object { key: "uid", then: Then::Keep(found) })?,
                Then::Keep(found) => **found = Some(map.next_value()?),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uid_is_found_where_it_was_read() {
        for (beginning, uid) in [
            (r#"{"kind":"AdmissionReview","request":{"uid":"u-1","kind":{"gro"#, Some("u-1")),
            (r#"{"request":{"kind":{"uid":"no"},"uid":"u-1""#, Some("u-1")),
            (r#"{"request":{"uid":"u-1"}}"#, Some("u-1")),
            (r#"{"request":{"uid":"u-"#, None),
            (r#"{"request":{"object":{"metadata":{"uid":"no"},"spec":"aaaa"#, None),
            (r#"{"uid":"no","request":{"#, None),
            (r#"{"request":{"uid":7"#, None),
            (r#"{"request":{"uid":"""#, None),
            (r#"[{"request":{"uid":"u-1"}}]"#, None),
            ("", None),
            ("\u{0}", None),
        ] {
            assert_eq!(of_beginning(beginning.as_bytes()).as_deref(), uid, "{beginning}");
        }
        assert_eq!(of_beginning(&[b'{', 0xff]), None);
        let deep = format!(r#"{{"request":{{"object":{},"uid":"u-1""#, "[".repeat(100_000));
        assert_eq!(of_beginning(deep.as_bytes()), None);
        let long = format!(r#"{{"request":{{"uid":"{}""#, "u".repeat(129));
        assert_eq!(of_beginning(long.as_bytes()), None);
    }
}
