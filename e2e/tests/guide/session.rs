//! The README's picture of a terminal: commands of the guide with their output, which the guide's test has compared, in
//! the colours that a terminal shows.

use std::fmt::Write as _;
use std::ops::Range;

use depguard_e2e::document::{Step, difference, steps};
use depguard_e2e::{Outcome, Stop, ensure};

use crate::{folder, is_written};

/// Document with the commands.
pub(crate) const GUIDE: &str = "docs/guide.md";
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

/// Escape sequences of a terminal, and the classes of the picture that stand for them.
const STYLES: [(&str, &str); 6] =
    [("0", ""), ("1", "strong"), ("2", "faint"), ("31", "bad"), ("32", "good"), ("33", "warning")];

/// Line of a command, and its output in colour.
pub(crate) type ColouredOutput = (String, String);

/// Part of a line in one style.
struct Span {
    class: &'static str,
    text: String,
}

/// Returns the line that prints the output of a command of the picture in colour; `None` for any other command.
pub(crate) fn in_colour(line: &str) -> Option<String> {
    let is_shown = line.starts_with("kubectl depguard") && SHOWN.iter().any(|shown| line.starts_with(shown));
    is_shown.then(|| format!("{line} --color=always"))
}

/// Checks that the committed picture is the one that the guide gives. `coloured`: the output of the guide's commands.
pub(crate) fn is_current(coloured: &[ColouredOutput]) -> Outcome {
    let picture = draw(&shown(coloured)?);
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

/// Returns the commands of the picture, each with the lines of its output.
fn shown(coloured: &[ColouredOutput]) -> Outcome<Vec<(String, Vec<Vec<Span>>)>> {
    let guide = std::fs::read_to_string(folder().join(GUIDE))?;
    let mut steps = steps(&guide)?.into_iter();
    let find = |shown: &&str| {
        let found = steps.find_map(|step| match step {
            Step::Command(command) if command.line.starts_with(shown) => Some((command.line, command.prints)),
            _ => None,
        });
        found.ok_or_else(|| Stop::Failed(format!("the guide has no `{shown}` behind the one before")))
    };
    let mut coloured = coloured.iter();
    let session = SHOWN.iter().map(find).map(|found| {
        let (line, prints) = found?;
        let printed = match in_colour(&line) {
            None => prints.join("\n"),
            Some(_) => {
                let (_, printed) = coloured.find(|(own, _)| *own == line).ok_or_else(|| Stop::failed("no colours"))?;
                printed.clone()
            }
        };
        let lines = printed.lines().map(spans).collect::<Outcome<Vec<_>>>()?;
        let plain: Vec<_> = lines.iter().map(|spans| plain(spans)).collect();
        match difference(&prints, &plain.join("\n")) {
            None => Ok((line, lines)),
            Some(why) => Err(Stop::Failed(format!("`{line}` in colour: {why}"))),
        }
    });
    session.collect()
}

/// Splits a line at its escape sequences.
fn spans(line: &str) -> Outcome<Vec<Span>> {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default();
    let mut spans = vec![Span { class: "", text: first.to_owned() }];
    for part in parts {
        let style = part.split_once('m').and_then(|(code, text)| {
            let (_, class) = STYLES.iter().find(|(known, _)| *known == code)?;
            Some(Span { class, text: text.to_owned() })
        });
        spans.push(style.ok_or_else(|| Stop::Failed(format!("no style is known for: {part}")))?);
    }
    Ok(spans)
}

fn plain(spans: &[Span]) -> String {
    spans.iter().map(|span| span.text.as_str()).collect()
}

fn draw(session: &[(String, Vec<Vec<Span>>)]) -> String {
    let (mut groups, mut row, mut at) = (String::new(), 0, 0.4);
    for (command, prints) in session {
        let typed = command.lines().enumerate().map(|(n, line)| {
            let text = if n == 0 { format!("$ {line}") } else { line.to_owned() };
            vec![Span { class: "", text }]
        });
        let typed: Vec<_> = typed.collect();
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
         .typed text, .strong {{ fill: #ffffff; font-weight: bold; }}\n\
         .faint {{ fill: #8b949e; }}\n\
         .good {{ fill: #3fb950; }}\n\
         .warning {{ fill: #d29922; }}\n\
         .bad {{ fill: #ff7b72; }}\n\
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
fn group(text: &mut String, class: &str, lines: &[Vec<Span>], at: f32, row: &mut usize) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "<g class=\"{class}\" style=\"animation-delay: {at:.1}s\">");
    for spans in lines {
        for range in wrapped(&plain(spans)) {
            let y = HEAD + *row * HEIGHT + 14;
            let line = marked(spans, &range);
            let _ = writeln!(text, "<text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\">{line}</text>");
            *row += 1;
        }
    }
    text.push_str("</g>\n");
}

/// Returns the part of a line as SVG text, with its styles.
fn marked(spans: &[Span], range: &Range<usize>) -> String {
    let (mut text, mut start) = (String::new(), 0);
    for span in spans {
        let end = start + span.text.len();
        let (from, to) = (range.start.clamp(start, end) - start, range.end.clamp(start, end) - start);
        let part = span.text[from..to].replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        match (part.is_empty(), span.class) {
            (true, _) => {}
            (false, "") => text.push_str(&part),
            (false, class) => text.push_str(&format!("<tspan class=\"{class}\">{part}</tspan>")),
        }
        start = end;
    }
    text
}

/// Breaks a line at spaces, and within a word only if the word is longer than a line.
fn wrapped(line: &str) -> Vec<Range<usize>> {
    let (mut lines, mut start) = (Vec::new(), 0);
    while let Some((end, _)) = line[start..].char_indices().nth(COLUMNS) {
        let head = &line[start..start + end];
        let end = start + head.rfind(' ').filter(|space| !head[..*space].trim().is_empty()).unwrap_or(end);
        lines.push(start..start + line[start..end].trim_end().len());
        start = line.len() - line[end..].trim_start().len();
    }
    lines.push(start..line.len());
    lines
}
