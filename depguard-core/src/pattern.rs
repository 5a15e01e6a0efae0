//! A part of a string, cut out by a regular expression.
//!
//! Rules are strangers' input, so an expression is bounded in three ways: in what it may need, in how many groups it
//! may have, and in what all of a rule's together may need. None of that depends on how many rules there are: a pattern
//! itself holds text only, and what is compiled lies in one table of a fixed size, shared by all of equal text.

use std::sync::{Arc, Mutex, PoisonError};

use regex_automata::meta::Cache;
use regex_automata::util::captures::Captures;

use self::expression::{Expression, ExpressionError};

mod compiled;
mod expression;

/// An RE2 expression, and the text that is made of its first match.
///
/// As in RE2 `\w`, `\d`, `\s` and `\b` mean ASCII, while `.`, `[^/]` and `\pL` mean characters of any script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: Arc<str>,
    /// Bytes that it takes when it is compiled.
    size: usize,
    /// As it was written; `None`: the first group, or the whole match.
    replacement: Option<String>,
    parts: Arc<[Part]>,
}

/// A pattern that is compiled, for as long as a list is read: cuts one value after another.
#[derive(Debug)]
pub(crate) struct Cutter {
    expression: Arc<Expression>,
    parts: Arc<[Part]>,
    /// Room to work in, made at the first value.
    room: Mutex<Option<(Cache, Captures)>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The index of a group.
    Group(usize),
}

/// Why a pattern or its replacement was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// Longer than [`Pattern::MAX_LEN`].
    #[error("is {0} bytes long, more than the {max} that are allowed", max = Pattern::MAX_LEN)]
    TooLong(usize),
    /// Not a regular expression, or one that needs too much memory.
    #[error("`{pattern}` is not a regular expression that can be used: {why}")]
    Regex {
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// A replacement that names a group which the pattern has not.
    #[error(
        "`{replacement}` names the group `{group}`, which the pattern does not have: write `${{1}}` for the first, `$$` for a dollar sign"
    )]
    NoGroup {
        /// What was given.
        replacement: String,
        /// The group.
        group: String,
    },
}

impl Pattern {
    /// The longest expression or replacement, in bytes.
    pub const MAX_LEN: usize = 512;
    /// The most memory that an expression may take when it is compiled, in bytes.
    pub const MAX_SIZE: usize = 64 << 10;
    /// The most groups that an expression may have: with them grows what a search needs.
    pub const MAX_GROUPS: usize = 8;

    /// Checks `pattern`, and learns its size by compiling it. What it makes of a match is `replacement`, in which `$1` and
    /// `${name}` stand for groups; without one it is the first group, or the whole match where there is no group.
    pub fn parse(pattern: &str, replacement: Option<&str>) -> Result<Self, PatternError> {
        for text in [Some(pattern), replacement].into_iter().flatten() {
            if text.len() > Self::MAX_LEN {
                return Err(PatternError::TooLong(text.len()));
            }
        }
        let expression = compiled::get(pattern)
            .map_err(|ExpressionError(why)| PatternError::Regex { pattern: pattern.to_owned(), why })?;
        let parts = match replacement {
            Some(replacement) => parts(&expression, replacement)?,
            None => vec![Part::Group(usize::from(expression.groups() > 0))],
        };
        Ok(Self {
            text: Arc::from(pattern),
            size: expression.size(),
            replacement: replacement.map(str::to_owned),
            parts: Arc::from(parts),
        })
    }

    /// The expression, as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Bytes that it takes when it is compiled.
    pub fn size(&self) -> usize {
        self.size
    }

    /// What the first match in `text` makes; `None` where nothing matches.
    pub fn cut(&self, text: &str) -> Option<String> {
        self.cutter().cut(text)
    }

    /// The same for many texts.
    #[expect(clippy::expect_used, reason = "it was compiled when it was checked, by the same words and bounds")]
    pub(crate) fn cutter(&self) -> Cutter {
        let expression = compiled::get(&self.text).expect("a checked pattern");
        Cutter { expression, parts: Arc::clone(&self.parts), room: Mutex::new(None) }
    }
}

impl Cutter {
    /// What the first match in `text` makes; `None` where nothing matches.
    pub(crate) fn cut(&self, text: &str) -> Option<String> {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let (cache, captures) = room.get_or_insert_with(|| self.expression.room());
        if !self.expression.search(text, cache, captures) {
            return None;
        }
        let mut made = String::new();
        for part in self.parts.iter() {
            made.push_str(match part {
                Part::Text(text) => text,
                Part::Group(group) => captures.get_group(*group).and_then(|span| text.get(span.range())).unwrap_or(""),
            });
        }
        Some(made)
    }
}

/// `$1`, `$name` (as long as letters, digits and `_` go), `${name}`, and `$$` for a dollar sign.
fn parts(expression: &Expression, replacement: &str) -> Result<Vec<Part>, PatternError> {
    let (mut parts, mut rest) = (Vec::new(), replacement);
    while let Some((text, after)) = rest.split_once('$') {
        parts.push(Part::Text(text.to_owned()));
        if let Some(after) = after.strip_prefix('$') {
            parts.push(Part::Text("$".to_owned()));
            rest = after;
            continue;
        }
        let (name, left) = match after.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some(braced) => braced,
            None => {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
                after.split_at_checked(end).unwrap_or((after, ""))
            }
        };
        let index = match name.parse::<usize>() {
            Ok(index) => Some(index).filter(|index| *index <= expression.groups()),
            Err(_) => expression.group(name),
        };
        let no_group = || PatternError::NoGroup { replacement: replacement.to_owned(), group: name.to_owned() };
        parts.push(Part::Group(index.ok_or_else(no_group)?));
        rest = left;
    }
    parts.push(Part::Text(rest.to_owned()));
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_makes_the_replacement() {
        for (pattern, replacement, text, cut) in [
            ("^vpc/(.*)$", Some("$1"), "vpc/a", Some("a")),
            ("^vpc/(.*)$", Some("$1"), "net/a", None),
            ("^vpc/(.*)$", None, "vpc/a", Some("a")),
            ("a+", None, "baab", Some("aa")),
            ("(a)(b)?", None, "a", Some("a")),
            ("(a)(b)?", Some("$2"), "a", Some("")),
            ("^([^/]+)/([^/]+)$", Some("$2.$1"), "ns/a", Some("a.ns")),
            ("^(?P<ns>[^/]+)/(?P<name>.+)$", Some("${name}_$ns"), "ns/a", Some("a_ns")),
            ("a", Some("$$1"), "a", Some("$1")),
            ("a", Some("b"), "a", Some("b")),
            ("a", Some("${0}x"), "a", Some("ax")),
            (r"^\w+$", None, "a_1", Some("a_1")),
            (r"^\w+$", None, "é_1", None),
            (r"\W+", None, "aé1", Some("é")),
            (r"^[\w.-]+$", None, "é.a", None),
            (r"[^\w.-]+", None, "a.é", Some("é")),
            (r"\d", None, "٣3", Some("3")),
            (r"\D", None, "3٣", Some("٣")),
            (r"a\s(.)", None, "a\u{a0}b a b", Some("b")),
            (r"\S+", None, " \u{a0} ", Some("\u{a0}")),
            (r"\b.\b", None, "éa", Some("a")),
            (r"a\B.", None, "aé ab", Some("ab")),
            (r"(?i)^\w+$", None, "aK", Some("aK")),
            (r"(?i)^\w+$", None, "a\u{212a}", None),
            (r"(?i)^VPC/(.)", None, "vpc/é", Some("é")),
            (r"^[^/]+/(\p{L})", None, "é/é", Some("é")),
            (r"^a.b$", None, "aéb", Some("aéb")),
        ] {
            let pattern = Pattern::parse(pattern, replacement).unwrap();
            assert_eq!(pattern.cut(text).as_deref(), cut, "{pattern:?} {text}");
        }
    }

    #[test]
    fn what_can_not_be_used_is_refused() {
        let long = "a".repeat(513);
        for (pattern, replacement, part) in [
            ("(", None, "unclosed group"),
            ("(?=a)", None, "look-around"),
            (r"(a)\1", None, "backreferences"),
            (r"(\w{200}){200}", None, "64 KiB"),
            (r"\pL{40}", None, "64 KiB"),
            ("(a)(a)(a)(a)(a)(a)(a)(a)(a)", None, "has 9 groups"),
            (r"[a\b]", None, "escape sequence"),
            ("(a)", Some("$2"), "the group `2`"),
            ("(a)", Some("$1x"), "the group `1x`"),
            ("(a)", Some("$"), "the group ``"),
            ("(a)", Some("${1"), "the group ``"),
            ("(a)", Some("$name"), "the group `name`"),
            (&long, None, "513 bytes"),
            ("a", Some(&long), "513 bytes"),
        ] {
            let error = Pattern::parse(pattern, replacement).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }

    /// What honest rules write, by far below the bound.
    #[test]
    fn what_is_usual_takes_little() {
        for (pattern, most) in [
            (r"^(\w+)/(\w+)$", 4 << 10),
            ("^vpc/(.*)$", 4 << 10),
            ("^([^/]+)/([^/]+)$", 4 << 10),
            (r"\w{20}", 8 << 10),
            ("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", 16 << 10),
            ("^(.{1,63})$", Pattern::MAX_SIZE),
        ] {
            let size = Pattern::parse(pattern, None).unwrap().size();
            assert!(size < most, "{pattern}: {size}");
        }
    }
}
