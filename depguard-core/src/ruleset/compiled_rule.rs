//! One rule as sets take it in: read once, until it is written anew.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::{Check, IndexedEdge};
use crate::home::Home;
use crate::outline::Outline;
use crate::rule::{Rule, RuleError, RuleKey};

/// A rule that was read, whether or not it can be used. Clones share it.
#[derive(Debug, Clone)]
pub struct CompiledRule(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    /// `None`: not even that can be told which kind the dependents are, so it counts nowhere.
    key: Option<RuleKey>,
    generation: i64,
    broken: bool,
    edges: Vec<Arc<IndexedEdge>>,
}

impl CompiledRule {
    /// Reads a DependencyRule as an API server returns it. One that can't be used refuses where it would have borne.
    pub fn read(home: Home, object: &Value) -> Self {
        match Rule::parse(home, object) {
            Ok(rule) => Self::usable(rule),
            Err(error) => Self::broken(home, object, &error),
        }
    }

    /// Reads of a DependencyRule which kinds it speaks of: where it would have borne it refuses, and says `error`.
    pub fn broken(home: Home, object: &Value, error: &RuleError) -> Self {
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        let Some(outline) = Outline::read(home, object) else {
            return Self(Arc::new(Parts { key: None, generation, broken: true, edges: Vec::new() }));
        };
        let targets: BTreeSet<_> = outline.targets.into_iter().zip(outline.on_delete).collect();
        let edges = targets.into_iter().map(|((target_export, target), on_delete)| {
            Arc::new(IndexedEdge {
                rule: outline.key.clone(),
                failure_policy: outline.failure_policy,
                on_delete,
                dependent_export: outline.dependent_export.clone(),
                dependent: outline.dependent.clone(),
                target_export,
                target,
                check: Check::Broken(error.clone()),
            })
        });
        let edges = edges.collect();
        Self(Arc::new(Parts { key: Some(outline.key), generation, broken: true, edges }))
    }

    fn usable(mut rule: Rule) -> Self {
        let dependent = Arc::new(rule.dependent().clone());
        let edges = rule.take_edges();
        let edges = edges.into_iter().map(|edge| Arc::new(IndexedEdge::new(&rule, &dependent, edge))).collect();
        let generation = rule.generation().unwrap_or_default();
        Self(Arc::new(Parts { key: Some(rule.key().clone()), generation, broken: false, edges }))
    }

    pub(super) fn key(&self) -> Option<&RuleKey> {
        self.0.key.as_ref()
    }

    pub(super) fn generation(&self) -> i64 {
        self.0.generation
    }

    /// Whether it can't be used.
    pub fn is_broken(&self) -> bool {
        self.0.broken
    }

    pub(super) fn edges(&self) -> &[Arc<IndexedEdge>] {
        &self.0.edges
    }
}
