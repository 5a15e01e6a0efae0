//! Dependency of a pack's rule, from which the strict dependency and the default ones are made.

use depguard_core::api::{FieldCondition, OnDelete, Scalar, When};
use serde::de::{Deserialize, Deserializer, Error};
use serde_json::{Map, Value, json};

/// Dependency of a pack's rule. Its own fields say what the default rules let go; without them it is the strict one.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub(super) struct PackEdge {
    /// Conditions on a dependent that leaves the reference to another rule: all of them hold.
    #[serde(default)]
    unless: Vec<FieldCondition>,
    /// Action on a deletion where Kubernetes' boolean `optional` beside the name is true.
    where_optional: Option<OnDelete>,
    /// Action on a deletion of a target that Kubernetes itself keeps while it is in use.
    default_on_delete: Option<OnDelete>,
    when: Option<When>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl<'de> Deserialize<'de> for PackEdge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // This is the derived function, which checks nothing.
        let edge = Self::deserialize(deserializer)?;
        match edge.where_optional.is_some() && edge.optional_path().is_none() {
            true => Err(Error::custom(
                "whereOptional needs fieldRef.path: `optional` stands beside the field that it names",
            )),
            false => Ok(edge),
        }
    }
}

impl PackEdge {
    /// Returns the dependency that refuses whatever refers.
    pub(super) fn strict(&self) -> Value {
        self.edge(self.conditions(), None).into()
    }

    /// Returns the default dependencies, of which at most one counts for a reference. `unless` is that of the rule. A reference
    /// that is marked as optional counts despite `unless`.
    pub(super) fn default(&self, unless: &[FieldCondition]) -> Vec<Value> {
        let unless = if self.unless.is_empty() { unless } else { &self.unless };
        let (Some(on_delete), Some(path)) = (self.where_optional, self.optional_path()) else {
            return self.required(self.conditions(), unless);
        };
        let is_optional = FieldCondition { path, r#in: Some(vec![Scalar::Boolean(true)]), not_in: None };
        let with = |condition| self.conditions().into_iter().chain([condition]).collect();
        let mut edges = self.required(with(negated(&is_optional)), unless);
        let optional = self.edge(with(is_optional), Some(on_delete));
        edges.push(optional.into_iter().chain([("optional".to_owned(), json!(true))]).collect());
        edges
    }

    /// Returns a dependency for each way in which one of the conditions does not hold, while those before it do.
    fn required(&self, conditions: Vec<FieldCondition>, unless: &[FieldCondition]) -> Vec<Value> {
        if unless.is_empty() {
            return vec![self.edge(conditions, self.default_on_delete).into()];
        }
        let first_that_fails = |(index, fails): (usize, &FieldCondition)| {
            let hold = unless.iter().take(index).cloned();
            let conditions = conditions.iter().cloned().chain(hold).chain([negated(fails)]).collect();
            self.edge(conditions, self.default_on_delete).into()
        };
        unless.iter().enumerate().map(first_that_fails).collect()
    }

    fn conditions(&self) -> Vec<FieldCondition> {
        let Some(When { path, r#in, not_in, and }) = self.when.clone() else { return Vec::new() };
        [FieldCondition { path, r#in, not_in }].into_iter().chain(and).collect()
    }

    fn edge(&self, conditions: Vec<FieldCondition>, on_delete: Option<OnDelete>) -> Map<String, Value> {
        let mut edge = self.fields.clone();
        let mut conditions = conditions.into_iter();
        if let Some(FieldCondition { path, r#in, not_in }) = conditions.next() {
            edge.insert("when".to_owned(), json!(When { path, r#in, not_in, and: conditions.collect() }));
        }
        if let Some(on_delete) = on_delete.filter(|it| *it != OnDelete::default()) {
            edge.insert("onDelete".to_owned(), json!(on_delete));
        }
        edge
    }

    /// Returns the path of the boolean beside the name.
    fn optional_path(&self) -> Option<String> {
        let (parent, _) = self.fields.get("fieldRef")?.get("path")?.as_str()?.rsplit_once('.')?;
        Some(format!("{parent}.optional"))
    }
}

fn negated(FieldCondition { path, r#in, not_in }: &FieldCondition) -> FieldCondition {
    FieldCondition { path: path.clone(), r#in: not_in.clone(), not_in: r#in.clone() }
}
