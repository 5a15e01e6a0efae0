//! A part of a string, cut out by a regular expression.

use regex::{Captures, Regex, RegexBuilder};

/// An RE2 expression, and the text that is made of its first match.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
    /// As it was written; `None`: the first group, or the whole match.
    replacement: Option<String>,
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
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
    /// The most memory that an expression may take, in bytes.
    const MAX_SIZE: usize = 1 << 20;

    /// Compiles `pattern`. What it makes of a match is `replacement`, in which `$1` and `${name}` stand for groups;
    /// without one it is the first group, or the whole match where there is no group.
    pub fn parse(pattern: &str, replacement: Option<&str>) -> Result<Self, PatternError> {
        for text in [Some(pattern), replacement].into_iter().flatten() {
            if text.len() > Self::MAX_LEN {
                return Err(PatternError::TooLong(text.len()));
            }
        }
        let built = RegexBuilder::new(pattern).size_limit(Self::MAX_SIZE).dfa_size_limit(Self::MAX_SIZE).build();
        let regex = built
            .map_err(|error| PatternError::Regex { pattern: pattern.to_owned(), why: last_line(&error.to_string()) })?;
        let parts = match replacement {
            Some(replacement) => parts(&regex, replacement)?,
            None => vec![Part::Group(usize::from(regex.captures_len() > 1))],
        };
        Ok(Self { regex, replacement: replacement.map(str::to_owned), parts })
    }

    /// The expression, as it was written.
    pub fn as_str(&self) -> &str {
        self.regex.as_str()
    }

    /// What the first match in `text` makes; `None` where nothing matches.
    pub fn cut(&self, text: &str) -> Option<String> {
        let captures: Captures<'_> = self.regex.captures(text)?;
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Group(group) => captures.get(*group).map_or("", |group| group.as_str()).to_owned(),
        };
        Some(self.parts.iter().map(part).collect())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        (self.as_str(), &self.replacement) == (other.as_str(), &other.replacement)
    }
}

impl Eq for Pattern {}

/// `$1`, `$name` (as long as letters, digits and `_` go), `${name}`, and `$$` for a dollar sign.
fn parts(regex: &Regex, replacement: &str) -> Result<Vec<Part>, PatternError> {
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
            Ok(index) => Some(index).filter(|index| *index < regex.captures_len()),
            Err(_) => regex.capture_names().position(|group| group == Some(name)),
        };
        let no_group = || PatternError::NoGroup { replacement: replacement.to_owned(), group: name.to_owned() };
        parts.push(Part::Group(index.ok_or_else(no_group)?));
        rest = left;
    }
    parts.push(Part::Text(rest.to_owned()));
    Ok(parts)
}

/// The errors of expressions are drawings, of which the last line says what is wrong.
fn last_line(error: &str) -> String {
    let line = error.lines().last().unwrap_or_default().trim();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
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
            (r"^\w+$", None, "é_1", Some("é_1")),
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
            (r"(\w{200}){200}", None, "size limit"),
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
}
