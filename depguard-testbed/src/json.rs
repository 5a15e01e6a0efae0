//! Short ways to read and write `serde_json::Value`, and the small things objects are made of.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

/// The non-empty string below the fields that `/` separates.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    field(value, pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The list below the fields that `/` separates; empty where there is none.
pub(crate) fn array<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    field(value, pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The value below plain field names and indexes: without the escapes of a JSON pointer, whose decoding takes most of a look-up.
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

/// Holds an object until its dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Holds an object until its dependents no longer name it.
pub(crate) const ORPHAN: &str = "orphan";

/// Whether the garbage collector has to let the object go.
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

/// Takes a finalizer off; `false` if it was not there.
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

/// Sets a condition; the transition time moves only when the status does.
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
    // Left out where there is nothing to say, as Go leaves out what is empty.
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

/// The map at a path, made where there is none.
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

/// RFC 3339 in whole seconds, as `metav1.Time` is written.
pub(crate) fn now() -> String {
    time(seconds_now())
}

/// The whole seconds since 1970.
pub(crate) fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A time given in seconds since 1970, written so.
pub(crate) fn time(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since the epoch to a date: Howard Hinnant's `civil_from_days`, for dates after 1970.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The seconds since 1970 of a time that [`time`] wrote.
pub(crate) fn seconds(time: &str) -> Option<u64> {
    let (date, clock) = time.strip_suffix('Z')?.split_once('T')?;
    let numbers =
        |text: &str, separator| -> Option<Vec<u64>> { text.split(separator).map(|part| part.parse().ok()).collect() };
    let (&[year, month, day], &[hour, minute, second]) = (&*numbers(date, '-')?, &*numbers(clock, ':')?) else {
        return None;
    };
    // His `days_from_civil`.
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.checked_sub(1)?;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * 146_097 + day_of_era).checked_sub(719_468)?;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// A number nobody else has. The standard library's hash keys are its only source of randomness.
pub(crate) fn random() -> u64 {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(COUNTER.fetch_add(1, Ordering::Relaxed));
    hasher.finish()
}

/// A version 4 UUID.
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

/// `length` random lower-case letters and digits.
pub(crate) fn random_name(length: usize) -> String {
    const LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    (0..length).map(|_| char::from(LETTERS[(random() % 36) as usize])).collect()
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
        assert_eq!(seconds("yesterday"), None);
    }
}
