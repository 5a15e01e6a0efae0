//! References read from the bytes of a LIST page, without building a tree of it.
//!
//! Every value that no path asks for is skipped by the JSON parser, so that an object costs what its names and
//! reference fields cost, whatever else it holds.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use self::tree::Tree;
use self::walk::{Found, ObjectSeed, Walk};
use crate::path::FieldPath;
use crate::text::Text;

mod plain;
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
pub struct Page {
    /// The revision that the list was read at. A list without one is no API server's answer about that kind.
    pub resource_version: Option<String>,
    /// What to ask the next page with; `None` on the last.
    pub continue_token: Option<String>,
}

/// Why a page can't be read.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// Not JSON, or not a list of objects.
    #[error("not a list: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A JSON object without `items`.
    #[error("not a list: it holds no `items`")]
    NoItems,
}

const NAME: usize = 0;
const NAMESPACE: usize = 1;
const UID: usize = 2;
const FIRST_PATH: usize = 3;

impl Extractor {
    /// The most values that are read of one object.
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
        tree.choose();
        Self { tree }
    }

    /// Hands each object of the page to `each`.
    ///
    /// An object without a name is an error: what can't be named can't be told from another.
    pub fn page<'de>(&self, bytes: &'de [u8], mut each: impl FnMut(&Item<'_, 'de>)) -> Result<Page, PageError> {
        let mut items_seen = false;
        let mut page = Page::default();
        let mut json = serde_json::Deserializer::from_slice(bytes);
        // Recursion goes as deep as the paths, which are bounded; all else is skipped without recursion.
        json.disable_recursion_limit();
        let list = List { walk: &mut Walk::new(&self.tree), each: &mut each, items_seen: &mut items_seen };
        json.deserialize_map(ListVisitor { list, page: &mut page })?;
        json.end()?;
        if items_seen { Ok(page) } else { Err(PageError::NoItems) }
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

// === The list ===

struct List<'l, 'de, F> {
    walk: &'l mut Walk<'l, 'de>,
    each: &'l mut F,
    items_seen: &'l mut bool,
}

struct ListVisitor<'l, 'de, F> {
    list: List<'l, 'de, F>,
    page: &'l mut Page,
}

impl<'de, F: FnMut(&Item<'_, 'de>)> Visitor<'de> for ListVisitor<'_, 'de, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match key.as_str() {
                "items" if *self.list.items_seen => return Err(A::Error::duplicate_field("items")),
                "items" => {
                    *self.list.items_seen = true;
                    map.next_value_seed(&mut self.list)?;
                }
                "metadata" => *self.page = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

impl<'de, F: FnMut(&Item<'_, 'de>)> DeserializeSeed<'de> for &mut List<'_, 'de, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(&Item<'_, 'de>)> Visitor<'de> for &mut List<'_, 'de, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        loop {
            if items.next_element_seed(ObjectSeed(self.walk))?.is_none() {
                return Ok(());
            }
            let item = Item { found: self.walk.found() };
            if item.name().is_empty() {
                return Err(A::Error::custom("an object of the list has no metadata.name"));
            }
            (self.each)(&item);
        }
    }

    /// Go writes an empty slice as `null`.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
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
        let meta = ListMeta::deserialize(deserializer)?;
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        Ok(Self { resource_version: given(meta.resource_version), continue_token: given(meta.r#continue) })
    }
}

#[cfg(test)]
mod tests;
