//! JSON reader for large documents of which little is needed.
//!
//! The reader treats a string that is kept as strictly as `serde_json` does. All else is skipped, without recursion
//! and at several times the speed of a parser. In skipped values the reader checks the structure (kinds of brackets,
//! commas, colons, literals, ends of strings). It does not check the inside of strings (escapes, control characters,
//! UTF-8) and of numbers. The reader therefore accepts all JSON, and beyond that only documents with an error inside
//! a string or a number that nobody reads. Such a string or number holds no reference.

use self::nesting::{Bracket, Nesting};

mod nesting;
mod quoted;

pub(crate) use self::quoted::Quoted;

/// A place in a document.
#[derive(Debug, Clone)]
pub(crate) struct Json<'de> {
    bytes: &'de [u8],
    at: usize,
}

/// The next value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'de> {
    /// A map whose opening bracket was read; go on with [`Json::first_key`].
    Map,
    /// A list whose opening bracket was read; go on with [`Json::first_element`].
    List,
    String(Quoted<'de>),
    Null,
    /// A number or a boolean, which was skipped.
    Other,
}

/// An error: the bytes are not JSON, or not the expected JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} at byte {offset}")]
pub(crate) struct Malformed {
    pub(crate) expected: &'static str,
    pub(crate) offset: usize,
}

impl<'de> Json<'de> {
    pub(crate) fn new(bytes: &'de [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the offset at which the next token begins.
    pub(crate) fn offset(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// Returns the offset up to which the document was read.
    pub(crate) fn end(&self) -> usize {
        self.at
    }

    /// Returns the bytes read since the offset.
    #[cfg(feature = "locks")]
    pub(crate) fn bytes_since(&self, start: usize) -> &'de [u8] {
        self.slice(start, self.at)
    }

    /// Returns the text read since the offset; an error if it is not UTF-8.
    pub(crate) fn text_since(&self, start: usize) -> Result<&'de str, Malformed> {
        let text = self.slice(start, self.at);
        str::from_utf8(text).map_err(|error| Malformed { expected: "UTF-8", offset: start + error.valid_up_to() })
    }

    /// Reads the next value; of a map or a list, only the opening bracket.
    pub(crate) fn value(&mut self) -> Result<Value<'de>, Malformed> {
        match self.peek() {
            b'{' => {
                self.at += 1;
                Ok(Value::Map)
            }
            b'[' => {
                self.at += 1;
                Ok(Value::List)
            }
            b'"' => self.quoted().map(Value::String),
            b'n' => self.scalar(b'n').map(|()| Value::Null),
            first => self.scalar(first).map(|()| Value::Other),
        }
    }

    /// Reads the first key of a map whose bracket was read. `None` if the map is empty, in which case its end is
    /// read. After each key, the caller must read or skip its value.
    pub(crate) fn first_key(&mut self) -> Result<Option<Quoted<'de>>, Malformed> {
        if self.peek() == b'}' {
            self.at += 1;
            return Ok(None);
        }
        self.key().map(Some)
    }

    /// Reads the next key of a map, or its end.
    pub(crate) fn next_key(&mut self) -> Result<Option<Quoted<'de>>, Malformed> {
        match self.peek() {
            b',' => {
                self.at += 1;
                self.key().map(Some)
            }
            b'}' => {
                self.at += 1;
                Ok(None)
            }
            _ => Err(self.expected("`,` or `}`")),
        }
    }

    /// Returns true if a list whose bracket was read has an element; the caller must then read or skip it. Otherwise
    /// reads the end of the list.
    pub(crate) fn first_element(&mut self) -> bool {
        let empty = self.peek() == b']';
        self.at += usize::from(empty);
        !empty
    }

    /// Returns true if the list has one more element; the caller must then read or skip it. Otherwise reads the end
    /// of the list.
    pub(crate) fn next_element(&mut self) -> Result<bool, Malformed> {
        match self.peek() {
            b',' => {
                self.at += 1;
                Ok(true)
            }
            b']' => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.expected("`,` or `]`")),
        }
    }

    /// Skips the next value.
    pub(crate) fn skip(&mut self) -> Result<(), Malformed> {
        let bracket = match self.peek() {
            b'"' => return self.skip_string(),
            b'{' => Bracket::Map,
            b'[' => Bracket::List,
            first => return self.scalar(first),
        };
        self.at += 1;
        // The compiler keeps this copy in registers, because nothing else can access it.
        let mut inside = self.clone();
        let skipped = inside.skip_nested(bracket);
        self.at = inside.at;
        skipped
    }

    /// Returns an error unless only white space is left.
    pub(crate) fn finish(&mut self) -> Result<(), Malformed> {
        self.peek();
        if self.at < self.bytes.len() { Err(self.expected("the end")) } else { Ok(()) }
    }

    /// Creates the error that something else should stand here.
    pub(crate) fn expected(&self, expected: &'static str) -> Malformed {
        Malformed { expected, offset: self.at }
    }

    /// Skips the rest of a map or list whose opening bracket was read.
    #[inline(always)]
    fn skip_nested(&mut self, bracket: Bracket) -> Result<(), Malformed> {
        let mut nesting = Nesting::default();
        nesting.push(bracket);
        let (mut inner, mut begun) = (bracket, true);
        loop {
            // No value is needed before a bracket that closes an empty map or list.
            if !begun || self.peek() != inner.closing() {
                if inner == Bracket::Map {
                    self.skip_key()?;
                }
                match self.peek() {
                    b'"' => self.skip_string()?,
                    first @ (b'{' | b'[') => {
                        self.at += 1;
                        inner = if first == b'{' { Bracket::Map } else { Bracket::List };
                        nesting.push(inner);
                        begun = true;
                        continue;
                    }
                    first => self.scalar(first)?,
                }
            }
            while self.peek() != b',' {
                if self.peek() != inner.closing() {
                    return Err(self.expected("`,` or a closing bracket"));
                }
                self.at += 1;
                match nesting.pop() {
                    Some(outer) => inner = outer,
                    None => return Ok(()),
                }
            }
            self.at += 1;
            begun = false;
        }
    }

    /// Skips white space and returns the next byte; at the end 0, with which no token begins.
    #[inline(always)]
    fn peek(&mut self) -> u8 {
        loop {
            match self.bytes.get(self.at) {
                Some(byte) if *byte > b' ' => return *byte,
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                Some(byte) => return *byte,
                None => return 0,
            }
        }
    }

    /// Reads a key and its colon.
    #[inline]
    fn key(&mut self) -> Result<Quoted<'de>, Malformed> {
        if self.peek() != b'"' {
            return Err(self.expected("a key"));
        }
        let key = self.quoted()?;
        self.colon()?;
        Ok(key)
    }

    #[inline(always)]
    fn skip_key(&mut self) -> Result<(), Malformed> {
        if self.peek() != b'"' {
            return Err(self.expected("a key"));
        }
        self.skip_string()?;
        self.colon()
    }

    #[inline(always)]
    fn colon(&mut self) -> Result<(), Malformed> {
        if self.peek() != b':' {
            return Err(self.expected("`:`"));
        }
        self.at += 1;
        Ok(())
    }

    fn slice(&self, from: usize, to: usize) -> &'de [u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }

    /// Reads the string whose opening quote is next.
    #[inline]
    fn quoted(&mut self) -> Result<Quoted<'de>, Malformed> {
        let start = self.at + 1;
        self.skip_string()?;
        Ok(Quoted::new(self.slice(start, self.at - 1), start))
    }

    /// Skips the string whose opening quote is next.
    #[inline(always)]
    fn skip_string(&mut self) -> Result<(), Malformed> {
        match quoted::end(self.bytes, self.at + 1) {
            Some(end) => {
                self.at = end + 1;
                Ok(())
            }
            None => Err(self.expected("a string that ends")),
        }
    }

    /// Skips a number, `true`, `false` or `null`.
    #[inline(always)]
    fn scalar(&mut self, first: u8) -> Result<(), Malformed> {
        let literal: &[u8] = match first {
            b'-' | b'0'..=b'9' => {
                while self.bytes.get(self.at).is_some_and(is_in_number) {
                    self.at += 1;
                }
                return Ok(());
            }
            b't' => b"true",
            b'f' => b"false",
            b'n' => b"null",
            _ => return Err(self.expected("a value")),
        };
        if !self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(literal)) {
            return Err(self.expected("a value"));
        }
        self.at += literal.len();
        Ok(())
    }
}

fn is_in_number(byte: &u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}

#[cfg(test)]
mod tests;
