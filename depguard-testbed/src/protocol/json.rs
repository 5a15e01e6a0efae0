//! Functions to read and write `serde_json::Value`, and common parts of objects.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde_json::{Map, Value, json};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Returns the string at the fields that `/` separates, unless it is empty.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    field(value, pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Returns the list at the fields that `/` separates; empty if there is none.
pub(crate) fn array<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    field(value, pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the value at plain field names and indexes. Ignores the escapes of a JSON pointer, because decoding them
/// takes most of a look-up.
fn field<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(value, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    })
}

pub(crate) fn name_of(object: &Value) -> &str {
    text(object, "/metadata/name").unwrap_or_default()
}

pub(crate) fn namespace_of(object: &Value) -> &str {
    text(object, "/metadata/namespace").unwrap_or_default()
}

pub(crate) fn is_terminating(object: &Value) -> bool {
    text(object, "/metadata/deletionTimestamp").is_some()
}

pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

pub(crate) fn set_annotation(object: &mut Value, name: &str, value: &str) {
    map_at(object, &["metadata", "annotations"]).insert(name.to_owned(), json!(value));
}

/// Finalizer that holds an object until its dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer that holds an object until its dependents no longer name it.
pub(crate) const ORPHAN: &str = "orphan";

/// Returns true if the garbage collector must release the object.
pub(crate) fn waits_for_dependents(object: &Value) -> bool {
    is_terminating(object) && finalizers(object).iter().any(|finalizer| finalizer == FOREGROUND || finalizer == ORPHAN)
}

pub(crate) fn finalizers(object: &Value) -> &[Value] {
    array(object, "/metadata/finalizers")
}

pub(crate) fn add_finalizer(object: &mut Value, finalizer: &str) {
    if finalizers(object).iter().any(|known| known == finalizer) {
        return;
    }
    let mut all = finalizers(object).to_vec();
    all.push(json!(finalizer));
    object["metadata"]["finalizers"] = Value::Array(all);
}

/// Removes a finalizer; returns `false` if it was not there.
pub(crate) fn remove_finalizer(object: &mut Value, finalizer: &str) -> bool {
    let left: Vec<Value> = finalizers(object).iter().filter(|known| *known != finalizer).cloned().collect();
    if left.len() == finalizers(object).len() {
        return false;
    }
    if left.is_empty() {
        map_at(object, &["metadata"]).remove("finalizers");
    } else {
        object["metadata"]["finalizers"] = Value::Array(left);
    }
    true
}

/// Sets a condition. The transition time moves only when the status does.
pub(crate) fn set_condition(object: &mut Value, kind: &str, status: &str, reason: &str, message: &str) {
    let status_map = map_at(object, &["status"]);
    let conditions = status_map.entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    let mut fresh = json!({"type": kind, "status": status, "lastTransitionTime": now()});
    // Go leaves out empty fields.
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            fresh[field] = json!(text);
        }
    }
    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
        Some(known) => {
            if known["status"] == status {
                fresh["lastTransitionTime"] = known["lastTransitionTime"].take();
            }
            *known = fresh;
        }
        None => conditions.push(fresh),
    }
}

/// Returns the map at a path, and makes it if there is none.
pub(crate) fn map_at<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let mut here = value;
    for segment in path {
        if !here.is_object() {
            *here = json!({});
        }
        here = &mut here[*segment];
    }
    if !here.is_object() {
        *here = json!({});
    }
    match here {
        Value::Object(map) => map,
        _ => unreachable!("made a map just above"),
    }
}

/// Returns the present time as RFC 3339 in whole seconds, like a `metav1.Time`.
pub(crate) fn now() -> String {
    time(seconds_now())
}

/// Returns the whole seconds since 1970.
pub(crate) fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Formats a time, given in seconds since 1970, likewise. A time after the calendar's end is its last one.
pub(crate) fn time(seconds: u64) -> String {
    let since = i64::try_from(seconds).map_or(SignedDuration::MAX, SignedDuration::from_secs);
    EPOCH.saturating_add(since).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the seconds since 1970 of a time that [`time`] wrote.
pub(crate) fn seconds(time: &str) -> Option<u64> {
    let time = DateTime::strptime("%Y-%m-%dT%H:%M:%SZ", time).ok()?;
    time.duration_since(EPOCH).as_secs().try_into().ok()
}

/// Returns a random number. The standard library's hash keys are its only source of randomness.
pub(crate) fn random() -> u64 {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(COUNTER.fetch_add(1, Ordering::Relaxed));
    hasher.finish()
}

/// Returns a version 4 UUID.
pub(crate) fn uuid() -> String {
    let (high, low) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}

/// Returns `length` random lower-case letters and digits.
pub(crate) fn random_name(length: usize) -> String {
    const LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    (0..length).map(|_| char::from(LETTERS[(random() % 36) as usize])).collect()
}

/// Returns a field as selectors compare it. An absent field is empty.
pub(crate) fn field_of(object: &Value, field: &str) -> String {
    match field {
        "metadata.name" => name_of(object).to_owned(),
        "metadata.namespace" => namespace_of(object).to_owned(),
        path => {
            let found = path.split('.').try_fold(object, |here, segment| here.get(segment));
            match found {
                Some(Value::String(text)) => text.clone(),
                None | Some(Value::Null) => String::new(),
                Some(other) => other.to_string(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_it_is_written() {
        let seconds_of_now = seconds(&now()).unwrap();
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!(real - seconds_of_now <= 1, "{seconds_of_now} {real}");
        assert_eq!(seconds("2000-02-29T00:00:01Z"), Some(951_782_401));
        for text in ["yesterday", "2000-02-29", "2000-02-29T00:00:01", "2000-02-29T00:00:01.5Z", "1969-12-31T23:59:59Z"]
        {
            assert_eq!(seconds(text), None, "{text}");
        }
        assert_eq!(time(951_782_401), "2000-02-29T00:00:01Z");
        assert_eq!(time(u64::MAX), "9999-12-31T23:59:59Z");
    }
}
