//! The core's paths, evaluated as it evaluates those of dependents, against two JSONPath engines.
//!
//! All paths of the core are dotted names so far, over which both engines must agree with it.

use depguard_core::{Extractor, FieldPath};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use serde_json_path::JsonPath;

// === The engines: the string at the path, where there is one ===

fn core(path: &FieldPath, object: &Value) -> Option<String> {
    let list = json!({"metadata": {"resourceVersion": "1"}, "items": [object]}).to_string();
    let mut found = None;
    let read = |item: &depguard_core::Item<'_, '_>| found = item.value(0).map(str::to_owned);
    Extractor::new([path]).page(list.as_bytes(), read).expect("a list");
    found
}

fn jsonpath_lib(path: &FieldPath, object: &Value) -> Option<String> {
    only(jsonpath_lib::select(object, &format!("${path}")).expect("a path"))
}

fn serde_json_path(path: &FieldPath, object: &Value) -> Option<String> {
    only(JsonPath::parse(&format!("${path}")).expect("a path").query(object).all())
}

/// Names lead to one value at most.
fn only(values: Vec<&Value>) -> Option<String> {
    assert!(values.len() <= 1, "{values:?}");
    values.first().and_then(|value| value.as_str()).map(str::to_owned)
}

// === Objects, and paths that likely lead somewhere in them ===

const KEYS: [&str; 10] = ["a", "b", "spec", "vpcRef", "name", "_x", "A1", "length", "null", "in"];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        6 => "[a-z\"\\\\/é\u{0}\u{1F600}]{0,4}".prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(5, 48, 5, |inner| {
        let entries = vec((select(&KEYS[..]), inner.clone()), 1..5);
        let map = entries.prop_map(|entries| {
            Value::from(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
        });
        prop_oneof![5 => map, 1 => vec(inner, 0..3).prop_map(Value::from)]
    })
}

/// An object as a list holds it: with a name.
fn object() -> impl Strategy<Value = Value> {
    (value(), value()).prop_map(|(spec, a)| json!({"metadata": {"name": "m"}, "spec": spec, "a": a}))
}

fn case() -> impl Strategy<Value = (FieldPath, Value)> {
    let astray = prop::option::weighted(0.2, (any::<Index>(), select(&KEYS[..])));
    (object(), vec(any::<Index>(), 1..7), astray).prop_map(|(object, turns, astray)| {
        let (mut names, mut at) = (Vec::new(), &object);
        for turn in turns {
            let Some(map) = at.as_object().filter(|map| !map.is_empty()) else { break };
            let (name, value) = map.iter().nth(turn.index(map.len())).expect("within");
            names.push(name.as_str());
            at = value;
        }
        if let Some((place, name)) = astray {
            let place = place.index(names.len());
            names[place] = name;
        }
        (FieldPath::parse(&names.join(".")).expect("names"), object.clone())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn the_core_agrees_with_jsonpath_lib((path, object) in case()) {
        prop_assert_eq!(core(&path, &object), jsonpath_lib(&path, &object), "{}", path);
    }

    #[test]
    fn the_core_agrees_with_serde_json_path((path, object) in case()) {
        prop_assert_eq!(core(&path, &object), serde_json_path(&path, &object), "{}", path);
    }
}

/// Or they would agree on nothing.
#[test]
fn the_paths_lead_to_strings_and_astray() {
    let mut runner = TestRunner::deterministic();
    let found = (0..1000).filter(|_| {
        let (path, object) = case().new_tree(&mut runner).expect("a case").current();
        core(&path, &object).is_some()
    });
    let found = found.count();
    assert!((200..800).contains(&found), "{found} of 1000");
}
