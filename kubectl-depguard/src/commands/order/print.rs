//! Output of a plan.

use super::plan::Plan;
use crate::engine::reference_scan::Object;
use crate::io::exit::Failure;
use crate::io::output::{Format, one_line};
use crate::io::report::{print_json, print_yaml};
use crate::io::table::Table;
use crate::io::terminal::Terminal;

/// Limit on the kinds that a line names.
const MAX_KINDS: usize = 5;

/// Prints the plan in the requested format.
pub(super) fn plan(plan: &Plan, format: Option<Format>, terminal: &mut Terminal) -> Result<(), Failure> {
    match format {
        Some(Format::Json) => print_json(&plan.report(), terminal),
        Some(Format::Yaml) => print_yaml(&plan.report(), terminal),
        Some(Format::Name) => {
            let mut text = String::new();
            for object in plan.waves.iter().flatten().filter_map(|object| plan.object(*object)) {
                text.push_str(&object.identity().short());
                text.push('\n');
            }
            Ok(terminal.out().write_all(text.as_bytes())?)
        }
        None => table(plan, false, terminal),
        Some(Format::Wide) => table(plan, true, terminal),
    }
}

/// Counts in words: `1 object`, `2 objects`.
pub(super) fn objects(count: usize) -> String {
    if count == 1 { "1 object".to_owned() } else { format!("{count} objects") }
}

/// Names an object: `vpcs.network.example.com/a in namespace x`.
pub(super) fn line(object: &Object) -> String {
    let within = object.namespace().map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
    one_line(&format!("{}{within}", object.identity().short()))
}

fn table(plan: &Plan, wide: bool, terminal: &mut Terminal) -> Result<(), Failure> {
    let mut table = match wide {
        false => Table::new(["WAVE", "NAMESPACE", "OBJECT", "STATE"]),
        true => Table::new(["WAVE", "NAMESPACE", "OBJECT", "STATE", "BLOCKED BY"]),
    };
    let mut push = |wave: &str, index: usize, state: &str| {
        let Some(object) = plan.object(index) else { return };
        let state = if object.terminating { "being deleted" } else { state };
        let namespace = object.namespace().unwrap_or_default().to_owned();
        let mut row = vec![wave.to_owned(), namespace, object.identity().short(), state.to_owned()];
        if wide {
            row.push(plan.held_by(index).map(|hold| plan.describe(hold)).collect::<Vec<_>>().join(", "));
        }
        table.push(row);
    };
    for (number, wave) in plan.waves.iter().enumerate() {
        let wave_is = number.saturating_add(1).to_string();
        wave.iter().for_each(|object| push(&wave_is, *object, ""));
    }
    plan.cycles.iter().flatten().for_each(|object| push("-", *object, "in a cycle"));
    plan.held.iter().for_each(|object| push("-", *object, "held"));
    plan.locked.keys().for_each(|object| push("-", *object, "locked"));
    if !table.is_empty() {
        table.print(terminal)?;
    }
    remarks(plan, terminal)
}

/// Prints notes beside the table: the meaning of cycles, the holders of objects that can't go, and the kinds that were
/// read.
pub(super) fn remarks(plan: &Plan, terminal: &mut Terminal) -> Result<(), Failure> {
    for cycle in 0..plan.cycles.len() {
        let meaning = plan.explain(cycle);
        terminal.note(&meaning)?;
    }
    for &index in &plan.held {
        let by: Vec<_> = plan.held_by(index).map(|hold| plan.describe(hold)).collect();
        let name = plan.object(index).map(ToString::to_string).unwrap_or_default();
        terminal.note(&format!("{name} can't be deleted while it is blocked by {}", by.join(", ")))?;
    }
    for (&index, locks) in &plan.locked {
        let name = plan.object(index).map(ToString::to_string).unwrap_or_default();
        let locks: Vec<_> = locks.iter().map(|lock| lock.lock.as_str()).collect();
        terminal.note(&format!("{name} is locked by {}: delete the lock first", locks.join(", ")))?;
    }
    let kinds: Vec<_> = plan.kinds().into_iter().collect();
    let told = match kinds.as_slice() {
        [] => "no rule applies here, so there is nothing to order".to_owned(),
        kinds => {
            let (named, rest) = kinds.split_at(kinds.len().min(MAX_KINDS));
            let more =
                if rest.is_empty() { String::new() } else { format!(" and {} more (all by -o json)", rest.len()) };
            format!("the order covers only kinds that rules name: {}{more}", named.join(", "))
        }
    };
    Ok(terminal.note(&told)?)
}
