//! Set of all rules, indexed by the kinds that they protect.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::model::api::{FailurePolicy, OnDelete, OnMissing};
use crate::model::control_plane::ControlPlane;
use crate::model::names::WorkspacePath;
use crate::rule::compiled_edge::CompiledEdge;
use crate::rule::compiled_rule::CompiledRule;
use crate::rule::cycles::Graph;
use crate::rule::kind_edges::KindEdges;
use crate::rule::reference_constraint::ReferenceConstraint;
use crate::rule::{ExportRef, Rule, RuleError, RuleKey, RuleVersion};

/// The rules in force. A new set is built when a rule changes; sharing a set behind an `Arc` is cheap.
#[derive(Debug)]
pub struct RuleSet {
    control_plane: ControlPlane,
    /// Edges by failure policy, by group, then by resource, so that a look-up borrows both from the review.
    edges: HashMap<FailurePolicy, HashMap<String, HashMap<String, Arc<KindEdges>>>>,
    /// Constraints on the references of dependents, by the dependents' group, then by their resource.
    constraints: HashMap<String, HashMap<String, Vec<Arc<ReferenceConstraint>>>>,
    /// Cycles of edges that refuse deletions.
    graph: Arc<Graph>,
    /// Cycles of edges that refuse dangling references.
    constraint_graph: Arc<Graph>,
    /// See [`Self::derived`].
    derived: OnceLock<Arc<dyn Any + Send + Sync>>,
    versions: HashMap<RuleKey, RuleVersion>,
    broken: usize,
}

/// The reason why [`RuleSet::try_load`] fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the rule `{rule}` can't be used: {source}")]
#[non_exhaustive]
pub struct LoadError {
    /// The name of the first rule with an error; empty if it has none.
    pub rule: String,
    /// The error in the rule.
    pub source: RuleError,
}

impl RuleSet {
    /// Indexes DependencyRules as an API server returns them.
    ///
    /// A rule that can't be used counts as well: it refuses wherever it would have applied, and the refusal contains
    /// the error.
    pub fn load<'v>(control_plane: ControlPlane, objects: impl IntoIterator<Item = &'v Value>) -> Self {
        let rules: Vec<_> = objects.into_iter().map(|object| CompiledRule::read(control_plane, object)).collect();
        Self::new(control_plane, &rules)
    }

    /// Indexes rules that were read before. The sets share the edges of a rule, so changing one rule costs only that
    /// rule.
    pub fn new<'r>(control_plane: ControlPlane, rules: impl IntoIterator<Item = &'r CompiledRule>) -> Self {
        let mut set = Self {
            control_plane,
            edges: HashMap::new(),
            constraints: HashMap::new(),
            graph: Arc::default(),
            constraint_graph: Arc::default(),
            derived: OnceLock::new(),
            versions: HashMap::new(),
            broken: 0,
        };
        let mut edges = Vec::new();
        for rule in rules {
            set.insert(rule);
            edges.extend(rule.edges().iter().cloned());
        }
        set.connected(edges)
    }

    /// Indexes DependencyRules that must all be right, such as the rules that a provider ships. Fails with the first
    /// rule that can't be used.
    pub fn try_load<'v>(
        control_plane: ControlPlane,
        objects: impl IntoIterator<Item = &'v Value>,
    ) -> Result<Self, LoadError> {
        let objects: Vec<_> = objects.into_iter().collect();
        for object in &objects {
            Rule::parse(control_plane, object).map_err(|source| {
                let name = object.pointer("/metadata/name").and_then(Value::as_str);
                LoadError { rule: name.unwrap_or_default().to_owned(), source }
            })?;
        }
        Ok(Self::load(control_plane, objects))
    }

    /// Returns the number of loaded rules.
    pub fn rules(&self) -> usize {
        self.versions.len()
    }

    /// Returns the number of rules that can't be used, and that refuse where they apply.
    pub fn broken(&self) -> usize {
        self.broken
    }

    /// Returns the version in which a rule was loaded, usable or not. `None`: the rule was not loaded.
    pub(crate) fn version_of(&self, rule: &RuleKey) -> Option<&RuleVersion> {
        self.versions.get(rule)
    }

    /// Returns the set without the edges to targets of APIExports whose providers don't accept them. `accepted`
    /// decides on each edge. See [`RuleGrants`](crate::applicability::RuleGrants).
    pub fn retain_accepted(mut self, accepted: impl Fn(&RuleKey, &ExportRef) -> bool) -> Self {
        let is_accepted =
            |edge: &&Arc<CompiledEdge>| edge.target_export.as_ref().is_none_or(|export| accepted(&edge.rule, export));
        let edges = self.edges().filter(is_accepted).cloned().collect();
        for constraints in self.constraints.values_mut().flat_map(HashMap::values_mut) {
            let kept = constraints.iter().filter_map(|known| ReferenceConstraint::retain_accepted(known, &accepted));
            *constraints = kept.collect();
        }
        self.connected(edges)
    }

    /// Returns the set without its cycles, so that no edge of a cycle is released during a teardown. Use it if some
    /// rules may be outdated: a rule that was deleted could close a cycle that no longer exists.
    pub fn without_cycles(self) -> Self {
        Self { graph: Arc::default(), constraint_graph: Arc::default(), ..self }
    }

    /// Returns true if any rule names this kind as a target.
    pub fn names(&self, group: &str, resource: &str) -> bool {
        let of_policy = |policy: &FailurePolicy| self.edges_to(group, resource, *policy);
        self.edges.keys().filter_map(of_policy).any(|edges| edges.kind().is_some())
    }

    /// Returns true if a rule looks for the targets of this kind's references.
    pub fn constrains(&self, group: &str, resource: &str) -> bool {
        !self.constraints_of(group, resource).is_empty()
    }

    /// Returns the workspace paths of the targets' providers, including those of rules that can't be used. A path may
    /// occur more than once.
    pub fn workspace_paths(&self) -> impl Iterator<Item = &WorkspacePath> {
        self.edges().filter_map(|edge| edge.target_export.as_ref().map(|export| &export.path))
    }

    pub(crate) fn constraint_graph(&self) -> &Arc<Graph> {
        &self.constraint_graph
    }

    pub(crate) fn constraints_of(&self, group: &str, resource: &str) -> &[Arc<ReferenceConstraint>] {
        self.constraints.get(group).and_then(|resources| resources.get(resource)).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Returns what the code that evaluates rules keeps of the set: data that is made once, and of a type that this module
    /// doesn't know. There is one such type.
    pub(crate) fn derived<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let derived = self.derived.get_or_init(|| Arc::<T>::default());
        Arc::clone(derived).downcast().unwrap_or_default()
    }

    pub(crate) fn control_plane(&self) -> ControlPlane {
        self.control_plane
    }

    pub(crate) fn edges(&self) -> impl Iterator<Item = &Arc<CompiledEdge>> {
        self.edges.values().flat_map(HashMap::values).flat_map(HashMap::values).flat_map(|edges| edges.edges())
    }

    /// Returns the edges to a kind, with one failure policy; `None` if no rule names the kind.
    pub(crate) fn edges_to(&self, group: &str, resource: &str, policy: FailurePolicy) -> Option<&Arc<KindEdges>> {
        self.edges.get(&policy)?.get(group)?.get(resource)
    }

    /// Returns the edges whose target's kind no APIExport serves.
    pub(crate) fn without_exported_targets(&self, edges: &KindEdges) -> Arc<KindEdges> {
        let local = edges.edges().iter().filter(|edge| edge.target_export.is_none());
        Arc::new(KindEdges::new(local.cloned(), &self.graph))
    }

    /// Returns the set with these edges, and with graphs of what it holds.
    fn connected(mut self, edges: Vec<Arc<CompiledEdge>>) -> Self {
        let refuses = |edge: &&Arc<CompiledEdge>| edge.on_delete == OnDelete::Deny;
        self.graph = Arc::new(Graph::from_edges(edges.iter().filter(refuses)));
        let mut kinds: HashMap<_, Vec<_>> = HashMap::new();
        for edge in edges {
            kinds.entry((edge.failure_policy, edge.target.clone())).or_default().push(edge);
        }
        self.edges.clear();
        for ((policy, kind), edges) in kinds {
            let groups = self.edges.entry(policy).or_default();
            let resources = groups.entry(kind.group.as_str().to_owned()).or_default();
            resources.insert(kind.resource.as_str().to_owned(), Arc::new(KindEdges::new(edges, &self.graph)));
        }
        // An object may name itself, or nothing, so a kind that refers to itself needs no other object first.
        let needs_another =
            |edge: &&Arc<CompiledEdge>| edge.on_missing() == OnMissing::Deny && edge.target != edge.dependent;
        let constraints = self.constraints.values().flat_map(HashMap::values).flatten();
        let edges = constraints.flat_map(|constraint| constraint.edges()).filter(needs_another);
        self.constraint_graph = Arc::new(Graph::from_edges(edges));
        self
    }

    fn insert(&mut self, rule: &CompiledRule) {
        let Some(key) = rule.key() else { return };
        self.versions.insert(key.clone(), rule.version().clone());
        self.broken += usize::from(rule.is_broken());
        if let Some(constraint) = rule.constraint() {
            let resources = self.constraints.entry(constraint.dependent.group.as_str().to_owned()).or_default();
            let resource = constraint.dependent.resource.as_str().to_owned();
            resources.entry(resource).or_default().push(Arc::clone(constraint));
        }
    }
}
