//! Values that a field may have.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A value that a field may have: a string, a boolean or an integer. `"true"` is another value than `true`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a string, a boolean or an integer")]
#[expect(clippy::exhaustive_enums, reason = "JSON has no further values that are compared exactly")]
pub enum Scalar {
    /// A boolean.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A string.
    Text(String),
}

impl Scalar {
    /// Returns true if a value, by its JSON text, is one of the listed ones. `null`, maps, lists and fractions never are.
    pub(crate) fn is_any_of(json: &str, listed: &[Self]) -> Result<bool, serde_json::Error> {
        let value = match json.bytes().next() {
            Some(b'"') => {
                let plain = json.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                let text = match plain.filter(|text| !text.contains('\\')) {
                    Some(text) => Cow::Borrowed(text),
                    None => Cow::Owned(serde_json::from_str(json)?),
                };
                return Ok(listed.iter().any(|one| matches!(one, Self::Text(one) if *one == text)));
            }
            Some(b't') => Some(Self::Boolean(true)),
            Some(b'f') => Some(Self::Boolean(false)),
            Some(b'-' | b'0'..=b'9') => Self::from_number(&serde_json::from_str(json)?),
            _ => None,
        };
        Ok(value.is_some_and(|value| listed.contains(&value)))
    }

    /// Reads an integer, however JSON writes it: `1.0` is 1.
    fn from_number(number: &serde_json::Number) -> Option<Self> {
        /// Every integer up to this one is told exactly by a floating-point number.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        #[expect(clippy::cast_possible_truncation, reason = "the number is an integer within these bounds")]
        let from_fraction = |value: f64| (value.fract() == 0.0 && value.abs() <= EXACT).then_some(value as i64);
        number.as_i64().or_else(|| number.as_f64().and_then(from_fraction)).map(Self::Integer)
    }
}

/// Prints the value as YAML and JSON write it; a string only where the string might be taken for another value.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Text(text) => match text.as_str() {
                "" | "true" | "false" | "null" => write!(f, "{text:?}"),
                text if text.parse::<f64>().is_ok() => write!(f, "{text:?}"),
                text => f.write_str(text),
            },
        }
    }
}

#[cfg(feature = "schemars")]
impl schemars::JsonSchema for Scalar {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    // The schema of a definition can't name several types. The parser refuses all others.
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_compared_as_json_means_it() {
        let text = |text: &str| Scalar::Text(text.to_owned());
        let all = [Scalar::Boolean(true), Scalar::Boolean(false), text("true"), text("ab\""), text("7")];
        let all = [&all[..], &[7, 0, 100, i64::MAX].map(Scalar::Integer)].concat();
        for (json, only) in [
            ("true", Some(0)),
            ("false", Some(1)),
            ("\"true\"", Some(2)),
            (r#""a\u0062\"""#, Some(3)),
            ("\"7\"", Some(4)),
            ("7", Some(5)),
            ("7.0", Some(5)),
            ("-0", Some(6)),
            ("1e2", Some(7)),
            ("9223372036854775807", Some(8)),
            ("9223372036854775808", None),
            ("7.5", None),
            ("null", None),
            ("{}", None),
            ("[true]", None),
            ("\"\"", None),
        ] {
            let found: Vec<_> =
                (0..all.len()).filter(|index| Scalar::is_any_of(json, &all[*index..=*index]).unwrap()).collect();
            assert_eq!(found, Vec::from_iter(only), "{json}");
            assert_eq!(Scalar::is_any_of(json, &all).unwrap(), only.is_some(), "{json}");
        }
        assert!(Scalar::is_any_of(r#""\q""#, &all).is_err());
    }

    #[test]
    fn only_a_string_a_boolean_or_an_integer_is_one() {
        for value in [json!("a"), json!(true), json!(-3)] {
            assert_eq!(serde_json::to_value(Scalar::deserialize(&value).unwrap()).unwrap(), value);
        }
        for other in [json!(null), json!(1.5), json!([]), json!({}), json!(u64::MAX)] {
            let error = Scalar::deserialize(&other).unwrap_err().to_string();
            assert_eq!(error, "expected a string, a boolean or an integer", "{other}");
        }
    }

    #[test]
    fn a_string_that_might_be_taken_for_another_value_is_printed_in_quotes() {
        let shown = |value: serde_json::Value| Scalar::deserialize(value).unwrap().to_string();
        assert_eq!(
            ["Running", "true", "7", "", "null"].map(|text| shown(json!(text))),
            ["Running", "\"true\"", "\"7\"", "\"\"", "\"null\""]
        );
        assert_eq!([json!(true), json!(7)].map(shown), ["true", "7"]);
    }
}
