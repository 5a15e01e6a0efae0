//! Selection by labels and fields: the objects that a command reports.

use std::fmt;
use std::str::FromStr;

use depguard_core::api::{LabelSelector, LabelSelectorOperator as Operator, LabelSelectorRequirement};
use depguard_core::model::{Selector, percent_encode};
use serde_json::Value;

/// Flags that select the objects to report. Other objects are read all the same, so that no answer depends on an object
/// that was left out.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Selection {
    /// Labels of the objects to report, as in app=web,tier!=cache or 'env in (prod,test)'
    #[arg(short = 'l', long = "selector", value_name = "LABELS")]
    labels: Option<LabelTerms>,

    /// Fields of the objects to report, as in metadata.name=web; an API server knows few fields of each kind
    #[arg(long, value_name = "FIELDS")]
    field_selector: Option<FieldTerms>,
}

/// Label selector as kubectl takes it.
#[derive(Debug, Clone)]
struct LabelTerms {
    text: String,
    selector: Selector,
}

/// Field selector: each of its terms must hold.
#[derive(Debug, Clone)]
struct FieldTerms {
    text: String,
    terms: Vec<FieldTerm>,
}

#[derive(Debug, Clone)]
struct FieldTerm {
    /// JSON pointer to the field.
    pointer: String,
    is_equal: bool,
    value: String,
}

impl Selection {
    /// Returns true if every object is selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_none() && self.field_selector.is_none()
    }

    /// Returns true if the user selects by fields.
    pub(crate) fn has_fields(&self) -> bool {
        self.field_selector.is_some()
    }

    /// Returns true if an object is selected, by its own labels and fields.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        self.labels.as_ref().is_none_or(|labels| labels.selector.matches(label))
            && self.field_selector.as_ref().is_none_or(|fields| fields.terms.iter().all(|term| term.holds(object)))
    }

    /// Returns the query by which an API server selects, such as `labelSelector=app%3Dweb`.
    pub(crate) fn query(&self) -> String {
        let labels = self.labels.as_ref().map(|labels| format!("labelSelector={}", percent_encode(&labels.text)));
        let fields = self.field_selector.as_ref().map(|of| format!("fieldSelector={}", percent_encode(&of.text)));
        labels.into_iter().chain(fields).collect::<Vec<_>>().join("&")
    }
}

/// Writes the selection as the user wrote it.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = [self.labels.as_ref().map(|of| &of.text), self.field_selector.as_ref().map(|of| &of.text)];
        for (index, text) in texts.into_iter().flatten().enumerate() {
            write!(f, "{}`{text}`", if index == 0 { "" } else { " and " })?;
        }
        Ok(())
    }
}

impl FromStr for LabelTerms {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let terms = split_terms(text).into_iter().map(requirement).collect::<Result<Vec<_>, _>>()?;
        let selector = LabelSelector { match_labels: None, match_expressions: Some(terms) };
        let selector = Selector::parse(&selector).map_err(|why| why.to_string())?;
        Ok(Self { text: text.to_owned(), selector })
    }
}

/// Splits a label selector at its commas, except for those in brackets.
fn split_terms(text: &str) -> Vec<&str> {
    let mut is_inside = false;
    let parts = text.split(move |c| {
        is_inside = (is_inside || c == '(') && c != ')';
        c == ',' && !is_inside
    });
    parts.map(str::trim).collect()
}

/// Reads one term of a label selector: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a` or `!a`.
fn requirement(term: &str) -> Result<LabelSelectorRequirement, String> {
    let (key, operator, values) = if let Some((key, value)) = term.split_once("!=") {
        (key, Operator::NotIn, Some(vec![value]))
    } else if let Some((key, value)) = term.split_once('=') {
        (key, Operator::In, Some(vec![value.trim_start_matches('=')]))
    } else if let Some((key, list)) = term.split_once(char::is_whitespace) {
        let (word, list) = list.trim().split_once('(').ok_or_else(|| malformed(term))?;
        let list = list.trim_end().strip_suffix(')').ok_or_else(|| malformed(term))?;
        let operator = match word.trim() {
            "in" => Operator::In,
            "notin" => Operator::NotIn,
            _ => return Err(malformed(term)),
        };
        (key, operator, Some(list.split(',').collect()))
    } else if let Some(key) = term.strip_prefix('!') {
        (key, Operator::DoesNotExist, None)
    } else {
        (term, Operator::Exists, None)
    };
    let values = values.map(|values| values.into_iter().map(|value| value.trim().to_owned()).collect());
    Ok(LabelSelectorRequirement { key: key.trim().to_owned(), operator, values })
}

fn malformed(term: &str) -> String {
    format!("`{term}` is no term of a label selector: write KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY or !KEY")
}

impl FromStr for FieldTerms {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let terms = text.split(',').map(FieldTerm::from_text).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), terms })
    }
}

impl FieldTerm {
    fn from_text(term: &str) -> Result<Self, String> {
        let (path, value, is_equal) = match (term.split_once("!="), term.split_once('=')) {
            (Some((path, value)), _) => (path, value, false),
            (None, Some((path, value))) => (path, value.trim_start_matches('='), true),
            (None, None) => ("", "", true),
        };
        let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        match path.trim().split('.').all(is_name) && !term.contains('\\') {
            true => Ok(Self {
                pointer: format!("/{}", path.trim().replace('.', "/")),
                is_equal,
                value: value.trim().to_owned(),
            }),
            false => Err(format!("`{term}` is no term of a field selector: write PATH=VALUE or PATH!=VALUE")),
        }
    }

    /// Returns true if the field has the value, or, for `!=`, if it has not. A missing field is empty.
    fn holds(&self, object: &Value) -> bool {
        let own = match object.pointer(&self.pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        (own == self.value) == self.is_equal
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(labels: Option<&str>, fields: Option<&str>, object: &Value) -> Result<bool, String> {
        let selection = Selection {
            labels: labels.map(str::parse).transpose()?,
            field_selector: fields.map(str::parse).transpose()?,
        };
        Ok(selection.matches(object))
    }

    #[test]
    fn labels_are_selected_as_kubectl_selects_them() {
        let object = json!({"metadata": {"labels": {"app": "web", "example.com/tier": "front", "empty": ""}}});
        for (selector, selected) in [
            ("app=web", Some(true)),
            ("app==web", Some(true)),
            ("app=db", Some(false)),
            ("app!=db", Some(true)),
            ("other!=db", Some(true)),
            ("app in (db, web),example.com/tier", Some(true)),
            ("app notin (db,web)", Some(false)),
            ("app,!other", Some(true)),
            ("!app", Some(false)),
            ("empty=", Some(true)),
            ("app = web , app", Some(true)),
            ("app in web", None),
            ("app like (web)", None),
            ("app in (web", None),
            ("", None),
            ("app=web,", None),
            ("a/b/c=d", None),
        ] {
            assert_eq!(selects(Some(selector), None, &object).ok(), selected, "{selector}");
        }
    }

    #[test]
    fn fields_are_compared_as_text() {
        let object = json!({"metadata": {"name": "a"}, "spec": {"replicas": 3, "paused": true}});
        for (selector, selected) in [
            ("metadata.name=a", Some(true)),
            ("metadata.name==a,spec.replicas=3,spec.paused=true", Some(true)),
            ("metadata.name!=a", Some(false)),
            ("spec.nodeName=", Some(true)),
            ("spec.nodeName!=x", Some(true)),
            ("metadata.name", None),
            ("metadata..name=a", None),
            ("metadata.name=a\\,b", None),
            ("", None),
        ] {
            assert_eq!(selects(None, Some(selector), &object).ok(), selected, "{selector}");
        }
    }

    #[test]
    fn a_query_is_what_an_api_server_takes() {
        let selection = Selection {
            labels: Some("app in (a,b)".parse().unwrap()),
            field_selector: Some("metadata.name!=x".parse().unwrap()),
        };
        assert_eq!(selection.query(), "labelSelector=app%20in%20%28a%2Cb%29&fieldSelector=metadata.name%21%3Dx");
        assert_eq!(selection.to_string(), "`app in (a,b)` and `metadata.name!=x`");
        assert!(Selection::default().is_empty() && Selection::default().query().is_empty());
    }
}
