//! Search for names in the bytes of a page, before any of it is parsed.

use std::iter::Peekable;
use std::ops::Range;

use memchr::memmem::Finder;

/// A few names, each of which stands in JSON literally between quotes, or with an escape in it.
///
/// Any encoder may write a character as `\u002d`. An escape of a character that may stand in a name therefore counts
/// as a hit, and the object around it is parsed. Escapes of other characters, such as the `\u003c` that Go writes for
/// `<`, stand in no name.
///
/// ```
/// use depguard_core::FieldPath;
/// use depguard_core::scan::{Extractor, Prefilter};
///
/// let (path, prefilter) = (FieldPath::parse(".spec.vpcRef.name")?, Prefilter::new(["a"]).unwrap());
/// let list = br#"{"metadata": {"resourceVersion": "7"}, "items": [
///     {"metadata": {"name": "m1"}, "spec": {"vpcRef": {"name": "a"}}},
///     {"metadata": {"name": "m2"}, "spec": {"vpcRef": {"name": "b"}}},
///     {"metadata": {"name": "m3", "labels": {"a": "1"}}, "spec": {}}
/// ]}"#;
/// let mut found = Vec::new();
/// Extractor::new([&path]).search(list, Some(&prefilter), |item| {
///     found.push((item.name().to_owned(), item.value(0).map(str::to_owned)));
/// })?;
/// // The second doesn't hold the name. The third does, and what of that is a reference is for the caller to tell.
/// assert_eq!(found, [("m1".to_owned(), Some("a".to_owned())), ("m3".to_owned(), None)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Prefilter {
    quoted: Vec<Finder<'static>>,
    escape: Finder<'static>,
}

/// Positions of a prefilter's hits in a page: for each name, and for escapes, in ascending order.
pub(super) struct Hits<'h>(Vec<Peekable<Box<dyn Iterator<Item = usize> + 'h>>>);

const ESCAPE: &[u8] = br"\u00";

impl Prefilter {
    /// The most names. Each name is one more pass through the page's bytes. A pass takes a twenty-fifth of the time
    /// of reading the page whole, and is wasted if another name is found: see `search` in the benchmarks.
    const MAX_NAMES: usize = 8;

    /// Creates a prefilter. `None` if a search for these names as bytes is impossible or has no advantage: there are too
    /// many names, there is none, or one is empty or has a character outside of `[a-z0-9.-]`.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut quoted = Vec::new();
        for name in names {
            if quoted.len() == Self::MAX_NAMES || name.is_empty() || !name.bytes().all(is_of_names) {
                return None;
            }
            quoted.push(Finder::new(&format!("\"{name}\"")).into_owned());
        }
        (!quoted.is_empty()).then(|| Self { quoted, escape: Finder::new(ESCAPE) })
    }

    /// Searches a page lazily.
    pub(super) fn hits<'h>(&'h self, page: &'h [u8]) -> Hits<'h> {
        let mut hits: Vec<Box<dyn Iterator<Item = usize> + 'h>> = Vec::with_capacity(self.quoted.len() + 1);
        for name in &self.quoted {
            hits.push(Box::new(name.find_iter(page)));
        }
        let escapes = self.escape.find_iter(page);
        hits.push(Box::new(escapes.filter(|at| page.get(at + ESCAPE.len()..).is_some_and(hides_a_name))));
        Hits(hits.into_iter().map(Iterator::peekable).collect())
    }
}

impl Hits<'_> {
    /// Returns true if a hit lies in `range`. The start of a range must not lie before the start of the previous one.
    pub(super) fn is_within(&mut self, range: Range<usize>) -> bool {
        self.0.iter_mut().any(|hits| {
            while hits.next_if(|at| *at < range.start).is_some() {}
            hits.peek().is_some_and(|at| *at < range.end)
        })
    }
}

/// Returns true if [`ESCAPE`] with these digits is the escape of a character that may stand in a name.
fn hides_a_name(digits: &[u8]) -> bool {
    let digits = digits.get(..2).and_then(|digits| str::from_utf8(digits).ok());
    digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).is_some_and(is_of_names)
}

fn is_of_names(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_every_encoder_writes_plainly_or_as_ascii_escapes_are_searched_for() {
        for name in ["", "A", "a_b", "a b", "é", "a\"", "a\\", "a/b", "a\n"] {
            assert!(Prefilter::new([name]).is_none(), "{name}");
            assert!(Prefilter::new(["a", name]).is_none(), "{name}");
        }
        assert!(Prefilter::new([]).is_none());
        assert!(Prefilter::new(["vpc-7", "a.b", "0"]).is_some());
        assert!(Prefilter::new(["a"; Prefilter::MAX_NAMES + 1]).is_none());
    }

    #[test]
    fn a_hit_is_the_whole_quoted_name_or_an_escape_that_a_name_may_hold() {
        let prefilter = Prefilter::new(["vpc-7", "b"]).unwrap();
        for (text, hit) in [
            (r#""vpc-7""#, true),
            (r#""x","b":1"#, true),
            (r#""vpc-70""#, false),
            (r#""my-vpc-7""#, false),
            (r#""VPC-7""#, false),
            ("vpc-7", false),
            (r#""vpc\u002d7""#, true),
            (r#""vpc\u002D7""#, true),
            (r#""\u0062""#, true),
            (r#""\u0030\u002e\u0039\u0061\u007A""#, true),
            (r#""\u003c\u003e\u0026\u0022\u005f\u0041""#, false),
            (r#""\u0162\u2d00""#, false),
            (r#""\u00"#, false),
            (r#""\u002"#, false),
            (r#""\u00+2""#, false),
        ] {
            assert_eq!(prefilter.hits(text.as_bytes()).is_within(0..text.len()), hit, "{text}");
        }
    }

    #[test]
    fn each_range_is_searched_for_itself() {
        let prefilter = Prefilter::new(["a", "b"]).unwrap();
        let page = br#""b" "x" "a" "a" "x" "\u0061" "x""#;
        let mut hits = prefilter.hits(page);
        let found: Vec<_> = [0..3, 4..7, 8..15, 16..19, 20..28, 29..32].map(|range| hits.is_within(range)).into();
        assert_eq!(found, [true, false, true, false, true, false]);
    }
}
