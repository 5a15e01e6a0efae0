//! Changes of an update.
//!
//! Objects are compared by value, side by side, without building trees. Neither the order of keys nor the spelling of
//! a number is a change. If a value can't be compared, it counts as changed.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use self::same::{entries, same};
use crate::model::control_plane::ControlPlane;
use crate::model::field_path::{FieldPath, Segment};
use crate::scan::json::{Json, Malformed, Value};

mod number;
mod same;

/// The metadata that may always change: the cluster's own bookkeeping, and what no writer chooses.
pub(super) const EXEMPT: [&str; 5] =
    ["finalizers", "ownerReferences", "managedFields", "resourceVersion", "generation"];

/// The annotations that a kcp sets whenever it reads an object, whatever was written.
const SET_BY_KCP: [&[u8]; 2] = [b"kcp.io/cluster", b"kcp.io/shard"];

/// The difference between two states of an object.
#[derive(Debug)]
pub(super) struct Change<'a> {
    old: &'a [u8],
    new: &'a [u8],
    /// The top-level fields that differ; `None`: any field may differ.
    fields: Option<BTreeSet<Vec<u8>>>,
    /// Number of bytes that may still be read for paths: each path is another pass through both states.
    left: Cell<usize>,
}

/// The most bytes of both states that are read for all paths of all locks together: half a second's worth.
const MAX_READ: usize = 512 << 20;
/// The most values at one path that are compared.
const MAX_VALUES: usize = 10_000;

/// Fields of a map, each with its JSON text.
type Entries<'de> = BTreeMap<Cow<'de, [u8]>, &'de [u8]>;

impl<'a> Change<'a> {
    /// Compares two states of an object, without the exempt metadata.
    pub(super) fn between(control_plane: ControlPlane, old: &'a str, new: &'a str) -> Self {
        let (old, new) = (old.as_bytes(), new.as_bytes());
        Self { old, new, fields: fields(control_plane, old, new).ok().flatten(), left: Cell::new(MAX_READ) }
    }

    /// Returns true if only exempt metadata differs.
    pub(super) fn is_exempt(&self) -> bool {
        self.fields.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// Returns true if the values at a path differ. A value that only one state has counts as a difference.
    pub(super) fn is_at(&self, path: &FieldPath) -> bool {
        if let (Some(fields), Some(Segment::Name(first))) = (&self.fields, path.segments().first())
            && !fields.contains(first.as_bytes())
        {
            return false;
        }
        self.reads(self.old.len() + self.new.len()).is_none() || !same_at(path, self.old, self.new).unwrap_or(false)
    }

    /// Returns true if a path that is [the same](Self::is_at) in both states has no value in either, so that it may
    /// belong to another version of the kind. Paths in the metadata are the same in each version.
    pub(super) fn is_nowhere(&self, path: &FieldPath) -> bool {
        let is_metadata = matches!(path.segments().first(), Some(Segment::Name(first)) if first == "metadata");
        !is_metadata
            && (self.reads(self.old.len()).is_none()
                || values(path, self.old).is_ok_and(|values| values.is_some_and(|values| values.is_empty())))
    }

    /// Counts the bytes as read. `None` if the limit is exceeded.
    fn reads(&self, bytes: usize) -> Option<()> {
        self.left.set(self.left.get().checked_sub(bytes)?);
        Some(())
    }
}

/// Returns the fields that differ. `None` if that is unknown.
fn fields(control_plane: ControlPlane, old: &[u8], new: &[u8]) -> Result<Option<BTreeSet<Vec<u8>>>, Malformed> {
    let (Some(old), Some(new)) = (map(old)?, map(new)?) else { return Ok(None) };
    let mut differ = BTreeSet::new();
    for key in old.keys().chain(new.keys()) {
        let (was, is) = (old.get(key).copied(), new.get(key).copied());
        let unchanged = match (was, is) {
            (Some(was), Some(is)) if key.as_ref() == b"metadata" => same_metadata(control_plane, was, is)?,
            _ => same_field(was, is)?,
        };
        if !unchanged {
            differ.insert(key.to_vec());
        }
    }
    Ok(Some(differ))
}

fn same_metadata(control_plane: ControlPlane, old: &[u8], new: &[u8]) -> Result<bool, Malformed> {
    let (Some(mut old), Some(mut new)) = (map(old)?, map(new)?) else { return Ok(false) };
    for metadata in [&mut old, &mut new] {
        metadata.retain(|key, _| !EXEMPT.iter().any(|exempt| key.as_ref() == exempt.as_bytes()));
    }
    if control_plane == ControlPlane::Kcp {
        let annotations = &b"annotations"[..];
        if !same_annotations(old.remove(annotations), new.remove(annotations))? {
            return Ok(false);
        }
    }
    same_entries(&old, &new)
}

/// Returns true if annotations are equal, except those that kcp sets. Missing annotations count as empty.
fn same_annotations(old: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool, Malformed> {
    let (Some(mut old), Some(mut new)) = (map_or_none(old)?, map_or_none(new)?) else { return Ok(false) };
    for annotations in [&mut old, &mut new] {
        annotations.retain(|key, _| !SET_BY_KCP.contains(&key.as_ref()));
    }
    same_entries(&old, &new)
}

fn same_entries(old: &Entries<'_>, new: &Entries<'_>) -> Result<bool, Malformed> {
    for key in old.keys().chain(new.keys()) {
        if !same_field(old.get(key).copied(), new.get(key).copied())? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_field(old: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool, Malformed> {
    match (old, new) {
        (Some(old), Some(new)) => same(old, new),
        (None, None) => Ok(true),
        _ => Ok(false),
    }
}

/// Returns the fields of a map by name; `None` if the value is no map, or if a name stands twice.
fn map(value: &[u8]) -> Result<Option<Entries<'_>>, Malformed> {
    let mut json = Json::new(value);
    let Value::Map = json.value()? else { return Ok(None) };
    let first = json.first_key()?;
    entries(&mut json, first)
}

fn map_or_none(value: Option<&[u8]>) -> Result<Option<Entries<'_>>, Malformed> {
    match value {
        None | Some(b"null") => Ok(Some(Entries::new())),
        Some(value) => map(value),
    }
}

// === Values at a path ===

/// Place of a value: the key or index at each wildcard.
type At<'de> = Vec<Step<'de>>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step<'de> {
    Key(Cow<'de, [u8]>),
    Index(u32),
}

fn same_at(path: &FieldPath, old: &[u8], new: &[u8]) -> Result<bool, Malformed> {
    let (Some(old), Some(new)) = (values(path, old)?, values(path, new)?) else { return Ok(false) };
    if old.len() != new.len() {
        return Ok(false);
    }
    for ((at, was), (also_at, is)) in old.iter().zip(&new) {
        if at != also_at || !same(was, is)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the values at a path by their places, in one pass. `None` if there are too many, or if a place occurs
/// twice.
fn values<'de>(path: &FieldPath, object: &'de [u8]) -> Result<Option<BTreeMap<At<'de>, &'de [u8]>>, Malformed> {
    let mut found = Vec::new();
    collect(&mut Json::new(object), path.segments(), &mut Vec::new(), &mut found)?;
    let count = found.len();
    let found = BTreeMap::from_iter(found);
    Ok(Some(found).filter(|found| found.len() == count && count <= MAX_VALUES))
}

/// Collects the values at a path. The recursion is as deep as the path, which is bounded.
fn collect<'de>(
    json: &mut Json<'de>,
    path: &[Segment],
    at: &mut At<'de>,
    found: &mut Vec<(At<'de>, &'de [u8])>,
) -> Result<(), Malformed> {
    let Some((segment, rest)) = path.split_first() else {
        let start = json.offset();
        json.skip()?;
        if found.len() <= MAX_VALUES {
            found.push((at.clone(), json.bytes_since(start)));
        }
        return Ok(());
    };
    match json.value()? {
        Value::Map => {
            let mut next = json.first_key()?;
            while let Some(key) = next {
                let key = key.bytes()?;
                match segment {
                    Segment::Name(name) if key.as_ref() == name.as_bytes() => collect(json, rest, at, found)?,
                    Segment::Wildcard => {
                        at.push(Step::Key(key));
                        collect(json, rest, at, found)?;
                        at.pop();
                    }
                    Segment::Name(_) | Segment::Index(_) | Segment::FromJson => json.skip()?,
                }
                next = json.next_key()?;
            }
        }
        Value::List => {
            let mut more = json.first_element();
            let mut index = 0;
            while more {
                match segment {
                    Segment::Index(number) if *number == index => collect(json, rest, at, found)?,
                    Segment::Wildcard => {
                        at.push(Step::Index(index));
                        collect(json, rest, at, found)?;
                        at.pop();
                    }
                    Segment::Name(_) | Segment::Index(_) | Segment::FromJson => json.skip()?,
                }
                index += 1;
                more = json.next_element()?;
            }
        }
        Value::String(_) | Value::Null | Value::Other => {}
    }
    Ok(())
}
