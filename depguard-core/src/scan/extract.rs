//! Reader of references from the bytes of a LIST page, without building a tree of it.
//!
//! The reader skips every value that no path asks for. An object therefore costs as much as its names and reference
//! fields, whatever else it holds. If a name is searched for, an object without that name costs still less.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};

use self::found_values::FoundValues;
pub(crate) use self::list_envelope::list_envelope;
use self::path_trie::PathTrie;
pub use self::prefilter::Prefilter;
use crate::model::field_path::FieldPath;
use crate::scan::json::Malformed;

mod found_values;
mod list;
mod list_envelope;
mod path_trie;
mod prefilter;
mod visitor;

/// Reader of the names of a list's objects, and of the values at some paths of each object.
#[derive(Debug)]
pub struct Extractor {
    tree: PathTrie,
}

/// One object of a list.
#[derive(Debug)]
pub struct Item<'i, 'de> {
    found: &'i FoundValues<'de>,
}

/// Form in which a value at a path is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// A string.
    Text,
    /// A string, or each string of a list.
    Texts,
    /// The keys of a map, each as if it stood at a wildcard at the end of the path.
    Keys,
    /// The JSON text.
    Json,
}

/// A value found at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit<'de> {
    /// The element or value taken at each wildcard on the way.
    pub(crate) at: Indices,
    pub(crate) text: Cow<'de, str>,
}

/// The element or value taken at each wildcard of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Indices {
    len: usize,
    taken: [u32; FieldPath::MAX_WILDCARDS + 1],
}

/// Metadata that a page gives for the list to which it belongs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The revision of the list. Without one, the page is no API server's answer about that kind.
    pub resource_version: Option<String>,
    /// The token with which to ask for the next page; `None` on the last one.
    pub continue_token: Option<String>,
}

/// The reason why a page can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// Bytes that are not JSON, or not a list of objects.
    #[error("not a list: {why}")]
    Malformed {
        /// The error and its position.
        why: String,
    },
    /// A JSON object without `items`.
    #[error("not a list: it holds no `items`")]
    NoItems,
}

/// Reads the items of a list: `null` is an empty list, because Go writes an empty slice as `null`; a missing field
/// remains `None`.
pub(crate) fn present_items<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    Option::deserialize(deserializer).map(|items: Option<_>| Some(items.unwrap_or_default()))
}

const NAME: usize = 0;
const NAMESPACE: usize = 1;
const UID: usize = 2;
const FIRST_PATH: usize = 3;

impl Extractor {
    /// Limit on the values that are read of one object, for all paths with many values together. Each path may still
    /// fill its share beyond the limit, so that one path with many values doesn't use up the share of the others.
    pub const MAX_VALUES: usize = 10_000;

    /// Creates a reader of the strings at `paths`, in that order: if a path leads to a list of strings, each of them.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p FieldPath>) -> Self {
        Self::taking(paths.into_iter().map(|path| (path, Take::Texts)))
    }

    /// Creates a reader of the values at some paths, in that order, each in its form.
    pub(crate) fn taking<'p>(paths: impl IntoIterator<Item = (&'p FieldPath, Take)>) -> Self {
        let mut tree = PathTrie::default();
        for field in ["name", "namespace", "uid"] {
            tree.add_field(["metadata", field]);
        }
        tree.add_all(paths);
        Self { tree }
    }

    /// Hands each object of the page to `each`.
    ///
    /// An object without a name is an error, because nothing tells it from another object. Invalid JSON is an error
    /// as well, except inside strings and numbers that are skipped: the reader doesn't look into those.
    pub fn page<'de>(&self, bytes: &'de [u8], each: impl FnMut(&Item<'_, 'de>)) -> Result<Page, PageError> {
        self.search(bytes, None, each)
    }

    /// Hands one object, which is in no list, to `each`.
    pub(crate) fn object<'de>(&self, bytes: &'de [u8], each: impl FnMut(&Item<'_, 'de>)) -> Result<(), PageError> {
        Ok(list::object(&self.tree, bytes, each)?)
    }

    /// Hands each object of the page that contains a searched name to `each`; without a prefilter, each object.
    ///
    /// An object without a searched name is never handed out, whatever else is in its page, so the result doesn't depend
    /// on where pages end. If no object of the page has such a name, only the metadata of the list is certain to be
    /// read. Such a page may be broken elsewhere: it then counts as a page without references, because
    /// it holds none.
    pub fn search<'de>(
        &self,
        bytes: &'de [u8],
        prefilter: Option<&Prefilter>,
        each: impl FnMut(&Item<'_, 'de>),
    ) -> Result<Page, PageError> {
        let mut hits = prefilter.map(|prefilter| prefilter.hits(bytes));
        if let Some(hits) = &mut hits
            && !hits.is_within(0..bytes.len())
            && let Some(page) = list_envelope(bytes)
        {
            return Ok(page);
        }
        list::read(&self.tree, bytes, hits, each)
    }
}

impl<'de> Item<'_, 'de> {
    /// Returns the object's name.
    pub fn name(&self) -> &str {
        self.first(NAME).unwrap_or_default()
    }

    /// Returns the object's namespace, if it has one.
    pub fn namespace(&self) -> Option<&str> {
        self.first(NAMESPACE).filter(|namespace| !namespace.is_empty())
    }

    /// Returns the object's UID.
    pub fn uid(&self) -> Option<&str> {
        self.first(UID).filter(|uid| !uid.is_empty())
    }

    /// Returns the first string at the path of that index.
    pub fn value(&self, path: usize) -> Option<&str> {
        self.first(FIRST_PATH.saturating_add(path))
    }

    /// Returns every string at the path of that index, in document order.
    pub fn values(&self, path: usize) -> impl Iterator<Item = &str> {
        self.hits(path).iter().map(|hit| hit.text.as_ref())
    }

    /// Returns the number of values that have another type than the path asks for: a number instead of a string, for
    /// example.
    pub(crate) fn misfits(&self) -> usize {
        self.found.misfits
    }

    /// Returns true if the object has more values than [`Extractor::MAX_VALUES`] allows, or copies of too many bytes, or a
    /// string that begins like JSON and is none: the remaining values were not read.
    pub fn is_cut(&self) -> bool {
        self.found.is_cut()
    }

    /// Returns true if there are more values at the path of that index than were read.
    pub(crate) fn is_path_cut(&self, path: usize) -> bool {
        self.found.is_slot_cut(FIRST_PATH.saturating_add(path))
    }

    /// Returns true if the path of that index leads into a string that begins like JSON and is none.
    pub(crate) fn is_path_broken(&self, path: usize) -> bool {
        self.found.is_slot_broken(FIRST_PATH.saturating_add(path))
    }

    /// Returns the indexes of the paths at which the object has values, whether they were read or not, in no order.
    pub(crate) fn paths_with_values(&self) -> impl Iterator<Item = usize> {
        self.found.touched().iter().filter_map(|slot| slot.checked_sub(FIRST_PATH))
    }

    /// Returns the values found at the path of that index, in ascending order of their indices.
    pub(crate) fn hits(&self, path: usize) -> &[Hit<'de>] {
        self.found.slot(FIRST_PATH.saturating_add(path))
    }

    fn first(&self, slot: usize) -> Option<&str> {
        self.found.slot(slot).first().map(|hit| hit.text.as_ref())
    }
}

impl Indices {
    /// Appends one index.
    fn and(mut self, taken: u32) -> Self {
        if let Some(index) = self.taken.get_mut(self.len) {
            *index = taken;
            self.len += 1;
        }
        self
    }

    /// Keeps only the first `len` indices.
    pub(crate) fn first(mut self, len: usize) -> Self {
        for index in self.taken.iter_mut().skip(len) {
            *index = 0;
        }
        self.len = self.len.min(len);
        self
    }
}

impl Page {
    /// Creates a page. Go writes an empty string for an absent one, so empty strings count as absent.
    fn new(resource_version: Option<String>, continue_token: Option<String>) -> Self {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        Self { resource_version: given(resource_version), continue_token: given(continue_token) }
    }
}

impl<'de> Deserialize<'de> for Page {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ListMeta {
            resource_version: Option<String>,
            r#continue: Option<String>,
        }
        let ListMeta { resource_version, r#continue } = ListMeta::deserialize(deserializer)?;
        Ok(Self::new(resource_version, r#continue))
    }
}

impl From<serde_json::Error> for PageError {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed { why: error.to_string() }
    }
}

impl From<Malformed> for PageError {
    fn from(error: Malformed) -> Self {
        Self::Malformed { why: error.to_string() }
    }
}

#[cfg(test)]
mod tests;
