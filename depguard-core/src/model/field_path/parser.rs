//! Parser of field paths: one pass, without recursion.

use super::{FieldPath, PathErrorKind, Segment, in_name};

/// Returns the steps of a path, or the byte at which the error is and its kind.
pub(super) fn segments(path: &str) -> Result<Vec<Segment>, Wrong> {
    Parser { path, offset: 0 }.segments()
}

struct Parser<'p> {
    path: &'p str,
    offset: usize,
}

pub(super) type Wrong = (usize, PathErrorKind);

impl Parser<'_> {
    fn segments(mut self) -> Result<Vec<Segment>, Wrong> {
        let (mut segments, mut wildcards) = (Vec::new(), 0);
        while segments.is_empty() || self.peek().is_some() {
            let offset = self.offset;
            let segment = self.segment(segments.is_empty())?;
            if segment == Segment::Wildcard {
                wildcards += 1;
                if wildcards > FieldPath::MAX_WILDCARDS {
                    return Err((offset, PathErrorKind::TooManyWildcards));
                }
            }
            if segment == Segment::FromJson && (segments.is_empty() || segments.contains(&segment)) {
                return Err((offset, PathErrorKind::BadCall));
            }
            segments.push(segment);
        }
        Ok(segments)
    }

    fn segment(&mut self, first: bool) -> Result<Segment, Wrong> {
        match self.peek() {
            Some('$') if first => self.wrong(PathErrorKind::Root),
            Some('[') => self.bracket(),
            Some('.') => {
                self.offset += 1;
                self.name()
            }
            _ if first => self.name(),
            Some('(') => self.wrong(PathErrorKind::BadCall),
            // A name ends at the first character that no name may have.
            _ => self.wrong(PathErrorKind::BadCharacter),
        }
    }

    fn name(&mut self) -> Result<Segment, Wrong> {
        if self.skip("*") {
            return Ok(Segment::Wildcard);
        }
        if self.skip("fromJSON()") {
            return Ok(Segment::FromJson);
        }
        let name: String = self.rest().chars().take_while(|c| in_name(*c)).collect();
        match self.peek() {
            None | Some('.') => self.wrong(PathErrorKind::MissingName),
            Some('[') => self.wrong(PathErrorKind::DotBeforeBracket),
            Some('0'..='9') => self.wrong(PathErrorKind::LeadingDigit),
            Some(_) if name.is_empty() => self.wrong(PathErrorKind::BadCharacter),
            Some(_) => {
                self.offset += name.len();
                Ok(Segment::Name(name))
            }
        }
    }

    fn bracket(&mut self) -> Result<Segment, Wrong> {
        let opened = self.offset;
        self.offset += 1;
        let segment = match self.peek() {
            Some('*') => {
                self.offset += 1;
                Segment::Wildcard
            }
            Some('0'..='9') => self.index()?,
            Some(quote @ ('\'' | '"')) => {
                self.offset += 1;
                Segment::Name(self.quoted(quote, opened)?)
            }
            None => return Err((opened, PathErrorKind::Unclosed)),
            Some(_) => return self.wrong(PathErrorKind::BadBracket),
        };
        match self.peek() {
            Some(']') => {
                self.offset += 1;
                Ok(segment)
            }
            None => Err((opened, PathErrorKind::Unclosed)),
            Some(_) => self.wrong(PathErrorKind::BadBracket),
        }
    }

    fn index(&mut self) -> Result<Segment, Wrong> {
        let digits: String = self.rest().chars().take_while(char::is_ascii_digit).collect();
        match digits.parse() {
            Ok(index) if digits == "0" || !digits.starts_with('0') => {
                self.offset += digits.len();
                Ok(Segment::Index(index))
            }
            _ => self.wrong(PathErrorKind::BadIndex),
        }
    }

    fn quoted(&mut self, quote: char, opened: usize) -> Result<String, Wrong> {
        let mut name = String::new();
        loop {
            match self.peek() {
                None => return Err((opened, PathErrorKind::Unclosed)),
                Some(c) if c == quote && name.is_empty() => return self.wrong(PathErrorKind::MissingName),
                Some(c) if c == quote => {
                    self.offset += 1;
                    return Ok(name);
                }
                Some('\\') => {
                    let escaped = self.rest().chars().nth(1).filter(|c| matches!(c, '\'' | '"' | '\\'));
                    let Some(escaped) = escaped else { return self.wrong(PathErrorKind::BadEscape) };
                    name.push(escaped);
                    self.offset += 2;
                }
                Some(c) if c.is_control() => return self.wrong(PathErrorKind::Control),
                Some(c) => {
                    name.push(c);
                    self.offset += c.len_utf8();
                }
            }
        }
    }

    fn rest(&self) -> &str {
        self.path.get(self.offset..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self, text: &str) -> bool {
        let there = self.rest().starts_with(text);
        self.offset += if there { text.len() } else { 0 };
        there
    }

    fn wrong<T>(&self, kind: PathErrorKind) -> Result<T, Wrong> {
        Err((self.offset, kind))
    }
}
