//! Output of an answer.

use super::answer::{Answer, AnswerSource, BlockerDetails, Target};
use crate::cluster::kinds::resource_name;
use crate::engine::locks::LockSummary;
use crate::io::exit::Failure;
use crate::io::output::{Format, Table, one_line};
use crate::io::report::{print_json, print_yaml};
use crate::io::terminal::{Terminal, Tone};

/// Limit on the ways to let go in one cell of a table.
const MAX_WAYS: usize = 3;

/// Prints the answer. `all`: the user asked for all blockers.
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
    let way = match answer.basis {
        AnswerSource::Files => "the files",
        AnswerSource::Rules => "the rules and objects that you may read",
        AnswerSource::DryRun => "a dry run",
        AnswerSource::RulesAndDryRun => "the rules that you may read, and a dry run",
    };
    let (tone, verdict) = match answer.blocked {
        Some(false) => (Tone::Good, unblocked(answer)),
        Some(true) => (Tone::Bad, format!("{shown} {}", what_blocks(answer))),
        None => (Tone::Warning, format!("could not find out what blocks the deletion of {shown}")),
    };
    let mut text = format!("{} (source: {way})\n", terminal.paint(tone, &verdict));
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
        let asked = if answer.blocked == Some(false) { "the dry run failed" } else { "the API server says" };
        also.push(format!("{asked}: {message}"));
    }
    also.extend(answer.warnings.iter().map(|warning| format!("warning: {warning}")));
    if answer.more && !all && matches!(answer.basis, AnswerSource::Files | AnswerSource::Rules) {
        also.push("there are more blockers: --all lists them".to_owned());
    }
    if !answer.unread.is_empty() {
        let what = if wide { format!(": {}", answer.unread.join(", ")) } else { String::new() };
        also.push(format!("{} could not be read{what}", counted(answer.unread.len(), "part")));
    }
    also.extend(answer.problems.iter().map(|problem| format!("could not find out: {problem}")));
    if !also.is_empty() {
        text.push('\n');
        also.iter().for_each(|line| text.push_str(&format!("{}\n", one_line(line))));
    }
    Ok(terminal.out().write_all(text.as_bytes())?)
}

/// Returns the end of a sentence that begins with the object.
fn what_blocks(answer: &Answer<'_>) -> String {
    let mut reasons = Vec::new();
    if !answer.blockers.is_empty() {
        let (least, count) = (if answer.more { "at least " } else { "" }, answer.blockers.len());
        reasons.push(format!("is blocked by {least}{count} {}", if count == 1 { "object" } else { "objects" }));
    }
    match answer.locks.iter().filter(|lock| lock.in_force).count() {
        0 if answer.decision == "locked" => reasons.push("is locked".to_owned()),
        0 => {}
        1 => reasons.push("is locked by 1 lock".to_owned()),
        many => reasons.push(format!("is locked by {many} locks")),
    }
    if answer.own.is_held() {
        reasons.extend(answer.own.deletion());
    }
    match reasons.is_empty() {
        true => "is refused for a reason other than a reference".to_owned(),
        false => reasons.join(" and "),
    }
}

fn locks(locks: &[LockSummary]) -> Table {
    let mut table = Table::new(["LOCK", "REASON", "HELD BY", "UNTIL", "RELEASED BY"]);
    for LockSummary { lock, reason, held_by, until, in_force } in locks {
        let way = match (*in_force, held_by.is_empty()) {
            (true, true) => "delete the lock",
            (true, false) => "delete the lock, or act as its holder",
            (false, _) => "may not be in force",
        };
        table.push([lock.clone(), reason.clone(), held_by.clone(), until.clone(), way.to_owned()]);
    }
    table
}

fn table(blockers: &[BlockerDetails], wide: bool) -> Table {
    let headings = ["BLOCKER", "RULE", "FIELD", "RELEASED BY"];
    let mut table = Table::new(headings.into_iter().chain(wide.then_some("NOTES")));
    for blocker in blockers {
        let rule = blocker.rule.clone().unwrap_or_else(|| "<unread>".to_owned());
        let ways: Vec<_> = blocker.released_by.iter().take(MAX_WAYS).map(String::as_str).collect();
        let notes = blocker.notes.join("; ");
        let mut ways = ways.join(", or ");
        if !wide && !notes.is_empty() {
            ways = format!("{ways} ({notes})");
        }
        table.push([blocker.shown.clone(), rule, blocker.field.clone(), ways].into_iter().chain(wide.then_some(notes)));
    }
    table
}

/// Says that nothing blocks the deletion, and why.
fn unblocked(answer: &Answer<'_>) -> String {
    let Target { resource, name, .. } = answer.target;
    let reason = match answer.decision {
        "no-rule" => format!("no rule protects {resource}"),
        "not-bound" => format!("no rule applies to {resource} here"),
        "terminating" => return format!("{resource}/{name} is being deleted already; nothing blocks its deletion"),
        "torn-down" => format!("only objects of the same teardown refer to {resource}/{name}"),
        "warned" => format!("rules only warn about the references to {resource}/{name}"),
        "audited" => format!("rules only record the references to {resource}/{name}"),
        "allowed" => format!("the API server would delete {resource}/{name}"),
        _ => format!("nothing refers to {resource}/{name}"),
    };
    format!("{reason}; nothing blocks the deletion of {name}")
}

/// Counts in words: `1 part`, `2 parts`.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

impl BlockerDetails {
    /// Names the blocker like other commands: `virtualmachines.compute.example.com/m1`. If only the API server named
    /// it, its kind stands for the resource, which is unknown.
    fn named(&self) -> String {
        if let (Some(resource), Some(group)) = (&self.resource, &self.group) {
            return format!("{}/{}", resource_name(resource, group), self.name);
        }
        let group = self.group.as_deref().filter(|group| !group.is_empty()).map(|group| format!(".{group}"));
        format!("{}{}/{}", self.kind.to_lowercase(), group.unwrap_or_default(), self.name)
    }
}
