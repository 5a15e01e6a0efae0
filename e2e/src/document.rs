//! Documents under `docs/`, as what they tell a reader to do. A test does it, and compares what is printed.
//!
//! A line after `$ ` in a `console` block is a command; what follows is what it prints, in which `…` stands for what
//! differs from one time to another within a line. A comment before the block says what is particular about it:
//!
//! | `<!-- …: … -->` | |
//! |---|---|
//! | `test: what` | something that the test does, and no reader; no block belongs to it |
//! | `file: name` | the block, in whatever language, is this file |
//! | `not run: why` | the block is not looked at |
//! | `exits with: 1` | the block's last command ends with this exit code, and not with 0 |
//! | `once: what` | the block's commands are tried until they print this: it takes its time; `once, exits with 1: what` likewise |
//! | `in another terminal: why` | the block's commands go on, and are waited for only until they print this |

use crate::outcome::{Outcome, Stop, ensure};

/// What a reader does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `<!-- test: … -->`
    Test(String),
    /// A block of code after `<!-- file: … -->`.
    File {
        /// Its name.
        name: String,
        /// What is in it.
        text: String,
    },
    /// A line after `$ `.
    Command(Command),
}

/// A command, and what it prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Without the `$ `; of several lines, where each but the last ends in a backslash.
    pub line: String,
    /// The lines that follow.
    pub prints: Vec<String>,
    /// How it is run.
    pub how: How,
    /// The number of the document's lines before those in `prints`.
    pub at: usize,
}

impl Command {
    /// Whether that is what it prints.
    pub fn is_like(&self, printed: &str) -> bool {
        difference(&self.prints, printed).is_none()
    }
}

/// How a command is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Until it ends, with this exit code.
    Exits(i32),
    /// Again and again, until it prints what it should and ends with this exit code.
    Once(i32),
    /// Beside all that follows.
    Aside,
}

/// The lines under the heading `## …`.
pub fn section<'a>(document: &'a str, heading: &str) -> Outcome<&'a str> {
    let none = || Stop::Failed(format!("there is nothing under `{heading}`"));
    let (_, rest) = document.split_once(&format!("## {heading}\n")).ok_or_else(none)?;
    Ok(rest.split("\n## ").next().unwrap_or_default())
}

/// The steps of a document, or of one section.
pub fn steps(document: &str) -> Outcome<Vec<Step>> {
    let mut lines = document.lines().enumerate();
    let (mut steps, mut comment) = (Vec::new(), None);
    while let Some((_, line)) = lines.next() {
        if let Some(text) = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->")) {
            match text.split_once(": ") {
                Some(("test", what)) => steps.push(Step::Test(what.to_owned())),
                said => comment = said,
            }
        } else if let Some(language) = line.strip_prefix("```") {
            let block: Vec<(usize, &str)> = lines.by_ref().take_while(|(_, line)| *line != "```").collect();
            match (comment.take(), language) {
                (Some(("file", name)), _) => {
                    let text = block.iter().flat_map(|(_, line)| [line, "\n"]).collect();
                    steps.push(Step::File { name: name.to_owned(), text });
                }
                (Some(("not run", _)), _) => {}
                (said, "console") => steps.extend(commands(&block, said)?.into_iter().map(Step::Command)),
                _ => {}
            }
        }
    }
    if steps.is_empty() { Err(Stop::failed("nothing is to be done")) } else { Ok(steps) }
}

fn commands(block: &[(usize, &str)], said: Option<(&str, &str)>) -> Outcome<Vec<Command>> {
    let how = match said {
        Some(("once", _)) => How::Once(0),
        Some(("once, exits with 1", _)) => How::Once(1),
        Some(("in another terminal", _)) => How::Aside,
        _ => How::Exits(0),
    };
    let mut lines = block.iter().copied().peekable();
    let mut commands = Vec::new();
    while let Some((mut at, line)) = lines.next() {
        let line = line.strip_prefix("$ ").ok_or_else(|| Stop::Failed(format!("not a command: `{line}`")))?;
        let mut line = line.to_owned();
        while line.ends_with('\\') {
            let (next, more) = lines.next().unwrap_or_default();
            (line, at) = (format!("{line}\n{more}"), next);
        }
        let mut prints = Vec::new();
        while let Some((_, printed)) = lines.next_if(|(_, line)| !line.starts_with("$ ")) {
            prints.push(printed.to_owned());
        }
        commands.push(Command { line, prints, how, at: at + 1 });
    }
    if let (Some(("exits with", code)), Some(last)) = (said, commands.last_mut()) {
        last.how = How::Exits(code.parse()?);
    }
    Ok(commands)
}

/// Whether all of these lines are among those, in their order; the first that is not, otherwise.
pub fn missing<'a>(prints: &'a [String], printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines();
    prints.iter().map(String::as_str).find(|expected| !printed.any(|line| is_like(line.trim_end(), expected)))
}

/// How these lines are not exactly those.
pub fn difference(prints: &[String], printed: &str) -> Option<String> {
    let printed: Vec<&str> = printed.lines().collect();
    let unlike = prints.iter().zip(&printed).find(|(expected, line)| !is_like(line.trim_end(), expected));
    if let Some((expected, line)) = unlike {
        return Some(format!("it prints `{line}` and not `{expected}`"));
    }
    if let Some(line) = printed.get(prints.len()) {
        return Some(format!("it prints `{line}`, too"));
    }
    prints.get(printed.len()).map(|expected| format!("it does not print `{expected}`"))
}

fn is_like(line: &str, expected: &str) -> bool {
    let mut parts = expected.trim_end().split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut open = false;
    for part in parts {
        open = part.is_empty();
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    open || rest.is_empty()
}

/// That a comparison sees whatever else is printed in the place of what it is like: a line less, one more, another one.
pub fn compares(prints: &[String], printed: &str) -> Outcome {
    let is_seen = |prints: &[String], what: &str| {
        ensure(difference(prints, printed).is_some(), || format!("{what} is not seen in what is printed: {printed}"))
    };
    is_seen(&[prints, &["one more".to_owned()]].concat(), "a line more")?;
    for index in 0..prints.len() {
        let mut other = prints.to_vec();
        other.remove(index);
        is_seen(&other, "a line less")?;
        let mut other = prints.to_vec();
        other.iter_mut().skip(index).take(1).for_each(|line| line.insert(0, '~'));
        is_seen(&other, "another line")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str, prints: &[&str], how: How, at: usize) -> Step {
        let prints = prints.iter().map(|line| (*line).to_owned()).collect();
        Step::Command(Command { line: line.to_owned(), prints, how, at })
    }

    #[test]
    fn a_document_is_read_as_what_is_to_be_done() {
        let document = "## A\n```console\n$ no\n```\n\n## B\nText.\n<!-- test: it rains -->\n<!-- file: a.yaml -->\n\
            ```yaml\na: b\n```\n```console\n$ one \\\n  --more\n$ two\nsome…thing …\n```\n<!-- not run: it hurts -->\n\
            ```console\n$ three\n```\n<!-- exits with: 2 -->\n```console\n$ four\n\n$ five\n```\n\n## C\n";
        let expected = [
            Step::Test("it rains".to_owned()),
            Step::File { name: "a.yaml".to_owned(), text: "a: b\n".to_owned() },
            command("one \\\n  --more", &[], How::Exits(0), 9),
            command("two", &["some…thing …"], How::Exits(0), 10),
            command("four", &[""], How::Exits(0), 19),
            command("five", &[], How::Exits(2), 21),
        ];
        assert_eq!(steps(section(document, "B").unwrap()).unwrap(), expected);
        assert!(section(document, "D").is_err() && steps("text\n").is_err());
        let hows = [("once", How::Once(0)), ("once, exits with 1", How::Once(1)), ("in another terminal", How::Aside)];
        for (comment, how) in hows {
            let document = format!("<!-- {comment}: it rains -->\n```console\n$ six\n```\n");
            assert_eq!(steps(&document).unwrap(), [command("six", &[], how, 3)]);
        }
    }

    #[test]
    fn what_differs_within_a_line_is_left_open() {
        for (line, expected, is) in [
            ("something else", "some…thing …", true),
            ("something", "something", true),
            ("something else", "something", false),
            ("nothing", "some…", false),
            ("a b c", "a … d", false),
        ] {
            assert_eq!(is_like(line, expected), is, "`{line}` and `{expected}`");
        }
    }

    #[test]
    fn each_difference_is_seen() {
        let prints = ["a …".to_owned(), String::new(), "b".to_owned()];
        assert_eq!(difference(&prints, "a 1\n\nb\n"), None);
        assert!(compares(&prints, "a 1\n\nb\n").is_ok() && compares(&[], "").is_ok());
        for other in ["a 1\n\nb\nc\n", "a 1\n\n", "b 1\n\nb\n", ""] {
            assert!(difference(&prints, other).is_some(), "{other}");
            assert!(missing(&prints, other).is_some() == (other != "a 1\n\nb\nc\n"), "{other}");
        }
    }
}
