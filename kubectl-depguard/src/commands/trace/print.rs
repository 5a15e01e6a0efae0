//! Output of traces.

use std::collections::{BTreeSet, HashSet};

use super::{ObjectState, Report, RuleField, StateKind, Target, Tree};
use crate::io::exit::Failure;
use crate::io::output::{Format, one_line};
use crate::io::report::{ReportList, print_json, print_yaml};
use crate::io::table::Table;
use crate::io::terminal::{Terminal, Tone};
use crate::io::tree::{Branches, Line};

/// Prints the trees in the requested format. `are_several`: the user named several objects, even if only one exists.
pub(super) fn trees(
    trees: &[Tree],
    are_several: bool,
    format: Option<Format>,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let single = trees.first().filter(|_| !are_several).map(|tree| &tree.report);
    let list = || ReportList::new(trees.iter().map(|tree| &tree.report));
    match (format, single) {
        (Some(Format::Json), Some(report)) => print_json(report, terminal),
        (Some(Format::Json), None) => print_json(&list(), terminal),
        (Some(Format::Yaml), Some(report)) => print_yaml(report, terminal),
        (Some(Format::Yaml), None) => print_yaml(&list(), terminal),
        (Some(Format::Name), _) => Ok(terminal.out().write_all(names(trees).as_bytes())?),
        (Some(Format::Wide), _) => table(trees, are_several).print(terminal),
        (None, _) => {
            for (number, Tree { lines, report }) in trees.iter().enumerate() {
                if number > 0 {
                    writeln!(terminal.out())?;
                }
                tree(report, lines, terminal)?;
            }
            Ok(())
        }
    }
}

/// Returns the names of all targets, each object once, one a line.
fn names(trees: &[Tree]) -> String {
    let (mut text, mut listed) = (String::new(), HashSet::new());
    for target in trees.iter().flat_map(|tree| &tree.report.targets) {
        if listed.insert(target.object.key()) {
            text.push_str(&target.object.short());
            text.push('\n');
        }
    }
    text
}

/// Returns a table with one row for each reference. Rows for several objects begin with the object.
fn table(trees: &[Tree], are_several: bool) -> Table {
    let headings = ["TARGET", "STATE", "REFERRED TO BY", "DEPTH", "FIELD", "RULE"];
    let mut table = Table::new(are_several.then_some("OBJECT").into_iter().chain(headings));
    for report in trees.iter().map(|tree| &tree.report) {
        for Target { object, state, depth, referred_to_by, by, .. } in &report.targets {
            for RuleField { rule, field } in by {
                let (own, from) = (are_several.then(|| report.object.to_string()), referred_to_by.to_string());
                let cells = [object.to_string(), state.text(), from, depth.to_string(), field.clone(), rule.clone()];
                table.push(own.into_iter().chain(cells));
            }
        }
    }
    table
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
