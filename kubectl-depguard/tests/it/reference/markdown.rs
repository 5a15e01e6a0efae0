//! Command line as Markdown: a section for each command, with a table of its flags.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// Writes the whole of a built command line.
pub(crate) fn print(root: &Command) -> String {
    let mut text = format!("# {}\n\n<!-- Generated from the code by a test; do not edit. -->\n\n", called(root));
    describe(&mut text, root);
    if commands(root).next().is_some() {
        text.push_str(&commands_table(root));
    }
    for (title, global) in [("Flags", false), ("Flags of all commands", true)] {
        let own: Vec<_> = root.get_arguments().filter(|arg| arg.is_global_set() == global && is_own(arg)).collect();
        if !own.is_empty() {
            let _ = write!(text, "\n## {title}\n\n");
            table(&mut text, "flag", own.into_iter());
        }
    }
    for command in commands(root) {
        let _ = write!(text, "\n## {}\n\n", command.get_name());
        describe(&mut text, command);
        let usage = command.clone().render_usage().to_string();
        let _ = write!(text, "```text\n{}\n```\n", usage.trim_start_matches("Usage: "));
        for (what, positional) in [("argument", true), ("flag", false)] {
            let arguments = command.get_arguments();
            let own = arguments.filter(|arg| !arg.is_global_set() && arg.is_positional() == positional);
            let own: Vec<_> = own.filter(|arg| is_own(arg)).collect();
            if !own.is_empty() {
                text.push('\n');
                table(&mut text, what, own.into_iter());
            }
        }
    }
    text
}

/// Writes a table with a row for each command, linked to its section.
fn commands_table(root: &Command) -> String {
    let mut text = "| command | |\n|---|---|\n".to_owned();
    for command in commands(root) {
        let name = command.get_name();
        // Writing to a string can't fail.
        let _ = writeln!(text, "| [`{name}`](#{name}) | {} |", command.get_about().map(cell).unwrap_or_default());
    }
    text
}

/// Returns false for the flags that every program has.
fn is_own(argument: &Arg) -> bool {
    !matches!(argument.get_id().as_str(), "help" | "version")
}

fn commands(root: &Command) -> impl Iterator<Item = &Command> {
    root.get_subcommands().filter(|command| !command.is_hide_set())
}

fn called(command: &Command) -> String {
    command.get_bin_name().unwrap_or(command.get_name()).to_owned()
}

/// Writes the purpose of a command.
fn describe(text: &mut String, command: &Command) {
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        let _ = write!(text, "{about}\n\n");
    }
    if let Some(more) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        let _ = write!(text, "```text\n{}\n```\n\n", more.to_string().trim_end());
    }
}

fn table<'a>(text: &mut String, what: &str, arguments: impl Iterator<Item = &'a Arg>) {
    let _ = write!(text, "| {what} | |\n|---|---|\n");
    for argument in arguments.filter(|argument| !argument.is_hide_set()) {
        let _ = writeln!(text, "| {} | {} |", name(argument), meaning(argument));
    }
}

/// Returns the names of an argument: `-o`, `--output <FORMAT>`.
fn name(argument: &Arg) -> String {
    let value = argument.get_action().takes_values().then(|| {
        let names = argument.get_value_names().unwrap_or_default();
        names.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" ")
    });
    let value = value.unwrap_or_default();
    let short = argument.get_short().map(|short| format!("`-{short}`"));
    let long = argument.get_long().map(|long| format!("`{}`", format!("--{long} {value}").trim_end()));
    let names: Vec<_> = short.into_iter().chain(long).collect();
    if names.is_empty() { format!("`{value}`") } else { names.join(", ") }
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let mut text = help.map(cell).unwrap_or_default();
    if !argument.is_hide_default_value_set() && argument.get_action().takes_values() {
        for value in argument.get_default_values() {
            let _ = write!(text, " [default: {}]", value.to_string_lossy());
        }
    }
    for value in argument.get_possible_values().iter().filter(|value| !value.is_hide_set()) {
        let help = value.get_help().map(|help| format!(": {}", cell(help))).unwrap_or_default();
        let _ = write!(text, "<br>`{}`{help}", value.get_name());
    }
    text
}

/// Returns a text for a table cell: on one line, and without characters that end a cell.
fn cell(text: &clap::builder::StyledStr) -> String {
    text.to_string().trim().replace("\n\n", "<br>").replace('\n', " ").replace('|', "\\|")
}
