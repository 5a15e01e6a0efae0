//! All rules at once, indexed by the kinds that they protect.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::api::{FailurePolicy, OnDelete};
use crate::decision::{Because, Decision};
use crate::evaluation::{Case, Evaluation};
use crate::graph::Graph;
use crate::home::Home;
use crate::message::Message;
use crate::names::{ExportName, GroupResource, GroupVersionResource, WorkspacePath};
use crate::overrides::OverridePolicy;
use crate::review::{Operation, Review, ReviewError};
use crate::rule::{Dependent, Edge, ExportRef, Place, Reference, Rule, RuleError, RuleKey};
use crate::target::Target;
use crate::workspaces::Workspaces;

mod compiled_rule;

pub use compiled_rule::CompiledRule;

/// The rules that are in force. Made anew when one of them changes; cheap to share behind an `Arc`.
#[derive(Debug)]
pub struct RuleSet {
    home: Home,
    /// By group, then by resource, so that a look-up borrows both from the review.
    edges: HashMap<String, HashMap<String, Vec<Arc<IndexedEdge>>>>,
    graph: Arc<Graph>,
    generations: HashMap<RuleKey, i64>,
    broken: usize,
}

/// What an evaluation needs to know besides the rules.
///
/// The default knows no workspace, as is right in home kubernetes, lets the [usual groups](OverridePolicy::DEFAULT_GROUPS)
/// override, and follows the rules that refuse where they fail.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Context<'a> {
    /// Which logical clusters the rules' workspace paths stand for.
    pub workspaces: &'a Workspaces,
    /// Who may delete what is still referenced.
    pub overrides: &'a OverridePolicy,
    /// Only rules with this failure policy are followed. API servers ask for each policy by itself, since what happens
    /// where no answer comes is theirs to decide.
    pub failure_policy: FailurePolicy,
    /// The provider of the object's kind has [withdrawn](crate::Withdrawal): what it exports is not protected any more.
    pub provider_withdrew: bool,
}

/// An edge together with what its rule says of the dependents.
#[derive(Debug)]
pub(crate) struct IndexedEdge {
    pub(crate) rule: RuleKey,
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) on_delete: OnDelete,
    pub(crate) dependent_export: Option<ExportName>,
    pub(crate) dependent: GroupResource,
    pub(crate) target_export: Option<ExportRef>,
    pub(crate) target: GroupResource,
    pub(crate) check: Check,
}

/// How to find out whether an edge blocks.
#[derive(Debug)]
pub(crate) enum Check {
    /// List the dependents and follow the reference.
    Follow { dependent: Arc<Dependent>, edge: Box<Edge> },
    /// The rule can't be used: where it bears, nothing can be found out.
    Broken(RuleError),
}

/// Where an edge's dependents must be looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Nowhere: it is always about targets of another namespace, or with other labels.
    Nowhere,
    /// In the target's namespace, and among those without one.
    Namespace,
    /// Everywhere.
    Everywhere,
}

/// Why rules that all must be right can't be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the rule `{rule}` can't be used: {source}")]
#[non_exhaustive]
pub struct LoadError {
    /// The name of the first rule that is wrong; empty where it has none.
    pub rule: String,
    /// What is wrong with it.
    pub source: RuleError,
}

impl<'a> Context<'a> {
    /// The same, where the rules' workspace paths stand for these logical clusters.
    pub fn with_workspaces(self, workspaces: &'a Workspaces) -> Self {
        Self { workspaces, ..self }
    }

    /// The same, where these may delete what is still referenced.
    pub fn with_overrides(self, overrides: &'a OverridePolicy) -> Self {
        Self { overrides, ..self }
    }

    /// The same, where the rules of this failure policy are followed.
    pub fn with_failure_policy(self, failure_policy: FailurePolicy) -> Self {
        Self { failure_policy, ..self }
    }

    /// The same, where the provider of the object's kind has withdrawn, or not.
    pub fn with_provider_withdrawn(self, provider_withdrew: bool) -> Self {
        Self { provider_withdrew, ..self }
    }
}

impl Default for Context<'_> {
    fn default() -> Self {
        static NO_WORKSPACES: LazyLock<Workspaces> = LazyLock::new(Workspaces::new);
        static OVERRIDES: LazyLock<OverridePolicy> = LazyLock::new(OverridePolicy::default);
        Self {
            workspaces: &NO_WORKSPACES,
            overrides: &OVERRIDES,
            failure_policy: FailurePolicy::Fail,
            provider_withdrew: false,
        }
    }
}

impl IndexedEdge {
    pub(crate) fn new(rule: &Rule, dependent: &Arc<Dependent>, edge: Edge) -> Self {
        Self {
            rule: rule.key().clone(),
            failure_policy: rule.failure_policy(),
            on_delete: edge.on_delete,
            dependent_export: dependent.export.clone(),
            dependent: dependent.gvr.group_resource(),
            target_export: edge.target.export.clone(),
            target: edge.target.gvr.group_resource(),
            check: Check::Follow { dependent: Arc::clone(dependent), edge: Box::new(edge) },
        }
    }

    /// What its rule wants said besides.
    pub(crate) fn message(&self) -> Option<&Message> {
        match &self.check {
            Check::Follow { edge, .. } => edge.message.as_ref(),
            Check::Broken(_) => None,
        }
    }

    pub(crate) fn reach(&self, target: &Target) -> Reach {
        if let Check::Follow { edge, .. } = &self.check
            && let Reference::Selected(selector) = &edge.reference
            && !selector.matches(|key| target.labels.get(key).map(String::as_str))
        {
            return Reach::Nowhere;
        }
        let Some(namespace) = &target.namespace else { return Reach::Everywhere };
        match &self.check {
            Check::Follow { edge, .. } => match &edge.reference {
                Reference::Selector(_) | Reference::Selected(_) => Reach::Namespace,
                Reference::Field(field) => match &field.place {
                    Place::Own => Reach::Namespace,
                    Place::Fixed(fixed) if fixed == namespace => Reach::Everywhere,
                    Place::Fixed(_) => Reach::Nowhere,
                    Place::Said { .. } => Reach::Everywhere,
                },
            },
            Check::Broken(_) => Reach::Everywhere,
        }
    }
}

impl RuleSet {
    /// Indexes DependencyRules as an API server returns them.
    ///
    /// A rule that can't be used counts as well: where it would have borne, it refuses, and says what is wrong with it.
    pub fn load<'v>(home: Home, objects: impl IntoIterator<Item = &'v Value>) -> Self {
        let rules: Vec<_> = objects.into_iter().map(|object| CompiledRule::read(home, object)).collect();
        Self::new(home, &rules)
    }

    /// Indexes rules that were read before. The set shares their edges, so that a set in which one rule differs from
    /// another costs that rule.
    pub fn new<'r>(home: Home, rules: impl IntoIterator<Item = &'r CompiledRule>) -> Self {
        let mut set =
            Self { home, edges: HashMap::new(), graph: Arc::default(), generations: HashMap::new(), broken: 0 };
        for rule in rules {
            set.insert(rule);
        }
        set.connected()
    }

    /// The same for rules that all must be right, as those must that a provider ships: the first that can't be used is the
    /// error.
    pub fn try_load<'v>(home: Home, objects: impl IntoIterator<Item = &'v Value>) -> Result<Self, LoadError> {
        let objects: Vec<_> = objects.into_iter().collect();
        for object in &objects {
            Rule::parse(home, object).map_err(|source| {
                let name = object.pointer("/metadata/name").and_then(Value::as_str);
                LoadError { rule: name.unwrap_or_default().to_owned(), source }
            })?;
        }
        Ok(Self::load(home, objects))
    }

    /// How many rules were loaded.
    pub fn rules(&self) -> usize {
        self.generations.len()
    }

    /// How many of them can't be used, and refuse where they bear.
    pub fn broken(&self) -> usize {
        self.broken
    }

    /// The generation in which a rule was loaded, whether or not it can be used; 0 where it has none. `None`: it was
    /// not loaded.
    pub fn generation_of(&self, rule: &RuleKey) -> Option<i64> {
        self.generations.get(rule).copied()
    }

    /// The same without the edges to targets of an APIExport whose provider did not accept them: `accepted` is asked for
    /// each. See [`Consents`](crate::Consents).
    pub fn retain_accepted(mut self, accepted: impl Fn(&RuleKey, &ExportRef) -> bool) -> Self {
        let accepted =
            |edge: &Arc<IndexedEdge>| edge.target_export.as_ref().is_none_or(|export| accepted(&edge.rule, export));
        self.edges.values_mut().flat_map(HashMap::values_mut).for_each(|edges| edges.retain(accepted));
        self.connected()
    }

    /// The same, where no cycle is told, so that nothing is let go for being torn down with what refers to it: not all
    /// of the rules may be what they were, and one that is gone would close a cycle that is none any more.
    pub fn without_cycles(self) -> Self {
        Self { graph: Arc::default(), ..self }
    }

    /// Whether any rule names this kind as a target.
    pub fn names(&self, group: &str, resource: &str) -> bool {
        !self.edges_to(group, resource).is_empty()
    }

    /// The workspace paths of the targets' providers, some more than once, and also those of rules that can't be used.
    pub fn workspace_paths(&self) -> impl Iterator<Item = &WorkspacePath> {
        self.edges().filter_map(|edge| edge.target_export.as_ref().map(|export| &export.path))
    }

    /// Begins to decide a review.
    ///
    /// Nothing but a deletion is refused so far, and in home kubernetes a Pod's eviction, which is one. (A kcp serves
    /// none.) What must be asked for, the evaluation tells:
    /// [`decide_with`](Evaluation::decide_with) and [`decide_until`](Evaluation::decide_until) have it answered.
    pub fn evaluate(&self, review: &Review<'_>, context: &Context<'_>) -> Evaluation {
        let deletes = review.operation() == Operation::Delete && review.sub_resource().is_none();
        let evicts = review.is_eviction() && self.home == Home::Kubernetes;
        if !deletes && !evicts {
            return Evaluation::settled(Decision::allow(Because::NotADeletion));
        }
        let edges = self.edges_to(review.group(), review.resource()).iter();
        let edges = edges.filter(|edge| edge.failure_policy == context.failure_policy);
        let edges = edges.filter(|edge| !context.provider_withdrew || edge.target_export.is_none());
        let case = Case::new(self.home, review, edges.cloned().collect(), &self.graph, context);
        if evicts { case.begin_eviction(review) } else { case.begin(review.old_object()) }
    }

    /// Begins to decide the deletion of `object`, of the kind `gvr`, where no API server asks: of a manifest, say. Nobody
    /// asks for it who could override the protection.
    ///
    /// The object is as an API server returns it, or as a file has it. Only its metadata matters.
    pub fn evaluate_deletion(
        &self,
        gvr: &GroupVersionResource,
        object: &Value,
        context: &Context<'_>,
    ) -> Result<Evaluation, ReviewError> {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": "", "operation": "DELETE", "oldObject": object,
                "resource": {"group": gvr.group.as_str(), "version": gvr.version.as_str(), "resource": gvr.resource.as_str()},
            },
        });
        Ok(self.evaluate(&Review::parse(review.to_string().as_bytes())?, context))
    }

    pub(crate) fn home(&self) -> Home {
        self.home
    }

    pub(crate) fn edges(&self) -> impl Iterator<Item = &Arc<IndexedEdge>> {
        self.edges.values().flat_map(HashMap::values).flatten()
    }

    fn edges_to(&self, group: &str, resource: &str) -> &[Arc<IndexedEdge>] {
        self.edges.get(group).and_then(|resources| resources.get(resource)).map_or(&[], Vec::as_slice)
    }

    /// With the graph of the edges that it holds.
    fn connected(mut self) -> Self {
        self.graph = Arc::new(Graph::of(self.edges()));
        self
    }

    fn insert(&mut self, rule: &CompiledRule) {
        let Some(key) = rule.key() else { return };
        self.generations.insert(key.clone(), rule.generation());
        self.broken += usize::from(rule.is_broken());
        for edge in rule.edges() {
            let resources = self.edges.entry(edge.target.group.as_str().to_owned()).or_default();
            resources.entry(edge.target.resource.as_str().to_owned()).or_default().push(Arc::clone(edge));
        }
    }
}
