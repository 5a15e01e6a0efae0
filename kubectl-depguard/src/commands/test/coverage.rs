//! Coverage of tests: the references of the rules, and the number of tests in which each counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use depguard_core::RuleSet;
use depguard_core::model::GroupResource;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cluster::rules::Rules;
use crate::engine::simulated_delete::Judgment;
use crate::io::table::Table;

/// References that were tested so far.
#[derive(Debug, Default)]
pub(super) struct Coverage(BTreeMap<(String, String, String), usize>);

/// Reference of a rule, and the number of tests in which an object refers to the deleted one by it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ReferenceCoverage {
    pub(super) rule: String,
    /// Field that refers; empty if the rule itself holds the name or the selector.
    pub(super) field: String,
    /// Kind of the target: `vpcs.network.example.com`.
    pub(super) target: String,
    pub(super) tests: usize,
}

/// Rule with only one of its references, so that a decision tells whether this one counts.
#[derive(Debug)]
pub(super) struct SingleReference {
    rule: String,
    field: String,
    pub(super) target: GroupResource,
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
        let count = self.entry(single);
        *count = count.saturating_add(usize::from(counts));
    }

    /// Records a reference, even if no test deletes an object of its target's kind.
    pub(super) fn add(&mut self, single: &SingleReference) {
        self.entry(single);
    }

    fn entry(&mut self, single: &SingleReference) -> &mut usize {
        let SingleReference { rule, field, target, .. } = single;
        self.0.entry((rule.clone(), field.clone(), target.to_string())).or_default()
    }

    /// Returns the references, in the order of their rules.
    pub(super) fn finish(self) -> Vec<ReferenceCoverage> {
        let references = self.0.into_iter();
        references.map(|((rule, field, target), tests)| ReferenceCoverage { rule, field, target, tests }).collect()
    }
}

/// Returns the references as a table for people.
pub(super) fn table(references: &[ReferenceCoverage]) -> Table {
    let mut table = Table::new(["RULE", "FIELD", "TARGET", "TESTS"]);
    for ReferenceCoverage { rule, field, target, tests } in references {
        table.push([rule.clone(), field.clone(), target.clone(), tests.to_string()]);
    }
    table
}
