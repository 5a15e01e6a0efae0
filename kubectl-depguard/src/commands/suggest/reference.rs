//! Detection of references: finds whether a field refers, its possible targets, the confidence and the reason.

use serde_json::{Map, Value};

use super::conventions::{
    API_VERSION, BETWEEN, GROUPS, KIND, MADE, NAME, NAMESPACE, NAMING, OF_A_REFERENCE, OF_METADATA, REFERRING,
};
use super::definition::KindName;
use super::description::kind_named;
use super::fields::{Field, is_name, is_text, properties};
use super::targets::{Kinds, MatchKind, Target};
use super::words::words;
use crate::engine::rule_draft::segment;

/// Confidence that a field refers.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Confidence {
    Low,
    Medium,
    High,
}

impl Confidence {
    /// Returns the confidence as it is printed.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Field that probably refers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReferenceCandidate {
    /// Path of the name.
    pub(super) path: String,
    pub(super) namespace: Option<String>,
    pub(super) kind: Option<String>,
    /// Kind that an API server fills in where the kind is absent.
    pub(super) default_kind: Option<String>,
    pub(super) group: Option<GroupPath>,
    /// Possible targets; empty if none is known.
    pub(super) targets: Vec<Target>,
    pub(super) confidence: Confidence,
    pub(super) why: String,
}

/// Field that holds the group of a reference's target.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum GroupPath {
    Group(String),
    ApiVersion(String),
}

/// Detects whether a field of the kind `own` is a reference; `None` if it is none.
pub(super) fn candidate_of(field: &Field<'_>, kinds: &Kinds, own: &KindName) -> Option<ReferenceCandidate> {
    let field_words = FieldWords::from_field(field);
    let found = match properties(field.schema) {
        Some(inside) => object(field, inside, &field_words, kinds, own),
        None => text(field, &field_words, kinds, own),
    };
    let mut found = described(field, kinds, own, found)?;
    if field_words.is_made {
        found.confidence = Confidence::Low;
        found.why.push_str(", but a controller seems to create it");
    }
    if !found.targets.iter().any(|target| target.name.namespaced) && !found.targets.is_empty() {
        found.namespace = None;
    }
    Some(found)
}

/// Takes the kind that a description names, unless the name of the field or the objects themselves tell the kind.
fn described(
    field: &Field<'_>,
    kinds: &Kinds,
    own: &KindName,
    found: Option<ReferenceCandidate>,
) -> Option<ReferenceCandidate> {
    let tells = |found: &ReferenceCandidate| {
        found.kind.is_some() || found.confidence > Confidence::Low && !found.targets.is_empty()
    };
    if found.as_ref().is_some_and(tells) {
        return found;
    }
    let mut named = telling(field).into_iter().filter_map(kind_named);
    let Some(target) = named.find_map(|kind| kinds.described(kind, own)) else { return found };
    let (path, namespace) = match properties(field.schema) {
        Some(inside) => (at(field, NAME), inside.get(NAMESPACE).is_some_and(is_text).then(|| at(field, NAMESPACE))),
        None => (field.path.clone(), namespace_beside(field)),
    };
    Some(ReferenceCandidate {
        path,
        namespace,
        kind: None,
        default_kind: None,
        group: None,
        targets: vec![target.clone()],
        confidence: Confidence::Medium,
        why: format!("by its description `{}` names {}", field.name, listing(&[target])),
    })
}

/// Returns the schemas whose descriptions may tell the kind: that of a string, or those of an object and of its name.
fn telling<'s>(field: &Field<'s>) -> Vec<&'s Value> {
    let is_of_metadata = || words(field.name).iter().any(|word| OF_METADATA.contains(&word.as_str()));
    match properties(field.schema) {
        Some(inside) if !inside.contains_key(KIND) => {
            inside.get(NAME).filter(|name| is_name(name)).map_or(vec![], |name| vec![field.schema, name])
        }
        None if is_name(field.schema) && field.name != NAME && !is_of_metadata() => vec![field.schema],
        Some(_) | None => vec![],
    }
}

// === The words of its name ===

struct FieldWords {
    /// Words for the kind.
    kind: Vec<String>,
    refers: bool,
    names: bool,
    is_made: bool,
}

impl FieldWords {
    fn from_field(field: &Field<'_>) -> Self {
        let mut kind = words(field.name);
        let is_made = kind.first().is_some_and(|first| MADE.contains(&first.as_str()));
        let names = strip(&mut kind, NAMING);
        let refers = strip(&mut kind, REFERRING);
        if refers && kind.len() > 1 {
            strip(&mut kind, BETWEEN);
        }
        // `secretKeySelector` holds a name and a key. Any other selector holds labels.
        if kind.ends_with(&["key".to_owned(), "selector".to_owned()]) {
            kind.truncate(kind.len() - 2);
        }
        if kind.is_empty() {
            kind = words(field.around);
        }
        Self { kind, refers, names, is_made }
    }
}

fn strip(words: &mut Vec<String>, last: &[&str]) -> bool {
    let ends = words.last().is_some_and(|word| last.contains(&word.as_str()));
    if ends {
        words.pop();
    }
    ends
}

// === An object with a name ===

fn object(
    field: &Field<'_>,
    inside: &Map<String, Value>,
    field_words: &FieldWords,
    kinds: &Kinds,
    own: &KindName,
) -> Option<ReferenceCandidate> {
    use Confidence::{High, Low, Medium};
    if !inside.get(NAME).is_some_and(is_name) || field.base.is_empty() && !field_words.refers {
        return None;
    }
    let has_text = |name: &str| inside.get(name).is_some_and(is_text);
    let typed = has_text(KIND);
    let only_refers = inside.keys().all(|name| OF_A_REFERENCE.contains(&name.as_str()));
    let group = (GROUPS.iter().copied().find(|name| has_text(name)).map(|name| GroupPath::Group(at(field, name))))
        .or_else(|| has_text(API_VERSION).then(|| GroupPath::ApiVersion(at(field, API_VERSION))));
    let default_kind = inside.get(KIND).and_then(|kind| kind.get("default")?.as_str());
    let required = field.schema.get("required").and_then(Value::as_array);
    let may_lack_kind = typed && default_kind.is_none() && !required.is_some_and(|names| names.contains(&KIND.into()));
    let found = |targets: Vec<&Target>, confidence, mut why: String| {
        if may_lack_kind && targets.len() > 1 {
            why.push_str("; where it has no kind, it counts for each of them");
        }
        Some(ReferenceCandidate {
            path: at(field, NAME),
            namespace: has_text(NAMESPACE).then(|| at(field, NAMESPACE)),
            kind: typed.then(|| at(field, KIND)),
            default_kind: default_kind.map(str::to_owned),
            group: group.clone(),
            targets: targets.into_iter().cloned().collect(),
            confidence,
            why,
        })
    };
    let name = field.name;
    let listed = kinds_listed(inside, kinds, &own.group);
    if !listed.is_empty() {
        let confidence = if field_words.refers || only_refers { High } else { Medium };
        return found(listed, confidence, format!("`{name}` has a name and a kind, and the schema lists the kinds"));
    }
    let meant = kinds.meant(&field_words.kind, own, field_words.refers);
    // If the reference holds its kind, all kinds of this name may be meant; otherwise the first.
    let most = if typed { usize::MAX } else { 1 };
    let is_local_reference = only_refers && inside.len() == 1;
    match (field_words.refers, typed, meant) {
        (true, false, Some((MatchKind::Part, targets))) if targets.len() > 1 => {
            found(vec![], Medium, format!("`{name}` is named like a reference, perhaps to {}", listing(&targets)))
        }
        (true, _, Some((how, targets))) => {
            let sure = how != MatchKind::Part
                && (targets.first().is_some_and(|target| target.telling) || how == MatchKind::Whole);
            let targets: Vec<_> = targets.into_iter().take(most).collect();
            let why = format!("`{name}` is named like a reference to {}", listing(&targets));
            found(targets, if sure { High } else { Medium }, why)
        }
        (true, true, None) => found(
            vec![],
            Medium,
            format!("`{name}` is named like a reference; the schema doesn't say to which kind, only the objects do"),
        ),
        (true, false, None) => found(vec![], Medium, format!("`{name}` is named like a reference to an unknown kind")),
        (false, true, meant) => {
            let targets = meant.map(|(_, targets)| targets).unwrap_or_default();
            let confidence = if only_refers && group.is_some() { Medium } else { Low };
            let shaped = only_refers || group.is_some();
            shaped.then_some(())?;
            found(targets, confidence, format!("`{name}` has a name and a kind, like a reference"))
        }
        (false, false, Some((how, targets))) => {
            let telling = targets.first().is_some_and(|target| target.telling);
            let confidence = match (how, only_refers) {
                (MatchKind::Whole, true) if telling && !field.many => High,
                (MatchKind::Whole, true) => Medium,
                (MatchKind::Tail, true) if telling && is_local_reference => High,
                (MatchKind::Tail, true) if telling => Medium,
                (MatchKind::Tail, true) | (MatchKind::Whole, false) => Low,
                _ => return None,
            };
            let targets: Vec<_> = targets.into_iter().take(most).collect();
            let why = format!("`{name}` has a name, and is named like {}", listing(&targets));
            found(targets, confidence, why)
        }
        (false, false, None) => {
            let is_pair = inside.len() == 2 && has_text(NAMESPACE);
            is_pair.then_some(())?;
            found(vec![], Low, format!("`{name}` has only a name and a namespace"))
        }
    }
}

/// Returns the kinds that the schema lists, or sets as the default, for a reference's `kind`.
fn kinds_listed<'k>(inside: &Map<String, Value>, kinds: &'k Kinds, own_group: &str) -> Vec<&'k Target> {
    let group = GROUPS.iter().find_map(|name| only(inside.get(*name)?));
    let of_version = || only(inside.get(API_VERSION)?).map(|version| version.split_once('/').map_or("", |(g, _)| g));
    let group = group.or_else(of_version);
    let Some(kind) = inside.get(KIND) else { return Vec::new() };
    let listed = kind.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let default = kind.get("default").and_then(Value::as_str).filter(|_| kind.get("enum").is_none());
    listed.chain(default).filter_map(|kind| kinds.of_kind(kind, group, own_group)).collect()
}

/// Returns the one value that a field may have, or its default.
fn only(schema: &Value) -> Option<&str> {
    let listed = schema.get("enum").and_then(Value::as_array);
    match listed.map(Vec::as_slice) {
        Some([one]) => one.as_str(),
        _ => schema.get("default")?.as_str(),
    }
}

fn at(field: &Field<'_>, name: &str) -> String {
    format!("{}{}", field.path, segment(name))
}

// === A string ===

fn text(field: &Field<'_>, field_words: &FieldWords, kinds: &Kinds, own: &KindName) -> Option<ReferenceCandidate> {
    use Confidence::{High, Low, Medium};
    if !is_name(field.schema) || words(field.name) == ["name"] {
        return None;
    }
    let name = field.name;
    let found = |target: Option<&Target>, confidence, why: String| {
        Some(ReferenceCandidate {
            path: field.path.clone(),
            namespace: namespace_beside(field),
            kind: None,
            default_kind: None,
            group: None,
            targets: target.into_iter().cloned().collect(),
            confidence,
            why,
        })
    };
    let Some((how, targets)) = kinds.meant(&field_words.kind, own, field_words.refers || field_words.names) else {
        let alone = words(name).len() > 1;
        return (field_words.refers && alone)
            .then(|| found(None, Low, format!("`{name}` is named like a reference to an unknown kind")))
            .flatten();
    };
    let target = *targets.first()?;
    let confidence = match (field_words.refers || field_words.names, how) {
        (true, MatchKind::Whole) if target.telling => High,
        (true, MatchKind::Whole) => Medium,
        (true, MatchKind::Tail) if target.telling && !target.given => High,
        (true, MatchKind::Tail) if target.telling => Medium,
        (true, MatchKind::Part) if field_words.refers => Medium,
        (true, MatchKind::Tail | MatchKind::Part) => Low,
        (false, MatchKind::Whole) if target.telling && (!target.given || target.name.group == own.group) => Medium,
        (false, MatchKind::Whole) if target.telling => Low,
        (false, MatchKind::Tail) if target.telling => Low,
        (false, _) => return None,
    };
    let what = if field_words.names { "is named like the name of" } else { "is named like" };
    found(Some(target), confidence, format!("`{name}` {what} {}", listing(&[target])))
}

/// Returns the path of the field that holds the namespace of a name: `secretNamespace` beside `secretName`, or
/// `namespace` unless a `name` stands beside it, to which it would belong.
fn namespace_beside(field: &Field<'_>) -> Option<String> {
    let stem = field.name.strip_suffix("Name").unwrap_or(field.name);
    let own = format!("{stem}Namespace");
    let beside = |name: &str| field.beside.get(name).is_some_and(is_text);
    let name = if beside(&own) {
        own
    } else if beside(NAMESPACE) && !field.beside.contains_key(NAME) {
        NAMESPACE.to_owned()
    } else {
        return None;
    };
    Some(format!("{}{}", field.base, segment(&name)))
}

fn listing(targets: &[&Target]) -> String {
    targets.iter().map(|target| target.name.kind.as_str()).collect::<Vec<_>>().join(" or ")
}
