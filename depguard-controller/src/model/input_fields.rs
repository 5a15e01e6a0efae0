//! Fields of a dependent that decide which of its references count, and the CEL expression that compares them.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::FieldPath;
use serde_json::Value;

/// Fields that rules read in a dependent, as a tree of names. Everything inside of a leaf counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InputFields {
    /// The whole value.
    All,
    /// Fields of a map.
    Named(BTreeMap<String, InputFields>),
}

impl InputFields {
    /// Returns no fields.
    pub(crate) fn none() -> Self {
        Self::Named(BTreeMap::new())
    }

    /// Returns the field to which a path leads, as far as it goes by names: up to the first wildcard or index.
    pub(crate) fn from_path(path: &FieldPath) -> Self {
        let names: Vec<_> = path.leading_names().collect();
        names.iter().rev().fold(Self::All, |inner, name| Self::Named(BTreeMap::from([((*name).to_owned(), inner)])))
    }

    /// Returns the fields of both.
    pub(crate) fn and(self, other: Self) -> Self {
        let (Self::Named(mut fields), Self::Named(others)) = (self, other) else { return Self::All };
        for (name, other) in others {
            let own = fields.remove(&name).unwrap_or_else(Self::none);
            fields.insert(name, own.and(other));
        }
        Self::Named(fields)
    }

    /// Returns a CEL expression that is true if `object` and `oldObject` differ in any of the fields. It never fails: a
    /// field of something that is no map is absent, except that CEL can't look for a field of a list. So a list in the
    /// place of a map counts as a difference.
    pub(crate) fn difference(&self) -> String {
        let mut terms = Vec::new();
        self.add_terms("", &mut terms);
        if terms.is_empty() { "false".to_owned() } else { terms.join(" || ") }
    }

    /// Returns the places in CEL, such as `[?"spec"][?"vpc"]`, of the fields that are within this place, and the place
    /// itself if it is within a field.
    pub(crate) fn within(&self, place: &str) -> BTreeSet<String> {
        let mut leaves = Vec::new();
        self.add_leaves("", &mut leaves);
        let within = leaves.into_iter().filter_map(|leaf| match place.starts_with(&leaf) {
            true => Some(place.to_owned()),
            false => Some(leaf).filter(|leaf| leaf.starts_with(place)),
        });
        within.collect()
    }

    fn add_leaves(&self, place: &str, leaves: &mut Vec<String>) {
        match self {
            Self::All => leaves.push(place.to_owned()),
            Self::Named(fields) => {
                fields.iter().for_each(|(name, field)| field.add_leaves(&format!("{place}{}", step(name)), leaves));
            }
        }
    }

    fn add_terms(&self, place: &str, terms: &mut Vec<String>) {
        let fields = match self {
            Self::All => return terms.push(format!("object{place} != oldObject{place}")),
            Self::Named(fields) => fields,
        };
        if !place.is_empty() {
            let is_list = |object: &str| format!("type({object}{place}.orValue(null)) == list");
            terms.extend(["object", "oldObject"].map(is_list));
        }
        for (name, field) in fields {
            field.add_terms(&format!("{place}{}", step(name)), terms);
        }
    }
}

/// Returns the step to a field of this name. A string of JSON is one of CEL, too.
fn step(name: &str) -> String {
    format!("[?{}]", Value::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(paths: &[&str]) -> InputFields {
        let paths = paths.iter().map(|path| InputFields::from_path(&FieldPath::parse(path).unwrap()));
        paths.fold(InputFields::none(), InputFields::and)
    }

    #[test]
    fn a_path_counts_up_to_its_first_wildcard_index_or_json() {
        for (path, same) in [
            (".spec.networks[*].vpcRef.name", ".spec.networks"),
            (".spec.networks.*", ".spec.networks"),
            (".spec.networks[0]", ".spec.networks"),
            (".metadata.annotations['example.com/vpc']", ".metadata.annotations['example.com/vpc']"),
            (".metadata.annotations['example.com/vpc'].fromJSON().name", ".metadata.annotations['example.com/vpc']"),
        ] {
            assert_eq!(fields(&[path]), fields(&[same]), "{path}");
        }
        assert_eq!(fields(&["[*].name"]), InputFields::All);
        assert_eq!(fields(&["[0]"]), InputFields::All);
    }

    #[test]
    fn a_field_takes_in_the_fields_within_whatever_the_order() {
        let within = [".spec.a.b", ".spec.a.c[*]", ".spec.d"];
        assert_eq!(fields(&[within.as_slice(), &[".spec.a"]].concat()), fields(&[".spec.a", ".spec.d"]));
        assert_eq!(fields(&[&[".spec.a"], within.as_slice()].concat()), fields(&[".spec.d", ".spec.a"]));
        assert_eq!(fields(&[".spec.a", "[*]"]), InputFields::All);
    }

    #[test]
    fn the_difference_looks_at_each_field_and_at_lists_on_the_way() {
        let difference = fields(&[".spec.vpcRef.name", ".kind"]).difference();
        let expected = [
            r#"object[?"kind"] != oldObject[?"kind"]"#,
            r#"type(object[?"spec"].orValue(null)) == list"#,
            r#"type(oldObject[?"spec"].orValue(null)) == list"#,
            r#"type(object[?"spec"][?"vpcRef"].orValue(null)) == list"#,
            r#"type(oldObject[?"spec"][?"vpcRef"].orValue(null)) == list"#,
            r#"object[?"spec"][?"vpcRef"][?"name"] != oldObject[?"spec"][?"vpcRef"][?"name"]"#,
        ];
        assert_eq!(difference, expected.join(" || "));
        assert_eq!(InputFields::none().difference(), "false");
        assert_eq!(InputFields::All.difference(), "object != oldObject");
    }

    #[test]
    fn the_fields_within_a_place_are_those_of_its_subtree_or_the_place() {
        let annotations = r#"[?"metadata"][?"annotations"]"#;
        let within = |paths: &[&str]| fields(paths).within(annotations).into_iter().collect::<Vec<_>>();
        let paths = [".metadata.annotations['a.b/c']", ".metadata.annotations.d", ".metadata.labels.e", ".spec.f"];
        assert_eq!(within(&paths), [format!(r#"{annotations}[?"a.b/c"]"#), format!(r#"{annotations}[?"d"]"#)]);
        for around in [".metadata.annotations.*", ".metadata.*", "*.name"] {
            assert_eq!(within(&[around]), [annotations], "{around}");
        }
        assert_eq!(within(&[".spec.f", ".metadata.labels.e"]), [""; 0]);
    }

    #[test]
    fn a_name_stands_in_quotes_that_it_cannot_end() {
        let difference = fields(&[r#".metadata.labels['a.b/it\'s "so" \\']"#]).difference();
        assert!(difference.ends_with(r#"oldObject[?"metadata"][?"labels"][?"a.b/it's \"so\" \\"]"#), "{difference}");
    }
}
