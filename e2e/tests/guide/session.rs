//! The README's picture of a terminal: commands of the guide with their output, which the guide's test has compared.

use std::fmt::Write as _;

use depguard_e2e::document::{Step, steps};
use depguard_e2e::{Outcome, Stop, ensure};

use crate::{folder, is_written};

const PICTURE: &str = "docs/session.svg";

/// Beginnings of the commands in the picture, in this order.
const SHOWN: [&str; 4] = [
    "kubectl delete vpc shop",
    "kubectl depguard why vpc shop",
    "kubectl depguard impact vpc shop",
    "kubectl depguard order",
];

/// Characters in a line; a longer line continues on the next one, at a space.
const COLUMNS: usize = 108;
/// Width of a character and height of a line, in pixels.
const WIDTH: f32 = 8.43;
const HEIGHT: usize = 20;
/// Space above the first line and at the edges, in pixels.
const HEAD: usize = 40;
const MARGIN: usize = 16;
/// Seconds between a command and its output, and from there to the next command.
const PAUSES: (f32, f32) = (0.9, 2.4);

/// Checks that the committed picture is the one that the guide gives.
pub(crate) fn is_current() -> Outcome {
    let picture = draw(&shown()?);
    let path = folder().join(PICTURE);
    if is_written() {
        std::fs::write(&path, &picture)?;
    }
    ensure(picture.len() < 60_000, || format!("{PICTURE} has {} bytes", picture.len()))?;
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    ensure(found == picture, || {
        format!("{PICTURE} is not what the guide shows; with DEPGUARD_WRITE=1 this test draws it")
    })
}

/// Returns the commands of the picture, each with its output.
fn shown() -> Outcome<Vec<(String, Vec<String>)>> {
    let guide = std::fs::read_to_string(folder().join("docs/guide.md"))?;
    let mut steps = steps(&guide)?.into_iter();
    let find = |shown: &&str| {
        let found = steps.find_map(|step| match step {
            Step::Command(command) if command.line.starts_with(shown) => Some((command.line, command.prints)),
            _ => None,
        });
        found.ok_or_else(|| Stop::Failed(format!("the guide has no `{shown}` behind the one before")))
    };
    SHOWN.iter().map(find).collect()
}

fn draw(session: &[(String, Vec<String>)]) -> String {
    let (mut groups, mut row, mut at) = (String::new(), 0, 0.4);
    for (command, prints) in session {
        let typed: Vec<String> = command
            .lines()
            .enumerate()
            .map(|(n, line)| if n == 0 { format!("$ {line}") } else { line.to_owned() })
            .collect();
        group(&mut groups, "typed", &typed, at, &mut row);
        group(&mut groups, "said", prints, at + PAUSES.0, &mut row);
        (row, at) = (row + 1, at + PAUSES.0 + PAUSES.1);
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some hundred pixels"
    )]
    let width = (COLUMNS as f32 * WIDTH) as usize + 2 * MARGIN;
    let height = HEAD + row * HEIGHT + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>kubectl depguard in a terminal: the commands of docs/guide.md</title>\n\
         <style>\n\
         text {{ font: 14px ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre; fill: #c9d1d9; }}\n\
         .typed text {{ fill: #ffffff; font-weight: bold; }}\n\
         g {{ animation: show .2s both; }}\n\
         @keyframes show {{ from {{ opacity: 0; }} to {{ opacity: 1; }} }}\n\
         @media (prefers-reduced-motion: reduce) {{ g {{ animation: none; }} }}\n\
         </style>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#161b22\"/>\n\
         <circle cx=\"20\" cy=\"18\" r=\"6\" fill=\"#ff5f57\"/><circle cx=\"40\" cy=\"18\" r=\"6\" fill=\"#febc2e\"/>\
         <circle cx=\"60\" cy=\"18\" r=\"6\" fill=\"#28c840\"/>\n\
         {groups}</svg>\n"
    )
}

/// Adds lines that appear together, `at` seconds after the picture.
fn group(text: &mut String, class: &str, lines: &[String], at: f32, row: &mut usize) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "<g class=\"{class}\" style=\"animation-delay: {at:.1}s\">");
    for line in lines.iter().flat_map(|line| wrapped(line)) {
        let y = HEAD + *row * HEIGHT + 14;
        let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = writeln!(text, "<text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\">{line}</text>");
        *row += 1;
    }
    text.push_str("</g>\n");
}

/// Breaks a line at spaces, and within a word only if the word is longer than a line.
fn wrapped(line: &str) -> Vec<&str> {
    let (mut lines, mut rest) = (Vec::new(), line);
    while let Some((end, _)) = rest.char_indices().nth(COLUMNS) {
        let head = &rest[..end];
        let end = head.rfind(' ').filter(|space| !head[..*space].trim().is_empty()).unwrap_or(end);
        lines.push(rest[..end].trim_end());
        rest = rest[end..].trim_start();
    }
    lines.push(rest);
    lines
}
