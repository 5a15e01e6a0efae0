//! The rules that a command goes by, and on which kinds they bear.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use depguard_core::{
    Consents, Edge, ExportName, ExportRef, GroupResource, Home, LogicalCluster, Rule, RuleError, RuleKey, RuleSet,
    WorkspacePath, Workspaces,
};
use serde::Serialize;
use serde_json::Value;

/// What was read of rules, and what of them could not be looked at.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) home: Home,
    pub(crate) objects: Vec<Arc<Value>>,
    /// Which logical clusters the rules' workspace paths stand for.
    pub(crate) workspaces: Workspaces,
    /// Whose rules the targets' providers accept, as far as it could be read.
    pub(crate) consents: Consents,
    /// The workspace that is looked at, and what is bound there; `None` in home kubernetes.
    pub(crate) bound: Option<Bound>,
    pub(crate) unread: Vec<Unread>,
}

/// The kinds of a workspace that come from APIExports.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bound {
    /// Which workspace; `None`: it could not be told.
    pub(crate) cluster: Option<LogicalCluster>,
    pub(crate) kinds: Vec<BoundKind>,
}

/// A kind, and whose it is.
#[derive(Debug, Clone)]
pub(crate) struct BoundKind {
    pub(crate) kind: GroupResource,
    pub(crate) provider: LogicalCluster,
    pub(crate) export: ExportName,
    /// The provider's workspace as the binding names it.
    pub(crate) path: Option<WorkspacePath>,
    /// The APIResourceSchema that describes it.
    pub(crate) schema: Option<String>,
}

/// What could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Unread {
    /// The end of "could not look at …".
    pub(crate) what: String,
    pub(crate) why: String,
}

impl Rules {
    /// The rules as the webhook holds them. One that can't be used refuses where it bears.
    pub(crate) fn set(&self) -> RuleSet {
        let all = RuleSet::load(self.home, self.objects.iter().map(|rule| &**rule));
        all.retain_accepted(|rule, export| self.is_accepted(rule, export))
    }

    /// Each rule, checked.
    pub(crate) fn parsed(&self) -> impl Iterator<Item = Result<Rule, RuleError>> {
        self.objects.iter().map(|rule| Rule::parse(self.home, rule))
    }

    /// Whether an edge bears on what is looked at: in kcp, whether both of its ends are bound there.
    pub(crate) fn bears(&self, rule: &Rule, edge: &Edge) -> bool {
        let Some(bound) = &self.bound else { return true };
        let dependent = rule.dependent();
        let is_own = rule.key().cluster.is_some() && rule.key().cluster == bound.cluster;
        let local_end = dependent.export.is_none() || edge.target.export.is_none();
        if local_end && !is_own {
            return false;
        }
        let dependents = dependent.export.as_ref().is_none_or(|export| {
            let provider = rule.key().cluster.as_ref();
            bound.has(&dependent.gvr.group_resource(), export, |kind| Some(&kind.provider) == provider)
        });
        let targets = edge.target.export.as_ref().is_none_or(|export| {
            if !self.is_accepted(rule.key(), export) {
                return false;
            }
            let provider = self.workspaces.cluster(&export.path);
            bound.has(&edge.target.gvr.group_resource(), &export.name, |kind| match provider {
                Some(provider) => kind.provider == *provider,
                None => kind.path.as_ref() == Some(&export.path),
            })
        });
        dependents && targets
    }

    /// A rule as people know it: with the path of its workspace, where the workspace that is looked at has bound an export
    /// by it.
    pub(crate) fn shown(&self, rule: &RuleKey) -> String {
        let kinds = self.bound.iter().flat_map(|bound| &bound.kinds);
        let mut paths =
            kinds.filter(|kind| Some(&kind.provider) == rule.cluster.as_ref()).filter_map(|kind| kind.path.as_ref());
        paths.next().map_or_else(|| rule.to_string(), |path| format!("{path}|{}", rule.name))
    }

    /// Whether the provider of a target accepts a rule, which it does where that can't be told.
    fn is_accepted(&self, rule: &RuleKey, export: &ExportRef) -> bool {
        match (&rule.cluster, self.workspaces.cluster(&export.path)) {
            (Some(own), Some(provider)) => self.consents.accept(own, provider, &export.name),
            _ => true,
        }
    }

    /// The exports of other providers than a rule's own that some rule protects.
    pub(crate) fn foreign_exports(&self) -> BTreeSet<(LogicalCluster, ExportName)> {
        let rules: Vec<_> = self.parsed().flatten().collect();
        let targets = rules.iter().flat_map(|rule| rule.edges().iter().map(move |edge| (rule.key(), &edge.target)));
        let foreign = targets.filter_map(|(rule, target)| {
            let export = target.export.as_ref()?;
            let provider = self.workspaces.cluster(&export.path)?;
            (rule.cluster.as_ref() != Some(provider)).then(|| (provider.clone(), export.name.clone()))
        });
        foreign.collect()
    }
}

impl Bound {
    fn has(&self, kind: &GroupResource, export: &ExportName, provided: impl Fn(&BoundKind) -> bool) -> bool {
        self.kinds.iter().any(|bound| bound.kind == *kind && bound.export == *export && provided(bound))
    }
}

impl Unread {
    /// Why a kind can't be looked at that the API server doesn't serve.
    pub(crate) const NOT_SERVED: &str = "not served here";

    pub(crate) fn is_not_served(&self) -> bool {
        self.why == Self::NOT_SERVED
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.why)
    }
}
