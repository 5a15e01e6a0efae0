//! References read from the bytes of a LIST page, without building a tree of it.
//!
//! Every value that no path asks for is skipped by the JSON parser, so that an object costs what its names and
//! reference fields cost, whatever else it holds.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::path::{FieldPath, Segment};
use crate::text::Text;

/// Reads the names of a list's objects and the values at some paths of each.
#[derive(Debug)]
pub struct Extractor {
    root: Node,
    slots: usize,
}

/// One object of a list.
#[derive(Debug)]
pub struct Item<'i, 'de> {
    slots: &'i [Option<Cow<'de, str>>],
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
    /// Reads the values at `paths`, in that order.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p FieldPath>) -> Self {
        let mut root = Node::default();
        let mut slots = FIRST_PATH;
        for (slot, field) in [(NAME, "name"), (NAMESPACE, "namespace"), (UID, "uid")] {
            root.child("metadata").child(field).slots.push(slot);
        }
        for path in paths {
            let names = path.segments().iter().map(|segment| match segment {
                Segment::Name(name) => Some(name),
                Segment::Index(_) | Segment::Wildcard => None,
            });
            // Rules with such paths are not in force yet; here they lead nowhere.
            if let Some(names) = names.collect::<Option<Vec<_>>>() {
                names.into_iter().fold(&mut root, |node, name| node.child(name)).slots.push(slots);
            }
            slots += 1;
        }
        Self { root, slots }
    }

    /// Hands each object of the page to `each`.
    ///
    /// An object without a name is an error: what can't be named can't be told from another.
    pub fn page<'de>(&self, bytes: &'de [u8], mut each: impl FnMut(&Item<'_, 'de>)) -> Result<Page, PageError> {
        let mut found = vec![None; self.slots];
        let mut items_seen = false;
        let mut page = Page::default();
        let mut json = serde_json::Deserializer::from_slice(bytes);
        // Recursion goes as deep as the paths, which are bounded; all else is skipped without recursion.
        json.disable_recursion_limit();
        let list = List { root: &self.root, found: &mut found, each: &mut each, items_seen: &mut items_seen };
        json.deserialize_map(ListVisitor { list, page: &mut page })?;
        json.end()?;
        if items_seen { Ok(page) } else { Err(PageError::NoItems) }
    }
}

impl Item<'_, '_> {
    /// The object's name.
    pub fn name(&self) -> &str {
        self.slot(NAME).unwrap_or_default()
    }

    /// The object's namespace, where it has one.
    pub fn namespace(&self) -> Option<&str> {
        self.slot(NAMESPACE).filter(|namespace| !namespace.is_empty())
    }

    /// The object's UID.
    pub fn uid(&self) -> Option<&str> {
        self.slot(UID).filter(|uid| !uid.is_empty())
    }

    /// The value at the path of that index, where it is a string.
    pub fn value(&self, path: usize) -> Option<&str> {
        self.slot(FIRST_PATH.saturating_add(path))
    }

    fn slot(&self, slot: usize) -> Option<&str> {
        self.slots.get(slot)?.as_deref()
    }
}

// === The paths, as a tree ===

/// The keys to follow from here, and the slots that a string here goes to.
#[derive(Debug, Default)]
struct Node {
    children: Vec<(String, Node)>,
    slots: Vec<usize>,
}

impl Node {
    fn child(&mut self, name: &str) -> &mut Self {
        let at = self.children.iter().position(|(key, _)| key == name).unwrap_or_else(|| {
            self.children.push((name.to_owned(), Self::default()));
            self.children.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found or just pushed")]
        &mut self.children[at].1
    }

    /// Forgets what was found here and below.
    fn clear(&self, found: &mut [Option<Cow<'_, str>>]) {
        for slot in &self.slots {
            if let Some(value) = found.get_mut(*slot) {
                *value = None;
            }
        }
        for (_, child) in &self.children {
            child.clear(found);
        }
    }
}

// === The list ===

struct List<'l, 'de, F> {
    root: &'l Node,
    found: &'l mut Vec<Option<Cow<'de, str>>>,
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
            self.found.fill(None);
            let seed = ObjectSeed { node: self.root, found: self.found };
            if items.next_element_seed(seed)?.is_none() {
                return Ok(());
            }
            let item = Item { slots: self.found };
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

// === An object ===

/// An item of the list: must be a JSON object.
struct ObjectSeed<'l, 'de> {
    node: &'l Node,
    found: &'l mut Vec<Option<Cow<'de, str>>>,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(ValueVisitor { node: self.node, found: self.found })
    }
}

/// A value on the way of some path: may be of any type.
struct ValueVisitor<'l, 'de> {
    node: &'l Node,
    found: &'l mut Vec<Option<Cow<'de, str>>>,
}

impl<'de> DeserializeSeed<'de> for ValueVisitor<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> ValueVisitor<'_, 'de> {
    fn store(self, text: impl Fn() -> Cow<'de, str>) {
        for slot in &self.node.slots {
            if let Some(value) = self.found.get_mut(*slot) {
                *value = Some(text());
            }
        }
    }
}

impl<'de> Visitor<'de> for ValueVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(child) = map.next_key_seed(KeySeed(self.node))? {
            match child {
                Some(node) => {
                    // Of a key that stands twice the last one counts, as everywhere in JSON.
                    node.clear(self.found);
                    map.next_value_seed(ValueVisitor { node, found: self.found })?;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<(), E> {
        self.store(|| Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.store(|| Cow::Owned(text.to_owned()));
        Ok(())
    }

    // Whatever is neither an object nor a string is no reference and leads to none.

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
}

/// Finds a key among a node's children without keeping it.
struct KeySeed<'l>(&'l Node);

impl<'de, 'l> DeserializeSeed<'de> for KeySeed<'l> {
    type Value = Option<&'l Node>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'l> Visitor<'_> for KeySeed<'l> {
    type Value = Option<&'l Node>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.children.iter().find(|(name, _)| name == key).map(|(_, node)| node))
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
            (json!(["a"]), None),
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
