//! Strings: their end, and their text.

use std::borrow::Cow;

use super::Malformed;

/// The bytes between the quotes of a string or a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quoted<'de> {
    raw: &'de [u8],
    offset: usize,
}

impl<'de> Quoted<'de> {
    pub(super) fn new(raw: &'de [u8], offset: usize) -> Self {
        Self { raw, offset }
    }

    /// Returns the string, borrowed if it holds no escape.
    pub(crate) fn text(&self) -> Result<Cow<'de, str>, Malformed> {
        match self.bytes()? {
            Cow::Borrowed(raw) => {
                if let Some(at) = raw.iter().position(|byte| *byte < b' ') {
                    return Err(self.malformed("no control character", at));
                }
                str::from_utf8(raw).map(Cow::Borrowed).map_err(|error| self.not_utf8(error.valid_up_to()))
            }
            Cow::Owned(text) => {
                String::from_utf8(text).map(Cow::Owned).map_err(|error| self.not_utf8(error.utf8_error().valid_up_to()))
            }
        }
    }

    /// Returns the string as bytes, for comparisons. The bytes may be invalid UTF-8; they then differ from every
    /// valid string.
    #[inline]
    pub(crate) fn bytes(&self) -> Result<Cow<'de, [u8]>, Malformed> {
        if self.raw.contains(&b'\\') { self.unescape().map(Cow::Owned) } else { Ok(Cow::Borrowed(self.raw)) }
    }

    #[cold]
    fn unescape(&self) -> Result<Vec<u8>, Malformed> {
        let mut text = Vec::with_capacity(self.raw.len());
        let mut rest = self.raw;
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            let at = self.raw.len() - rest.len() - 1;
            match first {
                0..b' ' => return Err(self.malformed("no control character", at)),
                b'\\' => {
                    let (char, after) = escape(rest).ok_or_else(|| self.malformed("an escape", at))?;
                    text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                    rest = after;
                }
                byte => text.push(*byte),
            }
        }
        Ok(text)
    }

    fn not_utf8(&self, at: usize) -> Malformed {
        self.malformed("UTF-8", at)
    }

    fn malformed(&self, expected: &'static str, at: usize) -> Malformed {
        Malformed { expected, offset: self.offset + at }
    }
}

/// Returns the character of an escape whose backslash was read, and the bytes after the escape. `None` for an invalid
/// escape, such as half a surrogate pair.
fn escape(bytes: &[u8]) -> Option<(char, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let char = match kind {
        b'"' | b'\\' | b'/' => char::from(*kind),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let (unit, rest) = hex(rest)?;
            if !(0xd800..0xdc00).contains(&unit) {
                // A trailing surrogate alone is no character.
                return Some((char::from_u32(unit)?, rest));
            }
            let (trailing, rest) = hex(rest.strip_prefix(br"\u")?)?;
            let low = trailing.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
            return Some((char::from_u32(0x1_0000 + ((unit - 0xd800) << 10 | low))?, rest));
        }
        _ => return None,
    };
    Some((char, rest))
}

/// Reads four hexadecimal digits.
fn hex(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = bytes.split_first_chunk::<4>()?;
    let mut value = 0;
    for digit in digits {
        value = value << 4 | char::from(*digit).to_digit(16)?;
    }
    Some((value, rest))
}

/// Returns the offset of the closing quote. The string begins at `start`, after its opening quote.
#[inline(always)]
pub(super) fn end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        at = special(bytes, at)?;
        if bytes.get(at) == Some(&b'"') {
            return Some(at);
        }
        // The byte after a backslash never ends the string.
        at += 2;
    }
}

/// Returns the offset of the first quote or backslash.
#[inline(always)]
fn special(bytes: &[u8], mut at: usize) -> Option<usize> {
    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(*word);
        let found = zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if found & HIGHS != 0 {
            return Some(at + ((found & HIGHS).trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    let last = bytes.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'));
    last.map(|found| at + found)
}

const ONES: u64 = u64::MAX / 0xff;
const HIGHS: u64 = ONES << 7;

/// Marks each zero byte by its highest bit. Bytes above the lowest zero byte may be marked without being zero.
#[inline(always)]
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word
}
