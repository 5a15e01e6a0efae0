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
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn values(paths: &[&str], items: &Value) -> Vec<Vec<Option<String>>> {
        let paths: Vec<_> = paths.iter().map(|path| FieldPath::parse(path).unwrap()).collect();
        let list = json!({"items": items, "metadata": {"resourceVersion": "1"}}).to_string();
        let mut all = Vec::new();
        Extractor::new(&paths)
            .page(list.as_bytes(), |item| {
                all.push((0..paths.len()).map(|path| item.value(path).map(str::to_owned)).collect());
            })
            .unwrap();
        all
    }

    fn page(json: &str) -> Result<(Page, Vec<String>), PageError> {
        let mut names = Vec::new();
        Extractor::new([]).page(json.as_bytes(), |item| names.push(item.name().to_owned())).map(|page| (page, names))
    }

    #[test]
    fn only_a_string_is_a_reference() {
        let leaf = |leaf: Value| json!({"metadata": {"name": "m"}, "spec": {"ref": leaf}});
        for (value, expected) in [
            (json!("a"), Some("a")),
            (json!("a\"b\\u00e9"), Some("a\"b\\u00e9")),
            (json!(""), Some("")),
            (json!(1), None),
            (json!(-1), None),
            (json!(1.5), None),
            (json!(true), None),
            (json!(null), None),
            (json!(["a"]), Some("a")),
            (json!([1, null, ["b"], {"c": "c"}, "a", "b"]), Some("a")),
            (json!({"name": "a"}), None),
        ] {
            assert_eq!(values(&[".spec.ref"], &json!([leaf(value)])), [[expected.map(str::to_owned)]]);
        }
    }

    #[test]
    fn a_path_through_anything_but_an_object_leads_nowhere() {
        for spec in [json!(null), json!("ref"), json!([{"ref": "a"}]), json!(1), json!({})] {
            assert_eq!(values(&[".spec.ref"], &json!([{"metadata": {"name": "m"}, "spec": spec}])), [[None]]);
        }
    }

    #[test]
    fn several_paths_are_read_in_one_pass_and_no_object_inherits_from_the_one_before() {
        let items = json!([
            {"metadata": {"name": "m1", "labels": {"a": "x"}}, "spec": {"a": "1", "b": {"c": "2"}}},
            {"spec": {"b": "3"}, "metadata": {"name": "m2"}},
        ]);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            values(&[".spec.a", ".spec.b.c", ".spec.b", ".metadata.name", ".spec.a"], &items),
            [[some("1"), some("2"), None, some("m1"), some("1")], [None, None, some("3"), some("m2"), None]]
        );
    }

    #[test]
    fn of_a_key_that_stands_twice_the_last_counts() {
        let list = r#"{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"m"},"spec":{"a":"1"},"spec":{"b":"2"}}]}"#;
        let paths = [FieldPath::parse(".spec.a").unwrap(), FieldPath::parse(".spec.b").unwrap()];
        Extractor::new(&paths)
            .page(list.as_bytes(), |item| assert_eq!((item.value(0), item.value(1)), (None, Some("2"))))
            .unwrap();
    }

    #[test]
    fn a_page_tells_its_revision_and_what_follows_wherever_the_metadata_stands() {
        let last = Page { resource_version: Some("7".into()), continue_token: None };
        let more = Page { continue_token: Some("next".into()), ..last.clone() };
        for (json, expected, names) in [
            (r#"{"items":[],"metadata":{"resourceVersion":"7","continue":""}}"#, &last, vec![]),
            (r#"{"items":null,"metadata":{"resourceVersion":"7"}}"#, &last, vec![]),
            (
                r#"{"metadata":{"continue":"next","resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}"#,
                &more,
                vec!["a"],
            ),
            (r#"{"items":[{"metadata":{"name":"a"}}],"metadata":{}}"#, &Page::default(), vec!["a"]),
        ] {
            assert_eq!(
                page(json).unwrap(),
                (expected.clone(), names.into_iter().map(str::to_owned).collect()),
                "{json}"
            );
        }
    }

    #[test]
    fn what_is_not_a_list_of_named_objects_is_an_error() {
        for json in [
            "",
            "[]",
            "null",
            "{}",
            r#"{"kind":"Status","metadata":{},"status":"Failure"}"#,
            r#"{"items":{}}"#,
            r#"{"items":"x"}"#,
            r#"{"items":[1]}"#,
            r#"{"items":[null]}"#,
            r#"{"items":[{}]}"#,
            r#"{"items":[{"metadata":{"name":""}}]}"#,
            r#"{"items":[{"metadata":{"name":1}}]}"#,
            r#"{"items":[],"items":[{"metadata":{"name":"a"}}]}"#,
            r#"{"items":[{"metadata":{"name":"a"}}]"#,
            r#"{"items":[]}{"items":[]}"#,
        ] {
            assert!(page(json).is_err(), "{json}");
        }
    }

    #[test]
    fn the_longest_path_is_followed_and_deep_nesting_beside_it_passed_over() {
        let path = ["a"; 127].join(".");
        let nested = format!("{}\"x\"{}", "{\"a\":".repeat(126), "}".repeat(126));
        let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        let list = format!(r#"{{"items":[{{"metadata":{{"name":"m"}},"deep":{deep},"a":{nested}}}]}}"#);
        let path = FieldPath::parse(&path).unwrap();
        let result = Extractor::new([&path]).page(list.as_bytes(), |item| assert_eq!(item.value(0), Some("x")));
        result.unwrap();
    }
}
