//! Examples in the help of each command. A test parses each line as a shell would pass it.

use clap::Command;

/// Examples: the names of a command and its subcommand in brackets, then the lines of the help.
const EXAMPLES: &str = include_str!("examples.txt");

/// Returns the names of each command with its examples.
fn examples() -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
    let blocks = EXAMPLES.split("\n[").map(|block| block.trim_start_matches('['));
    let blocks = blocks.filter_map(|block| block.split_once("]\n"));
    blocks.map(|(names, lines)| (names.split_whitespace().collect(), lines.trim_end_matches('\n')))
}

/// Adds the examples to the help of each command.
pub(super) fn add(command: Command) -> Command {
    examples().fold(command, |command, (names, lines)| add_to(command, &names, lines))
}

fn add_to(command: Command, path: &[&'static str], lines: &str) -> Command {
    match path {
        // A command without such a subcommand stays as it is: `mut_subcommand` would panic.
        [first, rest @ ..] if command.find_subcommand(first).is_some() => {
            command.mut_subcommand(*first, |inner| add_to(inner, rest, lines))
        }
        [_, ..] => command,
        [] => command.after_help(format!("Examples:\n{lines}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(command: &Command, path: &[String], all: &mut Vec<Vec<String>>) {
        all.push(path.to_vec());
        for inner in command.get_subcommands() {
            commands(inner, &[path, &[inner.get_name().to_owned()]].concat(), all);
        }
    }

    #[test]
    fn each_command_has_examples_and_each_example_a_command() {
        let mut all = Vec::new();
        commands(&crate::command(), &[], &mut all);
        all.sort();
        let mut shown: Vec<Vec<String>> =
            examples().map(|(names, _)| names.into_iter().map(str::to_owned).collect()).collect();
        shown.sort();
        assert_eq!(all, shown);
    }

    #[test]
    fn each_example_is_a_valid_command_line_of_its_command() {
        for (command, lines) in examples() {
            for example in lines.split("\n\n") {
                let (purpose, line) = example.split_once('\n').expect(example);
                let own = line.split_once("kubectl depguard").map(|(_, rest)| rest).expect(line);
                let words = own.split(['|', '>', ')']).next().unwrap_or_default().split_whitespace();
                let words: Vec<_> = ["kubectl-depguard"].into_iter().chain(words).collect();
                let parsed = crate::command().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
                assert!(command.iter().all(|name| words.contains(name)), "{line}");
                let purpose = purpose.strip_prefix("  # ").expect(purpose);
                assert!(!purpose.ends_with('.') && !purpose.is_empty(), "{purpose}");
            }
        }
    }
}
