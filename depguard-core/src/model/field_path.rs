//! Field paths: the place in a dependent at which the name of its target stands.
//!
//! The syntax is the reference API's dotted names, such as `.spec.vpcRef.name`, and a bounded part of JSONPath:
//! quoted names, wildcards and indexes. There is no search at any depth, no filter and no slice. A path therefore
//! leads to few values, and one pass finds them. One step of a path may lead into the JSON that a string holds.

use std::fmt;
use std::str::FromStr;

mod parser;

/// A parsed field path. It prints in the syntax in which users write it, with the leading dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath {
    segments: Vec<Segment>,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Segment {
    /// The value of this key of a map: `.name` or `['name']`.
    Name(String),
    /// The element at this index of a list: `[0]`. Not the key of a map.
    Index(u32),
    /// Every element of a list, every value of a map: `[*]` or `.*`.
    Wildcard,
    /// The map or list that a string holds as JSON, or the string itself if it holds none: `.fromJSON()`.
    FromJson,
}

/// The reason for refusing a path, its offset, and a hint on what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("path `{path}` {kind} at offset {offset}: {fix}", fix = self.fix())]
#[non_exhaustive]
pub struct PathError {
    /// The path as it was given, cut to [`FieldPath::MAX_LEN`] characters.
    pub path: String,
    /// The byte at which the error is.
    pub offset: usize,
    /// The kind of the error.
    pub kind: PathErrorKind,
}

/// Kind of error in a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathErrorKind {
    /// A path longer than [`FieldPath::MAX_LEN`].
    #[error("is too long")]
    TooLong,
    /// A path with more wildcards than [`FieldPath::MAX_WILDCARDS`].
    #[error("has too many wildcards")]
    TooManyWildcards,
    /// A path that begins with the `$` of JSONPath.
    #[error("has a `$`")]
    Root,
    /// A path that ends or goes on where a name must stand.
    #[error("has no field name")]
    MissingName,
    /// A name that begins with a digit.
    #[error("has a field name that begins with a digit")]
    LeadingDigit,
    /// A character that only a quoted name may have.
    #[error("has a character that is not a letter, a digit or `_`")]
    BadCharacter,
    /// A dot before a bracket.
    #[error("has a dot before a bracket")]
    DotBeforeBracket,
    /// A call of something else than `fromJSON`, a second call, or one before the first field.
    #[error("has a call other than one `.fromJSON()` behind a field")]
    BadCall,
    /// A bracket with neither `*`, an index nor a quoted name.
    #[error("has brackets without `*`, an index or a quoted name")]
    BadBracket,
    /// An index out of range or with a leading zero.
    #[error("has an invalid index")]
    BadIndex,
    /// A quoted name or a bracket that is not closed.
    #[error("has an unclosed bracket")]
    Unclosed,
    /// A backslash that stands before neither a quote nor a backslash.
    #[error("has a stray backslash")]
    BadEscape,
    /// A control character in a quoted name.
    #[error("has a control character")]
    Control,
}

impl PathError {
    fn fix(&self) -> String {
        meant(&self.path).map_or_else(|| self.kind.fix(), |path| format!("write `{path}`"))
    }
}

impl PathErrorKind {
    fn fix(self) -> String {
        let text = match self {
            Self::TooLong => return format!("at most {} bytes are allowed", FieldPath::MAX_LEN),
            Self::TooManyWildcards => return format!("at most {} are allowed", FieldPath::MAX_WILDCARDS),
            Self::Root => "leave it out, as in `.spec.vpcRef.name`",
            Self::MissingName => "write one after each dot, as in `.spec.vpcRef.name`",
            Self::LeadingDigit => "write `[0]` for an element of a list, `['0']` for a key of a map",
            Self::BadCharacter => "quote the name, as in `.metadata.annotations['example.com/vpc']`",
            Self::DotBeforeBracket => "leave the dot out, as in `.spec.networks[*].vpc`",
            Self::BadCall => {
                "write it once, behind the string that holds JSON, as in `.spec.networks.fromJSON()[*].name`"
            }
            Self::BadBracket => "write `[*]`, `[0]` or `['example.com/vpc']`; there are no filters and no slices",
            Self::BadIndex => "write one from `[0]` to `[4294967295]`, without leading zeros",
            Self::Unclosed => "close it, as in `[*]`, `[0]` or `['example.com/vpc']`",
            Self::BadEscape => r"write `\'` for a quote and `\\` for a backslash",
            Self::Control => "leave it out",
        };
        text.to_owned()
    }
}

impl FieldPath {
    /// The longest path, in bytes, without the leading dot: a parsed path can therefore be printed and parsed again.
    /// The length also bounds the depth.
    pub const MAX_LEN: usize = 253;

    /// The most wildcards in a path.
    pub const MAX_WILDCARDS: usize = 4;

    /// Parses a path, with or without the leading dot.
    ///
    /// ```
    /// use depguard_core::FieldPath;
    ///
    /// let path = FieldPath::parse("spec.networks[*].vpcRef.name")?;
    /// assert_eq!(path.to_string(), ".spec.networks[*].vpcRef.name");
    ///
    /// let error = FieldPath::parse(".metadata.annotations.example.com/vpc").unwrap_err();
    /// assert_eq!(error.offset, 33);
    /// assert!(error.to_string().ends_with("quote the name, as in `.metadata.annotations['example.com/vpc']`"));
    /// # Ok::<(), depguard_core::model::PathError>(())
    /// ```
    pub fn parse(path: &str) -> Result<Self, PathError> {
        let error = |(offset, kind)| PathError { path: shown(path), offset, kind };
        let dot = usize::from(path.starts_with('.'));
        let too_long = (dot + Self::MAX_LEN, PathErrorKind::TooLong);
        if path.len() - dot > Self::MAX_LEN {
            return Err(error(too_long));
        }
        let parsed = parser::segments(path).map(|segments| Self { segments }).map_err(error)?;
        // `['a']` and `.*` print differently from how they may be written.
        if parsed.to_string().trim_start_matches('.').len() > Self::MAX_LEN {
            return Err(error(too_long));
        }
        Ok(parsed)
    }

    /// Returns the steps, from the object inwards.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the path of the object's own name.
    pub(crate) fn name() -> Self {
        Self { segments: ["metadata", "name"].map(|name| Segment::Name(name.to_owned())).to_vec() }
    }

    /// Returns the path of the ownerReferences.
    pub fn owners() -> Self {
        Self { segments: ["metadata", "ownerReferences"].map(|name| Segment::Name(name.to_owned())).to_vec() }
    }

    /// Returns the path of a label's value.
    pub(crate) fn label(key: &str) -> Self {
        Self { segments: ["metadata", "labels", key].map(|name| Segment::Name(name.to_owned())).to_vec() }
    }

    /// Returns the names up to the first step of another kind. They lead to the subtree in which all values of the path are.
    pub fn leading_names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().map_while(|segment| match segment {
            Segment::Name(name) => Some(name.as_str()),
            Segment::Index(_) | Segment::Wildcard | Segment::FromJson => None,
        })
    }

    /// Returns the path of another field of the object in which this field is.
    pub(crate) fn beside(&self, name: &str) -> Self {
        let around = self.segments.split_last().map_or(&[][..], |(_, around)| around);
        Self { segments: around.iter().cloned().chain([Segment::Name(name.to_owned())]).collect() }
    }

    /// Returns the number of wildcards.
    pub(crate) fn wildcards(&self) -> usize {
        self.segments.iter().filter(|segment| **segment == Segment::Wildcard).count()
    }

    /// Returns true if the path leads into the JSON that a string holds.
    pub(crate) fn reads_json(&self) -> bool {
        self.segments.contains(&Segment::FromJson)
    }

    /// Returns the path without the leading dot, as a `StatusCause` names a field.
    pub(crate) fn as_field(&self) -> String {
        self.to_string().trim_start_matches('.').to_owned()
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.segments.iter().try_for_each(|segment| segment.fmt(f))
    }
}

/// Prints the step as it stands in a path: `.name`, `['example.com/vpc']`, `[0]`, `[*]`, `.fromJSON()`.
impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) if is_plain(name) => write!(f, ".{name}"),
            Self::Name(name) => write!(f, "['{}']", name.replace('\\', r"\\").replace('\'', r"\'")),
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Wildcard => f.write_str("[*]"),
            Self::FromJson => f.write_str(".fromJSON()"),
        }
    }
}

impl FromStr for FieldPath {
    type Err = PathError;
    fn from_str(path: &str) -> Result<Self, PathError> {
        Self::parse(path)
    }
}

/// Returns the path that is meant by one in the syntax of others: `{.a.b}` of kubectl, `$.a.b` of JSONPath, `.a[].b` of
/// jq, `/a/b` of JSON pointers.
fn meant(written: &str) -> Option<FieldPath> {
    let inner = written.trim();
    let inner = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner).trim();
    let inner = inner.strip_prefix('$').unwrap_or(inner);
    let path = match inner.strip_prefix('/') {
        Some(pointer) => FieldPath { segments: pointer.split('/').map(step_of_pointer).collect() }.to_string(),
        None => inner.replace("[]", "[*]"),
    };
    FieldPath::parse(&path).ok()
}

/// Returns a step of a JSON pointer (RFC 6901). A number is an element of a list.
fn step_of_pointer(step: &str) -> Segment {
    step.parse().map_or_else(|_| Segment::Name(step.replace("~1", "/").replace("~0", "~")), Segment::Index)
}

/// Returns true if the name can stand without quotes.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(in_name) && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the path as an error repeats it: whole, unless it is longer than any valid path.
fn shown(path: &str) -> String {
    path.chars().take(FieldPath::MAX_LEN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_print_as_they_would_be_written() {
        for (written, printed) in [
            (".spec.vpcRef.name", ".spec.vpcRef.name"),
            ("spec.vpcRef.name", ".spec.vpcRef.name"),
            ("_a.b_1", "._a.b_1"),
            ("provisioner", ".provisioner"),
            (".spec.networks[*].vpc", ".spec.networks[*].vpc"),
            (".spec.networks.*.vpc", ".spec.networks[*].vpc"),
            ("*", "[*]"),
            ("[*][0].a", "[*][0].a"),
            (".a[0][4294967295]", ".a[0][4294967295]"),
            (".metadata.annotations['example.com/vpc']", ".metadata.annotations['example.com/vpc']"),
            (r#".metadata.annotations["example.com/vpc"]"#, ".metadata.annotations['example.com/vpc']"),
            ("['spec'].a", ".spec.a"),
            ("['0']['a b']['é']", "['0']['a b']['é']"),
            (r#"["it's"]['a\\b']["\""]"#, r#"['it\'s']['a\\b']['"']"#),
            ("['*']['a]']", "['*']['a]']"),
            (".a.fromJSON()[*].name", ".a.fromJSON()[*].name"),
            ("['a/b'].fromJSON()", "['a/b'].fromJSON()"),
            (".a.fromJSON.fromJSON()['fromJSON()']", ".a.fromJSON.fromJSON()['fromJSON()']"),
        ] {
            let parsed = FieldPath::parse(written).unwrap();
            assert_eq!(parsed.to_string(), printed);
            assert_eq!(FieldPath::parse(printed).unwrap(), parsed);
        }
    }

    #[test]
    fn errors_name_the_offset() {
        use PathErrorKind::*;
        let long = "a".repeat(254);
        let dotted = format!(".{long}");
        let quotes = format!(r#"["{}"]"#, "'".repeat(200));
        for (path, offset, kind) in [
            ("", 0, MissingName),
            (".", 1, MissingName),
            ("..a", 1, MissingName),
            (".spec.", 6, MissingName),
            (".spec..name", 6, MissingName),
            (".spec['']", 7, MissingName),
            (".spec.0", 6, LeadingDigit),
            (".spec.vpc-ref", 9, BadCharacter),
            (".spec.é", 6, BadCharacter),
            (".a b", 2, BadCharacter),
            (".a*", 2, BadCharacter),
            (".a[0]b", 5, BadCharacter),
            (".**", 2, BadCharacter),
            ("$.spec", 0, Root),
            (".spec.$", 6, BadCharacter),
            (".['a']", 1, DotBeforeBracket),
            (".a.[*]", 3, DotBeforeBracket),
            (".a[]", 3, BadBracket),
            (".a[-1]", 3, BadBracket),
            (".a[b]", 3, BadBracket),
            (".a[?(@.b)]", 3, BadBracket),
            (".a[0:2]", 4, BadBracket),
            (".a['b','c']", 6, BadBracket),
            (".a[01]", 3, BadIndex),
            (".a[4294967296]", 3, BadIndex),
            (".a[", 2, Unclosed),
            (".a[*", 2, Unclosed),
            (".a[12", 2, Unclosed),
            (".a['b", 2, Unclosed),
            (".a['b'", 2, Unclosed),
            (r".a['b\n']", 5, BadEscape),
            (r".a['b\", 5, BadEscape),
            (".a['\n']", 4, Control),
            (".*.*.*.*.*", 8, TooManyWildcards),
            (".fromJSON()", 0, BadCall),
            ("fromJSON().a", 0, BadCall),
            (".a.fromJSON().b.fromJSON()", 15, BadCall),
            (".a.fromJson()", 11, BadCall),
            (".a.fromJSON(1)", 11, BadCall),
            (".a.fromJSON()b", 13, BadCharacter),
            (".a[fromJSON()]", 3, BadBracket),
            (&long, 253, TooLong),
            (&dotted, 254, TooLong),
            (&quotes, 253, TooLong),
        ] {
            let error = FieldPath::parse(path).unwrap_err();
            assert_eq!((error.offset, error.kind), (offset, kind), "{path}");
        }
    }

    #[test]
    fn a_path_in_the_syntax_of_others_is_told_as_it_must_be_written() {
        for (written, path) in [
            ("{.spec.crew.captain}", Some(".spec.crew.captain")),
            ("{ $.spec.crew }", Some(".spec.crew")),
            ("$.spec.crew[*].name", Some(".spec.crew[*].name")),
            ("$['spec'].crew", Some(".spec.crew")),
            ("/spec/crew/0/name", Some(".spec.crew[0].name")),
            ("/metadata/annotations/sea.example.com~1ship", Some(".metadata.annotations['sea.example.com/ship']")),
            (".spec.crew[].name", Some(".spec.crew[*].name")),
            (" .spec.crew", Some(".spec.crew")),
            // Nobody knows what is meant.
            (".spec.crew-name", None),
            (".spec..crew", None),
            ("{.spec.crew", None),
            ("//", None),
            ("$", None),
            ("", None),
        ] {
            let said = FieldPath::parse(written).unwrap_err().to_string();
            let (_, fix) = said.split_once(": ").unwrap();
            match path {
                Some(path) => assert_eq!(fix, format!("write `{path}`"), "{written}"),
                None => assert!(!fix.starts_with("write `."), "{written}: {fix}"),
            }
        }
    }

    #[test]
    fn an_error_reads_as_a_sentence() {
        assert_eq!(
            FieldPath::parse(".spec..name").unwrap_err().to_string(),
            "path `.spec..name` has no field name at offset 6: write one after each dot, as in `.spec.vpcRef.name`"
        );
    }
}
