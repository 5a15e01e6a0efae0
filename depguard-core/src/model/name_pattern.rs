//! Extraction of a part of a string by a regular expression.
//!
//! Rules come from untrusted users, so an expression is bounded in three ways: its own memory, the number of its
//! groups, and the memory of all expressions of one rule together. None of these bounds depends on the number of
//! rules. A pattern itself holds only text. Compiled expressions lie in one table of a fixed size, and patterns of
//! equal text share them.

use std::sync::{Arc, Mutex, PoisonError};

use regex_automata::meta::Cache;
use regex_automata::util::captures::Captures;

use self::expression::{Expression, ExpressionError};

mod compiled;
mod expression;

/// An RE2 expression, and the text that is composed from its first match.
///
/// As in RE2, `\w`, `\d`, `\s` and `\b` mean ASCII, while `.`, `[^/]` and `\pL` mean characters of any script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: Arc<str>,
    /// Size of the compiled expression, in bytes.
    size: usize,
    /// The replacement as it was written; `None`: the first group, or the whole match.
    replacement: Option<String>,
    parts: Arc<[Part]>,
}

/// A compiled pattern that extracts from one value after another, for as long as a list is read.
#[derive(Debug)]
pub(crate) struct Cutter {
    expression: Arc<Expression>,
    parts: Arc<[Part]>,
    /// Working memory, allocated at the first value. In a box: most edges of rules have no pattern, and keep room for some.
    room: Mutex<Option<Box<(Cache, Captures)>>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The index of a group.
    Group(usize),
}

/// The reason for refusing a pattern or its replacement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// An expression or a replacement that is too long.
    #[error("is {0} bytes long, and at most {max} are allowed", max = Pattern::MAX_LEN)]
    TooLong(usize),
    /// An invalid regular expression, or one that needs too much memory or has too many groups.
    #[error("`{pattern}` is not a usable regular expression: {why}")]
    Regex {
        /// The pattern as it was given.
        pattern: String,
        /// The error in it.
        why: String,
    },
    /// A replacement that names a group that the pattern doesn't have.
    #[error(
        "`{replacement}` names the group `{group}`, but the pattern has no such group: write `${{1}}` for the first, \
         `$$` for a dollar sign"
    )]
    NoGroup {
        /// The replacement as it was given.
        replacement: String,
        /// The missing group.
        group: String,
    },
}

impl Pattern {
    /// The longest expression or replacement, in bytes.
    pub(crate) const MAX_LEN: usize = 512;
    /// The most memory that an expression may take when it is compiled, in bytes.
    pub(crate) const MAX_SIZE: usize = 64 << 10;
    /// The most groups that an expression may have: the memory of a search grows with them.
    pub(crate) const MAX_GROUPS: usize = 8;

    /// Checks `pattern`, and learns its size by compiling it. `replacement` composes the result of a match; `$1` and
    /// `${name}` stand for groups. Without a replacement the result is the first group, or the whole match if there
    /// is no group.
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

    /// Returns the expression as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the size of the compiled expression, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the result of the first match in `text`; `None` if nothing matches.
    pub fn cut(&self, text: &str) -> Option<String> {
        self.cutter().cut(text)
    }

    /// Returns a [`Cutter`], which extracts from many texts.
    #[expect(clippy::expect_used, reason = "it was compiled when it was checked, by the same words and bounds")]
    pub(crate) fn cutter(&self) -> Cutter {
        let expression = compiled::get(&self.text).expect("a checked pattern");
        Cutter { expression, parts: Arc::clone(&self.parts), room: Mutex::new(None) }
    }
}

impl Cutter {
    /// Returns the result of the first match in `text`; `None` if nothing matches.
    pub(crate) fn cut(&self, text: &str) -> Option<String> {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let (cache, captures) = &mut **room.get_or_insert_with(|| Box::new(self.expression.room()));
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

/// Parses a replacement: `$1`, `$name` (up to the first character that is no letter, digit or `_`), `${name}`, and
/// `$$` for a dollar sign.
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

    /// Patterns of ordinary rules, far below the limit.
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
