//! Whether a field refers, to which kinds, how sure that is and why.

use serde_json::{Map, Value};

use super::conventions::{
    API_VERSION, BETWEEN, GROUPS, KIND, MADE, NAME, NAMESPACE, NAMING, OF_A_REFERENCE, REFERRING,
};
use super::definition::KindName;
use super::fields::{Field, is_name, is_text, properties};
use super::targets::{How, Kinds, Target};
use super::words::words;
use crate::draft::segment;

/// How sure it is that a field refers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Confidence {
    Low,
    Medium,
    High,
}

impl Confidence {
    /// As it is printed.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A field that is likely to refer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    /// Leads to the name.
    pub(super) path: String,
    pub(super) namespace: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) group: Option<GroupPath>,
    /// Empty where none is known.
    pub(super) targets: Vec<Target>,
    pub(super) confidence: Confidence,
    pub(super) why: String,
}

/// Where a reference tells the group of its target.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum GroupPath {
    Group(String),
    ApiVersion(String),
}

/// What is made of a field of the kind `own`. `None`: it is no reference.
pub(super) fn judge(field: &Field<'_>, kinds: &Kinds, own: &KindName) -> Option<Found> {
    let said = Said::of(field);
    let mut found = match properties(field.schema) {
        Some(inside) => object(field, inside, &said, kinds, own),
        None => text(field, &said, kinds, own),
    }?;
    if said.is_made {
        found.confidence = Confidence::Low;
        found.why.push_str(", but it seems to be made by a controller");
    }
    if !found.targets.iter().any(|target| target.name.namespaced) && !found.targets.is_empty() {
        found.namespace = None;
    }
    Some(found)
}

// === What its name says ===

struct Said {
    /// The words for the kind.
    kind: Vec<String>,
    refers: bool,
    names: bool,
    is_made: bool,
}

impl Said {
    fn of(field: &Field<'_>) -> Self {
        let mut kind = words(field.name);
        let is_made = kind.first().is_some_and(|first| MADE.contains(&first.as_str()));
        let names = strip(&mut kind, NAMING);
        let refers = strip(&mut kind, REFERRING);
        if refers && kind.len() > 1 {
            strip(&mut kind, BETWEEN);
        }
        // `secretKeySelector` holds name and key. Another selector holds labels.
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

// === An object that holds a name ===

fn object(field: &Field<'_>, inside: &Map<String, Value>, said: &Said, kinds: &Kinds, own: &KindName) -> Option<Found> {
    use Confidence::{High, Low, Medium};
    if !inside.get(NAME).is_some_and(is_name) || field.base.is_empty() && !said.refers {
        return None;
    }
    let has_text = |name: &str| inside.get(name).is_some_and(is_text);
    let typed = has_text(KIND);
    let only_refers = inside.keys().all(|name| OF_A_REFERENCE.contains(&name.as_str()));
    let group = (GROUPS.iter().copied().find(|name| has_text(name)).map(|name| GroupPath::Group(at(field, name))))
        .or_else(|| has_text(API_VERSION).then(|| GroupPath::ApiVersion(at(field, API_VERSION))));
    let found = |targets: Vec<&Target>, confidence, why: String| {
        Some(Found {
            path: at(field, NAME),
            namespace: has_text(NAMESPACE).then(|| at(field, NAMESPACE)),
            kind: typed.then(|| at(field, KIND)),
            group: group.clone(),
            targets: targets.into_iter().cloned().collect(),
            confidence,
            why,
        })
    };
    let name = field.name;
    let listed = kinds_listed(inside, kinds, &own.group);
    if !listed.is_empty() {
        let confidence = if said.refers || only_refers { High } else { Medium };
        return found(listed, confidence, format!("`{name}` holds a name and a kind, and the schema says which kinds"));
    }
    let meant = kinds.meant(&said.kind, own, said.refers);
    // Where the reference tells its kind, all that are called so may be meant; else the first.
    let most = if typed { usize::MAX } else { 1 };
    let is_local_reference = only_refers && inside.len() == 1;
    match (said.refers, typed, meant) {
        (true, false, Some((How::Part, targets))) if targets.len() > 1 => {
            found(vec![], Medium, format!("`{name}` says that it refers, and may mean {}", listing(&targets)))
        }
        (true, _, Some((how, targets))) => {
            let sure = how != How::Part && (targets.first().is_some_and(|target| target.telling) || how == How::Whole);
            let targets: Vec<_> = targets.into_iter().take(most).collect();
            let why = format!("`{name}` says that it refers, and means {}", listing(&targets));
            found(targets, if sure { High } else { Medium }, why)
        }
        (true, true, None) => found(vec![], Medium, format!("`{name}` refers to a kind that only objects tell")),
        (true, false, None) => found(vec![], Medium, format!("`{name}` says that it refers, but not to what")),
        (false, true, meant) => {
            let targets = meant.map(|(_, targets)| targets).unwrap_or_default();
            let confidence = if only_refers && group.is_some() { Medium } else { Low };
            let shaped = only_refers || group.is_some();
            shaped.then_some(())?;
            found(targets, confidence, format!("`{name}` holds a name and a kind, as references do"))
        }
        (false, false, Some((how, targets))) => {
            let telling = targets.first().is_some_and(|target| target.telling);
            let confidence = match (how, only_refers) {
                (How::Whole, true) if telling && !field.many => High,
                (How::Whole, true) => Medium,
                (How::Tail, true) if telling && is_local_reference => High,
                (How::Tail, true) if telling => Medium,
                (How::Tail, true) | (How::Whole, false) => Low,
                _ => return None,
            };
            let targets: Vec<_> = targets.into_iter().take(most).collect();
            let why = format!("`{name}` holds a name, and is called like {}", listing(&targets));
            found(targets, confidence, why)
        }
        (false, false, None) => {
            let is_pair = inside.len() == 2 && has_text(NAMESPACE);
            is_pair.then_some(())?;
            found(vec![], Low, format!("`{name}` holds a name and a namespace, and nothing else"))
        }
    }
}

/// The kinds that the schema lists, or gives as the default, for a reference's `kind`.
fn kinds_listed<'k>(inside: &Map<String, Value>, kinds: &'k Kinds, own_group: &str) -> Vec<&'k Target> {
    let group = GROUPS.iter().find_map(|name| only(inside.get(*name)?));
    let of_version = || only(inside.get(API_VERSION)?).map(|version| version.split_once('/').map_or("", |(g, _)| g));
    let group = group.or_else(of_version);
    let Some(kind) = inside.get(KIND) else { return Vec::new() };
    let listed = kind.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let default = kind.get("default").and_then(Value::as_str).filter(|_| kind.get("enum").is_none());
    listed.chain(default).filter_map(|kind| kinds.of_kind(kind, group, own_group)).collect()
}

/// The one value that a field may have, or has where it isn't written.
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

fn text(field: &Field<'_>, said: &Said, kinds: &Kinds, own: &KindName) -> Option<Found> {
    use Confidence::{High, Low, Medium};
    if !is_name(field.schema) || words(field.name) == ["name"] {
        return None;
    }
    let name = field.name;
    let found = |target: Option<&Target>, confidence, why: String| {
        Some(Found {
            path: field.path.clone(),
            namespace: namespace_beside(field),
            kind: None,
            group: None,
            targets: target.into_iter().cloned().collect(),
            confidence,
            why,
        })
    };
    let Some((how, targets)) = kinds.meant(&said.kind, own, said.refers || said.names) else {
        let alone = words(name).len() > 1;
        return (said.refers && alone)
            .then(|| found(None, Low, format!("`{name}` says that it refers, but not to what")))
            .flatten();
    };
    let target = *targets.first()?;
    let confidence = match (said.refers || said.names, how) {
        (true, How::Whole) if target.telling => High,
        (true, How::Whole) => Medium,
        (true, How::Tail) if target.telling && !target.given => High,
        (true, How::Tail) if target.telling => Medium,
        (true, How::Part) if said.refers => Medium,
        (true, How::Tail | How::Part) => Low,
        (false, How::Whole) if target.telling && (!target.given || target.name.group == own.group) => Medium,
        (false, How::Whole) if target.telling => Low,
        (false, How::Tail) if target.telling => Low,
        (false, _) => return None,
    };
    let what = if said.names { "ends as names do, and means" } else { "is called like" };
    found(Some(target), confidence, format!("`{name}` {what} {}", listing(&[target])))
}

/// The field beside a name that holds its namespace: `secretNamespace` beside `secretName`, or `namespace` where no
/// `name` stands beside it, whose namespace it would be.
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
