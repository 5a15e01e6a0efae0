//! Text in XML documents.

use std::fmt::Write as _;

/// Escapes a text for attributes and for text between tags. A character that XML can't hold becomes U+FFFD.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            // XML readers replace each of these with a space, unless it is written as a number.
            '\t' | '\n' | '\r' => {
                // Writing to a string can't fail.
                let _ = write!(escaped, "&#{};", u32::from(c));
            }
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
