//! Workflow commands of GitHub Actions: each problem at its line of the change.

use super::{CheckList, Level, Place, Problem};

/// Returns one workflow command for each problem, and for each reason why some may be missing.
pub(super) fn print(list: &CheckList) -> String {
    let mut text = String::new();
    for problem in list.problems() {
        text.push_str(&annotation(problem));
        text.push('\n');
    }
    for gap in &list.gaps {
        text.push_str(&format!("::error title=incomplete::{}\n", data(gap)));
    }
    text
}

fn annotation(problem: &Problem) -> String {
    let Problem { level, place, title, message, .. } = problem;
    let command = match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "notice",
    };
    let mut properties = Vec::new();
    if let Some(place @ Place { line, .. }) = place {
        properties.extend([format!("file={}", property(place.path())), format!("line={line}")]);
    }
    properties.push(format!("title={}", property(title)));
    format!("::{command} {}::{}", properties.join(","), data(message))
}

/// Escapes a message. Other control characters would reach the terminal that shows the log.
fn data(text: &str) -> String {
    let escaped = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    escaped.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
