//! Field paths: where in a dependent the name of its target stands.
//!
//! The syntax is the reference API's: names of letters, digits and `_` that do not begin with a digit, joined by dots,
//! with an optional dot before the first: `.spec.vpcRef.name`.

use std::fmt;
use std::str::FromStr;

/// A parsed field path. Prints as it would be written, with the leading dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath {
    segments: Vec<Segment>,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Segment {
    /// The value of this key of a map.
    Name(String),
}

/// Why a path was refused, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("path `{path}` {kind} at offset {offset}")]
pub struct PathError {
    /// What was given.
    pub path: String,
    /// The byte at which it goes wrong.
    pub offset: usize,
    /// What is wrong there.
    pub kind: PathErrorKind,
}

/// What is wrong with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathErrorKind {
    /// Longer than [`FieldPath::MAX_LEN`].
    #[error("is longer than {max} characters: it is cut off", max = FieldPath::MAX_LEN)]
    TooLong,
    /// Ends, or has two dots in a row, where a name must stand.
    #[error("has no field name, such as in `.spec.vpcRef.name`,")]
    MissingName,
    /// A name that begins with a digit.
    #[error("has a field name that begins with a digit")]
    LeadingDigit,
    /// Another character than a letter, a digit, `_` or a dot.
    #[error("has a character that is not a letter, a digit, `_` or `.`,")]
    BadCharacter,
}

impl FieldPath {
    /// The longest path, in bytes, not counting the leading dot: so what is parsed can be printed and parsed again.
    pub const MAX_LEN: usize = 253;

    /// Parses a path, with or without the leading dot.
    ///
    /// ```
    /// let path = depguard_core::FieldPath::parse("spec.vpcRef.name")?;
    /// assert_eq!(path.to_string(), ".spec.vpcRef.name");
    ///
    /// let error = depguard_core::FieldPath::parse(".spec..name").unwrap_err();
    /// assert_eq!(error.offset, 6);
    /// # Ok::<(), depguard_core::PathError>(())
    /// ```
    pub fn parse(path: &str) -> Result<Self, PathError> {
        let error = |offset, kind| PathError { path: shown(path), offset, kind };
        let names = path.strip_prefix('.').unwrap_or(path);
        let mut offset = path.len() - names.len();
        if names.len() > Self::MAX_LEN {
            return Err(error(offset + Self::MAX_LEN, PathErrorKind::TooLong));
        }
        let mut segments = Vec::new();
        for name in names.split('.') {
            if name.is_empty() {
                return Err(error(offset, PathErrorKind::MissingName));
            }
            if name.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(error(offset, PathErrorKind::LeadingDigit));
            }
            if let Some(at) = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                return Err(error(offset + at, PathErrorKind::BadCharacter));
            }
            segments.push(Segment::Name(name.to_owned()));
            offset += name.len() + 1;
        }
        Ok(Self { segments })
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// As a `StatusCause` names a field: without the leading dot.
    pub(crate) fn as_field(&self) -> String {
        self.to_string().split_off(1)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.segments.iter().try_for_each(|Segment::Name(name)| write!(f, ".{name}"))
    }
}

impl FromStr for FieldPath {
    type Err = PathError;
    fn from_str(path: &str) -> Result<Self, PathError> {
        Self::parse(path)
    }
}

/// The path as an error repeats it: whole where it is short enough to be one.
fn shown(path: &str) -> String {
    path.chars().take(FieldPath::MAX_LEN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_print_with_a_leading_dot() {
        for (written, printed) in [
            (".spec.vpcRef.name", ".spec.vpcRef.name"),
            ("spec.vpcRef.name", ".spec.vpcRef.name"),
            ("_a.b_1", "._a.b_1"),
            ("provisioner", ".provisioner"),
        ] {
            assert_eq!(FieldPath::parse(written).unwrap().to_string(), printed);
        }
    }

    #[test]
    fn errors_name_the_offset() {
        use PathErrorKind::*;
        let long = "a".repeat(254);
        let dotted = format!(".{long}");
        for (path, offset, kind) in [
            ("", 0, MissingName),
            (".", 1, MissingName),
            ("..a", 1, MissingName),
            (".spec.", 6, MissingName),
            (".spec..name", 6, MissingName),
            (".spec.0", 6, LeadingDigit),
            (".spec.vpc-ref", 9, BadCharacter),
            (".spec.é", 6, BadCharacter),
            ("$.spec", 0, BadCharacter),
            (".spec.list[0]", 10, BadCharacter),
            (&long, 253, TooLong),
            (&dotted, 254, TooLong),
        ] {
            let error = FieldPath::parse(path).unwrap_err();
            assert_eq!((error.offset, error.kind), (offset, kind), "{path}");
        }
    }

    #[test]
    fn an_error_reads_as_a_sentence() {
        assert_eq!(
            FieldPath::parse(".spec..name").unwrap_err().to_string(),
            "path `.spec..name` has no field name, such as in `.spec.vpcRef.name`, at offset 6"
        );
    }
}
