//! Stack of open brackets, one bit each: a skipped value may be nested as deeply as it is long.

/// Open brackets, the innermost last.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    /// The innermost brackets, at most 64; the lowest bit is the innermost one.
    inner: u64,
    outer: Vec<u64>,
    depth: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bracket {
    Map,
    List,
}

const WORD: usize = u64::BITS as usize;

impl Bracket {
    #[inline]
    pub(super) fn closing(self) -> u8 {
        match self {
            Self::Map => b'}',
            Self::List => b']',
        }
    }
}

impl Nesting {
    #[inline]
    pub(super) fn push(&mut self, bracket: Bracket) {
        if self.depth > 0 && self.depth.is_multiple_of(WORD) {
            self.outer.push(self.inner);
        }
        self.inner = self.inner << 1 | u64::from(bracket == Bracket::List);
        self.depth += 1;
    }

    /// Closes the innermost bracket, and returns the next outer one; `None` if no bracket is open any more.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Bracket> {
        self.depth = self.depth.saturating_sub(1);
        self.inner >>= 1;
        if self.depth == 0 {
            return None;
        }
        if self.depth.is_multiple_of(WORD) {
            self.inner = self.outer.pop().unwrap_or_default();
        }
        Some(if self.inner & 1 == 1 { Bracket::List } else { Bracket::Map })
    }
}
