//! How a dependent can be made to let go of what it refers to.

use depguard_core::{Edge, FieldPath, Reference, Segment};
use serde_json::Value;

/// What can be done about one blocker.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Release {
    /// One of these is enough, the first the most obvious.
    pub(crate) by: Vec<String>,
    /// What must be known before it is done.
    pub(crate) notes: Vec<String>,
}

/// Lists and maps with more entries than this are not looked through for the one that refers.
const MOST_PLACES: usize = 10_000;
/// The places of one dependent that are told.
const MOST_TOLD: usize = 3;

/// What is known of the target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held<'a> {
    /// `vpcs/a`
    pub(crate) shown: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: Option<&'a str>,
}

impl Release {
    /// For a dependent that refers by this edge; without the object only what the rule tells.
    pub(crate) fn of(edge: &Edge, dependent: Option<&Value>, held: Held<'_>) -> Self {
        let mut release = Self::default();
        let metadata = |field: &str| dependent.and_then(|dependent| dependent.get("metadata")?.get(field));
        match metadata("deletionTimestamp").and_then(Value::as_str) {
            Some(since) => {
                release.by.push("wait until it is gone".to_owned());
                let finalizers = strings(metadata("finalizers"));
                let waits = match finalizers.is_empty() {
                    true => String::new(),
                    false => format!(", and waits for {}", finalizers.join(", ")),
                };
                release.notes.push(format!("it is being deleted since {since}{waits}"));
            }
            None => release.by.push("delete it".to_owned()),
        }
        release.by.extend(by_field(edge, dependent, held));
        if let Some(when) = &edge.when {
            release.by.push(format!("let {} be none of {}", when.path, when.values.join(", ")));
        }
        for owner in metadata("ownerReferences").and_then(Value::as_array).into_iter().flatten() {
            let own = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
            if held.uid == Some(own("uid")) {
                let note =
                    format!("{} owns it; with `ownedDependents: Ignore` in the rule it would go along", held.shown);
                release.notes.push(note);
            } else if owner.get("controller").and_then(Value::as_bool) == Some(true) {
                let shown = format!("{}/{}", own("kind"), own("name"));
                release.notes.push(format!("{shown} controls it, and may make it anew: change or delete that"));
            }
        }
        release
    }

    /// For a dependent of which only the field is known, as a refusal tells it: `spec.networks[*].vpc`.
    pub(crate) fn of_field(field: &str) -> Self {
        let mut by = vec!["delete it".to_owned()];
        if field.contains("[*]") {
            by.push(format!("take the entry out of .{field}"));
        } else if !field.is_empty() {
            by.push(format!("change .{field}"));
        }
        Self { by, notes: Vec::new() }
    }
}

fn by_field(edge: &Edge, dependent: Option<&Value>, held: Held<'_>) -> Vec<String> {
    let (path, name) = (edge.reference.path(), held.name);
    let field = match &edge.reference {
        Reference::Selector(path) => {
            return vec![format!("change the selector at {path}, or the labels of {}", held.shown)];
        }
        Reference::Selected(selector) => {
            return vec![format!("change the labels of {}: the rule selects {selector}", held.shown)];
        }
        Reference::Field(field) => field,
    };
    // What a pattern makes of a value is not undone here.
    let says = |value: &str| if field.pattern.is_some() { value.contains(name) } else { value == name };
    let mut told: Vec<_> = dependent
        .map(|dependent| places(path, dependent))
        .unwrap_or_default()
        .into_iter()
        .flat_map(|place| if field.keys { in_keys(&place, says) } else { in_value(&place, says) })
        .collect();
    let more = told.len().saturating_sub(MOST_TOLD);
    told.truncate(MOST_TOLD);
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    if told.len() > 1 {
        // Each of them refers by itself.
        return vec![told.join(" and ")];
    }
    let general = || match (field.keys, path.segments().contains(&Segment::Wildcard)) {
        (true, _) => format!("take the key out of the map {path}"),
        (false, true) => format!("take the entry out of {path}"),
        (false, false) => format!("change {path}"),
    };
    if told.is_empty() { vec![general()] } else { told }
}

/// A value at a path, and which it is.
struct Place<'v> {
    /// `.spec.networks[1].name`
    path: String,
    value: &'v Value,
    /// The element or value at the last wildcard: `.spec.networks[1]`, and whether it is of a list.
    entry: Option<(String, bool)>,
}

/// What stands at a path.
fn places<'v>(path: &FieldPath, object: &'v Value) -> Vec<Place<'v>> {
    let mut places = vec![Place { path: String::new(), value: object, entry: None }];
    for segment in path.segments() {
        let mut next = Vec::new();
        for Place { path, value, entry } in places {
            let mut go = |step: String, value: &'v Value, entry: Option<(String, bool)>| {
                if next.len() < MOST_PLACES {
                    next.push(Place { path: format!("{path}{step}"), value, entry });
                }
            };
            match (segment, value) {
                (Segment::Name(name), Value::Object(map)) => {
                    if let Some(value) = map.get(name) {
                        go(step(name), value, entry);
                    }
                }
                (Segment::Index(index), Value::Array(list)) => {
                    if let Some(value) = usize::try_from(*index).ok().and_then(|index| list.get(index)) {
                        go(format!("[{index}]"), value, entry);
                    }
                }
                (Segment::Wildcard, Value::Array(list)) => {
                    for (index, value) in list.iter().enumerate() {
                        go(format!("[{index}]"), value, Some((format!("{path}[{index}]"), true)));
                    }
                }
                (Segment::Wildcard, Value::Object(map)) => {
                    for (key, value) in map {
                        go(step(key), value, Some((format!("{path}{}", step(key)), false)));
                    }
                }
                _ => {}
            }
        }
        places = next;
    }
    places
}

/// A name as a path writes it.
fn step(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.is_empty() && name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit()) {
        format!(".{name}")
    } else {
        format!("['{}']", name.replace('\\', r"\\").replace('\'', r"\'"))
    }
}

fn in_keys(place: &Place<'_>, says: impl Fn(&str) -> bool) -> Vec<String> {
    let keys = place.value.as_object().into_iter().flat_map(serde_json::Map::keys);
    keys.filter(|key| says(key)).map(|key| format!("take the key `{key}` out of the map {}", place.path)).collect()
}

fn in_value(place: &Place<'_>, says: impl Fn(&str) -> bool) -> Vec<String> {
    match place.value {
        Value::String(value) if says(value) => vec![match &place.entry {
            None => format!("change {}", place.path),
            Some((entry, true)) => format!("take {entry} out of the list"),
            Some((entry, false)) => format!("take {entry} out of the map"),
        }],
        Value::Array(list) if list.iter().any(|value| value.as_str().is_some_and(&says)) => {
            let names: Vec<_> = list.iter().filter_map(Value::as_str).filter(|value| says(value)).collect();
            names.into_iter().map(|name| format!("take `{name}` out of the list {}", place.path)).collect()
        }
        _ => Vec::new(),
    }
}

fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use depguard_core::{Home, Rule};
    use serde_json::json;

    use super::*;

    fn by(dependency: Value, dependent: &Value) -> Release {
        let mut dependency = dependency;
        for (field, value) in [("group", "network.example.com"), ("version", "v1"), ("resource", "vpcs")] {
            dependency[field] = value.into();
        }
        let rule = json!({"metadata": {"name": "r"}, "spec": {
            "dependent": {"group": "compute.example.com", "version": "v1", "kind": "VM", "resource": "vms"},
            "dependencies": [dependency],
        }});
        let rule = Rule::parse(Home::Kubernetes, &rule).unwrap();
        Release::of(&rule.edges()[0], Some(dependent), Held { shown: "vpcs/a", name: "a", uid: Some("u") })
    }

    #[test]
    fn where_the_reference_stands_tells_how_it_is_taken_away() {
        let vm = json!({"spec": {
            "vpc": "a", "vpcs": ["b", "a"], "nets": [{"vpc": "b"}, {"vpc": "a"}], "map": {"x-y": {"vpc": "a"}},
            "keys": {"a": {}, "b": {}}, "text": "vpc/a",
        }});
        for (field, expected) in [
            (json!({"path": ".spec.vpc"}), "change .spec.vpc"),
            (json!({"path": ".spec.vpcs"}), "take `a` out of the list .spec.vpcs"),
            (json!({"path": ".spec.vpcs[*]"}), "take .spec.vpcs[1] out of the list"),
            (json!({"path": ".spec.nets[*].vpc"}), "take .spec.nets[1] out of the list"),
            (json!({"path": ".spec.map[*].vpc"}), "take .spec.map['x-y'] out of the map"),
            (json!({"path": ".spec.keys", "keys": true}), "take the key `a` out of the map .spec.keys"),
            (json!({"path": ".spec.text", "pattern": "^vpc/(.*)$"}), "change .spec.text"),
            (json!({"path": ".spec.gone[*].vpc"}), "take the entry out of .spec.gone[*].vpc"),
        ] {
            assert_eq!(by(json!({"fieldRef": field}), &vm).by, ["delete it", expected], "{field}");
        }
        assert_eq!(
            by(json!({"selectorRef": {"path": ".spec.sel"}}), &vm).by[1],
            "change the selector at .spec.sel, or the labels of vpcs/a"
        );
        assert_eq!(
            by(json!({"selectorRef": {"selector": {"matchLabels": {"tier": "prod"}}}}), &vm).by[1],
            "change the labels of vpcs/a: the rule selects tier=prod"
        );
        let twice = json!({"spec": {"vpcs": ["a", "a"]}});
        assert_eq!(
            by(json!({"fieldRef": {"path": ".spec.vpcs[*]"}}), &twice).by[1],
            "take .spec.vpcs[0] out of the list and take .spec.vpcs[1] out of the list"
        );
    }

    #[test]
    fn what_must_be_known_first_is_said() {
        let vm = json!({
            "metadata": {
                "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/disk"],
                "ownerReferences": [
                    {"kind": "VPC", "name": "a", "uid": "u"},
                    {"kind": "Pool", "name": "p", "uid": "v", "controller": true},
                ],
            },
            "spec": {"vpc": "a", "state": "Running"},
        });
        let release =
            by(json!({"fieldRef": {"path": ".spec.vpc"}, "when": {"path": ".spec.state", "in": ["Running"]}}), &vm);
        assert_eq!(release.by, ["wait until it is gone", "change .spec.vpc", "let .spec.state be none of Running"]);
        assert_eq!(
            release.notes,
            [
                "it is being deleted since 2026-01-01T00:00:00Z, and waits for example.com/disk",
                "vpcs/a owns it; with `ownedDependents: Ignore` in the rule it would go along",
                "Pool/p controls it, and may make it anew: change or delete that",
            ]
        );
    }
}
