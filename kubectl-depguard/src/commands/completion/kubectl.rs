//! Completion through kubectl. kubectl runs `kubectl_complete-depguard` with the typed words. It reads one candidate a
//! line, and a directive for the shell on the last line.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, Command};

use crate::io::exit::{Failure, Outcome};
use crate::io::terminal::Terminal;

/// Name by which kubectl runs a plugin to complete its words.
const COMPLETION_PROGRAM: &str = "kubectl_complete-depguard";
/// Directives of cobra, which completes kubectl's words: the shell adds file names, or adds none.
const FILES: &str = ":0";
const NO_FILES: &str = ":4";

/// Candidates for the last word, each with its description.
#[derive(Debug, PartialEq, Eq)]
struct Candidates {
    words: Vec<(String, String)>,
    /// True if a file name is possible, too.
    files: bool,
}

/// Returns true if kubectl called this program for completion, under the name for that.
pub(crate) fn is_completion_call(program: Option<&OsString>) -> bool {
    let stem = program.and_then(|program| Path::new(program).file_stem());
    stem == Some(OsStr::new(COMPLETION_PROGRAM))
}

/// Prints the candidates for the last of these words of the command.
pub(crate) fn complete(mut command: Command, words: &[OsString], terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    command.build();
    let Candidates { words, files } = candidates(&command, &words);
    for (word, about) in words {
        writeln!(terminal.out(), "{word}\t{about}")?;
    }
    writeln!(terminal.out(), "{}", if files { FILES } else { NO_FILES })?;
    Ok(Outcome::Well)
}

fn candidates(root: &Command, words: &[String]) -> Candidates {
    let (typed, before) = words.split_last().map_or(("", &[][..]), |(typed, before)| (typed.as_str(), before));
    let (mut command, mut value_of, mut positional) = (root, None, 1_usize);
    for word in before {
        if value_of.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            value_of = flag(command, word).filter(|flag| takes_value(flag) && !word.contains('='));
        } else if let Some(inner) = command.find_subcommand(word) {
            (command, positional) = (inner, 1);
        } else {
            positional = positional.saturating_add(1);
        }
    }
    let mut found = match (value_of, typed.split_once('=').filter(|_| typed.starts_with("--"))) {
        (Some(flag), _) => values(flag, ""),
        (None, Some((name, _))) => match flag(command, name) {
            Some(flag) => values(flag, &format!("{name}=")),
            None => Candidates { words: Vec::new(), files: false },
        },
        (None, None) if typed.starts_with('-') => Candidates { words: flags(command), files: false },
        (None, None) => {
            let argument = command.get_positionals().find(|argument| argument.get_index() == Some(positional));
            let mut found = argument.map_or(Candidates { words: Vec::new(), files: false }, |found| values(found, ""));
            let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set());
            found.words.extend(inner.map(|inner| (inner.get_name().to_owned(), first_line(inner.get_about()))));
            found
        }
    };
    found.words.retain(|(word, _)| word.starts_with(typed));
    found
}

/// Returns the possible values of an argument; file names if any text is possible.
fn values(argument: &Arg, before: &str) -> Candidates {
    let values = argument.get_possible_values();
    let files = values.is_empty();
    let words = values.iter().filter(|value| !value.is_hide_set());
    let words = words.map(|value| (format!("{before}{}", value.get_name()), first_line(value.get_help())));
    Candidates { words: words.collect(), files }
}

fn flags(command: &Command) -> Vec<(String, String)> {
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    shown.filter_map(|flag| Some((format!("--{}", flag.get_long()?), first_line(flag.get_help())))).collect()
}

fn flag<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let name = word.split('=').next().unwrap_or_default();
    command.get_arguments().find(|argument| match name.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        None => argument.get_short().is_some_and(|short| name == format!("-{short}")),
    })
}

fn takes_value(flag: &Arg) -> bool {
    flag.get_action().takes_values() && !flag.is_require_equals_set()
}

fn first_line(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}
