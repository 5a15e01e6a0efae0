//! Naive reading of references: decides over trees of JSON if one object refers to another by a rule's dependency.

use regex::Regex;
use serde_json::{Map, Value};

/// Reference to an object by its name, as far as the reference describes the object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamedObject {
    pub(crate) name: String,
    /// `None`: in any namespace.
    pub(crate) namespace: Option<String>,
    pub(crate) uid: Option<String>,
}

/// Returns true if the dependent refers to the target and doesn't go with it; `None` if that is unclear.
pub(crate) fn refers(
    dependent: &Value,
    dependency: &Value,
    object: &Value,
    target: &Value,
    goes_too: bool,
) -> Option<bool> {
    let (own, of_target) = (&object["metadata"], &target["metadata"]);
    if own["uid"] == of_target["uid"] && !own["uid"].is_null() && own["uid"] != "" {
        return Some(false);
    }
    if !is_selected(dependent, own)? {
        return Some(false);
    }
    let is_there = |namespace: &Value| {
        namespace.is_null() || of_target["namespace"].is_null() || *namespace == of_target["namespace"]
    };
    if is_unreadable(dependency, object) {
        let field = &dependency["fieldRef"];
        let is_said = !field["namespacePath"].is_null() || !field["namespacePattern"].is_null();
        let own = if field["namespace"].is_null() { &own["namespace"] } else { &field["namespace"] };
        let may_be = is_there(if is_said { &Value::Null } else { own });
        let is_excluded = strings(&dependency["excludeNames"]).iter().any(|name| of_target["name"] == **name);
        return if may_be && !is_excluded { None } else { Some(false) };
    }
    if goes_too {
        return Some(false);
    }
    if !dependency["fieldRef"].is_null() {
        let is_meant = |named: &NamedObject| {
            of_target["name"] == *named.name
                && is_there(&named.namespace.as_deref().into())
                && named.uid.as_ref().is_none_or(|uid| of_target["uid"] == **uid)
        };
        return Some(named(dependency, object)?.iter().any(is_meant));
    }
    let by_labels = &dependency["selectorRef"];
    // A selector that stands in the rule counts once for each object, and each object has one name.
    let path = by_labels["path"].as_str().unwrap_or(".metadata.name");
    let subjects = subjects(object, path, &Value::Null);
    if subjects.len() > MAX_VALUES {
        return None;
    }
    let mut refers = Some(false);
    for (turns, _, value) in subjects {
        if !holds(dependency, object, &turns) {
            continue;
        }
        let selector = if by_labels["selector"].is_null() { value } else { &by_labels["selector"] };
        let mut selector = selector.clone();
        if let Some(fields) = selector.as_object_mut() {
            strings(&by_labels["narrowedBy"]).iter().for_each(|field| drop(fields.remove(field)));
        }
        match is_there(&own["namespace"]).then(|| selects(&selector, &labels(of_target))) {
            Some(Some(true)) => return Some(true),
            Some(None) => refers = None,
            _ => {}
        }
    }
    refers
}

/// Returns the objects that the dependent names by a dependency's `fieldRef`; `None` if there are too many.
pub(crate) fn named(dependency: &Value, object: &Value) -> Option<Vec<NamedObject>> {
    let field = &dependency["fieldRef"];
    let subjects = subjects(object, field["path"].as_str().unwrap_or(".metadata.name"), field);
    if subjects.len() > MAX_VALUES || is_unreadable(dependency, object) {
        return None;
    }
    let named = subjects.into_iter().filter_map(|(turns, text, _)| {
        let beside = |field: &Value| field.as_str().and_then(|path| string_at(object, path, &turns));
        if !holds(dependency, object, &turns) {
            return None;
        }
        let text = text?;
        let name = match field["pattern"].as_str() {
            None => Some(text.clone()),
            Some(pattern) => cut(pattern, field["replacement"].as_str(), &text),
        };
        // A value that goes along with the name: at a path of its own, or a part of the same text.
        let part = |of: &str| {
            let (path, pattern) = (&field[format!("{of}Path")], field[format!("{of}Pattern")].as_str());
            let whole = if path.is_null() { pattern.map(|_| text.clone()) } else { beside(path) };
            let said = match pattern {
                None => whole,
                Some(pattern) => whole.and_then(|whole| cut(pattern, None, &whole)),
            };
            said.filter(|said| !said.is_empty())
        };
        let said = field["namespace"].as_str().map(str::to_owned).or_else(|| part("namespace"));
        let own = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let absent_or = |said: Option<String>, expected: &Value| said.is_none_or(|said| *expected == said);
        let group = |version: &str| version.split_once('/').map_or(String::new(), |(group, _)| group.to_owned());
        let of_version = beside(&field["apiVersionPath"]).filter(|said| !said.is_empty());
        // A kind that is there, and can't be read, may be any.
        let kind = field["kindPath"].as_str().and_then(|path| value_at(object, path, &turns));
        let has_no_kind = kind.is_none_or(|kind| kind.is_null() || kind == "");
        let default_kind = field["defaultKind"].as_str().filter(|_| has_no_kind).map(str::to_owned);
        let is_kind = absent_or(part("group"), &dependency["group"])
            && absent_or(part("kind").or(default_kind), &dependency["kind"])
            && of_version.is_none_or(|version| dependency["group"] == group(&version));
        let name = name.filter(|name| !strings(&dependency["excludeNames"]).contains(name));
        is_kind.then_some(NamedObject { name: name?, namespace: said.or(own), uid: part("uid") })
    });
    Some(named.collect())
}

/// Returns true if the rule's selector selects a dependent; `None` if the selector is none.
pub(crate) fn is_selected(dependent: &Value, metadata: &Value) -> Option<bool> {
    if dependent["selector"].is_null() { Some(true) } else { selects(&dependent["selector"], &labels(metadata)) }
}

fn labels(metadata: &Value) -> Map<String, Value> {
    metadata["labels"].as_object().cloned().unwrap_or_default()
}

/// Returns true if a dependency's conditions hold for a reference with these turns.
fn holds(dependency: &Value, object: &Value, turns: &[usize]) -> bool {
    let when = &dependency["when"];
    let further = when["and"].as_array().into_iter().flatten();
    when.is_null() || [when].into_iter().chain(further).all(|condition| is_met(condition, object, turns))
}

fn is_met(condition: &Value, object: &Value, turns: &[usize]) -> bool {
    let value = value_at(object, condition["path"].as_str().unwrap(), turns).unwrap_or(&Value::Null);
    let same = |listed: &Value| match (listed, value) {
        (Value::Number(listed), Value::Number(value)) => listed.as_f64() == value.as_f64(),
        (Value::String(_) | Value::Bool(_), value) => listed == value,
        _ => false,
    };
    let among = |list: &Value| list.as_array().unwrap().iter().any(same);
    match (&condition["in"], &condition["notIn"]) {
        (list, Value::Null) => among(list),
        (_, list) => !among(list),
    }
}

/// Most values of one object that depguard reads for an edge.
const MAX_VALUES: usize = 10_000;

type Subject<'v> = (Vec<usize>, Option<String>, &'v Value);

/// Returns each value that may be a reference: the turns taken at wildcards, its text, and the value itself.
fn subjects<'v>(object: &'v Value, path: &str, field: &Value) -> Vec<Subject<'v>> {
    let mut subjects = Vec::new();
    if field["value"].is_string() {
        return vec![(Vec::new(), field["value"].as_str().map(str::to_owned), object)];
    }
    for (turns, value) in at(object, path) {
        match value {
            _ if field.is_null() => subjects.push((turns, None, value)),
            Value::Object(map) if field["keys"] == true => {
                let keys = map.keys().enumerate();
                subjects.extend(keys.map(|(turn, key)| ([&turns[..], &[turn]].concat(), Some(key.clone()), value)));
            }
            _ if field["keys"] == true => {}
            Value::String(text) => subjects.push((turns, Some(text.clone()), value)),
            Value::Array(_) => {
                subjects.extend(strings(value).into_iter().map(|text| (turns.clone(), Some(text), value)));
            }
            _ => {}
        }
    }
    let Some(separator) = field["split"].as_str() else { return subjects };
    let mut parts = Vec::new();
    for (turns, text, value) in subjects {
        let text = text.unwrap_or_default();
        let trimmed = text.split(separator).map(|part| part.trim_matches([' ', '\t', '\n', '\r', '\x0c']));
        let of_text = trimmed.filter(|part| !part.is_empty()).map(|part| (turns.clone(), Some(part.to_owned()), value));
        parts.extend(of_text);
    }
    parts
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

/// Returns the string at a path that takes the same turns, as far as the path has wildcards.
fn string_at(object: &Value, path: &str, turns: &[usize]) -> Option<String> {
    value_at(object, path, turns)?.as_str().map(str::to_owned)
}

/// Returns the value at a path that takes the same turns, as far as the path has wildcards.
fn value_at<'v>(object: &'v Value, path: &str, turns: &[usize]) -> Option<&'v Value> {
    at(object, path).into_iter().find(|(own, _)| turns.starts_with(own)).map(|(_, value)| value)
}

/// Returns the values at a path, each with the turns that were taken at wildcards.
pub(crate) fn at<'v>(object: &'v Value, path: &str) -> Vec<(Vec<usize>, &'v Value)> {
    let step = r#"^(?:(\.fromJSON\(\))|\.?([A-Za-z_0-9]+)|(\.?\*|\[\*\])|\[([0-9]+)\]|\['([^']*)'\])"#;
    let step = Regex::new(step).unwrap();
    let (mut rest, mut values) = (path, vec![(Vec::new(), object)]);
    while let Some(found) = step.captures(rest) {
        rest = &rest[found[0].len()..];
        let group = |index| found.get(index).map(|text| text.as_str());
        values = (values.into_iter())
            .flat_map(|(turns, value): (Vec<usize>, &Value)| match (group(2).or(group(5)), group(4)) {
                _ if group(1).is_some() => held(value).map(|value| (turns, value)).into_iter().collect(),
                (Some(name), _) => {
                    value.as_object().and_then(|map| map.get(name)).map(|value| (turns, value)).into_iter().collect()
                }
                (None, Some(index)) => {
                    let index: usize = index.parse().unwrap();
                    value.as_array().and_then(|list| list.get(index)).map(|value| (turns, value)).into_iter().collect()
                }
                (None, None) => {
                    let inner: Vec<&Value> = match value {
                        Value::Object(map) => map.values().collect(),
                        Value::Array(list) => list.iter().collect(),
                        _ => Vec::new(),
                    };
                    let inner = inner.into_iter().enumerate();
                    inner.map(|(turn, value)| ([&turns[..], &[turn]].concat(), value)).collect::<Vec<_>>()
                }
            })
            .collect();
    }
    assert!(rest.is_empty(), "{path}");
    values
}

/// Returns what a string holds as JSON, or else the string; `None` if it is no string, or if nobody can tell.
fn held(value: &Value) -> Option<&Value> {
    let text = value.as_str()?;
    if !is_like_json(text) {
        return Some(value);
    }
    let held: Value = serde_json::from_str(text).ok()?;
    Some(Box::leak(Box::new(held)))
}

fn is_like_json(text: &str) -> bool {
    Regex::new(r"^[ \t\r\n]*[\[{]").unwrap().is_match(text)
}

/// Returns every path of a dependency.
pub(crate) fn paths(dependency: &Value) -> Vec<&str> {
    let (field, when) = (&dependency["fieldRef"], &dependency["when"]);
    let of_field =
        ["path", "namespacePath", "groupPath", "kindPath", "apiVersionPath", "uidPath"].map(|path| &field[path]);
    let further = when["and"].as_array().into_iter().flatten().map(|condition| &condition["path"]);
    let all = of_field.into_iter().chain([&dependency["selectorRef"]["path"], &when["path"]]).chain(further);
    all.filter_map(Value::as_str).collect()
}

/// Returns true if a path of a dependency leads into JSON that is none.
pub(crate) fn is_unreadable(dependency: &Value, object: &Value) -> bool {
    paths(dependency)
        .into_iter()
        .filter_map(|path| path.split_once(".fromJSON()"))
        .any(|(before, _)| at(object, before).into_iter().any(|(_, value)| value.is_string() && held(value).is_none()))
}

fn cut(pattern: &str, replacement: Option<&str>, text: &str) -> Option<String> {
    let regex = Regex::new(pattern).unwrap();
    let found = regex.captures(text)?;
    let mut made = String::new();
    match replacement {
        Some(replacement) => found.expand(replacement, &mut made),
        None => made.push_str(found.get(usize::from(found.len() > 1)).map_or("", |group| group.as_str())),
    }
    Some(made)
}

/// Returns true if a selector selects the labels; `None` if the value is no selector. An absent selector selects
/// nothing.
pub(crate) fn selects(selector: &Value, labels: &Map<String, Value>) -> Option<bool> {
    let Value::Object(map) = selector else { return selector.is_null().then_some(false) };
    let is_selector = map.keys().all(|key| key == "matchLabels" || key == "matchExpressions");
    let all = |required: &Map<String, Value>| {
        let strings = required.values().all(Value::is_string);
        strings.then(|| required.iter().all(|(key, value)| labels.get(key) == Some(value)))
    };
    if !is_selector {
        return all(map);
    }
    let mut selected = match map.get("matchLabels") {
        Some(Value::Object(required)) => all(required)?,
        _ => true,
    };
    for expression in map.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let label = labels.get(expression["key"].as_str().unwrap());
        let values = expression["values"].as_array().cloned().unwrap_or_default();
        let among = label.is_some_and(|label| values.contains(label));
        selected &= match (expression["operator"].as_str().unwrap(), values.is_empty()) {
            ("In", false) => among,
            ("NotIn", false) => !among,
            ("Exists", true) => label.is_some(),
            ("DoesNotExist", true) => label.is_none(),
            _ => return None,
        };
    }
    Some(selected)
}
