//! Ways to make a dependent let go of the object that it refers to.

use depguard_core::FieldPath;
use depguard_core::api::OwnedDependents;
use depguard_core::model::Segment;
use depguard_core::rule::{Edge, Reference};
use serde_json::Value;

use crate::engine::reference_scan::Object;

/// Ways to deal with one blocker.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Release {
    /// Alternatives, the most obvious first: one of them is enough.
    pub(crate) by: Vec<String>,
    /// Facts to know before any of them.
    pub(crate) notes: Vec<String>,
}

/// Limit on the entries of lists and maps that are searched for the reference.
const MAX_PLACES: usize = 10_000;
/// Limit on the places in one dependent that are named.
const MAX_TOLD: usize = 3;

/// Target of the reference.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TargetIdentity<'a> {
    /// Name such as `vpcs/a`.
    pub(crate) shown: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: Option<&'a str>,
}

impl Release {
    /// Builds the ways for a dependent that refers by this edge; without its object, only from the rule.
    pub(crate) fn new(edge: &Edge, dependent: Option<&Value>, held: TargetIdentity<'_>) -> Self {
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
                release.notes.push(format!("it has been terminating since {since}{waits}"));
            }
            None => release.by.push("delete it".to_owned()),
        }
        release.by.extend(by_field(edge, dependent, held));
        for condition in &edge.when {
            let values: Vec<_> = condition.values.iter().map(ToString::to_string).collect();
            let but = if condition.excludes { "" } else { "a value other than " };
            release.by.push(change(&condition.path.to_string(), &format!(" to {but}{}", values.join(" or "))));
        }
        let owners = metadata("ownerReferences").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for owner in owners {
            let own = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
            if held.uid == Some(own("uid")) {
                let ends = match (owners.len(), edge.owned_dependents) {
                    (1, OwnedDependents::Block) => "with `ownedDependents: Ignore` in the rule, both would be deleted",
                    (1, OwnedDependents::Ignore) => {
                        "but the garbage collector would not delete it too: check its ownerReference"
                    }
                    _ => "but others do, too, so that it would stay",
                };
                release.notes.push(format!("{} owns it; {ends}", held.shown));
            } else if owner.get("controller").and_then(Value::as_bool) == Some(true) {
                let shown = format!("{}/{}", own("kind"), own("name"));
                release.notes.push(format!("{shown} controls it, and may create it again: change or delete {shown}"));
            }
        }
        release
    }

    /// Builds the ways for a dependent of which only the field is known, as a refusal names it: `spec.networks[*].vpc`.
    pub(crate) fn of_field(field: &str) -> Self {
        let mut by = vec!["delete it".to_owned()];
        if field.contains("[*]") {
            by.push(format!("remove the entry from .{field}"));
        } else if !field.is_empty() {
            by.push(change(&format!(".{field}"), ""));
        }
        Self { by, notes: Vec::new() }
    }
}

/// Returns the ways for a dependent of which only the name is known, as one sentence.
pub(crate) fn ways(edge: &Edge, dependent: &Object, held: &Object) -> String {
    let held = TargetIdentity { shown: &held.to_string(), name: held.name(), uid: None };
    let ways: Vec<_> = [format!("delete {dependent}")].into_iter().chain(by_field(edge, None, held)).collect();
    ways.join(", or ")
}

fn by_field(edge: &Edge, dependent: Option<&Value>, held: TargetIdentity<'_>) -> Vec<String> {
    let (path, name) = (edge.reference.path(), held.name);
    let field = match &edge.reference {
        Reference::Selector(_) => {
            return vec![format!("change the selector at {path}, or the labels of {}", held.shown)];
        }
        Reference::Selected(selector) => {
            return vec![format!("change the labels of {}: the rule selects {selector}", held.shown)];
        }
        // Each dependent refers to the target, whatever its fields hold.
        Reference::Fixed(_) => return Vec::new(),
        Reference::Field(field) => field,
    };
    // Neither a pattern, a separator nor JSON is reversed here: with one, the value only has to contain the name.
    let is_json = path.segments().contains(&Segment::FromJson);
    let is_whole = field.pattern.is_none() && field.split.is_none() && !is_json;
    let says = |value: &str| if is_whole { value == name } else { value.contains(name) };
    let mut told: Vec<_> = dependent
        .map(|dependent| places(path, dependent))
        .unwrap_or_default()
        .into_iter()
        .flat_map(|place| if field.keys && !is_json { in_keys(&place, says) } else { in_value(&place, says) })
        .collect();
    let more = told.len().saturating_sub(MAX_TOLD);
    told.truncate(MAX_TOLD);
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    if told.len() > 1 {
        // Each place refers by itself: all must be changed.
        return vec![told.join(" and ")];
    }
    let general = || match (field.keys, path.segments().contains(&Segment::Wildcard)) {
        (true, _) => format!("remove the key from the map {path}"),
        (false, true) => format!("remove the entry from {path}"),
        (false, false) => change(&path.to_string(), ""),
    };
    if told.is_empty() { vec![general()] } else { told }
}

/// Returns the way to give a field another value. Nobody changes the name or namespace of an object, and only a controller
/// its status.
fn change(path: &str, to: &str) -> String {
    match path {
        ".metadata.namespace" => "create it in another namespace, and delete it here".to_owned(),
        ".metadata.name" | ".metadata.uid" => "create another object in its place, and delete it".to_owned(),
        _ if path.starts_with(".status.") => format!("wait until its controller changes {path}{to}"),
        _ => format!("change {path}{to}"),
    }
}

/// Value at a path.
struct Place<'v> {
    /// Path such as `.spec.networks[1].name`.
    path: String,
    value: &'v Value,
    /// Element or value at the last wildcard, such as `.spec.networks[1]`, and true if it is in a list.
    entry: Option<(String, bool)>,
}

/// Returns the values at a path; where it leads into the JSON of a string, the strings.
fn places<'v>(path: &FieldPath, object: &'v Value) -> Vec<Place<'v>> {
    let mut places = vec![Place { path: String::new(), value: object, entry: None }];
    for segment in path.segments().iter().take_while(|segment| **segment != Segment::FromJson) {
        let mut next = Vec::new();
        for Place { path, value, entry } in places {
            let mut go = |step: String, value: &'v Value, entry: Option<(String, bool)>| {
                if next.len() < MAX_PLACES {
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

/// Returns a name as a path writes it.
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
    keys.filter(|key| says(key)).map(|key| format!("remove the key `{key}` from the map {}", place.path)).collect()
}

fn in_value(place: &Place<'_>, says: impl Fn(&str) -> bool) -> Vec<String> {
    match place.value {
        Value::String(value) if says(value) => vec![match &place.entry {
            None => change(&place.path, ""),
            Some((entry, true)) => format!("remove {entry} from the list"),
            Some((entry, false)) => format!("remove {entry} from the map"),
        }],
        Value::Array(list) if list.iter().any(|value| value.as_str().is_some_and(&says)) => {
            let names: Vec<_> = list.iter().filter_map(Value::as_str).filter(|value| says(value)).collect();
            names.into_iter().map(|name| format!("remove `{name}` from the list {}", place.path)).collect()
        }
        _ => Vec::new(),
    }
}

fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use depguard_core::{ControlPlane, Rule};
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
        let rule = Rule::parse(ControlPlane::Kubernetes, &rule).unwrap();
        Release::new(&rule.edges()[0], Some(dependent), TargetIdentity { shown: "vpcs/a", name: "a", uid: Some("u") })
    }

    #[test]
    fn where_the_reference_stands_tells_how_it_is_taken_away() {
        let vm = json!({"spec": {
            "vpc": "a", "vpcs": ["b", "a"], "nets": [{"vpc": "b"}, {"vpc": "a"}], "map": {"x-y": {"vpc": "a"}},
            "keys": {"a": {}, "b": {}}, "text": "vpc/a", "json": r#"[{"vpc": "a"}, {"a": 1}]"#, "jsons": ["b", "[\"a\"]"],
        }});
        for (field, expected) in [
            (json!({"path": ".spec.vpc"}), "change .spec.vpc"),
            (json!({"path": ".spec.vpcs"}), "remove `a` from the list .spec.vpcs"),
            (json!({"path": ".spec.vpcs[*]"}), "remove .spec.vpcs[1] from the list"),
            (json!({"path": ".spec.nets[*].vpc"}), "remove .spec.nets[1] from the list"),
            (json!({"path": ".spec.map[*].vpc"}), "remove .spec.map['x-y'] from the map"),
            (json!({"path": ".spec.keys", "keys": true}), "remove the key `a` from the map .spec.keys"),
            (json!({"path": ".spec.text", "pattern": "^vpc/(.*)$"}), "change .spec.text"),
            (json!({"path": ".spec.json.fromJSON()[*].vpc"}), "change .spec.json"),
            (json!({"path": ".spec.json.fromJSON()[1]", "keys": true}), "change .spec.json"),
            (json!({"path": ".spec.jsons[*].fromJSON()"}), "remove .spec.jsons[1] from the list"),
            (json!({"path": ".spec.gone.fromJSON().vpc"}), "change .spec.gone.fromJSON().vpc"),
            (json!({"path": ".spec.gone[*].vpc"}), "remove the entry from .spec.gone[*].vpc"),
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
            "remove .spec.vpcs[0] from the list and remove .spec.vpcs[1] from the list"
        );
    }

    #[test]
    fn nobody_is_told_to_change_what_can_not_be_changed() {
        let pod = json!({"metadata": {"name": "p", "namespace": "a"}, "status": {"vpc": "a", "phase": "Running"}});
        let way = |field: &str| by(json!({"fieldRef": {"path": field}}), &pod).by[1].clone();
        assert_eq!(way(".metadata.namespace"), "create it in another namespace, and delete it here");
        assert_eq!(Release::of_field("metadata.namespace").by[1], way(".metadata.namespace"));
        assert_eq!(way(".metadata.name"), "create another object in its place, and delete it");
        assert_eq!(way(".metadata.labels.vpc"), "change .metadata.labels.vpc");
        assert_eq!(way(".status.vpc"), "wait until its controller changes .status.vpc");
        let phase = json!({"fieldRef": {"path": ".spec.vpc"}, "when": {"path": ".status.phase", "in": ["Running"]}});
        assert_eq!(
            by(phase, &pod).by[2],
            "wait until its controller changes .status.phase to a value other than Running"
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
        assert_eq!(
            release.by,
            ["wait until it is gone", "change .spec.vpc", "change .spec.state to a value other than Running"]
        );
        assert_eq!(
            release.notes,
            [
                "it has been terminating since 2026-01-01T00:00:00Z, and waits for example.com/disk",
                "vpcs/a owns it; but others do, too, so that it would stay",
                "Pool/p controls it, and may create it again: change or delete Pool/p",
            ]
        );
    }
}
