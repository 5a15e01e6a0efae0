//! Output of a trace.

use std::collections::BTreeSet;

use super::{ObjectState, Report, RuleField, StateKind, Target};
use crate::io::exit::Failure;
use crate::io::output::{Format, one_line};
use crate::io::report::{print_json, print_yaml};
use crate::io::table::Table;
use crate::io::terminal::{Terminal, Tone};
use crate::io::tree::{Branches, Line};

/// Prints the report in the requested format. `lines`: the tree, a line for each target of the report.
pub(super) fn report(
    report: &Report,
    lines: &[Line],
    format: Option<Format>,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    match format {
        Some(Format::Json) => print_json(report, terminal),
        Some(Format::Yaml) => print_yaml(report, terminal),
        Some(Format::Name) => {
            let first = report.targets.iter().filter(|target| target.again.is_none());
            let text: String = first.map(|target| target.object.short() + "\n").collect();
            Ok(terminal.out().write_all(text.as_bytes())?)
        }
        Some(Format::Wide) => {
            let mut table = Table::new(["TARGET", "STATE", "REFERRED TO BY", "DEPTH", "FIELD", "RULE"]);
            for Target { object, state, depth, referred_to_by, by, .. } in &report.targets {
                for RuleField { rule, field } in by {
                    let (object, from) = (object.to_string(), referred_to_by.to_string());
                    table.push([object, state.text(), from, depth.to_string(), field.clone(), rule.clone()]);
                }
            }
            table.print(terminal)
        }
        None => tree(report, lines, terminal),
    }
}

fn tree(report: &Report, lines: &[Line], terminal: &mut Terminal) -> Result<(), Failure> {
    let object = terminal.paint(Tone::Strong, &one_line(&report.object.to_string()));
    let state = report.state.painted(terminal);
    writeln!(terminal.out(), "{object}   {state}")?;
    let mut branches = Branches::default();
    for (line, target) in lines.iter().zip(&report.targets) {
        let by: Vec<_> = target.by.iter().map(|RuleField { rule, field }| format!("{field} (rule {rule})")).collect();
        let object = terminal.paint(Tone::Strong, &one_line(&target.object.to_string()));
        let by = terminal.paint(Tone::Faint, &one_line(&by.join(", ")));
        let state = target.state.painted(terminal);
        let more = match (target.again, target.is_cut) {
            (Some(again), _) => again.painted(terminal),
            (None, true) => terminal.paint(Tone::Faint, " … and deeper"),
            (None, false) => String::new(),
        };
        writeln!(terminal.out(), "{}{object}   {by}   {state}{more}", branches.next(line))?;
    }
    for empty in &report.empty_selectors {
        let RuleField { rule, field } = &empty.by;
        terminal.note(&format!("{} selects no {} by {field} (rule {rule})", empty.object, empty.selects))?;
    }
    if !report.targets.is_empty() {
        writeln!(terminal.out())?;
    }
    Ok(writeln!(terminal.out(), "{}", report.summary())?)
}

impl Report {
    /// Sums up the result: `3 targets: 1 missing, 2 ready`.
    fn summary(&self) -> String {
        let first: Vec<_> = self.targets.iter().filter(|target| target.again.is_none()).collect();
        let names: BTreeSet<_> = first.iter().map(|target| target.state.state.text()).collect();
        let counts = names.into_iter().map(|name| {
            let count = first.iter().filter(|target| target.state.state.text() == name).count();
            format!("{count} {name}")
        });
        let counts = counts.collect::<Vec<_>>().join(", ");
        let at_least = if self.unread.is_empty() { "" } else { "at least " };
        match first.len() {
            0 if self.unread.is_empty() => format!("{} refers to nothing else", self.object),
            0 => format!("found no other object to which {} refers", self.object),
            1 => format!("{at_least}1 target: {counts}"),
            many => format!("{at_least}{many} targets: {counts}"),
        }
    }
}

impl ObjectState {
    fn text(&self) -> String {
        match &self.reason {
            Some(reason) => format!("{}: {reason}", self.state.text()),
            None => self.state.text().to_owned(),
        }
    }

    fn painted(&self, terminal: &Terminal) -> String {
        let tone = match self.state {
            StateKind::Ready => Tone::Good,
            StateKind::There => Tone::Faint,
            StateKind::NotReady | StateKind::Terminating | StateKind::Unknown => Tone::Warning,
            StateKind::Missing => Tone::Bad,
        };
        terminal.paint(tone, &one_line(&self.text()))
    }
}

impl StateKind {
    fn text(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::There => "there",
            Self::NotReady => "not ready",
            Self::Terminating => "being deleted",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }
}
