//! How the answer is printed.

use super::answer::{Answer, Blocking, ToldBy};
use crate::kinds::resource_name;
use crate::locks::LockedBy;
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
        Some(true) => (Tone::Bad, format!("{shown} {}", what_blocks(answer))),
        None => (Tone::Warning, format!("{shown}: it can't be told what blocks it")),
    };
    let mut text = format!("{}, {way}\n", terminal.paint(tone, &said));
    if !answer.blockers.is_empty() {
        text.push('\n');
        text.push_str(&table(&answer.blockers, wide).render());
    }
    if !answer.locks.is_empty() {
        text.push('\n');
        text.push_str(&locks(&answer.locks).render());
    }
    let mut also = answer.own.remarks();
    if let Some(message) = &answer.message
        && (answer.blockers.is_empty() || wide)
    {
        let asked = if answer.blocked == Some(false) {
            "the API server could not be asked by a dry run"
        } else {
            "the API server says"
        };
        also.push(format!("{asked}: {message}"));
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

/// The end of a sentence that begins with the object.
fn what_blocks(answer: &Answer<'_>) -> String {
    let mut told = Vec::new();
    if !answer.blockers.is_empty() {
        let (least, count) = (if answer.more { "at least " } else { "" }, answer.blockers.len());
        told.push(format!("is blocked by {least}{count} {}", if count == 1 { "object" } else { "objects" }));
    }
    match answer.locks.iter().filter(|lock| lock.in_force).count() {
        0 if answer.decision == "locked" => told.push("is locked".to_owned()),
        0 => {}
        1 => told.push("is locked by 1 lock".to_owned()),
        many => told.push(format!("is locked by {many} locks")),
    }
    if answer.own.is_held() {
        told.extend(answer.own.deletion());
    }
    match told.is_empty() {
        true => "is refused, but not for a reference".to_owned(),
        false => told.join(" and "),
    }
}

fn locks(locks: &[LockedBy]) -> Table {
    let mut table = Table::new(["LOCK", "REASON", "HELD BY", "UNTIL", "RELEASED BY"]);
    for LockedBy { lock, reason, held_by, until, in_force } in locks {
        let way = match (*in_force, held_by.is_empty()) {
            (true, true) => "delete the lock",
            (true, false) => "delete the lock, or act as its holder",
            (false, _) => "it may not be in force",
        };
        table.push([lock.clone(), reason.clone(), held_by.clone(), until.clone(), way.to_owned()]);
    }
    table
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
    /// As the other commands name objects: `virtualmachines.compute.example.com/m1`; by its kind where the API server was
    /// asked, who names no resource.
    fn named(&self) -> String {
        if let (Some(resource), Some(group)) = (&self.resource, &self.group) {
            return format!("{}/{}", resource_name(resource, group), self.name);
        }
        let group = self.group.as_deref().filter(|group| !group.is_empty()).map(|group| format!(".{group}"));
        format!("{}{}/{}", self.kind.to_lowercase(), group.unwrap_or_default(), self.name)
    }
}
