//! Rewriting of a field's value: translated from an agent's regular expression to a rule's pattern and replacement.
//!
//! The agent replaces every match within the value. It keeps the text around a match, and a value without a match. A
//! rule takes the first match and makes the name from that match alone; without a match there is no reference.

use depguard_core::model::Pattern;

use super::written::Regex;

/// Rewriting that a rule can express.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rewriting {
    /// The value itself.
    None,
    /// This text, whatever the value is.
    Fixed(String),
    /// Result of this pattern and replacement.
    Replaced {
        pattern: String,
        replacement: String,
        /// True if, without a match, the agent means the value itself, which pattern and replacement don't express.
        also_itself: bool,
        /// The agent's expression, if it matches a whole value and the result is its first group alone.
        first_group: Option<String>,
    },
}

/// Translates the agent's expression for a rule.
pub(super) fn rewriting(regex: Option<&Regex>) -> Result<Rewriting, String> {
    let Some(Regex { pattern, replacement }) = regex else { return Ok(Rewriting::None) };
    if pattern.is_empty() {
        return Ok(Rewriting::Fixed(replacement.clone()));
    }
    let failed = |why: &str| format!("the pattern `{pattern}` with the replacement `{replacement}` {why}");
    let read = read(replacement).map_err(failed)?;
    // This check comes first, as the replacement could name a group that is added below by mistake.
    can_be_used(pattern, replacement).map_err(|why| failed(&why))?;
    let body = pattern.strip_prefix('^').unwrap_or(pattern);
    let all = matches!(body.strip_suffix('$').unwrap_or(body), ".*" | "(.*)" | ".+" | "(.+)");
    let takes_first = matches!(replacement.as_str(), "$1" | "${1}");
    let takes_match = matches!(replacement.as_str(), "$0" | "${0}");
    // Every match is replaced by itself.
    if takes_match || all && takes_first && body.contains('(') {
        return Ok(Rewriting::None);
    }
    let mut first_group = None;
    let (pattern, replacement, also_itself) = if all {
        let body = body.strip_suffix('$').unwrap_or(body);
        (format!("^{body}$"), replacement.clone(), false)
    } else {
        let ends = shape(pattern).map_err(failed)?;
        first_group = Some(pattern.clone()).filter(|_| ends && takes_first);
        // `$0` would include the part that is added below: the agent's pattern gets a group of its own.
        let (pattern, replacement) = match read.has_match {
            true => (&format!("({pattern})"), &read.shifted),
            false => (pattern, replacement),
        };
        // The agent keeps the text behind the match.
        let (pattern, replacement) = match ends {
            true => (pattern.clone(), replacement.clone()),
            false => (format!("{pattern}(?s:(?P<tail>.*))$"), format!("{replacement}${{tail}}")),
        };
        match read.only_groups {
            // If the agent's pattern doesn't match, all groups but the last are empty.
            true => (format!("{pattern}|^(?s:(?P<whole>.*))$"), format!("{replacement}${{whole}}"), false),
            false => (pattern, replacement, true),
        }
    };
    can_be_used(&pattern, &replacement).map_err(|why| failed(&why))?;
    Ok(Rewriting::Replaced { pattern, replacement, also_itself, first_group })
}

fn can_be_used(pattern: &str, replacement: &str) -> Result<(), String> {
    Pattern::parse(pattern, Some(replacement)).map(drop).map_err(|why| format!("can't be expressed in a rule: {why}"))
}

/// Replacement of an agent, parsed.
#[derive(Default)]
struct Replacement {
    /// True if it consists of groups alone, without text of its own.
    only_groups: bool,
    /// True if one of these groups is the whole match.
    has_match: bool,
    /// The same replacement for a pattern in a group of its own: the number of each group is one higher.
    shifted: String,
}

fn read(replacement: &str) -> Result<Replacement, &'static str> {
    let mut read = Replacement { only_groups: true, ..Replacement::default() };
    let mut rest = replacement;
    while let Some(letter) = rest.chars().next() {
        let after = rest.strip_prefix(letter).unwrap_or_default();
        rest = match (letter, after.chars().next()) {
            ('\\', Some('0'..='9')) => {
                return Err(
                    "makes no name: the agent replaces `$1` with a group, and keeps `\\1` as it is; write `$1`",
                );
            }
            ('$', Some('$')) => {
                read.only_groups = false;
                read.shifted.push_str("$$");
                after.strip_prefix('$').unwrap_or_default()
            }
            ('$', _) => {
                let braced = after.strip_prefix('{').and_then(|braced| braced.split_once('}'));
                let (name, left) = braced.unwrap_or_else(|| {
                    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
                    after.split_at_checked(end).unwrap_or((after, ""))
                });
                let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                // To Go, `$01` is no number, and `$1ä` is not a group and a letter.
                if name.is_empty() || !is_name || name.len() > 1 && name.starts_with('0') {
                    return Err("has a `$` that names no group: write `$$` for a dollar sign");
                }
                match name.parse::<usize>() {
                    Ok(number) => {
                        read.has_match |= number == 0;
                        read.shifted.push_str(&format!("${{{}}}", number.saturating_add(1)));
                    }
                    Err(_) => read.shifted.push_str(&format!("${{{name}}}")),
                }
                left
            }
            _ => {
                read.only_groups = false;
                read.shifted.push(letter);
                after
            }
        };
    }
    Ok(read)
}

/// Returns true if the pattern goes on to the end of the value. It must begin at the value's begin, so that it matches
/// once at most.
fn shape(pattern: &str) -> Result<bool, &'static str> {
    const ANCHOR: &str = "may match several times, or anywhere in the value, and the agent keeps the text around: \
                          begin it with `^`, without `|` outside of brackets";
    const DIALECT: &str = "has parts that mean something else in Go than in a rule: write it without flags, \
                           and without brackets and doubled signs within `[]`";
    if !pattern.starts_with('^') {
        return Err(ANCHOR);
    }
    let (mut depth, mut class, mut ends) = (0_usize, None, false);
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        let after = rest.strip_prefix(letter).unwrap_or_default();
        rest = after;
        ends = false;
        match (letter, class) {
            ('\\', _) => {
                let escaped = after.chars().next().map_or(0, char::len_utf8);
                rest = after.split_at_checked(escaped).map_or("", |(_, rest)| rest);
                class = class.map(|_| false);
            }
            // A bracket that comes first in a class is a letter of the class.
            (']', Some(false)) => class = None,
            ('[', Some(_)) => return Err(DIALECT),
            ('&' | '-' | '~', Some(_)) if after.starts_with(letter) => return Err(DIALECT),
            ('^', Some(true)) => {}
            (_, Some(_)) => class = Some(false),
            ('[', None) => class = Some(true),
            ('(', None) => {
                let is_group =
                    !after.starts_with('?') || ["?:", "?P<", "?<"].iter().any(|open| after.starts_with(open));
                if !is_group {
                    return Err(DIALECT);
                }
                depth = depth.saturating_add(1);
            }
            (')', None) => depth = depth.saturating_sub(1),
            ('|', None) if depth == 0 => return Err(ANCHOR),
            ('$', None) => ends = depth == 0,
            _ => {}
        }
    }
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn regex(pattern: &str, replacement: &str) -> Regex {
        Regex { pattern: pattern.to_owned(), replacement: replacement.to_owned() }
    }

    /// Returns the names that a rule takes from a value.
    fn names(rewriting: &Rewriting, value: &str) -> Vec<String> {
        match rewriting {
            Rewriting::None => vec![value.to_owned()],
            Rewriting::Fixed(name) => vec![name.clone()],
            Rewriting::Replaced { pattern, replacement, also_itself, .. } => {
                let cut = Pattern::parse(pattern, Some(replacement)).unwrap().cut(value);
                cut.into_iter().chain(also_itself.then(|| value.to_owned())).collect()
            }
        }
    }

    /// Expected names: output of `regexp.ReplaceAllString` in Go 1.26.
    #[test]
    fn a_name_is_what_go_makes_of_it() {
        for (pattern, replacement, value, expected) in [
            ("", "kube-ca", "abc", "kube-ca"),
            ("^foo-(.+)$", "$1", "foo-a", "a"),
            ("^foo-(.+)$", "$1", "zzz", "zzz"),
            ("^foo-(.+)$", "$1", "foo-", "foo-"),
            ("^foo-(.+)$", "bar-$1", "foo-a", "bar-a"),
            ("^foo-(.+)$", "bar-$1", "zzz", "zzz"),
            ("(.*)", "p-$1", "abc", "p-abc"),
            (".+", "p-$0", "abc", "p-abc"),
            ("^(.*)$", "${1}-tls", "abc", "abc-tls"),
            ("^foo-", "", "foo-a", "a"),
            ("^foo-", "", "a-foo-a", "a-foo-a"),
            ("^foo-", "bar-", "foo-foo-a", "bar-foo-a"),
            ("^foo-", "bar-", "a", "a"),
            ("^([^/]+)/([^/]+)$", "$2", "ns/a", "a"),
            ("^([^/]+)/([^/]+)$", "${2}$1", "ns/a", "ans"),
            ("^(?P<ns>[a-z]+)/", "", "ns/a", "a"),
            ("^(a|b)$", "$1$1", "b", "bb"),
            (r"^a\$", "$$", "a$c", "$c"),
            ("^foo-", "bar-$0", "foo-a", "bar-foo-a"),
            ("^foo-(.+)$", "$0", "zzz", "zzz"),
            ("^foo-", "$0", "foo-a", "foo-a"),
            ("^foo-(.)", "${1}-$0$$", "foo-ab", "a-foo-a$b"),
            ("^(?P<first>.)-(.)$", "$first$0$2", "a-b", "aa-bb"),
            ("^(?P<first>.)-(.)$", "$first$0$2", "zzz", "zzz"),
        ] {
            let names = names(&rewriting(Some(&regex(pattern, replacement))).unwrap(), value);
            assert!(names.iter().any(|name| name == expected), "{pattern} {replacement} {value}: {names:?}");
            // Every other name is the value itself.
            assert!(names.iter().all(|name| name == expected || name == value), "{names:?}");
        }
        for (pattern, replacement) in [("(.*)", "$1"), ("^(.+)$", "${1}"), ("^.*$", "$0"), ("o", "${0}")] {
            assert_eq!(rewriting(Some(&regex(pattern, replacement))), Ok(Rewriting::None));
        }
        assert_eq!(rewriting(None), Ok(Rewriting::None));
    }

    #[test]
    fn what_a_rule_can_not_say_is_refused() {
        for (pattern, replacement, part) in [
            ("foo-(.+)", "bar-$1", "begin it with `^`"),
            ("(.+)-x$", "$1", "begin it with `^`"),
            ("^a|b", "x", "begin it with `^`"),
            ("^foo-(.+)$", r"bar-\1", "write `$1`"),
            ("^a$", "$", "`$$` for a dollar sign"),
            ("^(a)$", "$2", "the group `2`"),
            ("^(a)$", "${1", "`$$` for a dollar sign"),
            ("^(a)$", "$01", "`$$` for a dollar sign"),
            ("^(a)$", "$1ä", "`$$` for a dollar sign"),
            ("^(?i)a$", "x", "without flags"),
            ("^[[a]b]$", "x", "without brackets"),
            ("^[a&&b]$", "x", "doubled signs"),
            ("^a{,3}$", "x", "can't be expressed in a rule"),
            ("^(", "x", "unclosed group"),
            (r"^\Qa\E$", "x", "can't be expressed in a rule"),
        ] {
            let why = rewriting(Some(&regex(pattern, replacement))).unwrap_err();
            assert!(why.contains(part), "{pattern}: {why}");
        }
    }

    proptest! {
        #[test]
        fn no_pattern_makes_it_panic(pattern in r"\PC{0,12}|[\^$()\[\]{},|&~\\a-c?:P<>*+.-]{0,14}", replacement in r"[${}\\0-9a_]{0,8}") {
            if let Ok(Rewriting::Replaced { pattern, replacement, .. }) = rewriting(Some(&regex(&pattern, &replacement))) {
                prop_assert!(Pattern::parse(&pattern, Some(&replacement)).is_ok());
            }
        }
    }
}
