//! Findings for people, in the form of rustc: the message, the place, and the line with a mark.

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use super::code::Severity;
use super::finding::Finding;
use crate::io::output::one_line;
use crate::io::terminal::Terminal;

/// Returns a finding, with an empty line after it.
pub(super) fn print(finding: &Finding, terminal: &Terminal) -> String {
    let Finding { code, severity, file, line, column, source, object, field, message } = finding;
    let level = match severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Info => Level::NOTE,
    };
    // Text of files is shown without the control characters that a terminal would obey.
    let (object, field) = (one_line(object), one_line(field));
    let title = level.primary_title(one_line(message)).id(code.as_str());
    let group = Group::with_title(title);
    let group = match (file, line, column, source) {
        (Some(file), Some(line), Some(column), Some(source)) => {
            let source = one_line(source);
            let mark = AnnotationKind::Primary.span(key(&source, *column)).label(code.title());
            group.element(Snippet::source(source).line_start(*line).path(one_line(file)).annotation(mark))
        }
        (Some(file), Some(line), ..) => group.element(Origin::path(one_line(file)).line(*line)),
        _ => group.element(Origin::path(object.clone())),
    };
    let subject = if field.is_empty() { object } else { format!("{field} of {object}") };
    let group = group.element(Level::NOTE.with_name("in").message(subject));
    let renderer = if terminal.has_colour() { Renderer::styled() } else { Renderer::plain() };
    let renderer = match terminal.width() {
        Some(width) => renderer.term_width(width),
        None => renderer,
    };
    format!("{}\n\n", renderer.render(&[group]))
}

/// Returns the bytes of the key at a column: up to its colon, or to the end of the line.
fn key(line: &str, column: usize) -> std::ops::Range<usize> {
    let begin = line.char_indices().nth(column.saturating_sub(1)).map_or(line.len(), |(begin, _)| begin);
    let rest = line.get(begin..).unwrap_or_default();
    let key = rest.split(": ").next().unwrap_or_default().trim_end().trim_end_matches(':');
    begin..begin.saturating_add(key.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_below_the_key() {
        for (line, column, marked) in [
            ("    fieldRef: {path: .spec.a}", 5, "fieldRef"),
            ("    fieldRef: {path: .spec.a}", 16, "path"),
            ("ä: {ö: 1}", 5, "ö"),
            ("spec:", 1, "spec"),
            ("- a", 3, "a"),
            ("a", 9, ""),
        ] {
            assert_eq!(&line[key(line, column)], marked, "{line}");
        }
    }
}
