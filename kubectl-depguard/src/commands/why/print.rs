//! How the answer is printed.

use super::answer::{Answer, Blocking, ToldBy};
use crate::outcome::Failure;
use crate::output::{Format, Table, one_line, print_json, print_yaml};
use crate::terminal::{Terminal, Tone};

/// Ways to let go that a table has room for.
const MOST_WAYS: usize = 3;

/// `all`: whether all blockers were asked for.
pub(crate) fn print(
    answer: &Answer<'_>,
    all: bool,
    format: Option<Format>,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    match format {
        Some(Format::Json) => print_json(answer, terminal),
        Some(Format::Yaml) => print_yaml(answer, terminal),
        Some(Format::Name) => {
            let names: String = answer.blockers.iter().map(|blocker| format!("{}\n", blocker.named())).collect();
            Ok(terminal.out().write_all(names.as_bytes())?)
        }
        None => for_people(answer, all, false, terminal),
        Some(Format::Wide) => for_people(answer, all, true, terminal),
    }
}

fn for_people(answer: &Answer<'_>, all: bool, wide: bool, terminal: &mut Terminal) -> Result<(), Failure> {
    let shown = answer.target.shown();
    let way = match answer.told_by {
        ToldBy::Files => "as the files say",
        ToldBy::Rules => "as the rules and objects that you may read say",
        ToldBy::DryRun => "as the API server says to a dry run",
        ToldBy::RulesAndDryRun => "as the rules that you may read and a dry run say",
    };
    let (tone, said) = match answer.blocked {
        Some(false) => (Tone::Good, format!("nothing blocks it: {}", because(answer.decision, &shown))),
        Some(true) if answer.blockers.is_empty() => (Tone::Bad, format!("{shown} is refused, but not for a reference")),
        Some(true) => {
            let (least, count) = (if answer.more { "at least " } else { "" }, answer.blockers.len());
            let objects = if count == 1 { "object" } else { "objects" };
            (Tone::Bad, format!("{shown} is blocked by {least}{count} {objects}"))
        }
        None => (Tone::Warning, format!("{shown}: it can't be told what blocks it")),
    };
    let mut text = format!("{}, {way}\n", terminal.paint(tone, &said));
    if !answer.blockers.is_empty() {
        text.push('\n');
        text.push_str(&table(&answer.blockers, wide).render());
    }
    let mut also = Vec::new();
    if let Some(message) = &answer.message
        && (answer.blockers.is_empty() || wide)
    {
        also.push(format!("the API server says: {message}"));
    }
    also.extend(answer.warnings.iter().map(|warning| format!("warning: {warning}")));
    if answer.more && !all && matches!(answer.told_by, ToldBy::Files | ToldBy::Rules) {
        also.push("there are more: name them with --all".to_owned());
    }
    if !answer.unread.is_empty() {
        let what = if wide { format!(": {}", answer.unread.join(", ")) } else { String::new() };
        also.push(format!("{} could not be looked at{what}", answer.unread.len()));
    }
    also.extend(answer.problems.iter().map(|problem| format!("could not find out: {problem}")));
    if !also.is_empty() {
        text.push('\n');
        also.iter().for_each(|line| text.push_str(&format!("{}\n", one_line(line))));
    }
    Ok(terminal.out().write_all(text.as_bytes())?)
}

fn table(blockers: &[Blocking], wide: bool) -> Table {
    let headings = ["BLOCKER", "RULE", "FIELD", "RELEASED BY"];
    let mut table = Table::new(headings.into_iter().chain(wide.then_some("NOTES")));
    for blocker in blockers {
        let rule = blocker.rule.clone().unwrap_or_else(|| "<unread>".to_owned());
        let ways: Vec<_> = blocker.released_by.iter().take(MOST_WAYS).map(String::as_str).collect();
        let notes = blocker.notes.join("; ");
        let mut ways = ways.join(", or ");
        if !wide && !notes.is_empty() {
            ways = format!("{ways} ({notes})");
        }
        table.push([blocker.shown.clone(), rule, blocker.field.clone(), ways].into_iter().chain(wide.then_some(notes)));
    }
    table
}

/// Why nothing blocks it.
fn because(decision: &str, shown: &str) -> String {
    match decision {
        "no-rule" => format!("{shown} is of a kind that no rule names"),
        "not-bound" => format!("{shown} is of a kind that no rule bears on here"),
        "terminating" => format!("{shown} is being deleted already"),
        "torn-down" => format!("only what is torn down with it refers to {shown}"),
        "warned" => format!("{shown} is referred to, but the rules want no more than a warning"),
        "audited" => format!("{shown} is referred to, but the rules want it no more than recorded"),
        "allowed" => format!("{shown} would be deleted"),
        _ => format!("nothing refers to {shown}"),
    }
}

impl Blocking {
    /// As kubectl names objects: `virtualmachine.compute.example.com/m1`.
    fn named(&self) -> String {
        let group = self.group.as_deref().filter(|group| !group.is_empty()).map(|group| format!(".{group}"));
        format!("{}{}/{}", self.kind.to_lowercase(), group.unwrap_or_default(), self.name)
    }
}
