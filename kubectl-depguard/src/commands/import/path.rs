//! Paths: translated from gjson's syntax, which the agents use, to the syntax of rules.

use crate::engine::rule_draft::segment;

/// Path of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) path: String,
    /// Assumption that the translation made, if any.
    pub(super) assumed: Option<String>,
}

/// Translates a path of gjson into the path of a rule.
pub(super) fn path(written: &str) -> Result<Path, String> {
    let (plain, mut assumed) = match written.strip_prefix('.') {
        Some(rest) => {
            (rest, Some(format!("reads `{written}` without its first dot; with the dot the agent finds nothing")))
        }
        None => (written, None),
    };
    let components = components(plain).map_err(|why| format!("the path `{written}` {why}"))?;
    let mut path = String::new();
    let last = components.len().saturating_sub(1);
    for (at, component) in components.iter().enumerate() {
        match component {
            Component::Each if at == last => {
                return Err(format!(
                    "the path `{written}` counts the elements of a list: remove `.#` if they are strings, or end the \
                     path with a field of the elements"
                ));
            }
            Component::Each => path.push_str("[*]"),
            Component::Name(name) if is_number(name) => {
                assumed.get_or_insert_with(|| format!("takes `{name}` in `{written}` for the index of a list"));
                path.push_str(&format!("[{name}]"));
            }
            Component::Name(name) => path.push_str(&segment(name)),
        }
    }
    Ok(Path { path, assumed })
}

/// Returns the path in a template that only prints a field: `{{ .Object.spec.secretName }}`.
pub(super) fn of_template(template: &str) -> Option<String> {
    let field = template.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim().strip_prefix(".Object.")?;
    let plain = |name: &str| {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.chars().all(letter) && name.starts_with(|c: char| !c.is_ascii_digit())
    };
    field.split('.').all(plain).then(|| format!(".{field}"))
}

#[derive(Debug, PartialEq, Eq)]
enum Component {
    Name(String),
    /// `#`: all elements of a list.
    Each,
}

fn components(path: &str) -> Result<Vec<Component>, &'static str> {
    const SYNTAX: &str = "has gjson's wildcards, queries, pipes or modifiers, which a rule's path can't have: name the \
                          field, with `#` for each element of a list";
    let (mut components, mut name, mut hashes, mut escaped) = (Vec::new(), String::new(), false, false);
    let mut letters = path.chars();
    loop {
        let letter = letters.next();
        match letter {
            Some('\\') => {
                name.push(letters.next().ok_or("ends in a backslash")?);
                escaped = true;
            }
            Some('.') | None => {
                if name.is_empty() {
                    return Err("has an empty field name");
                }
                let each = hashes && !escaped && name == "#";
                if hashes && !each {
                    return Err(SYNTAX);
                }
                let name = std::mem::take(&mut name);
                components.push(if each { Component::Each } else { Component::Name(name) });
                (hashes, escaped) = (false, false);
                if letter.is_none() {
                    return Ok(components);
                }
            }
            Some('#') => {
                name.push('#');
                hashes = true;
            }
            Some(plain) if plain.is_alphanumeric() || matches!(plain, '_' | '-' | '/') => name.push(plain),
            Some(_) => return Err(SYNTAX),
        }
    }
}

fn is_number(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit()) && (name == "0" || !name.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_leads_where_the_agents_leads() {
        for (written, expected) in [
            ("spec.secretName", ".spec.secretName"),
            ("spec.users.#.secret.name", ".spec.users[*].secret.name"),
            ("spec.refs.0.name", ".spec.refs[0].name"),
            (r"metadata.annotations.example\.com/secret", ".metadata.annotations['example.com/secret']"),
            ("spec.secret-name", ".spec['secret-name']"),
            (r"spec.a\#b", ".spec['a#b']"),
            (".spec.secretName", ".spec.secretName"),
        ] {
            assert_eq!(path(written).unwrap().path, expected);
            depguard_core::FieldPath::parse(expected).unwrap();
        }
        assert!(path(".spec.a").unwrap().assumed.is_some() && path("spec.0").unwrap().assumed.is_some());
        assert_eq!(path("spec.a").unwrap().assumed, None);
    }

    #[test]
    fn what_a_rule_can_not_follow_is_no_path() {
        for written in [
            "",
            "spec..a",
            "spec.a.",
            "spec.names.#",
            "spec.users.#(name==\"a\").secret",
            "spec.users.#(name==\"a\")#.secret",
            "spec.*.name",
            "spec.a?c",
            "spec.a|b",
            "spec.a|@reverse",
            "@this",
            "!\"fixed\"",
            "[spec.a,spec.b]",
            "{spec.a}",
            "..0.spec",
            r"spec\",
            "spec.a#b",
        ] {
            assert!(path(written).is_err(), "{written}");
        }
    }

    #[test]
    fn a_template_may_be_a_path() {
        assert_eq!(of_template("{{ .Object.spec.secretName }}").as_deref(), Some(".spec.secretName"));
        assert_eq!(of_template(" {{.Object.a}} ").as_deref(), Some(".a"));
        for template in [
            "",
            "x",
            "{{ .Object }}",
            "{{ .Object. }}",
            "{{ .Object.a..b }}",
            "{{ .Object.spec.secretName }}-tls",
            "{{ .Object.spec.a | sha3short }}",
            "{{- .Object.spec.a }}",
            "{{ .Object.a }}{{ .Object.b }}",
            "{{ .LocalObject.spec.a }}",
            "{{ .Object.a-b }}",
        ] {
            assert_eq!(of_template(template), None, "{template}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_written_a_path_that_comes_of_it_is_one(written in r"[a-z0-9.#\\/_\-é' ]{0,16}") {
            if let Ok(Path { path, .. }) = path(&written) {
                prop_assert!(depguard_core::FieldPath::parse(&path).is_ok(), "{written} {path}");
            }
        }
    }
}
