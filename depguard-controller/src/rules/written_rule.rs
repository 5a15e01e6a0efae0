//! Content of a rule as it was written, parsed once until the rule is written anew.

use std::sync::{Arc, Mutex, PoisonError};

use depguard_core::api::FailurePolicy;
use depguard_core::model::{GroupResource, ObjectName};
use depguard_core::rule::{ExportRef, PartialRule, RuleKey, RuleVersion};
use depguard_core::{ControlPlane, LogicalCluster, Rule, RuleError};
use depguard_kcp::{Allowance, Derived, ObjectText, Snapshot, Watched, WatchedObject};
use serde_json::Value;

use crate::model::reference_configuration::CheckedReferences;

/// Reason of the condition of rules that are too many.
pub(crate) const ALLOWANCE_EXCEEDED: &str = "AllowanceExceeded";

/// Content of a rule, as far as it can be read. Clones share the content.
#[derive(Debug, Clone)]
pub(crate) struct WrittenRule(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    key: RuleKey,
    version: RuleVersion,
    failure_policy: FailurePolicy,
    rule: Result<Rule, Unusable>,
    targets: Vec<WrittenTarget>,
    references: Option<CheckedReferences>,
}

/// Reason why a rule can't be used, in the form of its conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unusable {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Target of a rule.
#[derive(Debug, Clone)]
pub(crate) struct WrittenTarget {
    /// Index in `spec.dependencies`.
    pub(crate) dependency: usize,
    pub(crate) export: Option<ExportRef>,
    pub(crate) kind: GroupResource,
    /// Names that the dependency excludes.
    pub(crate) excluded: Vec<ObjectName>,
}

/// All rules, each parsed once until it is written anew. Clones share what is parsed.
#[derive(Debug, Clone)]
pub(crate) struct WrittenRules {
    control_plane: ControlPlane,
    allowance: Allowance,
    parsed: Arc<Mutex<Derived<WrittenRule>>>,
}

impl WrittenRules {
    pub(crate) fn new(control_plane: ControlPlane, allowance: Allowance) -> Self {
        Self { control_plane, allowance, parsed: Arc::default() }
    }

    /// Returns the rules of a snapshot, each with its text.
    pub(crate) fn read(&self, state: &Snapshot) -> Vec<(Arc<ObjectText>, WrittenRule)> {
        let rules = state.resource(Watched::RULES.plural).map(Arc::as_ref);
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        parsed.refresh(rules, |rule| WrittenRule::from_watched(self.control_plane, self.allowance, rule));
        let objects = rules.into_iter().flat_map(|rules| &rules.objects);
        objects.filter_map(|(key, rule)| Some((Arc::clone(&rule.text), parsed.get(key)?.clone()))).collect()
    }

    /// Returns stand-ins of the rules that are too many to be stored one by one.
    pub(crate) fn further(&self, state: &Snapshot) -> Vec<WrittenRule> {
        let rules = state.resource(Watched::RULES.plural).into_iter().flat_map(|rules| &rules.further);
        rules.map(|about| WrittenRule::of_too_many(self.control_plane, self.allowance, about)).collect()
    }
}

impl WrittenRule {
    /// Reads a watched rule, of which the reflector may hold only a part.
    fn from_watched(control_plane: ControlPlane, allowance: Allowance, rule: &WatchedObject) -> Self {
        let object = rule.text.read();
        if rule.shortened {
            Self::of_too_many(control_plane, allowance, &object)
        } else {
            Self::read(control_plane, &object)
        }
    }

    /// Reads the remaining part of a rule, or of several, when there are too many.
    pub(crate) fn of_too_many(control_plane: ControlPlane, allowance: Allowance, left: &Value) -> Self {
        Self::broken(control_plane, left, &allowance.exceeded(control_plane))
    }

    pub(crate) fn read(control_plane: ControlPlane, object: &Value) -> Self {
        match Rule::parse(control_plane, object) {
            Ok(rule) => {
                let targets = rule.edges().iter().map(|edge| WrittenTarget {
                    dependency: edge.index,
                    export: edge.target.export.clone(),
                    kind: edge.target.gvr.group_resource(),
                    excluded: edge.exclude_names.clone(),
                });
                Self(Arc::new(Parts {
                    key: rule.key().clone(),
                    version: RuleVersion::of(object),
                    failure_policy: rule.failure_policy(),
                    targets: targets.collect(),
                    references: CheckedReferences::from_rule(&rule),
                    rule: Ok(rule),
                }))
            }
            Err(error) => Self::broken(control_plane, object, &error),
        }
    }

    /// Returns a rule that can't be used. Its failure policy decides wherever the rule applies. API servers ask the
    /// webhook only where the rule's targets are installed.
    fn broken(control_plane: ControlPlane, object: &Value, error: &RuleError) -> Self {
        let partial = PartialRule::read(control_plane, object)
            .filter(|partial| control_plane == ControlPlane::Kubernetes || partial.key.cluster.is_some());
        let references = partial.as_ref().and_then(CheckedReferences::from_partial);
        let (key, targets, failure_policy) = match partial {
            Some(partial) => (partial.key, partial.targets, partial.failure_policy),
            None => (key_of(control_plane, object), Vec::new(), FailurePolicy::Fail),
        };
        // What would have narrowed the rule narrows nothing.
        let target = |(dependency, (export, kind))| WrittenTarget { dependency, export, kind, excluded: Vec::new() };
        let targets = targets.into_iter().enumerate().map(target).collect();
        let (version, rule) = (RuleVersion::of(object), Err(Unusable::new(error)));
        Self(Arc::new(Parts { key, version, failure_policy, rule, targets, references }))
    }

    pub(crate) fn key(&self) -> &RuleKey {
        &self.0.key
    }

    pub(crate) fn version(&self) -> &RuleVersion {
        &self.0.version
    }

    pub(crate) fn failure_policy(&self) -> FailurePolicy {
        self.0.failure_policy
    }

    /// Returns the rule, or the reason why it can't be used.
    pub(crate) fn rule(&self) -> Result<&Rule, &Unusable> {
        self.0.rule.as_ref()
    }

    /// Returns the targets, also those that could be read from a rule that can't be used.
    pub(crate) fn targets(&self) -> &[WrittenTarget] {
        &self.0.targets
    }

    /// Returns the references to check when they are made, also those of a rule that can't be used; `None` if the rule
    /// looks for no target.
    pub(crate) fn references(&self) -> Option<&CheckedReferences> {
        self.0.references.as_ref()
    }
}

impl Unusable {
    fn new(error: &RuleError) -> Self {
        let reason = match error {
            RuleError::Allowance { .. } => ALLOWANCE_EXCEEDED,
            _ => "Invalid",
        };
        Self { reason, message: error.to_string() }
    }
}

/// Returns the key of a rule whose spec can't be read at all.
fn key_of(control_plane: ControlPlane, object: &Value) -> RuleKey {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let cluster = match control_plane {
        ControlPlane::Kcp => text("/metadata/annotations/kcp.io~1cluster"),
        ControlPlane::Kubernetes => None,
    };
    RuleKey {
        cluster: cluster.and_then(|cluster| LogicalCluster::parse(cluster).ok()),
        name: text("/metadata/name").unwrap_or_default().to_owned(),
    }
}
