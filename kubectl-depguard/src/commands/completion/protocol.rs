//! Protocol of kubectl's completion: the typed words come as arguments; the answer has one candidate a line, each with
//! its description after a tab, and a directive for the shell on the last line.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Command;

use super::candidates::{self, Candidates};
use super::dynamic;
use crate::io::exit::{Failure, Outcome};
use crate::io::terminal::Terminal;

/// Name by which kubectl runs a plugin to complete its words.
pub(super) const COMPLETION_PROGRAM: &str = "kubectl_complete-depguard";
/// First argument of a completion under the plugin's own name.
const COMPLETE: &str = "__complete";
/// Directives of cobra, which completes kubectl's words: the shell adds file names, or adds none.
const FILES: &str = ":0";
const NO_FILES: &str = ":4";

/// Returns the typed words if the program was called for completion: under the name for that, or with the argument for
/// that.
pub(crate) fn typed_words(args: &[OsString]) -> Option<&[OsString]> {
    let (program, words) = args.split_first()?;
    if Path::new(program).file_stem() == Some(OsStr::new(COMPLETION_PROGRAM)) {
        return Some(words);
    }
    words.split_first().filter(|(first, _)| *first == COMPLETE).map(|(_, words)| words)
}

/// Prints the candidates for the last of these words of the command.
pub(crate) async fn complete(
    mut command: Command,
    words: &[OsString],
    terminal: &mut Terminal,
) -> Result<Outcome, Failure> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    command.build();
    let (typed, asked) = candidates::of_line(&command, &words);
    let Candidates { mut words, files } = asked.known;
    if let Some(subject) = &asked.subject {
        let names = dynamic::read(subject, &asked.flags).await;
        words.extend(names.into_iter().map(|(name, about)| (format!("{}{name}", asked.prefix), about)));
    }
    words.retain(|(word, _)| word.starts_with(typed));
    for (word, about) in words {
        writeln!(terminal.out(), "{word}\t{about}")?;
    }
    writeln!(terminal.out(), "{}", if files { FILES } else { NO_FILES })?;
    Ok(Outcome::Well)
}
