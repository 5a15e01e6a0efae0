//! Differential tests of the core's paths against two JSONPath engines. The core reads the paths as it reads those of
//! dependents.
//!
//! `jsonpath_lib` must agree on names, quoted names and wildcards, `serde_json_path` on indexes as well. Both read whole
//! objects: what a string holds as JSON must be read as if it stood in the object itself.

use depguard_core::FieldPath;
use depguard_core::model::Segment;
use depguard_core::scan::Extractor;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use serde_json_path::JsonPath;

// === The engines: each returns the strings at a path, and the strings in each list at the path ===

fn core(path: &FieldPath, object: &Value) -> Vec<String> {
    let list = json!({"metadata": {"resourceVersion": "1"}, "items": [object]}).to_string();
    let mut found = Vec::new();
    let read = |item: &depguard_core::scan::Item<'_, '_>| found.extend(item.values(0).map(str::to_owned));
    Extractor::new([path]).page(list.as_bytes(), read).expect("a list");
    found
}

fn jsonpath_lib(path: &FieldPath, object: &Value) -> Vec<String> {
    strings(jsonpath_lib::select(object, &format!("${path}")).expect("a path"))
}

fn serde_json_path(path: &FieldPath, object: &Value) -> Vec<String> {
    strings(JsonPath::parse(&format!("${path}")).expect("a path").query(object).all())
}

fn strings(values: Vec<&Value>) -> Vec<String> {
    let each = |value: &Value| match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) => list.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    };
    values.into_iter().flat_map(each).collect()
}

// === Objects, and paths that are likely to lead to values in them ===

const KEYS: [&str; 12] =
    ["a", "b", "spec", "vpcRef", "name", "_x", "A1", "length", "in", "example.com/vpc", "a b", "0"];

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

/// Generates an object with a name, as lists have them.
fn object() -> impl Strategy<Value = Value> {
    (value(), value()).prop_map(|(spec, a)| json!({"metadata": {"name": "m"}, "spec": spec, "a": a}))
}

/// Writes one step of a path.
fn step(key: &str) -> String {
    let plain =
        key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !key.starts_with(|c: char| c.is_ascii_digit());
    if plain { format!(".{key}") } else { format!("['{key}']") }
}

/// Generates an object and a path that is likely to lead to values in the object. Some steps are wildcards; with
/// `indexes`, some are indexes.
fn case(indexes: bool) -> impl Strategy<Value = (FieldPath, Value)> {
    let astray = prop::option::weighted(0.2, (any::<Index>(), select(&KEYS[..])));
    let turns = vec((any::<Index>(), prop::bool::weighted(0.25)), 1..7);
    (object(), turns, astray).prop_map(move |(object, turns, astray)| {
        let (mut steps, mut at, mut wildcards) = (Vec::new(), &object, 0);
        for (turn, wild) in turns {
            let (written, value) = match at {
                Value::Object(map) if !map.is_empty() => {
                    let (key, value) = map.iter().nth(turn.index(map.len())).expect("within");
                    (step(key), value)
                }
                Value::Array(list) if !list.is_empty() => {
                    let index = turn.index(list.len());
                    (if indexes { format!("[{index}]") } else { "[*]".to_owned() }, &list[index])
                }
                _ => break,
            };
            let wild = (wild || written == "[*]") && wildcards < FieldPath::MAX_WILDCARDS;
            if !wild && written == "[*]" {
                break;
            }
            wildcards += usize::from(wild);
            steps.push(if wild { "[*]".to_owned() } else { written });
            at = value;
        }
        if let Some((place, name)) = astray {
            let place = place.index(steps.len());
            steps[place] = step(name);
        }
        (FieldPath::parse(&steps.concat()).expect("a path"), object.clone())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn the_core_agrees_with_jsonpath_lib((path, object) in case(false)) {
        prop_assert_eq!(core(&path, &object), jsonpath_lib(&path, &object), "{}", path);
    }

    #[test]
    fn the_core_agrees_with_serde_json_path((path, object) in prop_oneof![case(false), case(true)]) {
        prop_assert_eq!(core(&path, &object), serde_json_path(&path, &object), "{}", path);
    }
}

/// Writes the lists and maps to which these steps lead as strings of JSON.
fn pack(value: &mut Value, steps: &[Segment]) {
    let Some((step, rest)) = steps.split_first() else {
        if value.is_object() || value.is_array() {
            *value = value.to_string().into();
        }
        return;
    };
    match (step, value) {
        (Segment::Name(name), Value::Object(map)) => map.get_mut(name).into_iter().for_each(|value| pack(value, rest)),
        (Segment::Index(index), Value::Array(list)) => {
            list.get_mut(*index as usize).into_iter().for_each(|value| pack(value, rest));
        }
        (Segment::Wildcard, Value::Object(map)) => map.values_mut().for_each(|value| pack(value, rest)),
        (Segment::Wildcard, Value::Array(list)) => list.iter_mut().for_each(|value| pack(value, rest)),
        _ => {}
    }
}

/// Returns a path and an object that hold a part of another object as JSON in a string; `None` if an API server serves no
/// such object.
fn packed(path: &FieldPath, object: &Value, place: Index) -> Option<(FieldPath, Value)> {
    let (before, after) = path.segments().split_at(1 + place.index(path.segments().len()));
    let mut object = object.clone();
    pack(&mut object, before);
    let written = before.iter().map(ToString::to_string).chain([".fromJSON()".to_owned()]);
    let path = written.chain(after.iter().map(ToString::to_string)).collect::<String>();
    (object["metadata"]["name"] == "m").then(|| (FieldPath::parse(&path).expect("a path"), object))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn what_a_string_holds_as_json_is_read_like_the_rest(
        (path, object) in prop_oneof![case(false), case(true)], place: Index,
    ) {
        if let Some((into, held)) = packed(&path, &object, place) {
            prop_assert_eq!(core(&into, &held), serde_json_path(&path, &object), "{} in {}", into, held);
        }
    }
}

/// Guards the tests above: if no path led to strings, the engines would agree on nothing.
#[test]
fn the_paths_lead_to_strings_and_astray() {
    let [mut runner, mut places] = [(); 2].map(|()| TestRunner::deterministic());
    let (mut none, mut one, mut several, mut held) = (0, 0, 0, 0);
    for _ in 0..1000 {
        let (path, object) = case(true).new_tree(&mut runner).expect("a case").current();
        let inside = packed(&path, &object, any::<Index>().new_tree(&mut places).expect("a place").current());
        held += usize::from(inside.is_some_and(|(path, held)| held != object && !core(&path, &held).is_empty()));
        match core(&path, &object).len() {
            0 => none += 1,
            1 => one += 1,
            _ => several += 1,
        }
    }
    assert!(none > 200 && one > 200 && several > 50 && held > 100, "{none} {one} {several} {held}");
}
