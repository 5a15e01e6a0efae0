//! Coverage of tests: the references of the rules, and the number of tests in which each counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use depguard_core::RuleSet;
use depguard_core::api::OnMissing;
use depguard_core::model::GroupResource;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cluster::rules::Rules;
use crate::engine::simulated_delete::Judgment;
use crate::io::table::Table;

/// References that were tested so far.
#[derive(Debug, Default)]
pub(super) struct Coverage(BTreeMap<(String, String, String), Tests>);

/// Numbers of tests in which a reference counts.
#[derive(Debug, Default)]
struct Tests {
    deletions: usize,
    /// `None` if nobody looks for the targets of the reference.
    changes: Option<usize>,
}

/// Reference of a rule, and the numbers of tests in which it counts.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ReferenceCoverage {
    pub(super) rule: String,
    /// Field that refers; empty if the rule itself holds the name or the selector.
    pub(super) field: String,
    /// Kind of the target: `vpcs.network.example.com`.
    pub(super) target: String,
    /// Number of deletions in which an object refers to the deleted one by this reference.
    pub(super) tests: usize,
    /// Number of creations and updates in which the target of this reference is looked for. Absent without `onMissing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) changes: Option<usize>,
}

/// Rule with only one of its references, so that a decision tells whether this one counts.
#[derive(Debug)]
pub(super) struct SingleReference {
    rule: String,
    field: String,
    pub(super) target: GroupResource,
    pub(super) dependent: GroupResource,
    on_missing: OnMissing,
    pub(super) rules: RuleSet,
}

impl SingleReference {
    /// Splits rules into their references.
    pub(super) fn all(rules: &Rules) -> Vec<Self> {
        let mut all = Vec::new();
        for rule in &rules.objects {
            let dependencies = rule.pointer("/spec/dependencies").and_then(Value::as_array);
            for dependency in dependencies.into_iter().flatten() {
                let mut single = (**rule).clone();
                if let Some(there) = single.pointer_mut("/spec/dependencies") {
                    *there = json!([dependency]);
                }
                let single = Rules { objects: vec![Arc::new(single)], ..rules.clone() };
                // A rule that can't be used refuses whatever it is about, and is reported elsewhere.
                for rule in single.parsed().flatten() {
                    let references = rule.edges().iter().map(|edge| Self {
                        rule: rule.key().name.clone(),
                        field: edge.field(),
                        target: edge.target.gvr.group_resource(),
                        dependent: rule.dependent().gvr.group_resource(),
                        on_missing: edge.on_missing,
                        rules: single.set(),
                    });
                    all.extend(references);
                }
            }
        }
        all
    }
}

impl Coverage {
    /// Records a decision by one reference.
    pub(super) fn count(&mut self, single: &SingleReference, judgment: &Judgment) {
        let counts = matches!(judgment.label(), "referenced" | "warned" | "audited" | "torn-down");
        let deletions = &mut self.entry(single).deletions;
        *deletions = deletions.saturating_add(usize::from(counts));
    }

    /// Records a decision about a creation or an update by one reference.
    pub(super) fn count_change(&mut self, single: &SingleReference, judgment: &Judgment) {
        let counts = matches!(judgment.label(), "missing-targets" | "warned" | "audited" | "targets-exist");
        if let Some(changes) = &mut self.entry(single).changes {
            *changes = changes.saturating_add(usize::from(counts));
        }
    }

    /// Records a reference, even if no test is about an object of its kinds.
    pub(super) fn add(&mut self, single: &SingleReference) {
        self.entry(single);
    }

    fn entry(&mut self, single: &SingleReference) -> &mut Tests {
        let SingleReference { rule, field, target, on_missing, .. } = single;
        let tests = self.0.entry((rule.clone(), field.clone(), target.to_string())).or_default();
        if *on_missing != OnMissing::Ignore {
            tests.changes.get_or_insert_default();
        }
        tests
    }

    /// Returns the references, in the order of their rules.
    pub(super) fn finish(self) -> Vec<ReferenceCoverage> {
        let references = self.0.into_iter();
        let coverage = |((rule, field, target), Tests { deletions, changes })| ReferenceCoverage {
            rule,
            field,
            target,
            tests: deletions,
            changes,
        };
        references.map(coverage).collect()
    }
}

impl ReferenceCoverage {
    /// Returns true if no test shows what the reference does, or what its `onMissing` does.
    pub(super) fn is_untested(&self) -> bool {
        self.tests == 0 || self.changes == Some(0)
    }
}

/// Returns the references as a table for people.
pub(super) fn table(references: &[ReferenceCoverage]) -> Table {
    let changes = references.iter().any(|reference| reference.changes.is_some());
    let mut table = Table::new(["RULE", "FIELD", "TARGET", "TESTS"].into_iter().chain(changes.then_some("CHANGES")));
    for ReferenceCoverage { rule, field, target, tests, changes: looked_for } in references {
        let looked_for = looked_for.map_or_else(|| "-".to_owned(), |looked_for| looked_for.to_string());
        let cells = [rule.clone(), field.clone(), target.clone(), tests.to_string()].into_iter();
        table.push(cells.chain(changes.then_some(looked_for)));
    }
    table
}
