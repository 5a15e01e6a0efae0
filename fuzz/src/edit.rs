//! Edits of a good document. Random bytes alone hardly ever get past the first brace.

/// Edit: replaces `remove` bytes at `at` by the piece that `insert` chooses. Positions wrap around.
pub type Edit = (u16, u8, u8);

/// Pieces to insert: parts of JSON and paths, and characters that they must not contain.
const PIECES: [&str; 29] = [
    "",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "true",
    "0",
    "1e400",
    "\\",
    "\\u0000",
    "\\ud800",
    "\u{0}",
    "\u{e9}",
    ".",
    "[*]",
    "['",
    "']",
    "a",
    "\"a\"",
    "\"\\u0061\"",
    "{\"name\":\"a\"}",
    "\"continue\":\"x\",",
    "\"items\":[]",
    "\"metadata\":{},",
    " ",
];

/// Returns the document after the edits, one after the other.
pub fn edited(document: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = document.to_vec();
    for (at, remove, insert) in edits {
        let start = usize::from(*at) % (bytes.len() + 1);
        let end = (start + usize::from(remove % 8)).min(bytes.len());
        let piece = PIECES[usize::from(*insert) % PIECES.len()];
        bytes.splice(start..end, piece.bytes());
    }
    bytes
}
