//! Output of answers.

use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{Answer, AnswerSource, DeletionState};
use super::blocker::BlockerDetails;
use super::obstacle::{Obstacle, ObstacleSource};
use super::target::Target;
use crate::cluster::kinds::resource_name;
use crate::engine::locks::LockSummary;
use crate::io::exit::Failure;
use crate::io::output::{Format, one_line, some_of};
use crate::io::report::{CommandReport, print_json, print_yaml};
use crate::io::table::Table;
use crate::io::terminal::{Terminal, Tone};

/// Limit on the ways to let go in one cell of a table.
const MAX_WAYS: usize = 3;
/// Limit on the rows of a table and on the obstacles, unless the user asks for all.
const MAX_SHOWN: usize = 20;

/// Report for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhyReport<'a> {
    /// Answers, one for each object that was named.
    objects: &'a [Answer<'a>],
}

impl CommandReport for WhyReport<'_> {
    const KIND: &'static str = "WhyReport";
}

/// Prints the answers. `all`: the user asked for all blockers and obstacles.
pub(crate) fn print(
    answers: &[Answer<'_>],
    all: bool,
    format: Option<Format>,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let report = WhyReport { objects: answers };
    match format {
        Some(Format::Json) => print_json(&report, terminal),
        Some(Format::Yaml) => print_yaml(&report, terminal),
        Some(Format::Name) => {
            let blockers = answers.iter().flat_map(|answer| &answer.blockers);
            let names: String = blockers.map(|blocker| format!("{}\n", blocker.named())).collect();
            Ok(terminal.out().write_all(names.as_bytes())?)
        }
        None | Some(Format::Wide) => {
            let wide = format.is_some();
            let texts: Vec<_> = answers.iter().map(|answer| for_people(answer, all, wide, terminal)).collect();
            Ok(terminal.out().write_all(texts.join("\n").as_bytes())?)
        }
    }
}

fn for_people(answer: &Answer<'_>, all: bool, wide: bool, terminal: &Terminal) -> String {
    let mut text = head(answer, terminal);
    let limit = if all { usize::MAX } else { MAX_SHOWN };
    if !answer.blockers.is_empty() {
        text.push('\n');
        text.push_str(&table(answer.blockers.iter().take(limit), wide).render(terminal));
    }
    if !answer.locks.is_empty() {
        text.push('\n');
        text.push_str(&locks(answer.locks.iter().take(limit)).render(terminal));
    }
    if !answer.obstacles.is_empty() {
        text.push('\n');
        answer.obstacles.iter().take(limit).for_each(|obstacle| text.push_str(&explain(obstacle, terminal)));
    }
    let also = remarks(answer, all, wide);
    if !also.is_empty() {
        text.push('\n');
        also.iter().for_each(|line| text.push_str(&format!("{}\n", one_line(line))));
    }
    text
}

/// Returns the first line: the state in one word, the main reason, and the source.
fn head(answer: &Answer<'_>, terminal: &Terminal) -> String {
    let shown = answer.target.shown();
    let source = match answer.source {
        AnswerSource::Files => "the files",
        AnswerSource::Rules => "the rules and objects that you may read",
        AnswerSource::DryRun => "a dry run",
        AnswerSource::RulesAndDryRun => "the rules that you may read, and a dry run",
    };
    let (tone, verdict) = match answer.state {
        DeletionState::Free => (Tone::Good, format!("free: {}", unblocked(answer))),
        DeletionState::Refused => (Tone::Bad, format!("refused: {shown} {}", what_refuses(answer))),
        DeletionState::Hanging => (Tone::Bad, format!("hangs: {shown} {}", what_holds(answer))),
        DeletionState::Breaking => (
            Tone::Bad,
            format!("breaks: nothing refuses the deletion of {shown}, and others refer to what goes with it"),
        ),
        DeletionState::Unknown => {
            (Tone::Warning, format!("unknown: could not find out what blocks the deletion of {shown}"))
        }
    };
    format!("{} (source: {source})\n", terminal.paint(tone, &one_line(&verdict)))
}

/// Returns an obstacle as two lines: its effect and what it is, and the next step.
fn explain(obstacle: &Obstacle, terminal: &Terminal) -> String {
    let effect = terminal.paint(Tone::Strong, obstacle.effect.word());
    format!("{effect}: {}\n  next: {}\n", one_line(&obstacle.says), one_line(&obstacle.next_step))
}

fn remarks(answer: &Answer<'_>, all: bool, wide: bool) -> Vec<String> {
    let mut also = Vec::new();
    let explained = answer.refusals().any(|obstacle| obstacle.source != ObstacleSource::Rights);
    if let Some(message) = &answer.message
        && (answer.blockers.is_empty() || wide)
        && !explained
    {
        let asked = if answer.state == DeletionState::Free { "the dry run failed" } else { "the API server says" };
        also.push(format!("{asked}: {message}"));
    }
    also.extend(answer.warnings.iter().map(|warning| format!("warning: {warning}")));
    if !all {
        let is_cut = answer.blockers.len() > MAX_SHOWN;
        match answer.source {
            AnswerSource::DryRun if answer.more => {
                also.push("there are more blockers, which the refusal does not name".to_owned());
            }
            _ if answer.more || is_cut => also.push("there are more blockers: --all lists them".to_owned()),
            _ => {}
        }
        for (count, noun) in [(answer.locks.len(), "lock"), (answer.obstacles.len(), "obstacle")] {
            let more = count.saturating_sub(MAX_SHOWN);
            if more > 0 {
                also.push(format!("and {} more: --all lists them", counted(more, noun)));
            }
        }
    }
    if !answer.unread.is_empty() {
        let what = if wide { answer.unread.join(", ") } else { some_of(answer.unread.iter().cloned(), ", ") };
        also.push(format!("{} could not be read: {what}", counted(answer.unread.len(), "part")));
    }
    also.extend(answer.flawed_rules.iter().map(|rule| format!("could not read {rule}")));
    also.extend(answer.problems.iter().map(|problem| format!("could not find out: {problem}")));
    also
}

/// Returns the end of a sentence that begins with the object.
fn what_refuses(answer: &Answer<'_>) -> String {
    let mut reasons = Vec::new();
    if !answer.blockers.is_empty() {
        let (least, count) = (if answer.more { "at least " } else { "" }, answer.blockers.len());
        reasons.push(format!("is blocked by {least}{}", counted(count, "object")));
    }
    match answer.locks.iter().filter(|lock| lock.in_force).count() {
        0 if answer.decision == "locked" => reasons.push("is locked".to_owned()),
        0 => {}
        count => reasons.push(format!("is locked by {}", counted(count, "lock"))),
    }
    reasons.extend(answer.refusals().map(|obstacle| match (obstacle.source, &obstacle.name) {
        (ObstacleSource::Rights, _) => "can't be deleted with your rights".to_owned(),
        (_, Some(name)) => format!("is refused by {name}"),
        (_, None) => "is refused by the API server".to_owned(),
    }));
    match reasons.is_empty() {
        true => "is refused for a reason other than a reference".to_owned(),
        false => reasons.join(" and "),
    }
}

/// Returns the end of a sentence that begins with the object.
fn what_holds(answer: &Answer<'_>) -> String {
    answer.own.deletion().unwrap_or_else(|| {
        "would stay after its deletion until what holds it is gone; the API server would accept the deletion".to_owned()
    })
}

fn locks<'l>(locks: impl Iterator<Item = &'l LockSummary>) -> Table {
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

fn table<'b>(blockers: impl Iterator<Item = &'b BlockerDetails>, wide: bool) -> Table {
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
