//! docs/operations.md, as what it tells a reader to do.

use depguard_e2e::{Outcome, Stop};

/// What a section says is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// `<!-- test: … -->`: something that the test does, and no reader.
    Test(String),
    /// A block of code after `<!-- file: … -->`.
    File { name: String, text: String },
    /// A line after `$ `, and what it prints: each line somewhere in this order, `…` standing for anything.
    Command { line: String, prints: Vec<String> },
}

/// The steps of the section with this heading. A block after `<!-- not run: … -->` is none.
pub(crate) fn steps(document: &str, heading: &str) -> Outcome<Vec<Step>> {
    let mut lines = document.lines().skip_while(|line| *line != format!("## {heading}")).skip(1);
    let (mut steps, mut comment) = (Vec::new(), None);
    while let Some(line) = lines.next().filter(|line| !line.starts_with("## ")) {
        if let Some(text) = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->")) {
            match text.split_once(": ") {
                Some(("test", what)) => steps.push(Step::Test(what.to_owned())),
                Some((what @ ("file" | "not run"), rest)) => comment = Some((what, rest)),
                _ => {}
            }
        } else if let Some(language) = line.strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            match comment.take() {
                Some(("file", name)) => {
                    steps.push(Step::File { name: name.to_owned(), text: block.join("\n") + "\n" });
                }
                None if language == "console" => steps.extend(commands(&block)?),
                _ => {}
            }
        }
    }
    if steps.is_empty() { Err(Stop::Failed(format!("nothing is to be done under `{heading}`"))) } else { Ok(steps) }
}

fn commands(block: &[&str]) -> Outcome<Vec<Step>> {
    let mut lines = block.iter().copied().peekable();
    let mut commands = Vec::new();
    while let Some(line) = lines.next() {
        let line = line.strip_prefix("$ ").ok_or_else(|| Stop::Failed(format!("not a command: `{line}`")))?;
        let mut line = line.to_owned();
        while line.ends_with('\\') {
            line = format!("{line}\n{}", lines.next().unwrap_or_default());
        }
        let mut prints = Vec::new();
        while let Some(printed) = lines.next_if(|line| !line.starts_with("$ ")) {
            prints.push(printed.to_owned());
        }
        commands.push(Step::Command { line, prints });
    }
    Ok(commands)
}

/// Whether all of these lines are among those, in their order; the first that is not, otherwise.
pub(crate) fn missing<'a>(prints: &'a [String], printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines();
    prints.iter().map(String::as_str).find(|expected| !printed.any(|line| is_like(line.trim_end(), expected)))
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

/// That this module reads as it should: the tests of a target without a harness.
pub(crate) fn is_read_rightly() -> Outcome {
    let document = "## A\n```console\n$ no\n```\n## B\nText.\n<!-- test: it rains -->\n<!-- file: a.yaml -->\n```yaml\na: b\n```\n\
        ```console\n$ one \\\n  --more\n$ two\nsome…thing …\n```\n<!-- not run: it hurts -->\n```console\n$ three\n```\n";
    let command = |line: &str, prints: &[&str]| Step::Command {
        line: line.to_owned(),
        prints: prints.iter().map(|line| (*line).to_owned()).collect(),
    };
    let expected = [
        Step::Test("it rains".to_owned()),
        Step::File { name: "a.yaml".to_owned(), text: "a: b\n".to_owned() },
        command("one \\\n  --more", &[]),
        command("two", &["some…thing …"]),
    ];
    let found = steps(document, "B")?;
    depguard_e2e::ensure(found == expected, || format!("{found:?}"))?;
    for (line, expected, is) in [
        ("something else", "some…thing …", true),
        ("something", "something", true),
        ("something else", "something", false),
        ("nothing", "some…", false),
        ("a b c", "a … d", false),
    ] {
        depguard_e2e::ensure(is_like(line, expected) == is, || format!("`{line}` and `{expected}`"))?;
    }
    Ok(())
}
