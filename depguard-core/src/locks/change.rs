//! What an update changes.
//!
//! Objects are compared by value, side by side and without trees of them: neither the order of keys nor the spelling of
//! a number is a change. Whatever can't be compared counts as changed.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use self::same::{entries, same};
use crate::home::Home;
use crate::json::{Json, Malformed, Value};
use crate::path::{FieldPath, Segment};

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
    /// The fields of the object that differ; `None`: any may.
    fields: Option<BTreeSet<Vec<u8>>>,
    /// How many bytes may still be read for paths: each is another pass through both states.
    left: Cell<usize>,
}

/// What is read of both states together for all paths of all locks: half a second's worth.
const MOST_READ: usize = 512 << 20;
/// The most values at one path that are compared.
const MOST_VALUES: usize = 10_000;

/// The fields of a map, each with its text.
type Entries<'de> = BTreeMap<Cow<'de, [u8]>, &'de [u8]>;

impl<'a> Change<'a> {
    /// Compares two states of an object, leaving out what is exempt.
    pub(super) fn between(home: Home, old: &'a str, new: &'a str) -> Self {
        let (old, new) = (old.as_bytes(), new.as_bytes());
        Self { old, new, fields: fields(home, old, new).ok().flatten(), left: Cell::new(MOST_READ) }
    }

    /// Whether nothing differs but what is exempt.
    pub(super) fn is_exempt(&self) -> bool {
        self.fields.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// Whether the values at a path differ: those that only one state has, too.
    pub(super) fn is_at(&self, path: &FieldPath) -> bool {
        if let (Some(fields), Some(Segment::Name(first))) = (&self.fields, path.segments().first())
            && !fields.contains(first.as_bytes())
        {
            return false;
        }
        self.reads(self.old.len() + self.new.len()).is_none() || !same_at(path, self.old, self.new).unwrap_or(false)
    }

    /// Whether a path that is [the same](Self::is_at) in both states leads to nothing in either, so that it may be of another
    /// version of the kind. Metadata is the same in each.
    pub(super) fn is_nowhere(&self, path: &FieldPath) -> bool {
        let is_metadata = matches!(path.segments().first(), Some(Segment::Name(first)) if first == "metadata");
        !is_metadata
            && (self.reads(self.old.len()).is_none()
                || values(path, self.old).is_ok_and(|values| values.is_some_and(|values| values.is_empty())))
    }

    /// Takes note that so much is read. `None`: it would be too much.
    fn reads(&self, bytes: usize) -> Option<()> {
        self.left.set(self.left.get().checked_sub(bytes)?);
        Some(())
    }
}

/// The fields that differ. `None`: it can't be told.
fn fields(home: Home, old: &[u8], new: &[u8]) -> Result<Option<BTreeSet<Vec<u8>>>, Malformed> {
    let (Some(old), Some(new)) = (map(old)?, map(new)?) else { return Ok(None) };
    let mut differ = BTreeSet::new();
    for key in old.keys().chain(new.keys()) {
        let (was, is) = (old.get(key).copied(), new.get(key).copied());
        let unchanged = match (was, is) {
            (Some(was), Some(is)) if key.as_ref() == b"metadata" => same_metadata(home, was, is)?,
            _ => same_field(was, is)?,
        };
        if !unchanged {
            differ.insert(key.to_vec());
        }
    }
    Ok(Some(differ))
}

fn same_metadata(home: Home, old: &[u8], new: &[u8]) -> Result<bool, Malformed> {
    let (Some(mut old), Some(mut new)) = (map(old)?, map(new)?) else { return Ok(false) };
    for metadata in [&mut old, &mut new] {
        metadata.retain(|key, _| !EXEMPT.iter().any(|exempt| key.as_ref() == exempt.as_bytes()));
    }
    if home == Home::Kcp {
        let annotations = &b"annotations"[..];
        if !same_annotations(old.remove(annotations), new.remove(annotations))? {
            return Ok(false);
        }
    }
    same_entries(&old, &new)
}

/// Whether annotations are the same but for those that a kcp sets; what is not there has none.
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

/// The fields of a map by their names; `None`: it is no map, or a name stands twice.
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

// === At a path ===

/// Where a value stands: by which key or index at each wildcard.
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

/// The values at a path by where they stand, in one pass. `None`: there are too many, or one stands twice.
fn values<'de>(path: &FieldPath, object: &'de [u8]) -> Result<Option<BTreeMap<At<'de>, &'de [u8]>>, Malformed> {
    let mut found = Vec::new();
    collect(&mut Json::new(object), path.segments(), &mut Vec::new(), &mut found)?;
    let count = found.len();
    let found = BTreeMap::from_iter(found);
    Ok(Some(found).filter(|found| found.len() == count && count <= MOST_VALUES))
}

/// Recursion goes as deep as the path, which is bounded.
fn collect<'de>(
    json: &mut Json<'de>,
    path: &[Segment],
    at: &mut At<'de>,
    found: &mut Vec<(At<'de>, &'de [u8])>,
) -> Result<(), Malformed> {
    let Some((segment, rest)) = path.split_first() else {
        let start = json.offset();
        json.skip()?;
        if found.len() <= MOST_VALUES {
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
                    Segment::Name(_) | Segment::Index(_) => json.skip()?,
                }
                next = json.next_key()?;
            }
        }
        Value::List => {
            let mut more = json.first_element();
            let mut index = 0;
            while more {
                match segment {
                    Segment::Index(wanted) if *wanted == index => collect(json, rest, at, found)?,
                    Segment::Wildcard => {
                        at.push(Step::Index(index));
                        collect(json, rest, at, found)?;
                        at.pop();
                    }
                    Segment::Name(_) | Segment::Index(_) => json.skip()?,
                }
                index += 1;
                more = json.next_element()?;
            }
        }
        Value::String(_) | Value::Null | Value::Other => {}
    }
    Ok(())
}
