//! Output of a plan.

use super::plan::Plan;
use crate::engine::reference_scan::ObjectIdentity;
use crate::io::exit::Failure;
use crate::io::output::{Format, MAX_NAMED, one_line, some_of};
use crate::io::report::{print_json, print_yaml};
use crate::io::table::Table;
use crate::io::terminal::Terminal;

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
pub(super) fn line(object: &ObjectIdentity) -> String {
    let within = object.namespace.as_ref().map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
    one_line(&format!("{}{within}", object.short()))
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
            row.push(some_of(plan.held_by(index).map(|hold| plan.describe(hold)), ", "));
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
    print_remarks(plan, terminal)
}

/// Prints notes beside the table, see [`remarks`].
pub(super) fn print_remarks(plan: &Plan, terminal: &mut Terminal) -> Result<(), Failure> {
    Ok(remarks(plan).iter().try_for_each(|remark| terminal.note(remark))?)
}

/// Returns notes on a plan: the meaning of cycles, the holders of objects that can't go, and the kinds that were read.
pub(super) fn remarks(plan: &Plan) -> Vec<String> {
    let mut remarks: Vec<_> = (0..plan.cycles.len()).map(|cycle| plan.explain(cycle, MAX_NAMED)).collect();
    let name = |index: usize| plan.object(index).map(ToString::to_string).unwrap_or_default();
    remarks.extend(plan.held.iter().map(|&index| {
        let by = some_of(plan.held_by(index).map(|hold| plan.describe(hold)), ", ");
        format!("{} can't be deleted while it is blocked by {by}", name(index))
    }));
    remarks.extend(plan.locked.iter().map(|(&index, locks)| {
        let locks = some_of(locks.iter().map(|lock| lock.lock.clone()), ", ");
        format!("{} is locked by {locks}: delete the lock first", name(index))
    }));
    remarks.extend(plan.notes().iter().cloned());
    let kinds = plan.kinds();
    remarks.push(match kinds.is_empty() {
        true if plan.count() > 0 => "no rule lets anything depend on objects of these kinds".to_owned(),
        true => "no rule applies here, so there is nothing to order".to_owned(),
        false => format!("the order covers only kinds that rules name: {}", some_of(kinds, ", ")),
    });
    remarks
}
