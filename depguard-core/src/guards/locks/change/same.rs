//! Comparison of two JSON texts by value.

use std::collections::BTreeMap;

use super::{Entries, number};
use crate::scan::json::{Json, Malformed, Quoted, Value};

/// The deepest nesting that is compared.
const MAX_DEPTH: u16 = 256;
/// The deepest nesting of maps with different orders of keys: each such map costs one more pass. API servers sort
/// keys.
const MAX_DISORDER: u8 = 16;

/// Limits for the rest of a comparison.
#[derive(Clone, Copy)]
struct Limits {
    depth: u16,
    disorder: u8,
}

/// Returns true if two values are equal. Values that are nested too deeply to compare count as different.
pub(super) fn same(a: &[u8], b: &[u8]) -> Result<bool, Malformed> {
    let limits = Limits { depth: MAX_DEPTH, disorder: MAX_DISORDER };
    Ok(a == b || value(&mut Json::new(a), &mut Json::new(b), limits)?)
}

/// Reads the rest of a map whose first key was read, and returns its fields; `None` if a key stands twice.
pub(super) fn entries<'de>(
    json: &mut Json<'de>,
    first: Option<Quoted<'de>>,
) -> Result<Option<Entries<'de>>, Malformed> {
    let (mut found, mut next, mut twice) = (BTreeMap::new(), first, false);
    while let Some(key) = next {
        let start = json.offset();
        json.skip()?;
        twice |= found.insert(key.bytes()?, json.bytes_since(start)).is_some();
        next = json.next_key()?;
    }
    Ok(Some(found).filter(|_| !twice))
}

/// Reads a value of each text, up to the first difference.
fn value(a: &mut Json<'_>, b: &mut Json<'_>, limits: Limits) -> Result<bool, Malformed> {
    let (a_start, b_start) = (a.offset(), b.offset());
    let Some(inner) = limits.depth.checked_sub(1).map(|depth| Limits { depth, ..limits }) else { return Ok(false) };
    match (a.value()?, b.value()?) {
        (Value::Map, Value::Map) => map(a, b, inner),
        (Value::List, Value::List) => list(a, b, inner),
        (Value::String(a), Value::String(b)) => Ok(a.text()? == b.text()?),
        (Value::Null, Value::Null) => Ok(true),
        (Value::Other, Value::Other) => Ok(number::same(a.bytes_since(a_start), b.bytes_since(b_start))),
        _ => Ok(false),
    }
}

fn list(a: &mut Json<'_>, b: &mut Json<'_>, limits: Limits) -> Result<bool, Malformed> {
    let mut more = (a.first_element(), b.first_element());
    while more == (true, true) {
        if !value(a, b, limits)? {
            return Ok(false);
        }
        more = (a.next_element()?, b.next_element()?);
    }
    Ok(more == (false, false))
}

/// Compares two maps. As long as the keys stand in the same order, no fields are kept in memory.
fn map<'de>(a: &mut Json<'de>, b: &mut Json<'_>, limits: Limits) -> Result<bool, Malformed> {
    let (mut a_key, mut b_key) = (a.first_key()?, b.first_key()?);
    loop {
        match (a_key, b_key) {
            (None, None) => return Ok(true),
            (Some(a_next), Some(b_next)) if a_next.bytes()? == b_next.bytes()? => {
                if !value(a, b, limits)? {
                    return Ok(false);
                }
                (a_key, b_key) = (a.next_key()?, b.next_key()?);
            }
            (Some(_), Some(_)) => break,
            _ => return Ok(false),
        }
    }
    let Some(disorder) = limits.disorder.checked_sub(1) else { return Ok(false) };
    let (Some(a), Some(b)) = (entries(a, a_key)?, entries(b, b_key)?) else { return Ok(false) };
    if a.len() != b.len() {
        return Ok(false);
    }
    for ((a_key, a), (b_key, b)) in a.iter().zip(&b) {
        if a_key != b_key || !value(&mut Json::new(a), &mut Json::new(b), Limits { disorder, ..limits })? {
            return Ok(false);
        }
    }
    Ok(true)
}
