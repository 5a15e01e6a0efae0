//! Tests that a page searched for names gives the same as a page read whole.

use depguard_core::FieldPath;
use depguard_core::scan::{Extractor, Item, Page, Prefilter};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// Values read from an object: its name, and the values at the paths.
type Read = (String, Vec<Vec<String>>);

fn read(item: &Item<'_, '_>) -> Read {
    let values = |path| item.values(path).map(str::to_owned).collect();
    (item.name().to_owned(), (0..PATHS.len()).map(values).collect())
}

const PATHS: [&str; 3] = [".a.b", ".*[*].a", "['a-b']"];

fn extractor() -> Extractor {
    Extractor::new(&PATHS.map(|path| FieldPath::parse(path).unwrap()))
}

fn whole(bytes: &[u8]) -> (Page, Vec<Read>) {
    let mut objects = Vec::new();
    let page = extractor().page(bytes, |item| objects.push(read(item))).unwrap();
    (page, objects)
}

fn searched(bytes: &[u8], prefilter: &Prefilter) -> (Page, Vec<Read>) {
    let mut objects = Vec::new();
    let page = extractor().search(bytes, Some(prefilter), |item| objects.push(read(item))).unwrap();
    (page, objects)
}

// === Lists ===

/// Names, and strings that contain a name or nearly one.
const TEXTS: [&str; 12] = [
    "a",
    "a-b",
    "b.7",
    "",
    "x",
    "A",
    "aa",
    "\"a\"",
    "\\\"a",
    "a\"",
    "}]},{[",
    "\",\"metadata\":{\"continue\":\"no\"}}",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        6 => select(&TEXTS[..]).prop_map(Value::from),
        1 => any::<String>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(
        4,
        16,
        4,
        |inner| prop_oneof![2 => map(inner.clone()), 1 => vec(inner, 0..3).prop_map(Value::from)],
    )
}

fn map(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let key = select(&["a", "b", "a-b", "metadata", "items", "\"metadata\":{"][..]).prop_map(str::to_owned);
    vec((key, value), 0..4).prop_map(|entries| entries.into_iter().collect::<Map<_, _>>().into())
}

fn object() -> impl Strategy<Value = Value> {
    (map(value()), select(&TEXTS[..3])).prop_map(|(mut object, name)| {
        object["metadata"] = json!({"name": name});
        object
    })
}

fn metadata() -> impl Strategy<Value = Value> {
    let text = || prop_oneof![3 => select(&TEXTS[..]).prop_map(Value::from), 1 => Just(Value::Null)];
    let keys = select(&["resourceVersion", "continue", "selfLink", "more"][..]);
    let value = prop_oneof![9 => text(), 1 => Just(json!({"a": ["{"]}))];
    vec((keys, value), 0..4).prop_map(|entries| {
        let mut metadata = Map::new();
        for (key, value) in entries {
            let value = if value.is_object() && key != "more" { Value::Null } else { value };
            metadata.insert(key.to_owned(), value);
        }
        metadata.into()
    })
}

/// Style of a document: the white space between tokens, and which characters are written as escapes.
#[derive(Debug, Clone)]
struct Hand {
    space: &'static str,
    escapes: Vec<bool>,
}

fn hand() -> impl Strategy<Value = Hand> {
    let escapes = prop_oneof![1 => Just(vec![false]), 1 => vec(any::<bool>(), 1..40)];
    (select(&["", " ", "\n\t"][..]), escapes).prop_map(|(space, escapes)| Hand { space, escapes })
}

impl Hand {
    fn value(&self, value: &Value, into: &mut String) {
        match value {
            Value::String(text) => self.text(text, into),
            Value::Array(list) => {
                into.push('[');
                for (index, value) in list.iter().enumerate() {
                    into.push_str(if index > 0 { "," } else { "" });
                    self.value(value, into);
                }
                into.push(']');
            }
            Value::Object(map) => self.map(map.iter().map(|(key, value)| (key.as_str(), value)), into),
            other => into.push_str(&other.to_string()),
        }
        into.push_str(self.space);
    }

    fn map<'v>(&self, entries: impl Iterator<Item = (&'v str, &'v Value)>, into: &mut String) {
        into.push('{');
        for (index, (key, value)) in entries.enumerate() {
            into.push_str(if index > 0 { "," } else { "" });
            into.push_str(self.space);
            self.text(key, into);
            into.push_str(self.space);
            into.push(':');
            into.push_str(self.space);
            self.value(value, into);
        }
        into.push('}');
    }

    fn text(&self, text: &str, into: &mut String) {
        into.push('"');
        for char in text.chars() {
            let escape = self.escapes[into.len() % self.escapes.len()];
            match char {
                '"' | '\\' => into.extend(['\\', char]),
                '\u{20}'..='\u{ffff}' if !escape => into.push(char),
                _ => char.encode_utf16(&mut [0; 2]).iter().for_each(|unit| into.push_str(&format!("\\u{unit:04x}"))),
            }
        }
        into.push('"');
    }

    /// Writes a list with its keys in this order.
    fn list(&self, keys: &[&str], items: &[Value], metadata: &Value) -> String {
        let (items, other) = (Value::from(items), json!([{"x": "]}"}]));
        let value = |key| match key {
            "items" => &items,
            "metadata" => metadata,
            _ => &other,
        };
        let mut list = String::new();
        self.map(keys.iter().map(|key| (*key, value(key))), &mut list);
        list.push_str(self.space);
        list
    }
}

fn layout() -> impl Strategy<Value = Vec<&'static str>> {
    prop_oneof![
        Just(vec!["apiVersion", "items", "kind", "metadata"]),
        Just(vec!["kind", "apiVersion", "metadata", "items"]),
        Just(vec!["apiVersion", "items", "kind", "metadata", "more"]).prop_shuffle(),
        Just(vec!["items"]),
    ]
}

/// Returns true if an object's bytes contain a name, by a plain search.
fn holds(object: &str, names: &[&str]) -> bool {
    let is_in_names = |code: &str| {
        let code = u8::from_str_radix(code, 16).unwrap();
        code.is_ascii_lowercase() || code.is_ascii_digit() || b".-".contains(&code)
    };
    names.iter().any(|name| object.contains(&format!("\"{name}\"")))
        || object.match_indices("\\u00").any(|(at, _)| is_in_names(&object[at + 4..at + 6]))
}

#[test]
fn a_name_is_found_however_it_is_written() {
    let prefilter = Prefilter::new(["a-b"]).unwrap();
    for written in ["a-b", r"\u0061-b", r"a\u002db", r"a-\u0062", r"\u0061\u002d\u0062", r"\u0061\u002D\u0062"] {
        let list = format!(r#"{{"items":[{{"metadata":{{"name":"x"}},"a":{{"b":"{written}"}}}}]}}"#);
        let (_, found) = searched(list.as_bytes(), &prefilter);
        assert_eq!(found.len(), 1, "{list}");
        assert_eq!(found[0].1[0], ["a-b"], "{list}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn those_objects_are_handed_out_that_hold_a_name(
        items in vec(object(), 0..6), metadata in metadata(), keys in layout(), hand in hand(),
        names in vec(select(&["a", "a-b", "b.7", "zzz"][..]), 1..4),
    ) {
        let list = hand.list(&keys, &items, &metadata);
        let prefilter = Prefilter::new(names.iter().copied()).unwrap();
        let (page, all) = whole(list.as_bytes());
        let (said, found) = searched(list.as_bytes(), &prefilter);
        prop_assert_eq!(&said, &page, "{}", list);
        let alone = |item: &Value| hand.list(&["items"], std::slice::from_ref(item), &Value::Null);
        // Where escapes fall depends on how the list is written, so each object is judged as written alone.
        if hand.escapes == [false] {
            let expected = items.iter().zip(&all).filter(|(item, _)| holds(&alone(item), &names));
            prop_assert_eq!(&found, &expected.map(|(_, read)| read.clone()).collect::<Vec<_>>(), "{}", list);
        }
        // No reference is overlooked, whatever its spelling.
        for object in all.iter().filter(|(_, values)| values.iter().flatten().any(|value| names.contains(&value.as_str()))) {
            prop_assert!(found.contains(object), "{}", list);
        }
    }

    #[test]
    fn what_is_found_does_not_depend_on_where_pages_end(
        items in vec(object(), 0..8), cuts in vec(any::<bool>(), 8), names in vec(select(&["a", "a-b", "b.7"][..]), 1..3),
    ) {
        let hand = Hand { space: "", escapes: vec![false] };
        let prefilter = Prefilter::new(names).unwrap();
        let metadata = json!({"resourceVersion": "1"});
        let search = |items: &[Value]| {
            searched(hand.list(&["apiVersion", "items", "kind", "metadata"], items, &metadata).as_bytes(), &prefilter).1
        };
        let mut pages = vec![Vec::new()];
        for (item, cut) in items.iter().zip(cuts) {
            if cut {
                pages.push(Vec::new());
            }
            pages.last_mut().unwrap().push(item.clone());
        }
        let by_pages: Vec<_> = pages.iter().flat_map(|page| search(page)).collect();
        prop_assert_eq!(by_pages, search(&items));
    }
}
