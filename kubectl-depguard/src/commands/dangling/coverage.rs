//! Coverage of `dangling`: the paths of the rules, and the number of references that each matched.

use std::collections::HashMap;

use depguard_core::rule::Reference as RuleReference;
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::reference_scan::Scan;
use crate::io::table::Table;

/// Path of a rule. One that matches nothing may be misspelled.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PathCoverage {
    pub(super) rule: String,
    pub(super) field: String,
    /// Kind of the dependents: `virtualmachines.compute.example.com`.
    pub(super) dependent: String,
    /// Number of dependents that were read.
    pub(super) objects: usize,
    /// Number of references that the path matched in them.
    pub(super) references: usize,
}

/// Returns the path of each reference by name, in the order of the rules.
pub(super) fn paths(scan: &Scan) -> Vec<PathCoverage> {
    let (mut objects, mut references) = (HashMap::new(), HashMap::new());
    for object in scan.objects.iter().filter(|object| object.inside || object.namespace().is_none()) {
        count(&mut objects, object.kind.gvr.group_resource());
    }
    for reference in &scan.references {
        let from = scan.objects.get(reference.from);
        if from.is_some_and(|from| from.inside || from.namespace().is_none()) {
            count(&mut references, reference.edge);
        }
    }
    let by_path =
        scan.edges.iter().enumerate().filter(|(_, edge)| matches!(edge.edge.reference, RuleReference::Field(_)));
    let paths = by_path.map(|(index, edge)| PathCoverage {
        rule: edge.rule().name.clone(),
        field: edge.edge.field(),
        dependent: edge.dependent().to_string(),
        objects: objects.get(&edge.dependent()).copied().unwrap_or_default(),
        references: references.get(&index).copied().unwrap_or_default(),
    });
    paths.collect()
}

fn count<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: K) {
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(1);
}

/// Returns the paths as a table for people.
pub(super) fn table(paths: &[PathCoverage]) -> Table {
    let mut table = Table::new(["RULE", "FIELD", "DEPENDENTS", "OBJECTS", "REFERENCES"]);
    for PathCoverage { rule, field, dependent, objects, references } in paths {
        table.push([rule.clone(), field.clone(), dependent.clone(), objects.to_string(), references.to_string()]);
    }
    table
}

impl PathCoverage {
    /// Says that the path matched nothing; `None` if it matched something.
    pub(super) fn unmatched(&self) -> Option<String> {
        let Self { rule, field, dependent, objects, references } = self;
        (*references == 0).then(|| format!("rule {rule}: `{field}` is in none of {objects} {dependent}"))
    }
}
