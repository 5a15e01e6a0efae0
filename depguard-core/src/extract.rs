//! References read from the bytes of a LIST page, without building a tree of it.
//!
//! Every value that no path asks for is passed over, so that an object costs what its names and reference fields cost,
//! whatever else it holds; where a name is searched for, an object that doesn't hold it costs less still.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};

use self::found::Found;
pub use self::needle::Needle;
pub(crate) use self::outer::outer;
use self::tree::Tree;
use crate::json::Malformed;
use crate::path::FieldPath;

mod found;
mod list;
mod needle;
mod outer;
mod tree;
mod walk;

/// Reads the names of a list's objects and the values at some paths of each.
#[derive(Debug)]
pub struct Extractor {
    tree: Tree,
}

/// One object of a list.
#[derive(Debug)]
pub struct Item<'i, 'de> {
    found: &'i Found<'de>,
}

/// What is read at a path.
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

/// What was found at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit<'de> {
    /// By which turns.
    pub(crate) at: Turns,
    pub(crate) text: Cow<'de, str>,
}

/// Which element or value was taken at each wildcard of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turns {
    len: usize,
    taken: [u32; FieldPath::MAX_WILDCARDS + 1],
}

/// What a page says of the list that it belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The revision that the list was read at. A list without one is no API server's answer about that kind.
    pub resource_version: Option<String>,
    /// What to ask the next page with; `None` on the last.
    pub continue_token: Option<String>,
}

/// Why a page can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// Not JSON, or not a list of objects.
    #[error("not a list: {why}")]
    Malformed {
        /// What is wrong, and where.
        why: String,
    },
    /// A JSON object without `items`.
    #[error("not a list: it holds no `items`")]
    NoItems,
}

const NAME: usize = 0;
const NAMESPACE: usize = 1;
const UID: usize = 2;
const FIRST_PATH: usize = 3;

impl Extractor {
    /// The most values that are read of one object, at all paths where there may be many; however many there are at one,
    /// the others have their share.
    pub const MOST_VALUES: usize = 10_000;

    /// Reads the strings at `paths`, in that order: where a list of strings stands, each of them.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p FieldPath>) -> Self {
        Self::taking(paths.into_iter().map(|path| (path, Take::Texts)))
    }

    /// Reads what is to be taken at some paths, in that order.
    pub(crate) fn taking<'p>(paths: impl IntoIterator<Item = (&'p FieldPath, Take)>) -> Self {
        let mut tree = Tree::default();
        for field in ["name", "namespace", "uid"] {
            tree.add_field(["metadata", field]);
        }
        for (path, take) in paths {
            tree.add(path, take);
        }
        Self { tree }
    }

    /// Hands each object of the page to `each`.
    ///
    /// An object without a name is an error: what can't be named can't be told from another. So is all that is no JSON,
    /// but for what is inside of strings and numbers that are passed over, where nobody looks.
    pub fn page<'de>(&self, bytes: &'de [u8], each: impl FnMut(&Item<'_, 'de>)) -> Result<Page, PageError> {
        self.search(bytes, None, each)
    }

    /// Hands each object of the page that holds the needle to `each`; without a needle, each object.
    ///
    /// An object that doesn't hold it is never handed out, whatever else is in its page, so that nothing depends on where
    /// pages end. Of a page that doesn't hold it, only what says whether the list goes on is sure to be read: one that is
    /// broken elsewhere is as good as one in which nothing refers to anything, since nothing in it does.
    pub fn search<'de>(
        &self,
        bytes: &'de [u8],
        needle: Option<&Needle>,
        each: impl FnMut(&Item<'_, 'de>),
    ) -> Result<Page, PageError> {
        let mut hits = needle.map(|needle| needle.hits(bytes));
        if let Some(hits) = &mut hits
            && !hits.is_within(0..bytes.len())
            && let Some(page) = outer(bytes)
        {
            return Ok(page);
        }
        list::read(&self.tree, bytes, hits, each)
    }
}

impl<'de> Item<'_, 'de> {
    /// The object's name.
    pub fn name(&self) -> &str {
        self.first(NAME).unwrap_or_default()
    }

    /// The object's namespace, where it has one.
    pub fn namespace(&self) -> Option<&str> {
        self.first(NAMESPACE).filter(|namespace| !namespace.is_empty())
    }

    /// The object's UID.
    pub fn uid(&self) -> Option<&str> {
        self.first(UID).filter(|uid| !uid.is_empty())
    }

    /// The first string at the path of that index.
    pub fn value(&self, path: usize) -> Option<&str> {
        self.first(FIRST_PATH.saturating_add(path))
    }

    /// Every string at the path of that index, in the order in which they stand.
    pub fn values(&self, path: usize) -> impl Iterator<Item = &str> {
        self.hits(path).iter().map(|hit| hit.text.as_ref())
    }

    /// How many values stand where a string was looked for, and are something else: a number, say.
    pub fn misfits(&self) -> usize {
        self.found.misfits()
    }

    /// Whether it has more values at the paths than [`Extractor::MOST_VALUES`]; the others were not read.
    pub fn is_cut(&self) -> bool {
        self.found.is_cut()
    }

    /// Whether there are more values at the path of that index than were read.
    pub(crate) fn is_path_cut(&self, path: usize) -> bool {
        self.found.is_slot_cut(FIRST_PATH.saturating_add(path))
    }

    /// What was found at the path of that index, ascending by the turns.
    pub(crate) fn hits(&self, path: usize) -> &[Hit<'de>] {
        self.found.slot(FIRST_PATH.saturating_add(path))
    }

    fn first(&self, slot: usize) -> Option<&str> {
        self.found.slot(slot).first().map(|hit| hit.text.as_ref())
    }
}

impl Turns {
    /// These, and one more.
    fn and(mut self, taken: u32) -> Self {
        if let Some(turn) = self.taken.get_mut(self.len) {
            *turn = taken;
            self.len += 1;
        }
        self
    }

    /// The first `len` of them.
    pub(crate) fn first(mut self, len: usize) -> Self {
        for turn in self.taken.iter_mut().skip(len) {
            *turn = 0;
        }
        self.len = self.len.min(len);
        self
    }
}

impl Page {
    /// What is empty is what Go writes for what is absent.
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
