//! Tests of which updates count as changes, against a plain comparison of trees.

use std::collections::BTreeMap;

use depguard_core::FieldPath;
use depguard_core::model::Segment;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::world::*;

const EXEMPT: [&str; 5] = ["finalizers", "ownerReferences", "managedFields", "resourceVersion", "generation"];

/// Returns the decision's label for a lock whose target names the review's version, so that the lock's fields are of
/// that version.
fn label(mut spec: Value, old: &str, new: &str) -> &'static str {
    spec["targets"] = json!([{"group": "compute.example.com", "version": "v1", "resource": "vms", "name": "vm-1"}]);
    label_of(spec, old, new)
}

fn label_of(spec: Value, old: &str, new: &str) -> &'static str {
    let review = update(json!({"metadata": {"name": "vm-1"}}), json!("new")).to_string();
    let bytes = review.replace(r#"{"metadata":{"name":"vm-1"}}"#, old).replace(r#""new""#, new);
    let review = depguard_core::protocol::ObjectReview::parse(bytes.as_bytes()).unwrap();
    let mut world = World::with_lock(spec);
    let evaluation = depguard_core::locks::LockEvaluation::begin(world.control_plane, &review, world.now);
    world.drive(evaluation).label()
}

/// Returns the object without the fields that may always change.
fn guarded(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| !EXEMPT.contains(&key.as_str()));
    }
    object
}

/// Collects the values at a path, each by its position.
fn at(path: &[Segment], value: &Value, here: &str, found: &mut BTreeMap<String, Value>) {
    let Some((segment, rest)) = path.split_first() else {
        found.insert(here.to_owned(), value.clone());
        return;
    };
    match (segment, value) {
        (Segment::Name(name), Value::Object(map)) => {
            if let Some(value) = map.get(name) {
                at(rest, value, here, found);
            }
        }
        (Segment::Index(index), Value::Array(list)) => {
            if let Some(value) = list.get(*index as usize) {
                at(rest, value, here, found);
            }
        }
        (Segment::Wildcard, Value::Object(map)) => {
            map.iter().for_each(|(key, value)| at(rest, value, &format!("{here}/k{key}"), found));
        }
        (Segment::Wildcard, Value::Array(list)) => {
            list.iter().enumerate().for_each(|(index, value)| at(rest, value, &format!("{here}/i{index}"), found));
        }
        _ => {}
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        "[ab\"\\\\\u{e9}]{0,2}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..3).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    let field = prop::sample::select(vec![
        "finalizers",
        "ownerReferences",
        "managedFields",
        "generation",
        "labels",
        "annotations",
    ]);
    let metadata = prop::collection::btree_map(field, value(), 0..4);
    (metadata, prop::option::of(value()), prop::option::of(value())).prop_map(|(metadata, spec, status)| {
        let mut object = Map::new();
        let mut all: Map<String, Value> = metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        // The review itself is read by labels and annotations, so both must be maps of strings.
        for maps in ["labels", "annotations"] {
            if let Some(value) = all.get_mut(maps) {
                *value = json!({"a": value.to_string()});
            }
        }
        all.extend([("name".to_owned(), json!("vm-1")), ("namespace".to_owned(), json!("default"))]);
        object.insert("metadata".to_owned(), Value::Object(all));
        object.extend(spec.map(|spec| ("spec".to_owned(), spec)));
        object.extend(status.map(|status| ("status".to_owned(), status)));
        Value::Object(object)
    })
}

/// Generates two states that mostly share fields.
fn states() -> impl Strategy<Value = (Value, Value)> {
    (object(), object(), any::<[bool; 3]>()).prop_map(|(old, other, keep)| {
        let mut new = other;
        for (keep, field) in keep.into_iter().zip(["metadata", "spec", "status"]) {
            if keep && let Some(value) = old.get(field) {
                new[field] = value.clone();
            }
        }
        (old, new)
    })
}

fn path() -> impl Strategy<Value = FieldPath> {
    let step = prop_oneof![Just(".a"), Just(".b"), Just("[*]"), Just("[0]"), Just("[1]")];
    let root = prop_oneof![Just(".spec"), Just(".status"), Just(".metadata.labels")];
    (root, prop::collection::vec(step, 0..4))
        .prop_map(|(root, steps)| FieldPath::parse(&format!("{root}{}", steps.concat())).unwrap())
}

/// Writes the same JSON differently: maps in reverse order, numbers with a decimal point, letters escaped.
fn respelled(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields: Vec<_> =
                map.iter().rev().map(|(key, value)| format!("{} : {}", escaped(key), respelled(value))).collect();
            format!("{{ {} }}", fields.join(" ,"))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(respelled).collect::<Vec<_>>().join(" , ")),
        Value::Number(number) => format!("{number}.00e-0"),
        Value::String(text) => escaped(text),
        other => other.to_string(),
    }
}

fn escaped(text: &str) -> String {
    let units: Vec<_> = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    format!("\"{}\"", units.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn an_update_is_exempt_if_and_only_if_nothing_else_differs((old, new) in states()) {
        let differs = guarded(old.clone()) != guarded(new.clone());
        let expected = if differs { "locked" } else { "exempt" };
        prop_assert_eq!(label(json!({}), &old.to_string(), &new.to_string()), expected, "{} {}", old, new);
        prop_assert_eq!(label(json!({}), &old.to_string(), &respelled(&new)), expected, "{} {}", old, new);
    }

    #[test]
    fn an_update_is_refused_if_and_only_if_something_frozen_differs((old, new) in states(), path in path()) {
        let values = |object: &Value| {
            let mut found = BTreeMap::new();
            at(path.segments(), object, "", &mut found);
            found
        };
        let differs = guarded(old.clone()) != guarded(new.clone());
        let frozen = values(&old) != values(&new);
        let expected = if frozen { "locked" } else if differs { "unlocked" } else { "exempt" };
        let spec = json!({"fields": [".spec.never", path.to_string()]});
        prop_assert_eq!(label(spec.clone(), &old.to_string(), &new.to_string()), expected, "{} {} {}", path, old, new);
        prop_assert_eq!(label(spec, &old.to_string(), &respelled(&new)), expected, "{} {} {}", path, old, new);
        // If the lock names no version, a field that is absent may have another name.
        let is_nowhere = values(&old).is_empty() && !path.to_string().starts_with(".metadata");
        let expected = if differs && is_nowhere { "locked" } else { expected };
        let spec = json!({"fields": [path.to_string()]});
        prop_assert_eq!(label_of(spec, &old.to_string(), &new.to_string()), expected, "{} {} {}", path, old, new);
    }
}

#[test]
fn what_cannot_be_compared_counts_as_changed() {
    let object = |spec: &str| format!(r#"{{"metadata":{{"name":"vm-1","namespace":"default"}},"spec":{spec}}}"#);
    let deep = |depth: usize, leaf: &str| format!("{}{leaf}{}", "[".repeat(depth), "]".repeat(depth));
    for (old, new, expected) in [
        ("1".to_owned(), "1.0".to_owned(), "exempt"),
        ("9007199254740993".to_owned(), "9007199254740992.0".to_owned(), "locked"),
        ("1e400".to_owned(), "1e401".to_owned(), "locked"),
        (r#"{"a":1}"#.to_owned(), r#"{"a":2,"a":1}"#.to_owned(), "locked"),
        (r#"{"a":1,"b":2}"#.to_owned(), r#"{"b":2,"a":1}"#.to_owned(), "exempt"),
        (r#"{"a":1,"b":2}"#.to_owned(), r#"{"b":2,"b":2,"a":1}"#.to_owned(), "locked"),
        ("\"\\ud83d\\ude00\"".to_owned(), "\"\u{1f600}\"".to_owned(), "exempt"),
        ("\"\\ud83d\"".to_owned(), "\"\u{1f600}\"".to_owned(), "locked"),
        (deep(200, "1"), deep(200, "1.0"), "exempt"),
        (deep(100_000, "1"), deep(100_000, "1"), "exempt"),
        (deep(100_000, "1"), deep(100_000, "1.0"), "locked"),
        ("null".to_owned(), "{}".to_owned(), "locked"),
    ] {
        assert_eq!(label(json!({}), &object(&old), &object(&new)), expected, "{old:.60} {new:.60}");
        assert_eq!(label(json!({"fields": [".spec"]}), &object(&old), &object(&new)), expected, "{old:.60} {new:.60}");
    }
    // An object also counts as changed if a key stands twice at its top level, or if a path has more values than are
    // compared.
    let twice = r#"{"metadata":{"name":"vm-1","namespace":"default"},"spec":1,"spec":1}"#;
    assert_eq!(label(json!({"fields": [".status"]}), twice, &object("1")), "unlocked");
    assert_eq!(label(json!({}), twice, &object("1")), "locked");
    let many = |count: usize, last: &str| object(&format!(r#"{{"l":[{}{last}]}}"#, "1,".repeat(count)));
    let spec = || json!({"fields": [".spec.l[*].x"]});
    assert_eq!(label(spec(), &many(20_000, "1"), &many(20_000, "2")), "unlocked");
    let spec = || json!({"fields": [".spec.l[*]"]});
    assert_eq!(label(spec(), &many(9_000, "1"), &many(9_000, r#"1],"m":[2"#)), "unlocked");
    assert_eq!(label(spec(), &many(20_000, "1"), &many(20_000, r#"1],"m":[2"#)), "locked");
}

#[test]
fn two_large_states_are_compared() {
    let row =
        r#"{"name":"some disk","size":10,"tags":["a","b","c"],"source":{"image":"x","digest":"0123456789abcdef"}},"#;
    let state = |last: &str| {
        let disks = row.repeat((1_500 << 10) / row.len());
        format!(r#"{{"metadata":{{"name":"vm-1","namespace":"default"}},"spec":{{"disks":[{disks}{last}]}}}}"#)
    };
    assert_eq!(label(json!({}), &state("1"), &state("1.0")), "exempt");
    assert_eq!(label(json!({}), &state("1"), &state("2")), "locked");
    assert_eq!(label(json!({"fields": [".spec.disks[*].size"]}), &state("1"), &state("2")), "locked");
    assert_eq!(label(json!({"fields": [".spec.disks[0].size"]}), &state("1"), &state("2")), "unlocked");
}
