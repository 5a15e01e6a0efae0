//! Label and field selectors.

use serde_json::Value;

use crate::kinds::{Origin, Resource};
use crate::protocol::json::{array, field_of};
use crate::protocol::routes::Query;
use crate::protocol::status::{ApiError, ApiResult};
use crate::request::view::{Reach, Target};

/// Selector of the objects of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<(String, bool, String)>,
    nothing: bool,
}

#[derive(Clone, Debug)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Selector {
    /// Reads `labelSelector` and `fieldSelector`. A field that can't be selected by leads to a 400.
    pub(crate) fn parse(query: &Query, resource: &Resource) -> ApiResult<Self> {
        let labels = query.value("labelSelector").map(parse_labels).transpose()?.unwrap_or_default();
        let fields = query.value("fieldSelector").map(parse_fields).transpose()?.unwrap_or_default();
        for (field, _, _) in &fields {
            let known = field == "metadata.name"
                || field == "metadata.namespace" && resource.namespaced
                || resource.selectable.contains(field);
            if !known && resource.origin == Origin::BuiltIn {
                let known = "only \"metadata.name\", \"metadata.namespace\"";
                return Err(ApiError::bad_request(format!("\"{field}\" is not a known field selector: {known}")));
            }
            if !known {
                return Err(ApiError::bad_request(format!("field label not supported: {field}")));
            }
        }
        Ok(Self { labels, fields, nothing: false })
    }

    /// Reads the selectors of a list or a watch. Selecting by an object's name finds nothing across all clusters of a
    /// virtual workspace, because kcp looks at a key without a cluster.
    pub(crate) fn of_list(query: &Query, target: &Target) -> ApiResult<Self> {
        let mut selector = Self::parse(query, &target.resource)?;
        let by_name = selector.fields.iter().any(|(field, equal, _)| *equal && field == "metadata.name");
        selector.nothing = by_name && matches!(target.reach, Reach::Every(_));
        Ok(selector)
    }

    /// Returns true if the selector selects every object.
    pub(crate) fn is_empty(&self) -> bool {
        !self.nothing && self.labels.is_empty() && self.fields.is_empty()
    }

    /// Returns a field that must have one value, among those that the schema declares.
    pub(crate) fn field<'a>(&'a self, resource: &Resource) -> Option<(&'a str, &'a str)> {
        let declared = |(field, equal, _): &&(String, bool, String)| *equal && resource.selectable.contains(field);
        self.fields.iter().find(declared).map(|(field, _, value)| (field.as_str(), value.as_str()))
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels").unwrap_or(&Value::Null);
        !self.nothing
            && self.labels.iter().all(|requirement| requirement.holds(labels))
            && self.fields.iter().all(|(field, equal, value)| (field_of(object, field) == *value) == *equal)
    }
}

/// Returns true if a `LabelSelector` object selects these labels. An absent or empty one selects all.
pub(crate) fn label_selector_matches(selector: Option<&Value>, labels: &Value) -> bool {
    let Some(selector) = selector else {
        return true;
    };
    let required = selector["matchLabels"].as_object();
    let equal = required.is_none_or(|required| required.iter().all(|(name, value)| labels.get(name) == Some(value)));
    equal
        && array(selector, "/matchExpressions").iter().all(|expression| {
            let key = expression["key"].as_str().unwrap_or_default().to_owned();
            let values = array(expression, "/values").iter().filter_map(|value| value.as_str().map(str::to_owned));
            let requirement = match expression["operator"].as_str() {
                Some("In") => Requirement::In(key, values.collect()),
                Some("NotIn") => Requirement::NotIn(key, values.collect()),
                Some("Exists") => Requirement::Exists(key),
                _ => Requirement::Absent(key),
            };
            requirement.holds(labels)
        })
}

impl Requirement {
    fn holds(&self, labels: &Value) -> bool {
        let label = |key: &str| labels.get(key).and_then(Value::as_str).map(str::to_owned);
        match self {
            Self::In(key, values) => label(key).is_some_and(|label| values.contains(&label)),
            Self::NotIn(key, values) => label(key).is_none_or(|label| !values.contains(&label)),
            Self::Exists(key) => label(key).is_some(),
            Self::Absent(key) => label(key).is_none(),
        }
    }
}

/// Parses `a=b,c!=d`, with `\` before a literal `\`, `,` or `=`.
fn parse_fields(text: &str) -> ApiResult<Vec<(String, bool, String)>> {
    let mut terms = Vec::new();
    for term in split_unescaped(text, ',') {
        let (field, equal, value) = if let Some((field, value)) = term.split_once("!=") {
            (field, false, value)
        } else if let Some((field, value)) = term.split_once("==") {
            (field, true, value)
        } else if let Some((field, value)) = term.split_once('=') {
            (field, true, value)
        } else {
            let why = format!("invalid selector: '{text}'; can't understand '{term}'");
            return Err(ApiError::bad_request(why));
        };
        terms.push((field.to_owned(), equal, unescape(value)));
    }
    Ok(terms)
}

fn split_unescaped(text: &str, separator: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for letter in text.chars() {
        if letter == separator && !escaped {
            parts.push(String::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(letter);
        }
        escaped = letter == '\\' && !escaped;
    }
    parts
}

fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(if letter == '\\' { letters.next().unwrap_or('\\') } else { letter });
    }
    plain
}

/// Parses `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, separated by commas.
fn parse_labels(text: &str) -> ApiResult<Vec<Requirement>> {
    split_outside_parentheses(text).into_iter().map(parse_label).collect()
}

fn parse_label(term: &str) -> ApiResult<Requirement> {
    let term = term.trim();
    let set = |values: &str| {
        let inner = values.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        inner.map(|inner| inner.split(',').map(|value| value.trim().to_owned()).collect::<Vec<_>>())
    };
    let malformed = || ApiError::bad_request(format!("unable to parse requirement: `{term}`"));
    if let Some((key, values)) = term.split_once(" notin ") {
        return Ok(Requirement::NotIn(key.trim().to_owned(), set(values).ok_or_else(malformed)?));
    }
    if let Some((key, values)) = term.split_once(" in ") {
        return Ok(Requirement::In(key.trim().to_owned(), set(values).ok_or_else(malformed)?));
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Ok(Requirement::NotIn(key.trim().to_owned(), vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = term.split_once('=') {
        let value = value.trim_start_matches('=').trim().to_owned();
        return Ok(Requirement::In(key.trim().to_owned(), vec![value]));
    }
    let (key, absent) = term.strip_prefix('!').map_or((term, false), |key| (key.trim(), true));
    if key.is_empty() || key.contains(|letter: char| letter.is_whitespace()) {
        return Err(malformed());
    }
    let key = key.to_owned();
    Ok(if absent { Requirement::Absent(key) } else { Requirement::Exists(key) })
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_u32);
    for (index, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}
