//! Rules that a command evaluates, and the kinds to which they apply.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use depguard_core::applicability::RuleGrants;
use depguard_core::model::{GroupResource, Resource};
use depguard_core::rule::{Edge, ExportRef, RuleKey};
use depguard_core::{
    ControlPlane, ExportName, Group, LogicalCluster, Rule, RuleError, RuleSet, WorkspacePath, Workspaces,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::documents::{name_of, text};
use crate::cluster::rule_flaws;
use crate::io::exit::Failure;

/// Rules that were read, and the parts that could not be read.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) control_plane: ControlPlane,
    pub(crate) objects: Vec<Arc<Value>>,
    /// Logical clusters of the workspace paths in the rules.
    pub(crate) workspaces: Workspaces,
    /// Grants of the targets' providers: whose rules each provider accepts, as far as they could be read.
    pub(crate) rule_grants: RuleGrants,
    /// The workspace in question and the kinds bound there; `None` in plain Kubernetes.
    pub(crate) bound: Option<Bound>,
    pub(crate) unread: Vec<ReadFailure>,
    /// Rules that can be read, but can't find all of their dependents.
    pub(crate) flawed: Vec<ReadFailure>,
}

/// Kinds of a workspace that come from APIExports.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bound {
    /// Logical cluster of the workspace; `None` if it is unknown.
    pub(crate) cluster: Option<LogicalCluster>,
    pub(crate) kinds: Vec<BoundKind>,
}

/// Bound kind, with its provider and its APIExport.
#[derive(Debug, Clone)]
pub(crate) struct BoundKind {
    pub(crate) kind: GroupResource,
    pub(crate) provider: LogicalCluster,
    pub(crate) export: ExportName,
    /// Path of the provider's workspace as the binding names it.
    pub(crate) path: Option<WorkspacePath>,
    /// Name of the APIResourceSchema that describes the kind.
    pub(crate) schema: Option<String>,
}

/// Rules of [`Rules`], each parsed once.
#[derive(Debug)]
pub(crate) struct CheckedRules<'r> {
    /// Rules that can be used, each with the object that it was parsed from.
    pub(crate) usable: Vec<(&'r Value, Rule)>,
    /// Parts that could not be read, followed by the rules that can't be used, and by those with a flaw, which are
    /// usable besides.
    pub(crate) unread: Vec<ReadFailure>,
}

/// Something that could not be read, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(crate) struct ReadFailure {
    /// The end of the sentence "could not read …".
    pub(crate) what: String,
    pub(crate) why: String,
    #[serde(skip)]
    pub(crate) reach: Reach,
}

/// Kinds of the objects to which an unread part may refer.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    #[default]
    All,
    These(BTreeSet<GroupResource>),
    /// These, and others of the same group or the same resource: the names may be misspelt.
    Near(BTreeSet<GroupResource>),
}

impl Rules {
    /// Builds the rules of a control plane that has none.
    pub(crate) fn none(control_plane: ControlPlane) -> Self {
        Self {
            control_plane,
            objects: Vec::new(),
            workspaces: Workspaces::new(),
            rule_grants: RuleGrants::default(),
            bound: None,
            unread: Vec::new(),
            flawed: Vec::new(),
        }
    }

    /// Builds the rule set as the webhook holds it. A rule that can't be used refuses deletions where it applies.
    pub(crate) fn set(&self) -> RuleSet {
        let all = RuleSet::load(self.control_plane, self.objects.iter().map(|rule| &**rule));
        all.retain_accepted(|rule, export| self.is_accepted(rule, export))
    }

    /// Returns each rule, checked.
    pub(crate) fn parsed(&self) -> impl Iterator<Item = Result<Rule, RuleError>> {
        self.objects.iter().map(|rule| Rule::parse(self.control_plane, rule))
    }

    /// Parses each rule once. A rule that can't be used refuses deletions where it would apply, so that it counts as
    /// unread. So does one that can't find its dependents: nobody knows what refers by it.
    pub(crate) fn check(&self) -> CheckedRules<'_> {
        let mut checked = CheckedRules { usable: Vec::new(), unread: self.unread.clone() };
        for (object, rule) in self.objects.iter().zip(self.parsed()) {
            match rule {
                Ok(rule) => checked.usable.push((object, rule)),
                Err(why) => {
                    let what = format!("rule {}", name_of(object));
                    let reach = Reach::Near(targets_of(object)).or_all();
                    checked.unread.push(ReadFailure { what, why: why.to_string(), reach });
                }
            }
        }
        checked.unread.extend(self.flawed.iter().cloned());
        checked
    }

    /// Returns true if an edge applies to the cluster or workspace in question: in kcp, if both of its ends are bound
    /// there.
    pub(crate) fn applies(&self, rule: &Rule, edge: &Edge) -> bool {
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

    /// Returns true if a rule names a kind that is probably misspelt.
    pub(crate) fn misspells(&self, rule: &Rule) -> bool {
        let about = rule_flaws::about(&rule.key().name);
        self.flawed.iter().any(|flaw| flaw.what == about && matches!(flaw.reach, Reach::Near(_)))
    }

    /// Returns the name of a rule for people: with the path of the rule's workspace, if a binding of the workspace in
    /// question names that path.
    pub(crate) fn shown(&self, rule: &RuleKey) -> String {
        let kinds = self.bound.iter().flat_map(|bound| &bound.kinds);
        let mut paths =
            kinds.filter(|kind| Some(&kind.provider) == rule.cluster.as_ref()).filter_map(|kind| kind.path.as_ref());
        paths.next().map_or_else(|| rule.to_string(), |path| format!("{path}|{}", rule.name))
    }

    /// Returns true if the provider of a target accepts a rule, or if the provider's grants are unknown.
    fn is_accepted(&self, rule: &RuleKey, export: &ExportRef) -> bool {
        match (&rule.cluster, self.workspaces.cluster(&export.path)) {
            (Some(own), Some(provider)) => self.rule_grants.grants(own, provider, &export.name),
            _ => true,
        }
    }

    /// Returns the APIExports that a rule of another provider protects.
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

/// Returns the kinds of a rule's targets; none if one of them can't be read.
pub(crate) fn targets_of(rule: &Value) -> BTreeSet<GroupResource> {
    let dependencies = rule.pointer("/spec/dependencies").and_then(Value::as_array);
    let target = |target: &Value| {
        let group = Group::parse(text(target, "group")?).ok()?;
        Some(GroupResource { group, resource: Resource::parse(text(target, "resource")?).ok()? })
    };
    dependencies.into_iter().flatten().map(target).collect::<Option<_>>().unwrap_or_default()
}

impl Bound {
    fn has(&self, kind: &GroupResource, export: &ExportName, provided: impl Fn(&BoundKind) -> bool) -> bool {
        self.kinds.iter().any(|bound| bound.kind == *kind && bound.export == *export && provided(bound))
    }
}

impl ReadFailure {
    /// Reason for a kind that the API server does not serve.
    pub(crate) const NOT_SERVED: &str = "not served here";

    /// Reason for a part that the caller may not read.
    pub(crate) const NO_RIGHT: &str = "no right to read";

    /// Reason for a kind whose objects can't be listed.
    pub(crate) const NOT_LISTED: &str = "can't be listed";

    /// Builds the failure of reading a file.
    pub(crate) fn of_file(name: &str, why: &Failure) -> Self {
        Self::new(format!("the file `{name}`"), why.message())
    }

    /// Builds the failure to read a part that may refer to any object.
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), reach: Reach::All }
    }

    /// Returns true if the part may refer to an object of that kind.
    pub(crate) fn may_refer_to(&self, kind: &GroupResource) -> bool {
        match &self.reach {
            Reach::All => true,
            Reach::These(kinds) => kinds.contains(kind),
            Reach::Near(kinds) => kinds.iter().any(|near| near.group == kind.group || near.resource == kind.resource),
        }
    }

    /// Returns true if there is no collection of the kind at all.
    pub(crate) fn is_no_collection(&self) -> bool {
        self.is_not_served() || self.why == Self::NOT_LISTED
    }

    pub(crate) fn is_not_served(&self) -> bool {
        self.why == Self::NOT_SERVED
    }
}

impl Reach {
    /// Returns the reach, or that to all kinds if it names none: then nothing is known.
    pub(crate) fn or_all(self) -> Self {
        match self {
            Self::These(kinds) | Self::Near(kinds) if kinds.is_empty() => Self::All,
            known => known,
        }
    }
}

impl fmt::Display for ReadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.why)
    }
}
