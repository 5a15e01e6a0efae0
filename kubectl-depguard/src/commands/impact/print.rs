//! Output of trees of dependents.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use depguard_core::api::OnDelete;

use super::tree::Branches;
use super::{Dependent, ImpactFormat, Report, RuleField, Tree, drawing};
use crate::engine::reference_scan::Scan;
use crate::io::exit::Failure;
use crate::io::output::one_line;
use crate::io::report::{ReportList, print_json, print_yaml};
use crate::io::table::Table;
use crate::io::terminal::{Terminal, Tone};

/// Field of an object that refers to nothing, and that is deleted with the object above it.
const GOES_WITH_IT: &str = "goes with it";

/// Prints the trees in the requested format. `are_several`: the user named several objects, even if only one exists.
pub(super) fn trees(
    trees: &[Tree<'_>],
    scan: &Scan,
    are_several: bool,
    format: Option<ImpactFormat>,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let single = trees.first().filter(|_| !are_several).map(|tree| &tree.report);
    let list = || ReportList::new(trees.iter().map(|tree| &tree.report));
    match (format, single) {
        (Some(ImpactFormat::Json), Some(report)) => print_json(report, terminal),
        (Some(ImpactFormat::Json), None) => print_json(&list(), terminal),
        (Some(ImpactFormat::Yaml), Some(report)) => print_yaml(report, terminal),
        (Some(ImpactFormat::Yaml), None) => print_yaml(&list(), terminal),
        (Some(ImpactFormat::Name), _) => Ok(terminal.out().write_all(names(trees).as_bytes())?),
        (Some(ImpactFormat::Wide), _) => table(trees, are_several).print(terminal),
        (Some(ImpactFormat::Mermaid), _) => {
            Ok(terminal.out().write_all(drawing::draw(scan, trees).mermaid().as_bytes())?)
        }
        (Some(ImpactFormat::Svg), _) => {
            let targets: Vec<_> = trees.iter().map(|tree| tree.report.target.to_string()).collect();
            let title = format!("Objects that depend on {}", targets.join(", "));
            Ok(terminal.out().write_all(drawing::draw(scan, trees).svg(&title)?.as_bytes())?)
        }
        (None, _) => {
            for (number, tree) in trees.iter().enumerate() {
                if number > 0 {
                    writeln!(terminal.out())?;
                }
                print_tree(tree, scan, terminal)?;
            }
            Ok(())
        }
    }
}

/// Returns the names of all dependents, each object once, one a line.
fn names(trees: &[Tree<'_>]) -> String {
    let (mut text, mut listed) = (String::new(), HashSet::new());
    for (line, object) in trees.iter().flat_map(|tree| tree.report.dependents.counted()) {
        if listed.insert(line.object) {
            text.push_str(&object.identity().short());
            text.push('\n');
        }
    }
    text
}

/// Returns a table with one row for each reference. Rows for several objects begin with the object.
fn table(trees: &[Tree<'_>], are_several: bool) -> Table {
    let headings = ["DEPENDENT", "DEPENDS ON", "DEPTH", "FIELD", "RULE", "ON DELETE"];
    let mut table = Table::new(are_several.then_some("TARGET").into_iter().chain(headings));
    for Report { target, dependents, .. } in trees.iter().map(|tree| &tree.report) {
        for (_, Dependent { object, depth, depends_on, by, .. }) in dependents.iter() {
            if by.is_empty() {
                let target = are_several.then(|| target.to_string());
                let cells = [object.to_string(), depends_on.to_string(), depth.to_string()];
                table.push(target.into_iter().chain(cells).chain([
                    GOES_WITH_IT.to_owned(),
                    String::new(),
                    String::new(),
                ]));
            }
            for RuleField { rule, field, on_delete, .. } in by {
                let target = are_several.then(|| target.to_string());
                table.push(target.into_iter().chain([
                    object.to_string(),
                    depends_on.to_string(),
                    depth.to_string(),
                    field,
                    rule,
                    format!("{on_delete:?}"),
                ]));
            }
        }
    }
    table
}

fn print_tree(tree: &Tree<'_>, scan: &Scan, terminal: &mut Terminal) -> Result<(), Failure> {
    let report = &tree.report;
    let target = terminal.paint(Tone::Strong, &one_line(&report.target.to_string()));
    writeln!(terminal.out(), "{target}")?;
    let mut branches = Branches::default();
    for (line, dependent) in report.dependents.iter() {
        let mut by: Vec<_> = dependent.by.iter().map(RuleField::text).collect();
        if by.is_empty() {
            by.push(GOES_WITH_IT.to_owned());
        }
        let object = terminal.paint(Tone::Strong, &one_line(&dependent.object.to_string()));
        let by = terminal.paint(Tone::Faint, &one_line(&by.join(", ")));
        let left_out = if dependent.selected { "" } else { " (not selected)" };
        let again = line.again.map(|again| again.painted(terminal)).unwrap_or_default();
        writeln!(terminal.out(), "{}{object}{left_out}   {by}{again}", branches.next(line))?;
    }
    if report.count > 0 {
        writeln!(terminal.out())?;
    }
    Ok(writeln!(terminal.out(), "{}", report.summary(scan))?)
}

impl Report<'_> {
    /// Sums up the result: `3 objects depend on VPC/x/a: 2 VirtualMachine, 1 Backup`.
    fn summary(&self, scan: &Scan) -> String {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, object) in self.dependents.counted() {
            *kinds.entry(&object.kind.kind).or_default() += 1;
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let kinds: Vec<_> = kinds.into_iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let at_least = if scan.is_whole() { "" } else { "at least " };
        match self.count {
            0 if scan.is_whole() => format!("nothing depends on {}", self.target),
            0 => format!("found no object that depends on {}", self.target),
            1 => format!("{at_least}1 object depends on {}: {}", self.target, kinds.join(", ")),
            many => format!("{at_least}{many} objects depend on {}: {}", self.target, kinds.join(", ")),
        }
    }
}

impl RuleField {
    fn text(&self) -> String {
        let Self { rule, field, on_delete, unclear } = self;
        let mut text = format!("{field} (rule {rule})");
        if *on_delete != OnDelete::Deny {
            // Writing to a string can't fail.
            let _ = write!(text, " [{on_delete:?}]");
        }
        if let Some(why) = unclear {
            let _ = write!(text, " [unresolved: it {why}]");
        }
        text
    }
}
