//! Candidates for the last word of a command line: those that the command line itself knows, and the subject of those
//! that must be read.

use clap::{Arg, ArgAction, Command};

/// Candidates for the last word, each with its description.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub(super) words: Vec<(String, String)>,
    /// True if a file name is possible, too.
    pub(super) files: bool,
}

/// Last word of a command line, as far as the command line explains it.
#[derive(Debug, Default)]
pub(super) struct LastWord {
    pub(super) known: Candidates,
    pub(super) subject: Option<Subject>,
    /// Text before each name of the subject.
    pub(super) prefix: String,
    /// Words of the line that choose the API server, the files and the namespace.
    pub(super) flags: Vec<String>,
}

/// Names that an API server, files, the kubeconfig or this program itself has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Namespaces,
    Contexts,
    Clusters,
    Users,
    /// Packs of ready-made rules.
    Packs,
    Kinds,
    /// Objects of a kind, which is as it was typed.
    Objects(String),
}

/// Flags that choose the API server, the files and the namespace, by their long names.
const CHOOSING: [&str; 15] = [
    "namespace",
    "all-namespaces",
    "kubeconfig",
    "context",
    "as",
    "as-group",
    "as-uid",
    "cluster",
    "user",
    "server",
    "token",
    "insecure-skip-tls-verify",
    "request-timeout",
    "filename",
    "recursive",
];

/// Name of an argument whose first word is a place or the kind of objects.
const PLACE_OR_OBJECT: &str = "NAMESPACE|WORKSPACE|OBJECT";

/// Line read word by word, up to the last.
struct Line<'c> {
    command: &'c Command,
    /// Flag that waits for its value.
    pending: Option<&'c Arg>,
    positionals: Vec<&'c str>,
    flags: Vec<String>,
}

/// Returns the last word as it was typed, and what the command line knows about it.
pub(super) fn of_line<'w>(root: &'w Command, words: &'w [String]) -> (&'w str, LastWord) {
    let (typed, before) = words.split_last().map_or(("", &[][..]), |(typed, before)| (typed.as_str(), before));
    let mut line = Line { command: root, pending: None, positionals: Vec::new(), flags: Vec::new() };
    before.iter().for_each(|word| line.read(word));
    (typed, line.last_word(typed))
}

impl<'c> Line<'c> {
    fn read(&mut self, word: &'c str) {
        if let Some(flag) = self.pending.take() {
            self.choose(flag, Some(word));
        } else if word.starts_with('-') && word != "-" {
            let Some(flag) = flag(self.command, word) else { return };
            let value = word.split_once('=').map(|(_, value)| value);
            if value.is_none() && takes_value(flag) {
                self.pending = Some(flag);
            } else {
                self.choose(flag, value);
            }
        } else if let Some(inner) = self.command.find_subcommand(word) {
            self.command = inner;
            self.positionals.clear();
        } else {
            self.positionals.push(word);
        }
    }

    /// Keeps a flag that chooses the API server, the files or the namespace.
    fn choose(&mut self, flag: &Arg, value: Option<&str>) {
        let Some(long) = flag.get_long().filter(|long| CHOOSING.contains(long)) else { return };
        self.flags.push(match value {
            Some(value) => format!("--{long}={value}"),
            None => format!("--{long}"),
        });
    }

    fn last_word(self, typed: &str) -> LastWord {
        let assigned = typed.split_once('=').filter(|_| typed.starts_with("--"));
        let mut last = match (self.pending, assigned) {
            (Some(flag), _) => values(flag, ""),
            (None, Some((name, _))) => {
                flag(self.command, name).map(|flag| values(flag, &format!("{name}="))).unwrap_or_default()
            }
            (None, None) if typed.starts_with('-') => {
                LastWord { known: Candidates { words: flags(self.command), files: false }, ..LastWord::default() }
            }
            (None, None) => self.positional(typed),
        };
        last.flags = self.flags;
        last
    }

    /// Returns the candidates for a word that is no flag: values of an argument, objects, and subcommands.
    fn positional(&self, typed: &str) -> LastWord {
        let arguments: Vec<_> = self.command.get_positionals().collect();
        let repeated = arguments.last().filter(|last| matches!(last.get_action(), ArgAction::Append));
        let argument = arguments.get(self.positionals.len()).or(repeated).copied();
        let mut last = argument.map(|argument| values(argument, "")).unwrap_or_default();
        let takes_objects = |first: &&Arg| is_named(first, "OBJECT") || is_named(first, PLACE_OR_OBJECT);
        if arguments.first().is_some_and(takes_objects) {
            (last.subject, last.prefix) = match (typed.split_once('/'), self.positionals.first()) {
                (Some((kind, _)), _) => (Some(Subject::Objects(kind.to_owned())), format!("{kind}/")),
                (None, None) => (Some(last.subject.unwrap_or(Subject::Kinds)), String::new()),
                (None, Some(first)) if argument.is_some() && !first.contains('/') => {
                    (Some(Subject::Objects((*first).to_owned())), String::new())
                }
                (None, Some(_)) => (None, String::new()),
            };
        }
        let inner = self.command.get_subcommands().filter(|inner| !inner.is_hide_set());
        last.known.words.extend(inner.map(|inner| (inner.get_name().to_owned(), first_line(inner.get_about()))));
        last
    }
}

/// Returns the possible values of an argument, with `before` in front of each: those that are known, and the subject
/// of those that must be read.
fn values(argument: &Arg, before: &str) -> LastWord {
    let subject = match (argument.get_id().as_str(), argument.is_positional()) {
        ("namespace", false) | ("subject", true) => Some(Subject::Namespaces),
        ("context", false) => Some(Subject::Contexts),
        ("cluster", false) => Some(Subject::Clusters),
        ("user", false) => Some(Subject::Users),
        (_, true) if is_named(argument, "PACK") => Some(Subject::Packs),
        _ => None,
    };
    let values = argument.get_possible_values();
    let words = values.iter().filter(|value| !value.is_hide_set());
    let words = words.map(|value| (format!("{before}{}", value.get_name()), first_line(value.get_help())));
    let known = Candidates { words: words.collect(), files: takes_file(argument) };
    LastWord { known, subject, prefix: before.to_owned(), flags: Vec::new() }
}

/// Returns true if the argument names a file or a folder.
fn takes_file(argument: &Arg) -> bool {
    ["FILE", "DIR"].iter().any(|name| is_named(argument, name))
}

fn is_named(argument: &Arg, name: &str) -> bool {
    argument.get_value_names().is_some_and(|names| names.first().is_some_and(|own| own.as_str() == name))
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
