//! Selections by labels, as Kubernetes defines them.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::api;
use crate::model::api::LabelSelectorOperator as Operator;

/// A checked LabelSelector. A selector without requirements selects everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

/// The reason for refusing a selector: an API server refuses such a selector as well.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// An invalid key of a label.
    #[error("`{0}` is not a label's key, such as `tier` or `example.com/tier`")]
    Key(String),
    /// An invalid value of a label.
    #[error("`{0}` is not a label's value (at most 63 letters, digits, `-`, `_` and `.`)")]
    Value(String),
    /// `In` or `NotIn` without values.
    #[error("the requirement on `{0}` has no values: name at least one")]
    NoValues(String),
    /// `Exists` or `DoesNotExist` with values.
    #[error("the requirement on `{0}` has values, but `Exists` and `DoesNotExist` take none: leave them out")]
    Values(String),
    /// Neither a LabelSelector nor a map of labels.
    #[error("it is neither a label selector nor a map of labels")]
    Shape,
}

impl SelectorError {
    /// Describes the error without the faulty key or value: the text may go to users who are not the selector's
    /// owner.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Key(_) => "it has an invalid label key",
            Self::Value(_) => "it has an invalid label value",
            Self::NoValues(_) => "a requirement has no values",
            Self::Values(_) => "a requirement has values, but `Exists` and `DoesNotExist` take none",
            Self::Shape => "it is neither a label selector nor a map of labels",
        }
    }
}

impl Selector {
    /// The fields of a LabelSelector.
    pub(crate) const FIELDS: [&str; 2] = ["matchLabels", "matchExpressions"];

    /// Checks a LabelSelector as Kubernetes does.
    pub fn parse(selector: &api::LabelSelector) -> Result<Self, SelectorError> {
        let labels = (selector.match_labels.iter().flatten())
            .map(|(key, value)| Requirement::parse(key, Operator::In, std::slice::from_ref(value)));
        let expressions = (selector.match_expressions.iter().flatten()).map(|expression| {
            Requirement::parse(&expression.key, expression.operator, expression.values.as_deref().unwrap_or_default())
        });
        Ok(Self { requirements: labels.chain(expressions).collect::<Result<_, _>>()? })
    }

    /// Reads a selector as it stands in an object: a LabelSelector, or a plain map of labels. `None` for `null`. The fields
    /// `narrowed_by` are passed over.
    pub(crate) fn read(json: &str, narrowed_by: &[String]) -> Result<Option<Self>, SelectorError> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Shape {
            Selector(api::LabelSelector),
            Labels(std::collections::BTreeMap<String, String>),
        }
        let shape = if narrowed_by.is_empty() {
            serde_json::from_str(json)
        } else {
            serde_json::from_str::<Option<Map<String, Value>>>(json).and_then(|mut fields| {
                fields.iter_mut().for_each(|fields| fields.retain(|name, _| !narrowed_by.contains(name)));
                fields.map(|fields| Shape::deserialize(Value::Object(fields))).transpose()
            })
        };
        let selector = match shape.map_err(|_| SelectorError::Shape)? {
            None => return Ok(None),
            Some(Shape::Selector(selector)) => selector,
            Some(Shape::Labels(labels)) => api::LabelSelector { match_labels: Some(labels), match_expressions: None },
        };
        Self::parse(&selector).map(Some)
    }

    /// Returns the keys of the labels that the selector mentions.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.requirements.iter().map(|requirement| requirement.key.as_str())
    }

    /// Returns a label that every selected object has, with its possible values; without values, any value is
    /// possible. `None`: the selector may select objects without any label.
    pub fn anchor(&self) -> Option<(&str, &[String])> {
        let of = |operator| self.requirements.iter().find(move |requirement| requirement.operator == operator);
        let anchor = of(Operator::In).or_else(|| of(Operator::Exists))?;
        Some((&anchor.key, &anchor.values))
    }

    /// Returns true if the selector selects an object. `label` returns the value of each label that the object has.
    pub fn matches<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(label(&requirement.key)))
    }
}

/// Prints the selector in the syntax of `kubectl --selector`: `tier=prod,!legacy`.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.requirements.is_empty() {
            return f.write_str("all");
        }
        for (index, Requirement { key, operator, values }) in self.requirements.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            match (operator, &values[..]) {
                (Operator::In, [value]) => write!(f, "{key}={value}"),
                (Operator::In, values) => write!(f, "{key} in ({})", values.join(",")),
                (Operator::NotIn, values) => write!(f, "{key} notin ({})", values.join(",")),
                (Operator::Exists, _) => f.write_str(key),
                (Operator::DoesNotExist, _) => write!(f, "!{key}"),
            }?;
        }
        Ok(())
    }
}

impl Requirement {
    fn parse(key: &str, operator: Operator, values: &[String]) -> Result<Self, SelectorError> {
        if !is_key(key) {
            return Err(SelectorError::Key(shown(key)));
        }
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => return Err(SelectorError::NoValues(key.to_owned())),
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                return Err(SelectorError::Values(key.to_owned()));
            }
            _ => {}
        }
        if let Some(value) = values.iter().find(|value| !value.is_empty() && !is_part(value)) {
            return Err(SelectorError::Value(shown(value)));
        }
        Ok(Self { key: key.to_owned(), operator, values: values.to_vec() })
    }

    fn holds(&self, label: Option<&str>) -> bool {
        let among = label.is_some_and(|label| self.values.iter().any(|value| value == label));
        match self.operator {
            Operator::In => among,
            Operator::NotIn => !among,
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
        }
    }
}

/// Returns true for `name` or `prefix/name` if the prefix is a DNS subdomain.
fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        None => is_part(key),
        Some((prefix, name)) => {
            let is_label = |label: &str| {
                let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
                label.starts_with(edge) && label.ends_with(edge) && label.chars().all(|c| edge(c) || c == '-')
            };
            prefix.len() <= 253 && prefix.split('.').all(is_label) && is_part(name)
        }
    }
}

/// Returns true for at most 63 letters, digits, `-`, `_` and `.`, the first and the last a letter or a digit.
fn is_part(part: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| edge(c) || matches!(c, '-' | '_' | '.');
    part.len() <= 63 && part.starts_with(edge) && part.ends_with(edge) && part.chars().all(inner)
}

/// Returns the text as an error repeats it: whole, unless it is longer than 63 characters.
fn shown(text: &str) -> String {
    text.chars().take(63).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selector(json: Value) -> Result<Selector, SelectorError> {
        Selector::parse(&api::LabelSelector::deserialize(json).unwrap())
    }

    #[test]
    fn requirements_hold_as_in_kubernetes() {
        let one = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]});
        let both = json!({"matchLabels": {"tier": "prod"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]});
        for (json, tier, app, selected) in [
            (json!({}), None, None, true),
            (json!({"matchLabels": null, "matchExpressions": []}), None, None, true),
            (json!({"matchLabels": {"tier": "prod"}}), Some("prod"), None, true),
            (json!({"matchLabels": {"tier": "prod"}}), Some("test"), None, false),
            (json!({"matchLabels": {"tier": "prod"}}), None, None, false),
            (json!({"matchLabels": {"tier": ""}}), None, None, false),
            (json!({"matchLabels": {"tier": ""}}), Some(""), None, true),
            (both.clone(), Some("prod"), Some("web"), true),
            (both.clone(), Some("prod"), None, false),
            (both, None, Some("web"), false),
            (one("In", json!(["a", "b"])), Some("b"), None, true),
            (one("In", json!(["a", "b"])), Some("c"), None, false),
            (one("In", json!(["a", "b"])), None, None, false),
            (one("NotIn", json!(["a", "b"])), Some("b"), None, false),
            (one("NotIn", json!(["a", "b"])), Some("c"), None, true),
            (one("NotIn", json!(["a", "b"])), None, None, true),
            (one("Exists", json!([])), Some(""), None, true),
            (one("Exists", json!(null)), None, None, false),
            (one("DoesNotExist", json!([])), None, None, true),
            (one("DoesNotExist", json!([])), Some("a"), None, false),
        ] {
            let label = |key: &str| if key == "tier" { tier } else { app };
            assert_eq!(selector(json.clone()).unwrap().matches(label), selected, "{json} {tier:?} {app:?}");
        }
    }

    #[test]
    fn a_selector_is_shown_as_kubectl_takes_it() {
        let one = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]});
        for (json, shown) in [
            (json!({}), "all"),
            (json!({"matchLabels": {"a": "b", "tier": "prod"}}), "a=b,tier=prod"),
            (one("In", json!(["a", "b"])), "tier in (a,b)"),
            (one("NotIn", json!(["a"])), "tier notin (a)"),
            (one("Exists", json!([])), "tier"),
            (one("DoesNotExist", json!([])), "!tier"),
        ] {
            assert_eq!(selector(json).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_kubernetes_refuses_is_refused() {
        let requirement = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let long = "a".repeat(64);
        for json in [
            requirement("a", "In", &[]),
            requirement("a", "NotIn", &[]),
            requirement("a", "Exists", &["b"]),
            requirement("a", "DoesNotExist", &["b"]),
            requirement("", "Exists", &[]),
            requirement("a b", "Exists", &[]),
            requirement("-a", "Exists", &[]),
            requirement("/a", "Exists", &[]),
            requirement("A.b/a", "Exists", &[]),
            requirement("a/b/c", "Exists", &[]),
            requirement(&long, "Exists", &[]),
            requirement("a", "In", &["b c"]),
            requirement("a", "In", &[&long]),
            json!({"matchLabels": {"a": "b/c"}}),
            json!({"matchLabels": {"a b": "c"}}),
        ] {
            assert!(selector(json.clone()).is_err(), "{json}");
        }
        for key in ["a", "A_b.c-1", "example.com/a", "1"] {
            selector(requirement(key, "In", &["", "A.b_c-1"])).unwrap();
        }
    }
}
