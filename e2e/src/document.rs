//! Documents under `docs/`, read as steps for a reader. A test takes the steps and compares the output with the
//! document.
//!
//! A line after `$ ` in a `console` block is a command; the lines that follow are its output. In these lines, `…`
//! stands for a part that differs from one run to another. A comment before the block describes a special case:
//!
//! | `<!-- …: … -->` | |
//! |---|---|
//! | `test: what` | a step of the test that readers do not take; no block belongs to this comment |
//! | `file: name` | the block, in any language, is the content of this file |
//! | `not run: why` | the test skips the block |
//! | `exits with: 1` | the block's last command ends with this exit code, not with 0 |
//! | `once: what` | the test repeats each command until its output is as expected; also `once, exits with 1: what` |
//! | `in another terminal: why` | the commands keep running; the test only waits until their expected output appears |

use crate::outcome::{Outcome, Stop, ensure};

/// Next step of a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `<!-- test: … -->`
    Test(String),
    /// A block of code after `<!-- file: … -->`.
    File {
        /// The file's name.
        name: String,
        /// The file's content.
        text: String,
    },
    /// A line after `$ ` in a `console` block.
    Command(Command),
}

/// A command and its expected output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The command without the `$ `. If it has several lines, each but the last ends in a backslash.
    pub line: String,
    /// The expected lines of output.
    pub prints: Vec<String>,
    /// The way to run the command.
    pub how: Execution,
    /// The number of lines in the document before the lines of `prints`.
    pub at: usize,
}

impl Command {
    /// Returns true if `printed` is the expected output.
    pub fn is_like(&self, printed: &str) -> bool {
        difference(&self.prints, printed).is_none()
    }
}

/// Way to run a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// Runs until the command ends with this exit code.
    Exits(i32),
    /// Runs again and again, until the command prints the expected output and ends with this exit code.
    Once(i32),
    /// Runs in the background of all steps that follow.
    Aside,
}

/// Returns the lines under the heading `## …`.
pub fn section<'a>(document: &'a str, heading: &str) -> Outcome<&'a str> {
    let none = || Stop::Failed(format!("there is nothing under `{heading}`"));
    let (_, rest) = document.split_once(&format!("## {heading}\n")).ok_or_else(none)?;
    Ok(rest.split("\n## ").next().unwrap_or_default())
}

/// Reads the steps of a document, or of one section.
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
        Some(("once", _)) => Execution::Once(0),
        Some(("once, exits with 1", _)) => Execution::Once(1),
        Some(("in another terminal", _)) => Execution::Aside,
        _ => Execution::Exits(0),
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
        last.how = Execution::Exits(code.parse()?);
    }
    Ok(commands)
}

/// Looks for the lines of `prints` in `printed`, in their order. Returns the first line that is missing, or `None`.
pub fn missing<'a>(prints: &'a [String], printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines();
    prints.iter().map(String::as_str).find(|expected| !printed.any(|line| is_like(line.trim_end(), expected)))
}

/// Describes the first difference between `printed` and `prints`; `None` if they match.
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

/// Ensures that [`difference`] notices each change to the expected lines: one line removed, one added, one altered.
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

    fn command(line: &str, prints: &[&str], how: Execution, at: usize) -> Step {
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
            command("one \\\n  --more", &[], Execution::Exits(0), 9),
            command("two", &["some…thing …"], Execution::Exits(0), 10),
            command("four", &[""], Execution::Exits(0), 19),
            command("five", &[], Execution::Exits(2), 21),
        ];
        assert_eq!(steps(section(document, "B").unwrap()).unwrap(), expected);
        assert!(section(document, "D").is_err() && steps("text\n").is_err());
        let hows = [
            ("once", Execution::Once(0)),
            ("once, exits with 1", Execution::Once(1)),
            ("in another terminal", Execution::Aside),
        ];
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
