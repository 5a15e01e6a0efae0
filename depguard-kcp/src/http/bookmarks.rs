//! Bookmarks in the body of a watch. kube's watcher does not pass them on. While nothing happens, they are the only
//! sign that a watch works.

use kube_client::core::WatchEvent;
use serde::de::IgnoredAny;

/// Maximum length of a line that is parsed, in bytes: a bookmark holds little more than a kind and a resource version.
const MAX_LINE: usize = 16 << 10;

/// Reader of a watch's body, piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Bookmarks {
    /// Line that has begun, as far as it has arrived.
    line: Vec<u8>,
    /// Set if the line that has begun is too long for a bookmark.
    too_long: bool,
}

impl Bookmarks {
    /// Reads on. Returns true if this piece ends a bookmark that kube's watcher understands, too.
    pub(crate) fn read(&mut self, piece: &[u8]) -> bool {
        let mut found = false;
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.too_long |= self.line.len().saturating_add(part.len()) > MAX_LINE;
            if !self.too_long {
                self.line.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                found |= !self.too_long && is_bookmark(&self.line);
                *self = Self::default();
            }
        }
        found
    }
}

fn is_bookmark(line: &[u8]) -> bool {
    matches!(serde_json::from_slice::<WatchEvent<IgnoredAny>>(line), Ok(WatchEvent::Bookmark(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOKMARK: &str =
        r#"{"type":"BOOKMARK","object":{"kind":"A","apiVersion":"b/v1","metadata":{"resourceVersion":"7"}}}"#;

    fn found(pieces: &[&str]) -> Vec<bool> {
        let mut bookmarks = Bookmarks::default();
        pieces.iter().map(|piece| bookmarks.read(piece.as_bytes())).collect()
    }

    #[test]
    fn a_bookmark_is_found_at_its_end_however_it_is_cut() {
        let (start, end) = BOOKMARK.split_at(20);
        assert_eq!(found(&[start, end, "\n"]), [false, false, true]);
        let event = r#"{"type":"ADDED","object":{}}"#;
        assert_eq!(found(&[&format!("{event}\n{BOOKMARK}\n{event}"), "\n"]), [true, false]);
    }

    #[test]
    fn what_kube_would_not_take_for_a_bookmark_is_none() {
        let without_version = BOOKMARK.replace("resourceVersion", "other");
        let cut = &BOOKMARK[..BOOKMARK.len() - 1];
        for line in ["", "{", "BOOKMARK", cut, &without_version, r#"{"type":"ERROR","object":{"code":410}}"#] {
            assert_eq!(found(&[&format!("{line}\n")]), [false], "{line}");
        }
    }

    #[test]
    fn a_long_line_is_passed_over_and_not_kept() {
        let mut bookmarks = Bookmarks::default();
        for _ in 0..100 {
            assert!(!bookmarks.read(&[b' '; 1000]));
        }
        assert!(bookmarks.line.capacity() <= 2 * MAX_LINE);
        assert!(!bookmarks.read(format!("{BOOKMARK}\n").as_bytes()), "it is part of that line");
        assert!(bookmarks.read(format!("{BOOKMARK}\n").as_bytes()));
    }
}
